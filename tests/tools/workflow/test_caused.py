"""What each command causes: whose tasks it opens and closes, who is told, what is on record."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

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
from tests.tools.workflow.flows import Asked, Flow, Serve, drawn
from tools.spec import ToolError
from tools.workflow.bpmn.graph import BoundaryTimer, ServiceTopic, TimerAction, VotingMode
from tools.workflow.engine.authority import MAX_PEOPLE
from tools.workflow.engine.commands import (
    AddSignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    FireTimerCommand,
    MigrateCommand,
    SignPosition,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import RULE, Decision, Request, Status


def open_small(*people: str, mode: VotingMode = VotingMode.ALL) -> tuple[Flow, Request]:
    """One task for all of them."""
    flow = drawn([Asked(mode, len(people))])
    (task,) = tasks(flow)
    return flow, started(flow, **{task: people})


def list_notices(flow: Flow, request: Request, command: Any) -> list[dict[str, str]]:
    """What people are told, each without the request's id."""
    notices = apply_command(flow.definition, request, command, NOW).notices
    assert {one.data["request"] for one in notices} <= {"L-1"}
    return [{"notice": one.kind, **{k: v for k, v in one.data.items() if k != "request"}} for one in notices]


def list_outcomes(request: Request) -> list[tuple[str, str]]:
    return [(one.assignee, one.outcome) for one in request.tasks]


def read_last_opinion(request: Request) -> tuple[str, ...]:
    last = request.opinions[-1]
    return last.by, last.on_behalf, last.decision, last.text, last.task, last.node


# Decisions


def test_a_return_ends_what_was_asked_beside_it() -> None:
    flow, request = open_small("B", "C")
    back = DecideCommand(task="L-1-1", actor="B", decision=Decision.RETURN, opinion=" 请改 ")
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


def test_back_at_an_earlier_step_nothing_after_it_counts() -> None:
    first, second = tasks(TWO_LEVELS)
    passed = does(TWO_LEVELS, started(TWO_LEVELS, **{first: ("B",), second: ("C",)}), approve("L-1-1", "B"))
    assert passed.decisions == {first: "approve"}
    back = DecideCommand(task="L-1-2", actor="C", decision=Decision.RETURN, opinion="请改", to=first)
    returned = does(TWO_LEVELS, passed, back)
    assert (returned.decisions, returned.waits_for, returned.round) == ({}, ("B",), 1)


def test_where_any_one_decides_the_others_have_nothing_to_do_any_more() -> None:
    flow, request = open_small("B", "C", "D", mode=VotingMode.ANY)
    command = approve("L-1-2", "C")
    approved = does(flow, request, command)
    assert list_outcomes(approved) == [("B", "settled"), ("C", "approve"), ("D", "settled")]
    assert (approved.status, approved.visits, approved.open_tasks) == (Status.APPROVED, (), ())
    closed = [(one["person"], one["why"]) for one in list_notices(flow, request, command) if "why" in one]
    assert closed == [("C", "decided"), ("B", "settled"), ("D", "settled")]


def test_a_resubmission_begins_a_round_with_the_form_it_brings_or_the_one_there_was() -> None:
    flow, request = open_small("B")
    revising = does(flow, request, DecideCommand(task="L-1-1", actor="B", decision=Decision.RETURN, opinion="请改"))
    changed = request.filled.model_copy(update={"values": {"reason": "y"}})
    for filled, kept in ((None, request.filled), (changed, changed)):
        again = does(flow, revising, DecideCommand(task="L-1-2", actor="A", decision=Decision.RESUBMIT, filled=filled))
        assert (again.filled, again.round, again.waits_for) == (kept, 2, ("B",))
        assert again.open_tasks[0].round == 2
    withdrawn = does(flow, revising, DecideCommand(task="L-1-2", actor="A", decision=Decision.WITHDRAW))
    assert withdrawn.status is Status.WITHDRAWN


def test_the_moment_is_kept_in_utc_and_told_to_the_task() -> None:
    flow, request = open_small("B")
    local = datetime(2026, 11, 20, 9, tzinfo=timezone(timedelta(hours=8)))
    approved = does(flow, request, approve("L-1-1", "B"), local)
    assert approved.changed == approved.tasks[0].closed == approved.opinions[-1].at == local
    assert {one.tzinfo for one in (approved.changed, approved.opinions[-1].at)} == {UTC}
    assert (approved.tasks[0].by, approved.tasks[0].since) == ("B", request.started)


