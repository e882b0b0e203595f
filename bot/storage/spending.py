"""Usage of the model: replies, tokens and cost, by person, model and day.

The script that stores the result of a reply (a run's checkpoint or an item's commit) also adds to the counters. So a
reply is counted once, however often its work is retried. If the process dies before that, the reply is in no record and
is requested again: the provider's bill exceeds ours by at most one reply per crash or interrupted call.

A person's conversations are in several partitions, and a script writes only one. So each partition has its own
counters, one hash per day, and a reader adds them up. A day is the company's, in the company's time zone, wherever the
person is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from redis.asyncio import Redis

from bot.core import metrics
from bot.core.clock import Clock
from bot.core.run_state import DECIMALS, Usage
from bot.queue.keys import Keys
from bot.queue.writes import HIncrBy, apply_writes

RETENTION_DAYS = 92
SYSTEM = "system"
"""The account for requests without a person: suggestions on cards, summaries, the test of the model's abilities at the
start."""
UNKNOWN = "unknown"
"""The name of a model without a name."""
TOTAL = ""
"""The name for all models together. A budget check reads two fields."""
COST = "cost:"
"""The prefix of a cost counter, before the currency: a price table in another currency begins its own counter."""
FIGURES = ("runs", "replies", "in", "cached", "out", "unpriced")
_TAB = "\t"


@dataclass(frozen=True, slots=True)
class DailyUsage:
    """One person's usage on one day."""

    tokens: int = 0
    """Tokens in and out."""
    cost: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One person's usage of one model on one day."""

    day: date
    person: str
    """A person id, or `system`."""
    model: str
    runs: int = 0
    """Number of runs in which this model answered first."""
    replies: int = 0
    tokens_in: int = 0
    cached: int = 0
    """Part of `tokens_in`."""
    tokens_out: int = 0
    unpriced: int = 0
    """Tokens, in and out, without a known price."""
    costs: Mapping[str, Decimal] = field(default_factory=dict)
    """Currency → cost."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The counts of features, by name (`UsageStore.build_count_writes`)."""


