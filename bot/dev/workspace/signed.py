"""Signed HTTP delivery to the app's request URL: v0 signatures, the URL handshake, retry headers."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Mapping
from urllib.parse import urlencode

from aiohttp import ClientError, ClientSession, ClientTimeout
from slack_sdk.signature import SignatureVerifier

from bot.dev.workspace.delivery import DeliveryAttempt, DeliveryTiming, NotAcknowledgedError
from bot.dev.workspace.faults import PlannedFaults
from bot.dev.workspace.world import Json

VERIFICATION_TOKEN = "local-verification"  # noqa: S105  the platform's deprecated field, not a secret


class HttpTransport:
    """Transport to an app behind HTTP, which counts as ready at any time."""

    def __init__(self, url: str, timing: DeliveryTiming, faults: PlannedFaults) -> None:
        """`url` is the app's request URL."""
        self.url, self.timing, self.faults = url, timing, faults
        self.session: ClientSession | None = None

    def is_ready(self) -> bool:
        return True

    async def wait_until_ready(self) -> None:
        return

    async def post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, str, Mapping[str, str]]:
        """Post to the app; return status, text and headers of its answer. Raises `NotAcknowledgedError`."""
        if self.session is None:
            self.session = ClientSession(timeout=ClientTimeout(total=self.timing.ack))
        try:
            async with self.session.post(self.url, data=body, headers=headers) as response:
                return response.status, await response.text(), response.headers
        except TimeoutError:
            raise NotAcknowledgedError("http_timeout") from None
        except ClientError:
            raise NotAcknowledgedError("connection_failed") from None

    async def close(self) -> None:
        if self.session is not None:
            await self.session.close()


class SignedHttpTransport(HttpTransport):
    """Transport over HTTP with Slack's signatures."""

    def __init__(self, url: str, secret: str, timing: DeliveryTiming, faults: PlannedFaults) -> None:
        super().__init__(url, timing, faults)
        self.signature = SignatureVerifier(secret)

    async def verify_url(self) -> bool:
        """Do the handshake of a new request URL: return whether the app echoes the challenge."""
        challenge = secrets.token_hex(16)
        body = {"type": "url_verification", "token": VERIFICATION_TOKEN, "challenge": challenge}
        status, text, _ = await self._post_signed(json.dumps(body), "application/json", {})
        return status == 200 and challenge in text

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        body, kind = encode_delivery(parcel)
        retry = {"X-Slack-Retry-Num": str(parcel.attempt), "X-Slack-Retry-Reason": parcel.reason}
        status, text, headers = await self._post_signed(body, kind, retry if parcel.attempt else {})
        if self.faults.take_ack_hold():
            await asyncio.sleep(self.timing.ack)
            raise NotAcknowledgedError("http_timeout")
        if status != 200:
            raise NotAcknowledgedError("http_error", final=headers.get("X-Slack-No-Retry") == "1")
        return parse_answer(text)

    async def _post_signed(self, body: str, kind: str, extra: dict[str, str]) -> tuple[int, str, Mapping[str, str]]:
        stamp = str(int(time.time()))
        headers = {
            "Content-Type": kind,
            "X-Slack-Request-Timestamp": stamp,
            "X-Slack-Signature": self.signature.generate_signature(timestamp=stamp, body=body) or "",
            **extra,
        }
        return await self.post(body.encode(), headers)


def encode_delivery(parcel: DeliveryAttempt) -> tuple[str, str]:
    """Return (body, content type): JSON for events, a `payload` form for interactions, a flat form for slash
    commands."""
    if parcel.kind == "events_api":
        return json.dumps(parcel.payload), "application/json"
    form = parcel.payload if parcel.kind == "slash_commands" else {"payload": json.dumps(parcel.payload)}
    return urlencode(form), "application/x-www-form-urlencoded"


def parse_answer(text: str) -> Json:
    """Parse the app's answer: a JSON object, or plain text for a slash command."""
    if not text.strip():
        return {}
    try:
        body = json.loads(text)
    except ValueError:
        return {"text": text}
    return body if isinstance(body, dict) else {"text": text}
