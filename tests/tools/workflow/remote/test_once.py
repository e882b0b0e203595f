"""Whatever happens to a call, a command has at most one effect, and nobody is told the opposite of what is true."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp.test_utils import unused_port

from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tests.tools.office import LONG, NOW, SICK, refused
from tests.tools.workflow.remote.company import BOSS, DESK, LI, WANG, ZHANG, World, assert_unknown, get_write_path
from tests.tools.workflow.remote.proxy import Fault
from tools.spec import EffectUnknownError, ToolError
from tools.workflow.engine.commands import CommentCommand, DecideCommand, TransferCommand, WithdrawCommand
from tools.workflow.engine.state import Decision, Status
from tools.workflow.remote import engine as remote_engine
from tools.workflow.remote.api import ActivityInstance, EngineTask
from tools.workflow.remote.engine import RemoteEngine
from tools.workflow.remote.flowable import FlowableApi


def approve(task: str) -> DecideCommand:
    return DecideCommand(task=task, actor=LI.id, decision=Decision.APPROVE)


@pytest.mark.parametrize(
    "apart", [False, True], ids=["bots that share a store", "bots that know nothing of each other"]
)
async def test_of_twenty_who_decide_at_once_one_wins_and_the_others_are_told(world: World, apart: bool) -> None:
    await world.start(SICK)
    task = await world.task("L-0001")
    engines = [world.another(MemoryKeyValueStore() if apart else world.marks) for _ in range(20)]
    work = (engine.execute_command(approve(task), f"d{n}", NOW) for n, engine in enumerate(engines))
    results = await asyncio.gather(*work, return_exceptions=True)
    won = [r for r in results if not isinstance(r, BaseException)]
    lost = [r for r in results if isinstance(r, ToolError)]
    assert len(won) == 1 and won[0].status is Status.APPROVED
    assert len(lost) == 19 and {error.code for error in lost} == {"task_closed"}


async def test_a_command_repeated_with_its_key_has_one_effect_and_the_same_answer(world: World) -> None:
    """Also if our process died before it could note the answer: the engine's own record knows it again."""
    first = await world.start(SICK, key="s")
    assert await world.start(SICK, key="s") == first and await world.count_instances() == 1
    task = await world.task("L-0001")
    done = await world.do(approve(task), "d")
    assert await world.do(approve(task), "d") == done
    assert (await refused(world.do(approve(task), "other"))).code == "task_closed"
    del world.marks.values["answer:d"], world.marks.values["answer:s"]
    assert (await world.do(approve(task), "d")).status is Status.APPROVED
    assert (await world.start(SICK, key="s")).request == "L-0001" and await world.count_instances() == 1


async def test_twenty_starts_with_one_key_are_one_request(world: World) -> None:
    answers = await asyncio.gather(*(world.start(SICK, key="s") for _ in range(20)))
    assert {a.request for a in answers} == {"L-0001"} and await world.count_instances() == 1
    definition = await world.api.find_definition_id("leave")
    for _ in range(2):
        await world.api.start_instance(definition, "L-0001", {"days": 1.0})
    assert await world.count_instances() == 3, "the control: the engine starts the same business key again"


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.SILENT, Fault.TOO_SLOW, Fault.HUNG_UP])
async def test_what_was_done_without_an_answer_is_found_and_a_success(world: World, fault: Fault) -> None:
    world.engine = world.another(world.marks, timeout_s=1.5 if fault is Fault.SILENT else 30)
    world.fail("start", fault)
    for _ in range(2):
        assert (await world.start(SICK, key="s")).request == "L-0001"
    assert await world.count_instances() == 1
    task = await world.task("L-0001")
    world.fail_decision(task, fault)
    assert (await world.do(approve(task), "d")).status is Status.APPROVED and not world.proxy.faults


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.GIVEN_UP, Fault.BUSY, Fault.SWALLOWED])
async def test_a_start_that_nobody_answered_is_not_sent_again_too_soon(world: World, fault: Fault) -> None:
    world.fail("start", fault)
    for _ in range(2):
        await assert_unknown(world.start(SICK, key="s"))
    starts = [method for method, path in world.proxy.calls if path.endswith(get_write_path("start", world.kind))]
    assert starts.count("POST") == 1
    if fault in (Fault.LATE, Fault.GIVEN_UP):
        await world.proxy.come_true()
    else:
        world.seconds += 301
    assert (await world.start(SICK, key="s")).request == "L-0001", "with the number it was given"
    assert await world.count_instances() == 1


