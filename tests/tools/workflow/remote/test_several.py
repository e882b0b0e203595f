"""Steps that several people decide: on every engine as in the embedded one, word for word."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.harness.memory_store import MemoryStore
from tests.tools.office import LONG, NOW, refused
from tests.tools.workflow.remote import company
from tests.tools.workflow.remote.company import BOSS, CAR, LI, PROCESSES, QIAN, SUN, WANG, ZHANG, ZHAO, World, describe
from tests.tools.workflow.remote.proxy import Fault
from tools.spec import Person
from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.commands import AddSignCommand, DecideCommand, SignPosition, TransferCommand, WithdrawCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.port import Engine
from tools.workflow.engine.state import Decision, Request, Status
from tools.workflow.remote.api import EngineTask, VariableValue
from tools.workflow.remote.process_versions import convert_to_engine

OK, NO, BACK, AGAIN, END = "approve", "reject", "return", "resubmit", "withdraw"
Steps = Sequence[tuple[Person, str] | tuple[Person, str, str]]
PEOPLE = {"zhang": ZHANG, "li": LI, "wang": WANG, "zhao": ZHAO, "qian": QIAN, "sun": SUN, "boss": BOSS}
SAID = {"yes": OK, "no": NO, "back": BACK, "again": AGAIN, "end": END}
STORIES = {
    "all agree": "expense: li yes, zhao yes, sun yes, qian yes",
    "one of all refuses": "expense: li yes, qian yes, zhao no, zhang again, li yes, qian yes",
    "the first of all refuses and it is given up": "expense: li yes, sun no, zhang end",
    "back and through": "expense: li yes, sun yes, qian back, zhang again, li yes, qian yes, zhao yes, sun yes",
    "back to the step before": "expense: li yes, zhao back approval, li yes, zhao yes, sun yes, qian yes",
    "back from the last who is asked": "expense: li yes, zhao yes, sun yes, qian back, zhang end",
    "in turn": "turns: li yes, qian yes, sun yes, zhao yes",
    "in turn, the second refuses": "turns: li yes, qian yes, sun no, zhang again, li yes, qian yes, sun yes, zhao yes",
    "in turn, the second returns it": "turns: li yes, qian yes, sun back approval, li yes, qian yes, sun yes, zhao yes",
    "any of them agrees": "any: li yes, qian yes",
    "any of them refuses": "any: li yes, sun no, zhang again, li yes, zhao yes",
    "any of them returns it": "any: li yes, sun back, zhang again, li yes, qian yes",
    "one after the other on two levels": "leave: li yes, wang yes",
    "the first level refuses": "leave: li no, zhang again, li yes, wang yes",
    "the first level refuses for good": "leave: li no, zhang end",
    "the second level refuses": "leave: li yes, wang no, zhang again, li yes, wang yes",
    "the second level returns it to the first": "leave: li yes, wang back first_level, li yes, wang yes",
    "the second level returns it to the author": "leave: li yes, wang back, zhang end",
    "three levels, returned, refused and handed in again":
        "leave: li yes, wang back first_level, li yes, wang yes, boss no, zhang again, li yes, wang yes, boss back "
        "second_level, wang back, zhang again, li yes, wang yes, boss back first_level, li yes, wang yes, boss yes",
    "a candidate agrees": "group: li yes, sun yes",
}  # fmt: skip
LEVELS = ("first_level", "second_level")


@pytest.fixture
async def finance(world: World) -> World:
    """Three of finance, and a third level of leaves."""
    world.people.known += [QIAN, SUN, BOSS]
    return world


def find_task(request: Request, person: Person) -> str:
    return next(t.id for t in request.open_tasks if t.assignee == person.id)


async def start(world: World, process: str = "expense", approver: Person = LI) -> str:
    return (await world.start({**CAR, "approver": approver.id}, process)).request


async def hear(engine: Engine) -> list[tuple[str, str]]:
    """What people are told since the last time. Each engine has its own names for tasks."""
    events = await engine.list_outbox(100)
    await engine.mark_sent([event.id for event in events])
    return sorted((e.kind, str(sorted(n for n in e.data.items() if n[0] != "task" and n[1]))) for e in events)


def read_story(story: str) -> tuple[str, Steps]:
    """The process, and who decides what and, of a return, to where."""
    process, _, steps = story.partition(": ")
    told = [step.split() for step in steps.split(", ")]
    return process, [(PEOPLE[who], SAID[said], *to) for who, said, *to in told]


async def play(world: World, process: str, steps: Steps) -> None:
    """On the embedded engine and on this one, which answers alike after each step, and tells people alike; its own
    conditions read the same decisions."""
    embedded = EmbeddedEngine(MemoryStore(), PROCESSES, world.people)
    leave = company.VERY_LONG if BOSS in {actor for actor, *_ in steps} else LONG
    form = {**(leave if process == "leave" else CAR), "approver": steps[0][0].id}
    answers = [await world.start(form, process), await embedded.start_request(process, form, ZHANG.id, "s", NOW)]
    number = answers[0].request
    for n, (actor, decision, *to) in enumerate(steps):
        here, there = await world.engine.get_request(number), await embedded.get_request(number)
        assert describe(here) == describe(there), n
        assert await hear(world.engine) == await hear(embedded), n
        assert answers[0].model_copy(update={"task": answers[1].task}).model_dump() == answers[1].model_dump(), n
        if process == "leave" and here.status is Status.WAITING and n and steps[n - 1][1] != BACK:
            variables = await world.load_variables(number)
            assert [variables[f"decision_{one}"] for one in LEVELS] == [here.decisions.get(one, "") for one in LEVELS]
        more = {"decision": Decision(decision), "actor": actor.id, "opinion": "看过了", "to": "".join(to)}
        answers = []
        for engine, request in ((world.engine, here), (embedded, there)):
            command = DecideCommand(task=find_task(request, actor), **more)
            answers.append(await engine.execute_command(command, f"e{n}", NOW + timedelta(minutes=n)))
    here, there = await world.engine.get_request(number), await embedded.get_request(number)
    assert describe(here) == describe(there)
    assert await hear(world.engine) == await hear(embedded)


async def play_until_one_has_voted(world: World) -> tuple[str, str]:
    """The tasks of the two others of finance."""
    request = await start(world)
    await world.decide(await world.task(request), LI, OK)
    await world.decide(find_task(await world.engine.get_request(request), ZHAO), ZHAO, OK)
    found = await world.engine.get_request(request)
    return find_task(found, QIAN), find_task(found, SUN)


async def test_a_vote_counts_for_conditions_only_with_the_last_of_its_step(finance: World) -> None:
    qian, sun = await play_until_one_has_voted(finance)
    for task, actor, decided in ((qian, QIAN, ""), (sun, SUN, OK)):
        assert (await finance.load_variables("E-0001"))["decision_finance"] == ""
        await finance.decide(task, actor, OK)
        assert (await finance.load_variables("E-0001"))["decision_finance"] == decided
    assert (await finance.engine.get_request("E-0001")).status is Status.APPROVED


async def test_a_task_of_a_shared_step_is_handed_over_and_nobody_is_added_to_it(finance: World) -> None:
    qian, sun = await play_until_one_has_voted(finance)
    given = TransferCommand(task=qian, actor=QIAN.id, person=WANG.id)
    assert set((await finance.do(given)).waits_for) == {WANG.id, SUN.id}
    twice = TransferCommand(task=sun, actor=SUN.id, person=WANG.id)
    assert (await refused(finance.do(twice))).code == "asked_already"
    assert (await refused(finance.do(twice.model_copy(update={"person": LI.id})))).code == "own_level"
    asked = AddSignCommand(task=sun, actor=SUN.id, where=SignPosition.BESIDE, mode=VotingMode.ALL, people=(WANG.id,))
    assert (await refused(finance.do(asked))).code == "not_remote"
    todo = await finance.engine.list_todo_tasks(WANG.id, NOW)
    await finance.decide(todo.tasks[0].task.id, WANG, OK)
    assert (await finance.decide(sun, SUN, OK)).status is Status.APPROVED
    told = [(t.assignee, t.outcome) for t in (await finance.engine.get_request("E-0001")).tasks if t.node == "finance"]
    assert sorted(told) == [("U3", OK), ("U7", "transferred"), ("U8", OK), (ZHAO.id, OK)]


async def test_whoever_of_them_has_left_is_stood_in_for_and_cards_go_when_one_has_refused(finance: World) -> None:
    request = await start(finance)
    gone = QIAN.model_copy(update={"active": False, "manager": WANG.id})
    finance.people.known = [gone if p.id == QIAN.id else p for p in finance.people.known]
    await finance.decide(await finance.task(request), LI, OK)
    told = [one for one in await finance.told(11) if one.startswith("assigned")]
    assert set(told) == {f"assigned {person}" for person in (WANG.id, SUN.id, ZHAO.id)}
    found = await finance.engine.get_request(request)
    assert set(found.waits_for) == {WANG.id, SUN.id, ZHAO.id}
    assert (await finance.decide(find_task(found, SUN), SUN, NO, "不行")).waits_for == (ZHANG.id,)
    told = await finance.told(11)
    assert {"task_closed U3 settled", f"task_closed {ZHAO.id} settled"} <= set(told), told


async def test_of_two_who_have_left_only_one_is_stood_in_for_by_the_same_person(finance: World) -> None:
    embedded = EmbeddedEngine(MemoryStore(), PROCESSES, finance.people)
    for engine in (finance.engine, embedded):
        await engine.start_request("expense", CAR, ZHANG.id, "s", NOW)
    gone = {one.id: one.model_copy(update={"active": False, "manager": WANG.id}) for one in (QIAN, SUN)}
    finance.people.known = [gone.get(p.id, p) for p in finance.people.known]
    for engine in (finance.engine, embedded):
        task = find_task(await engine.get_request("E-0001"), LI)
        await engine.execute_command(DecideCommand(task=task, actor=LI.id, decision=Decision.APPROVE), "d", NOW)
    await finance.told(11)
    here, there = await finance.engine.get_request("E-0001"), await embedded.get_request("E-0001")
    assert sorted(here.waits_for) == sorted(there.waits_for) == sorted((WANG.id, SUN.id, ZHAO.id))


async def test_a_vote_on_the_engine_s_own_page_counts_and_is_nobody_s_of_ours(finance: World) -> None:
    qian, sun = await play_until_one_has_voted(finance)
    await finance.api.complete_task(await finance.get_item(qian), {"decision": OK})
    assert (await finance.engine.get_request("E-0001")).waits_for == (SUN.id,)
    assert (await finance.decide(sun, SUN, OK)).status is Status.APPROVED
    request = await finance.engine.get_request("E-0001")
    assert [(t.outcome, t.by) for t in request.tasks if t.id == qian] == [("settled", "")]


async def test_a_step_that_was_refused_on_the_engine_s_own_page_is_over_and_the_author_goes_on(finance: World) -> None:
    """Its other tasks are closed by the engine; nobody of ours has said anything there."""
    request = await start(finance, "any")
    await finance.decide(await finance.task(request), LI, OK)
    found = await finance.engine.get_request(request)
    refusal: dict[str, VariableValue] = {"decision": NO, "decision_finance": NO}
    await finance.api.complete_task(await finance.get_item(find_task(found, SUN)), refusal)
    found = await finance.engine.get_request(request)
    assert (found.status, found.waits_for, found.decisions) == (Status.REVISE, (ZHANG.id,), {"approval": OK})
    assert {(t.outcome, t.by) for t in found.tasks if t.node == "finance"} == {("settled", "")}
    assert (await finance.decide(await finance.task(request), ZHANG, AGAIN)).waits_for == (LI.id,)


async def return_late(world: World, task: str) -> None:
    world.fail("move", Fault.LATE)
    back = DecideCommand(task=task, actor=SUN.id, decision=Decision.RETURN, opinion="退回")
    await company.assert_unknown(world.do(back, "r"))


async def test_a_late_return_from_a_shared_step_takes_all_of_it(finance: World) -> None:
    qian, sun = await play_until_one_has_voted(finance)
    await return_late(finance, sun)
    if finance.is_flowable:  # which would take it after the vote, too
        await company.assert_unknown(finance.decide(sun, SUN, OK))
    assert [status // 100 for status in await finance.proxy.come_true()] == [2]
    request = await finance.engine.get_request("E-0001")
    assert request.display_status == "revise_return" and request.waits_for == (ZHANG.id,)
    outcomes = {t.assignee: t.outcome for t in request.tasks if t.node == "finance"}
    assert outcomes == {ZHAO.id: OK, SUN.id: BACK, QIAN.id: "returned"}
    assert (await refused(finance.decide(qian, QIAN, OK))).code == "task_closed"


async def test_a_late_return_from_a_shared_step_is_refused_once_it_is_over(finance: World) -> None:
    qian, sun = await play_until_one_has_voted(finance)
    await return_late(finance, sun)
    assert (await finance.decide(qian, QIAN, NO, "不行")).waits_for == (ZHANG.id,)
    await finance.decide(await finance.task("E-0001"), ZHANG, AGAIN)
    await finance.decide(await finance.task("E-0001"), LI, OK)
    before = await finance.engine.get_request("E-0001")
    assert [status // 100 for status in await finance.proxy.come_true()] in ([4], [5])
    assert await finance.engine.get_request("E-0001") == before and len(before.open_tasks) == 3


async def test_a_return_of_one_task_would_leave_the_others(finance: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control."""
    kind = type(finance.api)
    whole = kind.return_task

    async def return_one(self: Any, item: EngineTask, to: str, record: Any, *, is_shared: bool) -> None:
        await whole(self, item, to, record, is_shared=False)

    _, sun = await play_until_one_has_voted(finance)
    monkeypatch.setattr(kind, "return_task", return_one)
    assert set((await finance.decide(sun, SUN, BACK, "退回")).waits_for) == {ZHANG.id, QIAN.id}


