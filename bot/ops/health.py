"""The health of this process: `/healthz`, `/readyz` and `/metrics` on a separate port, and its report in Redis for
`countersign top`."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from bot.app.build import Application
from bot.chat.platform import IsConnected, Platform, is_listening
from bot.core import logs, metrics
from bot.core.errors import StoreUnavailableError
from bot.core.version import VERSION
from bot.ops.processes import ANNOUNCED_S, ProcessState, ProcessStore
from bot.ops.queue_figures import load_queue_figures
from bot.people.redis_member_store import RedisMemberStore
from bot.queue.worker import Worker
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.stores import Stores

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


@dataclass(slots=True, kw_only=True)
class HealthState:
    """Whether this process takes work."""

    stores: Stores
    platform: Platform
    worker: Worker
    phase: str = STARTING
    """The reason why it takes no work yet, or no longer; empty while it does."""
    is_connected: IsConnected = is_listening

    async def find_reasons(self) -> list[str]:
        """Find the reasons why this process takes no work, or loses events; empty if it is ready."""
        reasons = [one for one in (self.phase, self.stores.watch.reason.value) if one]
        if not await self.is_connected():
            reasons.append(NO_CHAT)
        try:
            async with asyncio.timeout(ANSWER_S):
                await self.stores.redis.ping()
        except (StoreUnavailableError, TimeoutError):
            reasons.append(NO_REDIS)
        return reasons


@dataclass(slots=True)
class MetricsPage:
    """The counters and the current figures of a process, for Prometheus."""

    health: HealthState
    _collecting: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _collected_at: float = field(default=-math.inf, init=False)
    _counted_at: float = field(default=-math.inf, init=False)

    async def render_metrics(self) -> bytes:
        """Render the page. If Redis is unreachable, its figures stay unchanged."""
        async with self._collecting:
            if time.monotonic() - self._collected_at >= COLLECTED_S:
                await self._collect_figures()
                self._collected_at = time.monotonic()
        return generate_latest(metrics.REGISTRY)

    async def _collect_figures(self) -> None:
        stores = self.health.stores
        members = RedisMemberStore(stores.redis, stores.keys, self.health.platform.team)
        metrics.INFO.labels(VERSION).set(1)
        metrics.HELD_LANES.set(self.health.worker.active_lane_count)
        metrics.READY.set(not await self.health.find_reasons())
        metrics.CLOCK_OFFSET.set(stores.watch.offset_ms / 1000)
        try:
            async with asyncio.timeout(ANSWER_S):
                queue = await load_queue_figures(stores.redis, stores.keys)
                metrics.QUEUE_LANES.set(queue.lanes)
                metrics.QUEUE_DUE_LANES.set(queue.due_lanes)
                metrics.QUEUE_ITEMS.set(queue.items)
                metrics.QUEUE_OLDEST.set(queue.oldest_ms / 1000)
                metrics.QUEUE_TIMERS.set(queue.timers)
                metrics.OPEN_CARDS.set(await stores.approvals.count_open_approvals())
                age_ms = await members.load_list_age_ms()
                metrics.DIRECTORY_AGE.set(math.nan if age_ms is None else age_ms / 1000)
                if time.monotonic() - self._counted_at >= LETTERS_S:
                    letters = await DeadLetterStore(stores.redis, stores.keys).list_dead_letters()
                    metrics.DEAD_LETTERS_KEPT.set(len(letters))
                    self._counted_at = time.monotonic()
        except (StoreUnavailableError, TimeoutError):
            metrics.STORE_UP.set(0)
        else:
            metrics.STORE_UP.set(1)


@dataclass(slots=True, kw_only=True)
class ProcessReport:
    """The report of this process to the others, which also tells whether all of them are of one installation."""

    health: HealthState
    model: str = ""
    foreign: int | None = None
    """Number of the platform's connections that another installation has with the same app: that one gets a part of our
    presses, and we get a part of its. None if not known yet."""
    started_ms: int = field(default_factory=lambda: int(time.time() * 1000))

    async def announce_process(self) -> None:
        """Announce the process for as long as it lives, and remove its report at the end."""
        store = ProcessStore(self.health.stores.redis, self.health.stores.keys)
        known = 0
        try:
            while True:
                state = await self._build_process_state()
                await store.save_process(state)
                known = max(known, len(await store.list_processes(state.at_ms)))
                await self._check_connections(known)
                await asyncio.sleep(ANNOUNCED_S)
        except asyncio.CancelledError:
            with suppress(StoreUnavailableError, TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    await store.remove_process(self.health.worker.owner)
            raise

    async def _check_connections(self, known: int) -> None:
        """Compare the platform's number of connections with the processes of this store, once it is known."""
        connections = self.health.platform.gate.connections
        if self.foreign is not None or not connections:
            return
        if foreign := max(0, connections - known):
            log.error("app.shared", connections=connections, processes=known, cure=SHARED_APP)
            await self.health.stores.journal.append_record("process", "app.shared", text=SHARED_APP, n=foreign)
        self.foreign = foreign

    async def _build_process_state(self) -> ProcessState:
        offset_ms, worker = self.health.stores.watch.offset_ms, self.health.worker
        return ProcessState(
            id=worker.owner,
            version=VERSION,
            started_ms=self.started_ms - offset_ms,
            at_ms=int(time.time() * 1000 - offset_ms),
            offset_ms=offset_ms,
            lanes=worker.active_lane_count,
            concurrency=worker.concurrency,
            model=self.model,
            team=self.health.platform.team,
            trouble=", ".join(await self.health.find_reasons()),
            foreign=self.foreign or 0,
        )


def attach_health(bot: Application) -> HealthState:
    """Let a bot that is about to run report on itself."""
    health = HealthState(stores=bot.stores, platform=bot.resources.platform, worker=bot.worker)
    report = ProcessReport(health=health, model=bot.resources.model.name)
    bot.worker.jobs.append(report.announce_process)
    return health


def build_health_app(health: HealthState) -> web.Application:
    """Build the web application, which only reads, and uses only the path of a request."""
    page = MetricsPage(health)

    async def tell_alive(request: web.Request) -> web.Response:
        """Answer that the process is alive: an outage elsewhere is no reason to restart it."""
        return web.Response(text="alive\n")

    async def tell_ready(request: web.Request) -> web.Response:
        reasons = await health.find_reasons()
        if reasons:
            return web.Response(status=503, text=f"not ready: {', '.join(reasons)}\n")
        return web.Response(text="ready\n")

    async def tell_metrics(request: web.Request) -> web.Response:
        return web.Response(body=await page.render_metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application(client_max_size=1024)
    application.router.add_get("/healthz", tell_alive)
    application.router.add_get("/readyz", tell_ready)
    application.router.add_get("/metrics", tell_metrics)
    return application