def test_an_event_says_what_a_command_has_done_and_follows_the_one_before() -> None:
    flow, request = open_small("B", "C", "D", mode=VotingMode.ANY)
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
    moved = apply_command(
        flow.definition, request, MigrateCommand(request="L-1", actor="X", definition="new", form="f"), NOW
    )
    assert [one.event.via for one in (timed, moved)] == ["timer", "command"]


def test_nothing_is_done_to_a_request_that_is_not_there() -> None:
    flow, _ = open_small("B")
    with pytest.raises(ToolError) as error:
        apply_command(flow.definition, None, approve("L-1-1", "B"), NOW)
    assert error.value.code == "no_request"


def test_nobody_who_must_not_is_asked_and_the_name_that_stands_for_them_is_told() -> None:
    first, second = tasks(TWO_LEVELS)
    name = TWO_LEVELS.definition.nodes[first].name
    for people, code, params in (
        ((), "no_level", {"label": {"zh": name, "en": name}}),
        (("A",), "own_approver", {}),
        (("B", "A"), "own_approver", {}),
    ):
        with pytest.raises(ToolError) as error:
            started(TWO_LEVELS, **{first: people, second: ("C",)})
        told = error.value
        assert (told.code, told.field, told.params) == (code, f"who_{first}", params)
    request = started(TWO_LEVELS, **{first: ("B",), second: ("B", "C")})
    told = refused(TWO_LEVELS, request, approve("L-1-1", "B"))
    assert (told.code, told.field) == ("own_level", f"who_{second}")


# The end


def test_what_ends_leaves_nothing_open() -> None:
    flow, request = open_small("B", "C")
    withdraw = WithdrawCommand(request="L-1", actor="A")
    withdrawn = does(flow, request, withdraw)
    assert list_outcomes(withdrawn) == [("B", "withdrawn"), ("C", "withdrawn")]
    assert (withdrawn.visits, withdrawn.arrived, withdrawn.waits_for) == ((), (), ())
    closed = [(one["person"], one["by"], one["why"]) for one in list_notices(flow, request, withdraw)]
    assert closed == [("B", "A", "withdrawn"), ("C", "A", "withdrawn")]


@pytest.mark.parametrize(("actor", "is_told"), [("A", False), ("B", True)])
def test_the_author_hears_of_an_end_that_was_not_their_own_doing(actor: str, is_told: bool) -> None:
    flow, request = open_small("B")
    command = WithdrawCommand(request="L-1", actor="A") if actor == "A" else approve("L-1-1", "B", opinion="好")
    ended = [one for one in list_notices(flow, request, command) if one["notice"] == "ended"]
    told = {"person": "A", "status": "approved", "by": "B", "rule": "", "opinion": "好", "behalf": ""}
    assert ended == ([{"notice": "ended", **told}] if is_told else [])


def test_a_withdrawal_that_is_not_agreed_to_is_told_as_kept_by_whoever_refused() -> None:
    flow = drawn([ONE, Serve(ServiceTopic.RULE)])
    (task,) = tasks(flow)
    approving = approve("L-1-1", "B")
    request = started(flow, **{task: ("B",)})
    approved = does(flow, request, approving)
    [by_rule] = [one for one in list_notices(flow, request, approving) if one["notice"] == "ended"]
    assert (by_rule["by"], by_rule["status"], bool(by_rule["rule"])) == (RULE, "approved", True)
    revoking = does(flow, approved, WithdrawCommand(request="L-1", actor="A", agree=("B", "C")))
    no = DecideCommand(task="L-1-2", actor="B", decision=Decision.REJECT, opinion="已经订了票")
    [kept] = [one for one in list_notices(flow, revoking, no) if one["notice"] == "ended"]
    assert (kept["by"], kept["status"], kept["opinion"]) == ("B", "kept", "已经订了票")
    assert does(flow, revoking, no).waits_for == ()


# Giving a task away


