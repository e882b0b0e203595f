"""Many runs at once in one process, against a model that takes its time."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench import outside
from tests.bench.bench import Bench
from tests.bench.figures import Reading, format_rounded_number, median, reading
from tests.bench.job import Result
from tests.bench.mock import STEPS
from tests.bench.peers import TITLES


@dataclass(frozen=True)
class Crowd:
    """So many runs at once, with a model that answers after so many ms."""

    runs: int
    after_ms: int
    rounds: int

    @property
    def ideal_s(self) -> float:
        """As if nothing but the model took time."""
        return STEPS * self.after_ms / 1000


def many(bench: Bench) -> list[Reading]:
    few, rounds = bench.options.few, bench.options.rounds
    some, all_ = Crowd(few(200, 40), 300, min(rounds, 3)), Crowd(few(1000, 100), 300, min(rounds, 3))
    slow = Crowd(few(1000, 100), few(3000, 1000), min(rounds, 2))
    at_200, at_1000, at_slow = ([_crowd(bench, "ours", one) for _ in range(one.rounds)] for one in (some, all_, slow))
    beside = {"many-200": _beside(bench, some), "many-1000": _beside(bench, all_)}
    errors = [error for result in (*at_200, *at_1000, *at_slow) for error in result.errors]
    growth = [result.rss_per_run / 1024 for result in (*at_1000, *at_slow)]
    return [
        _waited("many-200", at_200, some, beside["many-200"]),
        _waited("many-1000-slow", at_slow, slow, {}),
        _waited("many-1000", at_1000, all_, beside["many-1000"]),
        reading("many-errors", len(errors), errors[0] if errors else "", errors=errors[:20]),
        reading("many-memory", max(growth), "the worst of the rounds", rounds=growth),
    ]


def _crowd(bench: Bench, program: str, crowd: Crowd, python: str = "") -> Result:
    bench.doing(f"{program}, {crowd.runs} runs at once, {crowd.after_ms} ms model")
    job = bench.job(after_ms=crowd.after_ms, runs=crowd.runs, at_once=crowd.runs, warm=5)
    return bench.run(program, job, python or outside.PYTHON, failing=True)


def _beside(bench: Bench, crowd: Crowd) -> dict[str, dict[str, float]]:
    """The floor and the peers in the same place, once."""
    found = {}
    for program, python in (("floor", ""), *((one.program, one.python) for one in bench.peers)):
        result = _crowd(bench, program, crowd, python)
        found[TITLES[program]] = {"times_ideal": result.wall_s / crowd.ideal_s, "errors": len(result.errors)}
    return found


def _told(one: dict[str, float]) -> str:
    return (
        f"{format_rounded_number(one['errors'])} failed"
        if one["errors"]
        else f"{format_rounded_number(one['times_ideal'])} ×"
    )


def _waited(name: str, results: list[Result], crowd: Crowd, beside: dict[str, dict[str, float]]) -> Reading:
    found = [one.wall_s / crowd.ideal_s for one in results]
    taken = median([one.wall_s for one in results])
    note = f"{format_rounded_number(taken)} s for {format_rounded_number(crowd.ideal_s)} s"
    if beside:
        note += "; " + ", ".join(f"{title} {_told(one)}" for title, one in beside.items())
    if (crowd.runs, crowd.after_ms) not in ((200, 300), (1000, 300), (1000, 3000)):
        note += f" (quick: {crowd.runs} runs, {crowd.after_ms} ms)"
    cpu = median([one.cpu_ms for one in results])
    return reading(name, median(found), note, rounds=found, cpu_ms_per_step=cpu, beside=beside)
