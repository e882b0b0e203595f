"""Ours: the real composition (`bot.app.build.build_core`) with its worker, lanes, checkpoints, journal and history in
Redis, opened as in production. Only the platform is another one, which costs nothing; messages are put into their lanes
by the real ingress."""

import asyncio
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bot.agent.model import Model
from bot.agent.models.model_profile import ApiWish
from bot.app.build import Application, build_core
from bot.app.resources import OpenPlatform, open_resources
from bot.app.services import FeishuApp, ModelEndpoint, Services
from bot.app.settings import Settings
from bot.app.slack_platform import open_slack
from bot.chat.messages import Message, MessageRef, Place, Post, SessionStatus, SuggestedPrompt
from bot.chat.platform import Platform
from bot.core import logs
from bot.core.history_entries import HistoryEntry
from bot.core.timing import Timing
from bot.features.summaries.compaction import compute_threshold
from bot.queue.writes import apply_writes
from tests.harness.memory_platform import MemoryDirectory, build_platform
from tests.qa.bench import job as bench
from tests.qa.bench.job import Job
from tests.qa.bench.tool import LOOK_UP
from tools.spec import Person
from tools.tool import Tool

PACKAGES = ("openai", "aiohttp", "redis", "pydantic", "slack-bolt", "slack-sdk")
AT_ONCE, LONG = 50, 1_000
"""Messages remembered by one write; a conversation with more than so many is the only one."""
ANN = Person(id="U0000000", name="Ann Example", email="ann@example.com", manager="U0000001")
BOB = Person(id="U0000001", name="Bob Example", email="bob@example.com", manager="U0000002")
CID = Person(id="U0000002", name="Cid Example", email="cid@example.com", roles=frozenset({"director"}))


class Endings:
    """Who waits for which conversation's final answer."""

    def __init__(self) -> None:
        self.waiting: dict[str, asyncio.Future[str]] = {}

    def of(self, place: Place) -> asyncio.Future[str]:
        ending = self.waiting[place.conversation] = asyncio.get_running_loop().create_future()
        return ending

    def said(self, place: Place, post: Post, key: str) -> None:
        if key.endswith(":final") and (ending := self.waiting.pop(place.conversation, None)) is not None:
            ending.set_result(post.text)


@dataclass
class Nowhere:
    """A platform that costs nothing."""

    endings: Endings
    posts: int = 0

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        self.posts += 1
        self.endings.said(place, post, key)
        return MessageRef(channel=place.channel, ts=str(self.posts))

    async def update_message(self, ref: MessageRef, post: Post) -> None:
        pass

    async def has_buttons_of(self, ref: MessageRef, post: Post) -> bool:
        return True

    async def post_ephemeral(self, place: Place, person: str, text: str) -> None:
        pass

    async def open_dm(self, person: str) -> Place:
        return Place(team="T1", channel=f"D{person}", direct=True)

    def show_status(self, place: Place, text: str) -> None:
        pass

    def set_session_status(self, place: Place, status: SessionStatus, *, person: str = "", title: str = "") -> None:
        pass

    async def wait_for_session(self, place: Place) -> None:
        pass

    async def suggest_prompts(self, place: Place, prompts: Sequence[SuggestedPrompt]) -> None:
        pass

    async def upload_picture(
        self, place: Place, picture: bytes, *, name: str, title: str, alt: str, key: str, again: bool = False
    ) -> None:
        pass

    async def upload_files(
        self, place: Place, files: Sequence[tuple[str, bytes]], *, comment: str, key: str, again: bool = False
    ) -> None:
        pass

    def find_rate_slot(self, place: Place) -> None:
        return None


