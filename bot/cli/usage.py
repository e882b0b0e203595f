"""`countersign usage`: what the model was used for, and what that cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from rich.table import Column, Table

from bot.cli import console
from bot.cli.console import Json, harmless
from bot.cli.names import names_of
from bot.settings import Settings, read
from bot.store.journal import age_ms
from bot.store.spending import KEPT_DAYS, SYSTEM, Row, Spending
from bot.texts import plain, say

app = typer.Typer()
DAY_MS = 24 * 3_600_000


class By(StrEnum):
    """What lines are about."""

    PERSON = "person"
    DAY = "day"
    MODEL = "model"


@dataclass
class Sum:
    """Rows that belong together, added up."""

    figures: Counter[str] = field(default_factory=Counter)
    costs: dict[str, Decimal] = field(default_factory=dict)
    """By currency."""

    def add(self, row: Row) -> None:
        self.figures.update(
            runs=row.runs, replies=row.replies, tokens_in=row.tokens_in, cached=row.cached, tokens_out=row.tokens_out,
            unpriced=row.unpriced,
        )  # fmt: skip
        for currency, cost in row.costs.items():
            self.costs[currency] = self.costs.get(currency, Decimal(0)) + cost


def _days(since: str) -> int:
    """Today and so many days before it as the age has begun."""
    return math.ceil(age_ms(console.age(since)) / DAY_MS)


@app.command()
def usage(
    since: Annotated[
        str, typer.Option(help=f"How far back in days, e.g. 1d (today), 7d; at most {KEPT_DAYS}d.")
    ] = "30d",
    by: Annotated[By, typer.Option(help="A line for each of these.")] = By.PERSON,
    as_json: Json = False,
) -> None:
    """What the model was used for: runs, tokens and cost, by person, day or model. Days are the company's."""
    days = _days(since)

    async def work() -> None:
        settings = read()
        async with console.opened() as (redis, keys):
            zone = ZoneInfo(settings.company_timezone)
            rows = await Spending(redis, keys, lambda: datetime.now(UTC), zone).rows(days)
        sums = summed(rows, by)
        names = await _names(settings, sums) if by is By.PERSON else {}
        if as_json:
            for key, one in sums.items():
                console.print_json(_facts(by, key, names, one))
            return
        _told(by, sums, names, console.language())

    console.run(work())


def summed(rows: Iterable[Row], by: By) -> dict[str, Sum]:
    """By person, day or model, in the order of these."""
    sums: dict[str, Sum] = {}
    for row in rows:
        sums.setdefault(str(getattr(row, by.value)), Sum()).add(row)
    return dict(sorted(sums.items()))


def money(costs: Mapping[str, Decimal], unpriced: int, language: str) -> str:
    """What was paid, exactly; what has no known price is not called free."""
    known = " + ".join(f"{plain(cost)} {currency}" for currency, cost in sorted(costs.items()))
    if not unpriced:
        return known or "0"
    if not known:
        return say("usage.no_price", language)
    return say("usage.and_more", language, known=known, tokens=f"{unpriced:,}")


async def _names(settings: Settings, people: Iterable[str]) -> dict[str, str]:
    async with names_of(settings) as names:
        return {person: await names.of(person) for person in people}


def _facts(by: By, key: str, names: Mapping[str, str], one: Sum) -> dict[str, Any]:
    """Costs as text: they are exact."""
    who = {"name": names[key]} if by is By.PERSON else {}
    costs = {currency: plain(cost) for currency, cost in one.costs.items()}
    return {by.value: key, **who, **one.figures, "cost": costs}


def _told(by: By, sums: Mapping[str, Sum], names: Mapping[str, str], language: str) -> None:
    if not sums:
        typer.echo(say("usage.none", language))
        return
    columns = [Column(say(f"usage.title_{by.value}", language), overflow="fold", min_width=10)]
    titles = ("runs", "replies", "in", "cached", "out")
    columns += [Column(say(f"usage.title_{name}", language), justify="right", no_wrap=True) for name in titles]
    columns += [Column(say("usage.title_cost", language), justify="right", overflow="fold")]
    table = Table(*columns, show_footer=False)
    for key, one in sums.items():
        table.add_row(_title(by, key, names, language), *_cells(one, language))
    table.add_section()
    table.add_row(say("usage.total", language), *_cells(_total(sums.values()), language))
    console.screen().print(table)


def _title(by: By, key: str, names: Mapping[str, str], language: str) -> str:
    if by is By.PERSON and key == SYSTEM:
        return say("usage.system", language)
    name = names.get(key, "")
    return harmless(f"{name} ({key})" if name else key)


def _cells(one: Sum, language: str) -> Sequence[str]:
    figures = (one.figures[name] for name in ("runs", "replies", "tokens_in", "cached", "tokens_out"))
    return [*(f"{figure:,}" for figure in figures), money(one.costs, one.figures["unpriced"], language)]


def _total(sums: Iterable[Sum]) -> Sum:
    total = Sum()
    for one in sums:
        total.figures.update(one.figures)
        total.costs = {
            c: total.costs.get(c, Decimal(0)) + one.costs.get(c, Decimal(0)) for c in total.costs | one.costs
        }
    return total
