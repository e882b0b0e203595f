"""The result of each event in a card's record, field by field, and its writes. Nothing else changes."""

from datetime import timedelta
from typing import Any

import pytest

from bot.approvals.state import (
    GIVEN_UP_MESSAGE,
    ApprovalEvent,
    CardCancelled,
    CardEdited,
    CardExpired,
    CardRedrafted,
    CardRenewed,
    CardRequested,
    CardSettled,
    ClaimDecision,
    ConfirmationRequired,
    DecisionMade,
    EffectAbandoned,
    EffectConfirmed,
    EffectFailed,
    EffectLost,
    EffectRetried,
    EffectStarted,
    EffectSucceeded,
    IllegalTransitionError,
    JournalLine,
    NotifyWaiter,
    PartsChanged,
    ReminderDue,
    SaveEnd,
    SaveOpening,
    SaveRecord,
    SubjectClosed,
    SuggestionAdded,
    WaiterAdded,
    keep_copies,
    record_delivery,
    transition,
    try_transition,
)
from bot.chat.messages import Click, MessageRef
from bot.core.clock import to_ms
from bot.core.records import Approval, ApprovalState, ApprovalWaiter, EffectState, OpenCard, compute_seal
from tests.approvals.approval_walk import BEGIN, LASTS, OTHER, OWNER, PERIOD, PLACE, build_card, list_kinds, make_plan
from tests.harness.corpus import corpus
from tools.effect_parts import PartState
from tools.spec import CardField, Gate, ReceiptLine, TextRef, ToolOutcome

NOW = BEGIN + timedelta(hours=1)
NOW_MS, OVER_MS = to_ms(NOW), to_ms(NOW + LASTS)
OLD, NEW = MessageRef(channel="D1", ts="1"), MessageRef(channel="D2", ts="2")
FIRST, SECOND = (ApprovalWaiter(run=f"R{n}", uid=f"u{n}", lane="D1") for n in (1, 2))
CLICK = Click(id="c1", approval="A", version=3, choice="send", person=OTHER, place=PLACE, form={"opinion": "as agreed"})
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
ANEW: dict[str, Any] = {"proposal": make_plan(2), "period": PERIOD}


def line(kind: str, person: str = "", run: str = "R0", **details: str) -> JournalLine:
    return JournalLine(kind, person=person, run=run, details=details)


