"""Socket Mode: single-use tickets, at most ten sockets, and every envelope to exactly one of them."""

from __future__ import annotations

import asyncio
import json
import secrets
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import WSCloseCode, WSMessage, web

from bot.dev.workspace.delivery import DeliveryAttempt, DeliveryTiming, NotAcknowledgedError
from bot.dev.workspace.world import Json

MOST_SOCKETS = 10
CLOSE_SECONDS = 1.0
"""Seconds that the other end may take to confirm a socket's end."""


@dataclass(eq=False, slots=True)
class SocketLink:
    """One open socket. `leaving` is set once it was told to disconnect; nothing new is sent there."""

    socket: web.WebSocketResponse
    leaving: bool = False


@dataclass(slots=True)
class AppSockets:
    """The sockets to the app, and the envelopes that it has not acknowledged yet."""

    changed: Callable[[], None]
    timing: DeliveryTiming
    links: list[SocketLink] = field(init=False, default_factory=list)
    tickets: set[str] = field(init=False, default_factory=set)
    pending: dict[str, asyncio.Future[Json]] = field(init=False, default_factory=dict)
    ready: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    def create_ticket(self) -> str:
        ticket = secrets.token_hex(16)
        self.tickets.add(ticket)
        return ticket

    def is_ready(self) -> bool:
        return self.ready.is_set()

    async def wait_until_ready(self) -> None:
        await self.ready.wait()

    def list_live_links(self) -> list[SocketLink]:
        return [link for link in self.links if not link.leaving and not link.socket.closed]

    def update_readiness(self) -> None:
        if self.list_live_links():
            self.ready.set()
        else:
            self.ready.clear()
        self.changed()

    def take_ack(self, id: str, payload: Json) -> None:
        """Hand an acknowledgement to the delivery of its envelope."""
        waiter = self.pending.get(id)
        if waiter is not None and not waiter.done():
            waiter.set_result(payload)
        self.changed()

    async def deliver_envelope(self, id: str, send: Callable[[], Awaitable[None]]) -> Json:
        """Deliver with `send`; return the payload of the acknowledgement. Raises `NotAcknowledgedError` without one."""
        waiter = self.pending[id] = asyncio.get_running_loop().create_future()
        try:
            await send()
            return await asyncio.wait_for(waiter, self.timing.ack)
        except (TimeoutError, ConnectionResetError):
            raise NotAcknowledgedError("timeout") from None
        finally:
            del self.pending[id]

    async def serve_socket(self, request: web.Request) -> web.StreamResponse:
        link = SocketLink(web.WebSocketResponse(timeout=CLOSE_SECONDS))
        try:
            await link.socket.prepare(request)
            self.links.append(link)
            await self.greet_app(link)
            self.update_readiness()
            async for message in link.socket:
                await self.receive_message(link, message)
        except ConnectionResetError:  # the app went away: what it did not acknowledge runs into the time limit
            if link not in self.links:
                return web.Response()
        finally:
            self.links[:] = [one for one in self.links if one is not link]
            self.update_readiness()
        return link.socket

    async def greet_app(self, link: SocketLink) -> None:
        """Send what an app gets first."""

    async def receive_message(self, link: SocketLink, message: WSMessage) -> None:
        """Take what an app sends."""

    async def close(self) -> None:
        await asyncio.gather(*(link.socket.close(code=WSCloseCode.GOING_AWAY) for link in list(self.links)))


@dataclass(slots=True)
class SocketModeTransport(AppSockets):
    _turn: int = 0

    async def handle_request(self, request: web.Request) -> web.StreamResponse:
        """Serve `GET /link/?ticket=…`: open a socket for a valid ticket."""
        ticket = request.query.get("ticket", "")
        if ticket not in self.tickets:
            return web.Response(status=401, text="invalid_ticket")
        self.tickets.discard(ticket)
        return await self.serve_socket(request)

    async def greet_app(self, link: SocketLink) -> None:
        if len(self.links) > MOST_SOCKETS:
            link.leaving = True
            frame = {"type": "disconnect", "reason": "too_many_websockets"}
            with suppress(ConnectionResetError):  # already gone
                await link.socket.send_json(frame)
            await link.socket.close()
            return
        await link.socket.send_json({"type": "hello", "num_connections": len(self.links)})

    async def receive_message(self, link: SocketLink, message: WSMessage) -> None:
        try:
            frame = json.loads(message.data)
            envelope_id, payload = frame["envelope_id"], frame.get("payload") or {}
        except (ValueError, TypeError, KeyError):
            return
        self.take_ack(envelope_id, payload)

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        live = self.list_live_links()
        if not live:
            raise NotAcknowledgedError("timeout")
        self._turn += 1
        is_event = parcel.kind == "events_api"
        id = str(uuid.uuid4())
        envelope: Json = {
            "envelope_id": id,
            "type": parcel.kind,
            "accepts_response_payload": not is_event,
            "payload": parcel.payload,
            **({"retry_attempt": parcel.attempt, "retry_reason": parcel.reason} if is_event else {}),
        }
        socket = live[self._turn % len(live)].socket
        return await self.deliver_envelope(id, lambda: socket.send_json(envelope))