@dataclass
class Ours:
    job: Job
    bot: Application
    endings: Endings
    places: list[tuple[Place, str]] = field(default_factory=list)
    """Where the runs are asked for, and by whom; empty: every run has a place of its own."""

    def place(self, number: int) -> tuple[Place, str]:
        if self.places:
            return self.places[number % len(self.places)]
        return Place(team="T1", channel=f"D{number:07d}", thread=f"{number}.0", direct=True), ANN.id

    async def run(self, number: int) -> str:
        place, person = self.place(number)
        ending = self.endings.of(place)
        message = Message(
            id=f"Ev{place.channel}{number:05d}", place=place, person=person, text=self.job.question, at=f"{number}.0"
        )
        await self.bot.ingress.accept_message(message, aliases=(f"at:{place.channel}:{number}",))
        return await ending

    async def settled(self) -> None:
        while self.bot.worker.active_lane_count:
            await asyncio.sleep(0.002)

    async def remember(self, number: int, count: int) -> None:
        """The conversation of a run begins with so many earlier messages. It has just been folded: between two folds,
        which are no part of a turn, lie some dozens of them."""
        history, (place, _) = self.bot.stores.history, self.place(number)
        history = replace(history, max_tokens=compute_threshold(history) * 3 // 4)
        partition = history.keys.get_partition(place.conversation)
        for start in range(0, count, AT_ONCE):  # not all at once: it would leave this process another one than before
            entries = [HistoryEntry.from_content(**one) for one in bench.earlier(min(start + AT_ONCE, count), start)]
            write = history.build_turn_write(place.conversation, entries)
            await apply_writes(history.redis, history.keys, partition, [write])


def nowhere(channel: Nowhere, directory: MemoryDirectory | None = None) -> OpenPlatform:
    """In the place of Slack. `directory`: by default, of three people."""

    @asynccontextmanager
    async def open_nowhere(*opened: object) -> AsyncIterator[Platform]:
        yield build_platform(channel, directory or MemoryDirectory([ANN, BOB, CID]))

    return open_nowhere


def settings(job: Job) -> Settings:
    """The production settings; as many conversations at once as the job wants, and every step is posted."""
    folder = Path(tempfile.mkdtemp(prefix="bench"))  # every job has another store at the same address
    return Settings(_env_file=None, concurrency=max(64, job.at_once), post_spacing_ms=1, data_dir=folder)


def api_of(job: Job) -> ApiWish:
    """The transport to the model: chat completions, as for every other program, unless the job says otherwise."""
    return "responses" if job.variant == "responses" else "chat"


def outside(job: Job) -> Services:
    return Services(
        redis_url=job.redis_url,
        slack_api_url=job.workspace.get("api", ""),
        bot_token=job.workspace.get("bot_token", ""),
        app_token=job.workspace.get("app_token", ""),
        feishu=FeishuApp(**job.workspace["feishu"]) if "feishu" in job.workspace else None,
        model=ModelEndpoint(url=job.model_url, key="none", name="mock-1", api=api_of(job)),
        smtp_url="smtp://127.0.0.1:9",
    )


def warnings() -> logging.Handler:
    """What should not happen is said, for the last words of a program that fails."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    return handler


@asynccontextmanager
async def working(
    job: Job,
    open_platform: OpenPlatform = open_slack,
    *,
    tools: Sequence[Tool] = (LOOK_UP,),
    model: Model | None = None,
    timing: Timing | None = None,
    **others: Any,
) -> AsyncIterator[Application]:
    """The bot with its worker running. What it logs is formatted as in production, and thrown away. `others`: in the
    place of what was opened, as in `Resources`."""
    with open(os.devnull, "w") as nothing:
        logs.configure_logging("INFO", json=True, stream=nothing)
        logging.getLogger().addHandler(warnings())
        async with open_resources(settings(job), outside(job), open_platform, tools, timing, model) as base:
            bot = build_core(replace(base, **others))
            work = asyncio.create_task(bot.worker.run())
            try:
                yield bot
            finally:
                bot.worker.stop()
                await work


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[Ours]:
    endings = Endings()
    async with working(job, nowhere(Nowhere(endings))) as bot:
        ours = Ours(job, bot, endings)
        if job.earlier > LONG:
            ours.places = [ours.place(0)]
        for number in range(len(ours.places) or job.warm + job.runs if job.earlier else 0):
            await ours.remember(number, job.earlier)
        yield ours


if __name__ == "__main__":
    bench.main(opened, *PACKAGES)
