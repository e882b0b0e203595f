"""Who may do what to a request, at the bounds: how often, how long after, and whom it concerns; and what each command
causes: whose tasks it opens and closes, who is told, what is on record."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from tests.harness.corpus import corpus
from tests.tools.office import NOW
from tests.tools.workflow.flows import Asked, Both, Flow, Serve, drawn
from tools.spec import ToolError
from tools.workflow.bpmn.graph import BoundaryTimer, ServiceTopic, TimerAction, VotingMode
from tools.workflow.engine import authority
from tools.workflow.engine.commands import (
    AddSignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    FireTimerCommand,
    MigrateCommand,
    SignPosition,
    StartCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import COPY_PREFIX, RULE, Decision, Delegation, FilledForm, Request, Status, Task

SECOND_OF_TIME, DAY = timedelta(seconds=1), timedelta(days=1)
AMOUNT = {"amount": Decimal(1)}
ONE = Asked(VotingMode.ALL, 1)
TWO_LEVELS = drawn([ONE, ONE])
BESIDE = drawn([Both(((ONE,), (ONE,)))])


def started(flow: Flow, **people: tuple[str, ...]) -> Request:
    """`people`: task → who is asked."""
    chosen = {f"who_{task}": found for task, found in people.items()}
    filled = FilledForm(values={}, people=chosen, numbers=AMOUNT)
    key, version = flow.definition.key, flow.definition.version
    start = StartCommand(request="L-1", process=key, definition=version, form="", initiator="A", filled=filled)
    return apply_command(flow.definition, None, start, NOW).request


def tasks(flow: Flow) -> list[str]:
    """In the order in which they are reached."""
    return sorted((n for n in flow.definition.nodes if n.startswith("task")), key=lambda n: -int(n[4:]))


FIRST, SECOND = tasks(TWO_LEVELS)


def ask(*people: str, mode: VotingMode = VotingMode.ALL) -> tuple[Flow, Request]:
    flow = drawn([Asked(mode, len(people))])
    (task,) = tasks(flow)
    return flow, started(flow, **{task: people})


def ask_two_levels(first: tuple[str, ...] = ("B",), second: tuple[str, ...] = ("C",)) -> Request:
    return started(TWO_LEVELS, **{FIRST: first, SECOND: second})


def ask_beside() -> tuple[Request, Task, Task]:
    left, right = tasks(BESIDE)
    request = started(BESIDE, **{left: ("B",), right: ("C",)})
    return request, *request.open_tasks  # type: ignore[return-value]


def does(flow: Flow, request: Request | None, command: Any, at: datetime = NOW) -> Request:
    return apply_command(flow.definition, request, command, at).request


def refusal(flow: Flow, request: Request | None, command: Any, at: datetime = NOW) -> str:
    return refused(flow, request, command, at).code


def refused(flow: Flow, request: Request | None, command: Any, at: datetime = NOW) -> ToolError:
    with pytest.raises(ToolError) as error:
        does(flow, request, command, at)
    return error.value


def assert_refused(flow: Flow, request: Request, command: Any, code: str, *, at: datetime = NOW, **told: Any) -> None:
    error = refused(flow, request, command, at)
    assert (error.code, {name: getattr(error, name) for name in told}) == (code, told)


def approve(task: str, actor: str, **more: Any) -> DecideCommand:
    return DecideCommand(task=task, actor=actor, decision=Decision.APPROVE, **more)


def say_no(task: str, actor: str, **more: Any) -> DecideCommand:
    return DecideCommand(task=task, actor=actor, decision=Decision.REJECT, opinion="不行", **more)


def give_back(task: str, actor: str, to: str = "") -> DecideCommand:
    return DecideCommand(task=task, actor=actor, decision=Decision.RETURN, opinion="请改", to=to)


def resubmit(task: str, **more: Any) -> DecideCommand:
    return DecideCommand(task=task, actor="A", decision=Decision.RESUBMIT, **more)


def away(person: str, deputy: str, start: float = 0, end: float = 365, id: str = "new") -> Delegation:
    """From the one day to the other, from now on."""
    return Delegation(id=id, person=person, deputy=deputy, start=NOW + start * DAY, end=NOW + end * DAY)


WITHDRAW = WithdrawCommand(request="L-1", actor="A", agree=("B",))
URGE = UrgeCommand(task="L-1-1", actor="A")


def write_time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M")


def test_a_task_is_urged_a_few_times_hours_apart_and_not_when_nobody_works() -> None:
    flow, request = ask("B")
    for hours in (1, 8):
        opens = NOW + timedelta(hours=hours)
        late = URGE.model_copy(update={"opens": opens})
        assert_refused(flow, request, late, "urged_late", params={"at": write_time(opens)})
        error = refused(flow, does(flow, request, URGE), late, NOW + SECOND_OF_TIME)
        later = max(opens, NOW + authority.URGE_EVERY)
        assert (error.code, error.params) == ("urged_lately", {"at": write_time(later)}), "the later of the two moments"
    at = NOW
    for number in range(authority.MAX_URGES):
        request = does(flow, request, URGE, at)
        assert len(request.tasks[0].urged) == number + 1
        if number < authority.MAX_URGES - 1:
            error = refused(flow, request, URGE, at + authority.URGE_EVERY - SECOND_OF_TIME)
            assert (error.code, error.params) == ("urged_lately", {"at": write_time(at + authority.URGE_EVERY)})
        at += authority.URGE_EVERY
    assert_refused(flow, request, URGE, "urged_enough", at=at, params={"most": authority.MAX_URGES})


def test_only_the_author_urges_and_only_somebody_else_who_is_asked() -> None:
    flow, request = ask("B")
    assert refusal(flow, request, URGE.model_copy(update={"actor": "B"})) == "not_yours"
    assert_refused(flow, request, URGE.model_copy(update={"task": "x" * 50}), "no_task", params={"task": "x" * 40})
    assert refusal(flow, does(flow, request, approve("L-1-1", "B")), URGE) == "task_closed"
    revising = does(flow, request, give_back("L-1-1", "B"))
    assert refusal(flow, revising, URGE.model_copy(update={"task": "L-1-2"})) == "own_task"


def test_an_agreement_is_asked_for_a_few_times_and_hours_apart() -> None:
    flow, request = ask("B")
    request, at = does(flow, request, approve("L-1-1", "B")), NOW
    for number in range(authority.MAX_WITHDRAWALS):
        request = does(flow, request, WITHDRAW, at)
        request = does(flow, request, say_no(f"L-1-{number + 2}", "B"), at)
        if number < authority.MAX_WITHDRAWALS - 1:
            error = refused(flow, request, WITHDRAW, at + authority.ASK_EVERY - SECOND_OF_TIME)
            assert (error.code, error.params) == ("kept_lately", {"at": write_time(at + authority.ASK_EVERY)})
        at += authority.ASK_EVERY
    assert_refused(flow, request, WITHDRAW, "kept_enough", at=at, params={"most": authority.MAX_WITHDRAWALS})


def test_the_author_withdraws_what_runs_and_needs_somebody_who_agrees_to_what_is_approved() -> None:
    flow, request = ask("B")
    assert refusal(flow, request, WITHDRAW.model_copy(update={"actor": "B"})) == "not_yours"
    withdrawn = does(flow, request, WITHDRAW)
    assert withdrawn.status is Status.WITHDRAWN
    assert_refused(flow, withdrawn, WITHDRAW, "not_running", params={"request": "L-1"})
    approved = does(flow, request, approve("L-1-1", "B"))
    for agree in ((), ("A",), ("B", "A")):
        assert refusal(flow, approved, WITHDRAW.model_copy(update={"agree": agree})) == "no_level"
    revoking = does(flow, approved, WITHDRAW)
    assert (revoking.status, revoking.waits_for) == (Status.REVOKING, ("B",))
    assert_refused(flow, revoking, WITHDRAW.model_copy(update={"agree": ()}), "withdrawing", params={"request": "L-1"})
    asked_anew = does(flow, revoking, WITHDRAW.model_copy(update={"agree": ("C",)}))
    assert (asked_anew.status, asked_anew.waits_for) == (Status.REVOKING, ("C",)), "whoever was asked has left"
    assert does(flow, revoking, approve("L-1-2", "B")).status is Status.WITHDRAWN, "also by who approved it"
    assert does(flow, revoking, say_no("L-1-2", "B")).status is Status.APPROVED
    handed = does(flow, revoking, TransferCommand(task="L-1-2", actor="B", person="C"))
    assert does(flow, handed, approve("L-1-3", "C")).status is Status.WITHDRAWN


def test_a_request_goes_back_to_its_author_or_to_an_earlier_step_that_counts() -> None:
    request = ask_two_levels()
    assert authority.list_return_targets(TWO_LEVELS.definition, request, request.open_tasks[0]) == ("revise",)
    passed = does(TWO_LEVELS, request, approve("L-1-1", "B"))
    assert authority.list_return_targets(TWO_LEVELS.definition, passed, passed.open_tasks[0]) == ("revise", FIRST)
    assert does(TWO_LEVELS, passed, give_back("L-1-2", "C")).status is Status.REVISE
    assert does(TWO_LEVELS, passed, give_back("L-1-2", "C", FIRST)).waits_for == ("B",)
    for odd in (SECOND, "nowhere"):
        assert_refused(TWO_LEVELS, passed, give_back("L-1-2", "C", odd), "bad_target", field="to")
    nowhere = TWO_LEVELS.definition.model_copy(update={"alone": frozenset()})
    assert authority.list_return_targets(nowhere, passed, passed.open_tasks[0]) == ()
    assert refusal(replace(TWO_LEVELS, definition=nowhere), passed, give_back("L-1-2", "C")) == "bad_target"


def test_from_one_of_two_parallel_parts_only_back_to_the_author() -> None:
    """What was said beside it would be lost."""
    flow = drawn([ONE, Both(((ONE,), (ONE,)))])
    first, *others = tasks(flow)
    request = started(flow, **{first: ("B",), others[0]: ("C",), others[1]: ("D",)})
    both = does(flow, request, approve("L-1-1", "B"))
    one, other = both.open_tasks
    assert authority.list_return_targets(flow.definition, both, one) == ("revise",)
    arrived = does(flow, both, approve(one.id, one.assignee))
    assert authority.list_return_targets(flow.definition, arrived, other) == ("revise",)
    assert refusal(flow, arrived, give_back(other.id, other.assignee, first)) == "bad_target"


def test_a_no_needs_a_word_and_only_what_a_task_is_for_is_decided() -> None:
    flow, request = ask("B")
    for decision in (Decision.REJECT, Decision.RETURN):
        silent = DecideCommand(task="L-1-1", actor="B", decision=decision, opinion=" ")
        assert_refused(flow, request, silent, "missing_opinion", field="opinion", ask=True)
    for decision in (Decision.RESUBMIT, Decision.WITHDRAW):
        assert refusal(flow, request, DecideCommand(task="L-1-1", actor="B", decision=decision)) == "bad_decision"
    revising = does(flow, request, give_back("L-1-1", "B"))
    assert refusal(flow, revising, approve("L-1-2", "A")) == "bad_decision"
    assert refusal(flow, revising, approve("L-1-2", "C", standing=away("A", "C"))) == "not_assignee"
    assert refusal(flow, request, approve("L-1-1", "C")) == "not_assignee"
    assert refusal(flow, request, approve("L-1-1", "A")) == "own_request"
    assert refusal(flow, request, approve("L-1-1", "C", standing=away("B", "D"))) == "not_assignee"
    assert refusal(flow, request, approve("L-1-1", "A", standing=away("B", "A"))) == "own_request"
    assert refusal(flow, does(flow, request, approve("L-1-1", "B")), approve("L-1-1", "B")) == "task_closed"


def test_who_decides_already_is_not_asked_as_well_nor_stands_in() -> None:
    request = ask_two_levels()
    (task,) = request.open_tasks
    asked = {p: authority.can_be_asked(TWO_LEVELS.definition, request, task, p) for p in "ABCD"}
    assert asked == {"A": False, "B": False, "C": False, "D": True}
    add = AddSignCommand(task="L-1-1", actor="B", where=SignPosition.BEFORE, people=("A",))
    for person, code in (("A", "own_request"), ("B", "asked_already"), ("C", "own_level")):
        assert_refused(TWO_LEVELS, request, add.model_copy(update={"people": (person,)}), code, field="people")
    by_deputy = approve("L-1-1", "C", standing=away("B", "C"))
    assert refusal(TWO_LEVELS, request, by_deputy) == "own_level", "else nobody could decide the second level"
    assert does(TWO_LEVELS, request, approve("L-1-1", "D", standing=away("B", "D"))).waits_for == ("C",)
    flow, beside = ask("B", "C")
    assert refusal(flow, beside, by_deputy) == "asked_already"
    flow, alone = ask("B")
    for where in SignPosition:
        themselves = AddSignCommand(task="L-1-1", actor="C", standing=away("B", "C"), where=where, people=("D", "C"))
        assert refusal(flow, alone, themselves) == "asked_already", "else nobody could decide it any more"


@pytest.mark.parametrize("where", [SignPosition.BEFORE, SignPosition.BESIDE])
def test_nobody_is_asked_twice_in_the_same_place(where: SignPosition) -> None:
    """Else what the first one said would be lost, and they could be asked again."""
    flow, request = ask("B")
    asked = does(flow, request, AddSignCommand(task="L-1-1", actor="B", where=where, people=("C",)))
    said = does(flow, asked, approve("L-1-2", "C"))
    mine = next(t.id for t in said.open_tasks if t.assignee == "B")
    assert refusal(flow, said, AddSignCommand(task=mine, actor="B", where=where, people=("D",))) == "asked_already"
    assert refusal(flow, said, TransferCommand(task=mine, actor="B", person="C")) == "asked_already"
    assert does(flow, said, approve(mine, "B")).status is Status.APPROVED


def test_whoever_agrees_to_a_withdrawal_has_no_further_level() -> None:
    flow, request = ask("B", "C")
    request = does(flow, does(flow, request, approve("L-1-1", "B")), approve("L-1-2", "C"))
    revoking = does(flow, request, WITHDRAW.model_copy(update={"agree": ("B", "D")}))
    once = does(flow, revoking, approve("L-1-3", "C", standing=away("B", "C")))
    assert once.waits_for == ("D",)
    assert refusal(flow, once, approve("L-1-4", "C", standing=away("D", "C"))) == "own_level", "nor two of its seats"


def test_parallel_parts_wait_for_each_other_have_people_of_their_own_and_hear_every_no() -> None:
    request, one, other = ask_beside()
    half = does(BESIDE, request, approve(one.id, one.assignee))
    assert (half.status, len(half.arrived), half.waits_for) == (Status.WAITING, 1, (other.assignee,))
    whole = does(BESIDE, half, approve(other.id, other.assignee))
    assert (whole.status, whole.arrived) == (Status.APPROVED, ())
    assert not authority.can_be_asked(BESIDE.definition, request, one, other.assignee)
    assert authority.can_be_asked(BESIDE.definition, request, one, "D")
    add = AddSignCommand(task=one.id, actor=one.assignee, where=SignPosition.BESIDE, people=("D",))
    again = add.model_copy(update={"task": other.id, "actor": other.assignee})
    assert refusal(BESIDE, does(BESIDE, request, add), again) == "own_level", "else one of the two would wait for ever"
    no = say_no(one.id, "D", standing=away(one.assignee, "D"))
    also_no = say_no(other.id, "D", standing=away(other.assignee, "D"))
    assert does(BESIDE, does(BESIDE, request, no), also_no).status is Status.REVISE
    yes = approve(one.id, "D", standing=away(one.assignee, "D"))
    assert refusal(BESIDE, does(BESIDE, request, yes), also_no) == "own_level", "control"


def test_an_assignee_who_has_decided_another_level_by_now_does_not_decide_this_one() -> None:
    """Nobody is asked twice; and if somebody was, for whatever reason, they are refused here, too."""
    passed = does(TWO_LEVELS, ask_two_levels(), approve("L-1-1", "B"))
    (task,), (visit,) = passed.open_tasks, passed.visits
    seats = tuple(seat.model_copy(update={"person": "B"}) for seat in visit.ballot.seats)
    ballot = visit.ballot.model_copy(update={"seats": seats})
    reassigned = [one.model_copy(update={"assignee": "B"}) if one.id == task.id else one for one in passed.tasks]
    visits = (visit.model_copy(update={"ballot": ballot}),)
    asked_twice = passed.model_copy(update={"tasks": tuple(reassigned), "visits": visits})
    assert refusal(TWO_LEVELS, asked_twice, approve(task.id, "B")) == "own_level"
    assert does(TWO_LEVELS, passed, approve(task.id, "C")).status is Status.APPROVED, "control"


def test_who_approved_last_counts_in_this_round_and_since_the_last_return() -> None:
    request = ask_two_levels()
    assert authority.find_last_approvers(request) == ()
    passed = does(TWO_LEVELS, request, approve("L-1-1", "E", standing=away("B", "E")))
    assert authority.find_last_approvers(passed) == ("B",), "for whom it was said"
    assert authority.find_last_approvers(does(TWO_LEVELS, passed, approve("L-1-2", "C"))) == ("C",)
    returned = does(TWO_LEVELS, passed, give_back("L-1-2", "C", FIRST))
    assert authority.find_last_approvers(returned) == ()
    assert authority.find_last_approvers(does(TWO_LEVELS, returned, approve("L-1-3", "B"))) == ("B",)
    revising = does(TWO_LEVELS, passed, give_back("L-1-2", "C"))
    assert authority.find_last_approvers(does(TWO_LEVELS, revising, resubmit(revising.open_tasks[0].id))) == ()
    asks_d = FilledForm(values={}, people={f"who_{FIRST}": ("D",), f"who_{SECOND}": ("C",)}, numbers=AMOUNT)
    rejected = does(TWO_LEVELS, passed, say_no("L-1-2", "C"))
    again = does(TWO_LEVELS, rejected, resubmit(rejected.open_tasks[0].id, filled=asks_d))
    again = does(TWO_LEVELS, again, approve(again.open_tasks[0].id, "D"))
    assert authority.find_last_approvers(again) == ("D",), "not who approved the form before"
    add = AddSignCommand(task="L-1-2", actor="C", where=SignPosition.AFTER, people=("F",))
    taken_back = does(TWO_LEVELS, does(TWO_LEVELS, passed, add), give_back("L-1-3", "F", FIRST))
    anew = does(TWO_LEVELS, taken_back, approve("L-1-4", "B"))
    anew = does(TWO_LEVELS, anew, TransferCommand(task="L-1-5", actor="C", person="D"))
    assert authority.find_last_approvers(does(TWO_LEVELS, anew, approve("L-1-6", "D"))) == ("D",), (
        "nor before it was returned"
    )


def test_only_an_approval_at_another_level_of_this_round_keeps_somebody_from_deciding() -> None:
    request = ask_two_levels()
    passed = does(TWO_LEVELS, request, approve("L-1-1", "B"))
    assert authority.list_other_approvers(passed, SECOND) == {"B"}
    assert authority.list_other_approvers(passed, FIRST) == frozenset(), "nor from deciding the same level once more"
    assert authority.list_other_approvers(passed.model_copy(update={"round": 2}), SECOND) == frozenset(), (
        "nor in another round"
    )
    handed = does(TWO_LEVELS, request, TransferCommand(task="L-1-1", actor="B", person="D"))
    assert authority.list_other_approvers(handed, SECOND) == frozenset(), "nor who has only handed it over"
    by_deputy = does(TWO_LEVELS, request, approve("L-1-1", "D", standing=away("B", "D")))
    assert authority.list_other_approvers(by_deputy, SECOND) == {"B", "D"}


def test_only_whom_a_request_concerns_speak_of_it() -> None:
    flow, request = ask("B")
    error = refused(flow, request, CommentCommand(request="L-1", actor="S", text="?"))
    assert (error.code, error.params) == ("not_concerned", {"request": "L-1"})
    assert refusal(flow, request, CcCommand(request="L-1", actor="S", people=("S",))) == "not_concerned"
    told = does(flow, request, CcCommand(request="L-1", actor="B", people=("S",)))
    assert does(flow, told, CommentCommand(request="L-1", actor="S", text=" ? ")).opinions[-1].text == "?"


@corpus(("start", "end", "may"), (-2, -1, False), (-1, 0, False), (1, 2, False), (0, 1, True), (-1, 1, True))
def test_who_stands_in_does_so_only_meanwhile(start: int, end: int, may: bool) -> None:
    flow, request = ask("B")
    command = approve("L-1-1", "D", standing=away("B", "D", start, end))
    if may:
        assert does(flow, request, command).status is Status.APPROVED
    else:
        assert refusal(flow, request, command) == "not_assignee"


@corpus(
    ("deputy", "days", "code"),
    *(("D", days, "") for days in ((1, 2), (-1, 1), (4, 5), (7, 8), (-9, 1))),
    ("B", (1, 2), "bad_deputy"),
    *(("D", days, "bad_period") for days in ((2, 2), (2, 1), (-2, 0))),
    *(("D", days, "overlapping") for days in ((4, 6), (6, 8), (5.5, 5.6))),
)
def test_one_person_has_one_deputy_at_a_time(deputy: str, days: tuple[float, float], code: str) -> None:
    one, others = away("B", deputy, *days), {"later": (5, 7), "over": (-9, -8), "just over": (-8, 0)}
    known = [away("B", "D", *times, name) for name, times in others.items()]
    if not code:
        authority.reject_bad_delegation(one, known, NOW)
        return
    with pytest.raises(ToolError) as error:
        authority.reject_bad_delegation(one, known, NOW)
    field = {"bad_deputy": "deputy", "bad_period": "last_day", "overlapping": "first_day"}[code]
    assert (error.value.code, error.value.field, error.value.ask) == (code, field, code != "overlapping")


def list_notices(flow: Flow, request: Request, command: Any, kind: str = "") -> list[dict[str, str]]:
    """What people are told, each without the request's id."""
    notices = apply_command(flow.definition, request, command, NOW).notices
    assert {one.data["request"] for one in notices} <= {"L-1"}
    told = [{"notice": one.kind, **{k: v for k, v in one.data.items() if k != "request"}} for one in notices]
    return [one for one in told if one["notice"] == kind] if kind else told


