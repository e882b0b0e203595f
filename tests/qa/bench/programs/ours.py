"""Ours: the real composition (`bot.app.build.build_core`) with its worker, lanes, checkpoints, journal and history in
Redis, opened as in production. Only the platform is another one, which costs nothing; messages are put into their lanes
by the real ingress. As `whole` it has the real Slack adapter, which posts every step to the local workspace."""

import asyncio
import json
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bot.agent import prompt
from bot.agent.formats import native_format
from bot.agent.model import Model
from bot.agent.models.model_profile import ApiWish
from bot.app.build import Application, build_core
from bot.app.resources import OpenPlatform, open_resources
from bot.app.services import FeishuApp, ModelEndpoint, Services
from bot.app.settings import Settings
from bot.app.slack_platform import open_slack
from bot.chat.messages import Channel, Message, MessageRef, Place, Post
from bot.chat.platform import Platform
from bot.core.history_entries import HistoryEntry
from bot.core.timing import Timing
from bot.features.summaries.compaction import compute_threshold
from bot.ops.log_output import configure_logging
from bot.queue.writes import apply_writes
from tests.harness.memory_platform import MemoryDirectory, build_platform
from tests.qa.bench import job as bench
from tests.qa.bench.job import Job
from tools.spec import Caller, FrozenModel, Person, TextRef, ToolOutcome
from tools.tool import Tool, ToolContext

PACKAGES = ("openai", "aiohttp", "redis", "pydantic", "slack-bolt", "slack-sdk")
AT_ONCE, LONG = 50, 1_000
"""Messages remembered by one write; a conversation with more than so many is the only one."""
QUESTION = "Who of Person 1 to Person 6 is at work today? I need somebody who can look at my expense request."
FEISHU = {"url": "API_URL", "app_id": "APP_ID", "secret": "APP_SECRET"}
ANN = Person(id="U0000000", name="Ann Example", email="ann@example.com", manager="U0000001")
BOB = Person(id="U0000001", name="Bob Example", email="bob@example.com", manager="U0000002")
CID = Person(id="U0000002", name="Cid Example", email="cid@example.com", roles=frozenset({"director"}))


class LookUp(FrozenModel):
    name: str


async def _look_up(use: ToolContext, args: LookUp) -> ToolOutcome:
    return ToolOutcome(data=bench.observation(args.name), summary=TextRef(key="result.people", params={"n": 1}))


LOOK_UP = Tool(
    name="look_up",
    purpose="Looks a person up.",
    use_when="A name is mentioned and you need to know who that is.",
    avoid_when="You know the person already.",
    args=LookUp,
    returns='{"name", "title", "team", "here"}',
    errors={},
    example={"name": "Person 1"},
    run=_look_up,
)


def texts() -> dict[str, Any]:
    """What goes into every `Job`: the one tiny tool that every program offers, and the texts around it, in the shape in
    which ours sends them."""
    caller = Caller(Person(id="U0000000", name="Ann Example"))
    return {
        "system": json.loads(prompt.dump_system_message())["content"],
        "question": QUESTION,
        "quoted": prompt.build_user_message(caller, QUESTION)["content"],
        "tool": native_format.build_function_schema(LOOK_UP),
    }


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

    async def open_dm(self, person: str) -> Place:
        return Place(team="T1", channel=f"D{person}", direct=True)

    async def has_buttons_of(self, ref: MessageRef, post: Post) -> bool:
        return True

    async def _do_nothing(self, *_: object, **__: object) -> None: ...

    update_message = post_ephemeral = suggest_prompts = upload_picture = upload_files = wait_for_session = _do_nothing

    def _tell_nobody(self, *_: object, **__: object) -> None: ...

    show_status = set_session_status = find_rate_slot = _tell_nobody


@dataclass
class Ours:
    """`places`: where the runs are asked for, and by whom; empty: every run has a place of its own."""

    job: Job
    bot: Application
    endings: Endings
    places: list[tuple[Place, str]] = field(default_factory=list)

    def place(self, number: int) -> tuple[Place, str]:
        if self.places:
            return self.places[number % len(self.places)]
        return Place(team="T1", channel=f"D{number:07d}", thread=f"{number}.0", direct=True), ANN.id

    async def run(self, number: int) -> str:
        place, person = self.place(number)
        ending = self.endings.of(place)
        await tell(self.bot, number, place, person, self.job.question)
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


