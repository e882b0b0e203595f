"""What a stored approval and a stored run say of themselves."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from bot.chat.messages import Message
from bot.core.records import (
    STOPPED_CHOICE,
    TAKEN_BACK_CHOICE,
    Approval,
    ApprovalState,
    ApprovalWaiter,
    EffectState,
    Run,
    compute_seal,
)
from bot.core.run_state import CallRecord, CallStatus, RunState
from tests.approvals.approval_walk import OTHER, OWNER, PLACE, build_card, make_plan
from tools.spec import CardChoice, CardField, Gate, TextRef

APPROVE = CardChoice(name="approve", fixed_args={"decision": "approve"})
CANCEL = CardChoice(name="cancel", executes=False, fixed_args={"a": 1})
PLAN = make_plan(choices=(APPROVE, CANCEL), requester=OTHER)
ANSWERS = {"opinion": "fine", "a": "b"}
CARD = build_card(
    PLAN, version=2, gate=Gate.APPROVE, caller="U3", decided_by=OWNER, choice="approve", form=ANSWERS, attempts=1
)


def change(**changes: Any) -> Approval:
    return CARD.model_copy(update=changes)


def change_choices(approve: Mapping[str, Any] = {}, cancel: Mapping[str, Any] = {}) -> dict[str, Any]:
    return {"choices": (APPROVE.model_copy(update=approve), CANCEL.model_copy(update=cancel))}


def test_the_seal_is_another_for_anything_else_that_would_run_or_anybody_else_who_may_press() -> None:
    assert compute_seal("u", PLAN) != CARD.seal
    for changes in (
        {"args": {"n": 2}},
        {"deciders": (OTHER,)},
        {"requester": OWNER},
        change_choices(approve={"fixed_args": {"decision": "reject"}}),
        change_choices(approve={"executes": False}),
        change_choices(approve={"name": "reject"}),
        change_choices(cancel={"executes": True}),
    ):
        assert compute_seal("t", PLAN.model_copy(update=changes)) != CARD.seal, changes


def test_what_runs_nothing_is_not_sealed() -> None:
    for changes in (
        {"choices": (APPROVE,)},
        change_choices(cancel={"fixed_args": {"a": 2}}),
        {"fields": (CardField(label="advice", value="x"),)},
        {"title": TextRef(key="y")},
    ):
        assert compute_seal("t", PLAN.model_copy(update=changes)) == CARD.seal, changes


def test_an_effect_is_another_when_anything_was_decided_otherwise_and_the_same_when_tried_again() -> None:
    others: tuple[dict[str, Any], ...] = (
        {"id": "B"}, {"seal": "x"}, {"decided_by": OTHER}, {"choice": "reject"}, {"form": {"opinion": "no", "a": "b"}},
    )  # fmt: skip
    same: tuple[dict[str, Any], ...] = (
        {"attempts": 2}, {"version": 3}, {"form": {"a": "b", "opinion": "fine"}}, {"press_id": "c2"}
    )  # fmt: skip
    assert [one for one in others if change(**one).effect_key == CARD.effect_key] == []
    assert [one for one in same if change(**one).effect_key != CARD.effect_key] == []
    assert {change(attempts=n).attempt_key for n in (1, 2)} == {f"{CARD.effect_key}:{n}" for n in (1, 2)}


DECIDED = {"state": ApprovalState.DECIDED}
WAITERS = tuple(ApprovalWaiter(run=f"R{n}", uid="u", lane="l") for n in (1, 2))
SAID: dict[str, tuple[Callable[[Approval], object], Sequence[tuple[dict[str, Any], object]]]] = {
    "on whose behalf it was decided": (lambda card: card.on_behalf, [
        ({**DECIDED, "decided_by": OTHER}, OWNER),
        ({**DECIDED, "decided_by": OWNER}, ""),
        ({"state": ApprovalState.CLOSED, "decided_by": OTHER}, ""),
        ({**DECIDED, "decided_by": OTHER, "gate": Gate.CONFIRM}, ""),
    ]),
    "whether its matter has ended": (lambda card: card.is_settled, [
        *(({"state": state}, state is ApprovalState.CLOSED) for state in ApprovalState),
        *(({**DECIDED, "effect": one}, one in (EffectState.DONE, EffectState.UNKNOWN)) for one in EffectState),
    ]),
    "whose it is": (lambda card: card.owner, [({"gate": Gate.CONFIRM}, "U3"), ({"gate": Gate.APPROVE}, "")]),
    "in which run its journal lines stand": (lambda card: card.journal_run, [
        ({"run": "R0", "waiters": WAITERS}, "R0"), ({"waiters": WAITERS}, "R1"), ({}, ""),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("about", SAID)
def test_a_card_says(about: str) -> None:
    read, rows = SAID[about]
    assert [(changes, read(change(**changes))) for changes, _ in rows] == rows


def test_a_press_that_cancels_a_card_is_named_by_its_choice() -> None:
    presses = [CARD.build_cancelling_press(one) for one in (TAKEN_BACK_CHOICE, STOPPED_CHOICE)]
    assert presses == ["cancel:A:2", "stop:A:2"]


def test_a_run_waits_for_the_call_whose_button_nobody_has_pressed() -> None:
    done, waiting = (
        CallRecord(uid=f"u{status}", tool="t", args={}, reason="", status=status, model_id="")
        for status in (CallStatus.SUCCEEDED, CallStatus.AWAITING)
    )
    message = Message(id="E1", place=PLACE, person=OWNER, text="x", at="1.0")
    for known, awaited in (([done, waiting], waiting), ([done], None), ([], None)):
        run = Run(id="R", message=message, language="zh", created_ms=0, state=RunState(calls=known))
        assert run.awaiting_call == awaited
