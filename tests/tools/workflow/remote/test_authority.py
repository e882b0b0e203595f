"""The remote engines check nothing: everything that people may not do is refused here, before they are told."""

from __future__ import annotations

import asyncio
from xml.etree import ElementTree

import pytest

from tests.tools.workflow.remote.company import (
    DESK,
    LI,
    LONG,
    NOW,
    PEOPLE,
    PROCESSES,
    SHORT,
    SICK,
    WANG,
    ZHANG,
    ZHAO,
    World,
    refused,
)
from tests.tools.workflow.remote.flowable import FlowableFace
from tools.spec import ToolError
from tools.workflow.engine.commands import DecideCommand, TransferCommand
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.state import Decision, Delegation, FilledForm, Status
from tools.workflow.process.definition import compile_process, load_shipped_processes
from tools.workflow.remote.extension_names import EngineName, convert_to_engine, list_extension_engines


def complete(world: World, task: str, decision: str) -> None:
    """Somebody goes to the engine past us."""
    world.face.runner.complete(task.rpartition("-")[2], {"decision": decision})


def writes(world: World) -> list[tuple[str, str]]:
    return [c for c in world.face.calls if c[0] != "GET" and "jobs" not in c[1] and "fetchAndLock" not in c[1]]


async def test_the_engine_itself_would_let_anybody_complete_anything(world: World) -> None:
    """The negative control: without our check this is what would happen."""
    await world.start(SICK)
    complete(world, await world.task("L-0001"), "approve")
    await world.engine.run_due_jobs(NOW)
    request = await world.engine.get_request("L-0001")
    assert request.status is Status.APPROVED and request.tasks[0].outcome == "settled", (
        "and nobody is said to have done it"
    )


@pytest.mark.parametrize(("actor", "code"), [(ZHANG, "own_request"), (WANG, "not_assignee"), (ZHAO, "not_assignee")])
@pytest.mark.parametrize("decision", ["approve", "reject", "return"])
async def test_only_the_assignee_decides_and_the_engine_is_not_even_asked(
    world: World, actor: object, code: str, decision: str
) -> None:
    await world.start(SICK)
    task = await world.task("L-0001")
    world.face.calls.clear()
    command = DecideCommand(task=task, actor=actor.id, decision=Decision(decision), opinion="x")  # type: ignore[attr-defined]
    assert (await refused(world.engine.execute_command(command, "k", NOW))).code == code
    assert (await refused(world.engine.preview_command(command, NOW))).code == code
    assert not writes(world)


async def test_nobody_stands_in_even_if_the_command_says_so(world: World) -> None:
    await world.start(SICK)
    standing = Delegation(id="d", person=LI.id, deputy=WANG.id, start=NOW, end=NOW.replace(year=2027))
    command = DecideCommand(
        task=await world.task("L-0001"), actor=WANG.id, decision=Decision.APPROVE, standing=standing
    )
    assert (await refused(world.engine.execute_command(command, "k", NOW))).code == "not_assignee"


async def test_a_resubmission_is_filled_in_here_whatever_the_command_brings(world: World) -> None:
    await world.start(LONG)
    await world.decide(await world.task("L-0001"), LI, "reject", "太长")
    forged = FilledForm(values={**SICK, "approver": ZHANG.id})
    command = DecideCommand(task=await world.task("L-0001"), actor=ZHANG.id, decision=Decision.RESUBMIT, filled=forged)
    moved = await world.engine.execute_command(command, "k", NOW)
    assert moved.waits_for == (LI.id,) and moved.days == "5"


async def test_a_rejection_needs_an_opinion(world: World) -> None:
    await world.start(SICK)
    error = await refused(world.decide(await world.task("L-0001"), LI, "reject", "  "))
    assert (error.code, error.field) == ("missing_opinion", "opinion")


async def test_nobody_decides_two_levels(world: World) -> None:
    await world.start(LONG)
    await world.decide(await world.task("L-0001"), LI, "approve")
    second = await world.task("L-0001")
    to_li = TransferCommand(task=second, actor=WANG.id, person=LI.id)
    assert (await refused(world.engine.execute_command(to_li, "k", NOW))).code == "own_level"