async def tell(bot: Application, number: int, place: Place, person: str, text: str) -> None:
    """A message is put into its lane, as by the platform."""
    id = f"Ev{place.channel}{number:05d}"
    message = Message(id=id, place=place, person=person, text=text, at=f"{number}.0")
    await bot.ingress.accept_message(message, aliases=(f"at:{place.channel}:{number}",))


def nowhere(channel: Nowhere, directory: MemoryDirectory | None = None) -> OpenPlatform:
    """In the place of Slack. `directory`: by default, of three people."""

    @asynccontextmanager
    async def open_nowhere(*opened: object) -> AsyncIterator[Platform]:
        yield build_platform(channel, directory or MemoryDirectory([ANN, BOB, CID]))

    return open_nowhere


def outside(job: Job) -> Services:
    """The model is asked over chat completions, as by every other program, unless the job says otherwise."""
    api: ApiWish = "responses" if job.variant == "responses" else "chat"
    chat = job.workspace.get("chat", {})
    feishu = {name: chat.get(f"FEISHU_{of}", "") for name, of in FEISHU.items()}
    return Services(
        redis_url=job.redis_url,
        slack_api_url=chat.get("SLACK_API_URL", ""),
        bot_token=chat.get("SLACK_BOT_TOKEN", ""),
        app_token=chat.get("SLACK_APP_TOKEN", ""),
        feishu=FeishuApp(**feishu) if feishu["url"] else None,
        model=ModelEndpoint(url=job.model_url, key="none", name="mock-1", api=api),
        smtp_url="smtp://127.0.0.1:9",
    )


@asynccontextmanager
async def working(
    job: Job,
    open_platform: OpenPlatform = open_slack,
    *,
    tools: Sequence[Tool] = (LOOK_UP,),
    model: Model | None = None,
    timing: Timing | None = None,
) -> AsyncIterator[Application]:
    """The bot with its worker running, as many conversations at once as the job wants, and every step is posted. What
    it logs is formatted as in production, and thrown away but for warnings: the last words of a program that fails."""
    folder = Path(tempfile.mkdtemp(prefix="bench"))  # every job has another store at the same address
    settings = Settings(_env_file=None, concurrency=max(64, job.at_once), post_spacing_ms=1, data_dir=folder)
    with open(os.devnull, "w") as nothing:
        configure_logging("INFO", json=True, stream=nothing)
        logging.getLogger().addHandler(warnings := logging.StreamHandler())
        warnings.setLevel(logging.WARNING)
        async with open_resources(settings, outside(job), open_platform, tools, timing, model) as resources:
            bot = build_core(resources)
            work = asyncio.create_task(bot.worker.run())
            try:
                yield bot
            finally:
                bot.worker.stop()
                await work


class WatchedChannel:
    def __init__(self, channel: Channel, endings: Endings) -> None:
        self.channel, self.endings = channel, endings

    def __getattr__(self, name: str) -> Any:
        return getattr(self.channel, name)

    async def post_message(self, place: Place, post: Post, *, key: str, **more: Any) -> MessageRef:
        ref = await self.channel.post_message(place, post, key=key, **more)
        self.endings.said(place, post, key)
        return ref


@asynccontextmanager
async def open_whole(job: Job, endings: Endings) -> AsyncIterator[Ours]:
    @asynccontextmanager
    async def open_platform(*opened: Any) -> AsyncIterator[Platform]:
        async with open_slack(*opened) as slack:
            yield replace(slack, chat=WatchedChannel(slack.chat, endings))

    team, rooms = job.workspace["team"], job.workspace["rooms"]
    places = [(Place(team=team, channel=channel, thread=ts, direct=True), person) for person, channel, ts in rooms]
    async with working(job, open_platform) as bot:
        yield Ours(job, bot, endings, places)


@asynccontextmanager
async def opened(job: Job) -> AsyncIterator[Ours]:
    endings = Endings()
    if job.variant == "whole":
        async with open_whole(job, endings) as ours:
            yield ours
        return
    async with working(job, nowhere(Nowhere(endings))) as bot:
        ours = Ours(job, bot, endings)
        if job.earlier > LONG:
            ours.places = [ours.place(0)]
        for number in range(len(ours.places) or job.warm + job.runs if job.earlier else 0):
            await ours.remember(number, job.earlier)
        yield ours


if __name__ == "__main__":
    bench.main(opened, *PACKAGES)
