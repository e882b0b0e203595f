"""The number of queries to Redis, counted at the client; a pipeline counts once. The data of the workflow engine and
the mailer are elsewhere here, and are not counted."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from bot.agent.limits import Budget
from bot.agent.model import ModelReply
from bot.chat.messages import Click, Message, Place, RateSlot
from bot.core.held_lease import bind_lease
from bot.core.work_items import ButtonPressed, MessageReceived
from bot.queue import lanes
from bot.queue.lanes import Lease
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM
from tests.harness.presses import LEAVE
from tests.stories.script import DONE, calls


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Collect the commands that are sent within the context."""
    asked: list[str] = []
    command, pipeline = Redis.execute_command, Pipeline.execute

    async def one(self: Redis, *args: Any, **options: Any) -> Any:
        asked.append(str(args[0]))
        return await command(self, *args, **options)

    async def several(self: Pipeline, *args: Any, **options: Any) -> Any:
        asked.append("pipeline")
        return await pipeline(self, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Redis, "execute_command", one)
        patched.setattr(Pipeline, "execute", several)
        patched.setattr(lanes, "_TRUSTED_MS", 60_000)  # however slow the machine is
        yield asked


async def handled(bot: Bot, lane: str, id: str, body: str) -> None:
    """Handle one item completely, as a process with little work does on acceptance."""
    lease = await bot.lanes.enqueue_or_claim("p", lane, id, body, aliases=[f"at:{id}"], person="U1")
    assert isinstance(lease, Lease)

    async def serve_lane() -> None:
        bind_lease(lease)
        await lease.commit(*await bot.dispatcher.handle_item(lease))

    await asyncio.create_task(serve_lane())


async def said(bot: Bot, text: str, id: str) -> None:
    message = Message(id=id, place=DM, person="U1", text=text, at=f"1.{id}")
    await handled(bot, DM.conversation, id, MessageReceived(message=message).model_dump_json())


async def warm(redis: Redis, *script: ModelReply, **more: Any) -> Bot:
    """Set up an installation whose scripts the server knows, and whose platform has a rate."""
    bot = Bot(redis, [DONE, *script], **more)
    bot.lanes.lease_ms = 60_000  # as in production: no query whether the lease still holds
    bot.chat.find_rate_slot = lambda place: RateSlot(f"rate:{place.channel}", 1, 100)  # type: ignore[method-assign]
    await said(bot, "hello", "Ev0")
    return bot


LOOKS = [calls(("list_people", {"name": f"name {n}"})) for n in range(3)]


@corpus(
    ("script", "text", "more"),
    ([DONE], "你好", {}),
    ([DONE], "你好" * 300, {"history_tokens": 500}),  # older turns are folded
    ([LOOKS[0], DONE], "谁", {}),
    ([*LOOKS, DONE], "谁", {}),
    ([LOOKS[0], DONE], "谁", {"budget": Budget(tokens=10**9, money=Decimal(5))}),
)
async def test_a_message_takes_four_and_one_for_each_step(
    redis: Redis, monkeypatch: pytest.MonkeyPatch, script: list[ModelReply], text: str, more: dict[str, Any]
) -> None:
    bot, steps = await warm(redis, *script, **more), len(script) - 1
    with counted(monkeypatch) as asked:
        await said(bot, text, "Ev1")
    expected = ["EVALSHA", "pipeline", *["EVALSHA"] * steps, "EVALSHA", "EVALSHA"]
    assert asked == expected, "accept, recall, the steps, the last word, commit"
    assert sum(":line:" in one.key for one in bot.chat.list_posts()) == steps, "every step was shown"
    folds = [key async for key in redis.scan_iter("*:in:F*")]
    assert bool(folds) is ("history_tokens" in more), "the fold waits in its lane"


async def test_a_decision_takes_three(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = await warm(redis, LEAVE, DONE)
    await said(bot, "请假", "Ev1")
    await bot.work()
    button = next(one for one in bot.chat.cards()[0].buttons if one.choice == "confirm")
    click = Click(id="press", approval=button.approval, version=1, choice="confirm", person="U1", place=DM)
    with counted(monkeypatch) as asked:
        await handled(bot, click.approval, click.id, ButtonPressed(click=click).model_dump_json())
    assert asked == ["EVALSHA", "EVALSHA", "EVALSHA"], "accept, decide and begin, commit"
    assert [one.id for one in await bot.engine.list_own_requests("U1")] == ["L-0001"], "and it was carried out"


async def test_negative_control_what_is_not_free_is_counted(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = await warm(redis, DONE)
    with counted(monkeypatch) as asked:
        await said(bot, "你好", "Ev1")
        await bot.history.load_history(Place(team="T1", channel="D2", direct=True).conversation)
    assert len(asked) == 5
