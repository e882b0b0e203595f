"""What a step costs: ours beside the floor and beside peers, and with a long history."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.qa.bench import outside
from tests.qa.bench.bench import Bench
from tests.qa.bench.figures import Reading, format_rounded_number, median, ratios, reading, spread

BIG = 100_000
Costs = dict[str, list[float]]
"""CPU ms of a step, by what was measured, round by round."""


@contextmanager
def open_rooms(people: int) -> Iterator[dict[str, Any]]:
    """The workspace in which every step is posted: where it is, and everybody's room."""
    with outside.child("tests.qa.bench.town", str(people)) as town:
        where = outside.heard(town)
        yield where | outside.tell(town, do="list_rooms")


def cpu(bench: Bench) -> list[Reading]:
    """All programs in turn, several rounds; ratios are of the same round."""
    runs, warm, costs = bench.options.few(100, 10), bench.options.few(10, 2), _open_costs()
    ours = dict.fromkeys(("floor", "ours", "ours:responses", "whole"), outside.PYTHON)
    programs = ours | {one.program: one.python for one in bench.peers}
    with open_rooms(runs + warm) as workspace:
        for number in range(1, bench.options.rounds + 1):
            for program, python in programs.items():
                bench.doing(f"{program}, one run after another, round {number} of {bench.options.rounds}")
                result = bench.run(program, bench.job(runs=runs, warm=warm, workspace=workspace), python)
                costs[program].append(result.cpu_ms)
    return [
        _compare("ours", costs, "ours", "floor", rounds=costs),
        _compare("ours-responses", costs, "ours:responses", "floor"),
        _compare("whole", costs, "whole", "floor"),
        *_compare_best_peer(bench, costs),
    ]


def _open_costs() -> Costs:
    return defaultdict(list)


def _compare(name: str, costs: Costs, above: str, below: str, told: str = "", **detail: Any) -> Reading:
    found = ratios(costs[above], costs[below])
    note = " ÷ ".join(format_rounded_number(median(costs[one])) for one in (above, below))
    return reading(name, median(found), f"{note} ms{told}, {spread(found)}".removesuffix(", "), ratios=found, **detail)


def _compare_best_peer(bench: Bench, costs: Costs) -> list[Reading]:
    if not bench.peers:
        return []
    best = min(bench.peers, key=lambda one: median(costs[one.program]))
    return [_compare("peers", costs, best.program, "ours", f" of {best.title}")]


def history(bench: Bench) -> list[Reading]:
    """A turn in a conversation that is as long as a life beside one in a short one."""
    runs, warm, costs = bench.options.few(200, 15), bench.options.few(20, 4), _open_costs()
    most = bench.options.few(BIG, 2_000)
    for number in range(1, bench.options.rounds + 1):
        for count in (10, most):
            bench.doing(f"a turn with {count:,} messages of history, round {number} of {bench.options.rounds}")
            job = bench.job(runs=runs, warm=warm, earlier=count)
            costs[str(count)].append(bench.run("ours", job).cpu_ms * job.steps)
    told = f" a turn, {most:,} messages"
    return [_compare("history", costs, str(most), "10", told, rounds=costs)]
