"""Socket Mode: single-use tickets, at most ten sockets, every envelope to exactly one of them."""

from __future__ import annotations

import asyncio
import json
import secrets
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import WSCloseCode, WSMsgType, web

from bot.local.workspace.delivery import Parcel, Timing, Unanswered
from bot.local.workspace.faults import Faults
from bot.local.workspace.world import App, Json

MOST_SOCKETS = 10
CLOSE_SECONDS = 1.0
"""How long the other end may take to answer the end of a socket."""


@dataclass(eq=False, slots=True)
class Link:
    """One open socket. `leaving` once it was told to disconnect: nothing new is sent there."""

    socket: web.WebSocketResponse
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledgement the app sent. `held`: swallowed on order, so the envelope counts as unacknowledged."""

    envelope_id: str
    payload: Json
    held: bool = False


@dataclass(slots=True)
class Sockets:
    """The carrier over Socket Mode."""

    app: App
    timing: Timing
    faults: Faults
    changed: Callable[[], None]
    links: list[Link] = field(default_factory=list)
    acks: list[Ack] = field(default_factory=list)
    sent: list[Json] = field(default_factory=list)
    """Envelopes sent, oldest first (the last 1,000)."""
    _tickets: set[str] = field(default_factory=set)
    _pending: dict[str, asyncio.Future[Json]] = field(default_factory=dict)
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _turn: int = 0

    def ticket(self) -> str:
        ticket = secrets.token_hex(16)
        self._tickets.add(ticket)
        return ticket

    def ready(self) -> bool:
        return self._open.is_set()

    async def until_ready(self) -> None:
        await self._open.wait()

    def live(self) -> list[Link]:
        return [link for link in self.links if not link.leaving and not link.socket.closed]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """`GET /link/?ticket=…`"""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=401, text="invalid_ticket")
        self._tickets.discard(ticket)
        link = Link(web.WebSocketResponse(timeout=CLOSE_SECONDS))
        await link.socket.prepare(request)
        if len(self.links) >= MOST_SOCKETS:
            await self._say_goodbye(link, "too_many_websockets")
            await link.socket.close()
            return link.socket
        await self._serve(link)
        return link.socket

    async def _serve(self, link: Link) -> None:
        self.links.append(link)
        try:
            await link.socket.send_json(self._hello())
            self._recount()
            async for frame in link.socket:
                if frame.type == WSMsgType.TEXT:
                    self._acknowledged(frame.data)
        except ConnectionResetError:
            pass  # the app went away: unacknowledged envelopes run into their time limit
        finally:
            self.links.remove(link)
            self._recount()

    def _hello(self) -> Json:
        debug = {"host": "applink-local", "build_number": 1, "approximate_connection_time": 18060}
        return {
            "type": "hello",
            "num_connections": len(self.links),
            "connection_info": {"app_id": self.app.app},
            "debug_info": debug,
        }

    def _recount(self) -> None:
        if self.live():
            self._open.set()
        else:
            self._open.clear()
        self.changed()

    def _acknowledged(self, text: str) -> None:
        try:
            frame = json.loads(text)
            envelope_id, payload = frame["envelope_id"], frame.get("payload") or {}
        except (ValueError, TypeError, KeyError):
            return
        held = self.faults.take_hold()
        self.acks.append(Ack(envelope_id, payload, held))
        del self.acks[:-1000]
        waiter = self._pending.get(envelope_id)
        if waiter is not None and not waiter.done() and not held:
            waiter.set_result(payload)
        self.changed()

    async def carry(self, parcel: Parcel) -> Json:
        live = self.live()
        if not live:
            raise Unanswered("timeout")
        self._turn += 1
        envelope = self._envelope(parcel)
        waiter = self._pending[envelope["envelope_id"]] = asyncio.get_running_loop().create_future()
        self.sent.append(envelope)
        del self.sent[:-1000]
        try:
            await live[self._turn % len(live)].socket.send_json(envelope)
            return await asyncio.wait_for(waiter, self.timing.ack)
        except (TimeoutError, ConnectionResetError):
            raise Unanswered("timeout") from None
        finally:
            del self._pending[envelope["envelope_id"]]

    def _envelope(self, parcel: Parcel) -> Json:
        event = parcel.kind == "events_api"
        retry = {"retry_attempt": parcel.attempt, "retry_reason": parcel.reason} if event else {}
        return {
            "envelope_id": str(uuid.uuid4()),
            "type": parcel.kind,
            "accepts_response_payload": not event,
            "payload": parcel.payload,
            **retry,
        }

    async def disconnect(self, reason: str = "refresh_requested") -> None:
        """Tell every socket to reconnect; each ends at once, or after a while when it is only a `warning`."""
        leaving = self.live()
        for link in leaving:
            link.leaving = True
        self._recount()
        for link in leaving:
            await self._say_goodbye(link, reason)
        if reason == "warning":
            await asyncio.sleep(self.timing.warning)
        for link in leaving:
            await link.socket.close()

    async def _say_goodbye(self, link: Link, reason: str) -> None:
        frame = {"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-local"}}
        with suppress(ConnectionResetError):  # already gone
            await link.socket.send_json(frame)

    async def drop(self) -> None:
        """End every socket without a disconnect frame, as a failing network does."""
        for link in list(self.links):
            link.leaving = True
            await link.socket.close()
        self._recount()

    async def close(self) -> None:
        await asyncio.gather(*(link.socket.close(code=WSCloseCode.GOING_AWAY) for link in list(self.links)))