def list_outcomes(request: Request) -> list[tuple[str, str]]:
    return [(one.assignee, one.outcome) for one in request.tasks]


def read_last_opinion(request: Request) -> tuple[str, ...]:
    last = request.opinions[-1]
    return last.by, last.on_behalf, last.decision, last.text, last.task, last.node


def test_a_return_ends_what_was_asked_beside_it() -> None:
    flow, request = ask("B", "C")
    back = give_back("L-1-1", "B").model_copy(update={"opinion": " 请改 "})
    returned = does(flow, request, back)
    assert list_outcomes(returned) == [("B", "return"), ("C", "returned"), ("A", "")]
    assert (returned.status, returned.waits_for, returned.arrived) == (Status.REVISE, ("A",), ())
    assert [visit.node for visit in returned.visits] == ["revise"]
    assert read_last_opinion(returned)[:4] == ("B", "", "return", "请改")
    assert list_notices(flow, request, back) == [
        {"notice": "task_closed", "task": "L-1-1", "person": "B", "by": "B", "why": "decided"},
        {"notice": "task_closed", "task": "L-1-2", "person": "C", "by": "B", "why": "returned"},
        {"notice": "assigned", "task": "L-1-3", "person": "A", "kind": "revise"},
    ]


def test_back_at_an_earlier_step_nothing_after_it_counts_and_in_the_next_round_nothing_of_the_one_before() -> None:
    passed = does(TWO_LEVELS, ask_two_levels(), approve("L-1-1", "B"))
    assert passed.decisions == {FIRST: "approve"}
    returned = does(TWO_LEVELS, passed, give_back("L-1-2", "C", FIRST))
    assert (returned.decisions, returned.waits_for, returned.round) == ({}, ("B",), 1)
    request, one, other = ask_beside()
    revising = does(BESIDE, does(BESIDE, request, say_no(one.id, one.assignee)), approve(other.id, other.assignee))
    assert revising.status is Status.REVISE
    again = does(BESIDE, revising, resubmit(revising.open_tasks[0].id))
    assert (again.round, again.decisions) == (2, {"revise": "resubmit"})


