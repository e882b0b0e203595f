"""Remote engines tell nobody anything; whoever has something to do hears of it all the same, once."""

from datetime import timedelta

import pytest
from yarl import URL

from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tests.tools.office import LONG, NOW, SICK, refused
from tests.tools.workflow.remote.company import DESK, LI, SHORT, WANG, ZHANG, ZHAO, World, assert_unknown
from tests.tools.workflow.remote.proxy import Fault
from tools.workflow.engine.commands import CcCommand, CommentCommand, TransferCommand, UrgeCommand, WithdrawCommand
from tools.workflow.remote.change_poller import NOTICES_TABLE, RUNNING_TABLE

LUNCH = NOW.replace(hour=18)
"""When it is ten in the zone of 李四, who has none and so lives by UTC."""
COMMENT = CommentCommand(request="L-0001", actor=ZHANG.id, text="急")


async def test_each_assignee_in_turn_and_then_the_author_hears_of_it(world: World) -> None:
    await world.start(LONG)
    first = await world.engine.list_outbox(10)
    assert first and await world.engine.list_outbox(10) == first, "what was not sent is told again"
    assert await world.another(world.marks).list_outbox(10) == first, "by another bot under the same name"
    assert await world.told() == ["assigned U2"]
    world.seconds += 60
    assert await world.told() == [], "and what was sent is not"
    await world.decide(await world.task("L-0001"), LI, "approve")
    assert await world.told() == ["task_closed U2 decided", "assigned U3"]
    await world.decide(await world.task("L-0001"), WANG, "approve", "好的")
    events = await world.engine.list_outbox(10)
    assert [e.kind for e in events] == ["task_closed", "ended"]
    wanted = {"request": "L-0001", "person": "U1", "status": "approved", "by": "U3", "by_name": "王五"}
    assert events[1].data == {**wanted, "opinion": "好的", "rule": ""}


async def test_nobody_is_told_of_their_own_doing_and_a_withdrawn_request_s_card_is_closed(world: World) -> None:
    await world.start({**SHORT, "start_date": "2026-12-01", "end_date": "2026-12-01"})
    assert await world.told() == ["told U2"], "it passed by rule, and the answer said so: only the manager is told"
    await world.start(DESK, "spend")
    await world.do(WithdrawCommand(request="S-0001", actor=ZHANG.id))
    assert await world.told() == [], "its task came and went before anybody had a card"
    await world.start(SICK)
    await world.told()
    await world.do(WithdrawCommand(request="L-0002", actor=ZHANG.id, reason="不去了"))
    assert await world.told() == ["task_closed U2 withdrawn"]


async def test_an_author_hears_of_the_end_although_what_they_said_before_is_repeated_after_it(world: World) -> None:
    """The process died before it could note the answers, and the request was approved meanwhile."""
    await world.start(SICK)
    task = await world.task("L-0001")
    said = {"c": COMMENT, "u": UrgeCommand(task=task, actor=ZHANG.id)}
    for key, command in said.items():
        await world.do(command, key, LUNCH)
        del world.marks.values[f"answer:{key}"]
    await world.told()
    await world.decide(task, LI, "approve")
    for key, command in said.items():
        await world.do(command, key, LUNCH)
    assert await world.told() == ["task_closed U2 decided", "ended U1 approved"]


async def test_a_transferred_task_s_card_goes_to_whoever_has_it_also_when_it_was_done_elsewhere(world: World) -> None:
    await world.start(SICK)
    await world.told()
    await world.do(TransferCommand(task=await world.task("L-0001"), actor=LI.id, person=WANG.id))
    assert await world.told() == ["task_closed U2 transferred", "assigned U3"]
    elsewhere = world.another(MemoryKeyValueStore())
    back = TransferCommand(task=await world.task("L-0001"), actor=WANG.id, person=LI.id)
    await elsewhere.execute_command(back, "t", NOW + timedelta(seconds=1))
    assert await world.told() == [], "not yet: the engine was looked at just now"
    world.seconds += 11
    assert await world.told() == ["task_closed U3 transferred", "assigned U2"]
    await world.api.delete_instance((await world.get_instance("L-0001")).id)
    world.seconds += 11
    assert await world.told() == ["task_closed U2 withdrawn", "ended U1 withdrawn"], "nobody's doing: on its own page"


