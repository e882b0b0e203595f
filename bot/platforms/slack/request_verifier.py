"""Verifies requests in HTTP mode. No part of a request counts or is parsed before Slack's signature over its raw bytes
is verified. A request without a valid signature gets 401.
Slack's rules: docs.slack.dev, "Verifying requests from Slack"."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import time

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from slack_bolt.request.internals import parse_body

from bot.chat.platform import IngressGate
from bot.platforms.http_mode import SKEW_S, BodyReader, admit_request, build_closing_response
from bot.platforms.slack.payload_shape import has_slack_shape

_log = logging.getLogger(__name__)

_TIMESTAMP, _SIGNATURE = re.compile(r"[0-9]{1,12}"), re.compile(r"v0=[0-9a-f]{64}")


def build_verifier(secret: str, gate: IngressGate) -> Middleware:
    """Build the middleware that reads and verifies requests, and passes verified ones through the gate."""
    bodies = BodyReader()

    @web.middleware
    async def verify_http_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = await _find_refusal(request, secret.encode(), bodies)
        if refusal is not None:
            return refusal
        with admit_request(gate) as ended:
            answer = await handler(request)
            ended.name = "acknowledged" if answer.status < 400 else "failed"
            return answer

    return verify_http_request


async def _find_refusal(request: web.Request, secret: bytes, bodies: BodyReader) -> web.Response | None:
    """Return the answer to a refused request, or None for a request of Slack's."""
    stamp, signature = (request.headers.get(name, "") for name in ("X-Slack-Request-Timestamp", "X-Slack-Signature"))
    try:
        charset = (request.charset or "utf-8").lower()
    except ValueError:
        charset = ""
    # Slack sends plain UTF-8. Another encoding was added by somebody else, because headers are not signed.
    is_plain = charset in ("utf-8", "utf8") and not request.headers.get("Content-Encoding")
    if not (_TIMESTAMP.fullmatch(stamp) and _SIGNATURE.fullmatch(signature) and is_plain):
        return build_closing_response(401)
    if abs(time.time() - int(stamp)) > SKEW_S:
        return build_closing_response(401)
    body = await bodies.read_body(request)
    if isinstance(body, web.Response):
        return body
    signed = hmac.new(secret, b"v0:%b:%b" % (stamp.encode(), body), hashlib.sha256)
    if not hmac.compare_digest(f"v0={signed.hexdigest()}", signature):
        return build_closing_response(401)
    try:
        found = parse_body(body.decode("utf-8"), request.content_type)
    except (ValueError, RecursionError):
        found = None
    if has_slack_shape(found):
        return None
    _log.warning("a signed request that cannot be read is dropped (%d bytes)", len(body))
    return web.Response()  # Slack would only send it again
