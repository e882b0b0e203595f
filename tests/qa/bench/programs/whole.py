"""Ours, whole: the same with the real Slack adapter, which posts every step to the local workspace."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from bot.app.services import Services
from bot.app.settings import Settings
from bot.app.slack_platform import open_slack
from bot.chat.messages import Channel, MessageRef, Place, Post
from bot.chat.platform import Platform
from bot.core.timing import Timing
from bot.storage.stores import Stores
from tests.qa.bench import job as bench
from tests.qa.bench.job import Job
from tests.qa.bench.programs.ours import PACKAGES, Endings, Ours, working


class WatchedChannel:
    """A channel whose final answers are waited for."""

    def __init__(self, channel: Channel, endings: Endings) -> None:
        self.channel, self.endings = channel, endings

    def __getattr__(self, name: str) -> Any:
        return getattr(self.channel, name)

    async def post_message(self, place: Place, post: Post, *, key: str, **more: Any) -> MessageRef:
        ref = await self.channel.post_message(place, post, key=key, **more)
        self.endings.said(place, post, key)
        return ref


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[Ours]:
    endings = Endings()

    @asynccontextmanager
    async def open_platform(
        settings: Settings, services: Services, stores: Stores, timing: Timing
    ) -> AsyncIterator[Platform]:
        async with open_slack(settings, services, stores, timing) as slack:
            yield replace(slack, chat=WatchedChannel(slack.chat, endings))

    async with working(job, open_platform) as bot:
        team = job.workspace["team"]
        places = [
            (Place(team=team, channel=channel, thread=ts, direct=True), person)
            for person, channel, ts in job.workspace["rooms"]
        ]
        yield Ours(job, bot, endings, places)


if __name__ == "__main__":
    bench.main(opened, *PACKAGES)
