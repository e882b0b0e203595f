"""What the model was used for is counted once, whatever dies and is done again; on one server, and on a cluster, where
a person's counters are on several machines."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from redis.asyncio import Redis

from bot.agent.model import MeteredModel, ModelReply
from bot.core.clock import Clock
from bot.core.errors import ModelUnavailableError
from bot.core.records import Run
from bot.core.run_state import DECIMALS, Usage
from bot.queue.keys import Keys
from bot.queue.writes import HIncrBy, apply_writes
from bot.storage.history import HistoryStore
from bot.storage.runs import RunStore
from bot.storage.spending import RETENTION_DAYS, SYSTEM, DailyUsage, UsageRow, UsageStore
from tests.harness.budget import ELSEWHERE, PRICES, took
from tests.harness.memory_bot import Bot, every_edge
from tests.harness.memory_platform import DM
from tests.harness.presses import everywhere
from tests.stories.script import DONE, calls, mail
from tests.tools.office import SICK

LOOK = calls(("list_people", {"name": "李"}))
APPROVE = took(ModelReply('{"recommendation": "approve", "reasons": ["好"]}'), 300, 0, 7)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SPENT = [Usage("a", 90, 5, 10, Decimal("0.0001"), "USD")]
LANES = [f"T1:C{n}" for n in range(12)]


async def test_what_a_person_used_in_several_conversations_adds_up(either: Redis) -> None:
    keys = Keys()
    spending = UsageStore(either, keys, Clock(read_now=lambda: NOON))
    for lane in LANES:
        counts = spending.build_usage_writes(lane, "U1", SPENT, begun=True)
        await apply_writes(either, keys, keys.get_partition(lane), counts)
    assert len({keys.get_partition(lane) for lane in LANES}) > 4, "or it proves less"
    assert await spending.load_daily_usage("U1", "USD") == DailyUsage(1200, Decimal("0.0012"))
    runs, history = RunStore(either, keys), HistoryStore(either, keys)
    assert (await runs.load_conversation(LANES[0], history, "R00nothing12345")).run is None
    assert (await runs.load_conversation(LANES[0], history)).run is None
    [row] = await spending.list_usage_rows(2)
    assert (row.runs, row.replies, row.tokens_in, row.costs) == (12, 12, 1080, {"USD": Decimal("0.0012")})


def open_store(redis: Redis, at: datetime = NOON, zone: str = "UTC") -> UsageStore:
    return UsageStore(redis, Keys(partitions=2), Clock(read_now=lambda: at), ZoneInfo(zone))


async def test_what_is_counted_of_replies_and_nothing_of_none(redis: Redis) -> None:
    store = open_store(redis)
    used = [
        Usage("a", 90, 5, 10, Decimal("0.0001"), "USD"),
        Usage("a", 9, 0, 1, Decimal("0.5"), "CNY"),
        Usage("", 7, 0, 3, None, "USD"),
        Usage("free", 4, 0, 0, Decimal(0), "USD"),
    ]
    assert store.build_usage_writes("D1", "U1", []) == ()
    [write] = store.build_usage_writes("D1", "U1", used, begun=True)
    unit = 10**DECIMALS
    costs = {"cost:USD": unit // 10_000, "cost:CNY": unit // 2}
    counted = {
        "a": {"runs": 1, "replies": 2, "in": 99, "cached": 5, "out": 11, **costs},
        "unknown": {"replies": 1, "in": 7, "out": 3, "unpriced": 10},
        "free": {"replies": 1, "in": 4},
        "": {"tokens": 124, **costs},
    }
    assert dict(write.amounts) == {f"U1\t{of}\t{name}": n for of, named in counted.items() for name, n in named.items()}
    assert write.ttl_ms == RETENTION_DAYS * 24 * 3_600_000
    [later] = store.build_usage_writes("D1", "U1", used)
    assert {"U1\ta\truns": 1, **later.amounts} == write.amounts != later.amounts, "a run begins once"
    await store.record_usage("U1", used)
    [key] = [key async for key in redis.scan_iter("*:spent:*")]
    assert RETENTION_DAYS - 1 < await redis.pttl(key) / 86_400_000 <= RETENTION_DAYS
    await store.record_usage("U2", used[2:3])
    rows = await store.list_usage_rows(1)
    assert [f"{one.person} {one.model} {one.runs} {one.unpriced}" for one in rows] == [
        *("U1 a 0 0", "U1 free 0 0", "U1 unknown 0 10", "U2 unknown 0 10"),
    ]
    money = {"USD": Decimal("0.0001"), "CNY": Decimal("0.5")}
    assert rows[0] == UsageRow(NOON.date(), "U1", "a", 0, 2, tokens_in=99, cached=5, tokens_out=11, costs=money)
    assert await store.load_daily_usage("U1", "CNY") == DailyUsage(124, Decimal("0.5"))
    assert await store.load_daily_usage("U3", "CNY") == DailyUsage()


async def test_days_are_listed_back_from_today_and_no_further_than_they_are_kept(redis: Redis) -> None:
    for ago in (0, 1, RETENTION_DAYS - 1, RETENTION_DAYS):
        await open_store(redis, NOON - timedelta(days=ago)).record_usage("U1", SPENT)
    store = open_store(redis)
    for days, found in ((0, 0), (1, 1), (2, 2), (RETENTION_DAYS - 1, 2), (RETENTION_DAYS, 3), (RETENTION_DAYS + 1, 3)):
        assert len(await store.list_usage_rows(days)) == found
    assert [one.day for one in await store.list_usage_rows(2)] == [NOON.date() - timedelta(days=1), NOON.date()]


def test_a_day_is_over_at_the_companys_midnight() -> None:
    for zone, at, day, renewed in (
        ("UTC", "2026-11-20T23:00", "2026-11-20", "2026-11-21T00:00"),
        ("Asia/Shanghai", "2026-11-20T15:59:59", "2026-11-20", "2026-11-20T16:00"),
        ("Asia/Shanghai", "2026-11-20T16:00", "2026-11-21", "2026-11-21T16:00"),
        ("Europe/Berlin", "2026-03-28T22:59", "2026-03-28", "2026-03-28T23:00"),
        ("Europe/Berlin", "2026-03-28T23:00", "2026-03-29", "2026-03-29T22:00"),  # a day of 23 hours
        ("Europe/Berlin", "2026-10-25T22:59", "2026-10-25", "2026-10-25T23:00"),  # a day of 25 hours
        ("Europe/Berlin", "2026-12-31T22:59", "2026-12-31", "2026-12-31T23:00"),
        ("Europe/Berlin", "2026-12-31T23:00", "2027-01-01", "2027-01-01T23:00"),
    ):
        now = datetime.fromisoformat(f"{at}+00:00")
        store = UsageStore(Redis(), Keys(), Clock(read_now=lambda now=now: now), ZoneInfo(zone))
        assert store.get_company_day().isoformat() == day
        assert store.get_next_day_start() == datetime.fromisoformat(f"{renewed}+00:00")
        assert store.get_next_day_start().tzinfo is UTC


async def test_a_counter_that_is_full_spoils_nothing(redis: Redis) -> None:
    spending = open_store(redis)
    for _ in range(2):
        await spending.record_usage("U1", [Usage("a", 2**63 - 1, 0, 0, None)])
    [row] = await spending.list_usage_rows(1)
    assert row.tokens_in == 2**63 - 1 and row.replies == 2


# A whole bot


async def rows(bot: Bot) -> list[UsageRow]:
    return await bot.usage.list_usage_rows(3)


async def every_run(bot: Bot) -> list[Run]:
    names = [str(key) async for key in bot.redis.scan_iter("*:run:*")]
    found = [await bot.runs.load_run(name.split(":")[3]) for name in names if not name.endswith(":m")]
    return [run for run in found if run is not None]


def total(rows: Sequence[UsageRow]) -> tuple[Decimal, ...]:
    """Tokens in, cached and out, tokens without a price, and money."""
    figures = add_up(rows, "tokens_in", "cached", "tokens_out", "unpriced")
    return (*figures, sum((cost for row in rows for cost in row.costs.values()), Decimal(0)))


def add_up(found: Sequence[Any], *names: str) -> tuple[Decimal, ...]:
    return tuple(sum((getattr(one, name) for one in found), Decimal(0)) for name in names)


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
    costs = [(one["model"], one.get("cost"), one.get("currency")) for one in ends]
    assert costs == [("b", "0.00229", "USD"), ("local", None, None)], "what has no price is not called free"
    assert ends[1]["unpriced"] == 10 and (ends[0]["tokens_in"], ends[0]["cached"]) == (3_000, 400)


async def test_replies_that_could_not_be_used_are_counted_too(redis: Redis) -> None:
    empty = took(ModelReply(finish="length", text="{"), 50, 0, 5)
    bot = Bot(redis, [empty, ModelUnavailableError("away"), took(DONE)], prices=PRICES)
    await bot.send("你好")
    assert total(await rows(bot))[:3] == (150, 0, 15)


async def test_a_suggestion_is_on_nobodys_account(redis: Redis) -> None:
    for advice in (APPROVE, took(ModelReply("nonsense"), 300, 0, 7)):
        await redis.flushall()
        bot = Bot(redis, suggestions=[advice], prices=PRICES)
        await bot.start_request("leave", SICK, "U1", "start")
        [row] = await rows(bot)
        assert (row.person, row.runs, row.replies, row.tokens_in) == (SYSTEM, 0, 1, 300)


async def test_a_suggestion_is_counted_once_wherever_its_process_dies(redis: Redis) -> None:
    async for edges in every_edge(redis, more_than=3):
        bot = Bot(redis, suggestions=[APPROVE] * 9, prices=PRICES)
        await bot.engine.start_request("leave", SICK, "U1", "start", bot.today())
        edges.passed = 0
        bot.end_at(edges)
        await bot.work()
        shown = [one for one in bot.chat.cards("DU2") if "AI" in str(one.facts)]
        counted = sum(row.replies for row in await rows(bot))
        assert len(shown) <= counted <= 1, "asked again after a crash, what came of the first time is in no record"


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
    def build_usage_writes(self, *about: Any, **more: Any) -> tuple[HIncrBy, ...]:
        return ()


async def told(bot: Bot, *, careless: bool = False) -> Bot:
    """Two people in two conversations; what can be sent is sent."""
    if careless:
        turns = bot.handlers.turns
        stores = replace(turns.stores, spending=Uncounting(bot.redis, bot.keys, bot.clock))
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
    runs = [run.state for run in await every_run(bot)]
    return total(await rows(bot)) == add_up(runs, "tokens_in", "tokens_cached", "tokens_out", "unpriced", "cost")


STORY = [
    *(took(LOOK, 11, 1, 1), took(mail(), 13, 2, 2, "b"), took(DONE, 17, 3, 3)),
    *(took(DONE, 19, 4, 4, "local"), took(DONE, 23)),
]


async def test_killed_anywhere_every_reply_is_counted_once(redis: Redis) -> None:
    async for bot in everywhere(redis, lambda: Bot(redis, STORY, prices=PRICES), more_than=12):
        assert await judged(await told(bot))


async def test_unharmed_all_that_was_asked_is_counted(redis: Redis) -> None:
    bot = await told(Bot(redis, STORY[:4], prices=PRICES))
    assert len({bot.keys.get_partition(one.conversation) for one in (DM, ELSEWHERE)}) == 2, "or it proves less"
    assert total(await rows(bot))[:4] == (60, 10, 10, 23) and sum(row.runs for row in await rows(bot)) == 2


@pytest.mark.slow
async def test_negative_control_counted_outside_of_the_commit_a_crash_is_found(redis: Redis) -> None:
    bots = everywhere(redis, lambda: Bot(redis, STORY, prices=PRICES))
    verdicts = [await judged(await told(bot, careless=True)) async for bot in bots]
    assert verdicts[-1], "unharmed it would not be noticed"
    assert not all(verdicts)
