"""What every measured program has in common. Standard library only: peers run it in their own environments.

A program is given a `Job` as its one argument, makes its runs, and prints a `Result` as its last line.
"""

import asyncio
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from tests.qa.process import end_when_orphaned

PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Job:
    """What to do. Texts are given, so that every program sends prompts of the same size."""

    model_url: str
    answer: str  # how every run ends
    steps: int  # model calls of a run
    system: str
    question: str
    quoted: str  # the question as the model is given it
    tool: dict[str, Any]  # the one tool, as the endpoint takes it
    redis_url: str = ""
    runs: int = 100
    at_once: int = 1
    warm: int = 10  # runs before the measuring begins
    earlier: int = 0  # messages that the conversation has already
    variant: str = ""  # which way of a program, where it has several
    core: int | None = None
    patience_s: float = 240.0  # no run takes longer, or it has gone wrong
    workspace: dict[str, Any] = field(default_factory=dict)  # where the local workspace is (`whole` only)


@dataclass(frozen=True)
class Result:
    runs: int
    steps: int
    cpu_s: float  # user and system time of the program itself
    wall_s: float
    rss_before: int  # bytes, after the warm-up
    rss_peak: int
    errors: list[str]
    versions: dict[str, str]

    @property
    def cpu_ms(self) -> float:
        return self.cpu_s * 1000 / self.steps

    @property
    def rss_per_run(self) -> float:
        """Bytes of memory that one run more at once takes."""
        return max(0, self.rss_peak - self.rss_before) / self.runs


class Program(Protocol):
    """Something that can make runs."""

    @property
    def run(self) -> Callable[[int], Awaitable[str]]:
        """One whole run, by its number; its answer."""

    async def settled(self) -> None:
        """Everything that belongs to the runs so far is done."""


@dataclass(frozen=True)
class Runs:
    """A program that has nothing to do after its runs."""

    run: Callable[[int], Awaitable[str]]

    async def settled(self) -> None:
        pass


def earlier(count: int, start: int = 0) -> list[dict[str, str]]:
    """Messages of a conversation, in turn of the person and of the bot, from `start` to `count`."""
    words = "is what was said about the leave request of the week before last, and about who approves it. "
    return [
        {"role": "assistant" if number % 2 else "user", "content": f"Message {number} {words}"}
        for number in range(start, count)
    ]


def observation(name: str) -> dict[str, str]:
    return {"name": name, "title": "Engineer", "team": "Platform", "here": "yes"}


def read_job() -> Job:
    """The first argument of this process, which keeps to the core in it."""
    job = Job(**json.loads(sys.argv[1]))
    if job.core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {job.core})
    return job


def main(opened: Callable[[Job], AbstractAsyncContextManager[Program]], *packages: str) -> None:
    """The whole life of a program. `packages`: those whose versions are told, if they are installed."""
    job, versions = read_job(), dict[str, str]()
    end_when_orphaned(1)
    for name in packages:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    print(json.dumps(asdict(asyncio.run(_measure(opened(job), job, versions)))), flush=True)


async def _measure(opening: AbstractAsyncContextManager[Program], job: Job, versions: dict[str, str]) -> Result:
    async with opening as program:
        warm = await _several(program, job, range(job.warm))
        await program.settled()
        gc.collect()
        rss, before, began = read_rss(), _cpu_s(), time.perf_counter()
        watching = asyncio.ensure_future(_watch_peak(peak := [rss]))
        errors = warm + await _several(program, job, range(job.warm, job.warm + job.runs))
        wall = time.perf_counter() - began
        await program.settled()
        cpu = _cpu_s() - before
        watching.cancel()
        most = max(read_rss(), *peak)
    return Result(job.runs, job.runs * job.steps, cpu, wall, rss, most, errors, versions)


async def _several(program: Program, job: Job, numbers: range) -> list[str]:
    """These runs, so many at once; what went wrong with them."""
    left, errors = iter(numbers), list[str]()

    async def one_after_another() -> None:
        for number in left:
            try:
                async with asyncio.timeout(job.patience_s):
                    answer = await program.run(number)
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}"[:300])
            else:
                if job.answer not in answer:
                    errors.append(f"odd answer: {answer!r}"[:300])

    await asyncio.gather(*(one_after_another() for _ in range(min(job.at_once, len(numbers)))))
    return errors


async def _watch_peak(peak: list[int]) -> None:
    while True:
        peak[0] = max(peak[0], read_rss())
        await asyncio.sleep(0.1)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def read_rss(process: int | str = "self") -> int:
    """Bytes of memory that a process has in use now; where the system does not tell, the most this one ever had."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
    except OSError:
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
