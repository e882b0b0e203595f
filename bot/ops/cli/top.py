"""`countersign top`: shows the working installation on one screen."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from bot.app.settings import load_settings
from bot.core.clock import Clock
from bot.core.errors import StoreUnavailableError
from bot.core.i18n import detect_terminal_language, translate
from bot.features.home.operations import MODEL_MS, OperationsReader, OperationsState
from bot.features.home.waiting_lanes import LaneFigures, list_oldest_lanes
from bot.ops.cli import console
from bot.ops.cli.console import Json, sanitize_for_terminal
from bot.ops.processes import ProcessState, ProcessStore
from bot.ops.queue_figures import QueueFigures, load_queue_figures
from bot.storage.approvals import ApprovalStore
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.journal import Journal
from bot.storage.spending import UsageStore
from tools.workflow.engine.state import format_decimal

app = typer.Typer()

LANES = 8
"""Number of lanes on the screen: those that have waited longest."""
RENEWED_S = 2.0
WRONG_CLOCK_MS = 30_000
"""Offset in milliseconds above which a clock is shown in red."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationState:
    queue: QueueFigures
    open_cards: int
    lanes: Sequence[LaneFigures]
    processes: Sequence[ProcessState]
    operations: OperationsState


@app.command()
@console.run_async
async def top(
    once: Annotated[bool, typer.Option("--once", help="Print it once and end, for scripts.")] = False,
    as_json: Json = False,
) -> None:
    """One screen, live: lanes, processes, model, cost, dead letters."""
    settings, clock = load_settings(), Clock()
    async with console.open_bot_store() as (redis, keys):
        operations = OperationsReader(
            letters=DeadLetterStore(redis, keys),
            journal=Journal(redis, keys),
            usage=UsageStore(redis, keys, clock=clock, zone=ZoneInfo(settings.company_timezone)),
            clock=clock,
            model=settings.openai_model if settings.has_real_model else "rehearsal",
        )

        async def load_state() -> InstallationState:
            queue = await load_queue_figures(redis, keys)
            return InstallationState(
                queue=queue,
                open_cards=await ApprovalStore(redis, keys).count_open_approvals(),
                lanes=await list_oldest_lanes(redis, keys, LANES),
                processes=await ProcessStore(redis, keys).list_processes(queue.now_ms),
                operations=await operations.load_state(),
            )

        if as_json:
            console.print_json(to_state_fields(await load_state()))
        elif once or not sys.stdout.isatty():
            console.build_rich_console().print(render_state(await load_state(), detect_terminal_language()))
        else:
            await _show_live(load_state, detect_terminal_language())


async def _show_live(load_state: Callable[[], Awaitable[InstallationState]], language: str) -> None:
    """Show the screen until Ctrl-C. While Redis is away, the last screen stays and says so."""
    screen: RenderableType = ""
    at = ""
    with Live(screen, console=console.build_rich_console(), screen=True, auto_refresh=False) as live:
        while True:
            try:
                screen = render_state(await load_state(), language)
                at, shown = console.format_terminal_time(Clock().now_ms(), "%H:%M:%S"), screen
            except StoreUnavailableError:
                shown = Group(Text(translate("top.away", language, at=at or "—"), style="red"), screen)
            live.update(Group(shown, Text(translate("top.leave", language), style="dim")), refresh=True)
            await asyncio.sleep(RENEWED_S)


