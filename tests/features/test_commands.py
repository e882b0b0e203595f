"""One's own tasks and those one stands in for: the same on the command and on the page, bounded, and counted."""

from datetime import timedelta
from functools import partial

import pytest
from redis.asyncio import Redis

from bot.agent.model import ModelReply
from bot.chat.messages import HomeView, Message
from bot.features.commands import LISTED
from bot.features.home.page import PAGE
from tests.harness.memory_bot import TODAY, Bot
from tests.harness.memory_platform import DM
from tests.tools.office import SICK, TAXI, decide, withdraw
from tools.workflow.engine.state import Decision, Delegation

DAY = timedelta(days=1)


async def waiting(redis: Redis, expenses: int = 0) -> Bot:
    """A leave, and some expenses, that wait for Li Si; Lin stands in for him."""
    bot = Bot(redis)
    await bot.engine.start_request("leave", SICK, "U1", "leave", bot.today())
    for n in range(expenses):
        await bot.engine.start_request("expense", TAXI, "U1", f"taxi {n}", bot.today())
    standing = Delegation(id="D1", person="U2", deputy="U5", start=TODAY - DAY, end=TODAY + DAY)
    await bot.engine.add_delegation(standing, bot.today())
    return bot


async def told(bot: Bot, person: str, words: str = "待办") -> str:
    caller = await bot.directory.find_caller(person)
    message = Message(id="E1", place=DM, person=person, text=words, at="1.0")
    load = partial(bot.runs.load_conversation, DM.conversation, bot.history)
    said = await bot.handlers.features.answer_command(message, caller, load)
    return said.text


async def page(bot: Bot, person: str) -> HomeView:
    return await bot.ingress.features.home.builder.build_home(person)


async def test_tasks_of_others_say_for_whom_and_are_gone_when_the_time_away_is_over(redis: Redis) -> None:
    bot = await waiting(redis)
    assert "代" not in await told(bot, "U2")
    assert "(task L-0001-1, for Li Si)" in await told(bot, "U5", "tasks")
    [entry] = (await page(bot, "U5")).sections[0].entries
    assert "for Li Si" in entry.card.footer, "its card is on its way"
    assert ["代" in one.card.footer for one in (await page(bot, "U2")).sections[0].entries] == [False]
    await bot.work()
    [entry] = (await page(bot, "U5")).sections[0].entries
    assert "Li Si is away, so you decide" in entry.card.footer[0]
    bot.today_offset = 2 * DAY
    assert await told(bot, "U5", "tasks") == "Nothing waits for you."


@pytest.mark.parametrize(("person", "more"), [("U2", "还有 3 项"), ("U5", "And 3 more")])
async def test_many_are_bounded_and_the_rest_is_counted(redis: Redis, person: str, more: str) -> None:
    bot = await waiting(redis, expenses=LISTED + 2)
    text = await told(bot, person, "tasks")
    assert text.count("\n- ") == LISTED and more in text
    tasks = (await page(bot, person)).sections[0]
    assert len(tasks.entries) == PAGE + 1 and str(LISTED + 3) in tasks.note
    assert tasks.entries[0].card.buttons, "and all can be decided at once"


@pytest.mark.parametrize(("decision", "word"), [("approve", "同意"), ("reject", "驳回"), ("return", "退回")])
async def test_what_was_decided_is_listed_however_it_was(redis: Redis, decision: str, word: str) -> None:
    bot = Bot(redis)
    await bot.engine.start_request("leave", SICK, "U1", "start", bot.today())
    await decide(bot.engine, "L-0001-1", "U2", Decision(decision), "看过了")
    assert (await told(bot, "U2", "已办")).endswith(word)
    if decision == "approve":
        await withdraw(bot.engine, "L-0001", "U1")
        await decide(bot.engine, "L-0001-2", "U2", Decision.APPROVE)
        assert any(line.endswith("同意撤回") for line in (await told(bot, "U2", "已办")).splitlines())


async def test_many_decisions_are_bounded_the_newest_first(redis: Redis) -> None:
    bot = Bot(redis)
    for n in range(LISTED + 2):
        await bot.engine.start_request("expense", TAXI, "U1", f"taxi {n}", bot.today())
        await decide(bot.engine, f"E-{n + 1:04}-1", "U2", Decision.APPROVE)
    lines = (await told(bot, "U2", "已办")).splitlines()
    assert [line[2:8] for line in lines[1:-1]] == [f"E-{n:04}" for n in range(LISTED + 2, 2, -1)]
    assert "还有 2 项更早的" in lines[-1]


async def test_own_requests_say_who_has_them_and_since_when_the_newest_first(redis: Redis) -> None:
    bot = Bot(redis)
    for n in range(LISTED + 2):
        bot.today_offset = timedelta(minutes=n)
        await bot.engine.start_request("expense", TAXI, "U1", f"taxi {n}", bot.today())
    await decide(bot.engine, f"E-{LISTED + 2:04}-1", "U2", Decision.APPROVE)
    lines = (await told(bot, "U1", "申请")).splitlines()
    assert [line[2:8] for line in lines[1:-1]] == [f"E-{n:04}" for n in range(LISTED + 2, 2, -1)]
    assert " · 已通过 · " in lines[1] and "处，" not in lines[1], "nobody has it any more"
    assert lines[2].endswith(f"在李四处，2026-11-20 10:{LISTED} 起")
    assert "还有 2 个更早的申请" in lines[-1]


async def test_history_shows_what_people_wrote_as_they_wrote_it(redis: Redis) -> None:
    bot = Bot(redis, [ModelReply(text="**9336**")])
    await bot.send("750*12 + 0.5*8 等于_多少_")
    await bot.send("history", id="Ev2")
    told = bot.chat.texts()[-1]
    assert r"750\*12 + 0.5\*8 等于\_多少\_" in told and "**9336**" in told, "an answer keeps its formatting"
