"""The benchmarks can be run: every program makes its runs, every figure is written down. How fast anything is, is not
tested."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.qa.bench import outside
from tests.qa.bench.__main__ import MEASURES, main
from tests.qa.bench.bench import Bench, opened
from tests.qa.bench.figures import FIGURES, GROUPS, Reading
from tests.qa.bench.mock import CALLS, STEPS, step_of
from tests.qa.bench.outside import NotMeasured
from tests.qa.company import list_full_weeks
from tools.workflow.process.calendar import WorkCalendar


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with opened(1, True, [], lambda _: None) as one:
        yield one


def body(*roles: str) -> bytes:
    messages = [{"role": role, "content": 'he said "role": "user" and \\"role\\": \\"tool\\"'} for role in roles]
    return json.dumps({"model": "m", "messages": messages}).encode()


def test_a_step_is_the_tool_messages_behind_the_last_user_message() -> None:
    assert step_of(body("system", "user")) == 0
    assert step_of(body("system", "user", "assistant", "tool", "assistant", "tool")) == 2
    assert step_of(body("user", "assistant", "tool", "assistant", "user", "assistant", "tool")) == 1
    assert step_of(body("user", *["assistant", "tool"] * 9)) == CALLS
    assert step_of(body("user", "tool").replace(b'": "', b'":"')) == 1


async def test_the_mock_answers_many_on_kept_connections_and_after_a_time() -> None:
    async def ask(host: str, port: int, path: str) -> float:
        reader, writer = await asyncio.open_connection(host, port)
        began = asyncio.get_running_loop().time()
        for _ in range(2):
            asked = body("user")
            writer.write(b"POST %s HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(asked), asked))
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.partition(b"Content-Length: ")[2]))
            assert head.startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()
        return asyncio.get_running_loop().time() - began

    with outside.mock() as url:
        host, _, port = url.removeprefix("http://").partition(":")
        paths = ["/v1/chat/completions"] * 20 + ["/after/50/v1/chat/completions"]
        took = await asyncio.gather(*(ask(host, int(port), path) for path in paths))
        assert outside.count_served(url) == 42
    assert took[-1] >= 0.1


def test_our_program_makes_its_runs(bench: Bench) -> None:
    result = bench.run("ours", bench.job(runs=3, warm=1, at_once=3, earlier=4))  # seven calls a run, or it raises
    assert (result.runs, result.steps, result.errors) == (3, 3 * STEPS, [])
    assert result.cpu_ms > 0 and result.wall_s > 0 and result.rss_before > 1_000_000
    assert result.versions["openai"]


def test_what_goes_wrong_in_a_program_is_told(bench: Bench) -> None:
    with pytest.raises(NotMeasured, match="odd answer"):
        bench.run("peers:floor", bench.job(runs=1, warm=0, answer="something else"))
    with pytest.raises(NotMeasured, match="no_such_program"):
        bench.run("no_such_program", bench.job())


ENDLESS = """
import sys
from tests.qa.bench import __main__ as command
from tests.qa.command import run_command
def measure(bench):
    print("begun", flush=True)
    bench.run("peers:floor", bench.job(runs=10**9))
command.MEASURES["cpu"] = measure
run_command("bench", lambda: command.main(["--only", "cpu", "--no-peers", "--out", sys.argv[1]]))
"""


@pytest.mark.slow
def test_told_to_end_it_leaves_nothing_behind(tmp_path: Path) -> None:
    command, env = [sys.executable, "-c", ENDLESS, str(tmp_path)], outside.environment()
    bench = subprocess.Popen(command, cwd=outside.ROOT, env=env, stdout=subprocess.PIPE, text=True)
    assert bench.stdout is not None and bench.stdout.readline() == "begun\n"
    told = subprocess.run(["ps", "-o", "pid=", "--ppid", str(bench.pid)], capture_output=True, text=True, check=True)
    begun = told.stdout.split()
    bench.terminate()
    out, _ = bench.communicate(timeout=60)
    assert (bench.returncode, out.strip()) == (130, "Stopped.")
    assert len(begun) >= 2, "the endpoint, the Redis server, the program"
    assert not [pid for pid in begun if Path(f"/proc/{pid}").exists()]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_command_measures_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = ["cpu", "crowd", "rush", "ack"]
    assert set(MEASURES) == set(GROUPS)
    assert main(["--quick", "--no-peers", "--only", *groups, "--out", str(tmp_path)]) == 0
    kept = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    wanted = {figure.name for figure in FIGURES if figure.group in groups} - {"peers"}
    assert {one["name"] for one in kept["figures"] if one["value"] is not None} == wanted
    assert "CPU per step" in capsys.readouterr().out


def test_only_what_could_not_be_measured_or_must_not_be_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = next(figure for figure in FIGURES if figure.name == "crowd-card")

    def break_down(_: Bench) -> list[Reading]:
        raise NotMeasured("the workers did not start")

    for measure, code in (
        (lambda _: [Reading(missed, 9.0)], 0),
        (lambda _: [Reading(replace(missed, must=True), 9.0)], 1),
        (break_down, 1),
    ):
        monkeypatch.setitem(MEASURES, "crowd", measure)
        assert main(["--only", "crowd", "--no-peers", "--out", str(tmp_path)]) == code
    assert "the workers did not start" in (tmp_path / "bench.json").read_text(encoding="utf-8")


def test_a_week_that_is_asked_for_is_worked_from_end_to_end() -> None:
    for today in (date(2026, 9, 10), date(2026, 12, 31), date(2027, 1, 15), date(2028, 2, 29)):
        weeks, calendar = list_full_weeks(today), WorkCalendar()
        days = [monday + timedelta(days=n) for monday in weeks for n in range(5)]
        assert len(weeks) > 50 and weeks[0] >= today + timedelta(weeks=3)
        assert all(calendar.get_day_status(day)[0] for day in days) and {day.weekday() for day in days} == set(range(5))
