"""What people feel: how soon an event is acknowledged, a first step is seen, a new process listens."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from tests.bench import outside
from tests.bench.bench import Bench
from tests.bench.figures import Reading, compute_percentile, format_rounded_number, median, ratios, reading, spread
from tests.bench.outside import NotMeasured

SLACK_WAITS_MS = 3000
PER_S = 500
IMPORT = "import time; began = time.perf_counter(); import bot.app.build; print(time.perf_counter() - began)"


@contextmanager
def linked(bench: Bench, people: int, after_ms: int) -> Iterator[subprocess.Popen[str]]:
    """The workspace, with the whole bot connected to it."""
    bench.empty()
    with outside.child("tests.bench.workspace", str(people), "--events") as workspace:
        job = bench.job(after_ms=after_ms, workspace=outside.heard(workspace))
        with outside.child("tests.bench.programs.connected", json.dumps(asdict(job))) as bot:
            outside.heard(bot)
            outside.tell(workspace, {"do": "link"})
            yield workspace


def ack(bench: Bench) -> list[Reading]:
    """A burst of messages over the real Bolt connection, while the worker has its hands full of them too."""
    seconds, acks, lost, rates = bench.options.few(4, 1), list[float](), 0, list[float]()
    p99 = list[float]()
    for number_ in range(1, bench.options.rounds + 1):
        bench.doing(f"{PER_S} events/s for {seconds} s, round {number_} of {bench.options.rounds}")
        with linked(bench, 500, 3000) as workspace:
            outside.tell(workspace, {"do": "first", "person": 0})
            found = outside.tell(workspace, {"do": "burst", "events": PER_S * seconds, "per_s": PER_S})
        acks += found["acks_ms"]
        lost += found["lost"]
        rates.append(found["per_s"])
        p99.append(compute_percentile(found["acks_ms"], 0.99))
    if not acks:
        raise NotMeasured("no event was acknowledged")
    late = lost + sum(one > SLACK_WAITS_MS for one in acks)
    p50 = compute_percentile(acks, 0.5)
    middle, worst, rate = (format_rounded_number(one) for one in (p50, max(p99), median(rates)))
    note = f"p50 {middle} ms, p99 of the worst round {worst} ms, at {rate} events/s"
    return [
        reading("ack", median(p99), note, p50=p50, p99_by_round=p99, acks_ms=sorted(acks)),
        reading("ack-late", 100 * late / (len(acks) + lost), f"{late} of {len(acks) + lost}", lost=lost),
    ]


def first(bench: Bench) -> list[Reading]:
    """One message at a time to an idle bot; the model answers at once, and what it took is subtracted."""
    count = bench.options.few(200, 20)
    bench.doing(f"{count} messages, one after another")
    with linked(bench, count + 5, 0) as workspace:
        seen = [outside.tell(workspace, {"do": "first", "person": n}) for n in range(count + 5)][5:]
    asked = [(came, answered) for came, answered, step in outside.book(bench.mock)["times"] if step == 0][-count:]
    parts = [_parts(one, *model) for one, model in zip(seen, asked, strict=True)]
    over = [one["whole"] - one["model"] for one in parts]
    shown = {
        name: {
            "p50": compute_percentile([one[name] for one in parts], 0.5),
            "p99": compute_percentile([one[name] for one in parts], 0.99),
        }
        for name in parts[0]
    }
    note = ", ".join(f"{name} {format_rounded_number(one['p50'])}" for name, one in shown.items() if name != "whole")
    return [
        reading("first-p50", compute_percentile(over, 0.5), note, parts=shown),
        reading("first-p99", compute_percentile(over, 0.99), f"of {count} messages"),
    ]


def _parts(seen: dict[str, float], came: float, answered: float) -> dict[str, float]:
    """Where the time went (ms)."""
    return {
        "said → acknowledged": 1000 * (seen["acked"] - seen["said"]),
        "said → model asked": 1000 * (came - seen["said"]),
        "model": 1000 * (answered - came),
        "model answered → step posted": 1000 * (seen["posted"] - answered),
        "whole": 1000 * (seen["posted"] - seen["said"]),
    }


def start(bench: Bench) -> list[Reading]:
    """From nothing to the first open socket, as `countersign run` starts; and the import alone."""
    times, imports = list[float](), list[float]()
    for number_ in range(1, bench.options.few(5, 2) + 1):
        bench.doing(f"cold start, {number_}")
        times.append(_started(bench))
        imports.append(float(_python("-c", IMPORT)))
    slowest = _slow_imports(_python("-X", "importtime", "-c", "import bot.app.build", err=True))
    note = ", ".join(f"{name} {format_rounded_number(ms)} ms" for name, ms in list(slowest.items())[:4])
    return [
        reading("start", median(times), rounds=times),
        reading("import", median(imports), f"by itself: {note}", rounds=imports, ms_by_module=slowest),
        _measure_look(bench),
    ]


LIBRARIES = "import asyncio, pydantic_settings, redis.asyncio, typer, rich.console\n"
TELL_CPU = "import time\nprint(time.process_time())"
LOOK = f"""
import sys
from contextlib import suppress
sys.argv = ["countersign", "tail", "--since", "2m"]
from bot.cli import main
with suppress(SystemExit):
    main()
{TELL_CPU}"""


def _measure_look(bench: Bench) -> Reading:
    """A whole process that looks into an empty journal."""
    looks, imports = list[float](), list[float]()
    for _ in range(bench.options.few(5, 2)):
        imports.append(float(_python("-c", LIBRARIES + TELL_CPU)))
        looks.append(float(_python("-c", LOOK, more={"REDIS_URL": bench.redis}).splitlines()[-1]))
    found = ratios(looks, imports)
    note = f"{format_rounded_number(median(looks))} ÷ {format_rounded_number(median(imports))} s, {spread(found)}"
    return reading("look", median(found), note, ratios=found)


def _started(bench: Bench) -> float:
    bench.empty()
    with outside.child("tests.bench.workspace", "5", "--events") as workspace:
        where = outside.heard(workspace)
        more = {
            "SLACK_BOT_TOKEN": where["bot_token"], "SLACK_APP_TOKEN": where["app_token"], "SLACK_API_URL": where["api"],
            "OPENAI_BASE_URL": f"{bench.mock}/v1", "REDIS_URL": bench.redis, "SMTP_URL": "smtp://127.0.0.1:9",
        }  # fmt: skip
        began = time.monotonic()
        with outside.child("bot", "run", more=more):
            return float(outside.tell(workspace, {"do": "link"})["at"]) - began


def _python(*args: str, err: bool = False, more: dict[str, str] | None = None) -> str:
    env = outside.environment() | (more or {})
    done = subprocess.run(
        [outside.PYTHON, *args], cwd=outside.ROOT, env=env, capture_output=True, text=True, timeout=60
    )
    if done.returncode:
        raise NotMeasured(done.stderr[-500:])
    return done.stderr if err else done.stdout


def _slow_imports(told: str) -> dict[str, float]:
    """Top-level package → ms of its own modules, slowest first."""
    own: dict[str, float] = {}
    for line in told.splitlines():
        parts = [part.strip() for part in line.removeprefix("import time:").split("|")]
        if len(parts) == 3 and parts[0].isdigit():
            package = parts[2].partition(".")[0]
            own[package] = own.get(package, 0) + int(parts[0]) / 1000
    return dict(sorted(own.items(), key=lambda one: -one[1])[:15])
