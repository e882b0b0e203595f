"""One message through. Ended between any two things that it does: one answer, one card, no step lost or doubled. And
each guard of the way with the story in which only it holds."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest
import structlog
from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from bot.chat.messages import Message, MessageRef, Place, Post, RateSlot, SessionStatus
from bot.chat.platform import IngressGate
from bot.conversation import turn
from bot.conversation.progress import Display
from bot.conversation.turn import DOWN_MAX_MS
from bot.conversation.turn_context import Turns
from bot.core.errors import ChatRefusedError, ModelFailureCause, ModelUnavailableError, PlaceClosedError
from bot.core.i18n import translate
from bot.core.records import ApprovalState, EffectState, Run, RunStatus
from bot.core.run_state import CallStatus
from bot.core.work_items import MessageReceived, ResumeRun
from bot.queue.lanes import Lease, RetryLater
from bot.storage.approvals import derive_task_card_id
from tests.harness.answers import answers, by_results
from tests.harness.corpus import corpus
from tests.harness.memory_bot import Bot
from tests.harness.memory_platform import DM, Edges, MemoryChannel
from tests.harness.presses import everywhere, opened
from tests.harness.scripted_model import Scripted
from tests.stories.script import CLAIM, DONE, calls, expense, mail
from tools.requests import start_tools
from tools.requests.start_tools import StartTools
from tools.spec import Privacy, ReceiptLine, TextRef
from tools.workflow.process.definition import compile_process, load_shipped_processes

LOOK = calls(("list_processes", {}))
PEOPLE = calls(("list_people", {}))
MESSAGE = Message(id="Ev1", place=DM, person="U1", text="你好", at="1.0")


async def test_killed_anywhere_an_answer_comes_once_and_is_what_is_remembered(redis: Redis) -> None:
    """The model answers differently each time it is asked: whatever was said first stands, and is not mixed."""

    script = [LOOK, ModelReply(text="第一种说法"), ModelReply(text="第二种说法")]
    async for bot in everywhere(redis, lambda: Bot(redis, script), more_than=8):
        await bot.send("有哪些流程？")
        assert len(answers(bot)) == 1
        assert (await bot.list_history())[-1].startswith(answers(bot)[0]), "what is remembered is what was said"
        assert len(bot.chat.keys()) == len(set(bot.chat.keys()))
        assert bot.chat.sessions[-1][1] is SessionStatus.ACTIVE, "no session is left at work"


@pytest.mark.parametrize("display", ["replies", "plan"])
async def test_killed_anywhere_every_step_is_shown_once(redis: Redis, display: Display) -> None:
    async for bot in everywhere(redis, lambda: Bot(redis, [LOOK, PEOPLE, DONE, PEOPLE, DONE], steps=display)):
        await bot.send("有哪些流程？谁可以审批？")
        shown = "\n".join(one.post.text for one in bot.chat.posts if not one.key.endswith(":final"))
        run = await bot.runs.load_run(bot.chat.keys()[-1].partition(":")[0])
        assert run is not None and run.status is RunStatus.DONE
        for number, line in enumerate(run.step_lines, 1):
            assert line in shown and shown.count(f"{number}. ") == 1


async def test_killed_anywhere_before_the_second_card_of_a_run_it_is_brought(redis: Redis) -> None:
    """The run pauses, goes on after a button, and pauses again: the second card is no less safe than the first."""

    script = [by_results(mail(), mail(subject="第二封"), DONE)] * 9
    async for bot in everywhere(redis, lambda: opened(Bot(redis, script), "给李四发两封邮件"), more_than=8):
        await bot.press(bot.chat.cards()[0], "cancel")
        bot.chat.edge = bot.lanes.edge = Edges()
        [card] = bot.chat.cards()
        assert "第二封" in str(card.facts)
        await bot.press(card, "send")
        assert [one.subject for one in bot.mailer.mails] == ["第二封"]
        assert answers(bot) == ["好的。"]


async def test_a_commands_answer_is_said_once_whatever_happens(redis: Redis) -> None:
    async for bot in everywhere(redis, lambda: Bot(redis)):
        await bot.send("帮助")
        assert len(bot.chat.posts) == 1
    assert bot.lanes.edge.at == 1 + 4, "the places, and none"


async def test_the_model_away_is_told_once_each_time_and_noted_once(redis: Redis) -> None:
    down: list[Scripted] = [ModelUnavailableError("away")] * 5
    bot = Bot(redis, [*down, mail(), *down, DONE])
    await bot.send("给李四发邮件")
    told = [text for text in bot.chat.texts() if "连不上" in text]
    assert len(told) == 1 and (await bot.list_journal_kinds()).count("model.down") == 1, "five tries, one word"
    await bot.press(bot.chat.cards()[0], "send")
    told = [text for text in bot.chat.texts() if "连不上" in text]
    assert len(told) == 2 and (await bot.list_journal_kinds()).count("model.down") == 2, "another outage is news"
    assert answers(bot) == ["好的。"] and len(bot.mailer.mails) == 1


async def test_killed_anywhere_while_the_model_is_away_it_is_told_once(redis: Redis) -> None:
    away = ModelUnavailableError("away")
    async for bot in everywhere(redis, lambda: Bot(redis, [away, away, DONE, DONE])):
        await bot.send("你好")
        assert len([text for text in bot.chat.texts() if "连不上" in text]) == 1
        assert answers(bot) == ["好的。"]


async def test_whoever_has_left_meanwhile_leaves_no_open_run_behind(redis: Redis) -> None:
    bot = Bot(redis, [mail(), DONE])
    await bot.send("给李四发邮件")
    [card] = bot.chat.cards()
    bot.directory.change("U1", active=False)
    bot.now_offset = 2 * bot.handlers.cards.open_for
    await bot.handle_work(card.buttons[0].approval, "x", json.dumps({"kind": "expire_card", "version": 1}))
    assert await bot.list_paused_runs() == ()
    assert answers(bot) == [] and "run.stopped" in await bot.list_journal_kinds()


async def test_a_guest_is_told_so_in_their_dm_and_nothing_is_done(redis: Redis) -> None:
    bot = Bot(redis, [LOOK])
    bot.directory.change("U1", active=False)
    await bot.put_message("请假")
    await bot.send("请假", id="Ev2", place=DM.model_copy(update={"channel": "C1", "direct": False}))
    assert [text[:6] for text in bot.chat.texts()] == ["我只为本工作"] and not bot.chat.texts("C1")
    assert bot.model.requests == []


async def deliver(bot: Bot, message: Message = MESSAGE) -> Lease:
    await bot.lanes.enqueue(message.place.conversation, message.id, MessageReceived(message=message).model_dump_json())
    [lease] = await bot.lanes.claim("p", bot.keys.get_partition(message.place.conversation), 1)
    return lease


async def load_run(bot: Bot, id: str = "Ev1") -> Run:
    return await bot.runs.load_run(bot.keys.derive_id("R", bot.keys.get_partition(DM.conversation), id))


# The model is away


@corpus(("wait_s", "delay_ms"), (0, 5_000), (4.9, 5_000), (7.5, 7_500), (300, DOWN_MAX_MS), (1e6, DOWN_MAX_MS))
async def test_a_model_that_is_away_is_tried_again_within_bounds(redis: Redis, wait_s: float, delay_ms: int) -> None:
    bot = Bot(redis, [ModelUnavailableError("away", wait_s=wait_s)])
    turns = replace(bot.handlers.turns, down_ms=5_000)
    with pytest.raises(RetryLater) as later:
        await turn.handle_message(turns, await deliver(bot), MESSAGE)
    assert (later.value.delay_ms, later.value.counted, later.value.error) == (delay_ms, False, "away")
    assert (await load_run(bot)).has_reported_outage


@corpus("cause", *ModelFailureCause)
async def test_what_does_not_pass_by_itself_is_told_as_that(redis: Redis, cause: ModelFailureCause) -> None:
    bot = Bot(redis, [*[ModelUnavailableError("away", cause=cause)] * 2, DONE])
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

    async def post_message(self, place: Place, post: Post, *, wait_ms: int | None = None, **more: Any) -> MessageRef:
        self.waits.append(wait_ms)
        return await super().post_message(place, post, wait_ms=wait_ms, **more)


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
    line = ReceiptLine(text=TextRef(key="card.system"), privacy=Privacy.PUBLIC)
    about = {"run": run.id, "uid": call.uid if call else "u", "status": CallStatus.SUCCEEDED, "observation": {}}
    return ResumeRun(**{**about, "receipt_line": line, **changes})


async def propose(redis: Redis, *then: Scripted) -> tuple[Bot, Run]:
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
    assert after.status is RunStatus.DONE and len(after.receipt_lines) == 1
    assert after.requested_card is None and after.card_summary is None


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


async def test_the_platforms_own_stop_cancels_a_card_that_waits_once_though_it_comes_twice(redis: Redis) -> None:
    bot = await opened(Bot(redis, [mail(), DONE]), "给李四发邮件")
    [card] = bot.chat.cards()
    for _ in range(2):
        await bot.ingress.stop_session(DM, "U1", "EvStop", "2.0")
        await bot.work()
    assert not bot.chat.cards() and bot.chat.sessions[-1][1] is SessionStatus.ACTIVE
    assert bot.chat.posts[-1].post.text.startswith("已取消：您让我停下了")
    assert (await bot.list_journal_kinds()).count("command") == 1
    await bot.press(card, "send")
    assert bot.mailer.mails == [] and "已取消" in bot.chat.ephemerals[-1][1]


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


async def test_a_process_that_is_deployed_between_two_messages_has_its_tool(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_tools, "FRESH_S", 0.0)
    bot = Bot(redis, [DONE, calls(("start_rent", {"note": "照您说的做", **CLAIM})), DONE])
    await bot.send("你好")
    known = load_shipped_processes()[1]
    rent = compile_process(known.bpmn, known.toml.replace(b'key = "expense"', b'key = "rent"', 1))
    await bot.engine.deploy_process(rent)
    await bot.send("报销房租", id="Ev2")
    assert len(bot.chat.cards()) == 1


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


@pytest.mark.parametrize("is_model_asked", [False, True])
async def test_of_what_is_given_up_after_a_button_it_is_said_what_that_has_changed(
    redis: Redis, is_model_asked: bool
) -> None:
    bot, run = await propose(redis, *[RuntimeError("a mistake of ours")] * 9)
    await (go_on(bot, resume(run)) if is_model_asked else give_up(bot.handlers.turns, bot, resume(run)))
    after = await load_run(bot)
    assert after.status is RunStatus.STOPPED and len(after.receipt_lines) == 1
    assert "试了几次" in bot.chat.texts()[-1] and ("item.dead" in await bot.list_journal_kinds()) is is_model_asked
    assert bot.chat.posts[-1].post.receipt and await bot.list_paused_runs() == ()
    said = len(bot.chat.posts)
    assert await give_up(bot.handlers.turns, bot, resume(run)) == [], "it has ended"
    unknown = resume(run).model_copy(update={"run": "R00x"})
    assert await give_up(bot.handlers.turns, bot, unknown) == [] and len(bot.chat.posts) == said


async def test_an_answer_that_was_refused_every_time_comes_with_what_nothing_supports(redis: Redis) -> None:
    bot = Bot(redis, [ModelReply(text="L-0099 已通过。")] * 2)
    bot.chat.fails[DM.channel] = [ChatRefusedError("invalid_blocks", "chat.postMessage")] * bot.lanes.max_tries
    await bot.send("我的申请怎么样了")
    [told] = [one.post for one in bot.chat.posts]
    assert "L-0099 已通过。" in told.text and "未经核实" in told.text and "系统记录" in told.receipt


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("refusal", [ChatRefusedError, PlaceClosedError])
async def test_an_answer_that_a_channel_refused_every_time_says_in_the_dm_what_was_done(
    redis: Redis, is_answered: bool, refusal: type[ChatRefusedError]
) -> None:
    bot = Bot(redis, [mail(), *([DONE] if is_answered else [RuntimeError("a mistake of ours")] * 9)])
    await bot.send("写封邮件", place=DM.model_copy(update={"channel": "C1", "direct": False}))
    bot.chat.fails["C1"] = [refusal("invalid_blocks", "chat.postMessage")] * 20
    await bot.press(bot.chat.cards("DU1")[0], "send")
    told = [one.post.receipt for one in bot.chat.posts if one.place.channel == "DU1" and one.post.receipt]
    assert told and all("李四" in one and translate("receipt.private", "zh") not in one for one in told)


# A press that is answered with a question, and a draft that makes a card anew


async def started(redis: Redis, *then: ModelReply) -> Bot:
    """An expense that was started."""
    bot = Bot(redis, [expense(), DONE, *then])
    await bot.send("报销")
    await bot.press(bot.chat.cards()[0], "confirm")
    return bot


async def asked_twice(redis: Redis, *, is_pressed: bool = False) -> Bot:
    """The card of the very same expense; `is_pressed`: with its question."""
    bot = await started(redis, expense(), DONE)
    await bot.send("再报一次", id="Ev2")
    if is_pressed:
        await bot.press(bot.chat.cards()[0], "confirm", id="again")
    return bot


async def requests(bot: Bot) -> list[str]:
    return [one.id for one in await bot.engine.list_own_requests("U1")]


async def test_killed_anywhere_in_a_press_that_asks_nothing_is_started_and_one_card_asks(redis: Redis) -> None:
    async for bot in everywhere(redis, lambda: asked_twice(redis)):
        await bot.press(bot.chat.cards()[0], "confirm", id="again")
        assert await requests(bot) == ["E-0001"]
        [card] = bot.chat.cards()
        assert [one.choice for one in card.buttons] == ["start_another", "edit", "cancel"]
        approval = await bot.load_approval(card)
        assert approval is not None and (approval.state, approval.version) == (ApprovalState.OPEN, 2)
        assert (approval.effect, approval.press_id, approval.decided_by) == (EffectState.NONE, "", "")
        assert len(await bot.list_paused_runs()) == 1, "its run waits on"
        assert approval.id in [one.id for one in await bot.approvals.list_open_approvals()]


@pytest.mark.slow
async def test_killed_anywhere_in_starting_another_knowingly_there_are_two(redis: Redis) -> None:
    async for bot in everywhere(redis, lambda: asked_twice(redis, is_pressed=True)):
        await bot.press(bot.chat.cards()[0], "start_another")
        assert await requests(bot) == ["E-0001", "E-0002"]
        assert not bot.chat.cards() and await bot.list_paused_runs() == ()


async def test_edited_to_something_else_it_is_started_without_a_question(redis: Redis) -> None:
    bot = await asked_twice(redis, is_pressed=True)
    await bot.press(bot.chat.cards()[0], "edit", form={"field_amount": "7"})
    [edited] = bot.chat.cards()
    assert [one.choice for one in edited.buttons] == ["confirm", "edit", "cancel"]
    await bot.press(edited, "confirm", id="edited")
    assert await requests(bot) == ["E-0001", "E-0002"]


OPINION = calls(("decide_task", {"task_id": "E-0001-1", "opinion": "注意发票", "decision": "approve"}))


async def test_killed_anywhere_in_bringing_a_draft_one_card_has_it(redis: Redis) -> None:
    async for bot in everywhere(redis, lambda: started(redis, *[OPINION] * 9)):
        await bot.send("同意，注意发票", person="U2", id="Ev3")
        [card] = bot.chat.cards("DU2")
        assert "注意发票" in dict(card.facts).values()
        approval = await bot.load_approval(derive_task_card_id(bot.keys, "E-0001-1"))
        assert approval is not None and approval.version == 2