Case = tuple[Approval, ApprovalEvent, dict[str, object], tuple[object, ...]]
CASES: dict[str, Case] = {
    "redrafted": (OPEN, CardRedrafted(**ANEW), REOPENED, (SaveOpening(),)),
    "edited": (
        OPEN,
        CardEdited(**ANEW, person=OTHER),
        REOPENED,
        (SaveOpening(), line("approval.edited", OTHER)),
    ),
    "renewed": (
        EXPIRED,
        CardRenewed(**ANEW, person=OTHER),
        {**REOPENED, "state": ApprovalState.OPEN},
        (SaveOpening(), line("approval.renewed", OTHER)),
    ),
    "asked again": (
        STARTED,
        ConfirmationRequired(**ANEW),
        {**REOPENED, **UNPRESSED},
        (SaveOpening(), line("approval.asked_again", OTHER)),
    ),
    "waited for": (OPEN, WaiterAdded(SECOND), {"waiters": (FIRST, SECOND)}, ()),
    "reminded": (OPEN, ReminderDue(3), {}, (line("approval.reminded"),)),
    "expired": (OPEN, CardExpired(3), {"state": ApprovalState.EXPIRED, "decided_ms": NOW_MS}, ()),
    "advised": (
        OPEN,
        SuggestionAdded(3, ADVICE, "approve"),
        {"proposal": make_plan(1).with_card_fields((ADVICE,))},
        (SaveRecord(), line("approval.advised", recommendation="approve")),
    ),
    "closed": (
        OPEN,
        SubjectClosed(OTHER, "withdrawn"),
        {"state": ApprovalState.CLOSED, "decided_by": OTHER, "choice": "withdrawn", "decided_ms": NOW_MS},
        (),
    ),
    "taken back": (
        OPEN,
        CardCancelled(OWNER, "cancel"),
        {
            "state": ApprovalState.CANCELLED,
            "decided_by": OWNER,
            "choice": "cancel",
            "press_id": "cancel:A:3",
            "decided_ms": NOW_MS,
        },
        (),
    ),
    "stopped": (
        OPEN,
        CardCancelled(OTHER, "stopped"),
        {
            "state": ApprovalState.CANCELLED,
            "decided_by": OTHER,
            "choice": "stopped",
            "press_id": "stop:A:3",
            "decided_ms": NOW_MS,
        },
        (),
    ),
    "decided": (
        OPEN,
        DecisionMade(CLICK, 2, runs=True),
        {**PRESSED, "state": ApprovalState.DECIDED, "removed_characters": 2, "decided_ms": NOW_MS},
        (ClaimDecision(CLICK, ApprovalState.DECIDED, NOW_MS),),
    ),
    "cancelled": (
        OPEN,
        DecisionMade(CLICK.model_copy(update={"form": None}), 0, runs=False),
        {
            "decided_by": OTHER,
            "choice": "send",
            "press_id": "c1",
            "state": ApprovalState.CANCELLED,
            "decided_ms": NOW_MS,
        },
        (ClaimDecision(CLICK.model_copy(update={"form": None}), ApprovalState.CANCELLED, NOW_MS),),
    ),
    "started": (
        DECIDED,
        EffectStarted(),
        {"effect": EffectState.STARTED, "attempts": 1},
        (SaveRecord(), line("effect.started", OTHER)),
    ),
    "a part done": (STARTED, PartsChanged(WHOLE), {"parts": WHOLE}, (SaveRecord(),)),
    "done": (
        FAILED_BEFORE,
        EffectSucceeded(OUTCOME, WHOLE),
        {"effect": EffectState.DONE, "outcome": OUTCOME, "parts": WHOLE, "failure": None, "possible_change": None},
        (),
    ),
    "failed": (
        STARTED,
        EffectFailed(failure=TextRef(key="error.x"), why="x", possible_change=MAYBE, parts=WHOLE),
        {
            "effect": EffectState.FAILED,
            "failure": TextRef(key="error.x"),
            "failure_for_model": "x",
            "possible_change": MAYBE,
            "parts": WHOLE,
        },
        (),
    ),
    "failed before any part": (
        STARTED,
        EffectFailed(failure=TextRef(key="error.x"), why="x"),
        {"effect": EffectState.FAILED, "failure": TextRef(key="error.x"), "failure_for_model": "x"},
        (),
    ),
    "lost": (STARTED, EffectLost(WHOLE), {"effect": EffectState.UNKNOWN, "parts": WHOLE}, ()),
    "lost before any part": (STARTED, EffectLost(), {"effect": EffectState.UNKNOWN}, ()),
    "given up when begun": (STARTED, EffectAbandoned(), {"effect": EffectState.UNKNOWN}, ()),
    "given up before": (
        DECIDED,
        EffectAbandoned(),
        {"effect": EffectState.FAILED, "failure": TextRef(key="error.given_up"), "failure_for_model": GIVEN_UP_MESSAGE},
        (),
    ),
    "retried": (FAILED, EffectRetried(CLICK), {"version": 4, "effect": EffectState.NONE}, ()),
    "done again": (UNKNOWN, EffectRetried(CLICK), {"version": 4, "effect": EffectState.NONE}, ()),
    "confirmed": (
        UNKNOWN,
        EffectConfirmed(CLICK.model_copy(update={"id": "c2"})),
        {"version": 4, "effect": EffectState.DONE, "press_id": "c2"},
        (),
    ),
    "settled": (
        DONE,
        CardSettled(),
        {"waiters": ()},
        (SaveEnd(), line("effect.done", OTHER, choice="send"), NotifyWaiter(FIRST, False)),
    ),
    "settled in silence": (
        CLOSED,
        CardSettled(silent=True),
        {"waiters": ()},
        (SaveEnd(), line("approval.closed", choice="withdrawn"), NotifyWaiter(FIRST, True)),
    ),
}


@corpus("name", CASES)
def test_an_event_changes_what_it_says_and_has_it_written(name: str) -> None:
    before, event, expected, written = CASES[name]
    after, effects = transition(before, event, NOW)
    assert {one: value for one, value in after if value != getattr(before, one)} == expected
    assert effects == written
    assert try_transition(before, event, NOW) == (after, effects)


def test_every_event_is_told_field_by_field() -> None:
    assert {type(event) for _, event, _, _ in CASES.values()} | {CardRequested} == set(list_kinds())


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
    card, effects = transition(before, CardRequested(card=asked, period=PERIOD), NOW)
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
    assert effects == (SaveOpening(),)


@corpus(
    ("card", "event", "code"),
    [
        (None, DecisionMade(CLICK, 0, runs=True), "gone"),
        (EXPIRED, DecisionMade(CLICK, 0, runs=True), "expired"),
        (DECIDED, DecisionMade(CLICK, 0, runs=True), "already"),
        (OPEN, DecisionMade(CLICK.model_copy(update={"version": 2}), 0, runs=True), "stale"),
        (OPEN.model_copy(update={"expires_ms": NOW_MS}), DecisionMade(CLICK, 0, runs=True), "expired"),
        (OPEN, EffectStarted(), "already"),
        (None, WaiterAdded(FIRST), "gone"),
    ],
)
def test_what_is_refused_says_why_and_what_it_was(card: Approval | None, event: ApprovalEvent, code: str) -> None:
    with pytest.raises(IllegalTransitionError, match=f"^{type(event).__name__}: {code}$") as refused:
        transition(card, event, NOW)
    assert refused.value.code == code
    assert try_transition(card, event, NOW) is None
