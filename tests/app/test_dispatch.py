"""Kinds of work by their names; and items that this version cannot read: they wait for one that can, and rubbish does
not."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.app.dispatch import (
    AWAY_MAX_MS,
    MODELS,
    NEWER_RECORD,
    NEWER_RECORD_MAX_MS,
    OWED_MAX_MS,
    OWED_TIMES,
    WorkDispatcher,
    parse_work,
)
from bot.core.clock import Clock
from bot.core.errors import ChatUnavailableError
from bot.core.work_items import NotifyPerson
from bot.features.contract import Work
from bot.queue.lanes import Lease, RetryLater
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.stories.script import DONE
from tools.spec import TextRef

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
    *("", "hello", "[]", "null", "{}", '{"message": {}}', '{"kind": "remind_deciders"}'),
    *('{"kind": "message_received"}', '{"kind": "message_received", "urgent": true}'),
]


async def delivered(bot: Bot, body: str, lane: str = DM.conversation) -> Lease:
    await bot.lanes.enqueue(lane, "E1", body)
    [lease] = await bot.lanes.claim("p", bot.keys.get_partition(lane), 1)
    return lease


async def later(dispatcher: WorkDispatcher, lease: Lease) -> RetryLater:
    with pytest.raises(RetryLater) as kept:
        await dispatcher.handle_item(lease)
    return kept.value


@corpus("work", *NEW)
async def test_what_a_newer_version_has_put_waits_uncounted(redis: Redis, work: dict[str, object]) -> None:
    bot = Bot(redis)
    kept = await later(bot.dispatcher, await delivered(bot, json.dumps(work)))
    assert not kept.counted and 0 < kept.delay_ms <= 60_000 and str(kept) == NEWER_RECORD
    assert bot.chat.posts == []


@corpus("body", *RUBBISH)
async def test_rubbish_counts_its_tries_and_is_given_up_without_a_word(redis: Redis, body: str) -> None:
    bot = Bot(redis)
    lease = await delivered(bot, body)
    with pytest.raises(ValueError, match="validation error"):
        await bot.dispatcher.handle_item(lease)
    assert await bot.dispatcher.give_up_item(lease.item, "no") == []
    assert bot.chat.posts == []


def set_age(bot: Bot, lease: Lease, age_ms: int) -> WorkDispatcher:
    """The dispatcher, so long after the item was put."""
    at = datetime.fromtimestamp((lease.item.put_ms + age_ms) / 1000, UTC)
    return replace(bot.dispatcher, clock=Clock(read_now=lambda: at), away_ms=7_000)


@corpus(("age_ms", "delay_ms"), (0, 1_000), (8_000, 2_000), (400_000, 51_000), (NEWER_RECORD_MAX_MS, 60_000))
async def test_the_older_it_is_the_more_rarely_it_is_tried_and_not_for_ever(
    redis: Redis, age_ms: int, delay_ms: int
) -> None:
    bot = Bot(redis)
    lease = await delivered(bot, json.dumps(NEW[0]))
    assert (await later(set_age(bot, lease, age_ms), lease)).delay_ms == delay_ms
    with pytest.raises(ValueError, match="validation error"):
        await set_age(bot, lease, NEWER_RECORD_MAX_MS + 1).handle_item(lease)


NOTICE = NotifyPerson(person="U1", text=TextRef(key="turn.given_up", params={"id": "E1"}))


@corpus(
    ("lane", "body", "delays_ms", "said"),
    (DM.conversation, json.dumps(MESSAGE), {0: 7_000, AWAY_MAX_MS: 7_000}, ""),
    # what only brings people up to date is owed, and waits much longer
    ("notice:U1", NOTICE.model_dump_json(), {AWAY_MAX_MS: 7_000, OWED_MAX_MS: 7_000 * OWED_TIMES}, "E1"),
)
async def test_while_the_platform_is_away_an_item_waits_uncounted_but_not_for_ever(
    redis: Redis, lane: str, body: str, delays_ms: dict[int, int], said: str
) -> None:
    bot = Bot(redis, [DONE])
    lease = await delivered(bot, body, lane)
    bot.chat.fails[DM.channel] = [ChatUnavailableError("unreachable", "chat.post_message")] * 3
    for age_ms, delay_ms in delays_ms.items():
        kept = await later(set_age(bot, lease, age_ms), lease)
        assert (kept.counted, kept.delay_ms) == (False, delay_ms)
    too_late = set_age(bot, lease, max(delays_ms) + 1)
    with pytest.raises(ChatUnavailableError):
        await too_late.handle_item(lease)
    await lease.commit(*await too_late.handle_item(lease))
    assert [text for text in bot.chat.texts() if said in text], "control: the platform is back"


def test_a_kind_is_called_like_its_class() -> None:
    kinds = [(one.__name__, one.model_fields["kind"].default) for one in MODELS]
    assert len(kinds) > 25
    assert [kind for _, kind in kinds] == [re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name, _ in kinds]


async def test_every_kind_has_a_handler_while_no_feature_is_missing(redis: Redis) -> None:
    def list_missing(bot: Bot) -> list[Work[Any]]:
        work = bot.dispatcher.work.values()
        return [one for one in work if getattr(one.handle, "__name__", "") == "tell_missing_feature"]

    assert list_missing(Bot(redis, suggestions=())) == []
    assert list_missing(Bot(redis, features=())), "negative control"


def test_the_control_is_read() -> None:
    for work in (MESSAGE, {"kind": "remind_deciders", "version": 1}):
        assert parse_work(json.dumps(work))


async def test_it_is_noted_once_however_often_it_is_brought(redis: Redis) -> None:
    bot = Bot(redis)
    lease = await delivered(bot, json.dumps(NEW[0]))
    for _ in range(3):
        kept = await later(bot.dispatcher, lease)
        await lease.retry(0, str(kept), count=kept.counted)
        [lease] = await bot.lanes.claim("p", bot.keys.get_partition(DM.conversation), 1)
    assert lease.item.tries == 1
    assert await bot.list_journal_kinds() == ["item.newer"]


async def test_a_record_of_a_newer_version_waits_too(redis: Redis) -> None:
    """The message is ours to read; the run that a newer process has begun for it is not."""
    bot = Bot(redis)
    await (await delivered(bot, json.dumps(MESSAGE))).release()
    [lease] = await bot.lanes.claim("p", bot.keys.get_partition(DM.conversation), 1)
    run = bot.keys.derive_id("R", bot.keys.get_partition(DM.conversation), "E1")
    key = bot.keys.build_key(bot.keys.get_partition(run), "run", run)
    begun = {"id": run, "message": MESSAGE["message"], "language": "en", "created_ms": 1, "mood": "new"}
    await redis.set(key, json.dumps(begun))
    assert not (await later(bot.dispatcher, lease)).counted
