"""What people can do with a request that lives in a remote engine."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from tests.tools.office import LONG, NOW, SICK, facts, office, refused
from tests.tools.workflow.remote.company import DESK, LI, SHORT, SOFA, WANG, ZHANG, ZHAO, World
from tests.tools.workflow.remote.proxy import Fault
from tools.spec import AttachedFile, EffectUnknownError, ToolError
from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine import commands
from tools.workflow.engine.commands import CcCommand, CommentCommand, DecideCommand, TransferCommand, WithdrawCommand
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.state import Decision, Delegation, Status
from tools.workflow.remote.api import VariableValue
from tools.workflow.remote.engine import REST_PAUSES_S

MOST_CALLS = {
    "own": (3, 2), "start": (7, 6), "decide": (5, 4), "end": (5, 4), "end with a mail": (8, 9), "own again": (3, 3),
    "to do": (4, 100), "short leave": (13, 17),
}  # fmt: skip
"""With 100 own requests: on Camunda as on Operaton, and on Flowable, without `CALLS_PER_PAUSE`."""
CALLS_PER_PAUSE = 3
"""After each pause, Flowable is asked whether its own job has ended. A slow machine makes more pauses."""


async def test_what_was_done_is_told_event_by_event(world: World) -> None:
    await world.start(LONG)
    for person in (LI, WANG):
        await world.decide(await world.task("L-0001"), person, "approve")
    assert [(e.n, e.by, e.command.kind, e.status) for e in await world.engine.list_events("L-0001")] == [
        (0, "U1", "start", Status.WAITING),
        (1, "U2", "decide", Status.WAITING),
        (2, "U3", "decide", Status.APPROVED),
    ]


async def test_a_command_ends_when_the_engine_has_come_to_rest_or_says_that_it_goes_on(world: World) -> None:
    """The author then hears of the end, once, and the command has no answer of another time."""
    world.fail("jobs", Fault.REFUSED)
    done = await world.start(SHORT, key="soon")
    assert (done.status, done.rule) == (Status.APPROVED, "short_leave") and "ended" not in str(await world.told())
    assert (await world.engine.get_request(done.request.lower())).rule == "short_leave"
    later = {**SHORT, "start_date": "2026-12-09", "end_date": "2026-12-09"}
    world.fail("jobs", Fault.REFUSED, 1 + len(REST_PAUSES_S))
    waiting = await world.start(later, key="later")
    assert (waiting.status, waiting.waits_for) == (Status.WAITING, ())
    await world.settle(waiting.request)
    world.seconds += 11
    assert [one for one in await world.told() if "ended" in one] == ["ended U1 approved"]
    assert (await world.start(later, key="later")).status is Status.APPROVED


async def test_of_thirty_short_leaves_at_once_each_author_knows_the_end_once(world: World) -> None:
    """By the answer, or by word where the engine was not done in time. Whoever serves one sees the others' tasks."""
    people = [ZHANG.model_copy(update={"id": f"A{n}", "email": ""}) for n in range(30)]
    world.people.known += people
    engines = [world.engine, world.another(world.marks)]
    for engine in engines:
        engine._sleep = asyncio.sleep

    async def start(n: int) -> CommandResult:
        return await engines[n % 2].start_request("leave", SHORT, people[n].id, f"short{n}", NOW)

    done = await asyncio.gather(*(start(n) for n in range(len(people))))
    assert len({one.request for one in done}) == len(people)
    for one in done:
        await world.settle(one.request)
    world.seconds += 11
    heard = sorted(said.split()[1] for said in await world.told() if said.startswith("ended"))
    assert heard == sorted(person.id for person, one in zip(people, done, strict=True) if one.status is Status.WAITING)


async def test_amounts_are_compared_as_numbers_and_shown_exactly(world: World) -> None:
    await world.start(SOFA, "spend")
    moved = await world.decide(await world.task("S-0001"), LI, "approve")
    assert moved.waits_for == (ZHAO.id,), "1200.50 is above the threshold of 1000, also as text below 9"
    assert (await world.engine.get_request("S-0001")).filled.values["amount"] == "1200.50"


