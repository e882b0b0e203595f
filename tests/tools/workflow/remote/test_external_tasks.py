"""Service tasks wait in the engine until we have seen to them."""

from __future__ import annotations

import pytest

from tests.tools.workflow.remote.company import DESK, LI, SHORT, SICK, World
from tests.tools.workflow.remote.face import Fault
from tests.tools.workflow.remote.runner import Job
from tools.workflow.bpmn.graph import FlowNode, NodeKind, SequenceFlow, ServiceTopic, TimerAction
from tools.workflow.engine.state import Status
from tools.workflow.remote.external_tasks import ExternalTaskWorker


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


@pytest.mark.parametrize("fails", ["", "/complete", "/variables"])
async def test_whom_the_process_names_is_told_once_and_may_read_it(world: World, fails: str) -> None:
    """Also when it could not be finished, or we died when it was recorded."""
    servant = await waiting(world, ServiceTopic.CC)
    if fails:
        world.face.faults += [(fails, Fault.REFUSED if fails == "/complete" else Fault.LOST)] * (
            world.repeats if fails == "/variables" else 1
        )
        assert await servant.run_external_tasks() == 0
        assert (await world.engine.get_request("L-0001")).cc == ("U2",)
        world.face.runner.state.jobs["j1"].worker = ""
    assert await servant.run_external_tasks() == 1
    assert await world.told() == ["told U2"]
    assert (await world.engine.get_request("L-0001")).cc == ("U2",)
    assert [r.id for r in await world.engine.list_cc_requests(LI.id)] == ["L-0001"]
    assert not world.face.runner.state.jobs


async def test_a_mail_is_proposed_to_the_author(world: World) -> None:
    await (await waiting(world, ServiceTopic.MAIL)).run_external_tasks()
    assert await world.told() == ["mail U1"]


async def test_a_timer_of_the_engine_reminds_and_takes_nothing_away(world: World) -> None:
    """An engine that is away is asked again later."""
    servant = await waiting(world, TimerAction.ESCALATE)
    world.fail("jobs", Fault.REFUSED)
    assert (await servant.run_external_tasks(), await servant.run_external_tasks()) == (0, 1)
    assert await world.told() == ["reminded U2"]
    assert (await world.engine.get_request("L-0001")).waits_for == ("U2",)


async def test_a_request_that_cannot_be_read_stops_no_other_s_service_task_nor_anybody_s_command(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    servant = await waiting(world, ServiceTopic.CC)
    await world.start(DESK, "spend")
    jobs = world.face.runner.state.jobs
    node = jobs["j1"].node.model_copy(update={"routes": (SequenceFlow(flow="f", to="spend_approved"),)})
    jobs["j2"] = Job("j2", world.runs[1], node)
    world.spoil("L-0001")
    assert await servant.run_external_tasks() == 1
    assert list(world.face.runner.state.jobs) == ["j1"] and "service task j1" in caplog.text
    assert (await world.engine.get_request("S-0001")).cc == ("U2",)
    assert (await world.start(SHORT)).status is Status.APPROVED
    assert list(world.face.runner.state.jobs) == ["j1"]
