"""`python -m tests.bench`: measure, show, and write down."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tests.bench import chat, cpu, crowd, flow, kept, lanes, many, month, report, rush, styles, year
from tests.bench.bench import Bench, Options, opened
from tests.bench.figures import FIGURES, GROUPS, Reading
from tests.bench.machine import machine
from tests.bench.outside import ROOT, NotMeasured

MEASURES: dict[str, Callable[[Bench], list[Reading]]] = {
    "cpu": cpu.cpu,
    "many": many.many,
    "earlier": cpu.earlier,
    "history": cpu.history,
    "left": kept.left,
    "paused": kept.paused,
    "trips": kept.trips,
    "flow": flow.flow,
    "todo": flow.todo,
    "ack": chat.ack,
    "first": chat.first,
    "styles": styles.styles,
    "start": chat.start,
    "lanes": lanes.lanes,
    "rush": rush.rush,
    "month": month.month,
    "year": year.year,
    "crowd": crowd.crowd,
}
"""Group → what measures it."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    console = Console()
    began, about = datetime.now().astimezone(), machine()
    options = Options(1 if given.quick else given.rounds, given.quick, given.profile)
    try:
        with _progress(console, len(given.only)) as (doing, done):
            found = measured(options, given.only, given.peers, doing, done)
    except KeyboardInterrupt:
        console.print("Stopped.")
        return 130
    written = report.Report(began, options.rounds, options.quick, *found, about)
    console.print(report.table(written))
    console.print(f"Written to {report.write(written, given.out)}")
    return 1 if any(one.value is None or (one.failed and not given.quick) for one in written.readings) else 0


def measured(
    options: Options, groups: Sequence[str], peers: bool, doing: Callable[[str], None], done: Callable[[], None]
) -> tuple[list[Reading], list[str], dict[str, dict[str, str]], str]:
    """(readings, what was left out and why, versions, server). Each group has surroundings of its own, and one that
    cannot be measured is no reason not to measure the others."""
    readings, versions = list[Reading](), dict[str, dict[str, str]]()
    with opened(options, [], doing) as bench:
        skipped, server = bench.prepare_peers() if peers else [], bench.server()
    for group in groups:
        try:
            with opened(options, bench.peers, doing) as around:
                readings += MEASURES[group](around)
                versions |= around.versions
        except (NotMeasured, OSError) as error:
            words = getattr(error, "words", "")
            readings += [Reading(one, None, str(error), {"words": words}) for one in FIGURES if one.group == group]
        done()
    return readings, skipped, versions, server


@contextmanager
def _progress(console: Console, total: int) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    columns = (
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("starting", total=total)
        yield lambda text: shown.update(task, description=text), lambda: shown.advance(task)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="deploy/bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each program is measured (default 5)")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, metavar="FIGURE", help=", ".join(GROUPS))
    parser.add_argument("--quick", action="store_true", help="one round and small counts: shows that all works")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without other frameworks")
    parser.add_argument("--profile", default="", metavar="FOLDER", help="write profiles of our own programs there")
    parser.add_argument("--out", type=Path, default=ROOT / "bench-results", help="folder of the report")
    return parser


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)  # as Ctrl-C: everything that was started is ended
    sys.exit(main())
