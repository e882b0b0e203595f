"""What a step costs: ours beside the floor and beside peers, with and without earlier messages."""

from __future__ import annotations

from tests.bench import outside
from tests.bench.bench import Bench
from tests.bench.figures import Reading, format_rounded_number, median, ratios, reading, spread

BIG = 100_000


def cpu(bench: Bench) -> list[Reading]:
    """All programs in turn, several rounds; ratios are of the same round."""
    runs, warm = bench.options.few(100, 10), bench.options.few(10, 2)
    costs: dict[str, list[float]] = {}
    walls: dict[str, list[float]] = {}
    programs = [
        ("floor", ""),
        ("ours", ""),
        ("ours:responses", ""),
        ("whole", ""),
        *((one.program, one.python) for one in bench.peers),
    ]
    with outside.service("tests.bench.workspace", str(runs + warm)) as workspace:
        for number_ in range(1, bench.options.rounds + 1):
            for program, python in programs:
                bench.doing(f"{program}, one run after another, round {number_} of {bench.options.rounds}")
                job = bench.job(runs=runs, warm=warm, workspace=workspace)
                result = bench.run(program, job, python or outside.PYTHON)
                costs.setdefault(program, []).append(result.cpu_ms)
                walls.setdefault(program, []).append(result.wall_s * 1000 / result.steps)
    detail = {
        "cpu_ms_per_step": {name: median(found) for name, found in costs.items()},
        "wall_ms_per_step": {name: median(found) for name, found in walls.items()},
        "rounds": costs,
        "times_floor": {name: median(ratios(found, costs["floor"])) for name, found in costs.items()},
    }
    return [
        _ratio("ours", costs["ours"], costs["floor"], detail),
        _ratio("ours-responses", costs["ours:responses"], costs["floor"]),
        _ratio("whole", costs["whole"], costs["floor"]),
        *_best_peer(bench, costs),
    ]


def _ratio(name: str, above: list[float], below: list[float], detail: dict[str, object] | None = None) -> Reading:
    found = ratios(above, below)
    said = f"{format_rounded_number(median(above))} ÷ {format_rounded_number(median(below))} ms"
    between = f", {spread(found)}" if len(found) > 1 else ""
    return reading(name, median(found), said + between, ratios=found, **(detail or {}))


def _best_peer(bench: Bench, costs: dict[str, list[float]]) -> list[Reading]:
    plain = [one for one in bench.peers if not one.persists]
    if not plain:
        return []
    best = min(plain, key=lambda one: median(costs[one.program]))
    found = ratios(costs[best.program], costs["ours"])
    theirs, ours = (format_rounded_number(median(costs[one])) for one in (best.program, "ours"))
    note = f"{best.title}: {theirs} ÷ {ours} ms"
    return [reading("peers", median(found), note, ratios=found, best=best.title)]


def earlier(bench: Bench) -> list[Reading]:
    """A conversation with 60 earlier messages beside an empty one."""
    runs, warm = bench.options.few(60, 15), bench.options.few(10, 4)
    costs: dict[str, list[float]] = {}
    for number_ in range(1, bench.options.rounds + 1):
        for program in ("ours", "floor"):
            for count in (0, 60):
                bench.doing(f"{program} with {count} earlier messages, round {number_} of {bench.options.rounds}")
                result = bench.run(program, bench.job(runs=runs, warm=warm, earlier=count))
                costs.setdefault(f"{program} {count}", []).append(result.cpu_ms)
    floor = ratios(costs["floor 60"], costs["floor 0"])
    found = ratios(costs["ours 60"], costs["ours 0"])
    late, early = (format_rounded_number(median(costs[one])) for one in ("ours 60", "ours 0"))
    note = f"{late} ÷ {early} ms; floor {format_rounded_number(median(floor))} ×"
    return [reading("earlier", median(found), note, ratios=found, floor=floor, rounds=costs)]


def history(bench: Bench) -> list[Reading]:
    """A turn in a conversation that is as long as a life beside one in a short one."""
    runs, warm = bench.options.few(200, 15), bench.options.few(20, 4)
    most = bench.options.few(BIG, 2_000)
    costs: dict[str, list[float]] = {}
    for number_ in range(1, bench.options.rounds + 1):
        for count in (10, most):
            bench.doing(f"a turn with {count:,} messages of history, round {number_} of {bench.options.rounds}")
            job = bench.job(runs=runs, warm=warm, earlier=count)
            result = bench.run("ours", job)
            costs.setdefault(str(count), []).append(result.cpu_ms * job.steps)
    found = ratios(costs[str(most)], costs["10"])
    note = f"{format_rounded_number(median(costs[str(most)]))} ÷ {format_rounded_number(median(costs['10']))} ms a turn"
    if most != BIG:
        note += f" (quick: {most:,} messages)"
    return [reading("history", median(found), note, ratios=found, rounds=costs)]
