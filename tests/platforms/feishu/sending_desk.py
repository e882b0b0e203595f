"""A channel of the bot on a small Feishu, with a real Redis."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.chat.messages import Place, Post
from bot.people.directory import PlatformDirectory
from bot.platforms.feishu.cards import render_post
from bot.platforms.feishu.channel import FeishuChannel
from bot.platforms.feishu.client import FeishuClient
from bot.platforms.feishu.directory import FeishuMembers
from bot.platforms.feishu.sent_cards import SentCards
from bot.queue.keys import Keys
from tests.platforms.feishu.message_server import TENANT, FeishuServer, Said, open_feishu_server
from tests.platforms.slack.doubles import Slots

GROUP, ROOT, ZHANG, LI = "oc_general", "om_root0001", "ou_zhang00", "ou_li000000"
PLACE = Place(platform="feishu", team=TENANT, channel=GROUP, thread=ROOT)
CHAT = PLACE.model_copy(update={"thread": None})
DM = Place(platform="feishu", team=TENANT, channel=f"oc_dm_{ZHANG}", direct=True)


@dataclass
class Desk:
    feishu: FeishuServer
    client: FeishuClient
    slots: Slots
    sent: SentCards

    def __post_init__(self) -> None:
        self.directory = PlatformDirectory(FeishuMembers(self.client), {})
        self.channel = self.open_channel()

    def open_channel(self) -> FeishuChannel:
        """Another process."""
        return FeishuChannel(self.client, self.slots, self.sent, self.directory, team=TENANT)

    def start_again(self) -> None:
        """Another process takes over: nothing of the memory is left."""
        self.channel = self.open_channel()

    def render(self, post: Post) -> dict[str, Any]:
        return render_post(post, PLACE)[-1]

    @property
    def cards(self) -> list[Said]:
        return [one for one in self.feishu.said.values() if one.type == "interactive"]


@asynccontextmanager
async def open_desk(redis: Redis, keys: Keys) -> AsyncIterator[Desk]:
    async with open_feishu_server() as (feishu, client):
        feishu.hear(GROUP, ROOT)
        desk = Desk(feishu, client, Slots(), SentCards(redis, keys, TENANT, feishu.clock))
        channel = desk.channel
        yield desk
        await channel.close_signs()


@pytest.fixture
async def desk(redis: Redis, keys: Keys) -> AsyncIterator[Desk]:
    async with open_desk(redis, keys) as desk:
        yield desk


def has_buttons(said: Said) -> bool:
    return '"callback"' in json.dumps(said.content)
