"""`countersign` as a separate program: run to its end, or until it is told to end."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.command_server import LINE
from tests.harness.forked import ForkedProcess, Program, fork_process
from tests.harness.tied import build_tied_command, open_tie

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a program: its exit code and output."""

    code: int | None
    out: str
    err: str

    @property
    def all(self) -> str:
        return self.out + self.err


@asynccontextmanager
async def started(*arguments: str, cwd: Path, env: Mapping[str, str], fresh: bool = False) -> AsyncIterator[Program]:
    """Start `python -m bot …` in its own session, as in its own terminal. `cwd` keeps foreign `.env` files away.
    `fresh`: in a new interpreter; otherwise forked from one that has imported the bot."""
    child: Program
    if fresh:
        child = await asyncio.create_subprocess_exec(
            *build_tied_command(sys.executable, "-m", "bot", *arguments),
            cwd=cwd,
            pass_fds=[open_tie()],
            env={**LINE, **env},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
    else:
        child = await fork_process("bot", *arguments, cwd=cwd, env=env)
    try:
        yield child
    finally:
        if isinstance(child, ForkedProcess):
            await child.close()
        else:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


async def ended(child: Program) -> Ended:
    """Wait for its end."""
    out, err = await asyncio.wait_for(child.communicate(), PATIENCE_S)
    return Ended(child.returncode, out.decode(), err.decode())


async def ran(*arguments: str, cwd: Path, env: Mapping[str, str], given: int | None = None) -> Ended:
    """Run a command to its end, in a process that has already imported the bot. `given`: its standard input, empty by
    default."""
    with open(os.devnull, "rb") as nothing:
        child = await fork_process("bot", *arguments, cwd=cwd, env=env, given=given or nothing.fileno())
    try:
        return await ended(child)
    finally:
        await child.close()


def list_commands() -> set[str]:
    """List every command of the program, as the program itself defines them."""
    import typer.main

    from bot.ops.cli import app

    found = set[str]()
    for name, one in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = {f"{name} {sub}" for sub in getattr(one, "commands", {})}
        found |= {name} | inner if getattr(one, "invoke_without_command", not inner) else inner
    return found


def invoke(capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch, *arguments: str) -> Ended:
    """Run `countersign …` in this process, as from a terminal, which takes no time. While an event loop runs, use
    `asyncio.to_thread`."""
    from bot.ops.cli import main

    patch.setattr(sys, "argv", ["countersign", *arguments])
    code = 0
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    said = capsys.readouterr()
    return Ended(code, said.out, said.err)


async def printed(child: Program, text: str) -> str:
    """Read its output until it contains this text."""
    assert child.stdout is not None and child.stderr is not None
    said = ""
    async with asyncio.timeout(PATIENCE_S):
        while text not in said:
            line = (await child.stdout.readline()).decode()
            assert line, f"it ended without a word of {text!r}: {said}{(await child.stderr.read()).decode()}"
            said += line
    return said


def free_ports(count: int = 2) -> int:
    """Find the first of that many free ports in a row, below those that the system assigns by itself. Each test process
    has a thousand of its own: a port that another one has just found looks free until its program is up."""
    own = 20_000 + 1_000 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 10)
    while True:
        first = random.SystemRandom().randrange(own, own + 1_000 - count)
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first


def ctrl_c(child: Program) -> None:
    """Send the signal to the whole foreground group, as a terminal does."""
    os.killpg(child.pid, signal.SIGINT)


def mentioning(text: str) -> list[str]:
    """List command lines of running processes that contain this text."""
    found: list[str] = []
    for process in Path("/proc").iterdir():
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if process.name.isdigit() and text in line:
            found.append(line)
    return found
