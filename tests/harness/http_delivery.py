"""Delivery of a workspace's events and presses to an app by HTTP: Slack's signed requests, Feishu's callbacks.

The product's workspace serves apps that connect to it: Socket Mode and the long connection. Tests of the bot's HTTP
mode bring everything this way."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import time
from collections.abc import Mapping
from urllib.parse import urlencode

from aiohttp import ClientError, ClientSession, ClientTimeout
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from slack_sdk.signature import SignatureVerifier

from bot.core.errors import LocalStartError
from bot.dev.workspace.delivery import DeliveryAttempt, DeliveryTiming, NotAcknowledgedError
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.feishu.world import FeishuSetup
from bot.dev.workspace.payloads import VERIFICATION_TOKEN
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json


async def use_http_delivery(ws: Workspace, url: str) -> None:
    """Deliver to a request URL from now on, after the handshake. Raises `LocalStartError` if the URL fails it."""
    carrier: CallbackTransport | SignedHttpTransport
    if isinstance(ws, FeishuWorkspace):
        carrier = CallbackTransport(url, ws.setup)
    else:
        carrier = SignedHttpTransport(url, ws.setup.signing_secret, ws.setup.timing)
    ws.delivery.carrier = carrier
    if not await carrier.verify_url():
        raise LocalStartError(f"{url} did not answer the url_verification challenge")


class HttpTransport:
    """Transport to an app behind HTTP, which counts as ready at any time."""

    def __init__(self, url: str, timing: DeliveryTiming) -> None:
        """`url` is the app's request URL."""
        self.url, self.timing = url, timing
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

    def __init__(self, url: str, secret: str, timing: DeliveryTiming) -> None:
        super().__init__(url, timing)
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


def encrypt_payload(encrypt_key: str, payload: bytes) -> str:
    """Encrypt with AES-256-CBC under the SHA-256 of the key; the initialization vector stands in front."""
    padder, vector = padding.PKCS7(128).padder(), os.urandom(16)
    padded = padder.update(payload) + padder.finalize()
    encryptor = Cipher(algorithms.AES(hashlib.sha256(encrypt_key.encode()).digest()), modes.CBC(vector)).encryptor()
    return base64.b64encode(vector + encryptor.update(padded) + encryptor.finalize()).decode()


def sign_callback(encrypt_key: str, stamp: str, nonce: str, body: bytes) -> str:
    return hashlib.sha256((stamp + nonce + encrypt_key).encode() + body).hexdigest()


class CallbackTransport(HttpTransport):
    """Transport over Feishu's callbacks to `url`: encrypted and signed if the app has an encrypt key."""

    def __init__(self, url: str, setup: FeishuSetup) -> None:
        super().__init__(url, setup.timing)
        self.setup = setup

    async def verify_url(self) -> bool:
        """Do the handshake of a new request URL: return whether the app answers with the challenge."""
        challenge = secrets.token_hex(16)
        check = {"challenge": challenge, "token": self.setup.verification_token, "type": "url_verification"}
        try:
            return (await self._post(check)).get("challenge") == challenge
        except NotAcknowledgedError:
            return False

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        return await self._post(parcel.payload.get("payload", parcel.payload))

    async def _post(self, payload: Json) -> Json:
        body, headers = json.dumps(payload, ensure_ascii=False).encode(), {"Content-Type": "application/json"}
        if key := self.setup.encrypt_key:
            body = json.dumps({"encrypt": encrypt_payload(key, body)}).encode()
            stamp, nonce = str(int(time.time())), secrets.token_hex(8)
            headers |= {"X-Lark-Request-Timestamp": stamp, "X-Lark-Request-Nonce": nonce}
            headers["X-Lark-Signature"] = sign_callback(key, stamp, nonce, body)
        status, text, _ = await self.post(body, headers)
        try:
            answer = dict(json.loads(text)) if text.strip() else {}
        except ValueError:
            raise NotAcknowledgedError("http_error") from None
        if status != 200:
            raise NotAcknowledgedError("http_error")
        return answer
