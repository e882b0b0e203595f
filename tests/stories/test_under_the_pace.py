"""Many mails are confirmed at once, and Slack takes few updates: no effect and no answer waits until a card may be
rewritten, and every card ends in its newest state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from bot.chat.messages import MessageRef, Post
from bot.chat.slack import channel
from bot.chat.slack.channel import SlackChannel
from bot.core.errors import ChatBusyError
from bot.local.workspace.world import WorkspaceMember
from tests.harness.office import Office, office

WRITERS = tuple(
    WorkspaceMember(id=f"U7{n:05d}", name=f"p{n}", real_name=f"Person {n}", email=f"p{n}@example.com")
    for n in range(10)
)
MAIL = "给李四发邮件，主题：项目进度，内容：请看一下，谢谢"
UPDATE = SlackChannel.update_message


@pytest.fixture
async def crowded(valkey: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    monkeypatch.setattr(channel, "UPDATE_BURST", 2)
    monkeypatch.setattr(channel, "UPDATE_MS", 800)
    async with office(valkey, more=WRITERS) as opened:
        yield opened


async def update_when_there_is_a_slot(self: SlackChannel, ref: MessageRef, post: Post) -> None:
    """As versions before did."""
    while True:
        try:
            return await UPDATE(self, ref, post)
        except ChatBusyError as busy:
            await asyncio.sleep(busy.wait_ms / 1000)


async def count_late_cards(crowded: Office) -> int:
    """Everybody confirms at once: how many cards still show their buttons when everybody has been answered."""
    dms = [crowded.dm(one.id) for one in WRITERS]
    for one in WRITERS:
        await crowded.says(one.id, MAIL)
    cards = [await crowded.card(dm) for dm in dms]
    await asyncio.gather(*(crowded.press(one.id, card, "send") for one, card in zip(WRITERS, cards, strict=True)))
    await crowded.until(lambda: all(crowded.finals(dm) for dm in dms))
    assert len(crowded.mails) == len(WRITERS)
    return sum(bool(crowded.cards(dm)) for dm in dms)


async def test_nobody_waits_until_a_card_may_be_rewritten(crowded: Office) -> None:
    async with crowded.opened():
        assert await count_late_cards(crowded) > 0
        await crowded.until(lambda: not any(crowded.cards(crowded.dm(one.id)) for one in WRITERS))
        await crowded.quiet()
        assert len([one for one in crowded.driver.calls if one.method == "chat.update"]) == len(WRITERS)
        assert await crowded.dead() == []


async def test_where_updates_wait_for_their_slot_everybody_does(
    crowded: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""
    monkeypatch.setattr(SlackChannel, "update_message", update_when_there_is_a_slot)
    async with crowded.opened():
        assert await count_late_cards(crowded) == 0


async def test_killed_while_cards_are_late_none_keeps_its_buttons(crowded: Office) -> None:
    async with crowded.opened():
        assert await count_late_cards(crowded) > 0
    async with crowded.opened():
        await crowded.until(lambda: not any(crowded.cards(crowded.dm(one.id)) for one in WRITERS))
    assert len(crowded.mails) == len(WRITERS)
