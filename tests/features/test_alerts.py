"""Administrators are told in chat what needs one of them, once an hour, whoever notices it."""

import asyncio
from dataclasses import replace
from typing import Any

from redis.asyncio import Redis

from bot.core.cancellation import cancel_and_wait
from bot.core.clock import Clock
from bot.core.errors import ChatRefusedError, ChatUnavailableError, ModelFailureCause
from bot.core.timing import Timing
from bot.features.alerts.feature import AdministratorAlerts
from bot.queue.store_watch import PauseReason
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.tools.company import LI, ZHAO


def get_alerts(bot: Bot) -> AdministratorAlerts:
    job = next(one for one in bot.handlers.features.jobs if one.__name__ == "watch_problems")  # type: ignore[attr-defined]
    alerts: AdministratorAlerts = job.__self__  # type: ignore[attr-defined]
    return replace(alerts, core=replace(alerts.core, timing=Timing(alert_pause_s=0.01)))


def list_alerts(bot: Bot) -> list[str]:
    return [one.post.text for one in bot.chat.posts if one.post.text.startswith("⚠️")]


async def wait_for_alerts(bot: Bot, count: int) -> None:
    async with asyncio.timeout(40):
        while len(list_alerts(bot)) < count:
            await asyncio.sleep(0.01)


async def test_the_same_is_said_once_to_administrators_by_however_many_processes(redis: Redis) -> None:
    """What could not be said is said the next time."""
    bot = Bot(redis)
    await get_alerts(bot).send_alert("clock", seconds=80)
    assert list_alerts(bot) == [], "nobody else"
    await redis.flushall()
    bot.directory.change(ZHAO.id, runs_workspace=True)
    place = await bot.chat.open_dm(ZHAO.id)
    bot.chat.fails[place.channel] = [ChatUnavailableError("unreachable", "chat.post_message")]
    for count in (0, 1, 1):
        await get_alerts(bot).send_alert("clock", seconds=80)
        assert len(list_alerts(bot)) == count
    (told,) = list_alerts(bot)
    assert "80" in told


async def test_an_administrator_who_cannot_be_reached_silences_nobody_behind_them(redis: Redis) -> None:
    bot = Bot(redis)
    bot.directory.change(ZHAO.id, runs_workspace=True)
    bot.directory.change(LI.id, runs_workspace=True)
    first, second = [one.id for one in await bot.directory.list_people() if one.is_administrator]
    closed = await bot.chat.open_dm(first)
    bot.chat.fails[closed.channel] = [ChatRefusedError("cannot_dm", "chat.post_message")] * 2
    for _ in range(2):
        await get_alerts(bot).send_alert("clock", seconds=80)
    assert [one.place for one in bot.chat.posts] == [await bot.chat.open_dm(second)], "and the second hears it once"


@corpus(
    ("kind", "more", "words"),
    ("item.dead", {"item": "E77"}, "E77"),
    ("effect.unknown", {"approval": "A01abc"}, "A01abc"),
    ("model.down", {"why": ModelFailureCause.KEY.value, "said": "invalid key"}, "invalid key"),
    ("model.tools_refused", {"text": "srv__find, pay", "said": "HTTP 400"}, "srv__find, pay"),
    ("approval.refused", {"approval": "A09abc", "foreign": "yes"}, "A09abc"),
    ("app.shared", {"n": 3}, "3 connections"),
)
async def test_what_stands_in_the_journal_is_told(redis: Redis, kind: str, more: dict[str, Any], words: str) -> None:
    bot = Bot(redis)
    bot.directory.change(ZHAO.id, runs_workspace=True)
    watching = asyncio.create_task(get_alerts(bot).watch_problems())
    try:
        await asyncio.sleep(0.02)
        await bot.journal.append_record("lane", "model.down", why=ModelFailureCause.TIMEOUT.value)
        await bot.journal.append_record("lane", "approval.refused", approval="A01old")
        await bot.journal.append_record("lane", kind, **more)
        await wait_for_alerts(bot, 1)
    finally:
        await cancel_and_wait([watching])
    (told,) = list_alerts(bot)
    assert words in told, "and an outage that passes by itself is none of theirs"


async def test_a_pause_that_is_there_at_the_start_is_told_and_so_is_every_later_one(redis: Redis) -> None:
    bot = Bot(redis)
    bot.directory.change(ZHAO.id, runs_workspace=True)
    watch = bot.app.stores.watch
    watch.reason = PauseReason.EMPTIED
    watching = asyncio.create_task(get_alerts(bot).watch_problems())
    try:
        await wait_for_alerts(bot, 1)
    finally:
        await cancel_and_wait([watching])
    assert watch.report is not None
    for reason in (PauseReason.NONE, PauseReason.BACKUP, PauseReason.EMPTIED):
        await watch.report(reason, 0)
    assert len(list_alerts(bot)) == 2, "work went on in between, and a backup ends by itself"


async def test_what_nobody_could_be_told_is_told_once_the_platform_is_back(redis: Redis) -> None:
    bot = Bot(redis)
    bot.directory.change(ZHAO.id, runs_workspace=True)
    place = await bot.chat.open_dm(ZHAO.id)
    bot.chat.fails[place.channel] = [ChatUnavailableError("unreachable", "chat.post_message")] * 3
    await bot.journal.append_record("lane", "item.dead", item="E77")
    watching = asyncio.create_task(get_alerts(bot).watch_problems())
    try:
        await wait_for_alerts(bot, 1)
    finally:
        await cancel_and_wait([watching])
    assert "E77" in list_alerts(bot)[0] and (await bot.list_journal_kinds()).count("alert") == 1


async def test_one_administrator_who_is_away_neither_silences_the_others_nor_repeats_it_to_them(redis: Redis) -> None:
    bot = Bot(redis)
    bot.directory.change(ZHAO.id, runs_workspace=True)
    bot.directory.change(LI.id, runs_workspace=True)
    first, second = [
        await bot.chat.open_dm(one.id) for one in await bot.directory.list_people() if one.is_administrator
    ]
    for away, told in ((first, second), (second, first)):
        await redis.flushall()
        bot.chat.posts.clear()
        bot.chat.fails[away.channel] = [ChatUnavailableError("unreachable", "chat.post_message")]
        for _ in range(2):
            assert await get_alerts(bot).send_alert("clock", seconds=80)
        assert [one.place for one in bot.chat.posts] == [told]


async def test_a_problem_right_before_a_restart_or_an_outage_is_told_after_it(redis: Redis) -> None:
    bot = Bot(redis)
    bot.directory.change(ZHAO.id, runs_workspace=True)
    await bot.journal.append_record("lane", "item.dead", item="E77")
    alerts = get_alerts(bot)
    alerts = replace(alerts, core=replace(alerts.core, stores=replace(alerts.core.stores, clock=Clock())))
    watching = asyncio.create_task(alerts.watch_problems())
    try:
        await wait_for_alerts(bot, 1)
    finally:
        await cancel_and_wait([watching])
    assert "E77" in list_alerts(bot)[0]
