"""A channel of the bot on a small Feishu, with a real Redis."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.chat.feishu.cards import render_post
from bot.chat.feishu.channel import FeishuChannel
from bot.chat.feishu.client import FeishuClient
from bot.chat.feishu.directory import FeishuMembers
from bot.chat.feishu.sent_cards import SentCards
from bot.chat.messages import Button, Card, Place, Post
from bot.chat.people.directory import PlatformDirectory
from bot.queue.keys import Keys
from tests.chat.feishu.message_server import TENANT, FeishuServer, Said, open_feishu_server

GROUP, ROOT, ZHANG, LI = "oc_general", "om_root0001", "ou_zhang00", "ou_li000000"
PLACE = Place(platform="feishu", team=TENANT, channel=GROUP, thread=ROOT)
CHAT = PLACE.model_copy(update={"thread": None})
DM = Place(platform="feishu", team=TENANT, channel=f"oc_dm_{ZHANG}", direct=True)
CARD = Post(text="Please confirm", card=Card("Leave", buttons=(Button("Confirm", "confirm", "A03abc", 1),)))
LATER = Post(text="Please confirm", card=Card("Leave", buttons=(Button("Confirm", "confirm", "A03abc", 2),)))
OVER = Post(text="Approved", card=Card("Approved"))


class Slots:
    """Slots that are always free, unless told otherwise. It remembers what it was asked."""

    def __init__(self) -> None:
        self.wait_ms = 0
        self.reserved: list[tuple[str, int, int]] = []
        self.penalties: list[tuple[str, int]] = []

    async def reserve_slot(self, key: str, spacing_ms: int, burst: int) -> int:
        self.reserved.append((key, spacing_ms, burst))
        return self.wait_ms

    async def apply_penalty(self, key: str, ms: int) -> None:
        self.penalties.append((key, ms))


@dataclass
class Desk:
    feishu: FeishuServer
    client: FeishuClient
    slots: Slots
    sent: SentCards
    channel: FeishuChannel

    def open_channel(self) -> FeishuChannel:
        """Another process."""
        directory = PlatformDirectory(FeishuMembers(self.client), {})
        return FeishuChannel(self.client, self.slots, self.sent, directory, team=TENANT)

    def start_again(self) -> None:
        """Another process takes over: nothing of the memory is left."""
        self.channel = self.open_channel()

    def render(self, post: Post) -> dict[str, Any]:
        return render_post(post, PLACE)[-1].content

    @property
    def cards(self) -> list[Said]:
        return [one for one in self.feishu.said.values() if one.type == "interactive"]


@pytest.fixture
async def desk(redis: Redis, keys: Keys) -> AsyncIterator[Desk]:
    async with open_feishu_server() as (feishu, client):
        feishu.hear(GROUP, ROOT)
        slots, sent = Slots(), SentCards(redis, keys, TENANT, feishu.clock)
        channel = FeishuChannel(client, slots, sent, PlatformDirectory(FeishuMembers(client), {}), team=TENANT)
        yield Desk(feishu, client, slots, sent, channel)
        await channel.close_signs()


def has_buttons(said: Said) -> bool:
    return '"callback"' in json.dumps(said.content)
