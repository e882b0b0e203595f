"""Every record is read before another version is started, and what it cannot read is named."""

from __future__ import annotations

import json

from redis.asyncio import Redis

from bot.app.work_kinds import parse_work
from bot.storage.record_check import check_records
from tests.harness.lab import DM
from tests.harness.presses import started
from tests.tools.company import LI, NOW, SHORT
from tests.tools.office import office
from tools.workflow.engine.redis_store import RedisStore


async def start_request(redis: Redis) -> None:
    await office(RedisStore(redis)).engine.start_request("leave", SHORT, "U1", "a key", NOW)


async def test_all_that_is_stored_is_read(redis: Redis) -> None:
    lab = await started(redis)
    await lab.presses(lab.wall.cards("DU2")[0], "approve", LI.id)
    await start_request(redis)
    found = await check_records(redis, lab.keys, parse_work)
    assert found.counts["approval"] == 2 and found.counts["request"] == 1 and found.counts["item"] == 1
    assert found.counts["run"] >= 1 and not found.newer and not found.unreadable


async def test_what_cannot_be_read_is_named(redis: Redis) -> None:
    """Negative control."""
    lab = await started(redis)
    card = lab.wall.cards("DU2")[0].buttons[0].approval
    await redis.hset(lab.approvals.build_approval_key(card), "mood", "new")  # type: ignore[misc]
    await start_request(redis)
    await redis.set("cs:{wf}:request:L-0001", "nonsense")
    await lab.lanes.enqueue(DM.conversation, "编号 1", json.dumps({"kind": "huddle_of_2030"}))
    await lab.lanes.enqueue(DM.conversation, "E2", "{")
    found = await check_records(redis, lab.keys, parse_work)
    assert set(found.newer) == {f"approval {card}", "item 编号 1"}
    assert set(found.unreadable) == {"request L-0001", "item E2"}