async def test_an_author_whose_request_was_rejected_resubmits_it_changed(world: World) -> None:
    await world.start(SICK)
    await world.decide(await world.task("L-0001"), LI, "reject", "那几天要上线")
    assert (await refused(world.decide(await world.task("L-0001"), ZHANG, "approve"))).code == "bad_decision"
    moved = await world.decide(await world.task("L-0001"), ZHANG, "resubmit", form={"end_date": "2026-11-27"})
    assert (moved.status, moved.waits_for, moved.days) == (Status.WAITING, ("U2",), "5")
    request = await world.engine.get_request("L-0001")
    assert request.round == 2 and request.filled.values["end_date"] == "2026-11-27"
    card = await replace(office(), people=world.people, engine=world.engine).card(await world.task("L-0001"))
    assert "改动" not in dict(facts(card)), "the form of before is not known here, and nothing is said of it"
    moved = await world.decide(await world.task("L-0001"), LI, "approve")
    assert moved.waits_for == ("U3",), "the new length decides who is asked"


async def test_a_running_request_is_withdrawn_by_its_author_and_nobody_else(world: World) -> None:
    await world.start(SICK)
    by_li = WithdrawCommand(request="L-0001", actor=LI.id, reason="不批")
    assert (await refused(world.do(by_li))).code == "not_yours"
    moved = await world.do(WithdrawCommand(request="L-0001", actor=ZHANG.id, reason="不去了"))
    assert moved.status is (await world.engine.get_request("L-0001")).status is Status.WITHDRAWN
    assert (await refused(world.do(WithdrawCommand(request="L-0001", actor=ZHANG.id)))).code == "not_running"


@pytest.mark.parametrize(
    ("fault", "told", "then"),
    [
        (Fault.REFUSED, ToolError, "approve"),
        (Fault.REFUSED, ToolError, "withdraw"),
        (Fault.SWALLOWED, EffectUnknownError, "approve"),
    ],
)
async def test_a_return_that_the_engine_does_not_make_changes_nothing_and_is_not_told_as_made(
    world: World, fault: Fault, told: type[Exception], then: str
) -> None:
    await world.start(DESK, "turn")
    await world.decide(await world.task("T-0001"), LI, "approve")
    world.fail("move", fault)
    task = await world.task("T-0001")
    with pytest.raises(told):
        await world.decide(task, ZHAO, "return", "再看", to="one")
    assert (await world.engine.get_request("T-0001")).decisions == {"one": "approve"}
    world.seconds += 301 if told is EffectUnknownError else 0  # as long as it may still come true
    if then == "approve":
        assert (await world.decide(task, ZHAO, "approve")).status is Status.APPROVED
        return
    await world.do(WithdrawCommand(request="T-0001", actor=ZHANG.id))
    request = await world.engine.get_request("T-0001")
    last = request.find_task(task)
    assert last and (last.outcome, last.by) == ("settled", "")
    assert [o.decision for o in request.opinions] == ["approve"]


async def test_a_transferred_task_is_closed_and_another_one_is_open_once_it_was_really_made(world: World) -> None:
    await world.start(SICK)
    task = await world.task("L-0001")
    world.fail_hand_over(task, Fault.REFUSED)
    transfer = TransferCommand(task=task, actor=LI.id, person=WANG.id, opinion="我出差")
    assert (await refused(world.do(transfer, "t1"))).code == "engine_failed"
    assert await world.task("L-0001") == task, "begun and not made, it counts for nothing"
    assert (await world.do(transfer, "t1")).waits_for == ("U3",), "the same press once more"
    first, second = (await world.engine.get_request("L-0001")).tasks
    assert (first.id, first.assignee, first.outcome) == (task, "U2", "transferred")
    assert (second.id, second.assignee, second.is_open) == (f"{task}.1", "U3", True)
    assert (await refused(world.decide(task, LI, "approve"))).code == "task_closed"
    assert (await refused(world.decide(second.id, LI, "approve"))).code == "not_assignee"
    assert (await world.decide(second.id, WANG, "approve")).status is Status.APPROVED


async def test_a_comment_is_kept_once_and_told_to_the_others_and_who_is_told_may_read_it(world: World) -> None:
    await world.start(SICK)
    for _ in range(2):
        await world.do(CommentCommand(request="L-0001", actor=ZHANG.id, text="病假条下午补"), "c1")
    await world.do(CcCommand(request="L-0001", actor=ZHANG.id, people=(ZHAO.id,)))
    request = await world.engine.get_request("L-0001")
    assert [o.text for o in request.opinions] == ["病假条下午补"] and ZHAO.id in request.participants
    assert [e.data["person"] for e in await world.engine.list_outbox(100) if e.kind == "commented"] == ["U2"]


