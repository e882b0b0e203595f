"""How this process is doing: `/healthz`, `/readyz` and `/metrics` on a port of its own, and what it tells of itself in
Redis, for `countersign top`."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TypeAlias

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from redis.asyncio import Redis

from bot.chat.ingress_gate import IngressGate
from bot.core import logs, metrics
from bot.core.errors import SettingsError, StoreUnavailableError
from bot.queue.figures import load_queue_figures
from bot.queue.keys import Keys
from bot.queue.worker import Worker
from bot.redis.connect import translate_redis_errors
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.processes import ANNOUNCED_S, ProcessState, ProcessStore

log = logs.get_logger(__name__)

SHARED_APP = (
    "another installation uses the same Slack app: Slack gives each press and message to one of them only. Give every "
    "installation an app of its own, or stop the other one"
)
STARTING, STOPPING = "starting", "stopping"
NO_REDIS, NO_SLACK = "redis", "slack"
ANSWER_S = 2.0
"""How long Redis may take to answer before it counts as away here."""
COLLECTED_S = 1.0
"""How long collected figures are good for, however often somebody asks."""
LETTERS_S = 15.0
"""How long the count of dead letters is good for: all of them are read for it."""

IsConnected: TypeAlias = Callable[[], Awaitable[bool]]


async def is_listening() -> bool:
    """Where a platform sends its events to us, they can always come."""
    return True


@cache
def get_version() -> str:
    try:
        return version("countersign")
    except PackageNotFoundError:
        return "unknown"


@dataclass(slots=True, kw_only=True)
class HealthState:
    """What this process knows of itself."""

    redis: Redis
    keys: Keys
    load_directory_age_ms: Callable[[], Awaitable[int | None]]
    model: str = ""
    team: str = ""
    concurrency: int = 0
    worker: Worker | None = None
    phase: str = STARTING
    """Why it takes no work yet, or no more; empty while it does."""
    is_connected: IsConnected = is_listening
    find_trouble: Callable[[], str] = field(default=lambda: "")
    """Whatever else keeps it from taking work, in a word or two; empty: nothing does."""
    get_clock_offset_ms: Callable[[], float | None] = field(default=lambda: None)
    """This machine's clock minus Redis's, if somebody watches it; None: it is measured here."""
    gate: IngressGate = field(default_factory=IngressGate)
    report_foreign: Callable[[int], Awaitable[None]] | None = None
    """Called once if another installation uses the same app: it gets a part of the presses, and we get some of its."""
    foreign: int | None = None
    """Its connections; None: not known yet."""
    started_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    _collecting: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _collected_at: float = field(default=-math.inf, init=False)
    _counted_at: float = field(default=-math.inf, init=False)

    async def find_reasons(self) -> list[str]:
        """Why this process takes no work, or loses what comes; nothing: it is ready."""
        reasons = [one for one in (self.phase, self.find_trouble()) if one]
        if not await self.is_connected():
            reasons.append(NO_SLACK)
        if not await self._is_redis_there():
            reasons.append(NO_REDIS)
        return reasons

    async def _is_redis_there(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_S):
                with translate_redis_errors():
                    await self.redis.ping()
        except (StoreUnavailableError, TimeoutError):
            return False
        return True

    async def measure_clock_offset_ms(self) -> float:
        """Between the call and its answer, Redis's clock is read in the middle. Raises StoreUnavailableError."""
        watched = self.get_clock_offset_ms()
        if watched is not None:
            return watched
        began = time.time()
        with translate_redis_errors():
            seconds, micros = await self.redis.time()
        return ((began + time.time()) / 2 - (int(seconds) + int(micros) / 1e6)) * 1000

    # What Prometheus is told

    async def render_metrics(self) -> bytes:
        """What was counted, with the figures of this moment. Where Redis is away, its figures are left as they were."""
        async with self._collecting:
            if time.monotonic() - self._collected_at >= COLLECTED_S:
                await self._collect_figures()
                self._collected_at = time.monotonic()
        return generate_latest(metrics.REGISTRY)

    async def _collect_figures(self) -> None:
        metrics.INFO.labels(get_version()).set(1)
        metrics.HELD_LANES.set(self.worker.active_lane_count if self.worker else 0)
        metrics.READY.set(not await self.find_reasons())
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._collect_stored_figures()
        except (StoreUnavailableError, TimeoutError):
            metrics.STORE_UP.set(0)
        else:
            metrics.STORE_UP.set(1)

    async def _collect_stored_figures(self) -> None:
        metrics.CLOCK_OFFSET.set(await self.measure_clock_offset_ms() / 1000)
        queue = await load_queue_figures(self.redis, self.keys)
        metrics.QUEUE_LANES.set(queue.lanes)
        metrics.QUEUE_DUE_LANES.set(queue.due_lanes)
        metrics.QUEUE_ITEMS.set(queue.items)
        metrics.QUEUE_OLDEST.set(queue.oldest_ms / 1000)
        metrics.QUEUE_TIMERS.set(queue.timers)
        metrics.OPEN_CARDS.set(queue.open_cards)
        age_ms = await self.load_directory_age_ms()
        metrics.DIRECTORY_AGE.set(math.nan if age_ms is None else age_ms / 1000)
        if time.monotonic() - self._counted_at >= LETTERS_S:
            metrics.DEAD_LETTERS_KEPT.set(len(await DeadLetterStore(self.redis, self.keys).list_dead_letters()))
            self._counted_at = time.monotonic()

    # What other processes are told

    async def announce_process(self) -> None:
        """For as long as the process lives; at its end it says so."""
        store, id_ = ProcessStore(self.redis, self.keys), self.worker.owner if self.worker else ""
        known = 0
        try:
            while True:
                state = await self._build_process_state(id_)
                await store.save_process(state)
                known = max(known, len(await store.list_processes(state.at_ms)))
                await self._check_connections(known)
                await asyncio.sleep(ANNOUNCED_S)
        except asyncio.CancelledError:
            with suppress(StoreUnavailableError, TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    await store.remove_process(id_)
            raise

    async def _check_connections(self, known: int) -> None:
        """Compares what the platform has said with the processes of this store: once, when it has said so."""
        if self.foreign is not None or not self.gate.connections:
            return
        self.foreign = max(0, self.gate.connections - known)
        if self.foreign:
            log.error("app.shared", connections=self.gate.connections, processes=known, cure=SHARED_APP)
            if self.report_foreign is not None:
                await self.report_foreign(self.foreign)

    async def _build_process_state(self, id_: str) -> ProcessState:
        offset_ms = await self.measure_clock_offset_ms()
        reasons = await self.find_reasons()
        return ProcessState(
            id=id_,
            version=get_version(),
            started_ms=int(self.started_ms - offset_ms),
            at_ms=int(time.time() * 1000 - offset_ms),
            offset_ms=round(offset_ms),
            lanes=self.worker.active_lane_count if self.worker else 0,
            concurrency=self.concurrency,
            model=self.model,
            team=self.team,
            trouble=", ".join(reasons),
            foreign=self.foreign or 0,
        )


@asynccontextmanager
async def open_health_server(health: HealthState, host: str, port: int) -> AsyncIterator[None]:
    """Answers while the context is open; not at all without a port. Raises SettingsError if the port is taken."""
    if not port:
        yield
        return
    runner = web.AppRunner(build_health_app(health), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await _start_listener(runner, host, port)
        yield
    finally:
        await runner.cleanup()


async def _start_listener(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host}:{port} ({error.strerror}); set HEALTH_HOST or HEALTH_PORT"
        ) from error


def build_health_app(health: HealthState) -> web.Application:
    """Only reads, and nothing of a request but its path."""

    async def tell_alive(request: web.Request) -> web.Response:
        """Whoever answers is alive: what is away elsewhere is no reason to be started anew."""
        return web.Response(text="alive\n")

    async def tell_ready(request: web.Request) -> web.Response:
        reasons = await health.find_reasons()
        if reasons:
            return web.Response(status=503, text=f"not ready: {', '.join(reasons)}\n")
        return web.Response(text="ready\n")

    async def tell_metrics(request: web.Request) -> web.Response:
        return web.Response(body=await health.render_metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application(client_max_size=1024)
    application.router.add_get("/healthz", tell_alive)
    application.router.add_get("/readyz", tell_ready)
    application.router.add_get("/metrics", tell_metrics)
    return application
