from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import Place
from bot.people.directory import PlatformDirectory
from bot.platforms.slack.app import build_bolt_app
from bot.platforms.slack.channel import SlackChannel
from bot.platforms.slack.directory import SlackMembers
from bot.platforms.slack.listeners import SlackListeners
from bot.platforms.slack.web_client import open_web_client
from tests.platforms.slack.doubles import ME, TOKEN, Inbox, Slack, Slots, member, slack

PLACE = Place(team="T0", channel="C01GENERAL", thread="10.1")
DM = Place(team="T0", channel="D01ZHANG", direct=True)


@dataclass
class Desk:
    slack: Slack
    client: AsyncWebClient
    inbox: Inbox
    slots: Slots
    channel: SlackChannel
    directory: PlatformDirectory
    app: AsyncApp

    def open_directory(self, facts: Any = None, **more: Any) -> PlatformDirectory:
        return PlatformDirectory(SlackMembers(self.client, ME.team), {} if facts is None else facts, **more)


@asynccontextmanager
async def open_desk() -> AsyncIterator[Desk]:
    async with slack() as here, open_web_client(TOKEN, here.url) as client:
        here.members = [
            member("U01ZHANG", "Zhang San", "zhangsan@example.com", "zh-CN"),
            member("U04ZHAO", "Zhao Liu", "zhaoliu@example.com", "en-US"),
        ]
        inbox, slots = Inbox(), Slots()
        channel = SlackChannel(client, slots, team=ME.team, bot=ME.user)
        directory = PlatformDirectory(SlackMembers(client, ME.team), {})
        listeners = SlackListeners(client, ME, inbox, channel, directory)
        app = build_bolt_app(client, ME, inbox, channel, directory, listeners, "secret")
        yield Desk(here, client, inbox, slots, channel, directory, app)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with open_desk() as desk:
        yield desk
