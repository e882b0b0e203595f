"""An approval keeps its properties under any order of events; a machine without one safety breaks the property of that
safety."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError
from redis.asyncio import Redis

from bot.approvals import state
from bot.approvals.state import (
    GIVEN_UP_MESSAGE,
    IllegalTransitionError,
    create_approval,
    find_refusal,
    keep_copies,
    record_delivery,
)
from bot.chat.messages import Click, MessageRef
from bot.core.clock import to_ms
from bot.core.records import Approval, ApprovalState, ApprovalWaiter, EffectState, OpenCard, compute_seal
from bot.queue.keys import Keys
from bot.queue.writes import apply_writes
from bot.storage.approvals import ApprovalStore
from tests.approvals.approval_walk import (
    BEGIN,
    LASTS,
    LEGAL,
    OTHER,
    OWNER,
    PLACE,
    REOPENINGS,
    STEPS,
    build_card,
    list_events,
    list_walks,
    make_period,
    make_plan,
)
from tests.harness.corpus import corpus
from tools.effect_parts import PartState
from tools.spec import CardField, Gate, ReceiptLine, TextRef, ToolOutcome


def test_in_any_order_of_events_an_approval_keeps_its_promises() -> None:
    walks = list_walks()
    assert [walk.go(STEPS) for walk in walks] == [[]] * len(walks)
    assert set[str]().union(*(walk.made for walk in walks)) == set(list_events()) == set[str]().union(*LEGAL.values())


def _decided_without_a_look(approval: Any, version: int, now_ms: int) -> str:
    return "" if approval is not None and approval.state is not ApprovalState.EXPIRED else "expired"


def _replaced_in_place(approval: Approval, *args: Any, **named: Any) -> Approval:
    return REPLACE(approval, *args, **named).model_copy(update={"version": approval.version})


def _suggestion_in_the_arguments(approval: Approval, *args: Any) -> Approval | None:
    after = SUGGEST(approval, *args)
    return after and after.model_copy(update={"proposal": make_plan(after.proposal.args["n"] + 1)})


def _back_to_the_beginning(approval: Approval, *args: Any) -> Approval:
    return CHANGE_PARTS(approval, *args).model_copy(update={"effect": EffectState.NONE})


def _in_the_same_version(approval: Approval, click: Click) -> Approval:
    return RETRY(approval, click).model_copy(update={"version": approval.version})


def _refused_with_a_trace(approval: Approval | None, version: int, now_ms: int) -> str:
    if approval is not None:
        approval.form["refused"] = "yes"
    return "already"


def _without_the_answers(approval: Approval) -> Approval:
    return START(approval).model_copy(update={"form": {}})


def _cancelled_by_anybody(approval: Approval, person: str, choice: str, now: datetime) -> Approval:
    return state._end_undecided(approval, ApprovalState.CANCELLED, person, choice, now)


REPLACE, SUGGEST, CHANGE_PARTS = state.open_next_version, state.add_suggestion, state.change_parts
RETRY, START = state.retry_effect, state.start_effect
BROKEN: Mapping[str, tuple[str, object, str]] = {
    "a press is not looked at": ("find_refusal", _decided_without_a_look, "illegal moves are refused"),
    "time has no end": ("find_refusal", _decided_without_a_look, "nothing is decided when its time is over"),
    "a decision is claimed twice": ("find_refusal", lambda *_: "", "a version is decided once"),
    "every card can be asked for anew": ("_require", lambda is_legal: None, "what has ended stays ended"),
    "an edit is the same version": ("open_next_version", _replaced_in_place, "the seal changes with the version"),
    "a card opens in its old version": ("open_next_version", _replaced_in_place, "what has ended stays ended"),
    "the seal is of something else": ("compute_seal", lambda tool, plan: "0", "the seal is that of the plan"),
    "advice is sealed in": ("add_suggestion", _suggestion_in_the_arguments, "the seal is that of the plan"),
    "old timers act": ("is_open", lambda approval, version: True, "illegal moves are refused"),
    "anybody takes it back": ("cancel_approval", _cancelled_by_anybody, "illegal moves are refused"),
    "nobody takes it back": ("cancel_approval", lambda *_: None, "legal moves are made"),
    "a part starts it anew": ("change_parts", _back_to_the_beginning, "an effect only moves forward"),
    "the answers are forgotten": ("start_effect", _without_the_answers, "a decision stays as it was made"),
    "tried again in the same version": ("retry_effect", _in_the_same_version, "an effect only moves forward"),
    "everything is over": ("has_ended", lambda approval: True, "what is not over is not closed"),
    "a refusal leaves a trace": ("find_refusal", _refused_with_a_trace, "what is refused changes nothing"),
    "an effect moves from anywhere": ("_require_effect", lambda *_: None, "illegal moves are refused"),
}


@corpus("name", *BROKEN)
def test_negative_control_a_machine_without_a_safety_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attribute, broken, expected = BROKEN[name]
    monkeypatch.setattr(state, attribute, broken)
    assert any(expected in walk.go(STEPS) for walk in list_walks())


@pytest.mark.parametrize("change", [{"decided": "U1"}, {"effect": "gone"}, {"version": "one"}, {"outcome": "done"}])
def test_an_approval_is_changed_by_fields_of_its_own(change: dict[str, Any]) -> None:
    """Fields of the record, with their types."""
    with pytest.raises(ValidationError):
        state._change_fields(build_card(make_plan(0)), **change)


async def test_the_deciding_write_and_the_machine_refuse_alike(redis: Redis) -> None:
    keys = Keys(partitions=2)
    approvals = ApprovalStore(redis, keys)
    asked = OpenCard(approval="A00x", tool="t", gate=Gate.CONFIRM, proposal=make_plan(0), caller=OWNER, place=None)
    opened = create_approval(None, asked, make_period(BEGIN))
    answers = set[str]()
    for stored in ApprovalState:
        for version in (0, 1, 2):
            for now_ms in (opened.expires_ms - 1, opened.expires_ms, opened.expires_ms + 1):
                approval = opened.model_copy(update={"state": stored})
                click = Click(id="c", approval="A00x", version=version, choice="send", person=OWNER, place=PLACE)
                decide = approvals.build_decide_writes(click, ends=ApprovalState.DECIDED, now_ms=now_ms)
                await redis.flushall()
                await apply_writes(redis, keys, keys.get_partition("A00x"), approvals.build_open_writes(approval, 1))
                answers.add(answer := await apply_writes(redis, keys, keys.get_partition("A00x"), decide))
                assert answer == (find_refusal(approval, version, now_ms) or "ok")
    assert answers == {"ok", "expired", "already", "stale"}
    await redis.flushall()
    assert await apply_writes(redis, keys, keys.get_partition("A00x"), decide) == find_refusal(None, 1, 0) == "gone"


# The result of each event in a card's record, field by field

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


def end(as_state: ApprovalState, by: str, choice: str, **more: str) -> dict[str, object]:
    return {"state": as_state, "decided_by": by, "choice": choice, "decided_ms": NOW_MS, **more}


FAILURE = {"effect": EffectState.FAILED, "failure": TextRef(key="error.x"), "failure_for_model": "x"}
GIVEN_UP = {"failure": TextRef(key="error.given_up"), "failure_for_model": GIVEN_UP_MESSAGE}
FAILED_AND_RETRIED = FAILED_BEFORE.model_copy(update={"effect": EffectState.NONE})
UNSENT = CLICK.model_copy(update={"form": None})
CASES: dict[str, tuple[partial[Approval | None], dict[str, object]]] = {
    "redraft": (partial(state.open_next_version, OPEN, make_plan(2), PERIOD), REOPENED),
    "renew": (
        partial(state.open_next_version, EXPIRED, make_plan(2), PERIOD, after=ApprovalState.EXPIRED),
        {**REOPENED, "state": ApprovalState.OPEN},
    ),
    "confirm again": (
        partial(state.open_next_version, STARTED, make_plan(2), PERIOD, after=ApprovalState.DECIDED),
        {**REOPENED, **UNPRESSED},
    ),
    "waited for": (partial(state.add_waiter, OPEN, SECOND), {"waiters": (FIRST, SECOND)}),
    "expired": (partial(state.expire_approval, OPEN, 3, NOW), {"state": ApprovalState.EXPIRED, "decided_ms": NOW_MS}),
    "advised": (
        partial(state.add_suggestion, OPEN, 3, ADVICE),
        {"proposal": make_plan(1).with_card_fields((ADVICE,))},
    ),
    "closed": (
        partial(state.close_approval, OPEN, OTHER, "withdrawn", NOW),
        end(ApprovalState.CLOSED, OTHER, "withdrawn"),
    ),
    "taken back": (
        partial(state.cancel_approval, OPEN, OWNER, "cancel", NOW),
        end(ApprovalState.CANCELLED, OWNER, "cancel", press_id="cancel:A:3"),
    ),
    "stopped": (
        partial(state.cancel_approval, OPEN, OTHER, "stopped", NOW),
        end(ApprovalState.CANCELLED, OTHER, "stopped", press_id="stop:A:3"),
    ),
    "decided": (
        partial(state.decide_approval, OPEN, CLICK, 2, NOW, runs=True),
        {**PRESSED, "state": ApprovalState.DECIDED, "removed_characters": 2, "decided_ms": NOW_MS},
    ),
    "cancelled": (
        partial(state.decide_approval, OPEN, UNSENT, 0, NOW, runs=False),
        end(ApprovalState.CANCELLED, OTHER, "send", press_id="c1"),
    ),
    "started": (partial(state.start_effect, DECIDED), {"effect": EffectState.STARTED, "attempts": 1}),
    "a part done": (partial(state.change_parts, STARTED, WHOLE), {"parts": WHOLE}),
    "postponed": (partial(state.change_parts, STARTED, WHOLE, BUSY), {"parts": WHOLE, "failure": BUSY}),
    "started again": (
        partial(state.start_effect, FAILED_AND_RETRIED),
        {"effect": EffectState.STARTED, "attempts": 2, "failure": None},
    ),
    "done": (
        partial(state.complete_effect, FAILED_BEFORE, OUTCOME, WHOLE),
        {"effect": EffectState.DONE, "outcome": OUTCOME, "parts": WHOLE, "failure": None, "possible_change": None},
    ),
    "failed": (
        partial(state.fail_effect, STARTED, TextRef(key="error.x"), "x", MAYBE, WHOLE),
        {**FAILURE, "possible_change": MAYBE, "parts": WHOLE},
    ),
    "failed before any part": (partial(state.fail_effect, STARTED, TextRef(key="error.x"), "x"), FAILURE),
    "lost": (partial(state.lose_effect, STARTED, WHOLE), {"effect": EffectState.UNKNOWN, "parts": WHOLE}),
    "lost before any part": (partial(state.lose_effect, STARTED), {"effect": EffectState.UNKNOWN}),
    "given up when begun": (partial(state.abandon_effect, STARTED), {"effect": EffectState.UNKNOWN}),
    "given up in doubt": (
        partial(state.abandon_effect, DECIDED, is_doubted=True),
        {"effect": EffectState.UNKNOWN},
    ),
    "given up before": (partial(state.abandon_effect, DECIDED), {"effect": EffectState.FAILED, **GIVEN_UP}),
    "retried": (partial(state.retry_effect, FAILED, CLICK), {"version": 4, "effect": EffectState.NONE}),
    "done again": (
        partial(state.retry_effect, UNKNOWN, AGAIN),
        {"version": 4, "effect": EffectState.NONE, "press_id": "c2"},
    ),
    "confirmed": (
        partial(state.confirm_effect, UNKNOWN, AGAIN),
        {"version": 4, "effect": EffectState.DONE, "press_id": "c2"},
    ),
    "settled": (partial(state.settle_approval, DONE), {"waiters": ()}),
    "settled without a decision": (partial(state.settle_approval, CLOSED), {"waiters": ()}),
}


@corpus("name", *CASES)
def test_an_event_changes_what_it_says_and_nothing_else(name: str) -> None:
    happen, expected = CASES[name]
    before, after = happen.args[0], happen()
    assert after and {one: value for one, value in after if value != getattr(before, one)} == expected


def test_every_event_is_told_field_by_field() -> None:
    told = {happen.func.__name__ for happen, _ in CASES.values()} | {"create_approval"}
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


decide = partial(state.decide_approval, runs=True)


@corpus(
    ("happen", "code"),
    (partial(decide, EXPIRED, CLICK, 0, NOW), "expired"),
    (partial(decide, DECIDED, CLICK, 0, NOW), "already"),
    (partial(decide, OPEN.model_copy(update={"version": 4}), CLICK, 0, NOW), "stale"),
    (partial(decide, OPEN.model_copy(update={"expires_ms": NOW_MS}), CLICK, 0, NOW), "expired"),
    (partial(state.start_effect, OPEN), "already"),
)
def test_an_event_that_does_not_fit_is_refused_and_says_why(happen: Callable[[], Approval], code: str) -> None:
    with pytest.raises(IllegalTransitionError, match=f"^{code}$") as refused:
        happen()
    assert refused.value.code == code
