"""Run a server that ends when nobody uses it any more: `python watchdog.py TIE PROGRAM ARGUMENTS…`.

The process becomes the program. A child of it waits until the tie is released, which the kernel does however the users
end, SIGKILL included. The child then ends the program, and its process group if the program leads one.

A tie is either the path of a file whose lock the users hold, or the number of an inherited file descriptor: a pipe
whose other end the users hold open. The module needs only the standard library, and starts in ten milliseconds. Linux
and macOS are supported."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

_PATIENCE_S = 10.0
"""Seconds that a program may take to end after SIGTERM before it is killed."""


def build_watched_command(tie: str | int, command: Sequence[str]) -> list[str]:
    """Build the command that runs `command` as long as somebody holds the tie."""
    return [sys.executable, "-I", "-S", __file__, str(tie), *command]


def main() -> None:
    """Start the waiting child, and become the program."""
    tie, command, program = sys.argv[1], sys.argv[2:], os.getpid()
    ended, alive = os.pipe()
    if os.fork() == 0:
        os.close(alive)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # to the whole group: they are for the program
            signal.signal(number, signal.SIG_IGN)
        threading.Thread(target=_end_when_released, args=(program, tie), daemon=True).start()
        os.read(ended, 1)  # until the program ends
        os._exit(0)
    os.set_inheritable(alive, True)  # the kernel closes it when the program ends, which tells the child
    if tie.isdigit():
        os.set_inheritable(int(tie), False)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these signals
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606 - the caller's own program


def _end_when_released(program: int, tie: str) -> None:
    if tie.isdigit():
        os.read(int(tie), 1)
    else:
        fcntl.flock(os.open(tie, os.O_RDWR), fcntl.LOCK_EX)  # held to the end: nobody begins to use it
    for number in (signal.SIGTERM, signal.SIGKILL):
        if os.getppid() == program:
            leads = os.getpgid(program) == program
            (os.killpg if leads else os.kill)(program, number)
            time.sleep(_PATIENCE_S)
    os._exit(0)


if __name__ == "__main__":
    main()
