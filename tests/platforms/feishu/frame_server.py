"""Feishu's servers for one test: tokens, the address of a long connection, and frames by the SDK's protocol buffers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import WSMsgType, web
from lark_channel.ws.pb.pbbp2_pb2 import Frame as ForeignFrame

from tests.harness.serving import serve_app
from tests.platforms.slack.doubles import eventually

APP_ID, APP_SECRET = "cli_a1b2c3d4e5", "s3cr3tS3cr3tS3cr3tS3cr3tS3cr3t12"
CONFIG = {"PingInterval": 1, "ReconnectCount": -1, "ReconnectInterval": 1, "ReconnectNonce": 0}


def build_event(number: int = 1, kind: str = "im.message.receive_v1", **event: Any) -> dict[str, Any]:
    header = {"event_id": f"e{number}", "event_type": kind, "create_time": "1608725989000", "token": "v",
              "app_id": APP_ID, "tenant_key": "t1"}  # fmt: skip
    return {"schema": "2.0", "header": header, "event": {"number": number, **event}}


class FrameServer:
    """Serves one app. Tests set how it misbehaves."""

    def __init__(self) -> None:
        self.url, self.pong_config = "", dict[str, Any]()
        self.silent = 0
        """How many connections, from the first, get no pong."""
        self.refusal: dict[str, Any] | None = None
        """What the next requests for an address are answered."""
        self.handshake: dict[str, str] = {}
        """Headers of a refused handshake."""
        self.sockets: list[web.WebSocketResponse] = []
        self.addresses = 0
        self.acks: dict[str, list[dict[str, Any]]] = {}
        self.pings: list[float] = []

    async def give_address(self, request: web.Request) -> web.Response:
        self.addresses += 1
        body = await request.json()
        if self.refusal is not None:
            return web.json_response(self.refusal)
        if body != {"AppID": APP_ID, "AppSecret": APP_SECRET}:
            return web.json_response({"code": 514, "msg": "auth failed"})
        secrets = "access_key=a1c2c3e5s6k7e8y9z0&service_id=33554678&ticket=t1i2c3k4e5t6s7"
        url = f"{self.url.replace('http', 'ws')}/ws/v2?fpid=493&device_id=7&{secrets}"
        return web.json_response({"code": 0, "msg": "", "data": {"URL": url, "ClientConfig": CONFIG}})

    async def serve_frames(self, request: web.Request) -> web.StreamResponse:
        if self.handshake:
            return web.Response(status=400, headers=self.handshake)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets.append(socket)
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                continue
            frame = ForeignFrame()
            frame.ParseFromString(message.data)
            headers = {one.key: one.value for one in frame.headers}
            if frame.method == 0:
                assert headers["type"] == "ping" and frame.service == 33554678
                self.pings.append(asyncio.get_running_loop().time())
                if self.sockets.index(socket) >= self.silent:
                    payload = json.dumps(self.pong_config).encode() if self.pong_config else b""
                    await self._send(socket, 0, {"type": "pong"}, payload)
            else:
                assert headers["biz_rt"].isdecimal()
                self.acks.setdefault(headers["message_id"], []).append(json.loads(frame.payload))
        return socket

    async def _send(self, socket: web.WebSocketResponse, method: int, headers: dict[str, str], payload: bytes) -> None:
        frame = ForeignFrame(SeqID=1, LogID=2, service=33554678, method=method, payload=payload)
        for key, value in headers.items():
            frame.headers.add(key=key, value=value)
        await socket.send_bytes(frame.SerializeToString())

    async def push(
        self, payload: dict[str, Any] | bytes, name: str = "m1", *, parts: int = 1, order: Any = None
    ) -> None:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        size = -(-len(data) // parts)
        for at in order if order is not None else range(parts):
            headers = {"type": "event", "message_id": name, "sum": str(parts), "seq": str(at), "trace_id": "x"}
            await self._send(self.sockets[-1], 1, headers, data[at * size : (at + 1) * size])

    async def wait_for_ack(self, name: str = "m1", number: int = 1) -> dict[str, Any]:
        await eventually(lambda: len(self.acks.get(name, [])) >= number)
        return self.acks[name][number - 1]


@asynccontextmanager
async def run_frame_server() -> AsyncIterator[FrameServer]:
    server, app = FrameServer(), web.Application()
    app.router.add_post("/callback/ws/endpoint", server.give_address)
    app.router.add_get("/ws/v2", server.serve_frames)
    async with serve_app(app) as server.url:
        yield server
