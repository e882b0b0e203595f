"""Processes end in the middle of their work: killed, asked to end, told things twice. Nothing is lost or doubled."""

import pytest
from redis.asyncio import Redis

from tests.harness.office import ZHANG, Office, office, read_message_key
from tests.stories.behind import final
from tests.stories.script import requests_of

EXPENSE = "报销差旅费 500 元，审批人李四"
LEAVE = "我想请假"


def keys(office: Office, person: str = ZHANG) -> list[str]:
    """List the keys of all the bot's posts in a DM, in order."""
    return [read_message_key(message) for message in office.posts(office.dm(person))]


def said_once(office: Office, person: str = ZHANG) -> bool:
    return len(keys(office, person)) == len(set(keys(office, person)))


def deliveries(office: Office, event: str) -> int:
    """Count the platform's deliveries of an event."""
    return len([one for one in office.driver.sent_envelopes if one["payload"].get("event_id") == event])


async def test_l_the_same_event_delivered_three_times_is_answered_once(desk: Office) -> None:
    desk.driver.hold_next_acks()
    assert "表单" in await desk.answer(ZHANG, LEAVE)
    [event] = [one["event_id"] for one in desk.driver.events if one["event"].get("user") == ZHANG]
    await desk.until(lambda: deliveries(desk, event) == 2)
    desk.driver.redeliver_event(event)
    await desk.until(lambda: deliveries(desk, event) == 3)
    assert "Countersign" in await desk.answer(ZHANG, "help"), "what comes later in the lane is served"
    await desk.quiet()
    answers = [text for text in desk.finals(desk.dm(ZHANG)) if "表单" in text and "Countersign" not in text]
    assert len(answers) == 1 and said_once(desk)
    assert (await desk.kinds()).count("run.finished") == 1


NEVER_FRESH = """
from bot.core.timing import Timing
Timing.__init__.__kwdefaults__["person_max_age_s"] = 0.0
from bot.ops.cli import main
main()
"""


def lookups(desk: Office) -> int:
    """Count the platform's look-ups of the presser."""
    return sum(one.method == "users.info" and ZHANG in one.args.values() for one in desk.driver.calls)


@pytest.mark.slow
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
        assert "表单" in await final(empty)
        await empty.quiet()
        assert (await empty.kinds()).count("run.finished") == 1
    assert len(empty.finals(empty.dm(ZHANG))) == 1 and said_once(empty)


async def test_m_killed_as_soon_as_the_event_was_acknowledged_answered_once(valkey: str) -> None:
    """The model is still thinking, so nothing was said yet: an acknowledged message must be in Redis, or it is lost."""
    async with office(valkey) as slow:
        slow.answering.clear()
        async with slow.spawned() as bot:
            await slow.says(ZHANG, LEAVE)
            await slow.until(lambda: slow.driver.acks)
            await bot.kill()
        assert slow.posts(slow.dm(ZHANG)) == []
        slow.answering.set()
        async with slow.opened():
            assert "表单" in await final(slow)
            await slow.quiet()
        assert len(slow.finals(slow.dm(ZHANG))) == 1 and said_once(slow)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "choice"),
    [("给李四发邮件，主题 项目进度，内容 请看一下进度", "send"), (EXPENSE, "confirm")],
    ids=["mail", "engine"],
)
async def test_m_killed_between_the_decision_and_the_effect_it_happens_once(
    empty: Office, redis: Redis, text: str, choice: str
) -> None:
    """The press is decided, but the effect not begun: the next process runs it once and says nothing more. The presser
    is looked up again before the effect; that look-up is slow here."""
    here = empty.dm(ZHANG)
    async with empty.spawned(NEVER_FRESH) as bot:
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