def test_who_approved_before_it_came_back_decides_another_level_of_the_next_round() -> None:
    passed = does(TWO_LEVELS, ask_two_levels(), approve("L-1-1", "B"))
    returned = does(TWO_LEVELS, passed, give_back("L-1-2", "C"))
    swapped = FilledForm(values={}, people={f"who_{FIRST}": ("C",), f"who_{SECOND}": ("B",)}, numbers=AMOUNT)
    again = does(TWO_LEVELS, returned, resubmit(returned.open_tasks[0].id, filled=swapped))
    for person in ("C", "B"):
        again = does(TWO_LEVELS, again, approve(again.open_tasks[0].id, person))
    assert again.status is Status.APPROVED


def test_where_any_one_decides_the_others_have_nothing_to_do_any_more() -> None:
    flow, request = ask("B", "C", "D", mode=VotingMode.ANY)
    command = approve("L-1-2", "C")
    approved = does(flow, request, command)
    assert list_outcomes(approved) == [("B", "settled"), ("C", "approve"), ("D", "settled")]
    assert (approved.status, approved.visits, approved.open_tasks) == (Status.APPROVED, (), ())
    closed = [(one["person"], one["why"]) for one in list_notices(flow, request, command) if "why" in one]
    assert closed == [("C", "decided"), ("B", "settled"), ("D", "settled")]