async def test_while_the_engine_is_away_the_end_of_what_was_sent_stays_unknown(world: World) -> None:
    """Whoever says *nothing was changed* then may be wrong: the first try was sent."""
    url, away = world.url, f"http://127.0.0.1:{unused_port()}/x"

    def move_engine(address: str) -> None:
        world.url = address
        world.engine = world.another(world.marks)

    async def send_late(command: Callable[[], Awaitable[object]]) -> None:
        await assert_unknown(command())
        move_engine(away)
        await assert_unknown(command())
        move_engine(url)
        await world.proxy.come_true()
        await command()

    world.fail("start", Fault.LATE)
    await send_late(lambda: world.start(SICK, key="s"))
    task = await world.task("L-0001")
    world.fail_decision(task, Fault.LATE)
    await send_late(lambda: world.do(approve(task), "d"))
    assert await world.count_instances() == 1
    move_engine(away)
    assert (await refused(world.start(SICK, key="other"))).code == "engine_down", "nothing was sent of this one"


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.GIVEN_UP, Fault.BUSY])
async def test_a_decision_that_may_or_may_not_be_made_is_unknown_until_it_is_seen(world: World, fault: Fault) -> None:
    """Behind what answered in the engine's place it may still be under way."""
    await world.start(SICK)
    task = await world.task("L-0001")
    world.fail_decision(task, fault)
    await assert_unknown(world.do(approve(task), "d"))
    assert world.slept[-4:] == [0.0, 0.2, 1.0, 2.0], "it was looked for"
    await world.proxy.come_true()
    assert (await world.do(approve(task), "d")).status is Status.APPROVED


async def test_what_the_engine_itself_refused_was_not_done_and_may_be_tried_again_at_once(world: World) -> None:
    world.fail("start", Fault.REFUSED)
    assert (await refused(world.start(SICK, key="s"))).code == "engine_failed"
    assert (await world.start(SICK, key="s")).request == "L-0001"
    task = await world.task("L-0001")
    world.fail_decision(task, Fault.REFUSED)
    error = await refused(world.do(approve(task), "d"))
    assert (error.code, error.params) == ("engine_failed", {"status": "HTTP 500"})
    assert (await world.do(approve(task), "d")).status is Status.APPROVED


async def test_somebody_else_s_decision_is_not_taken_for_ours(world: World) -> None:
    """Ours was not answered; meanwhile the task was decided from elsewhere."""
    await world.start(SICK)
    task = await world.task("L-0001")
    world.fail_decision(task, Fault.SWALLOWED)

    async def meanwhile(seconds: float) -> None:
        if seconds == 0.2:
            no = DecideCommand(task=task, actor=LI.id, decision=Decision.REJECT, opinion="不行")
            await elsewhere.execute_command(no, "e", NOW)

    elsewhere = world.another(MemoryKeyValueStore())
    world.engine._sleep = meanwhile
    assert (await refused(world.do(approve(task), "d"))).code == "task_closed"


def decide_between_reads(engine: RemoteEngine, decide: Callable[[], Awaitable[object]]) -> None:
    """Once: after the engine has read a request's variables, and before it reads the steps."""
    read = engine._api.list_activities

    async def decide_first(instance: str) -> list[ActivityInstance]:
        if await decide():
            engine._api.list_activities = read  # type: ignore[method-assign]
        return await read(instance)

    engine._api.list_activities = decide_first  # type: ignore[method-assign]


