"""Who may do what, at the bounds: how often, how long after, and whom it concerns."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.tools.office import NOW
from tests.tools.workflow.drawn_requests import (
    BESIDE,
    ONE,
    TWO_LEVELS,
    approve,
    away,
    does,
    refusal,
    refused,
    started,
    tasks,
)
from tests.tools.workflow.flows import Asked, Both, Flow, drawn
from tools.spec import ToolError
from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.authority import (
    ASK_EVERY,
    MAX_URGES,
    MAX_WITHDRAWALS,
    URGE_EVERY,
    can_be_asked,
    find_last_approvers,
    list_return_targets,
    reject_bad_delegation,
    reject_unseen_form,
    require_participant,
)
from tools.workflow.engine.commands import (
    AddSignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    SignPosition,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.state import Decision, Delegation, FilledForm, Request, Status

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
WITHDRAW = WithdrawCommand(request="L-1", actor="A", agree=("B",))
URGE = UrgeCommand(task="L-1-1", actor="A")


def asked_of_one(person: str = "B") -> tuple[Flow, Request]:
    flow = drawn([ONE])
    (task,) = tasks(flow)
    return flow, started(flow, **{task: (person,)})


def say_no(task: str, actor: str) -> DecideCommand:
    return DecideCommand(task=task, actor=actor, decision=Decision.REJECT, opinion="不行")


def give_back(task: str, actor: str, to: str = "") -> DecideCommand:
    return DecideCommand(task=task, actor=actor, decision=Decision.RETURN, opinion="请改", to=to)


def write_time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M")


# Urging


def test_a_task_is_urged_a_few_times_and_hours_apart() -> None:
    flow, request = asked_of_one()
    at = NOW
    for number in range(MAX_URGES):
        request = does(flow, request, URGE, at)
        assert len(request.tasks[0].urged) == number + 1
        if number < MAX_URGES - 1:
            error = refused(flow, request, URGE, at + URGE_EVERY - SECOND)
            assert (error.code, error.params) == ("urged_lately", {"at": write_time(at + URGE_EVERY)})
        at += URGE_EVERY
    error = refused(flow, request, URGE, at)
    assert (error.code, error.params) == ("urged_enough", {"most": MAX_URGES})


@pytest.mark.parametrize("hours", [1, 8])
def test_nobody_is_urged_when_they_do_not_work(hours: int) -> None:
    """The later of the two moments is told."""
    flow, request = asked_of_one()
    opens = NOW + timedelta(hours=hours)
    late = URGE.model_copy(update={"opens": opens})
    error = refused(flow, request, late)
    assert (error.code, error.params) == ("urged_late", {"at": write_time(opens)})
    error = refused(flow, does(flow, request, URGE), late, NOW + SECOND)
    assert (error.code, error.params) == ("urged_lately", {"at": write_time(max(opens, NOW + URGE_EVERY))})


def test_only_the_author_urges_and_only_somebody_else_who_is_asked() -> None:
    flow, request = asked_of_one()
    assert refusal(flow, request, URGE.model_copy(update={"actor": "B"})) == "not_yours"
    error = refused(flow, request, URGE.model_copy(update={"task": "x" * 50}))
    assert (error.code, error.params) == ("no_task", {"task": "x" * 40})
    assert refusal(flow, does(flow, request, approve("L-1-1", "B")), URGE) == "task_closed"
    revising = does(flow, request, give_back("L-1-1", "B"))
    assert refusal(flow, revising, URGE.model_copy(update={"task": "L-1-2"})) == "own_task"


# Withdrawing


def test_an_agreement_is_asked_for_a_few_times_and_hours_apart() -> None:
    flow, request = asked_of_one()
    request, at = does(flow, request, approve("L-1-1", "B")), NOW
    for number in range(MAX_WITHDRAWALS):
        request = does(flow, request, WITHDRAW, at)
        request = does(flow, request, say_no(f"L-1-{number + 2}", "B"), at)
        if number < MAX_WITHDRAWALS - 1:
            error = refused(flow, request, WITHDRAW, at + ASK_EVERY - SECOND)
            assert (error.code, error.params) == ("kept_lately", {"at": write_time(at + ASK_EVERY)})
        at += ASK_EVERY
    error = refused(flow, request, WITHDRAW, at)
    assert (error.code, error.params) == ("kept_enough", {"most": MAX_WITHDRAWALS})


def test_the_author_withdraws_what_runs_and_needs_somebody_who_agrees_to_what_is_approved() -> None:
    flow, request = asked_of_one()
    assert refusal(flow, request, WITHDRAW.model_copy(update={"actor": "B"})) == "not_yours"
    withdrawn = does(flow, request, WITHDRAW)
    assert withdrawn.status is Status.WITHDRAWN
    error = refused(flow, withdrawn, WITHDRAW)
    assert (error.code, error.params) == ("not_running", {"request": "L-1"})
    approved = does(flow, request, approve("L-1-1", "B"))
    for agree in ((), ("A",), ("B", "A")):
        assert refusal(flow, approved, WITHDRAW.model_copy(update={"agree": agree})) == "no_level"
    revoking = does(flow, approved, WITHDRAW)
    error = refused(flow, revoking, WITHDRAW.model_copy(update={"agree": ()}))
    assert (error.code, error.params) == ("withdrawing", {"request": "L-1"})
    asked_anew = does(flow, revoking, WITHDRAW.model_copy(update={"agree": ("C",)}))
    assert (asked_anew.status, asked_anew.waits_for) == (Status.REVOKING, ("C",)), "whoever was asked has left"


# Returning


def test_a_request_goes_back_to_its_author_or_to_an_earlier_step_that_counts() -> None:
    first, second = tasks(TWO_LEVELS)
    request = started(TWO_LEVELS, **{first: ("B",), second: ("C",)})
    assert list_return_targets(TWO_LEVELS.definition, request, request.open_tasks[0]) == ("revise",)
    passed = does(TWO_LEVELS, request, approve("L-1-1", "B"))
    assert list_return_targets(TWO_LEVELS.definition, passed, passed.open_tasks[0]) == ("revise", first)
    assert does(TWO_LEVELS, passed, give_back("L-1-2", "C")).status is Status.REVISE
    assert does(TWO_LEVELS, passed, give_back("L-1-2", "C", first)).waits_for == ("B",)
    for odd in (second, "nowhere"):
        error = refused(TWO_LEVELS, passed, give_back("L-1-2", "C", odd))
        assert (error.code, error.field) == ("bad_target", "to")
    nowhere = TWO_LEVELS.definition.model_copy(update={"alone": frozenset()})
    assert list_return_targets(nowhere, passed, passed.open_tasks[0]) == ()
    assert refusal(replace(TWO_LEVELS, definition=nowhere), passed, give_back("L-1-2", "C")) == "bad_target"


def test_from_one_of_two_parallel_parts_only_back_to_the_author() -> None:
    """What was said beside it would be lost."""
    flow = drawn([ONE, Both(((ONE,), (ONE,)))])
    first, *others = tasks(flow)
    request = started(flow, **{first: ("B",), others[0]: ("C",), others[1]: ("D",)})
    both = does(flow, request, approve("L-1-1", "B"))
    one, other = both.open_tasks
    assert list_return_targets(flow.definition, both, one) == ("revise",)
    arrived = does(flow, both, approve(one.id, one.assignee))
    assert list_return_targets(flow.definition, arrived, other) == ("revise",)
    assert refusal(flow, arrived, give_back(other.id, other.assignee, first)) == "bad_target"


# Deciding


def test_a_no_needs_a_word_and_only_what_a_task_is_for_is_decided() -> None:
    flow, request = asked_of_one()
    for decision in (Decision.REJECT, Decision.RETURN):
        silent = DecideCommand(task="L-1-1", actor="B", decision=decision, opinion=" ")
        error = refused(flow, request, silent)
        assert (error.code, error.field, error.ask) == ("missing_opinion", "opinion", True)
    for decision in (Decision.RESUBMIT, Decision.WITHDRAW):
        assert refusal(flow, request, DecideCommand(task="L-1-1", actor="B", decision=decision)) == "bad_decision"
    revising = does(flow, request, give_back("L-1-1", "B"))
    assert refusal(flow, revising, approve("L-1-2", "A")) == "bad_decision"
    assert refusal(flow, revising, approve("L-1-2", "C", standing=away("A", "C"))) == "not_assignee"
    assert refusal(flow, request, approve("L-1-1", "C")) == "not_assignee"
    assert refusal(flow, request, approve("L-1-1", "A", standing=away("B", "A"))) == "own_request"
    assert refusal(flow, does(flow, request, approve("L-1-1", "B")), approve("L-1-1", "B")) == "task_closed"


def test_who_decides_already_is_not_asked_as_well() -> None:
    first, second = tasks(TWO_LEVELS)
    request = started(TWO_LEVELS, **{first: ("B",), second: ("C",)})
    (task,) = request.open_tasks
    asked = {p: can_be_asked(TWO_LEVELS.definition, request, task, p) for p in "ABCD"}
    assert asked == {"A": False, "B": False, "C": False, "D": True}
    add = AddSignCommand(task="L-1-1", actor="B", where=SignPosition.BEFORE, people=("A",))
    for person, code in (("A", "own_request"), ("B", "asked_already"), ("C", "own_level")):
        error = refused(TWO_LEVELS, request, add.model_copy(update={"people": (person,)}))
        assert (error.code, error.field) == (code, "people")


def test_whoever_agrees_to_a_withdrawal_has_no_further_level() -> None:
    flow = drawn([Asked(VotingMode.ALL, 2)])
    (task,) = tasks(flow)
    request = started(flow, **{task: ("B", "C")})
    request = does(flow, does(flow, request, approve("L-1-1", "B")), approve("L-1-2", "C"))
    revoking = does(flow, request, WITHDRAW.model_copy(update={"agree": ("B", "D")}))
    by_deputy = approve("L-1-3", "C", standing=away("B", "C"))
    once = does(flow, revoking, by_deputy)
    assert once.waits_for == ("D",)
    assert refusal(flow, once, approve("L-1-4", "C", standing=away("D", "C"))) == "own_level", "nor two of its seats"


def test_parallel_parts_have_people_of_their_own() -> None:
    left, right = tasks(BESIDE)
    request = started(BESIDE, **{left: ("B",), right: ("C",)})
    one, other = request.open_tasks
    assert not can_be_asked(BESIDE.definition, request, one, other.assignee)
    assert can_be_asked(BESIDE.definition, request, one, "D")


# Who approved last


def test_who_approved_last_counts_in_this_round_and_since_the_last_return() -> None:
    first, second = tasks(TWO_LEVELS)
    request = started(TWO_LEVELS, **{first: ("B",), second: ("C",)})
    assert find_last_approvers(request) == ()
    passed = does(TWO_LEVELS, request, approve("L-1-1", "E", standing=away("B", "E")))
    assert find_last_approvers(passed) == ("B",), "for whom it was said"
    approved = does(TWO_LEVELS, passed, approve("L-1-2", "C"))
    assert find_last_approvers(approved) == ("C",)
    returned = does(TWO_LEVELS, passed, give_back("L-1-2", "C", first))
    assert find_last_approvers(returned) == ()
    anew = does(TWO_LEVELS, returned, approve("L-1-3", "B"))
    assert find_last_approvers(anew) == ("B",)
    revising = does(TWO_LEVELS, passed, give_back("L-1-2", "C"))
    (task,) = revising.open_tasks
    again = does(TWO_LEVELS, revising, DecideCommand(task=task.id, actor="A", decision=Decision.RESUBMIT))
    assert find_last_approvers(again) == ()


# Whom it concerns


def test_only_whom_a_request_concerns_speak_of_it() -> None:
    flow, request = asked_of_one()
    for person in ("A", "B"):
        require_participant(request, person)
    with pytest.raises(ToolError) as error:
        require_participant(request, "S")
    assert (error.value.code, error.value.params) == ("not_concerned", {"request": "L-1"})
    assert refusal(flow, request, CommentCommand(request="L-1", actor="S", text="?")) == "not_concerned"
    assert refusal(flow, request, CcCommand(request="L-1", actor="S", people=("S",))) == "not_concerned"
    told = does(flow, request, CcCommand(request="L-1", actor="B", people=("S",)))
    assert does(flow, told, CommentCommand(request="L-1", actor="S", text=" ? ")).opinions[-1].text == "?"


def test_what_was_not_shown_is_not_sent() -> None:
    filled = FilledForm(values={}, people={})
    reject_unseen_form(filled, filled.content_hash)
    reject_unseen_form(filled, "")
    with pytest.raises(ToolError) as error:
        reject_unseen_form(filled, "another")
    assert error.value.code == "request_changed"


# Standing in


def stand_in(start: float, end: float, deputy: str = "D", id: str = "new") -> Delegation:
    return Delegation(id=id, person="B", deputy=deputy, start=NOW + start * DAY, end=NOW + end * DAY)


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (stand_in(1, 2), ""),
        (stand_in(-1, 1), ""),
        (stand_in(1, 2, deputy="B"), "bad_deputy"),
        (stand_in(2, 2), "bad_period"),
        (stand_in(2, 1), "bad_period"),
        (stand_in(-2, 0), "bad_period"),
        (stand_in(4, 6), "overlapping"),
        (stand_in(6, 8), "overlapping"),
        (stand_in(5.5, 5.6), "overlapping"),
        (stand_in(4, 5), ""),
        (stand_in(7, 8), ""),
        (stand_in(-9, 1), ""),
    ],
)
def test_one_person_has_one_deputy_at_a_time(one: Delegation, code: str) -> None:
    known = [stand_in(5, 7, id="later"), stand_in(-9, -8, id="over"), stand_in(-8, 0, id="just over")]
    if not code:
        reject_bad_delegation(one, known, NOW)
        return
    with pytest.raises(ToolError) as error:
        reject_bad_delegation(one, known, NOW)
    field = {"bad_deputy": "deputy", "bad_period": "last_day", "overlapping": "first_day"}[code]
    assert (error.value.code, error.value.field, error.value.ask) == (code, field, code != "overlapping")
