"""Processes end in the middle of things: killed, asked to end, told things twice. Nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from bot.local.workspace.workspace import WorkspaceChange
from tests.harness.office import GENERAL, LI, PATIENCE_S, ZHANG, Office, office, read_message_key, read_message_text
from tests.harness.scripted_model import ScriptedModel
from tests.stories.behind import final
from tests.stories.script import expense, requests_of

EXPENSE = "报销差旅费 500 元，审批人李四"
LEAVE = "我肚子疼，从明天起请10天假"


class Thinking:
    """A model that thinks until it is cancelled."""

    def __init__(self, *before: ModelReply) -> None:
        self.before = list(before)
        self.began, self.cancelled = asyncio.Event(), asyncio.Event()

    async def request_reply(self, messages: Messages, tools: object, *, timeout_s: float) -> ModelReply:
        if self.before:
            return self.before.pop(0)
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        raise AssertionError("nobody wakes it")


def keys(office: Office, person: str = ZHANG) -> list[str]:
    """What every post of the bot in a DM is named, in order."""
    return [read_message_key(message) for message in office.posts(office.dm(person))]


def said_once(office: Office, person: str = ZHANG) -> bool:
    return len(keys(office, person)) == len(set(keys(office, person)))


async def test_k_a_press_after_the_bot_was_killed_and_started_again_works(empty: Office, redis: Redis) -> None:
    here = empty.dm(ZHANG)
    async with empty.spawned() as bot:
        await empty.says(ZHANG, EXPENSE)
        card = await empty.card(here, "500")
        await bot.kill()
    await empty.until(lambda: not empty.driver.ws.sockets.list_live_links())
    unheard = await empty.press(ZHANG, card, "confirm")
    assert not unheard.ok, "with nobody there the platform itself says so"
    async with empty.spawned():
        assert (await empty.press(ZHANG, card, "confirm")).ok
        assert "E-0001" in await final(empty)
        await empty.card(empty.dm(LI), "E-0001")
    assert await requests_of(redis, ZHANG) == ["E-0001"]
    assert not empty.cards(here)


def deliveries(office: Office, event: str) -> int:
    """How often the platform has brought an event."""
    return len([one for one in office.driver.sent_envelopes if one["payload"].get("event_id") == event])


def events_of(office: Office, person: str) -> list[dict[str, Any]]:
    return [one for one in office.driver.events if one["event"].get("user") == person]


async def test_l_the_same_event_delivered_three_times_is_answered_once(desk: Office) -> None:
    desk.driver.hold_next_acks()
    assert "审批" in await desk.answer(ZHANG, LEAVE)
    [event] = [one["event_id"] for one in events_of(desk, ZHANG)]
    await desk.until(lambda: deliveries(desk, event) == 2)
    desk.driver.redeliver_event(event)
    await desk.until(lambda: deliveries(desk, event) == 3)
    assert "Countersign" in await desk.answer(ZHANG, "help"), "what comes later in the lane is served"
    await desk.quiet()
    answers = [text for text in desk.finals(desk.dm(ZHANG)) if "审批" in text and "Countersign" not in text]
    assert len(answers) == 1 and said_once(desk)
    assert (await desk.kinds()).count("run.finished") == 1


async def test_l_a_mention_that_arrives_as_two_events_is_answered_once(desk: Office) -> None:
    ts = await desk.driver.mention_bot(ZHANG, GENERAL, LEAVE)
    await desk.until(lambda: desk.finals(GENERAL))
    events = events_of(desk, ZHANG)
    assert sorted(one["event"]["type"] for one in events) == ["app_mention", "message"], "the platform sends both"
    for one in events:
        desk.driver.redeliver_event(one["event_id"])
    await desk.until(lambda: all(deliveries(desk, one["event_id"]) == 2 for one in events))
    await desk.answer(ZHANG, "help")
    await desk.quiet()
    assert len(desk.finals(GENERAL)) == 1
    assert all(message["thread_ts"] == ts for message in desk.posts(GENERAL))


NEVER_FRESH = """
from bot.chat.slack import directory
directory.FRESH_S = 0.0
from bot.cli import main
main()
"""


def lookups(desk: Office) -> int:
    """How often Slack was asked about who presses."""
    return sum(one.method == "users.info" and one.args.get("user") == ZHANG for one in desk.driver.calls)


async def test_two_messages_with_the_same_words_are_two_messages(desk: Office) -> None:
    """The twin of *answered once*: only the same event is the same."""
    await desk.answer(ZHANG, "help")
    await desk.answer(ZHANG, "help")
    await desk.quiet()
    assert len(desk.finals(desk.dm(ZHANG))) == 2


@pytest.mark.parametrize(
    "when",
    [":line:", ":final"],
    ids=["as the first step is shown", "as the answer is shown"],
)
async def test_m_killed_in_the_middle_of_a_run_another_process_answers_once(empty: Office, when: str) -> None:
    async with empty.spawned(STEPS="replies") as bot:
        empty.killing(bot, lambda: any(when in key for key in keys(empty)))
        await empty.says(ZHANG, LEAVE)
        await bot.child.wait()
    assert any(when in key for key in keys(empty))
    async with empty.opened():
        assert "审批" in await final(empty)
        await empty.quiet()
        assert (await empty.kinds()).count("run.finished") == 1
    assert len(empty.finals(empty.dm(ZHANG))) == 1 and said_once(empty)


async def test_m_killed_as_soon_as_the_event_was_acknowledged_answered_once(valkey: str) -> None:
    """The model thinks, so that nothing was said yet: what was acknowledged is in Redis, or it is lost."""
    async with office(valkey) as slow:
        slow.answering.clear()
        async with slow.spawned() as bot:
            await slow.says(ZHANG, LEAVE)
            await slow.until(lambda: slow.driver.acks)
            await bot.kill()
        assert slow.posts(slow.dm(ZHANG)) == []
        slow.answering.set()
        async with slow.opened():
            assert "审批" in await final(slow)
            await slow.quiet()
        assert len(slow.finals(slow.dm(ZHANG))) == 1 and said_once(slow)


@pytest.mark.parametrize(
    ("text", "choice"),
    [("给李四发邮件，主题 项目进度，内容 请看一下进度", "send"), (EXPENSE, "confirm")],
    ids=["mail", "engine"],
)
async def test_m_killed_between_the_decision_and_the_effect_it_happens_once(
    empty: Office, redis: Redis, text: str, choice: str
) -> None:
    """The press is decided, the effect not begun: whoever takes over does it, once, without a word more. Who pressed is
    looked up again before the effect; that look-up is slow here."""
    here = empty.dm(ZHANG)
    async with empty.spawned(("-c", NEVER_FRESH)) as bot:
        await empty.says(ZHANG, text)
        card = await empty.card(here)
        empty.driver.delay_answers(0.5, "users.info")
        before = lookups(empty)
        empty.killing(bot, lambda: lookups(empty) >= before + 2)
        await empty.press(ZHANG, card, choice)
        await bot.child.wait()
    assert empty.mails == [] and await requests_of(redis, ZHANG) == []
    async with empty.opened():
        await final(empty)
        await empty.quiet()
        assert (await empty.kinds()).count("effect.started") == 1
    assert len(empty.mails) + len(await requests_of(redis, ZHANG)) == 1
    assert len(empty.finals(here)) == 1 and not empty.cards(here)


async def test_m_killed_as_the_card_is_shown_there_is_one_card(empty: Office, redis: Redis) -> None:
    here = empty.dm(ZHANG)
    async with empty.spawned() as bot:
        empty.killing(bot, lambda: empty.cards(here))
        await empty.says(ZHANG, EXPENSE)
        await bot.child.wait()
    async with empty.opened():
        await empty.quiet()
        [card] = empty.cards(here)
        await empty.press(ZHANG, card, "confirm")
        assert "E-0001" in await final(empty)
    assert await requests_of(redis, ZHANG) == ["E-0001"]


async def test_two_processes_share_the_work_and_one_dies(empty: Office) -> None:
    """Nobody restarts anything: the process that is left takes over what the dead one held."""
    async with empty.opened(), empty.spawned() as other:
        await empty.driver.wait_for_sockets(2)
        people = [ZHANG, LI]
        for _ in range(3):
            for person in people:
                await empty.says(person, LEAVE)
        await empty.until(lambda: keys(empty) and keys(empty, LI))
        await other.kill()
        for person in people:
            await empty.until(lambda person=person: len(empty.finals(empty.dm(person))) == 3)
        await empty.quiet()
    for person in people:
        assert len(empty.finals(empty.dm(person))) == 3 and said_once(empty, person)


async def test_n_stop_while_the_model_thinks_ends_promptly_with_words(empty: Office, redis: Redis) -> None:
    model = Thinking()
    async with empty.opened(model=model):
        await empty.says(ZHANG, EXPENSE)
        await asyncio.wait_for(model.began.wait(), 5)
        await empty.says(ZHANG, "停")
        [stopped] = await empty.until(lambda: [t for t in empty.finals(empty.dm(ZHANG)) if "已停下" in t], 2)
        assert "没有做任何改动" in stopped
        await asyncio.wait_for(model.cancelled.wait(), 1)
        await empty.quiet()
        kinds = await empty.kinds()
        assert "run.stopped" in kinds and not [kind for kind in kinds if kind.startswith(("effect.", "approval."))]
    assert empty.mails == [] and await requests_of(redis, ZHANG) == [] and not empty.cards(empty.dm(ZHANG))


async def test_n_stop_by_slash_command_too(empty: Office) -> None:
    model = Thinking(expense(approver="nobody of that name"))
    async with empty.opened(model=model):
        await empty.says(ZHANG, EXPENSE)
        await asyncio.wait_for(model.began.wait(), 5)
        assert (await empty.driver.run_slash_command(ZHANG, empty.dm(ZHANG), "/countersign", "stop")).ok
        [stopped] = await empty.until(lambda: [t for t in empty.finals(empty.dm(ZHANG)) if "已停下" in t], 2)
        assert "没有做任何改动" in stopped
        await asyncio.wait_for(model.cancelled.wait(), 1)


async def test_n_stop_concerns_what_was_said_before_not_after(empty: Office) -> None:
    """The twin: a message after *stop* is served, and so is another person's."""
    model = Thinking()
    async with empty.opened(model=model):
        await empty.says(ZHANG, EXPENSE)
        await asyncio.wait_for(model.began.wait(), 5)
        await empty.says(LI, "停")
        await empty.until(lambda: empty.finals(empty.dm(LI)))
        assert not model.cancelled.is_set() and not empty.finals(empty.dm(ZHANG)), "Li Si stopped nothing of Zhang San"
        await empty.says(ZHANG, "停")
        await empty.says(ZHANG, "help")
        await empty.until(lambda: [t for t in empty.finals(empty.dm(ZHANG)) if "Countersign" in t], 3)
        assert "已停下" in empty.said(empty.dm(ZHANG))


