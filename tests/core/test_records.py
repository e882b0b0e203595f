"""What a stored approval and a stored run say of themselves."""

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
from tests.approvals.approval_walk import OTHER, OWNER, PLACE, make_plan
from tools.spec import CardChoice, CardField, Gate, Proposal, TextRef

APPROVE = CardChoice(name="approve", fixed_args={"decision": "approve"})
CANCEL = CardChoice(name="cancel", executes=False, fixed_args={"a": 1})
PLAN = make_plan(1).model_copy(update={"choices": (APPROVE, CANCEL), "requester": OTHER})
CARD = Approval(
    id="A",
    version=2,
    tool="t",
    gate=Gate.APPROVE,
    proposal=PLAN,
    seal=compute_seal("t", PLAN),
    caller="U3",
    place=PLACE,
    created_ms=0,
    expires_ms=1,
    decided_by=OWNER,
    choice="approve",
    form={"opinion": "fine", "a": "b"},
    attempts=1,
)


def change(**changes: Any) -> Approval:
    return CARD.model_copy(update=changes)


def plan(**changes: Any) -> Proposal:
    return PLAN.model_copy(update=changes)


def test_the_seal_is_another_for_anything_else_that_would_run_or_anybody_else_who_may_press(
    subtests: pytest.Subtests,
) -> None:
    for tool, changed in [
        ("u", PLAN),
        ("t", plan(args={"n": 2})),
        ("t", plan(deciders=(OTHER,))),
        ("t", plan(requester=OWNER)),
        ("t", plan(choices=(APPROVE.model_copy(update={"fixed_args": {"decision": "reject"}}), CANCEL))),
        ("t", plan(choices=(APPROVE.model_copy(update={"executes": False}), CANCEL))),
        ("t", plan(choices=(APPROVE.model_copy(update={"name": "reject"}), CANCEL))),
        ("t", plan(choices=(APPROVE, CANCEL.model_copy(update={"executes": True})))),
    ]:
        with subtests.test(tool=tool):
            assert compute_seal(tool, changed) != CARD.seal


def test_what_runs_nothing_is_not_sealed(subtests: pytest.Subtests) -> None:
    for changed in [
        plan(choices=(APPROVE,)),
        plan(choices=(APPROVE, CANCEL.model_copy(update={"fixed_args": {"a": 2}}))),
        plan(fields=(CardField(label="advice", value="x"),)),
        plan(title=TextRef(key="y")),
    ]:
        with subtests.test(changed=changed):
            assert compute_seal("t", changed) == CARD.seal


def test_an_effect_is_another_when_anything_was_decided_otherwise_and_the_same_when_tried_again(
    subtests: pytest.Subtests,
) -> None:
    for changes in [
        {"id": "B"},
        {"seal": "x"},
        {"decided_by": OTHER},
        {"choice": "reject"},
        {"form": {"opinion": "no", "a": "b"}},
    ]:
        with subtests.test(changes=changes):
            assert change(**changes).effect_key != CARD.effect_key
    for changes in [{"attempts": 2}, {"version": 3}, {"form": {"a": "b", "opinion": "fine"}}, {"press_id": "c2"}]:
        with subtests.test(changes=changes):
            assert change(**changes).effect_key == CARD.effect_key
    assert {change(attempts=n).attempt_key for n in (1, 2)} == {f"{CARD.effect_key}:{n}" for n in (1, 2)}


def test_on_whose_behalf_it_was_decided() -> None:
    rows: list[tuple[dict[str, Any], str]] = [
        ({"state": ApprovalState.DECIDED, "decided_by": OTHER}, OWNER),
        ({"state": ApprovalState.DECIDED, "decided_by": OWNER}, ""),
        ({"state": ApprovalState.CLOSED, "decided_by": OTHER}, ""),
        ({"state": ApprovalState.DECIDED, "decided_by": OTHER, "gate": Gate.CONFIRM}, ""),
    ]
    assert [(changes, change(**changes).on_behalf) for changes, _ in rows] == rows


def test_whether_its_matter_has_ended() -> None:
    rows: list[tuple[dict[str, Any], bool]] = [
        ({"state": ApprovalState.OPEN}, False),
        ({"state": ApprovalState.EXPIRED}, False),
        ({"state": ApprovalState.CANCELLED}, False),
        ({"state": ApprovalState.CLOSED}, True),
        ({"state": ApprovalState.DECIDED}, False),
        ({"state": ApprovalState.DECIDED, "effect": EffectState.STARTED}, False),
        ({"state": ApprovalState.DECIDED, "effect": EffectState.FAILED}, False),
        ({"state": ApprovalState.DECIDED, "effect": EffectState.DONE}, True),
        ({"state": ApprovalState.DECIDED, "effect": EffectState.UNKNOWN}, True),
    ]
    assert [(changes, change(**changes).is_settled) for changes, _ in rows] == rows


def test_whose_a_card_is_and_in_which_run_its_journal_lines_stand() -> None:
    assert (change(gate=Gate.CONFIRM).owner, change(gate=Gate.APPROVE).owner) == ("U3", "")
    assert [change().build_cancelling_press(one) for one in (TAKEN_BACK_CHOICE, STOPPED_CHOICE)] == [
        "cancel:A:2",
        "stop:A:2",
    ]
    waiters = tuple(ApprovalWaiter(run=f"R{n}", uid="u", lane="l") for n in (1, 2))
    assert change(run="R0", waiters=waiters).journal_run == "R0"
    assert change(waiters=waiters).journal_run == "R1"
    assert change().journal_run == ""


def test_a_run_waits_for_the_call_whose_button_nobody_has_pressed() -> None:
    calls = [
        CallRecord(uid=f"u{status}", tool="t", args={}, reason="", status=status, model_id="")
        for status in (CallStatus.SUCCEEDED, CallStatus.AWAITING)
    ]
    message = Message(id="E1", place=PLACE, person=OWNER, text="x", at="1.0")
    for known, awaited in ((calls, calls[1]), (calls[:1], None), ([], None)):
        run = Run(id="R", message=message, language="zh", created_ms=0, state=RunState(calls=known))
        assert run.awaiting_call == awaited
