"""Nobody hears Slack for longer than Slack resends an event: messages of that time are answered once, in order."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from bot.chat.messages import Place
from bot.core.clock import Clock
from bot.dev.workspace.delivery import DeliveryAttempt, NotAcknowledgedError
from bot.platforms.slack import missed_messages
from bot.platforms.slack.missed_messages import LastSeenStore, MissedMessages
from bot.queue.keys import Keys
from tests.harness.office import GENERAL, LI, WANG, ZHANG, Office, office
from tests.harness.store_changes import wait_for_store

SEEN = "cs:{q00}:seen"


class Deaf:
    """A carrier that delivers to nobody."""

    def is_ready(self) -> bool:
        return True

    async def wait_until_ready(self) -> None: ...

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Any:
        raise NotAcknowledgedError("timeout")


@pytest.fixture
async def hasty(valkey: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    """An office whose platform gives an event up after the first try."""
    monkeypatch.setattr(missed_messages, "PAUSE_S", 0.1)
    async with office(valkey, redelivery=()) as opened:
        yield opened


async def has_places(redis: Redis, count: int) -> bool:
    return await redis.zcard(f"{SEEN}:places") >= count


async def has_looked(redis: Redis) -> bool:
    return not await redis.exists(f"{SEEN}:gap")


async def write_while_nobody_hears(hasty: Office, redis: Redis) -> None:
    """Write two messages in a DM, a person's very first one in theirs, a mention in a channel, and one in a thread;
    Slack gives all of them up."""
    async with hasty.opened():
        await hasty.answer(ZHANG, "帮助")
        thread = await hasty.driver.mention_bot(LI, GENERAL, "帮助")
        await hasty.until(lambda: hasty.finals(GENERAL))
        await hasty.quiet()
        await wait_for_store(redis, lambda: has_places(redis, 3))
    delivery = hasty.driver.ws.delivery
    carrier, delivery.carrier = delivery.carrier, Deaf()
    await hasty.says(ZHANG, "帮助")
    await hasty.says(ZHANG, "我有哪些申请？")
    await hasty.says(WANG, "help")
    await hasty.driver.mention_bot(LI, GENERAL, "帮助")
    await hasty.says(LI, "随便聊聊", channel=GENERAL)
    await hasty.driver.mention_bot(LI, GENERAL, "帮助", thread)
    await hasty.until(lambda: len(delivery.abandoned_events) >= 8)
    delivery.carrier = carrier
    await redis.decrby(f"{SEEN}:heard", 600_000)  # ten minutes ago


async def test_what_nobody_heard_is_answered_once_and_in_order(hasty: Office, redis: Redis) -> None:
    await write_while_nobody_hears(hasty, redis)
    before = {channel: len(hasty.finals(channel)) for channel in (hasty.dm(ZHANG), GENERAL)}
    async with hasty.opened():
        await hasty.until(lambda: len(hasty.finals(GENERAL)) == before[GENERAL] + 2)
        await hasty.until(lambda: len(hasty.finals(hasty.dm(ZHANG))) == before[hasty.dm(ZHANG)] + 2)
        assert await hasty.until(lambda: hasty.finals(hasty.dm(WANG)))
        await hasty.quiet()
        helped, listed = hasty.finals(hasty.dm(ZHANG))[-2:]
        assert helped == hasty.finals(hasty.dm(ZHANG))[0] != listed
        await wait_for_store(redis, lambda: has_looked(redis))
    await redis.decrby(f"{SEEN}:heard", 600_000)
    looked = len([one for one in hasty.driver.calls if one.method == "conversations.history"])
    async with hasty.opened():  # once more: nothing of it is new
        await hasty.until(
            lambda: len([one for one in hasty.driver.calls if one.method == "conversations.history"]) >= looked + 2
        )
        await hasty.answer(LI, "帮助")
        await hasty.quiet()
    assert len(hasty.finals(hasty.dm(WANG))) == 1
    after = {channel: len(hasty.finals(channel)) for channel in before}
    assert after == {channel: count + 2 for channel, count in before.items()}


async def test_an_app_that_may_not_list_conversations_looks_through_those_on_record(
    hasty: Office, redis: Redis
) -> None:
    """The app was installed before it asked for the scope `im:read`."""
    await write_while_nobody_hears(hasty, redis)
    before = len(hasty.finals(hasty.dm(ZHANG)))
    hasty.driver.fail_next_call("users.conversations", "missing_scope", 3)
    async with hasty.opened():
        await hasty.until(lambda: len(hasty.finals(hasty.dm(ZHANG))) == before + 2)
        await wait_for_store(redis, lambda: has_looked(redis))
        await hasty.quiet()
    assert not hasty.finals(hasty.dm(WANG))


@pytest.mark.slow
async def test_without_a_look_it_is_never_answered(
    hasty: Office, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""

    async def look_for_nothing(self: MissedMessages, gap_s: float) -> None: ...

    monkeypatch.setattr(MissedMessages, "_look_through", look_for_nothing)
    await write_while_nobody_hears(hasty, redis)
    before = len(hasty.finals(GENERAL)) + len(hasty.finals(hasty.dm(ZHANG)))
    async with hasty.opened():
        await hasty.answer(LI, "帮助")
        await wait_for_store(redis, lambda: has_looked(redis))
        await hasty.quiet()
    assert len(hasty.finals(GENERAL)) + len(hasty.finals(hasty.dm(ZHANG))) == before


async def test_a_place_that_could_not_be_saved_is_saved_later(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store refuses the first time."""
    monkeypatch.setattr(missed_messages, "PAUSE_S", 0.01)
    looks, saved = count(), asyncio.Event()

    async def is_connected() -> bool:
        match next(looks):
            case 0:
                await redis.set(f"{SEEN}:places", "no sorted set")
            case 1:
                await redis.delete(f"{SEEN}:places")
            case 2:
                saved.set()
        return True

    store = LastSeenStore(redis, Keys())
    missed = MissedMessages(cast(Any, None), cast(Any, SimpleNamespace()), store, Clock())
    missed.note_activity(Place(team="T1", channel="C1", thread="9.0"), "10.0")
    async with asyncio.timeout(30), missed.watched(is_connected):
        await saved.wait()
    assert {place for place, _ in await store.list_places()} == {"C1||", "C1|9.0|"}
