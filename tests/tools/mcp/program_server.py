"""`program.py` as processes, without the time that importing the SDK takes.

One process for each test process imports the SDK, once, and forks for each server. What is started as a server
(`program_door.py`) hands over its arguments, environment and standard files, and ends as the server ends; when it is
ended itself, the server is killed.
"""

import atexit
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

PROGRAM = Path(__file__).with_name("program.py")
DOOR = Path(__file__).with_name("program_door.py")
REQUEST_MAX = 1 << 20


class ProgramServer:
    """The process that forks. It ends with the one that has started it."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="countersign-")
        self.address = f"{self._folder}/door"
        self._process = subprocess.Popen(
            (sys.executable, str(Path(__file__)), self.address),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._process.stdout.read(1)  # it has imported everything
        atexit.register(self.close)

    def close(self) -> None:
        self._process.communicate()
        shutil.rmtree(self._folder)


@cache
def get_program_server() -> ProgramServer:
    return ProgramServer()


def build_command(*arguments: str) -> tuple[str, ...]:
    """`python program.py …`, quickly."""
    return (sys.executable, "-I", "-S", str(DOOR), get_program_server().address, *arguments)


def serve(address: str) -> list[str] | None:
    """Fork for each door until the test process is gone. Returns in a server's process what its arguments are."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # watchers are waited for by nobody
    with socket.socket(socket.AF_UNIX) as doors:
        doors.bind(address)
        doors.listen(64)
        os.write(1, b"r")
        while True:
            readable, _, _ = select.select([doors, 0], [], [])
            if 0 in readable:
                return None
            door, _ = doors.accept()
            if os.fork() == 0:
                doors.close()
                return _watch(door)
            door.close()


def _watch(door: socket.socket) -> list[str]:
    """Fork the server and wait until it or its door is gone. Returns in the server's process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told, files, _, _ = socket.recv_fds(door, REQUEST_MAX, 3)
    wanted = json.loads(told)
    ended, ends = os.pipe()
    child = os.fork()
    if child == 0:
        door.close()
        os.close(ended)
        for source, target in zip(files, (0, 1, 2), strict=True):
            os.dup2(source, target)
            os.close(source)
        os.environ.clear()
        os.environ.update(wanted["env"])
        os.chdir(wanted["cwd"])
        return list(wanted["arguments"])
    for one in (*files, ends, 0, 1):
        os.close(one)
    if ended not in select.select([door, ended], [], [])[0]:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        door.send(str(code).encode())
    finally:
        os._exit(0)


if __name__ == "__main__":
    import mcp.server.mcpserver  # noqa: F401
    import uvicorn  # noqa: F401

    gc.freeze()
    if (arguments := serve(sys.argv[1])) is not None:
        sys.argv = [str(PROGRAM), *arguments]
        runpy.run_path(str(PROGRAM), run_name="__main__")
