"""The way to the app: the long connection."""

from __future__ import annotations

import base64
import json
import secrets
import time
from dataclasses import dataclass

from aiohttp import WSMessage, web

from bot.dev.workspace.delivery import DeliveryAttempt, NotAcknowledgedError
from bot.dev.workspace.sockets import AppSockets, SocketLink
from bot.dev.workspace.world import Json
from bot.platforms.feishu.frames import CONTROL, DATA, Frame, FrameError, decode_frame, encode_frame

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
            self.take_ack(frame.headers.get("message_id", ""), json.loads(frame.payload or b""))

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        if not (live := self.list_live_links()):
            raise NotAcknowledgedError("timeout")
        id, payload = secrets.token_hex(16), parcel.payload.get("payload", parcel.payload)
        socket = secrets.choice(live).socket

        # One part takes all of the payload.
        headers = {"type": "event", "message_id": id, "sum": "1", "seq": "0", "trace_id": secrets.token_hex(16)}
        headers["timestamp"] = str(int(time.time() * 1000))
        frame = encode_frame(Frame(DATA, SERVICE, headers, json.dumps(payload, ensure_ascii=False).encode()))
        return read_answer(await self.deliver_envelope(id, lambda: socket.send_bytes(frame)))