def test_what_a_round_begins_with() -> None:
    flow, request = ask("B")
    revising = does(flow, request, give_back("L-1-1", "B"))
    changed = request.filled.model_copy(update={"values": {"reason": "y"}})
    for filled, kept in ((None, request.filled), (changed, changed)):
        again = does(flow, revising, resubmit("L-1-2", filled=filled))
        assert (again.filled, again.round, again.waits_for) == (kept, 2, ("B",))
        assert again.open_tasks[0].round == 2
    withdrawn = does(flow, revising, DecideCommand(task="L-1-2", actor="A", decision=Decision.WITHDRAW))
    assert withdrawn.status is Status.WITHDRAWN
    for opinion in ("", "改好了"):
        resubmitted = does(flow, revising, resubmit("L-1-2", opinion=opinion))
        approved = does(flow, resubmitted, approve("L-1-3", "B", opinion=opinion))
        by_author = [("A", "resubmit", opinion)] if opinion else []  # on record only with words of theirs
        said = [(one.by, one.decision, one.text) for one in approved.opinions]
        assert said == [("B", "return", "请改"), *by_author, ("B", "approve", opinion)]


def test_an_event_says_what_a_command_has_done_and_when_and_follows_the_one_before() -> None:
    flow, request = ask("B", "C", "D", mode=VotingMode.ANY)
    command = approve("L-1-2", "C")
    result = apply_command(flow.definition, request, command, NOW)
    event = result.event
    assert (event.n, event.at, event.command, event.via) == (1, NOW, command, "button")
    assert event.closed == ("L-1-2=approve", "L-1-1=settled", "L-1-3=settled") and event.opened == ()
    assert (event.status, event.previous) == (Status.APPROVED, request.head)
    assert (result.request.events, result.request.head) == (2, event.hash) and event.hash not in ("", request.head)
    (task,) = tasks(flow)
    assert event.steps[0].node == task and event.steps[-1].to in flow.definition.nodes
    add = AddSignCommand(task="L-1-1", actor="B", where=SignPosition.BEFORE, people=("E", "F"))
    added = apply_command(flow.definition, request, add, NOW).event
    assert (added.closed, added.opened) == (("L-1-1=added",), ("L-1-4=E", "L-1-5=F"))
    timed = apply_command(set_timers(flow).definition, request, FireTimerCommand(task="L-1-1", timer="remind"), NOW)
    migrate = MigrateCommand(request="L-1", actor="X", definition="new", form="f")
    moved = apply_command(flow.definition, request, migrate, NOW)
    assert [one.event.via for one in (timed, moved)] == ["timer", "command"]
    found = moved.request
    assert (found.definition, found.form, found.tasks) == ("new", "f", request.tasks), "nothing else is changed"
    local = datetime(2026, 11, 20, 9, tzinfo=timezone(timedelta(hours=8)))
    approved = does(flow, request, approve("L-1-1", "B"), local)
    assert approved.changed == approved.tasks[0].closed == approved.opinions[-1].at == local
    assert {one.tzinfo for one in (approved.changed, approved.opinions[-1].at)} == {UTC}
    assert (approved.tasks[0].by, approved.tasks[0].since) == ("B", request.started)
    assert refusal(flow, None, command) == "no_request", "nothing is done to what is not there"


