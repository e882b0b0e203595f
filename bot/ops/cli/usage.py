"""`countersign usage`: prints the model's use and its cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

import typer
from rich import box
from rich.table import Column, Table

from bot.app.settings import load_settings
from bot.core.clock import Clock
from bot.core.i18n import detect_terminal_language, load_sentences, translate
from bot.ops.cli import console
from bot.ops.cli.console import Json, sanitize_for_terminal
from bot.ops.cli.name_lookup import open_name_lookup
from bot.storage.journal import parse_age_ms
from bot.storage.spending import RETENTION_DAYS, SYSTEM, UsageRow, UsageStore
from tools.workflow.engine.state import format_decimal

app = typer.Typer()
DAY_MS = 24 * 3_600_000


@dataclass
class UsageTotal:
    """Sum of the usage rows of one group."""

    figures: Counter[str] = field(default_factory=Counter)
    costs: dict[str, Decimal] = field(default_factory=dict)
    """Cost by currency."""

    def add_usage_row(self, row: UsageRow) -> None:
        self.figures.update(
            runs=row.runs, replies=row.replies, tokens_in=row.tokens_in, cached=row.cached, tokens_out=row.tokens_out,
            unpriced=row.unpriced, **{name: row.counts.get(name, 0) for name in list_counted_names()},
        )  # fmt: skip
        for currency, cost in row.costs.items():
            self.costs[currency] = self.costs.get(currency, Decimal(0)) + cost


@app.command()
@console.run_async
async def usage(
    since: Annotated[
        str, typer.Option(help=f"How far back in days, e.g. 1d (today), 7d; at most {RETENTION_DAYS}d.")
    ] = "30d",
    by: Annotated[Literal["person", "day", "model"], typer.Option(help="A line for each of these.")] = "person",
    as_json: Json = False,
) -> None:
    """Runs, tokens and cost of the model, by person, day or model. Days are the company's."""
    days = math.ceil(parse_age_ms(console.require_age(since)) / DAY_MS)  # today counts, and so does a day only begun
    settings = load_settings()
    async with console.open_bot_store() as (redis, keys):
        zone = ZoneInfo(settings.company_timezone)
        rows = await UsageStore(redis, keys, clock=Clock(), zone=zone).list_usage_rows(days)
    sums = group_usage(rows, by)
    names = dict[str, str]()
    if by == "person":
        async with open_name_lookup(settings) as lookup:
            names = {person: await lookup.find_name(person) for person in sums}
    if as_json:
        for key, one in sums.items():
            who = {"name": names[key]} if by == "person" else {}
            costs = {currency: format_decimal(cost) for currency, cost in one.costs.items()}  # exact, so as text
            console.print_json({by: key, **who, **one.figures, "cost": costs})
        return
    language = detect_terminal_language()
    if not sums:
        console.print_sentence("usage.none")
        return
    columns = [Column(translate(f"usage.title_{by}", language), overflow="fold", min_width=10)]
    shown = _NARROW if console.is_terminal_narrow() else tuple(_FIGURES)
    titles = {_FIGURES[one]: f"usage.title_{one}" for one in shown}
    titles |= {name: f"counted.{name}" for name in list_counted_names()}
    columns += [Column(translate(key, language), justify="right", no_wrap=True) for key in titles.values()]
    columns += [Column(translate("usage.title_cost", language), justify="right", overflow="fold")]
    table, total = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False), UsageTotal()
    for row in rows:
        total.add_usage_row(row)
    for key, one in sums.items():
        title = sanitize_for_terminal(f"{names[key]} ({key})" if names.get(key) else key)
        if by == "person" and key == SYSTEM:
            title = translate("usage.system", language)
        table.add_row(title, *_format_usage_cells(one, titles, language))
    table.add_section()
    table.add_row(translate("usage.total", language), *_format_usage_cells(total, titles, language))
    console.build_rich_console().print(table)


def list_counted_names() -> list[str]:
    """List the names of the counts of features. A feature gives the sentence that is the title of the column."""
    return [name for topic, _, name in (key.partition(".") for key in load_sentences()) if topic == "counted"]


def group_usage(rows: Iterable[UsageRow], by: str) -> dict[str, UsageTotal]:
    """Sum the rows by person, day or model, sorted by that key."""
    sums: dict[str, UsageTotal] = {}
    for row in rows:
        sums.setdefault(str(getattr(row, by)), UsageTotal()).add_usage_row(row)
    return dict(sorted(sums.items()))


def format_cost(costs: Mapping[str, Decimal], unpriced: int, language: str) -> str:
    """Format the exact cost. Tokens without a known price are named, so that they do not look free."""
    known = " + ".join(f"{format_decimal(cost)} {currency}" for currency, cost in sorted(costs.items()))
    if not unpriced:
        return known or "0"
    if not known:
        return translate("usage.no_price", language)
    return translate("usage.and_more", language, known=known, tokens=f"{unpriced:,}")


_FIGURES = {"runs": "runs", "replies": "replies", "in": "tokens_in", "cached": "cached", "out": "tokens_out"}
"""Column of the table → name of its figure."""
_NARROW = ("runs", "in", "out")


def _format_usage_cells(one: UsageTotal, figures: Iterable[str], language: str) -> Sequence[str]:
    cost = format_cost(one.costs, one.figures["unpriced"], language)
    return [*(f"{one.figures[name]:,}" for name in figures), cost]