async def test_n_stop_while_a_step_is_shown_keeps_the_steps_and_changes_nothing(empty: Office) -> None:
    """With the rehearsal model on a real socket, thinking about its second reply."""
    here = empty.dm(ZHANG)
    async with empty.opened(steps="replies"):
        empty.thinking_from_the_first_step_on(ZHANG)
        await empty.says(ZHANG, LEAVE)
        await empty.until(lambda: empty.steps(here))
        await empty.says(ZHANG, "stop")
        [stopped] = await empty.until(lambda: [t for t in empty.finals(here) if "已停下" in t], 2)
        assert "没有做任何改动" in stopped
        assert len(empty.steps(here)) == 1


async def test_sigterm_in_the_middle_of_a_run_it_is_finished_and_answered_once(empty: Office) -> None:
    here = empty.dm(ZHANG)
    async with empty.spawned(STEPS="replies") as bot:
        empty.thinking_from_the_first_step_on(ZHANG)
        await empty.says(ZHANG, LEAVE)
        await empty.until(lambda: empty.steps(here))
        assert not empty.finals(here)
        bot.child.send_signal(signal.SIGTERM)
        empty.answering.set()
        assert await asyncio.wait_for(bot.child.wait(), PATIENCE_S) == 0
    assert len(empty.finals(here)) == 1, "finished before it went"
    async with empty.opened():
        assert "Countersign" in await empty.answer(ZHANG, "help")
        await empty.quiet()
    assert len([t for t in empty.finals(here) if "审批" in t and "Countersign" not in t]) == 1
    assert said_once(empty)


