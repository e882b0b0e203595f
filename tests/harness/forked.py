"""A process forked by a command server, with the interface of one of asyncio's own."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.harness.command_server import CommandServer, get_command_server


@dataclass(frozen=True, slots=True)
class Pipe:
    """Our end of a pipe."""

    reader: asyncio.StreamReader
    transport: asyncio.BaseTransport


class ForkedProcess:
    """A running or ended process; `returncode` is set as soon as its end is reported. Its standard input ends with this
    process."""

    def __init__(self, pid: int, told: Pipe, given: int, heard: Sequence[Pipe]) -> None:
        self.pid, self._heard = pid, heard
        self.stdout = heard[0].reader if heard else None
        self.stderr = heard[1].reader if heard else None
        self.returncode: int | None = None
        self._end = asyncio.create_task(self._hear_end(told, given), name=f"process {pid}")

    async def _hear_end(self, told: Pipe, given: int) -> int:
        try:
            self.returncode = int(await told.reader.readline())
        finally:
            os.close(given)
            told.transport.close()
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    async def communicate(self) -> tuple[bytes, bytes]:
        """Return all its output until it ends."""
        assert self.stdout and self.stderr
        out, err, _ = await asyncio.gather(self.stdout.read(), self.stderr.read(), self.wait())
        return out, err

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # the process has just ended by itself
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def close(self) -> None:
        """Kill the process if it still runs; its unread output is lost."""
        self.kill()
        await self.wait()
        for one in self._heard:
            one.transport.close()
        await asyncio.sleep(0)  # the pipes close in the loop's next round


Program = asyncio.subprocess.Process | ForkedProcess
"""A process, however it was started."""


async def fork_process(
    module: str, *arguments: str, cwd: Path, env: Mapping[str, str], log: IO[bytes] | None = None,
    server: CommandServer | None = None, given: int | None = None,
) -> ForkedProcess:  # fmt: skip
    """Fork `python -m MODULE …` in its own session. Its output goes to `log`, or can be read from the process. `given`:
    its standard input; by default one that ends with this process."""
    with ExitStack() as theirs:
        stays, gives = _open_pipe(theirs, "rb")
        heard = list[Pipe]()
        files = [log, log] if log else []
        while len(files) < 2:
            says, hears = _open_pipe(theirs, "wb")
            files.append(says)
            heard.append(await _read_from(hears))
        server = server or await asyncio.to_thread(get_command_server)
        told = server.start(arguments, cwd, env, files[0], files[1], module=module, given=given or stays.fileno())
        pipe = await _read_from(told)
        return ForkedProcess(int(await pipe.reader.readline()), pipe, gives, heard)


def _open_pipe(theirs: ExitStack, mode: str) -> tuple[IO[bytes], int]:
    """Open a pipe: their end, which is closed with the stack, and ours."""
    reads, writes = os.pipe()
    their, our = (reads, writes) if mode == "rb" else (writes, reads)
    return theirs.enter_context(os.fdopen(their, mode, buffering=0)), our


async def _read_from(descriptor: int) -> Pipe:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    return Pipe(reader, transport)
