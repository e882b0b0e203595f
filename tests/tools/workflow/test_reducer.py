"""What the machine does at the corners of the graph, in small."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.tools.office import NOW
from tests.tools.workflow.drawn_requests import (
    AMOUNT,
    BESIDE,
    ONE,
    TWO_LEVELS,
    approve,
    away,
    does,
    refusal,
    started,
    tasks,
)
from tests.tools.workflow.flows import Asked, Serve, drawn
from tools.workflow.bpmn.graph import ServiceTopic, VotingMode
from tools.workflow.engine.authority import list_other_approvers
from tools.workflow.engine.commands import (
    AddSignCommand,
    DecideCommand,
    SignPosition,
    TransferCommand,
    WithdrawCommand,
)
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import RULE, Decision, Delegation, FilledForm, Status


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


# What is on record


@pytest.mark.parametrize("opinion", ["", "改好了"])
def test_a_decision_is_on_record_and_what_an_author_does_only_with_words_of_theirs(opinion: str) -> None:
    flow = drawn([ONE])
    (task,) = tasks(flow)
    returned = DecideCommand(task="L-1-1", actor="B", decision=Decision.RETURN, opinion="请改")
    revising = does(flow, started(flow, **{task: ("B",)}), returned)
    resubmit = DecideCommand(task="L-1-2", actor="A", decision=Decision.RESUBMIT, opinion=opinion)
    resubmitted = does(flow, revising, resubmit)
    approved = does(flow, resubmitted, approve("L-1-3", "B", opinion=opinion))
    said = [(one.by, one.decision, one.text) for one in approved.opinions]
    by_author = [("A", "resubmit", opinion)] if opinion else []
    assert said == [("B", "return", "请改"), *by_author, ("B", "approve", opinion)]


def test_the_author_is_told_of_the_end_with_what_was_said_and_for_whom() -> None:
    first, second = tasks(TWO_LEVELS)
    request = started(TWO_LEVELS, **{first: ("B",), second: ("C",)})
    passed = does(TWO_LEVELS, request, approve("L-1-1", "B", opinion="同意"))
    by_deputy = approve("L-1-2", "D", standing=away("C", "D"), opinion="没问题")
    by_itself = approve("L-1-2", "C")
    for command, told in ((by_deputy, ("D", "没问题", "C")), (by_itself, ("C", "", ""))):
        notices = apply_command(TWO_LEVELS.definition, passed, command, NOW).notices
        [ended] = [one.data for one in notices if one.kind == "ended"]
        assert (ended["by"], ended["opinion"], ended["behalf"]) == told


def test_what_ends_by_rule_quotes_nobody() -> None:
    """A rule says nothing, whatever somebody has said before it."""
    flow = drawn([ONE, Serve(ServiceTopic.RULE)])
    (task,) = tasks(flow)
    command = approve("L-1-1", "B", standing=None, opinion="同意")
    notices = apply_command(flow.definition, started(flow, **{task: ("B",)}), command, NOW).notices
    [ended] = [one.data for one in notices if one.kind == "ended"]
    assert (ended["by"], ended["opinion"], ended["behalf"]) == (RULE, "", "")


# Who has another say


def test_only_an_approval_at_another_level_of_this_round_keeps_somebody_from_deciding() -> None:
    first, second = tasks(TWO_LEVELS)
    request = started(TWO_LEVELS, **{first: ("B",), second: ("C",)})
    passed = does(TWO_LEVELS, request, approve("L-1-1", "B"))
    assert list_other_approvers(passed, second) == {"B"}
    assert list_other_approvers(passed, first) == frozenset(), "nor from deciding the same level once more"
    assert list_other_approvers(passed.model_copy(update={"round": 2}), second) == frozenset(), "nor in another round"
    handed = does(TWO_LEVELS, request, TransferCommand(task="L-1-1", actor="B", person="D"))
    assert list_other_approvers(handed, second) == frozenset(), "nor who has only handed it over"
    by_deputy = does(TWO_LEVELS, request, approve("L-1-1", "D", standing=away("B", "D")))
    assert list_other_approvers(by_deputy, second) == {"B", "D"}


def test_who_has_said_no_for_one_may_say_so_for_the_one_beside() -> None:
    """A no is heard as often as it is said; two approvals by one person would be one too many."""
    left, right = tasks(BESIDE)
    request = started(BESIDE, **{left: ("B",), right: ("C",)})
    one, other = request.open_tasks
    no = DecideCommand(
        task=one.id, actor="D", standing=away(one.assignee, "D"), decision=Decision.REJECT, opinion="不行"
    )
    also_no = no.model_copy(update={"task": other.id, "standing": away(other.assignee, "D")})
    assert does(BESIDE, does(BESIDE, request, no), also_no).status is Status.REVISE
    yes = approve(one.id, "D", standing=away(one.assignee, "D"))
    assert refusal(BESIDE, does(BESIDE, request, yes), also_no) == "own_level", "control"


def test_who_approved_before_it_came_back_decides_another_level_of_the_next_round() -> None:
    first, second = tasks(TWO_LEVELS)
    passed = does(TWO_LEVELS, started(TWO_LEVELS, **{first: ("B",), second: ("C",)}), approve("L-1-1", "B"))
    returned = does(TWO_LEVELS, passed, DecideCommand(task="L-1-2", actor="C", decision=Decision.RETURN, opinion="改"))
    swapped = FilledForm(values={}, people={f"who_{first}": ("C",), f"who_{second}": ("B",)}, numbers=AMOUNT)
    (task,) = returned.open_tasks
    resubmit = DecideCommand(task=task.id, actor="A", decision=Decision.RESUBMIT, filled=swapped)
    again = does(TWO_LEVELS, returned, resubmit)
    for person in ("C", "B"):
        (task,) = again.open_tasks
        again = does(TWO_LEVELS, again, approve(task.id, person))
    assert again.status is Status.APPROVED


# The second line: what should never come here is refused here, too


def test_an_assignee_who_has_decided_another_level_by_now_does_not_decide_this_one() -> None:
    """Nobody is asked twice; and if somebody was, for whatever reason, they are refused."""
    first, second = tasks(TWO_LEVELS)
    passed = does(TWO_LEVELS, started(TWO_LEVELS, **{first: ("B",), second: ("C",)}), approve("L-1-1", "B"))
    (task,) = passed.open_tasks
    (visit,) = passed.visits
    seats = tuple(seat.model_copy(update={"person": "B"}) for seat in visit.ballot.seats)
    ballot = visit.ballot.model_copy(update={"seats": seats})
    asked_twice = passed.model_copy(
        update={
            "tasks": tuple(
                one.model_copy(update={"assignee": "B"}) if one.id == task.id else one for one in passed.tasks
            ),
            "visits": (visit.model_copy(update={"ballot": ballot}),),
        }
    )
    assert refusal(TWO_LEVELS, asked_twice, approve(task.id, "B")) == "own_level"
    assert does(TWO_LEVELS, passed, approve(task.id, "C")).status is Status.APPROVED, "control"


@pytest.mark.parametrize(
    ("start", "end", "may"), [(-2, -1, False), (-1, 0, False), (1, 2, False), (0, 1, True), (-1, 1, True)]
)
def test_who_stands_in_does_so_only_meanwhile(start: int, end: int, may: bool) -> None:
    flow = drawn([ONE])
    (task,) = tasks(flow)
    request = started(flow, **{task: ("B",)})
    standing = Delegation(
        id="d", person="B", deputy="D", start=NOW + timedelta(days=start), end=NOW + timedelta(days=end)
    )
    command = approve("L-1-1", "D", standing=standing)
    if may:
        assert does(flow, request, command).status is Status.APPROVED
    else:
        assert refusal(flow, request, command) == "not_assignee"
