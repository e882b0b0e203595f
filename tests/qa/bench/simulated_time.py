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
from dataclasses import dataclass
from pathlib import Path

from bot.redis.embedded import find_server_program
from tests.qa.bench.outside import NotMeasured
from tests.qa.process import compile_library, write_program

SOURCE = Path(__file__).with_suffix(".c")
NUMBER = struct.Struct("=q")
DAY_S = 86_400.0


@dataclass
class SimulatedTime:
    """`later_s`: than it is for this process, which may live in such a time itself. The file is beside the library."""

    library: Path
    later_s: float = 0.0

    def __post_init__(self) -> None:
        name, self._own_ns, file = os.environ.get("SIMULATED_TIME"), 0, self.library.with_name("later")
        if name:
            (self._own_ns,) = NUMBER.unpack(Path(name).read_bytes())
        file.write_bytes(NUMBER.pack(self._own_ns))
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), NUMBER.size)
        others = [one for one in os.environ.get("LD_PRELOAD", "").split() if Path(one).name != self.library.name]
        self.environment = {"LD_PRELOAD": " ".join([str(self.library), *others]), "SIMULATED_TIME": str(file)}
        """For every process that is to live in this time."""

    def now_s(self) -> float:
        """Epoch seconds, as those processes read them."""
        return time.time() + self.later_s

    def move_on(self, seconds: float) -> None:
        """For all of them at the same moment."""
        self.later_s += seconds
        NUMBER.pack_into(self._shared, 0, self._own_ns + round(self.later_s * 1e9))

    def write_server_program(self) -> str:
        """The Redis server, as a program that lives in this time."""
        return write_program(self.library.with_name("server"), find_server_program(), self.environment)


@contextmanager
def simulated_time() -> Iterator[SimulatedTime]:
    """Raises `NotMeasured` where such a library cannot be made."""
    if sys.platform != "linux" or not shutil.which("cc"):
        raise NotMeasured("moving time on needs Linux and a C compiler (cc)")
    with tempfile.TemporaryDirectory(prefix="bench-time-") as name:
        try:
            at = SimulatedTime(compile_library(SOURCE, Path(name)))
        except subprocess.CalledProcessError as error:
            raise NotMeasured("the library that moves time on was not compiled", error.stderr) from None
        at.move_on(DAY_S)
        words, env = [sys.executable, "-c", "import time; print(time.time())"], os.environ | at.environment
        told = subprocess.run(words, env=env, capture_output=True, text=True)
        at.move_on(-DAY_S)
        if told.returncode or not DAY_S - 60 < float(told.stdout) - time.time() < DAY_S + 60:
            raise NotMeasured("the time of this machine's programs cannot be moved on", told.stderr)
        yield at
