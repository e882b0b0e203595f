"""A decision that the store has lost: its card is shown open again, and the people it concerns are told once."""

import pytest
from redis.asyncio import Redis

from bot.core.records import ApprovalState
from bot.core.work_items import build_show_lane
from bot.features.lost_decisions import find_lost_decisions_later
from bot.queue.scripts import ScriptRunner
from tests.harness.memory_bot import Bot
from tests.harness.presses import proposed, requested
from tests.tools.company import LI, ZHANG

LOST = {"zh": "我的数据丢了最后一小段", "en": "I lost the last part of my data"}


async def look_for_lost(bot: Bot, cause: str) -> None:
    await find_lost_decisions_later(ScriptRunner.from_redis(bot.redis, bot.keys), cause)
    await bot.work()


async def decide_and_lose(bot: Bot, reader: str, choice: str) -> None:
    """Carry out and show a press, then reset the store to its state before."""
    approval = await bot.load_approval()
    key = bot.approvals.build_approval_key(approval.id)
    index = bot.keys.build_key(bot.keys.get_partition(approval.id), "open")
    before = await bot.redis.hgetall(key)
    await bot.press(bot.chat.cards(f"D{reader}")[0], choice, person=reader)
    assert not bot.chat.cards(f"D{reader}") and await bot.redis.zscore(index, approval.id) is None
    await bot.redis.delete(key)
    await bot.redis.hset(key, mapping=before)
    await bot.redis.zadd(index, {approval.id: approval.expires_ms})


def count_told(bot: Bot, person: str) -> int:
    return sum(words in text for text in bot.chat.texts(f"D{person}") for words in LOST.values())


async def test_a_card_that_is_open_again_is_shown_so_and_both_sides_are_told_once(redis: Redis) -> None:
    bot = await requested(redis)
    await decide_and_lose(bot, LI.id, "approve")
    await look_for_lost(bot, "a")
    (card,) = bot.chat.cards("DU2")
    assert {one.choice for one in card.buttons} >= {"approve", "reject"}
    assert (count_told(bot, LI.id), count_told(bot, ZHANG.id)) == (1, 1)
    posts = len(bot.chat.posts)
    for cause in ("a", "b"):
        await look_for_lost(bot, cause)
    assert len(bot.chat.posts) == posts, "the card is as the store has it now"


async def test_while_a_card_is_at_work_it_is_not_rewritten_beside_that(redis: Redis) -> None:
    """Otherwise the older state could be shown last."""
    bot = await requested(redis)
    await decide_and_lose(bot, LI.id, "approve")
    card = (await bot.load_approval()).id
    bot.lanes.lease_ms = 60_000
    await bot.lanes.enqueue(card, "at work", "{}")
    [lease] = await bot.lanes.claim("p", bot.keys.get_partition(card), 1)
    await find_lost_decisions_later(ScriptRunner.from_redis(redis, bot.keys), "a")
    await bot.work_beside()
    assert not await bot.lanes.has_pending_items(build_show_lane(card)) and not bot.chat.cards("DU2")
    assert len(await lease.list_waiting_bodies()) == 1
    await lease.commit(more=False)
    await bot.work()
    assert bot.chat.cards("DU2")


async def test_who_confirms_for_themselves_is_told_once_and_to_look_first(redis: Redis) -> None:
    bot = await proposed(redis)
    await decide_and_lose(bot, ZHANG.id, "send")
    await look_for_lost(bot, "a")
    assert bot.chat.cards() and count_told(bot, ZHANG.id) == 1 and "请先核对" in bot.chat.texts()[-1]
    assert len(bot.mailer.mails) == 1


@pytest.mark.parametrize("is_decided", [True, False])
async def test_a_card_that_agrees_with_the_store_is_left_alone(redis: Redis, is_decided: bool) -> None:
    """Negative control."""
    bot = await requested(redis)
    if is_decided:
        await bot.press(bot.chat.cards("DU2")[0], "approve", person=LI.id)
    posts, updates = len(bot.chat.posts), len(bot.chat.updates)
    await look_for_lost(bot, "a")
    assert (len(bot.chat.posts), len(bot.chat.updates)) == (posts, updates)


async def test_a_record_that_nobody_can_read_keeps_no_other_from_being_shown(redis: Redis) -> None:
    bot = await requested(redis)
    await decide_and_lose(bot, LI.id, "approve")
    known = await bot.load_approval()
    for name in ("A00zzzzzzzzzzzz", "A01zzzzzzzzzzzz"):
        index = bot.keys.build_key(bot.keys.get_partition(name), "open")
        await bot.redis.hset(bot.approvals.build_approval_key(name), mapping={"id": name})
        await bot.redis.zadd(index, {name: 1})
    await look_for_lost(bot, "a")
    assert bot.chat.cards("DU2") and (await bot.load_approval(known.id)).state is ApprovalState.OPEN