def render_state(state: InstallationState, language: str) -> RenderableType:
    queue, operations = state.queue, state.operations
    spent = "".join(f" · {format_decimal(cost)} {currency}" for currency, cost in sorted(operations.costs.items()))
    models = ", ".join(dict.fromkeys(one.model for one in state.processes if one.model)) or "—"
    is_down = operations.failures > 0
    model = translate(
        f"top.model_{'down' if is_down else 'up'}", language,
        model=sanitize_for_terminal(models), n=operations.failures, minutes=MODEL_MS // 60_000,
    )  # fmt: skip
    dead = translate("top.dead" if operations.letters else "top.none_dead", language, n=len(operations.letters))
    figures = translate(
        "top.queue", language, lanes=queue.lanes, due=queue.due_lanes, items=queue.items,
        oldest=format_duration(queue.oldest_ms), timers=queue.timers, cards=state.open_cards,
    )  # fmt: skip
    today = translate("top.today", language, replies=operations.replies, tokens=f"{operations.tokens:,}", cost=spent)
    processes = _build_table("process", "version", "up", "clock", "load", "state", language=language)
    works = Text(translate("top.works", language), style="green")
    for one in state.processes:
        is_wrong = abs(one.offset_ms or 0) > WRONG_CLOCK_MS
        processes.add_row(
            Text(sanitize_for_terminal(one.id)),
            Text(sanitize_for_terminal(one.version)),
            Text(format_duration(queue.now_ms - one.started_ms)),
            Text(format_offset(one.offset_ms), style="red" if is_wrong else ""),
            Text(f"{one.lanes}/{one.concurrency}"),
            Text(sanitize_for_terminal(one.trouble), style="red") if one.trouble else works,
        )
    lanes = _build_table("lane", "items", "age", "tries", "error", language=language)
    for lane in state.lanes:
        held = translate("top.handled", language, process=lane.owner) if lane.owner else lane.error
        cells = (lane.lane, str(lane.items), format_duration(lane.oldest_ms), str(lane.tries), held)
        lanes.add_row(*(Text(sanitize_for_terminal(cell)) for cell in cells))
    return Group(
        Text(f"Countersign  {console.format_terminal_time(queue.now_ms, '%Y-%m-%d %H:%M:%S')}", style="bold"),
        Text(figures, style="yellow" if queue.oldest_ms > 60_000 else ""),
        Text(today),
        Text(model, style="red" if is_down else ""),
        Text(dead, style="red" if operations.letters else ""),
        processes if state.processes else Text("\n" + translate("top.no_processes", language), style="red"),
        lanes if state.lanes else Text("\n" + translate("top.no_lanes", language)),
    )


_LEAST = {"process": 16, "version": 6, "up": 7, "clock": 7, "load": 5, "lane": 22, "items": 5, "age": 7, "tries": 5}
"""Minimum width of a column in cells; longer columns are cut first."""
_FIGURES = frozenset({"up", "clock", "load", "items", "age", "tries"})


def _build_table(*names: str, language: str) -> Table:
    """Build a table with one line for each row; longer cells are cut."""
    columns = [
        Column(
            translate(f"top.title_{name}", language),
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if name in _FIGURES else "left",
            min_width=_LEAST.get(name),
            max_width=30 if name in ("process", "lane") else None,
        )
        for name in names
    ]
    return Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)


def format_duration(ms: int) -> str:
    """Format a duration by its two largest units: `3d 4h`, `5m 10s`, `7s`."""
    seconds = max(0, ms) // 1000
    units = (("d", seconds // 86_400), ("h", seconds // 3_600 % 24), ("m", seconds // 60 % 60), ("s", seconds % 60))
    first = next((n for n, (_, amount) in enumerate(units) if amount), len(units) - 1)
    return " ".join(f"{amount}{unit}" for unit, amount in units[first : first + 2] if amount or unit == units[first][0])


def format_offset(offset_ms: int | None) -> str:
    """Format how far a clock is ahead of (+) or behind (-) that of Redis."""
    if offset_ms is None:
        return "—"
    sign = "-" if offset_ms < 0 else "+"
    return f"{sign}{abs(offset_ms)} ms" if abs(offset_ms) < 1_000 else f"{sign}{format_duration(abs(offset_ms))}"


def to_state_fields(state: InstallationState) -> dict[str, Any]:
    operations = state.operations
    return {
        "queue": asdict(state.queue) | {"open_cards": state.open_cards},
        "lanes": [asdict(one) for one in state.lanes],
        "processes": [one.model_dump() for one in state.processes],
        "today": {
            "replies": operations.replies,
            "tokens": operations.tokens,
            "cost": {currency: format_decimal(cost) for currency, cost in operations.costs.items()},
        },
        "model_failures": operations.failures,
        "dead_letters": len(operations.letters),
    }