async def test_lists_are_of_one_person_oldest_first_and_whole_however_long_pages_are(world: World) -> None:
    for _ in range(12):
        await world.start(DESK, "spend")
    for page in (5, 10, 12, 13):
        engine = world.another(world.marks, page=page)
        todo = (await engine.list_todo_tasks(LI.id, NOW)).tasks
        assert [a.request.id for a in todo] == [f"S-{n:04d}" for n in range(1, 13)]
        assert len(await engine.list_own_requests(ZHANG.id)) == 12
    await world.decide(todo[3].task.id, LI, "approve")
    assert [a.request.id for a in await world.engine.list_decided_tasks(LI.id)] == ["S-0004"]
    shown = await world.engine.list_todo_tasks(LI.id, NOW, 5)
    assert (len(shown.tasks), shown.total_count) == (5, 11)
    assert not await world.engine.list_own_requests(LI.id)
    assert not (await world.engine.list_todo_tasks(WANG.id, NOW)).total_count


async def test_a_command_takes_few_calls_and_a_list_no_more_however_long_it_is(world: World) -> None:
    """This form needs the author's earlier requests, which are a full page on Flowable: two of the calls of a start,
    three on Camunda. A short leave needs the same, and its definition is compared for the first time. Flowable tells
    the tasks of one request at a time."""
    for _ in range(99):
        await world.start(DESK, "spend")
    long = (await world.start(LONG)).request
    calls = dict[str, int]()

    async def count_calls(name: str, work: Awaitable[object]) -> None:
        world.proxy.calls.clear()
        world.slept.clear()
        await work
        calls[name] = len(world.proxy.calls) - CALLS_PER_PAUSE * len(world.slept)

    first, second = await world.task("S-0001"), await world.task("S-0002")
    reject = DecideCommand(task=second, actor=LI.id, decision=Decision.REJECT, opinion="不")
    await count_calls("own", world.engine.list_own_requests(ZHANG.id))
    await count_calls("start", world.start(DESK, "spend"))
    await count_calls("decide", world.do(reject))
    await count_calls("end", world.decide(first, LI, "approve"))
    await world.decide(await world.task(long), LI, "approve")
    await count_calls("end with a mail", world.decide(await world.task(long), WANG, "approve"))
    await world.told()  # the poller has read them, and they never change again
    await count_calls("own again", world.engine.list_own_requests(ZHANG.id))
    await count_calls("to do", world.engine.list_todo_tasks(LI.id, NOW))
    await count_calls("short leave", world.start({**SHORT, "start_date": "2026-12-02", "end_date": "2026-12-02"}))
    assert calls.keys() == MOST_CALLS.keys()
    assert {name: count for name, count in calls.items() if count > MOST_CALLS[name][world.is_flowable]} == {}, calls


async def test_somebody_with_much_in_the_engine_is_still_listed(world: World) -> None:
    """A page of instances with their variables stays below the longest answer that is read."""
    variables: dict[str, VariableValue] = {f"v{n}": "x" * 1_900 for n in range(15)}
    definition = await world.api.find_definition_id("spend")
    for n in range(90):
        who = {"initiator": ZHANG.id, "approver": "somebody", "decision": ""}
        await world.api.start_instance(definition, f"Z-{n}", {**variables, **who})
    await world.start(DESK, "spend")
    assert [one.id for one in await world.engine.list_own_requests(ZHANG.id)] == ["S-0001"]


async def test_a_request_that_cannot_be_read_hides_no_other_one(world: World) -> None:
    await world.start(SICK)
    await world.start(DESK, "spend")
    for name in ("L-0001", "S-0001"):
        await world.do(CcCommand(request=name, actor=ZHANG.id, people=(ZHAO.id,)))
    await world.spoil("L-0001")
    assert [r.id for r in await world.engine.list_cc_requests(ZHAO.id)] == ["S-0001"]
    assert [a.request.id for a in (await world.engine.list_todo_tasks(LI.id, NOW)).tasks] == ["S-0001"]
    assert [r.id for r in await world.engine.list_own_requests(ZHANG.id)] == ["S-0001"]
    assert (await world.start({**SICK, "start_date": "2026-12-01", "end_date": "2026-12-02"})).request == "L-0002"


