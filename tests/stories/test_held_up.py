"""A process is held up longer than its lease right before it speaks; and Slack is away while cards change. Nothing is
shown twice, and no card keeps buttons after its matter is over."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.approvals.lifecycle import ApprovalLifecycle
from tests.harness.office import LI, ZHANG, Office, Process, read_message_key
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import final, kept, told_privately
from tests.stories.script import DONE, mail, requests_of

EXPENSE = "报销差旅费 500 元，审批人李四"
SLOW_HEART = """
from bot.cli import main
from bot.queue.lanes import Lease
from bot.queue.worker import Worker

async def never(self):
    return None

Worker._extend_leases = never
"""
"""Whoever wakes up is told by the heartbeat that its lane is lost, or speaks before: a race, which is lost here."""
AWARE = ("-c", f"{SLOW_HEART}\nmain()")
BLIND = ("-c", f"{SLOW_HEART}\nLease.assert_held = never\nmain()")


def refused(office: Office) -> list[Any]:
    return [call for call in office.driver.ws.calls if call.method == "chat.postMessage" and call.error]


async def held_up_before_the_card(office: Office, process: Process) -> None:
    """Slack says *slow down* to the card, and the process is stopped while it waits to say it again."""
    office.driver.ws.faults.retry_after_seconds = 1
    office.driver.fail_next_call("chat.postMessage", 429)
    await office.says(ZHANG, EXPENSE)
    await office.until(lambda: refused(office))
    process.child.send_signal(signal.SIGSTOP)
    assert not office.cards(office.dm(ZHANG))


async def taken_over(office: Office, program: Sequence[str]) -> dict[str, Any]:
    """The card that another process has brought, a moment after the first one has woken up."""
    async with office.spawned(program, STEPS="quiet") as first:
        await held_up_before_the_card(office, first)
        async with office.opened(steps="quiet", lease_seconds=1.5):
            card = await office.card(office.dm(ZHANG))
            await asyncio.sleep(0.5)  # by now the first one would have said it again
            first.child.send_signal(signal.SIGCONT)
            if program is BLIND:
                await office.until(lambda: len(copies(office, card)) == 2)
            await asyncio.sleep(1.0)
            await office.quiet()
    return card


def copies(office: Office, card: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages that can be pressed and say the same."""
    return [one for one in office.cards(office.dm(ZHANG)) if read_message_key(one) == read_message_key(card)]


async def test_held_up_before_it_posts_a_card_there_is_one_card(empty: Office, redis: Redis) -> None:
    card = await taken_over(empty, AWARE)
    assert copies(empty, card) == [card]
    async with empty.opened():
        await empty.press(ZHANG, card, "confirm")
        assert "E-0001" in await final(empty)
        await empty.quiet()
    assert not empty.cards(empty.dm(ZHANG)) and await requests_of(redis, ZHANG) == ["E-0001"]


async def test_without_a_look_there_are_two_and_a_press_on_the_unknown_one_still_ends_both(
    empty: Office, redis: Redis
) -> None:
    """The negative control; and what is left if it happens nonetheless."""
    card = await taken_over(empty, BLIND)
    known, unknown = copies(empty, card)
    assert known == card
    async with empty.opened():
        await empty.press(ZHANG, unknown, "confirm")
        assert "E-0001" in await final(empty)
        await empty.quiet()
        assert not empty.cards(empty.dm(ZHANG)) and await requests_of(redis, ZHANG) == ["E-0001"]


async def test_a_late_press_on_the_unknown_one_ends_it(empty: Office, redis: Redis) -> None:
    card = await taken_over(empty, BLIND)
    async with empty.opened():
        await empty.press(ZHANG, card, "confirm")
        await final(empty)
        await empty.quiet()
        [unknown] = copies(empty, card)
        await empty.press(ZHANG, unknown, "confirm")
        await told_privately(empty, ZHANG, "已经处理过")
        await empty.until(lambda: not empty.cards(empty.dm(ZHANG)))
    assert await requests_of(redis, ZHANG) == ["E-0001"]


async def test_held_up_while_nobody_else_is_there_it_goes_on(empty: Office) -> None:
    """The lease has run out, but nobody has taken the lane: nothing is said twice, and nothing is left out."""
    async with empty.spawned(STEPS="quiet") as only:
        await held_up_before_the_card(empty, only)
        await asyncio.sleep(1.8)
        only.child.send_signal(signal.SIGCONT)
        card = await empty.card(empty.dm(ZHANG))
        await asyncio.sleep(0.5)
    assert copies(empty, card) == [card]


# Slack is away while a card changes


@pytest.mark.parametrize("times", [3, 6, 12])
async def test_a_card_decided_while_slack_is_away_is_brought_up_to_date(empty: Office, times: int) -> None:
    """Each rewrite is tried three times; one comes before the effect and one after it."""
    async with empty.opened(model=ScriptedModel([mail(), DONE])):
        await empty.says(ZHANG, "给李四发邮件")
        card = await empty.card(empty.dm(ZHANG))
        empty.driver.fail_next_call("chat.update", 500, times)
        await empty.press(ZHANG, card, "send")
        await final(empty)
        await empty.until(lambda: not empty.cards(empty.dm(ZHANG)))
        await empty.quiet()
    assert len(empty.mails) == 1


async def test_without_catching_up_the_card_keeps_its_buttons(empty: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control."""
    monkeypatch.setattr(ApprovalLifecycle, "build_refresh_request", lambda *_: ())
    async with empty.opened(model=ScriptedModel([mail(), DONE])):
        await empty.says(ZHANG, "给李四发邮件")
        card = kept(await empty.card(empty.dm(ZHANG)))
        empty.driver.fail_next_call("chat.update", 500, 6)
        await empty.press(ZHANG, card, "send")
        await final(empty)
        await empty.quiet()
    assert len(empty.mails) == 1
    assert [one["blocks"] for one in empty.cards(empty.dm(ZHANG))] == [card["blocks"]]


async def test_a_task_withdrawn_while_slack_is_away_leaves_no_card(empty: Office) -> None:
    async with empty.opened():
        request = await empty.request_leave(ZHANG, "我肚子疼，从明天起请10天假，审批人李四")
        await empty.card(empty.dm(LI))
        empty.driver.fail_next_call("chat.update", "drop", 7)
        await empty.says(ZHANG, f"撤回 {request}")
        await empty.press(ZHANG, await empty.card(empty.dm(ZHANG)), "confirm")
        await empty.until(lambda: not empty.cards(empty.dm(LI)))
        await empty.quiet()
        assert not empty.cards(empty.dm(ZHANG)) and not empty.cards(empty.dm(LI))
