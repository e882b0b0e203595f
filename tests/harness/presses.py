"""Cards that wait for a press, in the bot, and a press that fails at each place where its process can end."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.approvals.cards import Cards
from bot.queue.writes import apply_writes
from tests.harness.memory_bot import Bot, every_edge
from tests.harness.scripted_model import Scripted
from tests.stories.script import DONE, calls, mail
from tests.tools.office import SICK

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


async def rewrite(bot: Bot, card: str = "", **changes: Any) -> None:
    """Change the stored card of this id (by default, the only one), as anybody with write access to Redis can."""
    approval = await bot.load_approval(card)
    writes = [bot.approvals.build_save_write(approval.model_copy(update=changes))]
    await apply_writes(bot.redis, bot.keys, bot.keys.get_partition(approval.id), writes)


async def list_refusals(bot: Bot) -> list[str]:
    return [record.text async for record in bot.journal.stream_records(kinds={"approval.refused"})]


def name_deputies(bot: Bot, *deputies: str) -> Cards:
    """The bot's context of cards; these people decide the task `L-0001-1` in place of its assignee, and nobody any
    other."""

    async def list_task_deputies(task_id: str, now: datetime) -> tuple[str, ...]:
        return deputies if task_id == "L-0001-1" else ()

    bot.engine.list_task_deputies = list_task_deputies  # type: ignore[method-assign]
    return bot.handlers.cards


async def everywhere(
    redis: Redis, prepare: Callable[[], Bot | Awaitable[Bot]], *, more_than: int = 0
) -> AsyncIterator[Bot]:
    """Yield a bot for each place at which its process can end, as `every_edge` does."""
    async for edges in every_edge(redis, more_than=more_than):
        bot = made if isinstance(made := prepare(), Bot) else await made
        bot.end_at(edges)
        yield bot
