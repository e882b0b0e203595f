"""The health of this process: `/healthz`, `/readyz` and `/metrics` on a separate port, and its report in Redis for
`countersign top`."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from redis.asyncio import Redis

from bot.chat.ingress_gate import IngressGate
from bot.core import logs, metrics
from bot.core.errors import SettingsError, StoreUnavailableError
from bot.core.version import VERSION
from bot.queue.figures import load_queue_figures
from bot.queue.keys import Keys
from bot.queue.worker import Worker
from bot.redis.connect import translate_redis_errors
from bot.storage.approvals import ApprovalStore
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.processes import ANNOUNCED_S, ProcessState, ProcessStore

log = logs.get_logger(__name__)

SHARED_APP = (
    "another installation uses the same app: the platform gives each press and message to one of them only. Give every "
    "installation an app of its own, or stop the other one"
)
STARTING, STOPPING = "starting", "stopping"
NO_REDIS, NO_CHAT = "redis", "chat"
ANSWER_S = 2.0
"""Time (s) within which Redis must answer to count as reachable."""
COLLECTED_S = 1.0
"""Time (s) for which collected figures are reused, however often they are requested."""
LETTERS_S = 15.0
"""Time (s) for which the count of dead letters is reused: counting reads all of them."""

IsConnected: TypeAlias = Callable[[], Awaitable[bool]]


async def is_listening() -> bool:
    """Return True: a platform that sends its events to us can always send them."""
    return True


@dataclass(slots=True, kw_only=True)
class HealthState:
    """The health of this process, as it reports it."""

    redis: Redis
    keys: Keys
    load_directory_age_ms: Callable[[], Awaitable[int | None]]
    model: str = ""
    team: str = ""
    concurrency: int = 0
    worker: Worker | None = None
    phase: str = STARTING
    """The reason why it takes no work yet, or no longer; empty while it does."""
    is_connected: IsConnected = is_listening
    find_trouble: Callable[[], str] = field(default=lambda: "")
    """Any other reason why it takes no work, in a word or two; empty if none."""
    get_clock_offset_ms: Callable[[], float | None] = field(default=lambda: None)
    """This machine's clock minus that of Redis (ms), if somebody watches it; None if it is measured here."""
    gate: IngressGate = field(default_factory=IngressGate)
    report_foreign: Callable[[int], Awaitable[None]] | None = None
    """Called once if another installation uses the same app: that one then gets a part of our presses, and we get a
    part of its."""
    foreign: int | None = None
    """Number of the other installation's connections; None if not known yet."""
    started_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    _collecting: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _collected_at: float = field(default=-math.inf, init=False)
    _counted_at: float = field(default=-math.inf, init=False)

    async def find_reasons(self) -> list[str]:
        """Find the reasons why this process takes no work, or loses events; empty if it is ready."""
        reasons = [one for one in (self.phase, self.find_trouble()) if one]
        if not await self.is_connected():
            reasons.append(NO_CHAT)
        try:
            async with asyncio.timeout(ANSWER_S):
                with translate_redis_errors():
                    await self.redis.ping()
        except (StoreUnavailableError, TimeoutError):
            reasons.append(NO_REDIS)
        return reasons

    async def measure_clock_offset_ms(self) -> float:
        """Measure the clock offset: the clock of Redis is taken as read halfway between call and answer. Raises
        StoreUnavailableError."""
        watched = self.get_clock_offset_ms()
        if watched is not None:
            return watched
        began = time.time()
        with translate_redis_errors():
            seconds, micros = await self.redis.time()
        return ((began + time.time()) / 2 - (int(seconds) + int(micros) / 1e6)) * 1000

    # Metrics for Prometheus

    async def render_metrics(self) -> bytes:
        """Render the counters and the current figures. If Redis is unreachable, its figures stay unchanged."""
        async with self._collecting:
            if time.monotonic() - self._collected_at >= COLLECTED_S:
                await self._collect_figures()
                self._collected_at = time.monotonic()
        return generate_latest(metrics.REGISTRY)

    async def _collect_figures(self) -> None:
        metrics.INFO.labels(VERSION).set(1)
        metrics.HELD_LANES.set(self.worker.active_lane_count if self.worker else 0)
        metrics.READY.set(not await self.find_reasons())
        try:
            async with asyncio.timeout(ANSWER_S):
                metrics.CLOCK_OFFSET.set(await self.measure_clock_offset_ms() / 1000)
                queue = await load_queue_figures(self.redis, self.keys)
                metrics.QUEUE_LANES.set(queue.lanes)
                metrics.QUEUE_DUE_LANES.set(queue.due_lanes)
                metrics.QUEUE_ITEMS.set(queue.items)
                metrics.QUEUE_OLDEST.set(queue.oldest_ms / 1000)
                metrics.QUEUE_TIMERS.set(queue.timers)
                metrics.OPEN_CARDS.set(await ApprovalStore(self.redis, self.keys).count_open_approvals())
                age_ms = await self.load_directory_age_ms()
                metrics.DIRECTORY_AGE.set(math.nan if age_ms is None else age_ms / 1000)
                if time.monotonic() - self._counted_at >= LETTERS_S:
                    letters = await DeadLetterStore(self.redis, self.keys).list_dead_letters()
                    metrics.DEAD_LETTERS_KEPT.set(len(letters))
                    self._counted_at = time.monotonic()
        except (StoreUnavailableError, TimeoutError):
            metrics.STORE_UP.set(0)
        else:
            metrics.STORE_UP.set(1)

    # Report to other processes

    async def announce_process(self) -> None:
        """Announce the process for as long as it lives, and remove its report at the end."""
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
        """Compare the platform's number of connections with the processes of this store, once it is known."""
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
            version=VERSION,
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
    """Serve while the context is open; do nothing without a port. Raises SettingsError if the port is taken."""
    if not port:
        yield
        return
    runner = web.AppRunner(build_health_app(health), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise SettingsError(
                f"cannot listen on {host}:{port} ({error.strerror}); set HEALTH_HOST or HEALTH_PORT"
            ) from error
        yield
    finally:
        await runner.cleanup()


def build_health_app(health: HealthState) -> web.Application:
    """Build the web application, which only reads, and uses only the path of a request."""

    async def tell_alive(request: web.Request) -> web.Response:
        """Answer that the process is alive: an outage elsewhere is no reason to restart it."""
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
