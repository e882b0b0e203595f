"""The command: prints its seed first, ends when told to, and leaves nothing running."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bot.core.errors import StoreUnavailableError
from tests.qa.chaos.__main__ import failed, options
from tests.qa.chaos.plan import FAULTS
from tests.qa.chaos.town import ROOT
from tests.qa.process import list_processes_in

PATIENCE_S = 280.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a name that leaves room for those of sockets, which may not be long."""
    with tempfile.TemporaryDirectory(prefix="cs-") as name:
        yield Path(name)


async def command(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)}
    pipes: dict[str, Any] = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
    words = [sys.executable, "-m", "tests.qa.chaos", *arguments]
    return await asyncio.create_subprocess_exec(*words, cwd=ROOT, env=env, **pipes, start_new_session=True)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="looks into /proc")
@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("chats", [[""], ["slack ", "feishu"]], ids=["one", "both"])
async def test_told_to_end_it_leaves_no_process_and_no_file(
    folder: Path, told: signal.Signals, chats: Sequence[str]
) -> None:
    few = ("--conversations", "8", "--messages", "4", "--processes", "2", "--seed", "5")
    child = await command(folder, *few, *(["--both"] if len(chats) > 1 else []))
    assert child.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        assert (await child.stdout.readline()).decode() == "seed 5\n"
        begun = list[str]()
        while len(begun) < len(chats):
            begun += [line] if "2 bots at work" in (line := (await child.stdout.readline()).decode()) else []
        assert all(any(line.startswith(chat) for line in begun) for chat in chats)
        assert len(list_processes_in(folder)) >= 4 * len(chats), "two bots, the model, Redis"
        os.killpg(child.pid, told)
        said = (await child.stdout.read()).decode()
        assert await child.wait() == 130, said
    assert list_processes_in(folder) == {} and list(folder.iterdir()) == [] and "Traceback" not in said


SAID = {
    "--processes 0": "argument --processes: '0' is not a whole number from 1 on",
    "--seed -1": "argument --seed: '-1' is not a whole number from 0 on",
    "--minutes nan": "argument --minutes: 'nan' is not a span of time: a number from 0 on, such as 1.5",
    "--redis clutser": "argument --redis: there is no Redis 'clutser': say embedded, server, cluster, or a URL",
    "--faults kill,earthquake": f"argument --faults: unknown: earthquake; there are {', '.join(FAULTS)}",
    "--without": "--without says nothing without --scene",
    "--both --scene posts": "--both wants two conversations, a Redis of its own for each run, and no --scene",
}


def test_what_there_is_not_is_said_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in SAID.items():
        with pytest.raises(SystemExit) as end:
            options(words.split())
        assert (end.value.code, capsys.readouterr().err) == (2, f"deploy/qa chaos: {said}\n")


def test_a_harness_that_fails_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    inner = ExceptionGroup("two", [ValueError("a mistake")])
    said = failed(ExceptionGroup("one", [StoreUnavailableError("no such file"), inner]))
    told = "StoreUnavailableError: no such file; ValueError: a mistake"
    assert said == f"deploy/qa chaos: the harness itself failed: {told}"
    assert capsys.readouterr().err.startswith("ValueError"), "where a mistake of ours happened"


@pytest.mark.slow
async def test_it_ends_at_once_with_a_code_of_its_own(folder: Path) -> None:
    child = await command(folder, "--redis", f"unix://{folder}/nobody.sock", "--seed", "5")
    out, _ = await asyncio.wait_for(child.communicate(), PATIENCE_S)
    assert child.returncode == 2 and "the harness itself failed: StoreUnavailableError" in out.decode()
    assert list(folder.iterdir()) == [] and "Traceback" not in out.decode()
