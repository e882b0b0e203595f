"""One run of the benchmarks: its options, its surroundings, and how programs are run in them."""

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from bot.redis.connect import connect_redis
from tests.qa.bench import outside
from tests.qa.bench.job import Job, Result
from tests.qa.bench.mock import ANSWER, STEPS
from tests.qa.bench.outside import ROOT, NotMeasured
from tests.qa.bench.programs.ours import texts

FOLDS = 4  # what a long conversation may ask of the model besides its runs: to have older turns put in short
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
"""The cores that may be used; none where that cannot be said. Measured programs run on the first of several."""


CACHE = ROOT / ".venv-bench"
"""The environments of the peers: each is made once, and can be thrown away."""
INSTALL_S = 900


@dataclass(frozen=True)
class Peer:
    """`name`: of its environment, and of the variant of `tests.qa.bench.programs.peers`. `pins`: what is installed."""

    name: str
    title: str
    pins: tuple[str, ...]

    @property
    def program(self) -> str:
        return f"peers:{self.name}"

    @property
    def python(self) -> str:
        return str(CACHE / self.name / "bin" / "python")

    def install(self) -> str:
        """Makes its environment unless it is there; what went wrong, or nothing."""
        folder, wanted = CACHE / self.name, "\n".join((sys.version, *self.pins))
        stamp = folder / "made-from"
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
            return ""
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        try:
            for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], [*pip, *self.pins]):
                subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_S)
        except subprocess.CalledProcessError as error:
            return f"could not be installed ({last_line(error.stderr)})"
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"could not be installed ({type(error).__name__})"
        stamp.write_text(wanted, encoding="utf-8")
        return ""


PEERS = (
    Peer("pydantic_ai", "pydantic-ai", ("pydantic-ai-slim[openai]==2.68.0", "openai==3.52.0")),
    Peer(
        "langgraph", "LangGraph create_react_agent",
        ("langgraph==1.2.22", "langchain-openai==1.7.3", "openai==3.52.0"),
    ),
    Peer("openai_agents", "openai-agents", ("openai-agents==0.24.0", "openai==3.52.0")),
)  # fmt: skip
"""As their papers show them, and nothing is stored."""


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no reason given"


@dataclass
class Bench:
    """What the groups of figures measure with. `quick`: it only shows that all works. `versions`: program → packages →
    versions."""

    rounds: int
    quick: bool
    mock: str
    redis: str
    peers: list[Peer] = field(default_factory=list)
    doing: Callable[[str], None] = print
    versions: dict[str, dict[str, str]] = field(default_factory=dict)

    def few(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def list_rounds(self) -> range:
        return range(1, self.rounds + 1)

    def tell(self, text: str, number: int) -> None:
        self.doing(f"{text}, round {number} of {self.rounds}")

    def job(self, *, after_ms: int = 0, **changes: Any) -> Job:
        """A job on the mock that answers after so many ms."""
        url = f"{self.mock}/after/{after_ms}/v1" if after_ms else f"{self.mock}/v1"
        core = CORES[0] if len(CORES) > 1 else None
        return replace(Job(url, ANSWER, STEPS, redis_url=self.redis, core=core, **texts()), **changes)

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
        skipped = list[str]()
        for peer in PEERS:
            self.doing(f"preparing {peer.title}")
            problem = peer.install()
            try:
                if not problem:
                    self.run(peer.program, self.job(runs=1, warm=1), peer.python)
            except NotMeasured as error:
                problem = f"does not run here ({last_line(str(error))})"
            if problem:
                skipped.append(f"{peer.title}: {problem}")
            else:
                self.peers.append(peer)
        return skipped

    def empty(self) -> None:
        async def flush() -> None:
            client = await connect_redis(self.redis)
            await client.flushall()
            await client.aclose()

        asyncio.run(flush())

    def server(self) -> str:
        async def ask() -> str:
            client = await connect_redis(self.redis)
            info: dict[str, Any] = await client.info("server")
            flags: dict[Any, Any] = await client.config_get("append*")
            await client.aclose()
            product = f"{info.get('server_name') or 'redis'} {info.get('valkey_version') or info['redis_version']}"
            kept = ", ".join(f"{name} {flags[name]}" for name in ("appendonly", "appendfsync"))
            return f"{product}, {kept}, unix socket"

        return asyncio.run(ask())


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
def opened(rounds: int, quick: bool, peers: list[Peer], doing: Callable[[str], None]) -> Iterator[Bench]:
    """The surroundings, on the last core, away from what is measured."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a thousand runs at once have as many connections
    with run_on_cores(CORES[-1:]), outside.mock() as mock, outside.redis() as redis:
        yield Bench(rounds, quick, mock, redis, peers, doing)
