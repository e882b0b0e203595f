"""Counters on one server and on a cluster, where a person's are on several machines."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from redis.asyncio import Redis

from bot.core.clock import Clock
from bot.core.run_state import DECIMALS, Usage
from bot.queue.keys import Keys
from bot.queue.writes import apply_writes
from bot.storage.history import HistoryStore
from bot.storage.runs import RunStore
from bot.storage.spending import RETENTION_DAYS, DailyUsage, UsageRow, UsageStore

SPENT = [Usage("a", 90, 5, 10, Decimal("0.0001"), "USD")]
LANES = [f"T1:C{n}" for n in range(12)]


async def test_what_a_person_used_in_several_conversations_adds_up(either: Redis) -> None:
    keys = Keys()
    spending = UsageStore(either, keys, clock=Clock(read_now=lambda: datetime(2026, 11, 20, tzinfo=UTC)))
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


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


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
    assert dict(write.amounts) == {
        "U1\ta\truns": 1,
        "U1\ta\treplies": 2,
        "U1\ta\tin": 99,
        "U1\ta\tcached": 5,
        "U1\ta\tout": 11,
        "U1\ta\tcost:USD": unit // 10_000,
        "U1\ta\tcost:CNY": unit // 2,
        "U1\tunknown\treplies": 1,
        "U1\tunknown\tin": 7,
        "U1\tunknown\tout": 3,
        "U1\tunknown\tunpriced": 10,
        "U1\tfree\treplies": 1,
        "U1\tfree\tin": 4,
        "U1\t\ttokens": 124,
        "U1\t\tcost:USD": unit // 10_000,
        "U1\t\tcost:CNY": unit // 2,
    }
    assert write.ttl_ms == RETENTION_DAYS * 24 * 3_600_000
    [later] = store.build_usage_writes("D1", "U1", used)
    assert {"U1\ta\truns": 1, **later.amounts} == write.amounts != later.amounts, "a run begins once"
    await store.record_usage("U1", used)
    [key] = [key async for key in redis.scan_iter("*:spent:*")]
    assert RETENTION_DAYS - 1 < await redis.pttl(key) / 86_400_000 <= RETENTION_DAYS
    await store.record_usage("U2", used[2:3])
    rows = await store.list_usage_rows(1)
    assert [(one.person, one.model, one.runs, one.unpriced) for one in rows] == [
        ("U1", "a", 0, 0),
        ("U1", "free", 0, 0),
        ("U1", "unknown", 0, 10),
        ("U2", "unknown", 0, 10),
    ]
    costs = {"USD": Decimal("0.0001"), "CNY": Decimal("0.5")}
    day = NOON.date()
    assert rows[0] == UsageRow(day, "U1", "a", 0, 2, tokens_in=99, cached=5, tokens_out=11, costs=costs)
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
        ("Europe/Berlin", "2026-10-25T12:00", "2026-10-25", "2026-10-25T23:00"),
    ):
        now = datetime.fromisoformat(f"{at}+00:00")
        store = UsageStore(Redis(), Keys(), Clock(read_now=lambda now=now: now), ZoneInfo(zone))
        assert store.get_company_day().isoformat() == day
        assert store.get_next_day_start() == datetime.fromisoformat(f"{renewed}+00:00")
        assert store.get_next_day_start().tzinfo is UTC
