"""The two ways to the app: the long connection and signed callbacks."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import time
from dataclasses import dataclass

from aiohttp import WSMessage, web
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from bot.chat.feishu.frames import CONTROL, DATA, Frame, FrameError, decode_frame, encode_frame
from bot.dev.workspace.delivery import DeliveryAttempt, NotAcknowledgedError
from bot.dev.workspace.faults import PlannedFaults
from bot.dev.workspace.feishu.world import FeishuSetup
from bot.dev.workspace.signed import HttpTransport
from bot.dev.workspace.sockets import AppSockets, EnvelopeAck, SocketLink
from bot.dev.workspace.world import Json

MOST_SOCKETS = 50
SERVICE = 33554678
PING_S = 120
REFUSED, TOO_MANY = "1000040344", "1000040350"


def read_answer(body: Json) -> Json:
    """Return the answer in an acknowledgement. Raises `NotAcknowledgedError` if its code is not 200."""
    if body.get("code") != 200:
        raise NotAcknowledgedError("refused")
    data = body.get("data")
    return dict(json.loads(base64.b64decode(data))) if data else {}


@dataclass(slots=True)
class LongConnection(AppSockets):
    """Transport over the long connection. Each payload goes to one socket, chosen at random."""

    setup: FeishuSetup
    faults: PlannedFaults
    pings: int = 0

    def build_endpoint(self, host: str) -> Json:
        """Build the answer of `/callback/ws/endpoint`: an address with a ticket for one use."""
        query = f"fpid=493&aid=552564&device_id={secrets.randbelow(10**18)}&access_key={secrets.token_hex(16)}"
        url = f"ws://{host}/ws/v2?{query}&service_id={SERVICE}&ticket={self.create_ticket()}"
        return {"code": 0, "msg": "", "data": {"URL": url, "ClientConfig": self._build_config()}}

    def _build_config(self) -> Json:
        return {"PingInterval": PING_S, "ReconnectCount": -1, "ReconnectInterval": 1, "ReconnectNonce": 0}

    async def handle_request(self, request: web.Request) -> web.StreamResponse:
        """Serve `GET /ws/v2?ticket=…`."""
        ticket = request.query.get("ticket", "")
        if ticket not in self.tickets or len(self.links) >= MOST_SOCKETS:
            code, words = (REFUSED, "auth failed") if ticket not in self.tickets else (TOO_MANY, "exceed conn limit")
            refusal = {"handshake-status": "514", "handshake-msg": words, "handshake-autherrcode": code}
            return web.Response(status=400, headers=refusal)
        self.tickets.discard(ticket)
        return await self.serve_socket(request)

    async def receive_message(self, link: SocketLink, message: WSMessage) -> None:
        try:
            frame = decode_frame(bytes(message.data))
        except FrameError:
            return
        if frame.method == CONTROL and frame.headers.get("type") == "ping":
            self.pings += 1
            config = json.dumps(self._build_config()).encode()
            pong = Frame(CONTROL, frame.service, {"type": "pong"}, config)
            await link.socket.send_bytes(encode_frame(pong))
        elif frame.method == DATA:
            body, id = json.loads(frame.payload or b""), frame.headers.get("message_id", "")
            self.record_ack(EnvelopeAck(id, body, self.faults.take_ack_hold()))
        self.changed()

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        if not (live := self.list_live_links()):
            raise NotAcknowledgedError("timeout")
        id, payload = secrets.token_hex(16), parcel.payload.get("payload", parcel.payload)
        socket = secrets.choice(live).socket

        async def send() -> None:
            data = json.dumps(payload, ensure_ascii=False).encode()
            await socket.send_bytes(encode_frame(build_event_frame(id, data)))

        envelope = {"envelope_id": id, "payload": payload, "retry_attempt": parcel.attempt}
        return read_answer(await self.deliver_envelope(envelope, send, self.setup.timing.ack))


def build_event_frame(id: str, payload: bytes) -> Frame:
    """Build the frame of a payload, which is sent in one part."""
    headers = {"type": "event", "message_id": id, "sum": "1", "seq": "0", "trace_id": secrets.token_hex(16)}
    return Frame(DATA, SERVICE, {**headers, "timestamp": str(int(time.time() * 1000))}, payload)


def encrypt_payload(encrypt_key: str, payload: bytes) -> str:
    """Encrypt with AES-256-CBC under the SHA-256 of the key; the initialization vector stands in front."""
    padder, vector = padding.PKCS7(128).padder(), os.urandom(16)
    padded = padder.update(payload) + padder.finalize()
    encryptor = Cipher(algorithms.AES(hashlib.sha256(encrypt_key.encode()).digest()), modes.CBC(vector)).encryptor()
    return base64.b64encode(vector + encryptor.update(padded) + encryptor.finalize()).decode()


def sign_callback(encrypt_key: str, stamp: str, nonce: str, body: bytes) -> str:
    return hashlib.sha256((stamp + nonce + encrypt_key).encode() + body).hexdigest()


class CallbackTransport(HttpTransport):
    """Transport over HTTP callbacks to `url`: encrypted and signed if the app has an encrypt key."""

    def __init__(self, url: str, setup: FeishuSetup, faults: PlannedFaults) -> None:
        super().__init__(url, setup.timing, faults)
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
        answer = await self._post(parcel.payload.get("payload", parcel.payload))
        if self.faults.take_ack_hold():
            raise NotAcknowledgedError("http_timeout")
        return answer

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
