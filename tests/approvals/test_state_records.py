"""The result of each event in a card's record, field by field. Nothing else changes."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from bot.approvals import state
from bot.approvals.state import GIVEN_UP_MESSAGE, IllegalTransitionError, keep_copies, record_delivery
from bot.chat.messages import Click, MessageRef
from bot.core.clock import to_ms
from bot.core.records import Approval, ApprovalState, ApprovalWaiter, EffectState, OpenCard, compute_seal
from tests.approvals.approval_walk import (
    BEGIN,
    LASTS,
    OTHER,
    OWNER,
    PLACE,
    REOPENINGS,
    build_card,
    list_events,
    make_period,
    make_plan,
)
from tests.harness.corpus import corpus
from tools.effect_parts import PartState
from tools.spec import CardField, Gate, ReceiptLine, TextRef, ToolOutcome

NOW = BEGIN + timedelta(hours=1)
NOW_MS, OVER_MS = to_ms(NOW), to_ms(NOW + LASTS)
OLD, NEW = MessageRef(channel="D1", ts="1"), MessageRef(channel="D2", ts="2")
FIRST, SECOND = (ApprovalWaiter(run=f"R{n}", uid=f"u{n}", lane="D1") for n in (1, 2))
BUSY = TextRef(key="error.busy")
CLICK = Click(id="c1", approval="A", version=3, choice="send", person=OTHER, place=PLACE, form={"opinion": "as agreed"})
AGAIN = CLICK.model_copy(update={"id": "c2"})
OUTCOME, MAYBE = ToolOutcome(data={}, summary=TextRef(key="done")), ReceiptLine(text=TextRef(key="maybe"))
HALF, WHOLE = {"U3": PartState.BEGUN}, {"U3": PartState.DONE}
ADVICE = CardField(label="advice", value="approve")

OPEN = build_card(make_plan(1), version=3, run="R0", waiters=(FIRST,), copies=((OWNER, OLD),), delivered_version=2)
PRESSED = {"decided_by": OTHER, "choice": "send", "form": {"opinion": "as agreed"}, "press_id": "c1", "decided_ms": 5}
DECIDED = OPEN.model_copy(update={**PRESSED, "state": ApprovalState.DECIDED, "removed_characters": 2})
STARTED = DECIDED.model_copy(update={"effect": EffectState.STARTED, "attempts": 1, "parts": HALF})
FAILED_BEFORE = STARTED.model_copy(update={"failure": TextRef(key="before"), "possible_change": MAYBE})
FAILED, UNKNOWN, DONE = (
    STARTED.model_copy(update={"effect": effect})
    for effect in (EffectState.FAILED, EffectState.UNKNOWN, EffectState.DONE)
)
EXPIRED, CLOSED = (
    OPEN.model_copy(update={"state": one, "choice": why})
    for one, why in ((ApprovalState.EXPIRED, ""), (ApprovalState.CLOSED, "withdrawn"))
)
REOPENED = {
    "version": 4,
    "proposal": make_plan(2),
    "seal": compute_seal("t", make_plan(2)),
    "created_ms": NOW_MS,
    "expires_ms": OVER_MS,
}
UNPRESSED = {
    **dict.fromkeys(("decided_by", "choice", "press_id"), ""),
    "form": {},
    "decided_ms": 0,
    "state": ApprovalState.OPEN,
    "effect": EffectState.NONE,
}
PERIOD = make_period(NOW)


Case = tuple[Callable[..., Approval | None], Approval, tuple[Any, ...], dict[str, Any], dict[str, object]]
CASES: dict[str, Case] = {
    "redraft": (state.open_next_version, OPEN, (make_plan(2), PERIOD), {}, REOPENED),
    "renew": (
        state.open_next_version,
        EXPIRED,
        (make_plan(2), PERIOD),
        {"after": ApprovalState.EXPIRED},
        {**REOPENED, "state": ApprovalState.OPEN},
    ),
    "confirm again": (
        state.open_next_version,
        STARTED,
        (make_plan(2), PERIOD),
        {"after": ApprovalState.DECIDED},
        {**REOPENED, **UNPRESSED},
    ),
    "waited for": (state.add_waiter, OPEN, (SECOND,), {}, {"waiters": (FIRST, SECOND)}),
    "expired": (state.expire_approval, OPEN, (3, NOW), {}, {"state": ApprovalState.EXPIRED, "decided_ms": NOW_MS}),
    "advised": (state.add_suggestion, OPEN, (3, ADVICE), {}, {"proposal": make_plan(1).with_card_fields((ADVICE,))}),
    "closed": (
        state.close_approval,
        OPEN,
        (OTHER, "withdrawn", NOW),
        {},
        {"state": ApprovalState.CLOSED, "decided_by": OTHER, "choice": "withdrawn", "decided_ms": NOW_MS},
    ),
    "taken back": (
        state.cancel_approval,
        OPEN,
        (OWNER, "cancel", NOW),
        {},
        {
            "state": ApprovalState.CANCELLED,
            "decided_by": OWNER,
            "choice": "cancel",
            "press_id": "cancel:A:3",
            "decided_ms": NOW_MS,
        },
    ),
    "stopped": (
        state.cancel_approval,
        OPEN,
        (OTHER, "stopped", NOW),
        {},
        {
            "state": ApprovalState.CANCELLED,
            "decided_by": OTHER,
            "choice": "stopped",
            "press_id": "stop:A:3",
            "decided_ms": NOW_MS,
        },
    ),
    "decided": (
        state.decide_approval,
        OPEN,
        (CLICK, 2, NOW),
        {"runs": True},
        {**PRESSED, "state": ApprovalState.DECIDED, "removed_characters": 2, "decided_ms": NOW_MS},
    ),
    "cancelled": (
        state.decide_approval,
        OPEN,
        (CLICK.model_copy(update={"form": None}), 0, NOW),
        {"runs": False},
        {
            "decided_by": OTHER,
            "choice": "send",
            "press_id": "c1",
            "state": ApprovalState.CANCELLED,
            "decided_ms": NOW_MS,
        },
    ),
    "started": (state.start_effect, DECIDED, (), {}, {"effect": EffectState.STARTED, "attempts": 1}),
    "a part done": (state.change_parts, STARTED, (WHOLE,), {}, {"parts": WHOLE}),
    "postponed": (state.change_parts, STARTED, (WHOLE, BUSY), {}, {"parts": WHOLE, "failure": BUSY}),
    "started again": (
        state.start_effect,
        FAILED_BEFORE.model_copy(update={"effect": EffectState.NONE}),
        (),
        {},
        {"effect": EffectState.STARTED, "attempts": 2, "failure": None},
    ),
    "done": (
        state.complete_effect,
        FAILED_BEFORE,
        (OUTCOME, WHOLE),
        {},
        {"effect": EffectState.DONE, "outcome": OUTCOME, "parts": WHOLE, "failure": None, "possible_change": None},
    ),
    "failed": (
        state.fail_effect,
        STARTED,
        (TextRef(key="error.x"), "x", MAYBE, WHOLE),
        {},
        {
            "effect": EffectState.FAILED,
            "failure": TextRef(key="error.x"),
            "failure_for_model": "x",
            "possible_change": MAYBE,
            "parts": WHOLE,
        },
    ),
    "failed before any part": (
        state.fail_effect,
        STARTED,
        (TextRef(key="error.x"), "x"),
        {},
        {"effect": EffectState.FAILED, "failure": TextRef(key="error.x"), "failure_for_model": "x"},
    ),
    "lost": (state.lose_effect, STARTED, (WHOLE,), {}, {"effect": EffectState.UNKNOWN, "parts": WHOLE}),
    "lost before any part": (state.lose_effect, STARTED, (), {}, {"effect": EffectState.UNKNOWN}),
    "given up when begun": (state.abandon_effect, STARTED, (), {}, {"effect": EffectState.UNKNOWN}),
    "given up in doubt": (state.abandon_effect, DECIDED, (), {"is_doubted": True}, {"effect": EffectState.UNKNOWN}),
    "given up before": (
        state.abandon_effect,
        DECIDED,
        (),
        {},
        {"effect": EffectState.FAILED, "failure": TextRef(key="error.given_up"), "failure_for_model": GIVEN_UP_MESSAGE},
    ),
    "retried": (state.retry_effect, FAILED, (CLICK,), {}, {"version": 4, "effect": EffectState.NONE}),
    "done again": (
        state.retry_effect,
        UNKNOWN,
        (AGAIN,),
        {},
        {"version": 4, "effect": EffectState.NONE, "press_id": "c2"},
    ),
    "confirmed": (
        state.confirm_effect,
        UNKNOWN,
        (AGAIN,),
        {},
        {"version": 4, "effect": EffectState.DONE, "press_id": "c2"},
    ),
    "settled": (state.settle_approval, DONE, (), {}, {"waiters": ()}),
    "settled without a decision": (state.settle_approval, CLOSED, (), {}, {"waiters": ()}),
}


@corpus("name", CASES)
def test_an_event_changes_what_it_says(name: str) -> None:
    happen, before, args, named, expected = CASES[name]
    after = happen(before, *args, **named)
    assert after and {one: value for one, value in after if value != getattr(before, one)} == expected


def test_every_event_is_told_field_by_field() -> None:
    told = {happen.__name__ for happen, *_ in CASES.values()} | {"create_approval"}
    assert told - {"open_next_version"} | set(REOPENINGS) & set(CASES) == set(list_events())


DELIVERIES: tuple[tuple[dict[str, MessageRef], tuple[tuple[str, MessageRef], ...]], ...] = (
    ({OTHER: NEW}, ((OWNER, OLD), (OTHER, NEW))),
    ({}, ((OWNER, OLD),)),  # where it stood
    ({OTHER: OLD}, ((OTHER, OLD),)),  # to somebody else there
)


@pytest.mark.parametrize("before", [OPEN, DECIDED, EXPIRED, CLOSED])
def test_copies_change_in_every_state_and_nothing_else_does(before: Approval) -> None:
    for copies, expected in DELIVERIES:
        after = record_delivery(before, copies)
        assert after == before.model_copy(update={"copies": expected, "delivered_version": 3})
    assert keep_copies(before, ()) == before.model_copy(update={"copies": ()})


@pytest.mark.parametrize("before", [None, EXPIRED, FAILED])
def test_a_fresh_card_keeps_of_the_one_before_its_copies_and_counts_on(before: Approval | None) -> None:
    plan = make_plan(2)
    waiter = ApprovalWaiter(run="R7", uid="u", lane="D1")
    asked = OpenCard(approval="A", tool="u", gate=Gate.APPROVE, proposal=plan, caller="U9", place=PLACE, waiter=waiter)
    card = state.create_approval(before, asked, PERIOD)
    assert card == build_card(
        plan,
        version=before.version + 1 if before else 1,
        copies=((OWNER, OLD),) if before else (),
        tool="u",
        gate=Gate.APPROVE,
        caller="U9",
        run="R7",
        created_ms=NOW_MS,
        expires_ms=OVER_MS,
    )


@corpus(
    ("card", "code"),
    [
        (EXPIRED, "expired"),
        (DECIDED, "already"),
        (OPEN.model_copy(update={"version": 4}), "stale"),
        (OPEN.model_copy(update={"expires_ms": NOW_MS}), "expired"),
    ],
)
def test_a_decision_that_is_refused_says_why(card: Approval, code: str) -> None:
    with pytest.raises(IllegalTransitionError, match=f"^{code}$") as refused:
        state.decide_approval(card, CLICK, 0, NOW, runs=True)
    assert refused.value.code == code


def test_any_other_event_that_does_not_fit_is_refused_as_well() -> None:
    with pytest.raises(IllegalTransitionError, match="already"):
        state.start_effect(OPEN)
