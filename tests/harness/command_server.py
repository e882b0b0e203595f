"""Commands of the bot as separate processes, without the time that importing the bot takes.

One process per test process imports everything once, and forks for each command. The command has its own arguments,
environment, folder and outputs, and ends as `python -m bot` does. A watcher between the two reports its process id and
its exit code, and kills the command when nobody reads them any more."""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock, Thread
from typing import IO

ROOT = Path(__file__).parents[2]
REQUEST_MAX = 1 << 20
SET_TODAY = """
import os
from datetime import datetime
from bot.core.clock import Clock

day = datetime.fromisoformat(os.environ["DAY_OF_STORY"])
Clock.today = lambda clock, zone=None: day.astimezone(zone) if zone else day
"""
"""Code that a program runs first to set its date to the day of the story: as text, also for programs of another
version."""
_TIME = ("TZ", "LD_PRELOAD", "SIMULATED_TIME", "FAKETIME")
INHERITED = {name: os.environ[name] for name in ("PATH", *_TIME) if name in os.environ}
"""Variables that every program of a test inherits from this environment: the path and the time."""
LINE = {**INHERITED, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
"""The environment of every command, besides its own."""


class CommandServer:
    """The process that forks, with the sources in `root`. This process ends with the one that asks."""

    def __init__(self, root: Path = ROOT) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = (sys.executable, "-m", __name__, str(theirs.fileno()))
            self._process = subprocess.Popen(
                command, cwd=root, env={**LINE, "PYTHONPATH": str(root)}, stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        self._line.recv(1)  # sent once everything is imported
        atexit.register(self.close)

    def close(self) -> None:
        self._line.close()
        self._process.wait()

    def start(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], out: IO[bytes], err: IO[bytes], *,
        module: str = "bot", given: int | None = None,
    ) -> int:  # fmt: skip
        """Start a command. Returns the file descriptor from which its process id and then its exit code can be read.
        `given`: its standard input; empty by default."""
        told, tells = os.pipe()
        wanted = {"module": module, "arguments": list(arguments), "cwd": str(cwd), "env": {**LINE, **env}}
        files = [tells, out.fileno(), err.fileno(), *([] if given is None else [given])]
        try:
            socket.send_fds(self._line, [json.dumps(wanted).encode()], files)
        finally:
            os.close(tells)
        return told


_OPENING, _open_command_server = Lock(), cache(CommandServer)


def get_command_server() -> CommandServer:
    """The server of this process, also when several threads ask for it at once."""
    with _OPENING:
        return _open_command_server()


def serve(line: socket.socket) -> dict[str, object] | None:
    """Fork for each request until nobody asks any more. In a command's process, returns the request."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for watchers
    line.send(b"r")
    while True:
        wanted, descriptors, _, _ = socket.recv_fds(line, REQUEST_MAX, 4)
        if not wanted:
            return None
        if os.fork() == 0:
            line.close()
            return _watch(json.loads(wanted), *descriptors)
        for one in descriptors:
            os.close(one)


def _watch(wanted: dict[str, object], tells: int, *files: int) -> dict[str, object]:
    """Fork the command, and report its process id and exit code. Returns in the command's process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if (child := os.fork()) != 0:
        for one in files:
            os.close(one)
        os.write(tells, f"{child}\n".encode())
        Thread(target=_kill_when_unheard, args=(tells, child), daemon=True).start()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(BrokenPipeError):
            os.write(tells, f"{code}\n".encode())
        os._exit(0)
    os.setsid()
    os.close(tells)
    for source, target in zip(files, (1, 2, 0), strict=False):
        os.dup2(source, target)
        os.close(source)
    return wanted


def _kill_when_unheard(tells: int, child: int) -> None:
    """Kill the command once the process that asked for it has ended."""
    ends = select.poll()
    ends.register(tells, 0)
    ends.poll()
    for kill in (os.killpg, os.kill):  # the child may not have its own session yet
        with contextlib.suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)


def run(wanted: dict[str, object]) -> None:
    """Run `python -m MODULE …` in this process, after the code in `RUN_FIRST`."""
    os.environ.clear()
    os.environ.update(wanted["env"])  # type: ignore[call-overload]
    time.tzset()
    os.chdir(str(wanted["cwd"]))
    sys.argv = [str(wanted["module"]), *wanted["arguments"]]  # type: ignore[misc]
    if "DAY_OF_STORY" in os.environ:
        exec(SET_TODAY, {})
    exec(os.environ.get("RUN_FIRST", ""), {})
    runpy.run_module(str(wanted["module"]), run_name="__main__", alter_sys=True)


def run_and_end(wanted: dict[str, object]) -> None:
    """Run the module to the end of the process. Imported modules are not torn down one by one, which would take longer
    than the command itself."""
    code: object = 0
    try:
        run(wanted)
    except SystemExit as end:
        code = end.code or 0
    if not isinstance(code, int):
        raise SystemExit(code)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def import_everything() -> None:
    """Import every module of the product; imports only define things."""
    for package in ("bot", "tools"):
        for module in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


if __name__ == "__main__":
    import_everything()
    gc.freeze()
    if (asked := serve(socket.socket(fileno=int(sys.argv[1])))) is not None:
        run_and_end(asked)