def test_a_transfer_is_on_record_and_moves_the_task() -> None:
    flow, request = open_small("B")
    command = TransferCommand(task="L-1-1", actor="D", person="C", opinion="在休假", standing=away("B", "D"))
    handed = does(flow, request, command)
    assert list_outcomes(handed) == [("B", "transferred"), ("C", "")]
    assert read_last_opinion(handed)[:5] == ("D", "B", "transfer", "在休假", "L-1-1")
    assert list_notices(flow, request, command) == [
        {"notice": "task_closed", "task": "L-1-1", "person": "B", "by": "D", "why": "transferred"},
        {"notice": "assigned", "task": "L-1-2", "person": "C", "kind": "approve"},
    ]
    for person, code in (("A", "own_request"), ("B", "asked_already")):
        error = refused(flow, request, command.model_copy(update={"person": person}))
        assert (error.code, error.field) == (code, "person")


def test_the_authors_own_task_is_not_given_away_and_nobody_is_asked_beside_it() -> None:
    flow, request = open_small("B")
    revising = does(flow, request, DecideCommand(task="L-1-1", actor="B", decision=Decision.RETURN, opinion="请改"))
    assert refusal(flow, revising, TransferCommand(task="L-1-2", actor="A", person="C")) == "bad_decision"
    add = AddSignCommand(task="L-1-2", actor="A", where=SignPosition.BESIDE, people=("C",))
    assert refusal(flow, revising, add) == "bad_decision"
    approved = does(flow, request, approve("L-1-1", "B"))
    revoking = does(flow, approved, WithdrawCommand(request="L-1", actor="A", agree=("B",)))
    assert refusal(flow, revoking, add.model_copy(update={"actor": "B"})) == "bad_decision"


@pytest.mark.parametrize(("count", "may"), [(0, False), (1, True), (MAX_PEOPLE, True), (MAX_PEOPLE + 1, False)])
def test_a_few_people_are_asked_at_once(count: int, may: bool) -> None:
    flow, request = open_small("B")
    people = tuple(f"P{n}" for n in range(count))
    add = AddSignCommand(task="L-1-1", actor="B", where=SignPosition.BESIDE, people=people)
    if may:
        assert set(does(flow, request, add).waits_for) == {"B", *people}
    else:
        assert refusal(flow, request, add) == "bad_decision"


@pytest.mark.parametrize(
    ("where", "outcomes", "said"),
    [
        (SignPosition.BEFORE, [("B", "added"), ("C", "")], ("B", "", "add_sign", "请看")),
        (SignPosition.BESIDE, [("B", ""), ("C", "")], ("B", "", "add_sign", "请看")),
        (SignPosition.AFTER, [("B", "approve"), ("C", "")], ("B", "", "approve", "请看")),
    ],
)
def test_whose_turn_it_is_when_somebody_is_asked_as_well(
    where: SignPosition, outcomes: list[tuple[str, str]], said: tuple[str, ...]
) -> None:
    flow, request = open_small("B")
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


# Words


def test_an_urge_is_told_to_whoever_is_asked() -> None:
    flow, request = open_small("B", "C")
    told = list_notices(flow, request, UrgeCommand(task="L-1-2", actor="A"))
    assert told == [{"notice": "urged", "task": "L-1-2", "person": "C", "by": "A"}]


def test_a_comment_is_told_to_the_others_once() -> None:
    flow, request = open_small("B", "C")
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
    flow, request = open_small("B")
    cc = CcCommand(request="L-1", actor="B", people=("C", "A", "D", "C"))
    assert list_notices(flow, request, cc) == [{"notice": "told", "person": p, "by": "B"} for p in "CD"]
    told = does(flow, request, cc)
    assert told.cc == ("C", "D")
    for people in (("C", "A"), ()):
        assert refusal(flow, told, cc.model_copy(update={"people": people})) == "told_already"
    again = does(flow, told, cc.model_copy(update={"people": ("D", "E")}))
    assert again.cc == ("C", "D", "E")
    many = tuple(f"P{n}" for n in range(MAX_PEOPLE + 1))
    assert refusal(flow, request, cc.model_copy(update={"people": many})) == "told_already"
    assert does(flow, request, cc.model_copy(update={"people": many[1:]})).cc == many[1:]


# Services and parallel parts


