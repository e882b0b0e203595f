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
from bot.dev.workspace.delivery import DeliveryAttempt, NotAcknowledgedError
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.feishu.world import FeishuSetup
from bot.dev.workspace.payloads import VERIFICATION_TOKEN
from bot.dev.workspace.workspace import Workspace, WorkspaceSetup
from bot.dev.workspace.world import Json


async def use_http_delivery(ws: Workspace, url: str) -> None:
    """Deliver to a request URL from now on, after the handshake. Raises `LocalStartError` if the URL fails it."""
    carrier: CallbackTransport | SignedHttpTransport
    carrier = (
        CallbackTransport(url, ws.setup) if isinstance(ws, FeishuWorkspace) else SignedHttpTransport(url, ws.setup)
    )
    ws.delivery.carrier, challenge = carrier, secrets.token_hex(16)
    if challenge not in await carrier.ask_for_challenge(challenge):
        raise LocalStartError(f"{url} did not answer the url_verification challenge")


class HttpTransport:
    """Transport to an app behind HTTP, which counts as ready at any time. `url` is the app's request URL."""

    def __init__(self, url: str, patience_s: float) -> None:
        self.url, self.patience_s = url, patience_s
        self.session: ClientSession | None = None

    def is_ready(self) -> bool:
        return True

    async def wait_until_ready(self) -> None:
        return

    async def post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, str, Mapping[str, str]]:
        """Post to the app; return status, text and headers of its answer. Raises `NotAcknowledgedError`."""
        if self.session is None:
            self.session = ClientSession(timeout=ClientTimeout(total=self.patience_s))
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
    """Transport over HTTP with Slack's signatures: JSON for events, a `payload` form for interactions, a flat form for
    slash commands."""

    def __init__(self, url: str, setup: WorkspaceSetup) -> None:
        super().__init__(url, setup.timing.ack)
        self.signature = SignatureVerifier(setup.signing_secret)

    async def ask_for_challenge(self, challenge: str) -> str:
        body = {"type": "url_verification", "token": VERIFICATION_TOKEN, "challenge": challenge}
        status, text, _ = await self._post_signed(json.dumps(body), "json", {})
        return text if status == 200 else ""

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        form = parcel.payload if parcel.kind == "slash_commands" else {"payload": json.dumps(parcel.payload)}
        is_event = parcel.kind == "events_api"
        body, kind = (json.dumps(parcel.payload), "json") if is_event else (urlencode(form), "x-www-form-urlencoded")
        retry = {"X-Slack-Retry-Num": str(parcel.attempt), "X-Slack-Retry-Reason": parcel.reason}
        status, text, headers = await self._post_signed(body, kind, retry if parcel.attempt else {})
        if status != 200:
            raise NotAcknowledgedError("http_error", final=headers.get("X-Slack-No-Retry") == "1")
        try:
            answer = json.loads(text.strip() or "{}")
        except ValueError:  # plain text, for a slash command
            return {"text": text}
        return answer if isinstance(answer, dict) else {"text": text}

    async def _post_signed(self, body: str, kind: str, extra: dict[str, str]) -> tuple[int, str, Mapping[str, str]]:
        stamp = str(int(time.time()))
        signature = self.signature.generate_signature(timestamp=stamp, body=body) or ""
        signed = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature}
        return await self.post(body.encode(), {"Content-Type": f"application/{kind}", **signed, **extra})


class CallbackTransport(HttpTransport):
    """Transport over Feishu's callbacks: encrypted and signed if the app has an encrypt key."""

    def __init__(self, url: str, setup: FeishuSetup) -> None:
        super().__init__(url, setup.timing.ack)
        self.setup = setup

    async def ask_for_challenge(self, challenge: str) -> str:
        check = {"challenge": challenge, "token": self.setup.verification_token, "type": "url_verification"}
        try:
            return str((await self._post(check)).get("challenge"))
        except NotAcknowledgedError:
            return ""

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        return await self._post(parcel.payload.get("payload", parcel.payload))

    async def _post(self, payload: Json) -> Json:
        """Encrypt with AES-256-CBC under the SHA-256 of the key; the initialization vector stands in front."""
        body, headers = json.dumps(payload, ensure_ascii=False).encode(), {"Content-Type": "application/json"}
        if key := self.setup.encrypt_key:
            padder, vector = padding.PKCS7(128).padder(), os.urandom(16)
            padded = padder.update(body) + padder.finalize()
            cipher = Cipher(algorithms.AES(hashlib.sha256(key.encode()).digest()), modes.CBC(vector)).encryptor()
            sealed = base64.b64encode(vector + cipher.update(padded) + cipher.finalize()).decode()
            body, stamp, nonce = json.dumps({"encrypt": sealed}).encode(), str(int(time.time())), secrets.token_hex(8)
            headers |= {"X-Lark-Request-Timestamp": stamp, "X-Lark-Request-Nonce": nonce}
            headers["X-Lark-Signature"] = hashlib.sha256((stamp + nonce + key).encode() + body).hexdigest()
        status, text, _ = await self.post(body, headers)
        try:
            answer = dict(json.loads(text)) if text.strip() else {}
        except ValueError:
            raise NotAcknowledgedError("http_error") from None
        if status != 200:
            raise NotAcknowledgedError("http_error")
        return answer
