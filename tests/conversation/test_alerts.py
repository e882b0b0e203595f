"""Administrators are told in chat what needs one of them, once an hour, whoever notices it."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from bot.conversation.alerts import AdministratorAlerts, JournalAlerts
from bot.core.cancellation import cancel_and_wait
from bot.core.errors import ChatUnavailableError, ModelFailureCause
from tests.harness.lab import Lab
from tests.tools.company import ZHAO


def make_administrator(lab: Lab) -> None:
    lab.staff.known = [
        one.model_copy(update={"runs_workspace": True}) if one.id == ZHAO.id else one for one in lab.staff.known
    ]


def build_alerts(lab: Lab) -> AdministratorAlerts:
    return AdministratorAlerts(redis=lab.redis, keys=lab.keys, chat=lab.wall, directory=lab.staff, journal=lab.journal)


def list_alerts(lab: Lab) -> list[str]:
    return [one.post.text for one in lab.wall.said if one.post.text.startswith("⚠️")]


async def wait_for_alerts(lab: Lab, count: int) -> None:
    async with asyncio.timeout(10):
        while len(list_alerts(lab)) < count:
            await asyncio.sleep(0.01)


async def test_the_same_is_said_once_by_however_many_processes(redis: Redis) -> None:
    lab = Lab(redis)
    make_administrator(lab)
    for alerts in (build_alerts(lab), build_alerts(lab)):
        await alerts.send_alert("clock", seconds=80)
    (told,) = list_alerts(lab)
    assert "80" in told


async def test_only_administrators_are_told(redis: Redis) -> None:
    """Negative control."""
    lab = Lab(redis)
    await build_alerts(lab).send_alert("clock", seconds=80)
    assert list_alerts(lab) == []


async def test_what_could_not_be_said_is_said_the_next_time(redis: Redis) -> None:
    lab = Lab(redis)
    make_administrator(lab)
    place = await lab.wall.open_dm(ZHAO.id)
    lab.wall.fails[place.channel] = [ChatUnavailableError("unreachable", "chat.post_message")]
    for _ in range(2):
        await build_alerts(lab).send_alert("clock", seconds=80)
    assert len(list_alerts(lab)) == 1


@pytest.mark.parametrize(
    ("kind", "more", "words"),
    [
        ("item.dead", {"item": "E77"}, "E77"),
        ("effect.unknown", {"approval": "A01abc"}, "A01abc"),
        ("model.down", {"why": ModelFailureCause.KEY.value, "said": "invalid key"}, "invalid key"),
    ],
)
async def test_what_stands_in_the_journal_is_told(redis: Redis, kind: str, more: dict[str, str], words: str) -> None:
    lab = Lab(redis)
    make_administrator(lab)
    watching = asyncio.create_task(
        JournalAlerts(alerts=build_alerts(lab), clock=lab.clock, pause_s=0.01).watch_journal()
    )
    try:
        await asyncio.sleep(0.02)
        await lab.journal.append_record("lane", "model.down", why=ModelFailureCause.TIMEOUT.value)
        await lab.journal.append_record("lane", kind, **more)
        await wait_for_alerts(lab, 1)
    finally:
        await cancel_and_wait([watching])
    (told,) = list_alerts(lab)
    assert words in told, "and an outage that passes by itself is none of theirs"
