"""Signed HTTP delivery to the app's request URL: v0 signatures, the URL handshake, retry headers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from aiohttp import ClientError, ClientSession, ClientTimeout

from bot.local.workspace.delivery import Parcel, Timing, Unanswered
from bot.local.workspace.faults import Faults
from bot.local.workspace.world import Json

VERIFICATION_TOKEN = "local-verification"  # noqa: S105  the platform's deprecated field, not a secret


def signature(secret: str, stamp: str, body: str) -> str:
    """`v0=` and the HMAC-SHA256 of `v0:{stamp}:{body}`."""
    return "v0=" + hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()


class SignedHttp:
    """The carrier over HTTP. `url` is where the app listens; `clock` in seconds."""

    def __init__(
        self, url: str, secret: str, timing: Timing, faults: Faults, clock: Callable[[], float] = time.time
    ) -> None:
        self.url, self.secret, self.timing, self.faults, self.clock = url, secret, timing, faults, clock
        self.session: ClientSession | None = None

    def ready(self) -> bool:
        return True

    async def until_ready(self) -> None:
        return

    async def verify(self) -> bool:
        """The handshake done when a request URL is entered: the app must echo the challenge."""
        challenge = secrets.token_hex(16)
        body = {"type": "url_verification", "token": VERIFICATION_TOKEN, "challenge": challenge}
        status, text, _ = await self._post(json.dumps(body), "application/json", {})
        return status == 200 and challenge in text

    async def carry(self, parcel: Parcel) -> Json:
        body, kind = encoded(parcel)
        retry = {"X-Slack-Retry-Num": str(parcel.attempt), "X-Slack-Retry-Reason": parcel.reason}
        status, text, headers = await self._post(body, kind, retry if parcel.attempt else {})
        if self.faults.take_hold():
            await asyncio.sleep(self.timing.ack)
            raise Unanswered("http_timeout")
        if status != 200:
            raise Unanswered("http_error", final=headers.get("X-Slack-No-Retry") == "1")
        return answer(text)

    async def _post(self, body: str, kind: str, extra: dict[str, str]) -> tuple[int, str, Any]:
        stamp = str(int(self.clock()))
        headers = {
            "Content-Type": kind,
            "X-Slack-Request-Timestamp": stamp,
            "X-Slack-Signature": signature(self.secret, stamp, body),
            **extra,
        }
        if self.session is None:
            self.session = ClientSession(timeout=ClientTimeout(total=self.timing.ack))
        try:
            async with self.session.post(self.url, data=body.encode(), headers=headers) as response:
                return response.status, await response.text(), response.headers
        except TimeoutError:
            raise Unanswered("http_timeout") from None
        except ClientError:
            raise Unanswered("connection_failed") from None

    async def close(self) -> None:
        if self.session is not None:
            await self.session.close()


def encoded(parcel: Parcel) -> tuple[str, str]:
    """(body, content type): JSON for events, a `payload` form for interactions, a flat form for slash commands."""
    if parcel.kind == "events_api":
        return json.dumps(parcel.payload), "application/json"
    form = parcel.payload if parcel.kind == "slash_commands" else {"payload": json.dumps(parcel.payload)}
    return urlencode(form), "application/x-www-form-urlencoded"


def answer(text: str) -> Json:
    """The app's answer: a JSON object, or plain text for a slash command."""
    if not text.strip():
        return {}
    try:
        body = json.loads(text)
    except ValueError:
        return {"text": text}
    return body if isinstance(body, dict) else {"text": text}
