"""The workflow engine beside SpiffWorkflow, each over the same Redis: how long it takes to start a request and to
decide a task, and how much memory a request takes that waits for its second level. And what somebody's to-do list
costs the server, however many requests there are.

SpiffWorkflow keeps a workflow as its own serialiser writes it, with GET and SET, and nothing else: no list of who has
to do what, no comparing before it writes, no record, nobody told.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

from tests.bench import outside
from tests.bench.bench import Bench
from tests.bench.figures import Reading, format_rounded_number, median, ratios, reading
from tests.bench.outside import NotMeasured
from tests.bench.peers import installed, python_of
from tests.bench.programs.staff import BOB, FORM, STAFF
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.definition import FormContext, fill_form, load_shipped_processes

OURS, THEIRS = "tests.bench.programs.flow", "tests.bench.programs.spiff"
SPIFF = "spiffworkflow"
"""Its environment, where it is not installed beside ours."""
OPEN = 10_000
UNITS = ("ms", "cpu_ms")


def flow(bench: Bench) -> list[Reading]:
    runs, python = bench.options.few(100, 20), _python(bench)
    job = {"runs": runs, "warm": bench.options.few(30, 5), **_case()}
    found: dict[str, list[dict[str, Any]]] = {OURS: [], THEIRS: []}
    rounds = bench.options.few(3, 1) * bench.options.rounds  # short ones: what else goes on is much the same for both
    for number_ in range(1, rounds + 1):
        for program, interpreter in ((OURS, sys.executable), (THEIRS, python)):
            bench.doing(f"{program}, round {number_} of {rounds}")
            found[program].append(_measured(bench, program, job, interpreter))
    ours, theirs = found[OURS], found[THEIRS]
    whole = _middle(ours, ("whole",), "ms")
    bench.versions["spiff"] = theirs[0]["versions"]
    return [
        _faster("flow-life", ("start", "decide", "end"), ours, theirs),
        _faster("flow-start", ("start",), ours, theirs),
        _faster("flow-decide", ("decide",), ours, theirs),
        _smaller(ours[0], theirs[0]),
        reading("flow-whole", whole, "its form checked, days counted, approvers found, a number given"),
    ]


def _faster(name: str, what: Sequence[str], ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Reading:
    """`what` takes its time one after another."""
    told = [
        f"{format_rounded_number(_middle(theirs, what, unit))} ÷ {format_rounded_number(_middle(ours, what, unit))} ms"
        for unit in UNITS
    ]
    found, cpu = (ratios(_sums(theirs, what, unit), _sums(ours, what, unit)) for unit in UNITS)
    note = f"{told[0]}; CPU of the program {told[1]}, {format_rounded_number(median(cpu))} ×"
    return reading(name, median(found), note, ratios=found, cpu_ratios=cpu)


def _sums(results: list[dict[str, Any]], what: Sequence[str], unit: str) -> list[float]:
    """Of each round."""
    return [sum(one[part][unit] for part in what) for one in results]


def _middle(results: list[dict[str, Any]], what: Sequence[str], unit: str) -> float:
    return median(_sums(results, what, unit))


def _smaller(ours: dict[str, Any], theirs: dict[str, Any]) -> Reading:
    waiting = f"{format_rounded_number(ours['untold'] / 1024)} KB more while nobody has been told"
    kilobytes = " ÷ ".join(format_rounded_number(one["bytes"] / 1024) for one in (theirs, ours))
    note = f"{kilobytes} KB, lists, record and answers included"
    return reading("flow-bytes", theirs["bytes"] / ours["bytes"], f"{note}; {waiting}", kinds=ours["kinds"])


def _case() -> dict[str, Any]:
    """A leave request of two levels, as its form is handed in and as it is filled in."""
    leave = load_shipped_processes()[0]
    filled = fill_form(leave, FORM, FormContext(STAFF[0], STAFF, datetime.now(UTC).date(), WorkCalendar(), {}))
    people = {name: found[0] for name, found in filled.people.items() if found}
    numbers = {name: {"of": str(value)} for name, value in filled.numbers.items()}
    data = {**filled.values, **people, **numbers, "initiator": STAFF[0].id}
    return {"form": FORM, "approver": BOB.id, "source": leave.bpmn.decode(), "data": data}


def todo(bench: Bench) -> list[Reading]:
    few, many = 100, bench.options.few(OPEN, 300)
    bench.doing(f"to-do lists with {few} and {many:,} open requests")
    found = _measured(bench, "tests.bench.programs.todo", {"open": [few, many], **_case()}, sys.executable)
    before, after = found["server_ms"]
    worst = max(after, key=lambda name: after[name])
    note = ", ".join(f"{name}: {format_rounded_number(ms)} ms" for name, ms in after.items())
    quick = "" if many == OPEN else f" (quick: {many} open requests)"
    told = ", ".join(
        f"{name}: {format_rounded_number(after[name])} ÷ {format_rounded_number(before[name])} ms at the server"
        for name in after
    )
    asked = [max(calls.values()) for calls in found["calls"]]
    return [
        reading("todo", after[worst], note + quick, server_ms=found["server_ms"]),
        reading(
            "todo-growth",
            asked[1] / asked[0],
            f"{format_rounded_number(asked[1])} ÷ {format_rounded_number(asked[0])}; {told}",
        ),
    ]


def _python(bench: Bench) -> str:
    if find_spec("SpiffWorkflow"):
        return sys.executable
    bench.doing("preparing SpiffWorkflow")
    if problem := installed(SPIFF):
        raise NotMeasured(f"SpiffWorkflow {problem}")
    return str(python_of(SPIFF))


def _measured(bench: Bench, program: str, job: dict[str, Any], python: str) -> dict[str, Any]:
    bench.empty()
    told = json.dumps({**job, "redis_url": bench.redis, "core": bench.job().core})
    with outside.child(program, told, python=python) as process:
        return outside.heard(process)