@dataclass(frozen=True, slots=True)
class UsageStore:
    redis: Redis
    keys: Keys
    clock: Clock
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    """The company's time zone."""

    def build_usage_writes(
        self, lane: str, person: str, usage: Iterable[Usage], *, begun: bool = False
    ) -> tuple[HIncrBy, ...]:
        """Build the write that adds up replies, in the partition of a lane; empty for no replies. `begun`: a run begins
        with the first of them. Each reply counts for its model and for all models, without zeros."""
        amounts: defaultdict[str, int] = defaultdict(int)
        for reply in usage:
            is_first = begun and not amounts
            tokens, cost, model = reply.tokens_in + reply.tokens_out, COST + reply.currency, reply.model or UNKNOWN
            for kind, amount in (("in", reply.tokens_in), ("cached", reply.tokens_cached), ("out", reply.tokens_out)):
                metrics.TOKENS.labels(model, kind).inc(amount)
            if reply.cost is None:
                metrics.UNPRICED_TOKENS.labels(model).inc(tokens)
                unpriced, units = tokens, 0
            else:
                metrics.COSTS.labels(model, reply.currency).inc(float(reply.cost))
                unpriced, units = 0, int(reply.cost.scaleb(DECIMALS))
            of_it, of_all = _build_counter_field(person, model, ""), _build_counter_field(person, TOTAL, "")
            figures = (is_first, 1, reply.tokens_in, reply.tokens_cached, reply.tokens_out, unpriced, units)
            for figure, amount in zip((*FIGURES, cost), figures, strict=True):
                if amount:
                    amounts[of_it + figure] += int(amount)
            amounts[of_all + "tokens"] += tokens
            if units:
                amounts[of_all + cost] += units
        if not amounts:
            return ()
        key = self._build_day_key(self.keys.get_partition(lane), self.get_company_day())
        return (HIncrBy(key, amounts, ttl_ms=RETENTION_DAYS * 24 * 3_600_000),)

    def build_count_writes(
        self, lane: str, person: str, model: str, counted: Iterable[tuple[date, str, int]]
    ) -> list[HIncrBy]:
        """Build the writes of a feature's counts for a person and a model: (day, name, amount). The sentence
        `counted.<name>` is the title of their column in `countersign usage`."""
        return [
            HIncrBy(
                self._build_day_key(self.keys.get_partition(lane), day),
                {_build_counter_field(person, model or UNKNOWN, name): amount},
                ttl_ms=RETENTION_DAYS * 24 * 3_600_000,
            )
            for day, name, amount in counted
        ]

    async def record_usage(self, person: str, usage: Sequence[Usage]) -> None:
        """Count replies that belong to no lane. Raises StoreUnavailableError."""
        await apply_writes(
            self.redis, self.keys, self.keys.get_partition(person), self.build_usage_writes(person, person, usage)
        )

    async def load_daily_usage(self, person: str, currency: str) -> DailyUsage:
        """Load one person's usage of today. Raises StoreUnavailableError."""
        fields = [_build_counter_field(person, TOTAL, what) for what in ("tokens", COST + currency)]
        async with self.redis.pipeline(transaction=False) as pipe:
            for key in self._list_day_keys(self.get_company_day()):
                pipe.hmget(key, fields)
            answers: list[Any] = await pipe.execute()
        tokens, cost = (sum(int(found or 0) for found in column) for column in zip(*answers, strict=True))
        return DailyUsage(tokens, _from_cost_units(cost))

    def get_company_day(self) -> date:
        """The company's current day."""
        return self.clock.now().astimezone(self.zone).date()

    def get_next_day_start(self) -> datetime:
        """Return the start of the company's next day in aware UTC."""
        midnight = datetime.combine(self.get_company_day() + timedelta(days=1), time(), self.zone)
        return midnight.astimezone(UTC)

    async def list_usage_rows(self, days: int) -> list[UsageRow]:
        """List the usage of the last `days` days, today included. Raises StoreUnavailableError."""
        dates = [self.get_company_day() - timedelta(days=n) for n in range(min(days, RETENTION_DAYS))]
        places = [(day, key) for day in dates for key in self._list_day_keys(day)]
        async with self.redis.pipeline(transaction=False) as pipe:
            for _, key in places:
                pipe.hgetall(key)
            answers: list[Any] = await pipe.execute()
        amounts_by_row: dict[tuple[date, str, str], defaultdict[str, int]] = {}
        for (day, _), fields in zip(places, answers, strict=True):
            for name, amount in fields.items():
                person, model, figure = name.split(_TAB)
                if model != TOTAL:
                    amounts_by_row.setdefault((day, person, model), defaultdict(int))[figure] += int(amount)
        rows: list[UsageRow] = []
        for (day, person, model), amounts in sorted(amounts_by_row.items()):
            runs, replies, tokens_in, cached, tokens_out, unpriced = (amounts.pop(figure, 0) for figure in FIGURES)
            units = {name: amounts.pop(name) for name in list(amounts) if name.startswith(COST)}
            costs = {name.removeprefix(COST): _from_cost_units(amount) for name, amount in units.items()}
            tokens = (tokens_in, cached, tokens_out)
            rows.append(UsageRow(day, person, model, runs, replies, *tokens, unpriced, costs, amounts))
        return rows

    def _list_day_keys(self, day: date) -> list[str]:
        """List the hashes of a day."""
        return [self._build_day_key(partition, day) for partition in range(self.keys.partitions)]

    def _build_day_key(self, partition: int, day: date) -> str:
        return self.keys.build_key(partition, "spent", day.isoformat())


def _build_counter_field(person: str, model: str, figure: str) -> str:
    """Build a field name. Model names and person ids contain no tabs."""
    return _TAB.join((person, model, figure))


def _from_cost_units(units: int) -> Decimal:
    return Decimal(units).scaleb(-DECIMALS)