async def test_a_task_is_never_given_to_the_author(world: World) -> None:
    await world.start(SICK)
    to_author = TransferCommand(task=await world.task("L-0001"), actor=LI.id, person=ZHANG.id)
    assert (await refused(world.engine.execute_command(to_author, "k", NOW))).code == "own_request"


async def test_what_a_form_comes_to_is_told_while_it_is_filled_in(world: World) -> None:
    leave = (await world.engine.list_processes())[0]
    filled = await world.engine.fill_form(leave, SICK, ZHANG.id, NOW)
    preview = await world.engine.preview_form(leave, SICK, ZHANG.id, NOW)
    assert not preview.errors and preview.filled.numbers == filled.numbers
    assert [people for _, people in preview.deciders] == [(LI.id,)]


async def test_what_was_confirmed_is_what_is_started_and_decided(world: World) -> None:
    leave = (await world.engine.list_processes())[0]
    filled = await world.engine.fill_form(leave, SICK, ZHANG.id, NOW)
    other = world.engine.start_request("leave", LONG, ZHANG.id, "a", NOW, filled.content_hash)
    assert (await refused(other)).code == "request_changed" and not world.face.runner.state.runs
    await world.engine.start_request("leave", SICK, ZHANG.id, "b", NOW, filled.content_hash)
    task = await world.task("L-0001")
    assert (await refused(world.decide(task, LI, "approve", seen="0" * 16))).code == "request_changed"
    assert (await world.decide(task, LI, "approve", seen=filled.content_hash)).status is Status.APPROVED


async def test_a_changed_assignee_in_the_engine_is_who_decides(world: World) -> None:
    """Somebody used the engine's own page."""
    await world.start(SICK)
    task = await world.task("L-0001")
    world.face.runner.work(task.rpartition("-")[2]).assignee = "U3"
    assert (await refused(world.decide(task, LI, "approve"))).code == "not_assignee"
    assert (await world.decide(task, WANG, "approve")).status is Status.APPROVED


async def test_an_unknown_user_of_the_engine_is_nobody_of_ours(world: World) -> None:
    """`U2` is 李四's id here, but in the engine he is `lisi`: whoever is called `U2` there is somebody else."""
    await world.start(SICK)
    task = await world.task("L-0001")
    world.face.runner.work(task.rpartition("-")[2]).assignee = None
    for person in PEOPLE:
        error = await refused(world.decide(task, person, "approve"))
        assert error.code == ("own_request" if person is ZHANG else "not_assignee")


async def test_a_process_of_the_same_name_that_means_something_else_is_not_used(world: World) -> None:
    leave, _ = load_shipped_processes()
    skipped = leave.bpmn.replace(b"${days &lt;= 1}", b"${days &lt;= 100}")
    world.face.runner.deploy(leave, skipped)
    error = await refused(world.start(LONG))
    assert error.code == "not_deployed" and not world.face.runner.state.runs


@pytest.mark.parametrize("engine", ["camunda", "operaton", "flowable"])
def test_what_an_engine_is_given_is_all_in_its_own_name(engine: EngineName) -> None:
    for process in PROCESSES:
        source = convert_to_engine(process.bpmn, engine)
        theirs = compile_process(source, process.toml).definition
        assert theirs.model_copy(update={"version": ""}) == process.definition.model_copy(update={"version": ""})
        assert list_extension_engines(source) == {engine}
        assert (b'type="external"' in source) == (engine != "flowable" and b'type="external"' in process.bpmn)
        assert source.count(b"xmlns:%b=" % engine.encode()) == 1 and convert_to_engine(source, engine) == source


ODD = b"""<?xml version='1.0'?>
<!-- a camunda:assignee="x" of a comment --><b:definitions xmlns:b='http://www.omg.org/spec/BPMN/20100524/MODEL'
 xmlns:flowable="http://camunda.org/schema/1.0/bpmn" targetNamespace="it's ]">
<b:process id="p" xmlns:activiti =
 'http://activiti.org/bpmn' activiti:versionTag = 'a "1"'>
<b:documentation><![CDATA[<b:x flowable:topic="t">]]><activiti:note/></b:documentation>
<b:serviceTask id="s" name=' flowable:type="external"' flowable:type='external' flowable:topic="cc"/>
<b:serviceTask xmlns:flowable="http://example.org/other" id="o" flowable:topic="cc"
 activiti:topic="mail"/></b:process>
</b:definitions>"""