async def test_a_quiet_look_reads_only_the_open_tasks(world: World) -> None:
    for _ in range(3):
        await world.start(DESK, "spend")
    await world.told()
    world.seconds += 11
    await world.told()
    world.proxy.calls.clear()
    world.seconds += 11
    assert await world.told() == []
    assert len(world.proxy.calls) == 1, "one page, however many processes there are"
    rows = world.marks.tables[RUNNING_TABLE]
    rows |= {request: row.partition(" ")[0] for request, row in rows.items()}  # as the version before wrote them
    world.seconds += 11
    assert await world.told() == [] and all(" " in row for row in rows.values()), "they are looked at once more"


async def test_words_to_people_are_told_once_however_often_they_are_sent(world: World) -> None:
    await world.start(SICK)
    await world.told()
    urge = UrgeCommand(task=await world.task("L-0001"), actor=ZHANG.id)
    for _ in range(2):
        await world.do(urge, "u", LUNCH)
        await world.do(COMMENT, "c")
    assert sorted(await world.told()) == ["commented U2", "urged U2"]
    assert len((await world.engine.get_task(await world.task("L-0001"))).task.urged) == 1


@pytest.mark.parametrize("repeated", [True, False])
async def test_words_whose_answer_was_late_are_told_once_they_are_there(world: World, repeated: bool) -> None:
    await world.start(SICK)
    await world.told()
    urge = UrgeCommand(task=await world.task("L-0001"), actor=ZHANG.id)
    words = [urge, COMMENT, CcCommand(request="L-0001", actor=ZHANG.id, people=(ZHAO.id,))]
    world.fail("record", Fault.LATE, len(words) * world.repeats)
    for n, command in enumerate(words):
        await assert_unknown(world.do(command, f"w{n}", LUNCH))
    world.engine._poller.schedule_poll()
    assert await world.told() == [], "it may not happen"
    await world.proxy.come_true()
    for n, command in enumerate(words * repeated):
        await world.do(command, f"w{n}", LUNCH)
    world.seconds += 11
    assert sorted(await world.told()) == ["commented U2", "told ou_4", "urged U2"]
    assert [r.id for r in await world.engine.list_cc_requests(ZHAO.id)] == ["L-0001"]


async def test_words_that_the_engine_refused_are_never_told(world: World) -> None:
    await world.start(SICK)
    await world.told()
    world.fail("record", Fault.REFUSED)
    assert (await refused(world.do(COMMENT, "c"))).code == "engine_failed"
    for _ in range(2):
        world.seconds += 301
        assert await world.told() == []
    assert not world.marks.tables[NOTICES_TABLE], "nothing is kept of what did not happen"
    await world.do(COMMENT, "c")
    assert await world.told() == ["commented U2"]


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.SWALLOWED])
async def test_a_start_that_comes_true_late_is_announced_and_another_forgotten(world: World, fault: Fault) -> None:
    world.fail("start", fault)
    await assert_unknown(world.start(SICK))
    world.engine._poller.schedule_poll()
    assert await world.told() == []
    await world.proxy.come_true()
    world.seconds += 11 if fault is Fault.LATE else 301
    assert await world.told() == (["assigned U2"] if fault is Fault.LATE else [])
    assert bool(world.marks.tables[RUNNING_TABLE]) is (fault is Fault.LATE)


async def test_a_request_that_cannot_be_read_stops_no_other(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.start(SICK)
    await world.do(COMMENT)
    await world.start(DESK, "spend")
    before = await world.spoil("L-0001")
    assert await world.told() == ["assigned U2"] and "L-0001" in caplog.text
    await world.api.set_variables((await world.get_instance("L-0001")).id, before)
    world.seconds += 11
    assert sorted(await world.told()) == ["assigned U2", "commented U2"], "it can be read again"


async def test_that_an_engine_is_away_or_back_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Measured before this was so: a warning every second."""
    await world.start(SICK)
    there, world.proxy.engine = world.proxy.engine, URL("http://127.0.0.1:1")
    for _ in range(3):
        assert await world.engine.list_outbox(10) == []
        await world.engine.run_due_jobs(NOW)
        world.seconds += 61
    world.proxy.engine = there
    assert await world.told() == ["assigned U2"]
    for _ in range(2):
        await world.engine.run_due_jobs(NOW)
        world.seconds += 61
    assert [one.getMessage().partition(" engine: ")[2] for one in caplog.records if "engine: " in one.getMessage()] == [
        *["the workflow engine cannot be reached; nothing was changed"] * 2,
        *["back again"] * 2,
    ]
