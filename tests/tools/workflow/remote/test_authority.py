"""The remote engines check nothing: everything that people may not do is refused here, before they are told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.harness.corpus import corpus
from tests.tools.office import LONG, NOW, SICK, refused
from tests.tools.workflow.remote import company
from tests.tools.workflow.remote.company import DESK, LI, PEOPLE, PROCESSES, SPEND, WANG, ZHANG, ZHAO, World
from tools.spec import ToolError
from tools.workflow.bpmn.xml import NAMESPACES
from tools.workflow.engine.commands import DecideCommand, TransferCommand
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.state import Decision, Delegation, FilledForm, Status
from tools.workflow.process.definition import compile_process, load_shipped_processes
from tools.workflow.remote.api import EngineName, VariableValue
from tools.workflow.remote.engine import RemoteEngine
from tools.workflow.remote.process_versions import convert_to_engine


async def test_the_engine_itself_would_let_anybody_complete_anything(world: World) -> None:
    """The negative control: without our check this is what would happen."""
    await world.start(SICK)
    item = await world.get_item(await world.task("L-0001"))
    await world.api.complete_task(item, {"decision": "approve"})
    await world.settle("L-0001")
    request = await world.engine.get_request("L-0001")
    assert (request.status, request.tasks[0].outcome) == (Status.APPROVED, "settled"), "nobody is said to have done it"


async def test_a_level_that_was_passed_on_the_engine_s_own_page_is_nobody_s_and_the_next_goes_on(world: World) -> None:
    await world.start(LONG)
    await world.api.complete_task(await world.get_item(await world.task("L-0001")), {"decision": "approve"})
    request = await world.engine.get_request("L-0001")
    assert (request.waits_for, request.decisions, request.opinions) == ((WANG.id,), {}, ())
    assert (await world.decide(await world.task("L-0001"), WANG, "approve")).status is Status.APPROVED
    request = await world.engine.get_request("L-0001")
    assert [(t.outcome, t.by) for t in request.tasks] == [("settled", ""), ("approve", WANG.id)]
    assert [o.by for o in request.opinions] == [WANG.id]


async def test_only_the_assignee_decides_and_the_engine_is_not_even_asked(world: World) -> None:
    await world.start(SICK)
    task = await world.task("L-0001")
    world.proxy.calls.clear()
    for actor, code in ((ZHANG, "own_request"), (WANG, "not_assignee"), (ZHAO, "not_assignee")):
        for decision in (Decision.APPROVE, Decision.REJECT, Decision.RETURN):
            command = DecideCommand(task=task, actor=actor.id, decision=decision, opinion="x")
            assert (await refused(world.do(command))).code == code
            assert (await refused(world.engine.preview_command(command, NOW))).code == code
    standing = Delegation(id="d", person=LI.id, deputy=WANG.id, start=NOW, end=NOW.replace(year=2027))
    stands_in = DecideCommand(task=task, actor=WANG.id, decision=Decision.APPROVE, standing=standing)
    assert (await refused(world.do(stands_in))).code == "not_assignee", "nobody stands in, whatever the command says"
    to_author = TransferCommand(task=task, actor=LI.id, person=ZHANG.id)
    assert (await refused(world.do(to_author))).code == "own_request", "nor is it ever given to the author"
    error = await refused(world.decide(task, LI, "reject", "  "))
    assert (error.code, error.field) == ("missing_opinion", "opinion")
    writes = [path for method, path in world.proxy.calls if method != "GET"]
    assert not [path for path in writes if "/history/" not in path and "/query/" not in path]


async def test_nobody_decides_two_levels_and_a_resubmission_is_filled_in_here(world: World) -> None:
    await world.start(LONG)
    await world.decide(await world.task("L-0001"), LI, "reject", "太长")
    forged = FilledForm(values={**SICK, "approver": ZHANG.id})
    command = DecideCommand(task=await world.task("L-0001"), actor=ZHANG.id, decision=Decision.RESUBMIT, filled=forged)
    moved = await world.do(command)
    assert moved.waits_for == (LI.id,) and moved.days == "5"
    await world.decide(await world.task("L-0001"), LI, "approve")
    to_li = TransferCommand(task=await world.task("L-0001"), actor=WANG.id, person=LI.id)
    assert (await refused(world.do(to_li))).code == "own_level"


async def test_what_was_confirmed_is_what_is_started_and_decided(world: World) -> None:
    leave = (await world.engine.list_processes())[0]
    filled = await world.engine.fill_form(leave, SICK, ZHANG.id, NOW)
    preview = await world.engine.preview_form(leave, SICK, ZHANG.id, NOW)
    assert not preview.errors and preview.filled.numbers == filled.numbers
    assert [people for _, people in preview.deciders] == [(LI.id,)]
    other = world.engine.start_request("leave", LONG, ZHANG.id, "a", NOW, filled.confirmed_hash)
    assert (await refused(other)).code == "request_changed" and not await world.count_instances()
    await world.engine.start_request("leave", SICK, ZHANG.id, "b", NOW, filled.confirmed_hash)
    task = await world.task("L-0001")
    assert (await refused(world.decide(task, LI, "approve", seen="0" * 16))).code == "request_changed"
    assert (await world.decide(task, LI, "approve", seen=filled.content_hash)).status is Status.APPROVED


async def test_who_has_the_task_in_the_engine_decides_and_an_unknown_user_of_it_is_nobody_of_ours(world: World) -> None:
    """Somebody used the engine's own page. `U2` is 李四's id here, but in the engine he is `lisi`: whoever is called
    `U2` there is somebody else."""
    await world.start(SICK)
    task = await world.task("L-0001")
    item = await world.get_item(task)
    await world.api.assign_task(item, None)  # type: ignore[arg-type]
    for person in PEOPLE:
        error = await refused(world.decide(task, person, "approve"))
        assert error.code == ("own_request" if person is ZHANG else "not_assignee")
    await world.api.assign_task(item, "U3")
    assert (await refused(world.decide(task, LI, "approve"))).code == "not_assignee"
    assert (await world.decide(task, WANG, "approve")).status is Status.APPROVED


async def test_a_process_that_means_something_else_or_is_missing_is_not_used(world: World) -> None:
    source = convert_to_engine(load_shipped_processes()[0].bpmn, world.kind)
    await world.deploy(source.replace(b"</bpmn:process>", b"</bpmn:process><!-- drawn again -->"))
    assert (await world.start(SICK)).status is Status.WAITING, "it is only drawn differently"
    await world.deploy(source.replace(b"${days &lt;= 1}", b"${days &lt;= 100}"))
    later = {**LONG, "start_date": "2026-12-07", "end_date": "2026-12-11"}
    assert (await refused(world.start(later))).code == "not_deployed"
    assert (await refused(world.start(DESK, "ghost"))).code == "not_deployed" and await world.count_instances() == 1


@corpus("engine", "camunda", "operaton", "flowable")
def test_what_an_engine_is_given_is_all_in_its_own_name(engine: EngineName) -> None:
    for process in PROCESSES:
        source = convert_to_engine(process.bpmn, engine)
        theirs = compile_process(source, process.toml).definition
        assert theirs.model_copy(update={"version": ""}) == process.definition.model_copy(update={"version": ""})
        assert company.list_named_engines(source) == {engine}
        assert (b'type="external"' in source) == (engine != "flowable" and b'type="external"' in process.bpmn)
        assert convert_to_engine(source, engine) == source
        assert (b"historyTimeToLive" in source) == (engine != "flowable" or b"historyTimeToLive" in process.bpmn)


ODD = b"""<?xml version='1.0'?>
<b:definitions xmlns:b='http://www.omg.org/spec/BPMN/20100524/MODEL'
 xmlns:flowable="http://camunda.org/schema/1.0/bpmn" targetNamespace="it's ]">
