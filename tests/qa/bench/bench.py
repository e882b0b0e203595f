"""One run of the benchmarks: its options, its surroundings, and how programs are run in them."""

import asyncio
import os
import resource
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from bot.redis.connect import connect_redis
from tests.qa.bench import outside
from tests.qa.bench.job import Job, Result
from tests.qa.bench.mock import ANSWER, STEPS
from tests.qa.bench.outside import NotMeasured
from tests.qa.bench.peers import Peer, available, last_line
from tests.qa.bench.tool import texts

FOLDS = 4
"""What a long conversation may ask of the model besides its runs: to have older turns put in short."""


@dataclass(frozen=True)
class Options:
    rounds: int = 5
    quick: bool = False

    def few(self, full: int, quick: int) -> int:
        """A count, or the smaller one where it only shows that all works."""
        return quick if self.quick else full


@dataclass
class Bench:
    """What the groups of figures measure with."""

    options: Options
    mock: str
    redis: str
    peers: list[Peer] = field(default_factory=list)
    doing: Callable[[str], None] = print
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Program → packages → versions."""

    def job(self, *, after_ms: int = 0, **changes: Any) -> Job:
        """A job on the mock that answers after so many ms."""
        url = f"{self.mock}/after/{after_ms}/v1" if after_ms else f"{self.mock}/v1"
        base = Job(url, ANSWER, STEPS, redis_url=self.redis, core=first_core(), **texts())
        return replace(base, **changes)

    def run(self, program: str, job: Job, python: str = sys.executable, *, failing: bool = False) -> Result:
        """Runs one of `tests.qa.bench.programs`, on an empty Redis. Raises `NotMeasured`, also when a run went wrong
        unless it may be `failing`."""
        self.empty()
        name, _, variant = program.partition(":")
        before = outside.count_served(self.mock)
        result = outside.measured(f"tests.qa.bench.programs.{name}", replace(job, variant=variant), python)
        self.versions[program] = result.versions
        asked, wanted = outside.count_served(self.mock) - before, (job.runs + job.warm) * job.steps
        if result.errors and not failing:
            raise NotMeasured(f"{program}: {len(result.errors)} runs failed, the first with {result.errors[0]}")
        folds = FOLDS if job.earlier else 0
        if not (wanted <= asked <= wanted + folds or result.errors):
            raise NotMeasured(f"{program} asked the model {asked} times, not {wanted}")
        return result

    def prepare_peers(self) -> list[str]:
        """Makes the environments of the peers and tries each of them; why some are left out."""
        self.peers, skipped = available(self.doing, self._tried)
        return skipped

    def _tried(self, peer: Peer) -> str:
        try:
            self.run(peer.program, self.job(runs=1, warm=1), peer.python)
        except NotMeasured as error:
            return f"does not run here ({last_line(str(error))})"
        return ""

    def empty(self) -> None:
        asyncio.run(_emptied(self.redis))

    def server(self) -> str:
        """Product, version and durability of the Redis server in use."""
        return asyncio.run(_server(self.redis))


async def _server(url: str) -> str:
    client = await connect_redis(url)
    info: dict[str, Any] = await client.info("server")
    flags: dict[Any, Any] = await client.config_get("append*")
    await client.aclose()
    name = str(info.get("server_name") or "redis")
    version = info.get("valkey_version") or info["redis_version"]
    return f"{name} {version}, appendonly {flags['appendonly']}, appendfsync {flags['appendfsync']}, unix socket"


async def _emptied(url: str) -> None:
    client = await connect_redis(url)
    await client.flushall()
    await client.aclose()


CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
"""The cores that may be used; none where that cannot be said."""


def first_core() -> int | None:
    """Where measured programs run."""
    return CORES[0] if len(CORES) > 1 else None


@contextmanager
def run_on_cores(cores: Collection[int]) -> Iterator[None]:
    """This process, and what it starts here, runs on these cores; where that cannot be said, anywhere."""
    before = os.sched_getaffinity(0) if cores else set()
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        if cores:
            os.sched_setaffinity(0, before)


@contextmanager
def opened(options: Options, peers: list[Peer], doing: Callable[[str], None]) -> Iterator[Bench]:
    """The surroundings, on the last core, away from what is measured."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a thousand runs at once have as many connections
    with run_on_cores(CORES[-1:]), outside.mock() as mock, outside.redis() as redis:
        yield Bench(options, mock, redis, peers, doing)