@pytest.mark.parametrize(("form", "next_ones"), [(SICK, ()), (LONG, (WANG.id,))], ids=["the last one", "one of two"])
async def test_a_decision_that_comes_true_while_it_is_looked_for_is_found(
    world: World, form: dict[str, str], next_ones: tuple[str, ...]
) -> None:
    await world.start(form)
    task = await world.task("L-0001")
    world.fail_decision(task, Fault.LATE)
    decide_between_reads(world.engine, world.proxy.come_true)
    assert (await world.do(approve(task), "d")).waits_for == next_ones


async def test_the_last_decision_is_never_missing_although_it_came_while_the_request_was_read(world: World) -> None:
    await world.start(SICK)
    task, reader = await world.task("L-0001"), world.another(world.marks)
    decide_between_reads(reader, lambda: world.decide(task, LI, "approve", "好的"))
    for _ in range(2):
        request = await reader.get_request("L-0001")
        assert [(one.by, one.text) for one in request.opinions] == [(LI.id, "好的")]
        assert [(one.by, one.outcome) for one in request.tasks] == [(LI.id, "approve")]


async def start_return(world: World, fault: Fault) -> str:
    """A return by the first of two deciders that nobody answered; their task."""
    await world.start(LONG)
    task = await world.task("L-0001")
    world.fail("move", fault)
    back = DecideCommand(task=task, actor=LI.id, decision=Decision.RETURN, opinion="退回")
    await assert_unknown(world.do(back, "r"))
    return task


