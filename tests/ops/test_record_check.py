"""Every record is read before another version is started, and what it cannot read is named."""

import json

from redis.asyncio import Redis

from bot.app.dispatch import parse_work
from bot.ops.record_check import check_records
from tests.harness.memory_platform import DM
from tests.harness.presses import started
from tests.tools.company import LI, NOW, SHORT
from tests.tools.office import office
from tools.workflow.engine.store import RedisStore


async def start_request(redis: Redis) -> None:
    await office(RedisStore(redis)).engine.start_request("leave", SHORT, "U1", "a key", NOW)


async def test_all_that_is_stored_is_read(redis: Redis) -> None:
    bot = await started(redis)
    await bot.put_press(bot.chat.cards("DU2")[0], "approve", LI.id)
    await start_request(redis)
    found = await check_records(redis, bot.keys, parse_work)
    assert found.counts["approval"] == 2 and found.counts["request"] == 1 and found.counts["item"] == 1
    assert found.counts["run"] >= 1 and not found.unknown and not found.unreadable


async def test_what_cannot_be_read_is_named(redis: Redis) -> None:
    """Negative control."""
    bot = await started(redis)
    card = bot.chat.cards("DU2")[0].buttons[0].approval
    await redis.hset(bot.approvals.build_approval_key(card), "mood", "new")  # type: ignore[misc]
    await start_request(redis)
    await redis.set("cs:{wf}:request:L-0001", "nonsense")
    await bot.lanes.enqueue(DM.conversation, "编号 1", json.dumps({"kind": "huddle_of_2030"}))
    await bot.lanes.enqueue(DM.conversation, "E2", "{")
    found = await check_records(redis, bot.keys, parse_work)
    assert set(found.unknown) == {f"approval {card}", "item 编号 1"}
    assert set(found.unreadable) == {"request L-0001", "item E2"}


async def test_a_key_of_another_type_is_named_and_the_rest_is_read(redis: Redis) -> None:
    bot = await started(redis)
    for kind, id in (("apr", "A00x"), ("run", "R00x"), ("in", "L")):
        await redis.geoadd(bot.keys.build_key(bot.keys.get_partition(id), kind, id), [0, 0, "x"])
    await redis.set("cs:{wf}:changed", "x")
    found = await check_records(redis, bot.keys, parse_work)
    assert set(found.unreadable) == {"approval A00x", "run R00x", "lane L", "index requests"}
    assert found.counts["approval"] == 3, "the rest is read"