@pytest.mark.parametrize(
    ("topic", "told"),
    [
        (ServiceTopic.MAIL, [{"notice": "mail", "person": "A"}]),
        (ServiceTopic.CC, [{"notice": "told", "person": p, "by": RULE} for p in "CD"]),
        (ServiceTopic.RULE, []),
    ],
)
def test_what_a_service_on_the_way_causes(topic: ServiceTopic, told: list[dict[str, str]]) -> None:
    flow = drawn([ONE, Serve(topic)])
    (task,) = tasks(flow)
    [service] = [name for name, node in flow.definition.nodes.items() if node.topic is topic]
    request = started(flow, **{task: ("B",)})
    people = {**request.filled.people, service: ("C", "A", "D")}
    request = request.model_copy(update={"filled": request.filled.model_copy(update={"people": people})})
    notices = list_notices(flow, request, approve("L-1-1", "B"))
    on_the_way = [one for one in notices if one["notice"] in ("mail", "told")]
    assert on_the_way == [{**one, "node": service} if one["notice"] == "mail" else one for one in told]
    approved = does(flow, request, approve("L-1-1", "B"))
    assert (approved.status, approved.rule) == (Status.APPROVED, service if topic is ServiceTopic.RULE else "")
    assert approved.cc == (("C", "D") if topic is ServiceTopic.CC else ())


def test_parallel_parts_wait_for_each_other_and_nothing_is_left_of_the_waiting() -> None:
    left, right = tasks(BESIDE)
    request = started(BESIDE, **{left: ("B",), right: ("C",)})
    one, other = request.open_tasks
    half = does(BESIDE, request, approve(one.id, one.assignee))
    assert (half.status, len(half.arrived), half.waits_for) == (Status.WAITING, 1, (other.assignee,))
    whole = does(BESIDE, half, approve(other.id, other.assignee))
    assert (whole.status, whole.arrived) == (Status.APPROVED, ())


# Timers


def set_timers(flow: Flow) -> Flow:
    """Every task with a reminder and a way on."""
    timers = (
        BoundaryTimer(id="remind", after_s=60, alarm=TimerAction.REMIND),
        BoundaryTimer(id="escalate", after_s=90, alarm=TimerAction.ESCALATE),
    )
    nodes = {name: node.model_copy(update={"timers": timers}) for name, node in flow.definition.nodes.items()}
    return replace(flow, definition=flow.definition.model_copy(update={"nodes": nodes}))


def test_a_timer_reminds_once() -> None:
    flow, request = open_small("B")
    flow, fire = set_timers(flow), FireTimerCommand(task="L-1-1", timer="remind")
    assert list_notices(flow, request, fire) == [{"notice": "reminded", "task": "L-1-1", "person": "B"}]
    fired = does(flow, request, fire)
    assert fired.tasks[0].fired == ("remind",) and fired.tasks[0].is_open
    assert refusal(flow, fired, fire) == "task_closed"
    assert refusal(flow, request, fire.model_copy(update={"timer": "another"})) == "task_closed"
    assert refusal(flow, request, fire.model_copy(update={"task": "L-1-9"})) == "no_task"
    assert refusal(flow, does(flow, request, approve("L-1-1", "B")), fire) == "task_closed"


def test_a_timer_gives_a_task_to_a_manager_who_may_decide() -> None:
    flow, request = open_small("B")
    flow, fire = set_timers(flow), FireTimerCommand(task="L-1-1", timer="escalate", manager="M")
    moved = does(flow, request, fire)
    assert list_outcomes(moved) == [("B", "escalated"), ("M", "")]
    assert moved.tasks[0].fired == ("escalate",)
    escalated = [one for one in list_notices(flow, request, fire) if one["notice"] == "escalated"]
    assert escalated == [{"notice": "escalated", "task": "L-1-1", "person": "A", "by": "B", "to": "M"}]
    for manager, code in (("A", "own_request"), ("B", "asked_already")):
        error = refused(flow, request, fire.model_copy(update={"manager": manager}))
        assert (error.code, error.field) == (code, "manager")
    nobody = fire.model_copy(update={"manager": ""})
    assert list_notices(flow, request, nobody) == [{"notice": "unattended", "task": "L-1-1", "person": "A", "by": "B"}]
    assert does(flow, request, nobody).waits_for == ("B",)


def test_another_version_of_the_process_changes_nothing_else() -> None:
    flow, request = open_small("B")
    moved = does(flow, request, MigrateCommand(request="L-1", actor="X", definition="new", form="f"))
    assert (moved.definition, moved.form, moved.tasks) == ("new", "f", request.tasks)
