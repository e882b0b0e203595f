"""The number of waiting items and their waiting time: on one server and on a cluster."""

from redis.asyncio import Redis

from bot.features.home.waiting_lanes import list_oldest_lanes
from bot.ops.processes import ProcessState, ProcessStore
from bot.ops.queue_figures import load_queue_figures
from bot.queue.keys import LOOKED_AT, Keys
from bot.queue.lanes import Lanes
from bot.queue.writes import SetTimer, apply_writes


async def test_how_much_waits_and_for_how_long_is_told(either: Redis) -> None:
    keys = Keys()
    lanes = Lanes(either, keys)
    empty = await load_queue_figures(either, keys)
    assert (empty.lanes, empty.due_lanes, empty.items, empty.oldest_ms, empty.timers) == (0, 0, 0, 0, 0)
    assert await list_oldest_lanes(either, keys, 5) == []
    for lane in ("one", "two", "three"):
        for n in range(2):
            await lanes.enqueue(lane, f"{lane}-{n}", "{}")
    [held] = await lanes.claim("me", keys.get_partition("two"), 1)
    timer = SetTimer("four", "t", empty.now_ms + 3_600_000, "{}")
    await apply_writes(either, keys, keys.get_partition("four"), [timer])
    told = await load_queue_figures(either, keys)
    assert (told.lanes, told.due_lanes, told.items, told.timers) == (3, 2, 4, 1)
    assert 0 <= told.oldest_ms < 10_000 and told.now_ms >= empty.now_ms
    oldest = {one.lane: one for one in await list_oldest_lanes(either, keys, 5)}
    assert set(oldest) == {"one", "two", "three"} and {one.items for one in oldest.values()} == {2}
    assert oldest[held.lane].owner == "me" and oldest["one"].owner == "" and oldest[held.lane].tries == 1
    await held.retry(60_000, "no")
    assert {one.lane: (one.owner, one.error) for one in await list_oldest_lanes(either, keys, 5)}["two"] == ("", "no")
    store = ProcessStore(either, keys)
    await store.save_process(ProcessState(id="a", version="1", started_ms=1, at_ms=2))
    assert [one.id for one in await store.list_processes(2)] == ["a"]


async def test_a_flood_costs_no_more_than_its_first_lanes(redis: Redis) -> None:
    keys = Keys(partitions=1)
    lanes = Lanes(redis, keys)
    for n in range(LOOKED_AT + 25):
        await lanes.enqueue(f"lane {n}", f"item {n}", "{}")
    told = await load_queue_figures(redis, keys)
    assert (told.due_lanes, told.items) == (LOOKED_AT + 25, LOOKED_AT), "all are counted, some are looked at"
    assert len(await list_oldest_lanes(redis, keys, 8)) == 8