def test_nobody_who_must_not_is_asked_and_the_name_that_stands_for_them_is_told() -> None:
    name = TWO_LEVELS.definition.nodes[FIRST].name
    no_level: Any = ((), "no_level", {"label": {"zh": name, "en": name}})
    for people, code, params in (no_level, (("A",), "own_approver", {}), (("B", "A"), "own_approver", {})):
        with pytest.raises(ToolError) as error:
            ask_two_levels(people)
        told = error.value
        assert (told.code, told.field, told.params) == (code, f"who_{FIRST}", params)
    told = refused(TWO_LEVELS, ask_two_levels(second=("B", "C")), approve("L-1-1", "B"))
    assert (told.code, told.field) == ("own_level", f"who_{SECOND}")


def test_the_author_and_who_has_decided_are_left_out_of_a_group() -> None:
    flow = drawn([ONE, Asked(VotingMode.ANY, 3)])
    first, group = tasks(flow)
    request = started(flow, **{first: ("B",), group: ("A", "B", "C")})
    assert does(flow, request, approve("L-1-1", "B")).waits_for == ("C",)
    alone = started(flow, **{first: ("B",), group: ("A", "B")})
    assert refusal(flow, alone, approve("L-1-1", "B")) == "own_approver", "nobody is left"


def test_what_ends_leaves_nothing_open_and_is_told_to_its_author_unless_it_was_their_own_doing() -> None:
    flow, request = ask("B", "C")
    withdrawn = does(flow, request, WITHDRAW)
    assert list_outcomes(withdrawn) == [("B", "withdrawn"), ("C", "withdrawn")]
    assert (withdrawn.visits, withdrawn.arrived, withdrawn.waits_for) == ((), (), ())
    told = list_notices(flow, request, WITHDRAW)
    closed = [("task_closed", person, "A", "withdrawn") for person in "BC"]
    assert [(one["notice"], one["person"], one["by"], one["why"]) for one in told] == closed
    passed = does(TWO_LEVELS, ask_two_levels(), approve("L-1-1", "B", opinion="同意"))
    by_deputy = approve("L-1-2", "D", standing=away("C", "D"), opinion="没问题")
    for command, by, opinion, behalf in ((by_deputy, "D", "没问题", "C"), (approve("L-1-2", "C"), "C", "", "")):
        ended = {"notice": "ended", "person": "A", "status": "approved", "rule": "", "by": by}
        told = list_notices(TWO_LEVELS, passed, command, "ended")
        assert told == [{**ended, "opinion": opinion, "behalf": behalf}]