def test_attributes_are_told_from_what_only_looks_like_them() -> None:
    source = convert_to_engine(ODD, "flowable")
    root = ElementTree.fromstring(source)
    first, other = root.iter("{http://www.omg.org/spec/BPMN/20100524/MODEL}serviceTask")
    flowable = "{http://flowable.org/bpmn}"
    assert first.attrib == {"id": "s", "name": ' flowable:type="external"', f"{flowable}type": "external-worker",
                            f"{flowable}topic": "cc"}  # fmt: skip
    assert other.attrib == {"id": "o", "{http://example.org/other}topic": "cc", f"{flowable}topic": "mail"}
    assert root[0].attrib == {"id": "p", f"{flowable}versionTag": 'a "1"'}
    assert b'a camunda:assignee="x" of a comment' in source and b'<![CDATA[<b:x flowable:topic="t">]]>' in source


async def test_an_engine_is_not_used_with_a_file_whose_attributes_it_ignores(world: World) -> None:
    """Its tasks would be nobody's. The control is every other test: the same file in the engine's own name."""
    leave, _ = load_shipped_processes()
    foreign: EngineName = "operaton" if world.kind == "camunda" else "camunda"
    world.face.runner.deploy(leave, convert_to_engine(leave.bpmn, foreign))
    if isinstance(world.face, FlowableFace):
        world.face.version = "6.7.2.0"
    error = await refused(world.start(SICK))
    assert (error.code, foreign in error.text) == ("not_deployed", True) and not world.face.runner.state.runs
    if isinstance(world.face, FlowableFace):
        world.face.version = "6.8.0.0"
        assert (await world.start(SICK)).request == "L-0001"


async def test_a_process_that_is_only_drawn_differently_is_the_same(world: World) -> None:
    leave, _ = load_shipped_processes()
    world.face.runner.deploy(leave, leave.bpmn.replace(b"</bpmn:process>", b"</bpmn:process><!-- drawn again -->"))
    assert (await world.start(SICK)).status is Status.WAITING


async def test_a_process_that_is_not_deployed_is_said_to_be_missing(world: World) -> None:
    world.face.runner.deployed.clear()
    assert (await refused(world.start(SHORT))).code == "not_deployed"


async def test_instances_that_others_started_are_not_ours(world: World) -> None:
    deployed = world.face.runner.latest("leave")
    assert deployed
    variables = {"initiator": "U1", "days": 3.0, "approver": "lisi", "decision": None}
    run = world.face.runner.start(deployed, "L-0001", variables, "somebody")
    assert (await refused(world.engine.get_request("L-0001"))).code == "no_request"
    assert not (
        await world.engine.list_todo_tasks(LI.id, NOW)
    ).total_count and not await world.engine.list_own_requests(ZHANG.id)
    assert (await world.start(SICK)).request == "L-0002", "a number that is in use is passed over"
    assert not run.ended


async def test_a_process_in_which_several_decide_one_step_is_not_offered_and_not_started(world: World) -> None:
    assert [p.key for p in await world.engine.list_processes()] == ["leave", "spend", "pair", "turn"]
    error = await refused(world.start({"amount": "5", "approver": "U2"}, "expense"))
    assert error.code == "not_remote" and not world.face.runner.state.runs


async def test_the_same_start_within_its_time_is_asked_about_and_two_at_once_are_one(world: World) -> None:
    async def start(again: str | None = "") -> CommandResult:
        return await world.engine.start_request("spend", DESK, ZHANG.id, world.key(), NOW, again=again)

    done = await asyncio.gather(start(), start(), return_exceptions=True)
    assert len([one for one in done if isinstance(one, CommandResult)]) == 1
    assert [one.code for one in done if isinstance(one, ToolError)] == ["started_already"]
    assert len(await world.engine.list_own_requests(ZHANG.id)) == 1
    first = next(one.request for one in done if isinstance(one, CommandResult))
    assert (await start(first)).request != first, "knowingly"
