"""HTTP: listens, and reads bodies that nobody has verified yet. These cost bounded work and memory, and end by a
time-out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiohttp import ClientConnectionError, web

from bot.chat.platform import IngressGate
from bot.core import metrics
from bot.core.errors import SettingsError
from bot.platforms.shared import DRAIN_S

BODY_S, FIRST_S = 5.0, 1.0
"""Time limits for a body and for its first segment (s). A platform sends the first segment with the headers, and waits
three seconds for its answer."""
SKEW_S = 300
"""Most seconds between a platform's clock and ours, against replayed requests: Slack's own advice. Feishu signs
an event anew that it sends again."""
HEADERS_S = 10.0
"""Time limit for the headers of each request of a connection (s)."""
BODY_MAX, SMALL_MAX = 1_048_576, 65_536
"""Most bytes of a body, and of a body that needs no place, because every connection buffers as much anyway. A
platform's events are a few kB."""
LARGE_AT_ONCE = 16
"""Most larger bodies that are read at the same time."""


class BodyReader:
    def __init__(self) -> None:
        self._large: list[tuple[str | None, asyncio.Timeout]] = []
        """The peers whose large bodies are being read, the oldest first."""

    async def read_body(self, request: web.Request) -> bytes | web.Response:
        """Read the body, or return the answer to a request that is too large, too slow or broken."""
        if (request.content_length or 0) > BODY_MAX:
            return build_closing_response(413)
        try:
            async with self._limit_reading(request):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            return build_closing_response(413)
        except TimeoutError:
            return build_closing_response(408)
        except (OSError, ClientConnectionError, web.RequestPayloadError, web.HTTPException):
            return build_closing_response(400)

    @asynccontextmanager
    async def _limit_reading(self, request: web.Request) -> AsyncIterator[None]:
        """Raise `TimeoutError` in a reader that is too slow or loses its place. A large body always gets a place: if
        all are taken, the peer with most of them loses its oldest. Half-sent bodies therefore keep no place that
        anybody else needs."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(BODY_S) as limit:

            def end_without_segment() -> None:
                if not request.content.total_bytes:
                    limit.reschedule(loop.time())

            timer, place = loop.call_later(FIRST_S, end_without_segment), (request.remote, limit)
            if request.content_length is None or request.content_length > SMALL_MAX:
                if len(self._large) >= LARGE_AT_ONCE:
                    [(peer, _)] = Counter(peer for peer, _ in self._large).most_common(1)
                    oldest = next(one for one in self._large if one[0] == peer)
                    self._large.remove(oldest)
                    oldest[1].reschedule(loop.time())
                self._large.append(place)
            try:
                yield
            finally:
                timer.cancel()
                if place in self._large:
                    self._large.remove(place)


@contextmanager
def admit_request(gate: IngressGate) -> Iterator[metrics.Outcome]:
    """Let a verified request through the gate, and time its acknowledgement."""
    gate.begin_event()
    try:
        with metrics.time_outcome(metrics.ACKNOWLEDGEMENTS, outcome="acknowledged", kind="http") as ended:
            yield ended
    finally:
        gate.end_event()


def build_closing_response(status: int) -> web.Response:
    """Build a refusal. Nothing more is read from its connection."""
    answer = web.Response(status=status)
    answer.force_close()
    return answer


def build_http_runner(application: web.Application) -> web.AppRunner:
    """Build the runner of HTTP mode, ready to listen. A connection that does not send its headers in time is closed,
    and nothing more is read from a refused one."""
    return web.AppRunner(application, shutdown_timeout=DRAIN_S, keepalive_timeout=HEADERS_S, lingering_time=0)


@asynccontextmanager
async def open_http_server(
    application: web.Application, host: str, port: int, setting: str = "HTTP"
) -> AsyncIterator[None]:
    """Listen while the context is open. Raises SettingsError, which names the settings of the address by their first
    word."""
    runner = build_http_runner(application)
    try:
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            taken = f"cannot listen on {host}:{port} ({error.strerror})"
            raise SettingsError(f"{taken}; set {setting}_HOST or {setting}_PORT") from error
        yield
    finally:
        await runner.cleanup()
