"""Cards that wait for a press, in the bot, and a press that fails at each place where its process can end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.approvals.cards import Cards
from tests.harness.memory_bot import Bot, every_edge
from tests.harness.memory_platform import Edges
from tests.harness.scripted_model import Scripted
from tests.stories.script import DONE, calls, mail
from tests.tools.office import SICK
from tools.workflow.engine.port import Engine

LEAVE = calls(("start_process", {"process": "leave", "form": SICK}))


async def opened(bot: Bot, text: str = "请假") -> Bot:
    """Send a message whose run waits for a card."""
    await bot.send(text)
    return bot


async def proposed(redis: Redis, *script: Scripted) -> Bot:
    """Propose something for Zhang San to confirm: a mail, or the script's proposal."""
    bot = await opened(Bot(redis, [*(script or (mail(),)), DONE, DONE]))
    assert len(bot.chat.cards()) == 1
    return bot


async def requested(redis: Redis, form: Mapping[str, str] = SICK) -> Bot:
    """Start a leave request of Zhang San's from elsewhere, which waits for Li Si."""
    bot = Bot(redis)
    await bot.start_request("leave", form, "U1", "start")
    assert len(bot.chat.cards("DU2")) == 1
    return bot


async def started(redis: Redis, *script: ModelReply) -> Bot:
    """Start a request for which Li Si has a card."""
    bot = await opened(Bot(redis, [LEAVE, DONE, *script]))
    await bot.press(bot.chat.cards()[0], "confirm")
    assert bot.chat.cards("DU2")
    return bot


@dataclass
class DeputyEngine:
    """An engine that lets these people decide the task `L-0001-1` in place of its assignee, and nobody any other."""

    engine: Engine
    deputies: tuple[str, ...]

    async def list_task_deputies(self, task_id: str, now: datetime) -> tuple[str, ...]:
        return self.deputies if task_id == "L-0001-1" else ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def name_deputies(bot: Bot, *deputies: str) -> Cards:
    """The bot's context of cards, with these deputies for the task `L-0001-1`."""
    engine = cast(Engine, DeputyEngine(bot.engine, deputies))
    return replace(bot.handlers.cards, tool_services=replace(bot.tool_services, engine=engine))


async def everywhere(redis: Redis, prepare: Callable[[], Awaitable[Bot]], act: Callable[[Bot], Awaitable[None]]) -> int:
    """Act once for each place at which the process can end; `act` itself asserts the outcome."""

    async def play(edges: Edges) -> None:
        await redis.flushall()
        bot = await prepare()
        bot.end_at(edges)
        await act(bot)

    return await every_edge(play)
