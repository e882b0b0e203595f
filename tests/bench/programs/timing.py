"""How long things take, one after another. Standard library only: SpiffWorkflow's environment has little else."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any


async def timed(works: Iterator[Awaitable[Any]], warm: int) -> dict[str, float]:
    """Of all after the first ones: the median on the clock, and the program's own CPU time of each; ms."""
    took, cpu = list[float](), 0.0
    for n, work in enumerate(works):
        cpu = time.process_time() if n == warm else cpu
        began = time.perf_counter()
        await work
        took.append((time.perf_counter() - began) * 1000)
    spent = (time.process_time() - cpu) * 1000 / (len(took) - warm)
    return {"ms": statistics.median(took[warm:]), "cpu_ms": spent}


def main(measured: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> None:
    """The whole life of a program: its job is its argument, its result its last line."""
    job = json.loads(sys.argv[1])
    if job["core"] is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {job["core"]})
    print(json.dumps(asyncio.run(measured(job))), flush=True)  # type: ignore[arg-type]