def test_a_rule_ends_it_in_its_own_name_and_a_withdrawal_that_is_not_agreed_to_is_told_as_kept() -> None:
    flow = drawn([ONE, Serve(ServiceTopic.RULE)])
    (task,) = tasks(flow)
    approving = approve("L-1-1", "B", opinion="同意")
    request = started(flow, **{task: ("B",)})
    [by_rule] = list_notices(flow, request, approving, "ended")
    assert (by_rule["by"], by_rule["status"], bool(by_rule["rule"])) == (RULE, "approved", True)
    assert (by_rule["opinion"], by_rule["behalf"]) == ("", ""), "it quotes nobody"
    asking = WITHDRAW.model_copy(update={"agree": ("B", "C")})
    revoking, no = does(flow, does(flow, request, approving), asking), say_no("L-1-2", "B")
    [kept] = list_notices(flow, revoking, no, "ended")
    assert (kept["by"], kept["status"], kept["opinion"]) == ("B", "kept", "不行")
    assert does(flow, revoking, no).waits_for == ()


def test_a_transfer_is_on_record_and_moves_the_task() -> None:
    flow, request = ask("B")
    command = TransferCommand(task="L-1-1", actor="D", person="C", opinion="在休假", standing=away("B", "D"))
    handed = does(flow, request, command)
    assert list_outcomes(handed) == [("B", "transferred"), ("C", "")]
    assert read_last_opinion(handed)[:5] == ("D", "B", "transfer", "在休假", "L-1-1")
    assert list_notices(flow, request, command) == [
        {"notice": "task_closed", "task": "L-1-1", "person": "B", "by": "D", "why": "transferred"},
        {"notice": "assigned", "task": "L-1-2", "person": "C", "kind": "approve"},
    ]
    for person, code in (("A", "own_request"), ("B", "asked_already")):
        assert_refused(flow, request, command.model_copy(update={"person": person}), code, field="person")


