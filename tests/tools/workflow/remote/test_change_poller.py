"""Remote engines tell nobody anything; whoever has something to do hears of it all the same, once."""

from __future__ import annotations

import pytest

from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tests.tools.workflow.remote.company import DESK, LI, LONG, NOW, SHORT, SICK, WANG, ZHANG, ZHAO, World, refused
from tests.tools.workflow.remote.face import Fault
from tools.spec import EffectUnknownError
from tools.workflow.engine.commands import CcCommand, CommentCommand, TransferCommand, UrgeCommand, WithdrawCommand
from tools.workflow.remote.change_poller import NOTICES_TABLE
from tools.workflow.remote.request_starter import RUNNING_TABLE

START = {"flowable": "/runtime/process-instances", "camunda": "start"}
LUNCH = NOW.replace(hour=18)
"""When it is ten in the zone of 李四, who has none and so lives by UTC."""


async def told(world: World) -> list[tuple[str, str, str]]:
    """What is announced, until nothing is left: kind, person, and what is said of it."""
    found = []
    while events := await world.engine.list_outbox(2):
        found += [(e.kind, e.data["person"], e.data.get("why") or e.data.get("status") or "") for e in events]
        await world.engine.mark_sent([e.id for e in events])
    return found


async def test_each_assignee_in_turn_and_then_the_author_hears_of_it(world: World) -> None:
    await world.start(LONG)
    assert await told(world) == [("assigned", "U2", "")]
    await world.decide(await world.task("L-0001"), LI, "approve")
    assert await told(world) == [("task_closed", "U2", "decided"), ("assigned", "U3", "")]
    await world.decide(await world.task("L-0001"), WANG, "approve", "好的")
    events = await world.engine.list_outbox(10)
    assert [e.kind for e in events] == ["task_closed", "ended"]
    wanted = {"request": "L-0001", "person": "U1", "status": "approved", "by": "U3", "by_name": "王五"}
    assert events[1].data == {**wanted, "opinion": "好的", "rule": ""}


async def test_what_was_not_sent_is_told_again_and_what_was_is_not(world: World) -> None:
    await world.start(SICK)
    first = await world.engine.list_outbox(10)
    assert first and await world.engine.list_outbox(10) == first
    await world.engine.mark_sent([e.id for e in first])
    world.seconds += 60
    assert await world.engine.list_outbox(10) == []


async def test_nobody_is_told_of_their_own_doing(world: World) -> None:
    await world.start(SHORT)
    assert await told(world) == [], "it passed by rule, and the answer said so"
    await world.start(DESK, "spend")
    await world.engine.execute_command(WithdrawCommand(request="S-0001", actor=ZHANG.id), "w", NOW)
    assert await told(world) == [], "its task came and went before anybody had a card"


async def test_a_withdrawn_request_s_card_is_closed(world: World) -> None:
    await world.start(SICK)
    await told(world)
    await world.engine.execute_command(WithdrawCommand(request="L-0001", actor=ZHANG.id, reason="不去了"), "w", NOW)
    assert await told(world) == [("task_closed", "U2", "withdrawn")]


async def test_a_transferred_task_s_card_goes_to_whoever_has_it(world: World) -> None:
    await world.start(SICK)
    await told(world)
    await world.engine.execute_command(
        TransferCommand(task=await world.task("L-0001"), actor=LI.id, person=WANG.id), "t", NOW
    )
    assert await told(world) == [("task_closed", "U2", "transferred"), ("assigned", "U3", "")]


async def test_what_was_done_elsewhere_is_found_at_the_next_look(world: World) -> None:
    await world.start(SICK)
    await told(world)
    task = await world.task("L-0001")
    elsewhere = world.another(MemoryKeyValueStore())
    await elsewhere.execute_command(TransferCommand(task=task, actor=LI.id, person=WANG.id), "t", NOW)
    assert await told(world) == [], "not yet: the engine was looked at just now"
    world.seconds += 11
    assert await told(world) == [("task_closed", "U2", "transferred"), ("assigned", "U3", "")]


async def test_a_request_removed_in_the_engine_s_own_page_is_told_as_nobody_s_doing(world: World) -> None:
    await world.start(SICK)
    await told(world)
    (run,) = world.face.runner.state.runs.values()
    world.face.runner.remove(run, "an administrator")
    world.seconds += 11
    kinds = await told(world)
    assert kinds == [("task_closed", "U2", "withdrawn"), ("ended", "U1", "withdrawn")]


