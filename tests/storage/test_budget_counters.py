"""What the model was used for is counted once, whatever dies and is done again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.agent.model import MeteredModel, ModelReply
from bot.core.clock import Clock
from bot.core.errors import ModelUnavailableError
from bot.core.records import Run
from bot.core.run_state import Usage
from bot.queue.keys import Keys
from bot.queue.writes import HIncrBy
from bot.storage.spending import SYSTEM, UsageRow, UsageStore
from tests.harness.budget import ELSEWHERE, PRICES, took
from tests.harness.memory_bot import Bot, every_edge
from tests.harness.memory_platform import DM, Edges
from tests.harness.scripted_model import Scripted
from tests.stories.script import DONE, calls, mail
from tests.tools.office import SICK

LOOK = calls(("list_people", {"name": "李"}))


async def rows(bot: Bot) -> list[UsageRow]:
    return await bot.usage.list_usage_rows(3)


async def every_run(bot: Bot) -> list[Run]:
    names = [str(key) async for key in bot.redis.scan_iter("*:run:*")]
    found = [await bot.runs.load_run(name.split(":")[3]) for name in names if not name.endswith(":m")]
    return [run for run in found if run is not None]


def total(found: Iterable[UsageRow], person: str = "") -> tuple[int, int, int, int, Decimal]:
    """Tokens in, cached and out, tokens without a price, and money."""
    mine = [row for row in found if person in ("", row.person)]
    money = sum((cost for row in mine for cost in row.costs.values()), Decimal(0))
    return (
        sum(row.tokens_in for row in mine), sum(row.cached for row in mine), sum(row.tokens_out for row in mine),
        sum(row.unpriced for row in mine), money,
    )  # fmt: skip


def kept(runs: Iterable[Run]) -> tuple[int, int, int, int, Decimal]:
    """The same, as the runs themselves have it."""
    traces = [run.state for run in runs]
    return (
        sum(one.tokens_in for one in traces), sum(one.tokens_cached for one in traces),
        sum(one.tokens_out for one in traces), sum(one.unpriced for one in traces),
        sum((one.cost for one in traces), Decimal(0)),
    )  # fmt: skip


async def test_it_is_counted_by_person_model_and_day_and_a_run_says_what_it_cost(redis: Redis) -> None:
    script = [took(LOOK, 1000, 400, 20), took(DONE, 2000, 0, 30, "b"), took(DONE, 7, 0, 3, "local")]
    bot = Bot(redis, script, prices=PRICES)
    await bot.send("谁")
    bot.now_offset = timedelta(days=1)
    await bot.send("你好", person="U2", id="Ev2", place=ELSEWHERE)
    first, second = bot.now().date() - timedelta(days=1), bot.now().date()
    assert await rows(bot) == [
        UsageRow(first, "U1", "a", 1, 1, 1000, 400, 20, 0, {"USD": Decimal("0.0002")}),
        UsageRow(first, "U1", "b", 0, 1, 2000, 0, 30, 0, {"USD": Decimal("0.00209")}),
        UsageRow(second, "U2", "local", 1, 1, 7, 0, 3, 10, {}),
    ]
    assert [row.day for row in await bot.usage.list_usage_rows(1)] == [second]
    ends = [one.more async for one in bot.journal.stream_records(kinds=["run.finished"])]
    assert [(one["model"], one.get("cost"), one.get("currency")) for one in ends] == [
        ("b", "0.00229", "USD"),
        ("local", None, None),
    ], "what has no price is not called free"
    assert ends[1]["unpriced"] == 10 and (ends[0]["tokens_in"], ends[0]["cached"]) == (3_000, 400)


async def test_replies_that_could_not_be_used_are_counted_too(redis: Redis) -> None:
    empty = took(ModelReply(finish="length", text="{"), 50, 0, 5)
    bot = Bot(redis, [empty, ModelUnavailableError("away"), took(DONE)], prices=PRICES)
    await bot.send("你好")
    assert total(await rows(bot))[:3] == (150, 0, 15)


async def test_a_suggestion_is_on_nobodys_account(redis: Redis) -> None:
    usable = took(ModelReply('{"recommendation": "approve", "reasons": ["好"]}'), 300, 0, 7)
    for advice in (usable, took(ModelReply("nonsense"), 300, 0, 7)):
        await redis.flushall()
        bot = Bot(redis, suggestions=[advice], prices=PRICES)
        await bot.start_request("leave", SICK, "U1", "start")
        [row] = await rows(bot)
        assert (row.person, row.runs, row.replies, row.tokens_in) == (SYSTEM, 0, 1, 300)


async def test_a_suggestion_is_counted_once_wherever_its_process_dies(redis: Redis) -> None:
    async def play(edges: Edges) -> None:
        await redis.flushall()
        bot = Bot(
            redis, suggestions=[took(ModelReply('{"recommendation": "approve", "reasons": ["好"]}'))] * 9, prices=PRICES
        )
        await bot.engine.start_request("leave", SICK, "U1", "start", bot.today())
        edges.passed = 0
        bot.end_at(edges)
        await bot.work()
        shown = [one for one in bot.chat.cards("DU2") if "AI" in str(one.facts)]
        counted = sum(row.replies for row in await rows(bot))
        assert len(shown) <= counted <= 1, "asked again after a crash, what came of the first time is in no record"

    assert await every_edge(play) > 3


async def test_what_is_asked_outside_of_lanes_is_counted(redis: Redis) -> None:
    bot = Bot(redis, [took(DONE), took(DONE)], prices=PRICES)
    asked = MeteredModel(bot.model)
    for _ in range(2):
        await asked.request_reply(["{}"], "", timeout_s=1)
    await bot.usage.record_usage(SYSTEM, [PRICES.compute_usage(one) for one in asked.replies])
    await bot.usage.record_usage(SYSTEM, [])
    assert [(row.person, row.replies, row.tokens_in) for row in await rows(bot)] == [(SYSTEM, 2, 200)]


# Once


@dataclass
class Careless:
    """The negative control: counts a reply as it comes, not with what it was for."""

    bot: Bot
    model: Any = field(init=False)

    def __post_init__(self) -> None:
        self.model = self.bot.model

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        reply: ModelReply = await self.model.request_reply(messages, extra, timeout_s=timeout_s)
        spending = UsageStore(self.bot.redis, self.bot.keys, clock=self.bot.clock)
        await spending.record_usage("U1", [self.bot.handlers.turns.loop.model.prices.compute_usage(reply)])
        return reply


class Uncounting(UsageStore):
    def build_usage_writes(
        self, lane: str, person: str, spent: Iterable[Usage], *, begun: bool = False
    ) -> tuple[HIncrBy, ...]:
        return ()


async def told(redis: Redis, script: Sequence[Scripted], edges: Edges, *, careless: bool = False) -> Bot:
    """Two people in two conversations; what can be sent is sent."""
    await redis.flushall()
    bot = Bot(redis, script, prices=PRICES)
    bot.end_at(edges)
    if careless:
        turns = bot.handlers.turns
        stores = replace(turns.stores, spending=Uncounting(redis, bot.keys, bot.clock))
        bot.replace_handlers(turns=replace(turns, stores=stores))
        bot.use_model(Careless(bot))
    await bot.put_message("给李四发邮件")
    await bot.send("你好", person="U2", id="Ev2", place=ELSEWHERE)
    for person, channel in (("U1", DM.channel), ("U2", "DU2")):
        for card in bot.chat.cards(channel):
            await bot.press(card, "send", person=person)
    return bot


async def judged(bot: Bot) -> bool:
    """What is counted is what the runs have: no reply twice, none left out."""
    return total(await rows(bot)) == kept(await every_run(bot))


STORY = [
    took(LOOK, 11, 1, 1),
    took(mail(), 13, 2, 2, "b"),
    took(DONE, 17, 3, 3),
    took(DONE, 19, 4, 4, "local"),
    took(DONE, 23),
]


async def test_killed_anywhere_every_reply_is_counted_once(redis: Redis) -> None:
    async def play(edges: Edges) -> None:
        assert await judged(await told(redis, STORY, edges))

    assert await every_edge(play) > 12


async def test_unharmed_all_that_was_asked_is_counted(redis: Redis) -> None:
    bot = await told(redis, STORY[:4], Edges())
    assert len({bot.keys.get_partition(one.conversation) for one in (DM, ELSEWHERE)}) == 2, "or it proves less"
    assert total(await rows(bot))[:4] == (60, 10, 10, 23) and sum(row.runs for row in await rows(bot)) == 2


@pytest.mark.slow
async def test_negative_control_counted_outside_of_the_commit_a_crash_is_found(redis: Redis) -> None:
    verdicts: list[bool] = []

    async def play(edges: Edges) -> None:
        verdicts.append(await judged(await told(redis, STORY, edges, careless=True)))

    await every_edge(play)
    assert verdicts[-1], "unharmed it would not be noticed"
    assert not all(verdicts)


async def test_a_counter_that_is_full_spoils_nothing(redis: Redis, keys: Keys) -> None:
    spending = UsageStore(redis, keys, clock=Clock(read_now=lambda: datetime(2026, 11, 20, tzinfo=UTC)))
    huge = Usage("a", 2**63 - 1, 0, 0, None)
    for _ in range(2):
        await spending.record_usage("U1", [huge])
    [row] = await spending.list_usage_rows(1)
    assert row.tokens_in == 2**63 - 1 and row.replies == 2
