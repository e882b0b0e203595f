"""`python -m tests.qa.bench`: measure, show, and write down."""

import argparse
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console

from tests.qa.bench import chat, confirm, cpu, crowd, many, month, report, year
from tests.qa.bench.bench import Bench, Options, opened
from tests.qa.bench.figures import FIGURES, GROUPS, Reading
from tests.qa.bench.outside import ROOT, NotMeasured
from tests.qa.command import INTERRUPTED, Parser, end_like_ctrl_c, read_whole_number

MEASURES: dict[str, Callable[[Bench], list[Reading]]] = {
    "cpu": cpu.cpu,
    "many": many.many,
    "history": cpu.history,
    "ack": chat.ack,
    "click": chat.click,
    "rush": chat.rush,
    "confirm": confirm.confirm,
    "month": month.month,
    "year": year.year,
    "crowd": crowd.crowd,
}
"""Group → what measures it."""


def main(arguments: Sequence[str] | None = None) -> int:
    given, console, began = _parse_options(arguments), Console(), datetime.now().astimezone()
    options, about = Options(1 if given.quick else given.rounds, given.quick), report.describe_machine()
    try:
        with console.status("starting") as status:
            found = measured(options, given.only, given.peers, status.update)
    except KeyboardInterrupt:
        console.print("Stopped.")
        return INTERRUPTED
    written = report.Report(began, options.rounds, options.quick, *found, about)
    console.print(report.table(written))
    console.print(f"Written to {report.write(written, given.out)}")
    return 1 if any(one.value is None or (one.failed and not given.quick) for one in written.readings) else 0


def measured(
    options: Options, groups: Sequence[str], peers: bool, doing: Callable[[str], None]
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
    return readings, skipped, versions, server


def _parse_options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(prog="deploy/qa bench", description=__doc__)
    add, rounds = parser.add_argument, "how often each program is measured (default 5)"
    add("--rounds", type=read_whole_number(1), default=5, metavar="N", help=rounds)
    add("--only", nargs="+", choices=GROUPS, default=GROUPS, metavar="FIGURE", help=", ".join(GROUPS))
    add("--quick", action="store_true", help="one round and small counts: shows that all works")
    add("--no-peers", dest="peers", action="store_false", help="without other frameworks")
    add("--out", type=Path, default=ROOT / "bench-results", help="folder of the report")
    return parser.parse_args(words)


if __name__ == "__main__":
    end_like_ctrl_c()
    sys.exit(main())