async def test_what_these_engines_cannot_do_is_said(world: World) -> None:
    await world.start(SICK)
    task = await world.task("L-0001")
    added = commands.AddSignCommand(
        task=task, actor=LI.id, where=commands.SignPosition.BEFORE, mode=VotingMode.ALL, people=(WANG.id,)
    )
    away = Delegation(id="d1", person=LI.id, deputy=WANG.id, start=NOW, end=NOW)
    await world.decide(task, LI, "approve")
    for work in (
        world.do(added),
        world.do(WithdrawCommand(request="L-0001", actor=ZHANG.id)),
        world.engine.add_delegation(away, NOW),
        world.engine.end_delegation(LI.id, "d1", NOW),
    ):
        error = await refused(work)
        assert error.code == "not_remote" and set(error.params["what"]) == {"zh", "en"}  # type: ignore[arg-type]
    assert await world.engine.list_deputies(LI.id, NOW) == () and await world.engine.list_delegations(LI.id, NOW) == ()


async def test_what_is_not_there_is_said_to_be_missing(world: World) -> None:
    await world.start(SICK)
    for task in ("L-0001-999", "L-0001-../../x", "L-0009-1", "nothing", "", "L-0001-" + "9" * 99):
        assert (await refused(world.engine.get_task(task))).code == "no_task", task
    assert not [path for _, path in world.proxy.calls if ".." in path]
    for request in ("L-0009", "L-0001/../x", "", "?businessKey=L-0001"):
        assert (await refused(world.engine.get_request(request))).code == "no_request", request


async def test_two_decide_at_the_same_time_and_both_have_to_agree(world: World) -> None:
    await world.start(SOFA, "pair")
    one, two = (await world.engine.get_request("P-0001")).open_tasks
    assert (one.assignee, two.assignee) == (LI.id, ZHAO.id)
    moved = await world.decide(one.id, LI, "approve")
    assert (moved.status, moved.waits_for) == (Status.WAITING, (ZHAO.id,))
    assert (await refused(world.decide(two.id, ZHAO, "return", "改"))).code == "not_remote"
    moved = await world.decide(two.id, ZHAO, "reject", "太贵")
    assert (moved.status, moved.waits_for) == (Status.REVISE, (ZHANG.id,))
    moved = await world.decide(await world.task("P-0001"), ZHANG, "resubmit", form={"amount": "900"})
    assert sorted(moved.waits_for) == sorted((LI.id, ZHAO.id))
    one, two = (await world.engine.get_request("P-0001")).open_tasks
    await world.decide(two.id, ZHAO, "approve")
    assert (await world.decide(one.id, LI, "approve")).status is Status.APPROVED


async def test_requests_with_the_same_file_are_found_whatever_it_is_called(world: World) -> None:
    """Also by another process of ours, and by one that has lost the answer of its start."""
    note, other, later = "a" * 64, "b" * 64, "c" * 64
    for id, sha256 in (("F0NOTE1", note), ("F0NOTE2", note), ("F0OTHER", other), ("F0LATER", later)):
        world.files.known[id] = AttachedFile(id=id, name=f"{id}.png", size=9, sha256=sha256)
    world.engine = world.another(world.marks)  # with a store of files
    first = await world.start({**SICK, "attachment": "F0NOTE1"}, key="lost")
    for file, start, end in (("F0NOTE2", "2026-12-01", "2026-12-02"), ("F0OTHER", "2026-12-07", "2026-12-08")):
        await world.start({**SICK, "start_date": start, "end_date": end, "attachment": file})
    assert await world.start({**SICK, "attachment": "F0NOTE1"}, key="lost") == first, "the same start"
    engine = world.another(world.marks)
    assert [one.id for one in await engine.list_requests_with_file(note)] == ["L-0001", "L-0002"]
    assert [one.id for one in await engine.list_requests_with_file(other)] == ["L-0003"]
    assert await engine.list_requests_with_file(later) == () and not await engine.is_file_on_request(later)
    await world.decide(await world.task("L-0003"), LI, "reject", "不是病假条")
    await world.decide(await world.task("L-0003"), ZHANG, "resubmit", form={"attachment": "F0LATER"})
    assert [one.id for one in await engine.list_requests_with_file(later)] == ["L-0003"], "handed in again with it"
    for request in ("L-0001", "L-0002"):
        await world.spoil(request)
    assert await engine.list_requests_with_file(note) == (), "they cannot be read any more"
    assert await engine.is_file_on_request(note), "and it still counts as used, or it would be deleted"
