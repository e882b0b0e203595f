"""Items that this version cannot read: they wait for one that can, and rubbish does not."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from redis.asyncio import Redis

from bot.app.dispatch import NEWER_RECORD, NEWER_RECORD_MAX_MS
from bot.app.work_kinds import parse_work
from bot.core.clock import Clock
from bot.queue.lanes import Lease, RetryLater
from tests.harness.lab import DM, Lab

MESSAGE = {
    "kind": "message_received",
    "message": {"id": "E1", "place": DM.model_dump(), "person": "U1", "text": "hello", "at": "1.0"},
}
NEW = [
    {"kind": "huddle", "call": "R1"},
    {**MESSAGE, "urgent": True},
    {**MESSAGE, "message": {**MESSAGE["message"], "files": ["F1"]}},  # type: ignore[dict-item]
    {"kind": "resume_run", "run": "R1", "uid": "u", "status": "vetoed", "observation": {}},
]
RUBBISH = [
    "",
    "hello",
    "[]",
    "null",
    "{}",
    '{"message": {}}',
    '{"kind": "message_received"}',
    '{"kind": "remind_deciders"}',
]


async def delivered(lab: Lab, body: str, id: str = "E1") -> Lease:
    await lab.lanes.enqueue(DM.conversation, id, body)
    [lease] = await lab.lanes.claim("p", lab.keys.get_partition(DM.conversation), 1)
    return lease


async def later(lab: Lab, lease: Lease) -> RetryLater:
    with pytest.raises(RetryLater) as kept:
        await lab.dispatch.handle_item(lease)
    return kept.value


@pytest.mark.parametrize("work", NEW, ids=str)
async def test_what_a_newer_version_has_put_waits_uncounted(redis: Redis, work: dict[str, object]) -> None:
    lab = Lab(redis)
    kept = await later(lab, await delivered(lab, json.dumps(work)))
    assert not kept.counted and 0 < kept.delay_ms <= 60_000 and str(kept) == NEWER_RECORD
    assert lab.wall.said == []


@pytest.mark.parametrize("body", RUBBISH)
async def test_rubbish_counts_its_tries_and_is_given_up_without_a_word(redis: Redis, body: str) -> None:
    lab = Lab(redis)
    lease = await delivered(lab, body)
    with pytest.raises(ValueError, match="validation error"):
        await lab.dispatch.handle_item(lease)
    await lab.dispatch.give_up_item(lease.item, "no")
    assert lab.wall.said == []


def test_the_control_is_read() -> None:
    for work in (MESSAGE, {"kind": "remind_deciders", "version": 1}):
        assert parse_work(json.dumps(work))


async def test_it_is_noted_once_however_often_it_is_brought(redis: Redis) -> None:
    lab = Lab(redis)
    lease = await delivered(lab, json.dumps(NEW[0]))
    for _ in range(3):
        kept = await later(lab, lease)
        await lease.retry(0, str(kept), count=kept.counted)
        [lease] = await lab.lanes.claim("p", lab.keys.get_partition(DM.conversation), 1)
    assert lease.item.tries == 1
    assert await lab.kinds() == ["item.newer"]


async def test_a_record_of_a_newer_version_waits_too(redis: Redis) -> None:
    """The message is ours to read; the run that a newer process has begun for it is not."""
    lab = Lab(redis)
    await (await delivered(lab, json.dumps(MESSAGE))).release()
    [lease] = await lab.lanes.claim("p", lab.keys.get_partition(DM.conversation), 1)
    run = lab.keys.derive_id("R", lab.keys.get_partition(DM.conversation), "E1")
    key = lab.keys.build_key(lab.keys.get_partition(run), "run", run)
    begun = {"id": run, "message": MESSAGE["message"], "language": "en", "created_ms": 1, "mood": "new"}
    await redis.set(key, json.dumps(begun))
    assert not (await later(lab, lease)).counted


async def test_it_does_not_wait_for_ever(redis: Redis) -> None:
    lab = Lab(redis)
    lease = await delivered(lab, json.dumps(NEW[0]))
    for age_ms, ends in ((NEWER_RECORD_MAX_MS - 1000, RetryLater), (NEWER_RECORD_MAX_MS + 1000, ValueError)):
        at = datetime.fromtimestamp((lease.item.put_ms + age_ms) / 1000, UTC)
        with pytest.raises(ends):
            await replace(lab.dispatch, clock=Clock(read_now=lambda at=at: at)).handle_item(lease)