async def test_a_file_that_counts_its_deciders_otherwise_is_not_used(finance: World) -> None:
    source = convert_to_engine(company.EXPENSE.bpmn, finance.kind)
    for before, after in ((b":n')}", b":0')}"), (b":'.concat", b":0'.concat"), (b"'finance:finance_", b"'finance:")):
        assert before in source
        await finance.deploy(source.replace(before, after))
        assert (await refused(start(finance))).code == "not_deployed"
    await finance.deploy(source)
    assert (await start(finance))[0] == "E", "the control"


async def test_several_are_not_asked_in_the_place_of_one(finance: World) -> None:
    assert (await refused(start(finance, "board"))).code == "not_remote"
    finance.people.known = [p for p in finance.people.known if p not in (QIAN, SUN)]
    assert (await start(finance, "board"))[0] == "B"


async def test_of_several_of_whom_one_decides_nobody_is_asked_who_has_decided_before(finance: World) -> None:
    finance.people.known[1] = LI.model_copy(update={"roles": frozenset({"finance"})})
    await play(finance, "group", [(LI, OK), (SUN, BACK, "approval"), (LI, OK), (ZHAO, OK)])


async def test_whoever_was_asked_is_told_who_withdrew_it(finance: World) -> None:
    heard: list[list[tuple[str, str]]] = []
    for engine in (finance.engine, EmbeddedEngine(MemoryStore(), PROCESSES, finance.people)):
        await engine.start_request("expense", CAR, ZHANG.id, "s", NOW)
        task = find_task(await engine.get_request("E-0001"), LI)
        await engine.execute_command(DecideCommand(task=task, actor=LI.id, decision=Decision.APPROVE), "d", NOW)
        await hear(engine)
        await engine.execute_command(WithdrawCommand(request="E-0001", actor=ZHANG.id, reason="不报了"), "w", NOW)
        heard.append(await hear(engine))
    assert heard[0] == heard[1] and len(heard[0]) == 3, heard


@pytest.mark.parametrize("story", STORIES)
async def test_several_people_decide_as_in_the_embedded_engine(finance: World, story: str) -> None:
    await play(finance, *read_story(STORIES[story]))
