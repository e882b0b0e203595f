"""Verifies requests in HTTP mode. No part of a request counts or is parsed before Slack's signature over its raw bytes
is verified.

Unverified requests cost bounded work and memory, and end by a time-out. A request without a valid signature gets 401.
Slack's rules: docs.slack.dev, "Verifying requests from Slack"."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import ClientConnectionError, web
from aiohttp.typedefs import Handler, Middleware
from slack_bolt.request.internals import parse_body

from bot.chat.ingress_gate import IngressGate
from bot.chat.slack.payload_shape import has_slack_shape
from bot.core import metrics

_log = logging.getLogger(__name__)

BODY_S, FIRST_S = 5.0, 1.0
"""Time limits for a body and for its first segment (s). Slack sends the first segment with the headers, and waits three
seconds for its answer."""
HEADERS_S = 10.0
"""Time limit for the headers of each request of a connection (s)."""
SKEW_S = 300
"""Most seconds between Slack's clock and ours: Slack's own advice against replayed requests."""
BODY_MAX, SMALL_MAX = 1_048_576, 65_536
"""Most bytes of a body, and of a body that needs no place, because every connection buffers as much anyway. Slack's
events are a few kB."""
LARGE_AT_ONCE = 16
"""Most larger bodies that are read at the same time."""
_TIMESTAMP, _SIGNATURE = re.compile(r"[0-9]{1,12}"), re.compile(r"v0=[0-9a-f]{64}")


class RequestVerifier:
    """Reads and verifies requests, and passes verified ones through the gate."""

    def __init__(self, secret: str, door: IngressGate, clock: Callable[[], float] = time.time) -> None:
        self._secret, self._door, self._clock = secret.encode(), door, clock
        self._large: list[tuple[str | None, asyncio.Timeout]] = []
        """The peers whose large bodies are being read, the oldest first."""

    def build_middleware(self) -> Middleware:
        @web.middleware
        async def verify_http_request(request: web.Request, handler: Handler) -> web.StreamResponse:
            refusal = await self._find_refusal(request)
            if refusal is not None:
                return refusal
            self._door.begin_event()
            try:
                with metrics.time_outcome(metrics.ACKNOWLEDGEMENTS, outcome="acknowledged", kind="http") as ended:
                    answer = await handler(request)
                    ended.name = "acknowledged" if answer.status < 400 else "failed"
                    return answer
            finally:
                self._door.end_event()

        return verify_http_request

    async def _find_refusal(self, request: web.Request) -> web.Response | None:
        """Return the answer to a refused request, or None for a request of Slack's."""
        stamp, signature = (
            request.headers.get(name, "") for name in ("X-Slack-Request-Timestamp", "X-Slack-Signature")
        )
        try:
            charset = (request.charset or "utf-8").lower()
        except ValueError:
            charset = ""
        # Slack sends plain UTF-8. Another encoding was added by somebody else, because headers are not signed.
        is_plain = charset in ("utf-8", "utf8") and not request.headers.get("Content-Encoding")
        if not (_TIMESTAMP.fullmatch(stamp) and _SIGNATURE.fullmatch(signature) and is_plain):
            return _build_closing_response(401)
        if abs(self._clock() - int(stamp)) > SKEW_S:
            return _build_closing_response(401)
        if (request.content_length or 0) > BODY_MAX:
            return _build_closing_response(413)
        try:
            async with self._limit_reading(request):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _build_closing_response(413)
        except TimeoutError:
            return _build_closing_response(408)
        except (OSError, ClientConnectionError, web.RequestPayloadError, web.HTTPException):
            return _build_closing_response(400)
        signed = hmac.new(self._secret, b"v0:%b:%b" % (stamp.encode(), body), hashlib.sha256)
        if not hmac.compare_digest(f"v0={signed.hexdigest()}", signature):
            return _build_closing_response(401)
        try:
            found = parse_body(body.decode("utf-8"), request.content_type)
        except (ValueError, RecursionError):
            found = None
        if has_slack_shape(found):
            return None
        _log.warning("a signed request that cannot be read is dropped (%d bytes)", len(body))
        return web.Response()  # Slack would only send it again

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


def _build_closing_response(status: int) -> web.Response:
    """Build a refusal. Nothing more is read from its connection."""
    answer = web.Response(status=status)
    answer.force_close()
    return answer
