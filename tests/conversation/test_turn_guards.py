"""One message through: each guard of the way with the story in which only it holds."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest
import structlog
from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from bot.chat.messages import Message, MessageRef, Place, Post, RateSlot
from bot.chat.platform import IngressGate
from bot.conversation import turn
from bot.conversation.turn import DOWN_MAX_MS
from bot.conversation.turn_context import Turns
from bot.core.errors import ModelFailureCause, ModelUnavailableError
from bot.core.i18n import translate
from bot.core.records import Run, RunStatus
from bot.core.run_state import CallStatus
from bot.core.work_items import MessageReceived, ResumeRun
from bot.queue.lanes import Lease, RetryLater
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM, MemoryChannel
from tests.stories.script import DONE, calls, mail
from tools.requests.start_tools import StartTools
from tools.spec import Privacy, ReceiptLine, TextRef

LOOK = calls(("list_processes", {}))
PEOPLE = calls(("list_people", {}))
MESSAGE = Message(id="Ev1", place=DM, person="U1", text="你好", at="1.0")


async def deliver(bot: Bot, message: Message = MESSAGE) -> Lease:
    await bot.lanes.enqueue(message.place.conversation, message.id, MessageReceived(message=message).model_dump_json())
    [lease] = await bot.lanes.claim("p", bot.keys.get_partition(message.place.conversation), 1)
    return lease


async def load_run(bot: Bot, id: str = "Ev1") -> Run:
    return await bot.runs.load_run(bot.keys.derive_id("R", bot.keys.get_partition(DM.conversation), id))


# The model is away


@corpus(("wait_s", "delay_ms"), [(0, 5_000), (4.9, 5_000), (7.5, 7_500), (300, DOWN_MAX_MS), (1e6, DOWN_MAX_MS)])
async def test_a_model_that_is_away_is_tried_again_when_it_asks_for_it_within_bounds(
    redis: Redis, wait_s: float, delay_ms: int
) -> None:
    bot = Bot(redis, [ModelUnavailableError("away", wait_s=wait_s)])
    turns = replace(bot.handlers.turns, down_ms=5_000)
    with pytest.raises(RetryLater) as later:
        await turn.handle_message(turns, await deliver(bot), MESSAGE)
    assert (later.value.delay_ms, later.value.counted, later.value.error) == (delay_ms, False, "away")
    assert (await load_run(bot)).has_reported_outage


@corpus("cause", ModelFailureCause)
async def test_what_does_not_pass_by_itself_is_told_as_that(redis: Redis, cause: ModelFailureCause) -> None:
    bot = Bot(redis, [ModelUnavailableError("away", cause=cause), ModelUnavailableError("away", cause=cause), DONE])
    await bot.send("你好")
    passes = cause not in ("quota", "key", "address", "unknown_model", "tools")
    assert bot.chat.texts() == [translate("turn.model_down" if passes else "turn.model_unfit", "zh"), "好的。"]


# Who comes in goes first


async def wait_at_gate(gate: IngressGate, task: asyncio.Task[Any]) -> bool:
    """True when the task waits for its turn; False when it has gone through."""
    while not task.done():
        if gate._one._waiters:
            return True
        await asyncio.sleep(0)
    return False


async def test_a_message_and_each_of_its_steps_wait_until_everybody_is_in(redis: Redis) -> None:
    gate = IngressGate()

    async def crowd(messages: Messages) -> ModelReply:
        await gate._one.acquire()
        return LOOK

    bot = Bot(redis, [crowd, DONE])
    turns = replace(bot.handlers.turns, platform=replace(bot.handlers.turns.platform, gate=gate))
    lease = await deliver(bot)
    await gate._one.acquire()
    task = asyncio.create_task(turn.handle_message(turns, lease, MESSAGE))
    assert await wait_at_gate(gate, task) and bot.model.requests == [] and lease.person == ""
    gate._one.release()
    while not bot.model.requests:
        await asyncio.sleep(0)
    assert await wait_at_gate(gate, task) and bot.chat.posts == [], "the step is neither kept nor shown"
    assert not [key async for key in redis.scan_iter("*:run:*")]
    gate._one.release()
    await task
    assert lease.person == "U1" and len(bot.chat.posts) == 2


async def test_lines_of_the_log_say_of_which_run_they_are(redis: Redis) -> None:
    bot = Bot(redis, [DONE])
    try:
        await turn.handle_message(bot.handlers.turns, await deliver(bot), MESSAGE)
        assert structlog.contextvars.get_contextvars()["run"] == (await load_run(bot)).id
    finally:
        structlog.contextvars.clear_contextvars()


# The rate of a place


@dataclass
class SlowWall(MemoryChannel):
    """One post a minute, and how long each may wait for it."""

    waits: list[int | None] = field(default_factory=list)

    def find_rate_slot(self, place: Place) -> RateSlot | None:  # type: ignore[override]
        return RateSlot(key=place.channel, spacing_ms=60_000, burst=1)

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        self.waits.append(wait_ms)
        return await super().post_message(place, post, key=key, again=again, wait_ms=wait_ms)


async def test_steps_that_come_too_fast_are_shown_together_and_the_last_word_keeps_the_rate(redis: Redis) -> None:
    posts = list[int]()

    def note(reply: ModelReply) -> Callable[[Messages], Awaitable[ModelReply]]:
        async def answer(messages: Messages) -> ModelReply:
            posts.append(len(bot.chat.posts))
            return reply

        return answer

    bot = Bot(redis, [note(LOOK), note(PEOPLE), note(DONE)], channel=SlowWall)
    await bot.send("有哪些流程？谁可以审批？")
    assert posts == [0, 1, 1], "the second step waits for company"
    first, second, last = bot.chat.texts()
    assert first.startswith("1. ") and second.startswith("2. ") and last == "好的。"
    assert isinstance(bot.chat, SlowWall)
    at_once, behind, final = bot.chat.waits
    assert at_once == 0 and behind is None and final is not None and final > 0


# How a run ends


async def test_what_an_answer_claims_and_nothing_supports_is_kept_with_it(redis: Redis) -> None:
    bot = Bot(redis, [ModelReply(text="邮件已经发出去了。")])
    await bot.send("给李四发邮件", id="Ev1")
    bot.model.script[:] = [ModelReply(text="就是 L-0099，500 元。")] * 9
    await bot.send("L-0099 呢", id="Ev2")
    first, second = await load_run(bot, "Ev1"), await load_run(bot, "Ev2")
    assert first.result is not None and second.result is not None
    assert (first.result.unverified, second.result.unverified) == ((), ("500 元",))
    assert all("没有做任何改动" in one.post.receipt for one in bot.chat.posts)


# Going on after a button


def resume(run: Run, **changes: Any) -> ResumeRun:
    call = run.awaiting_call
    heard = ResumeRun(
        run=run.id,
        uid=call.uid if call else "u",
        status=CallStatus.SUCCEEDED,
        observation={},
        receipt_line=ReceiptLine(text=TextRef(key="card.system"), privacy=Privacy.PUBLIC),
    )
    return heard.model_copy(update=changes)


async def propose(redis: Redis, *then: ModelReply) -> tuple[Bot, Run]:
    bot = Bot(redis, [mail(), *then])
    await bot.send("给李四发邮件")
    run = await load_run(bot)
    assert run.status is RunStatus.PAUSED and run.awaiting_call is not None
    return bot, run


async def go_on(bot: Bot, heard: ResumeRun, id: str = "resume") -> None:
    await bot.handle_work(DM.conversation, id, heard)


async def test_what_a_button_has_changed_is_said_once_however_often_it_is_brought(redis: Redis) -> None:
    bot, run = await propose(redis, DONE)
    bot.use_loop(replace(bot.handlers.turns.loop, start_tools=StartTools()))
    assert list(bot.handlers.turns.loop.start_tools) == [], "no message has come to this process"
    for id in ("a", "b"):
        await go_on(bot, resume(run), id)
    assert "start_leave" in bot.handlers.turns.loop.start_tools
    assert [len(one.post.receipt.splitlines()) for one in bot.chat.posts if one.key.endswith(":final")] == [1]
    after = await load_run(bot)
    assert (after.status, after.requested_card, after.card_summary, len(after.receipt_lines)) == (
        RunStatus.DONE,
        None,
        None,
        1,
    )


async def test_what_changed_nothing_has_no_receipt_and_a_run_that_nobody_knows_does_not_go_on(redis: Redis) -> None:
    bot = Bot(redis)
    await go_on(bot, ResumeRun(run="R00x", uid="u", status=CallStatus.DENIED, observation={}), "unknown")
    assert bot.chat.posts == [] and "item.dead" not in await bot.list_journal_kinds()
    bot, run = await propose(redis, DONE)
    await go_on(bot, resume(run, receipt_line=None, status=CallStatus.DENIED))
    assert (await load_run(bot)).receipt_lines == [] and bot.chat.texts()[-1] == "好的。"


async def test_a_card_taken_back_ends_its_run_without_a_word(redis: Redis) -> None:
    bot, run = await propose(redis)
    said = len(bot.chat.posts)
    await go_on(bot, resume(run, is_silent=True, status=CallStatus.DENIED, receipt_line=None))
    assert (await load_run(bot)).status is RunStatus.CANCELLED and len(bot.chat.posts) == said
    assert await bot.list_paused_runs() == () and len(bot.model.requests) == 1


async def test_the_run_is_kept_with_what_it_has_heard_before_the_model_is_asked(redis: Redis) -> None:
    bot, run = await propose(redis)
    seen = list[tuple[CallStatus, int]]()

    async def look(messages: Messages) -> ModelReply:
        now = await load_run(bot)
        seen.append((now.state.calls[-1].status, len(now.receipt_lines)))
        return DONE

    bot.model.script.append(look)
    await go_on(bot, resume(run))
    assert seen == [(CallStatus.SUCCEEDED, 1)]


async def test_what_waits_already_is_not_proposed_again(redis: Redis) -> None:
    bot, _ = await propose(redis, mail(), DONE)
    await bot.send("给李四发邮件", id="Ev2")
    assert len(bot.chat.cards()) == 1 and "card_waits" in str(bot.model.requests[-1])


# Given up


async def give_up(turns: Turns, bot: Bot, work: Message | ResumeRun) -> list[Any]:
    lease = await deliver(bot, MESSAGE.model_copy(update={"id": uuid4().hex}))
    failed = MessageReceived(message=work) if isinstance(work, Message) else work
    writes = list(await turn.give_up_run(turns, lease.item, failed))
    await lease.commit(*writes, more=False)
    return writes


async def test_a_message_that_is_given_up_is_told_of_and_a_card_that_was_proposed_still_comes(redis: Redis) -> None:
    bot = Bot(redis)
    assert await give_up(bot.handlers.turns, bot, MESSAGE) == [] and len(bot.chat.posts) == 1
    bot, run = await propose(redis)
    said = len(bot.chat.posts)
    await redis.delete(*[key async for key in redis.scan_iter("*:apr:*")])
    assert await give_up(bot.handlers.turns, bot, run.message)
    assert len(bot.chat.posts) == said and (await load_run(bot)).status is RunStatus.PAUSED


async def test_of_what_is_given_up_after_a_button_it_is_said_what_that_has_changed(redis: Redis) -> None:
    bot, run = await propose(redis)
    await give_up(bot.handlers.turns, bot, resume(run))
    after = await load_run(bot)
    assert after.status is RunStatus.STOPPED and len(after.receipt_lines) == 1
    assert bot.chat.posts[-1].post.receipt and await bot.list_paused_runs() == ()
    said = len(bot.chat.posts)
    assert await give_up(bot.handlers.turns, bot, resume(run)) == [], "it has ended"
    assert (
        await give_up(bot.handlers.turns, bot, resume(run).model_copy(update={"run": "R00x"})) == []
        and len(bot.chat.posts) == said
    )
