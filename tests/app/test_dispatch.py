"""Items that this version cannot read: they wait for one that can, and rubbish does not."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from redis.asyncio import Redis

from bot.app.dispatch import AWAY_MAX_MS, NEWER_RECORD, NEWER_RECORD_MAX_MS, WorkDispatcher
from bot.app.work_kinds import parse_work
from bot.core.clock import Clock
from bot.core.errors import ChatUnavailableError
from bot.queue.lanes import Lease, RetryLater
from tests.harness.lab import DM, Lab
from tests.stories.script import DONE

MESSAGE = {
    "kind": "message_received",
    "message": {"id": "E1", "place": DM.model_dump(), "person": "U1", "text": "hello", "at": "1.0"},
}
NEW = [
    {"kind": "huddle", "call": "R1"},
    {**MESSAGE, "urgent": True},
    {**MESSAGE, "v": 2},
    {**MESSAGE, "message": {**MESSAGE["message"], "reactions": ["R1"]}},  # type: ignore[dict-item]
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
    '{"kind": "message_received", "urgent": true}',
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
    assert await lab.dispatch.give_up_item(lease.item, "no") == []
    assert lab.wall.said == []


def set_age(lab: Lab, lease: Lease, age_ms: int) -> WorkDispatcher:
    """The dispatcher, so long after the item was put."""
    at = datetime.fromtimestamp((lease.item.put_ms + age_ms) / 1000, UTC)
    return replace(lab.dispatch, clock=Clock(read_now=lambda: at))


@pytest.mark.parametrize(
    ("age_ms", "delay_ms"), [(0, 1_000), (8_000, 2_000), (400_000, 51_000), (NEWER_RECORD_MAX_MS, 60_000)]
)
async def test_the_older_it_is_the_more_rarely_it_is_tried(redis: Redis, age_ms: int, delay_ms: int) -> None:
    lab = Lab(redis)
    lease = await delivered(lab, json.dumps(NEW[0]))
    with pytest.raises(RetryLater) as kept:
        await set_age(lab, lease, age_ms).handle_item(lease)
    assert kept.value.delay_ms == delay_ms


async def test_while_the_platform_is_away_an_item_waits_uncounted_but_not_for_ever(redis: Redis) -> None:
    lab = Lab(redis)
    lease = await delivered(lab, json.dumps(MESSAGE))
    lab.wall.fails[DM.channel] = [ChatUnavailableError("unreachable", "chat.post_message")] * 3
    lab.model.script.append(DONE)
    for age_ms in (0, AWAY_MAX_MS):
        with pytest.raises(RetryLater) as kept:
            await set_age(lab, lease, age_ms).handle_item(lease)
        assert (kept.value.counted, kept.value.delay_ms) == (False, lab.dispatch.away_ms)
    with pytest.raises(ChatUnavailableError):
        await set_age(lab, lease, AWAY_MAX_MS + 1).handle_item(lease)
    assert await set_age(lab, lease, AWAY_MAX_MS + 1).handle_item(lease), "control: it is there again"


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
    for age_ms, ends in ((NEWER_RECORD_MAX_MS, RetryLater), (NEWER_RECORD_MAX_MS + 1, ValueError)):
        with pytest.raises(ends):
            await set_age(lab, lease, age_ms).handle_item(lease)
