"""Ours, whole: the same with the real Slack adapter, which posts every step to the local workspace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from unittest.mock import patch

from bot.app import resources
from bot.chat.messages import MessageRef, Place, Post
from bot.chat.slack.channel import SlackChannel
from tests.bench import job as bench
from tests.bench.job import Job
from tests.bench.programs.ours import PACKAGES, Endings, Ours, working


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[Ours]:
    endings = Endings()

    class Told(SlackChannel):
        async def post_message(
            self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
        ) -> MessageRef:
            ref = await super().post_message(place, post, key=key, again=again, wait_ms=wait_ms)
            endings.said(place, post, key)
            return ref

    async with AsyncExitStack() as stack:
        stack.enter_context(patch.object(resources, "SlackChannel", Told))
        bot = await stack.enter_async_context(working(job))
        team = job.workspace["team"]
        places = [
            (Place(team=team, channel=channel, thread=ts, direct=True), person)
            for person, channel, ts in job.workspace["rooms"]
        ]
        yield Ours(job, bot, endings, places)


if __name__ == "__main__":
    bench.main(opened, *PACKAGES)