async def test_a_return_that_comes_true_late_is_made_as_if_it_had_been_answered(world: World) -> None:
    task = await start_return(world, Fault.LATE)
    assert [status // 100 for status in await world.proxy.come_true()] == [2]
    back = DecideCommand(task=task, actor=LI.id, decision=Decision.RETURN, opinion="退回")
    assert (await world.do(back, "r")).status is Status.REVISE
    request = await world.engine.get_request("L-0001")
    assert [one.outcome for one in request.tasks if not one.is_open] == ["return"] and len(request.open_tasks) == 1
    assert (await refused(world.do(approve(task), "d"))).code == "task_closed"


@pytest.mark.parametrize("then", ["approve", "reject", "return"])
async def test_a_return_that_comes_true_after_another_decision_is_refused_there(world: World, then: str) -> None:
    """However late it comes: the second level is open by then, or the first one again. The task was handed over before,
    and stays with them."""
    world.people.known.append(BOSS)
    await world.start(LONG)
    await world.do(TransferCommand(task=await world.task("L-0001"), actor=LI.id, person=BOSS.id), "t")
    task = await world.task("L-0001")
    world.fail("move", Fault.LATE)
    back = DecideCommand(task=task, actor=BOSS.id, decision=Decision.RETURN, opinion="退回")
    await assert_unknown(world.do(back, "r"))
    world.seconds += 301
    done = await world.decide(task, BOSS, then, "看过了")
    assert done.waits_for == ((WANG.id,) if then == "approve" else (ZHANG.id,))
    if then == "reject":
        await world.decide(await world.task("L-0001"), ZHANG, "resubmit")
    before = await world.engine.get_request("L-0001")
    assert [status // 100 for status in await world.proxy.come_true()] in ([4], [5])
    assert await world.engine.get_request("L-0001") == before and len(before.open_tasks) == 1
    assert [one.decision for one in before.opinions if one.by == BOSS.id][-1:] == [then]


async def test_a_late_return_would_take_somebody_else_s_task(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control, of Flowable, without another execution: consecutive tasks have one."""
    if not world.is_flowable:
        pytest.skip("Camunda and Operaton name the activity instance in the return itself")

    async def renew_nothing(self: FlowableApi, item: EngineTask) -> EngineTask:
        return item

    monkeypatch.setattr(FlowableApi, "renew_task", renew_nothing)
    await world.do(approve(await start_return(world, Fault.LATE)), "d")
    await world.proxy.come_true()
    assert (await world.engine.get_request("L-0001")).waits_for == (ZHANG.id,), "the second level is gone"


async def test_a_return_that_never_came_true_keeps_nobody_waiting(world: World) -> None:
    assert (await world.do(approve(await start_return(world, Fault.BUSY)), "d")).waits_for == (WANG.id,)


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.SWALLOWED, Fault.TOO_SLOW, Fault.BUSY])
async def test_a_withdrawal_or_a_transfer_or_a_comment_is_as_sure_as_a_decision(world: World, fault: Fault) -> None:
    for n in range(1, 4):
        await world.start(DESK, "spend")
        task = await world.task(f"S-000{n}")
        instance = (await world.engine.load_request(f"S-000{n}")).instance.id
        times = 2 if fault is Fault.SWALLOWED and (world.is_flowable or n == 1) else 1  # no POST
        command: WithdrawCommand | TransferCommand | CommentCommand
        if n == 1:
            command = WithdrawCommand(request="S-0001", actor=ZHANG.id)
            world.proxy.faults += [(f"/{instance}", fault)] * times
        elif n == 2:
            command = TransferCommand(task=task, actor=LI.id, person=WANG.id)
            world.fail_hand_over(task, fault, times)
        else:
            command = CommentCommand(request="S-0003", actor=LI.id, text="看过了")
            world.fail("record", fault, times)
        if fault in (Fault.LOST, Fault.TOO_SLOW):
            await world.do(command, f"c{n}")
        else:
            await assert_unknown(world.do(command, f"c{n}"))
            await world.do(command, f"c{n}")
        assert not world.proxy.faults
    assert (await world.engine.get_request("S-0001")).status is Status.WITHDRAWN
    assert (await world.engine.get_request("S-0002")).waits_for == ("U3",)
    assert len((await world.engine.get_request("S-0003")).opinions) == 1


async def test_an_approval_that_overtakes_a_withdrawal_stands(world: World) -> None:
    await world.start(SICK)
    task = await world.task("L-0001")
    instance = (await world.engine.load_request("L-0001")).instance.id
    world.proxy.faults += [(f"/{instance}", Fault.SWALLOWED)] * 2  # a DELETE without an answer is sent once more

    async def meanwhile(seconds: float) -> None:
        if seconds == 0.2:
            await elsewhere.execute_command(approve(task), "e", NOW)

    elsewhere = world.another(MemoryKeyValueStore())
    world.engine._sleep = meanwhile
    withdraw = WithdrawCommand(request="L-0001", actor=ZHANG.id)
    with pytest.raises((ToolError, EffectUnknownError)):
        await world.do(withdraw, "w")
    request = await world.engine.get_request("L-0001")
    assert request.status is Status.APPROVED and request.opinions[-1].by == LI.id


async def test_an_engine_that_goes_away_after_the_decision_leaves_it_unknown(world: World) -> None:
    await world.start(SICK)
    task = await world.task("L-0001")
    again = world.engine.reload_request

    async def away(instance: object, variables: object = None) -> None:
        raise ToolError("engine_down", "away")

    world.engine.reload_request = away  # type: ignore[method-assign, assignment]
    await assert_unknown(world.do(approve(task), "d"))
    world.engine.reload_request = again  # type: ignore[method-assign]
    assert (await world.do(approve(task), "d")).status is Status.APPROVED


async def test_who_holds_a_request_too_long_is_told_of(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_engine, "WAITS", 3)
    await world.start(SICK)
    await world.marks.put("alone:request:L-0001", "somebody", 1000)
    assert (await refused(world.do(approve(await world.task("L-0001")), "d"))).code == "busy"
