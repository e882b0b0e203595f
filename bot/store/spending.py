"""What the model has been used for: replies, tokens and money, by person, model and day.

Counters are added to in the very script that keeps what a reply was for, a run's checkpoint or an item's commit: a
reply is counted once, whatever dies and is done again. A reply that its process dies with before that is in no record
at all, and asked for anew: the provider's bill is above ours by at most one reply a crash, or a call that is cut off.

A person's conversations are in several partitions, and a script writes only one: each has counters of its own, one
hash a day, and they are added up when somebody reads them. A day is the company's, by its own time zone, whoever
asks and wherever they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from bot.store.connect import reaching
from bot.store.keys import Keys
from bot.store.writes import Count, apply
from bot.trace import DECIMALS, Spent

KEPT_DAYS = 92
SYSTEM = "system"
"""Who has used what nobody asked for: suggestions on cards, summaries, the question at the start what a model can
do."""
UNKNOWN = "unknown"
"""A model without a name."""
TOTAL = ""
"""In place of a model: all of them. A budget reads two fields."""
COST = "cost:"
"""Before the currency: a table of prices in another one begins a counter of its own."""
FIGURES = ("runs", "replies", "in", "cached", "out", "unpriced")
_TAB = "\t"


@dataclass(frozen=True, slots=True)
class Used:
    """What somebody has used on a day."""

    tokens: int = 0
    """In and out."""
    cost: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Row:
    """What one person has used of one model on one day."""

    day: date
    person: str
    """Or `system`."""
    model: str
    runs: int = 0
    """Those in which this model answered first."""
    replies: int = 0
    tokens_in: int = 0
    cached: int = 0
    """Of `tokens_in`."""
    tokens_out: int = 0
    unpriced: int = 0
    """Tokens, in and out, without a known price."""
    costs: Mapping[str, Decimal] = field(default_factory=dict)
    """By currency."""


@dataclass(frozen=True, slots=True)
class Today:
    """One person's counters of one day, as a part of somebody else's pipeline: `wanted` asks for them, `read` adds up
    what that was answered."""

    spending: Spending
    person: str
    day: date
    currency: str

    def wanted(self, pipe: Pipeline) -> None:
        fields = [_name(self.person, TOTAL, what) for what in ("tokens", COST + self.currency)]
        for key in self.spending.places(self.day):
            pipe.hmget(key, fields)

    def read(self, answers: Sequence[Sequence[str | None]]) -> Used:
        tokens, cost = (sum(int(found or 0) for found in column) for column in zip(*answers, strict=True))
        return Used(tokens, _money(cost))


@dataclass(frozen=True, slots=True)
class Spending:
    redis: Redis
    keys: Keys
    now: Callable[[], datetime]
    """Aware UTC."""
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    """The company's."""

    def counts(self, lane: str, person: str, spent: Iterable[Spent], *, begun: bool = False) -> tuple[Count, ...]:
        """The write that adds replies up, in the partition of a lane; nothing for none. `begun`: with the first of them
        a run begins."""
        amounts: defaultdict[str, int] = defaultdict(int)
        for one in spent:
            _add(amounts, person, one, begun=begun and not amounts)
        if not amounts:
            return ()
        key = self._key(self.keys.partition(lane), self.day())
        return (Count(key, amounts, ttl_ms=KEPT_DAYS * 24 * 3_600_000),)

    async def add(self, person: str, spent: Sequence[Spent]) -> None:
        """Counts replies that belong to no lane. Raises StoreDown."""
        await apply(self.redis, self.keys, self.keys.partition(person), self.counts(person, person, spent))

    def today(self, person: str, currency: str) -> Today:
        return Today(self, person, self.day(), currency)

    async def used(self, today: Today) -> Used:
        """Raises StoreDown."""
        with reaching():
            async with self.redis.pipeline(transaction=False) as all_of_them:
                today.wanted(all_of_them)
                return today.read(await all_of_them.execute())

    def day(self) -> date:
        """The company's."""
        return self.now().astimezone(self.zone).date()

    def renewed(self) -> datetime:
        """When the next day begins: aware UTC."""
        midnight = datetime.combine(self.day() + timedelta(days=1), time(), self.zone)
        return midnight.astimezone(UTC)

    async def rows(self, days: int) -> list[Row]:
        """What was used today and on the days before, so many in all. Raises StoreDown."""
        wanted = [self.day() - timedelta(days=n) for n in range(min(days, KEPT_DAYS))]
        places = [(day, key) for day in wanted for key in self.places(day)]
        with reaching():
            async with self.redis.pipeline(transaction=False) as all_of_them:
                for _, key in places:
                    all_of_them.hgetall(key)
                answers: list[Any] = await all_of_them.execute()
        found: dict[tuple[date, str, str], defaultdict[str, int]] = {}
        for (day, _), fields in zip(places, answers, strict=True):
            for name, amount in fields.items():
                person, model, what = name.split(_TAB)
                if model != TOTAL:
                    found.setdefault((day, person, model), defaultdict(int))[what] += int(amount)
        return [_row(*whose, amounts) for whose, amounts in sorted(found.items())]

    def places(self, day: date) -> list[str]:
        """The hashes of a day."""
        return [self._key(partition, day) for partition in range(self.keys.partitions)]

    def _key(self, partition: int, day: date) -> str:
        return self.keys.key(partition, "spent", day.isoformat())


def _name(person: str, model: str, what: str) -> str:
    """A field: the setting's names and the platform's ids have no tabs."""
    return _TAB.join((person, model, what))


def _add(amounts: dict[str, int], person: str, one: Spent, *, begun: bool) -> None:
    """One reply, for its model and for all of them; without zeros."""
    tokens, cost = one.tokens_in + one.tokens_out, COST + one.currency
    of_it, of_all = _name(person, one.model or UNKNOWN, ""), _name(person, TOTAL, "")
    units = 0 if one.cost is None else _units(one.cost)
    unpriced = tokens if one.cost is None else 0
    figures = (begun, 1, one.tokens_in, one.tokens_cached, one.tokens_out, unpriced, units)
    for what, amount in zip((*FIGURES, cost), figures, strict=True):
        if amount:
            amounts[of_it + what] += int(amount)
    amounts[of_all + "tokens"] += tokens
    if units:
        amounts[of_all + cost] += units


def _row(day: date, person: str, model: str, amounts: Mapping[str, int]) -> Row:
    costs = {what.removeprefix(COST): _money(n) for what, n in amounts.items() if what.startswith(COST)}
    runs, replies, read, cached, written, unpriced = (amounts.get(what, 0) for what in FIGURES)
    return Row(day, person, model, runs, replies, read, cached, written, unpriced, costs)


def _units(cost: Decimal) -> int:
    """Money as a counter has it. Exact."""
    return int(cost.scaleb(DECIMALS))


def _money(units: int) -> Decimal:
    return Decimal(units).scaleb(-DECIMALS)