def test_the_authors_own_task_is_not_given_away_and_nobody_is_asked_beside_it() -> None:
    flow, request = ask("B")
    revising = does(flow, request, give_back("L-1-1", "B"))
    assert refusal(flow, revising, TransferCommand(task="L-1-2", actor="A", person="C")) == "bad_decision"
    add = AddSignCommand(task="L-1-2", actor="A", where=SignPosition.BESIDE, people=("C",))
    assert refusal(flow, revising, add) == "bad_decision"
    approved = does(flow, request, approve("L-1-1", "B"))
    revoking = does(flow, approved, WITHDRAW.model_copy(update={"agree": ("B",)}))
    assert refusal(flow, revoking, add.model_copy(update={"actor": "B"})) == "bad_decision"


@corpus(
    ("where", "outcomes", "said"),
    (SignPosition.BEFORE, [("B", "added"), ("C", "")], ("B", "", "add_sign", "请看")),
    (SignPosition.BESIDE, [("B", ""), ("C", "")], ("B", "", "add_sign", "请看")),
    (SignPosition.AFTER, [("B", "approve"), ("C", "")], ("B", "", "approve", "请看")),
)
def test_whose_turn_it_is_when_others_are_asked(where: SignPosition, outcomes: Any, said: tuple[str, ...]) -> None:
    flow, request = ask("B")
    add = AddSignCommand(task="L-1-1", actor="B", where=where, people=("C",), opinion="请看")
    asked = does(flow, request, add)
    assert list_outcomes(asked) == outcomes
    assert read_last_opinion(asked)[:4] == said
    assert asked.status is Status.WAITING
    assert asked.tasks[0].by == ("B" if where is SignPosition.AFTER else "")
    approved = asked
    for task in ("L-1-2", "L-1-1", "L-1-3"):
        if found := next((one for one in approved.open_tasks if one.id == task), None):
            approved = does(flow, approved, approve(task, found.assignee))
    assert approved.status is Status.APPROVED
    for count in (0, 1, authority.MAX_PEOPLE, authority.MAX_PEOPLE + 1):
        people = tuple(f"P{n}" for n in range(count))
        several = add.model_copy(update={"where": SignPosition.BESIDE, "people": people})
        if 0 < count <= authority.MAX_PEOPLE:
            assert set(does(flow, request, several).waits_for) == {"B", *people}
        else:
            assert refusal(flow, request, several) == "bad_decision", "a few people are asked at once"


