"""`python -m tests.qa.bench`: measure, show, and write down."""

import argparse
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console

from tests.qa.bench.bench import Bench, opened
from tests.qa.bench.figures import FIGURES, GROUPS, Reading, Report, describe_machine
from tests.qa.bench.measures import ack, click, confirm, cpu, crowd, history, many, rush
from tests.qa.bench.outside import ROOT, NotMeasured
from tests.qa.bench.periods import month, year
from tests.qa.command import FOUND, INTERRUPTED, Parser, read_whole_number, run_command

MEASURES: dict[str, Callable[[Bench], list[Reading]]] = {
    measure.__name__: measure for measure in (cpu, many, history, ack, click, rush, confirm, month, year, crowd)
}
"""Group → what measures it."""


def main(arguments: Sequence[str] | None = None) -> int:
    given, console, began = _parse_options(arguments), Console(), datetime.now().astimezone()
    rounds, about = 1 if given.quick else given.rounds, describe_machine()
    try:
        with console.status("starting") as status:
            found = measured(rounds, given.quick, given.only, given.peers, status.update)
    except KeyboardInterrupt:
        console.print("Stopped.")
        return INTERRUPTED
    report = Report(began, rounds, given.quick, *found, about)
    console.print(report.build_table())
    console.print(f"Written to {report.write(given.out)}")
    return FOUND if any(one.value is None or (one.failed and not given.quick) for one in report.readings) else 0


def measured(
    rounds: int, quick: bool, groups: Sequence[str], peers: bool, doing: Callable[[str], None]
) -> tuple[list[Reading], list[str], dict[str, dict[str, str]], str]:
    """(readings, what was left out and why, versions, server). Each group has surroundings of its own, and one that
    cannot be measured is no reason not to measure the others."""
    readings, versions = list[Reading](), dict[str, dict[str, str]]()
    with opened(rounds, quick, [], doing) as bench:
        skipped, server = bench.prepare_peers() if peers else [], bench.server()
    for group in groups:
        try:
            with opened(rounds, quick, bench.peers, doing) as around:
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
    run_command("bench", main)
