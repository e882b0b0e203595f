"""Service tasks wait in the engine until we have seen to them."""

from __future__ import annotations

import pytest

from tests.tools.workflow.remote.company import DESK, LI, SHORT, SICK, World
from tests.tools.workflow.remote.face import Fault
from tests.tools.workflow.remote.runner import Job
from tools.workflow.bpmn.graph import FlowNode, NodeKind, SequenceFlow, ServiceTopic, TimerAction
from tools.workflow.engine.state import Status
from tools.workflow.remote.external_tasks import ExternalTaskWorker

JOBS = {"flowable": "/acquire/jobs", "camunda": "/fetchAndLock"}


async def waiting(world: World, topic: str) -> ExternalTaskWorker:
    """A request with a service task that is called as the form's approver is, so that it is about them."""
    await world.start(SICK)
    engine, runner = world.engine, world.face.runner
    (run,) = runner.state.runs.values()
    node = FlowNode(id="approver", kind=NodeKind.SERVICE, routes=(SequenceFlow(flow="f", to="leave_approved"),))
    runner.state.jobs["j1"] = Job("j1", run, node.model_copy(update={"topic": topic}))
    await engine.mark_sent([e.id for e in await engine.list_outbox(10)])
    engine._poller.schedule_poll()

    async def list_topics() -> list[str]:
        return [topic]

    return ExternalTaskWorker(engine._api, engine._reader, engine._poller, list_topics)


async def told(world: World) -> list[tuple[str, str]]:
    return [(e.kind, e.data["person"]) for e in await world.engine.list_outbox(10)]


async def test_whom_the_process_names_is_told_and_may_read_it(world: World) -> None:
    assert await (await waiting(world, ServiceTopic.CC)).run_external_tasks() == 1
    assert await told(world) == [("told", "U2")]
    assert (await world.engine.get_request("L-0001")).cc == ("U2",)
    assert [r.id for r in await world.engine.list_cc_requests(LI.id)] == ["L-0001"]
    assert not world.face.runner.state.jobs


async def test_a_mail_is_proposed_to_the_author(world: World) -> None:
    await (await waiting(world, ServiceTopic.MAIL)).run_external_tasks()
    assert await told(world) == [("mail", "U1")]


async def test_a_timer_of_the_engine_reminds_and_takes_nothing_away(world: World) -> None:
    await (await waiting(world, TimerAction.ESCALATE)).run_external_tasks()
    assert await told(world) == [("reminded", "U2")]
    assert (await world.engine.get_request("L-0001")).waits_for == ("U2",)


async def test_what_could_not_be_finished_is_told_once(world: World) -> None:
    servant = await waiting(world, ServiceTopic.CC)
    world.face.faults.append(("/complete", Fault.REFUSED))
    assert await servant.run_external_tasks() == 0
    world.face.runner.state.jobs["j1"].worker = ""
    assert await servant.run_external_tasks() == 1
    assert await told(world) == [("told", "U2")]


async def test_whom_the_process_names_still_know_of_it_when_it_could_not_be_finished(world: World) -> None:
    servant = await waiting(world, ServiceTopic.CC)
    world.face.faults.append(("/complete", Fault.REFUSED))
    await servant.run_external_tasks()
    world.face.runner.state.jobs["j1"].worker = ""
    await servant.run_external_tasks()
    assert (await world.engine.get_request("L-0001")).cc == ("U2",)
    assert [r.id for r in await world.engine.list_cc_requests(LI.id)] == ["L-0001"]


async def test_whom_the_process_names_is_told_although_we_died_when_it_was_recorded(world: World) -> None:
    servant = await waiting(world, ServiceTopic.CC)
    world.face.faults += [("/variables", Fault.LOST)] * (2 if world.kind == "flowable" else 1)
    assert await servant.run_external_tasks() == 0 and (await world.engine.get_request("L-0001")).cc == ("U2",)
    world.face.runner.state.jobs["j1"].worker = ""
    assert await servant.run_external_tasks() == 1
    assert await told(world) == [("told", "U2")]
    assert [r.id for r in await world.engine.list_cc_requests(LI.id)] == ["L-0001"]


async def test_a_request_that_cannot_be_read_stops_no_other_s_service_task(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    servant = await waiting(world, ServiceTopic.CC)
    await world.start(DESK, "spend")
    jobs, (_, second) = world.face.runner.state.jobs, world.face.runner.state.runs.values()
    node = jobs["j1"].node.model_copy(update={"routes": (SequenceFlow(flow="f", to="spend_approved"),)})
    jobs["j2"] = Job("j2", second, node)
    world.spoil("L-0001")
    assert await servant.run_external_tasks() == 1
    assert list(world.face.runner.state.jobs) == ["j1"] and "service task j1" in caplog.text
    assert (await world.engine.get_request("S-0001")).cc == ("U2",)


async def test_a_service_task_that_cannot_be_done_fails_nobody_s_command(world: World) -> None:
    await waiting(world, ServiceTopic.CC)
    world.spoil("L-0001")
    assert (await world.start(SHORT)).status is Status.APPROVED
    assert list(world.face.runner.state.jobs) == ["j1"]


async def test_an_engine_that_is_away_is_asked_again_later(world: World) -> None:
    servant = await waiting(world, ServiceTopic.CC)
    world.face.faults.append((JOBS[world.kind], Fault.REFUSED))
    assert (await servant.run_external_tasks(), await servant.run_external_tasks()) == (0, 1)