def test_an_urge_is_told_to_whoever_is_asked_and_a_comment_to_the_others_once() -> None:
    flow, request = ask("B", "C")
    told = list_notices(flow, request, UrgeCommand(task="L-1-2", actor="A"))
    assert told == [{"notice": "urged", "task": "L-1-2", "person": "C", "by": "A"}]
    for actor, readers in (("A", ["B", "C"]), ("B", ["A", "C"])):
        comment = CommentCommand(request="L-1", actor=actor, text=" 在路上 ")
        told = list_notices(flow, request, comment)
        assert told == [{"notice": "commented", "person": p, "by": actor, "text": "在路上"} for p in readers]
        said = does(flow, request.model_copy(update={"round": 3}), comment)
        assert read_last_opinion(said) == (actor, "", "comment", "在路上", "", "")
        assert said.opinions[-1].round == 3
    error = refused(flow, request, CommentCommand(request="L-1", actor="A", text=" \n"))
    assert (error.code, error.field, error.ask) == ("missing_field", "text", True)
    assert error.params == {"label": {"zh": "评论", "en": "The comment"}}


def test_others_are_told_of_a_request_once_and_not_its_author() -> None:
    flow, request = ask("B")
    cc = CcCommand(request="L-1", actor="B", people=("C", "A", "D", "C"))
    assert list_notices(flow, request, cc) == [{"notice": "told", "person": p, "by": "B"} for p in "CD"]
    told = does(flow, request, cc)
    assert told.cc == ("C", "D")
    for people in (("C", "A"), ()):
        assert refusal(flow, told, cc.model_copy(update={"people": people})) == "told_already"
    assert does(flow, told, cc.model_copy(update={"people": ("D", "E")})).cc == ("C", "D", "E")
    many = tuple(f"P{n}" for n in range(authority.MAX_PEOPLE + 1))
    assert refusal(flow, request, cc.model_copy(update={"people": many})) == "told_already"
    assert does(flow, request, cc.model_copy(update={"people": many[1:]})).cc == many[1:]


@corpus(
    ("topic", "told"),
    (ServiceTopic.MAIL, [{"notice": "mail", "person": "A"}]),
    (ServiceTopic.CC, [{"notice": "told", "person": p, "by": RULE} for p in "CD"]),
    (ServiceTopic.RULE, [{"notice": "told", "person": p, "by": RULE} for p in "CD"]),
)
def test_what_a_service_on_the_way_causes(topic: ServiceTopic, told: list[dict[str, str]]) -> None:
    flow = drawn([ONE, Serve(topic)])
    (task,) = tasks(flow)
    [service] = [name for name, node in flow.definition.nodes.items() if node.topic is topic]
    request = started(flow, **{task: ("B",)})
    told_by = f"{COPY_PREFIX}{service}" if topic is ServiceTopic.RULE else service
    people = {**request.filled.people, told_by: ("C", "A", "D")}
    request = request.model_copy(update={"filled": request.filled.model_copy(update={"people": people})})
    notices = list_notices(flow, request, approve("L-1-1", "B"))
    on_the_way = [one for one in notices if one["notice"] in ("mail", "told")]
    assert on_the_way == [{**one, "node": service} if one["notice"] == "mail" else one for one in told]
    approved = does(flow, request, approve("L-1-1", "B"))
    assert (approved.status, approved.rule) == (Status.APPROVED, service if topic is ServiceTopic.RULE else "")
    assert approved.cc == (() if topic is ServiceTopic.MAIL else ("C", "D"))


def set_timers(flow: Flow) -> Flow:
    """Every task with a reminder and a way on."""
    timers = tuple(BoundaryTimer(id=one.value, after_s=60, alarm=one) for one in TimerAction)
    nodes = {name: node.model_copy(update={"timers": timers}) for name, node in flow.definition.nodes.items()}
    return replace(flow, definition=flow.definition.model_copy(update={"nodes": nodes}))


def test_a_timer_reminds_once_and_gives_a_task_to_a_manager_who_may_decide() -> None:
    flow, request = ask("B")
    flow, fire = set_timers(flow), FireTimerCommand(task="L-1-1", timer="remind")
    assert list_notices(flow, request, fire) == [{"notice": "reminded", "task": "L-1-1", "person": "B"}]
    fired = does(flow, request, fire)
    assert fired.tasks[0].fired == ("remind",) and fired.tasks[0].is_open
    assert refusal(flow, fired, fire) == "task_closed"
    assert refusal(flow, request, fire.model_copy(update={"timer": "another"})) == "task_closed"
    assert refusal(flow, request, fire.model_copy(update={"task": "L-1-9"})) == "no_task"
    assert refusal(flow, does(flow, request, approve("L-1-1", "B")), fire) == "task_closed"
    flow, request = ask("B")
    flow, fire = set_timers(flow), FireTimerCommand(task="L-1-1", timer="escalate", manager="M")
    moved = does(flow, request, fire)
    assert list_outcomes(moved) == [("B", "escalated"), ("M", "")]
    assert moved.tasks[0].fired == ("escalate",)
    escalated = list_notices(flow, request, fire, "escalated")
    assert escalated == [{"notice": "escalated", "task": "L-1-1", "person": "A", "by": "B", "to": "M"}]
    for manager, code in (("A", "own_request"), ("B", "asked_already")):
        assert_refused(flow, request, fire.model_copy(update={"manager": manager}), code, field="manager")
    nobody = fire.model_copy(update={"manager": ""})
    assert list_notices(flow, request, nobody) == [{"notice": "unattended", "task": "L-1-1", "person": "A", "by": "B"}]
    assert does(flow, request, nobody).waits_for == ("B",)
