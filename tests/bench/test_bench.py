"""The benchmarks can be run: every program makes its runs, every figure is written down. How fast anything is, is not
tested."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.bench import outside, peers, report
from tests.bench.__main__ import MEASURES, main
from tests.bench.bench import Bench, Options, opened
from tests.bench.figures import FIGURES, GROUPS, Figure, Reading, compute_percentile, format_rounded_number
from tests.bench.mock import CALLS, STEPS, Script, step_of
from tests.bench.outside import NotMeasured
from tests.bench.page import page


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with opened(Options(1, quick=True), [], lambda _: None) as one:
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


def test_a_scripted_reply_has_the_shape_of_the_real_thing() -> None:
    script, ids = Script(), set[str]()
    for step in range(STEPS):
        head, _, text = script.answer(step, 0.0).partition(b"\r\n\r\n")
        reply = json.loads(text)
        assert f"Content-Length: {len(text)}".encode() in head
        assert reply["usage"]["total_tokens"] > 0
        called = reply["choices"][0]["message"].get("tool_calls", [])
        assert (len(called), reply["choices"][0]["finish_reason"]) == (
            (1, "tool_calls") if step < CALLS else (0, "stop")
        )
        ids |= {reply["id"], *(call["id"] for call in called)}
    assert len(ids) == STEPS + CALLS


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
        assert outside.served(url) == 42
    assert took[-1] >= 0.1


@pytest.mark.parametrize("program", ["floor", "ours"])
def test_a_program_makes_its_runs(bench: Bench, program: str) -> None:
    result = bench.run(program, bench.job(runs=3, warm=1, at_once=3, earlier=4))  # seven calls a run, or it raises
    assert (result.runs, result.steps, result.errors) == (3, 3 * STEPS, [])
    assert result.cpu_ms > 0 and result.wall_s > 0 and result.rss_before > 1_000_000
    assert result.versions["openai"]


def test_what_goes_wrong_in_a_program_is_told(bench: Bench) -> None:
    with pytest.raises(NotMeasured, match="odd answer"):
        bench.run("floor", bench.job(runs=1, warm=0, answer="something else"))
    with pytest.raises(NotMeasured, match="no_such_program"):
        bench.run("no_such_program", bench.job())


def test_a_child_is_gone_with_its_context() -> None:
    with pytest.raises(KeyboardInterrupt), outside.child("tests.bench.mock") as process:
        outside.heard(process)
        raise KeyboardInterrupt
    assert process.poll() is not None


def test_told_to_end_it_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench", "--only", "cpu", "--no-peers", "--out", str(tmp_path)]
    bench = subprocess.Popen(command, cwd=outside.ROOT, env=outside.environment(), stdout=subprocess.PIPE, text=True)
    while not (begun := _children(bench.pid, "tests.bench.programs")):
        assert bench.poll() is None
        time.sleep(0.02)
    begun |= _children(bench.pid)
    bench.terminate()
    out, _ = bench.communicate(timeout=30)
    assert (bench.returncode, out.strip()) == (130, "Stopped.")
    assert len(begun) >= 3  # the program, the endpoint, the Redis server
    assert not [pid for pid in begun if Path(f"/proc/{pid}").exists()]
    assert not list(tmp_path.iterdir())


def _children(parent: int, having: str = "") -> set[str]:
    """Processes of this parent whose command line has this in it."""
    told = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in told.splitlines()[1:]]
    return {row[0] for row in rows if row[1] == str(parent) and having in row[2]}


def test_a_peer_that_is_not_there_is_left_out_with_a_reason() -> None:
    def install(environment: str) -> str:
        return "" if environment == "langgraph" else "could not be installed (no network)"

    found, skipped = peers.available(lambda _: None, lambda peer: "" if peer.program == "langgraph" else "odd", install)
    assert [peer.program for peer in found] == ["langgraph"]
    assert len(found) + len(skipped) == len(peers.PEERS)
    assert "pydantic-ai: could not be installed (no network)" in skipped
    assert any("needs a Redis with JSON and search" in one for one in skipped)


def test_every_figure_has_a_measure() -> None:
    assert set(MEASURES) == set(GROUPS)
    assert len({figure.name for figure in FIGURES}) == len(FIGURES)


def test_the_files_hold_every_figure(tmp_path: Path) -> None:
    readings = [Reading(figure, 1.5, "so & so") for figure in FIGURES[1:]] + [Reading(FIGURES[0], None, "it broke")]
    about = {"cpu": "c", "cores": "2", "memory": "m", "system": "s", "python": "p", "load": "0.1"}
    written = report.Report(
        datetime(2026, 11, 21, tzinfo=UTC), 5, False, readings, ["x: no"], {"ours": {}}, "valkey", about
    )
    shown = report.write(written, tmp_path).read_text(encoding="utf-8")
    kept = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert {one["name"] for one in kept["figures"]} == {figure.name for figure in FIGURES}
    assert all(f'id="{figure.name}"' in shown for figure in FIGURES)
    assert "so &amp; so" in shown and "not measured" in shown and "x: no" in shown
    assert not any(outer in shown for outer in ("<script", "http:", "https:", "@import", "url("))
    assert report.table(written).row_count == len(FIGURES)


def test_the_command_measures_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = ["cpu", "trips", "left", "flow", "todo", "crowd", "rush"]
    assert main(["--quick", "--no-peers", "--only", *groups, "--out", str(tmp_path)]) == 0
    kept = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    wanted = {figure.name for figure in FIGURES if figure.group in groups} - {"peers"}
    assert {one["name"] for one in kept["figures"] if one["value"] is not None} == wanted
    assert page(kept) == (tmp_path / "bench.html").read_text(encoding="utf-8")
    assert "CPU per step" in capsys.readouterr().out


def test_only_what_could_not_be_measured_or_must_not_be_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = next(figure for figure in FIGURES if figure.name == "lanes")
    monkeypatch.setitem(MEASURES, "lanes", lambda _: [Reading(missed, 1.0)])
    assert main(["--only", "lanes", "--no-peers", "--out", str(tmp_path)]) == 0
    monkeypatch.setitem(MEASURES, "lanes", lambda _: [Reading(replace(missed, must=True), 1.0)])
    assert main(["--only", "lanes", "--no-peers", "--out", str(tmp_path)]) == 1

    def broken(_: Bench) -> list[Reading]:
        raise NotMeasured("the workers did not start")

    monkeypatch.setitem(MEASURES, "lanes", broken)
    assert main(["--only", "lanes", "--no-peers", "--out", str(tmp_path)]) == 1
    assert "the workers did not start" in (tmp_path / "bench.html").read_text(encoding="utf-8")


def test_reaches_and_numbers() -> None:
    most, least, neither = Figure("a", "g", "a", "ms", most=2), Figure("b", "g", "b", least=3), Figure("c", "g", "c")
    assert [most.met(2), most.met(2.1), least.met(3), least.met(2), neither.met(1)] == [True, False, True, False, None]
    assert [most.reach, least.reach, neither.reach] == ["≤ 2 ms", "≥ 3", "reported"]
    assert [format_rounded_number(one) for one in (0.604, 12.34, 3_456.7, 5.0, None)] == [
        "0.60",
        "12.3",
        "3,457",
        "5",
        "–",
    ]
    assert (compute_percentile([4, 1, 3, 2], 0.5), compute_percentile([1, 2], 0.99), compute_percentile([7], 1.0)) == (
        3,
        2,
        7,
    )