async def test_a_restart_shorter_than_the_run_hands_it_over_and_counts_no_try(empty: Office, redis: Redis) -> None:
    model = Thinking(expense(approver="nobody of that name"))
    async with empty.opened(model=model, tuned={"grace_s": 0.1}):
        await empty.says(ZHANG, EXPENSE)
        await asyncio.wait_for(model.began.wait(), 5)
    assert model.cancelled.is_set() and not empty.finals(empty.dm(ZHANG))
    async with empty.opened(model=ScriptedModel([expense(), ModelReply(text="好的。")])):
        card = await empty.card(empty.dm(ZHANG), "500")
        await empty.press(ZHANG, card, "confirm")
        assert "E-0001" in await final(empty)
        await empty.quiet()
    assert said_once(empty) and await requests_of(redis, ZHANG) == ["E-0001"]
    assert "500" in read_message_text(card)


async def test_handed_over_while_a_post_was_under_way_it_is_not_said_twice(empty: Office) -> None:
    """The answer is in the channel, its writer cut off before it knew: whoever goes on looks before it speaks."""
    async with empty.opened(model=ScriptedModel([ModelReply(text="第一次"), ModelReply(text="第二次")])) as bot:

        def grace_ends(_: WorkspaceChange) -> None:
            if any(":final" in key for key in keys(empty)):
                empty.driver.ws.changes.listeners.remove(grace_ends)
                for held in bot.worker._held.values():
                    assert held.task is not None
                    held.task.cancel()  # as at the end of the grace, at the worst moment

        empty.driver.ws.changes.listeners.append(grace_ends)
        await empty.says(ZHANG, "说一句话")
        await final(empty)
        await empty.quiet()
        [finished] = [record for record in await empty.journal() if record.kind == "run.finished"]
        assert finished
    assert len([key for key in keys(empty) if ":final" in key]) == 1
