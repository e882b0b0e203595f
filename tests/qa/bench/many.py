"""Many runs at once in one process, against a model that takes its time."""

from dataclasses import dataclass

from tests.qa.bench import outside
from tests.qa.bench.bench import Bench
from tests.qa.bench.figures import Reading, format_rounded_number, median, reading
from tests.qa.bench.job import Result
from tests.qa.bench.mock import STEPS


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
    crowds = {
        "many-200": Crowd(few(200, 40), 300, min(rounds, 3)),
        "many-1000-slow": Crowd(few(1000, 100), few(3000, 1000), min(rounds, 2)),
        "many-1000": Crowd(few(1000, 100), 300, min(rounds, 3)),
    }
    found = {name: [_run_at_once(bench, "ours", one) for _ in range(one.rounds)] for name, one in crowds.items()}
    errors = [error for results in found.values() for one in results for error in one.errors]
    growth = [one.rss_per_run / 1024 for name in ("many-1000", "many-1000-slow") for one in found[name]]
    return [
        *(_compare(bench, name, found[name], one) for name, one in crowds.items()),
        reading("many-errors", len(errors), errors[0] if errors else "", errors=errors[:20]),
        reading("many-memory", max(growth), "the worst of the rounds", rounds=growth),
    ]


def _run_at_once(bench: Bench, program: str, crowd: Crowd, python: str = outside.PYTHON) -> Result:
    bench.doing(f"{program}, {crowd.runs} runs at once, {crowd.after_ms} ms model")
    job = bench.job(after_ms=crowd.after_ms, runs=crowd.runs, at_once=crowd.runs, warm=5)
    return bench.run(program, job, python, failing=True)


def _compare(bench: Bench, name: str, results: list[Result], crowd: Crowd) -> Reading:
    """With the floor and the peers in the same place, once, where the model is quick."""
    found = [one.wall_s / crowd.ideal_s for one in results]
    beside: dict[str, str] = {}
    if name != "many-1000-slow":
        programs = {"floor": outside.PYTHON} | {one.program: one.python for one in bench.peers}
        beside = {
            program: _tell(_run_at_once(bench, program, crowd, python), crowd) for program, python in programs.items()
        }
    taken, ideal = format_rounded_number(median([one.wall_s for one in results])), format_rounded_number(crowd.ideal_s)
    told = "; ".join(f"{program} {one}" for program, one in beside.items())
    note = f"{crowd.runs} runs, {taken} s for {ideal} s; {told}".removesuffix("; ")
    return reading(name, median(found), note, rounds=found, cpu_ms_per_step=median([one.cpu_ms for one in results]))


def _tell(result: Result, crowd: Crowd) -> str:
    errors = len(result.errors)
    return f"{errors} failed" if errors else f"{format_rounded_number(result.wall_s / crowd.ideal_s)} ×"
