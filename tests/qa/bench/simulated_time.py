"""Time that can be moved on: processes that are started with it, a Redis server among them, believe that it is later.

A small library before the C library (`simulated_time.c`) adds to the time of day what one file says, which all of them
have in memory. So a month passes in minutes while every process runs the code that it runs in production, keys in
Redis come to their ends by Redis's own clock, and no two processes ever differ. Durations (sockets, pauses, leases of
work under way) are measured by another clock, which goes on as ever: whoever moves the time on waits until nothing is
under way."""

import mmap
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bot.redis.embedded import find_server_program
from tests.qa.bench.outside import NotMeasured

SOURCE = Path(__file__).with_suffix(".c")
NUMBER = struct.Struct("=q")
DAY_S = 86_400.0
LIBRARY = "simulated_time.so"


@dataclass
class SimulatedTime:
    """`folder` holds the library and the file."""

    folder: Path
    later_s: float = 0.0
    """Than it is for this process, which may live in such a time itself."""
    _own_ns: int = 0
    _shared: mmap.mmap = field(init=False)

    def __post_init__(self) -> None:
        if name := os.environ.get("SIMULATED_TIME"):
            (self._own_ns,) = NUMBER.unpack(Path(name).read_bytes())
        self._file.write_bytes(NUMBER.pack(self._own_ns))
        with self._file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), NUMBER.size)

    @property
    def _file(self) -> Path:
        return self.folder / "later"

    @property
    def environment(self) -> dict[str, str]:
        """For every process that is to live in this time."""
        others = [one for one in os.environ.get("LD_PRELOAD", "").split() if Path(one).name != LIBRARY]
        return {"LD_PRELOAD": " ".join([str(self.folder / LIBRARY), *others]), "SIMULATED_TIME": str(self._file)}

    def now_s(self) -> float:
        """Epoch seconds, as those processes read them."""
        return time.time() + self.later_s

    def move_on(self, seconds: float) -> None:
        """For all of them at the same moment."""
        self.later_s += seconds
        NUMBER.pack_into(self._shared, 0, self._own_ns + round(self.later_s * 1e9))

    def write_server_program(self) -> str:
        """The Redis server, as a program that lives in this time."""
        program = self.folder / "server"
        variables = " ".join(f"{name}='{value}'" for name, value in self.environment.items())
        program.write_text(f'#!/bin/sh\n{variables} exec "{find_server_program()}" "$@"\n')
        program.chmod(0o700)
        return str(program)


@contextmanager
def simulated_time() -> Iterator[SimulatedTime]:
    """Raises `NotMeasured` where such a library cannot be made."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        raise NotMeasured("moving time on needs Linux and a C compiler (cc)")
    with tempfile.TemporaryDirectory(prefix="bench-time-") as name:
        folder = Path(name)
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(folder / LIBRARY), str(SOURCE), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise NotMeasured("the library that moves time on was not compiled", done.stderr)
        at = SimulatedTime(folder)
        at.move_on(0)
        _require_working(at)
        yield at


def _require_working(at: SimulatedTime) -> None:
    """A process reads the time that it should."""
    at.move_on(DAY_S)
    told = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time())"],
        env=os.environ | at.environment, capture_output=True, text=True,
    )  # fmt: skip
    at.move_on(-DAY_S)
    if told.returncode or not DAY_S - 60 < float(told.stdout) - time.time() < DAY_S + 60:
        raise NotMeasured("the time of this machine's programs cannot be moved on", told.stderr)