<b:process id="p" xmlns:activiti =
 'http://activiti.org/bpmn' activiti:versionTag = 'a "1"'><!-- a camunda:assignee="x" of a comment -->
<b:documentation><![CDATA[<b:x flowable:topic="t">]]><activiti:note/></b:documentation>
<b:serviceTask id="s" flowable:type='external' flowable:topic="cc"/>
<b:serviceTask xmlns:flowable="http://example.org/other" id="o" flowable:topic="cc"
 activiti:topic="mail"/></b:process>
</b:definitions>"""


def test_attributes_are_told_from_what_only_looks_like_them() -> None:
    source = convert_to_engine(ODD, "flowable")
    root = ElementTree.fromstring(source)
    first, other = root.iter("{http://www.omg.org/spec/BPMN/20100524/MODEL}serviceTask")
    flowable = "{http://flowable.org/bpmn}"
    assert first.attrib == {"id": "s", f"{flowable}type": "external-worker", f"{flowable}exclusive": "false",
                            f"{flowable}topic": "cc"}  # fmt: skip
    assert other.attrib == {"id": "o", "{http://example.org/other}topic": "cc", f"{flowable}topic": "mail"}
    assert root[0].attrib == {"id": "p", f"{flowable}versionTag": 'a "1"'}
    assert b'a camunda:assignee="x" of a comment' in source and root[0][0].text == '<b:x flowable:topic="t">'


async def test_an_engine_is_not_used_with_a_file_whose_attributes_it_ignores(world: World) -> None:
    """Its tasks would be nobody's. The control is every other test: the same file in the engine's own name."""
    foreign: EngineName = "flowable" if world.kind == "operaton" else "operaton"
    own = b' xmlns:own="%b" own:historyTimeToLive' % NAMESPACES[world.kind].encode()
    ignored = convert_to_engine(SPEND.bpmn, foreign).replace(b" %b:historyTimeToLive" % foreign.encode(), own)
    await world.deploy(ignored)
    error = await refused(world.start(DESK, "spend"))
    assert (error.code, foreign in error.text) == ("not_deployed", True) and not await world.count_instances()
    await world.deploy(convert_to_engine(SPEND.bpmn, "camunda"))
    assert (await world.start(DESK, "spend")).request == "S-0001", "all three read Camunda's"


async def test_instances_that_others_started_are_not_ours_and_every_process_is_offered(world: World) -> None:
    variables: dict[str, VariableValue] = {"initiator": "U1", "days": 3.0, "approver": "lisi", "decision": None}
    await world.api.start_instance(await world.api.find_definition_id("leave"), "L-0001", variables)
    assert (await refused(world.engine.get_request("L-0001"))).code == "no_request"
    assert not (await world.engine.list_todo_tasks(LI.id, NOW)).total_count
    assert not await world.engine.list_own_requests(ZHANG.id)
    assert [p.key for p in await world.engine.list_processes()] == [p.key for p in PROCESSES]
    assert (await world.start(SICK)).request == "L-0002", "a number that is in use is passed over"
    assert not (await world.get_instance("L-0001")).ended


async def test_the_same_start_within_its_time_is_asked_about_and_two_at_once_are_one(world: World) -> None:
    async def start(again: str | None = "") -> CommandResult:
        return await world.engine.start_request("spend", DESK, ZHANG.id, world.key(), NOW, again=again)

    done = await asyncio.gather(start(), start(), return_exceptions=True)
    assert len([one for one in done if isinstance(one, CommandResult)]) == 1
    assert [one.code for one in done if isinstance(one, ToolError)] == ["started_already"]
    assert len(await world.engine.list_own_requests(ZHANG.id)) == 1
    first = next(one.request for one in done if isinstance(one, CommandResult))
    assert (await start(first)).request != first, "knowingly"


# The rules: who may approve, sums, and authority at the press


HALF = {"amount": "600", "approver": "U2"}


async def test_a_friend_as_approver_is_refused_and_a_choice_that_a_row_permits_stays_flagged(world: World) -> None:
    for approver, code in (("U3", "other_approver"), ("U1", "own_approver"), ("U9", "unknown_person")):
        assert (await refused(world.start({**SICK, "approver": approver}))).code == code
        assert not await world.count_instances()
    await world.start({**HALF, "approver": "U3"}, "spend")
    assert (await world.engine.get_request("S-0001")).filled.exceptions == {"approver": (LI.id,)}
    (start, *_) = await world.engine.list_events("S-0001")
    assert start.command.filled.exceptions == {"approver": (LI.id,)}  # type: ignore[union-attr]


async def test_sums_are_counted_from_what_the_engine_has(world: World) -> None:
    await world.start(HALF, "spend")
    await world.start(HALF, "spend")
    first, second = [(await world.engine.get_request(f"S-000{n}")).filled for n in (1, 2)]
    assert (first.exceeded, second.exceeded) == ((), ("recent",))
    assert second.numbers["recent"] == 1200


@pytest.mark.parametrize("one_after_the_other", [True, False])
async def test_two_at_the_same_moment_are_seen_together_because_one_waits_for_the_other(
    world: World, monkeypatch: pytest.MonkeyPatch, one_after_the_other: bool
) -> None:
    """Otherwise, which is the negative control, neither sees the other."""

    @asynccontextmanager
    async def together(self: RemoteEngine, *args: Any, **more: Any) -> AsyncIterator[None]:
        yield

    if not one_after_the_other:
        monkeypatch.setattr(RemoteEngine, "_lock_author_forms", together)
    await asyncio.gather(*(world.engine.start_request("spend", HALF, ZHANG.id, f"k{n}", NOW) for n in range(2)))
    flagged = ["recent" in one.filled.exceeded for one in await world.engine.list_own_requests(ZHANG.id)]
    assert sum(flagged) == (1 if one_after_the_other else 0)


async def test_who_lost_the_role_decides_no_longer(world: World) -> None:
    await world.start({**HALF, "amount": "5000"}, "spend")
    await world.decide(await world.task("S-0001"), LI, "approve")
    other = ZHAO.model_copy(update={"id": "U7", "name": "孙七", "email": "sunqi@example.com"})
    without = ZHAO.model_copy(update={"roles": frozenset()})
    world.people.known = [*(without if p.id == ZHAO.id else p for p in world.people.known), other]
    task = await world.task("S-0001")
    error = await refused(world.decide(task, ZHAO, "approve"))
    assert (error.code, error.params["names"]) == ("not_named", {"zh": "孙七", "en": "孙七"})
    with pytest.raises(ToolError, match="the rules name 孙七"):
        await world.engine.authorize_command(TransferCommand(task=task, actor=ZHAO.id, person=WANG.id), NOW)
    assert (await world.engine.get_request("S-0001")).status is Status.WAITING
