"""What the machine does at the corners of the graph, in small."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.tools.office import NOW
from tests.tools.workflow.flows import Asked, Both, Flow, drawn
from tools.spec import ToolError
from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.commands import (
    AddSignCommand,
    DecideCommand,
    SignPosition,
    StartCommand,
    TransferCommand,
    WithdrawCommand,
)
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import Decision, Delegation, FilledForm, Request, Status

ONE = Asked(VotingMode.ALL, 1)
TWO_LEVELS = drawn([ONE, ONE])
BESIDE = drawn([Both(((ONE,), (ONE,)))])


def started(flow: Flow, **people: tuple[str, ...]) -> Request:
    """`people`: task → who is asked."""
    chosen = {f"who_{task}": found for task, found in people.items()}
    filled = FilledForm(values={}, people=chosen, numbers={"amount": Decimal(1)})
    key, version = flow.definition.key, flow.definition.version
    start = StartCommand(request="L-1", process=key, definition=version, form="", initiator="A", filled=filled)
    return apply_command(flow.definition, None, start, NOW).request


def tasks(flow: Flow) -> list[str]:
    """In the order in which they are reached."""
    return sorted((n for n in flow.definition.nodes if n.startswith("task")), key=lambda n: -int(n[4:]))


def does(flow: Flow, request: Request, command: Any) -> Request:
    return apply_command(flow.definition, request, command, NOW).request


def refusal(flow: Flow, request: Request, command: Any) -> str:
    with pytest.raises(ToolError) as refused:
        does(flow, request, command)
    return refused.value.code


def approve(task: str, actor: str, **more: Any) -> DecideCommand:
    return DecideCommand(task=task, actor=actor, decision=Decision.APPROVE, **more)


def away(person: str, deputy: str) -> Delegation:
    return Delegation(id="d", person=person, deputy=deputy, start=NOW, end=NOW.replace(year=NOW.year + 1))


def test_who_approved_can_agree_to_the_withdrawal() -> None:
    flow = drawn([ONE])
    (task,) = tasks(flow)
    approved = does(flow, started(flow, **{task: ("B",)}), approve("L-1-1", "B"))
    revoking = does(flow, approved, WithdrawCommand(request="L-1", actor="A", agree=("B",)))
    assert (revoking.status, revoking.waits_for) == (Status.REVOKING, ("B",))
    assert does(flow, revoking, approve("L-1-2", "B")).status is Status.WITHDRAWN
    no = DecideCommand(task="L-1-2", actor="B", decision=Decision.REJECT, opinion="已经订了票")
    assert does(flow, revoking, no).status is Status.APPROVED
    handed = does(flow, revoking, TransferCommand(task="L-1-2", actor="B", person="C"))
    assert does(flow, handed, approve("L-1-3", "C")).status is Status.WITHDRAWN


def test_who_decides_another_level_cannot_stand_in() -> None:
    first, second = tasks(TWO_LEVELS)
    request = started(TWO_LEVELS, **{first: ("B",), second: ("C",)})
    command = approve("L-1-1", "C", standing=away("B", "C"))
    assert refusal(TWO_LEVELS, request, command) == "own_level", "else nobody could decide the second level"
    assert does(TWO_LEVELS, request, approve("L-1-1", "D", standing=away("B", "D"))).waits_for == ("C",)


def test_who_has_a_seat_cannot_stand_in_for_the_one_beside() -> None:
    flow = drawn([Asked(VotingMode.ALL, 2)])
    (task,) = tasks(flow)
    request = started(flow, **{task: ("B", "C")})
    assert refusal(flow, request, approve("L-1-1", "C", standing=away("B", "C"))) == "asked_already"


def test_nobody_is_added_to_two_parallel_parts() -> None:
    left, right = tasks(BESIDE)
    request = started(BESIDE, **{left: ("B",), right: ("C",)})
    (one, other) = request.open_tasks
    asked = does(
        BESIDE, request, AddSignCommand(task=one.id, actor=one.assignee, where=SignPosition.BESIDE, people=("D",))
    )
    again = AddSignCommand(task=other.id, actor=other.assignee, where=SignPosition.BESIDE, people=("D",))
    assert refusal(BESIDE, asked, again) == "own_level", "else one of the two would wait for ever"


@pytest.mark.parametrize("where", [SignPosition.BEFORE, SignPosition.BESIDE])
def test_nobody_is_asked_twice_in_the_same_place(where: SignPosition) -> None:
    """Else what the first one said would be lost, and they could be asked again."""
    flow = drawn([ONE])
    (task,) = tasks(flow)
    asked = does(
        flow, started(flow, **{task: ("B",)}), AddSignCommand(task="L-1-1", actor="B", where=where, people=("C",))
    )
    said = does(flow, asked, approve("L-1-2", "C"))
    mine = next(t.id for t in said.open_tasks if t.assignee == "B")
    assert refusal(flow, said, AddSignCommand(task=mine, actor="B", where=where, people=("D",))) == "asked_already"
    assert refusal(flow, said, TransferCommand(task=mine, actor="B", person="C")) == "asked_already"
    assert does(flow, said, approve(mine, "B")).status is Status.APPROVED


@pytest.mark.parametrize("where", SignPosition)
def test_a_deputy_does_not_ask_themselves(where: SignPosition) -> None:
    flow = drawn([ONE])
    (task,) = tasks(flow)
    request = started(flow, **{task: ("B",)})
    command = AddSignCommand(task="L-1-1", actor="C", standing=away("B", "C"), where=where, people=("D", "C"))
    assert refusal(flow, request, command) == "asked_already", "else nobody could decide it any more"


def test_a_round_begins_without_the_decisions_of_the_one_before() -> None:
    left, right = tasks(BESIDE)
    request = started(BESIDE, **{left: ("B",), right: ("C",)})
    one, other = request.open_tasks
    rejected = DecideCommand(task=one.id, actor=one.assignee, decision=Decision.REJECT, opinion="不行")
    revising = does(BESIDE, does(BESIDE, request, rejected), approve(other.id, other.assignee))
    assert revising.status is Status.REVISE
    (task,) = revising.open_tasks
    again = does(BESIDE, revising, DecideCommand(task=task.id, actor="A", decision=Decision.RESUBMIT))
    assert (again.round, again.decisions) == (2, {"revise": "resubmit"})


def test_the_author_and_who_has_decided_are_left_out_of_a_group() -> None:
    flow = drawn([ONE, Asked(VotingMode.ANY, 3)])
    first, group = tasks(flow)
    request = started(flow, **{first: ("B",), group: ("A", "B", "C")})
    after = does(flow, request, approve("L-1-1", "B"))
    assert after.waits_for == ("C",)
    alone = started(flow, **{first: ("B",), group: ("A", "B")})
    assert refusal(flow, alone, approve("L-1-1", "B")) == "own_approver", "nobody is left"