async def test_a_quiet_look_reads_only_the_open_tasks(world: World) -> None:
    for _ in range(3):
        await world.start(DESK, "spend")
    await told(world)
    world.seconds += 11
    await told(world)
    world.face.calls.clear()
    world.seconds += 11
    assert await told(world) == []
    assert len(world.face.calls) == len(await world.engine.list_processes()), "one page for each process"


async def test_two_bots_announce_the_same_under_the_same_name(world: World) -> None:
    await world.start(SICK)
    other = world.another(world.marks)
    assert await other.list_outbox(10) == await world.engine.list_outbox(10)


async def test_words_to_people_are_told_once_however_often_they_are_sent(world: World) -> None:
    await world.start(SICK)
    await told(world)
    urge = UrgeCommand(task=await world.task("L-0001"), actor=ZHANG.id)
    for _ in range(2):
        await world.engine.execute_command(urge, "u", LUNCH)
        await world.engine.execute_command(CommentCommand(request="L-0001", actor=ZHANG.id, text="急"), "c", NOW)
    assert sorted(await told(world)) == [("commented", "U2", ""), ("urged", "U2", "")]
    assert len((await world.engine.get_task(await world.task("L-0001"))).task.urged) == 1


@pytest.mark.parametrize("repeated", [True, False])
async def test_words_whose_answer_was_late_are_told_once_they_are_there(world: World, repeated: bool) -> None:
    await world.start(SICK)
    await told(world)
    task = await world.task("L-0001")
    cc = CcCommand(request="L-0001", actor=ZHANG.id, people=(ZHAO.id,))
    words = [UrgeCommand(task=task, actor=ZHANG.id), CommentCommand(request="L-0001", actor=ZHANG.id, text="急"), cc]
    world.face.faults += [("/variables", Fault.LATE)] * len(words) * (2 if world.kind == "flowable" else 1)
    for n, command in enumerate(words):
        with pytest.raises(EffectUnknownError):
            await world.engine.execute_command(command, f"w{n}", LUNCH)
    world.engine._poller.schedule_poll()
    assert await told(world) == [], "it may not happen"
    await world.face.come_true()
    for n, command in enumerate(words * repeated):
        await world.engine.execute_command(command, f"w{n}", LUNCH)
    world.seconds += 11
    assert sorted(await told(world)) == [("commented", "U2", ""), ("told", "ou_4", ""), ("urged", "U2", "")]
    assert [r.id for r in await world.engine.list_cc_requests(ZHAO.id)] == ["L-0001"]


async def test_words_that_the_engine_refused_are_never_told(world: World) -> None:
    await world.start(SICK)
    await told(world)
    comment = CommentCommand(request="L-0001", actor=ZHANG.id, text="急")
    world.face.faults.append(("/variables", Fault.REFUSED))
    assert (await refused(world.engine.execute_command(comment, "c", NOW))).code == "engine_failed"
    for _ in range(2):
        world.seconds += 301
        assert await told(world) == []
    assert not world.marks.tables[NOTICES_TABLE], "nothing is kept of what did not happen"
    await world.engine.execute_command(comment, "c", NOW)
    assert await told(world) == [("commented", "U2", "")]


async def test_a_start_that_comes_true_late_is_announced(world: World) -> None:
    world.face.faults.append((START[world.kind], Fault.LATE))
    with pytest.raises(EffectUnknownError):
        await world.start(SICK)
    world.engine._poller.schedule_poll()
    assert await told(world) == []
    await world.face.come_true()
    world.seconds += 11
    assert await told(world) == [("assigned", "U2", "")]


async def test_a_start_that_never_comes_true_is_not_looked_for_for_ever(world: World) -> None:
    world.face.faults.append((START[world.kind], Fault.SWALLOWED))
    with pytest.raises(EffectUnknownError):
        await world.start(SICK)
    world.seconds += 301
    assert await told(world) == [] and not world.marks.tables[RUNNING_TABLE]


async def test_a_request_that_cannot_be_read_lets_the_others_be_told(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.start(SICK)
    await world.engine.execute_command(CommentCommand(request="L-0001", actor=ZHANG.id, text="急"), "c", NOW)
    await world.start(DESK, "spend")
    (run, _) = world.face.runner.state.runs.values()
    before = dict(run.variables)
    world.spoil("L-0001")
    assert await told(world) == [("assigned", "U2", "")] and "L-0001" in caplog.text
    run.variables = before
    world.seconds += 11
    assert sorted(await told(world)) == [("assigned", "U2", ""), ("commented", "U2", "")], "it can be read again"
