"""Receives Feishu's events and presses by its long connection.

Feishu names an address with a ticket, and how often it wants to be pinged. An event is acknowledged only after its
handler has returned, so that nothing is acknowledged that is not durable. Feishu sends an event again (after 15 s, 5
minutes, 1 hour, 6 hours) that is not acknowledged within three seconds; a press is not sent again."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import ClientError, ClientWebSocketResponse, ClientWSTimeout, WSMsgType, WSServerHandshakeError

from bot.chat.platform import IngressGate
from bot.core import logs, metrics
from bot.core.cancellation import cancel_and_wait
from bot.core.errors import ChatError, ChatRefusedError, ChatUnavailableError, SettingsError, StoreUnavailableError
from bot.platforms.feishu.client import UNREACHABLE, FeishuClient
from bot.platforms.feishu.frames import CONTROL, DATA, Frame, FrameError, decode_frame, encode_frame
from bot.platforms.shared import DRAIN_S, find_value, is_outage, parse_object
from tools.local_host import is_local_host

log = logs.get_logger(__name__)

Answer = dict[str, Any] | None
Handle = Callable[[dict[str, Any]], Awaitable[Answer]]
"""Handles one verified payload, of any type and shape. Returns the answer to a press, and None for an event. Raises
`StoreUnavailableError` or `ChatError` when nothing is durable, so that Feishu sends it again."""

PRESS = "card.action.trigger"
"""Type of the event that tells a press."""
CONNECT_S = 15.0
"""Time limit for opening a connection (s)."""
PONG_S = 15.0
"""How long a ping may stay without an answer (s). Then the connection is given up."""
PING_S, PING_MIN_S, PING_MAX_S = 120.0, 1.0, 300.0
"""Time between two pings, until Feishu says otherwise, and between which bounds it may (s)."""
FIRST_MAX_S, AGAIN_MAX_S = 5.0, 60.0
"""Longest pause before the first and before later tries to connect again (s), whatever Feishu says."""
CLOSE_S = 1.0
"""How long a closing handshake may take (s)."""
FRAME_MAX, PARTS_MAX = 1_048_576, 256
"""Most bytes of a frame, and most parts of an event."""
JOINED_MAX, JOINED_S = 8_388_608, 60.0
"""Most bytes of parts that wait for their event, and how long they wait (s)."""
_BAD_CREDENTIALS = (
    "Feishu refuses FEISHU_APP_ID and FEISHU_APP_SECRET for a long connection. Copy both from the developer console → "
    "your app → Credentials."
)
_REFUSALS = {
    "403": "Feishu does not allow this app a long connection. It has to be an app that the company has built itself: "
    "developer console → your app → Events & Callbacks → long connection. Or set FEISHU_MODE=http.",
    "514": _BAD_CREDENTIALS,
    "1000040344": _BAD_CREDENTIALS,
    "1000040350": "Feishu allows 50 long connections for one app and takes no more of this one. Stop the other "
    "programs that use FEISHU_APP_ID, or give this bot an app of its own.",
}
"""Refusals that somebody has to end, by Feishu's number."""


class FragmentJoiner:
    """Joins the parts of an event. Parts whose others never come are given up, the oldest first: Feishu sends an event
    again that is not acknowledged."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._parts: dict[str, tuple[float, dict[int, bytes]]] = {}
        """Message id → when its first part came, and its parts."""
        self._size = 0

    def join(self, frame: Frame) -> bytes | None:
        """Return the whole payload, or None while parts of it are missing. Raises `FrameError`."""
        try:
            total, at = int(frame.headers.get("sum") or 1), int(frame.headers.get("seq") or 0)
        except ValueError:
            raise FrameError("a part has no number") from None
        part = frame.payload or b""
        if not (1 <= total <= PARTS_MAX and 0 <= at < total):
            raise FrameError("a part has an impossible number")
        if total == 1:
            return part
        name = frame.headers.get("message_id", "")
        parts = self._parts.setdefault(name, (self._clock(), {}))[1]
        self._size += len(part) - len(parts.get(at, b""))
        parts[at] = part
        if len(parts) == total and max(parts) < total:
            self._give_up(name)
            return b"".join(parts[number] for number in range(total))
        for oldest, (since, _) in list(self._parts.items()):
            if self._size <= JOINED_MAX and self._clock() - since < JOINED_S:
                break
            self._give_up(oldest)
        return None

    def _give_up(self, name: str) -> None:
        self._size -= sum(map(len, self._parts.pop(name)[1].values()))


class LongConnection:
    """One connection, replaced whenever it ends."""

    def __init__(self, client: FeishuClient, handle: Handle, gate: IngressGate) -> None:
        self._client, self._handle, self._gate = client, handle, gate
        self._socket: ClientWebSocketResponse | None = None
        self._service = 0
        self._ping_s, self._first_s, self._again_s = PING_S, FIRST_MAX_S, AGAIN_MAX_S
        self._next_ping = self._silent_at = -math.inf
        """When the next ping is due, and when a connection without a pong is given up."""
        self._at_work = set[asyncio.Task[None]]()
        self._joiner = FragmentJoiner()

    async def is_connected(self) -> bool:
        return self._socket is not None and not self._socket.closed

    async def connect(self) -> None:
        """Open a connection. Raises `ChatError` with the number of Feishu's refusal, `ChatUnavailableError`."""
        data = await self._client.request_connection()
        url = str(data.get("URL") or "")
        self._adopt_parameters(data.get("ClientConfig"))
        parts = urlsplit(url)
        if parts.scheme != "wss" and not (parts.scheme == "ws" and is_local_host(parts.hostname or "")):
            raise ChatUnavailableError(UNREACHABLE, "ws/endpoint")
        service = parse_qs(parts.query).get("service_id", [""])[0]
        self._service = int(service) if service.isdecimal() and len(service) < 10 else 0
        limit = ClientWSTimeout(ws_close=CLOSE_S)
        # The text of these errors holds the address with its ticket: it goes nowhere.
        try:
            async with asyncio.timeout(CONNECT_S):
                self._socket = await self._client.session.ws_connect(url, timeout=limit, max_msg_size=FRAME_MAX)
        except WSServerHandshakeError as error:
            told = error.headers if error.headers is not None else dict[str, str]()
            codes = [told.get(f"handshake-{name}", "") for name in ("autherrcode", "status")]
            code = next((code for code in codes if code in _REFUSALS), "")
            raise (ChatRefusedError(code, "ws") if code else ChatUnavailableError(UNREACHABLE, "ws")) from None
        except (ClientError, TimeoutError, OSError, ValueError):
            raise ChatUnavailableError(UNREACHABLE, "ws") from None
        self._silent_at = asyncio.get_running_loop().time() + PONG_S

    async def serve(self) -> None:
        """Receive until cancelled, over one connection after the other."""
        pause_s = 0.0
        while True:
            try:
                if self._socket is not None:
                    await self._receive_until_lost(self._socket)
                    self._socket, pause_s = None, random.uniform(0, self._first_s)  # noqa: S311
                await asyncio.sleep(pause_s)
                await self.connect()
                log.info("feishu_connected_again")
            except ChatError as failed:
                report = log.warning if is_outage(failed) else log.error
                report("feishu_not_connected", error=_REFUSALS.get(failed.code, str(failed)))
            except Exception:  # whatever it is: a bot that stops trying would stay deaf
                log.exception("feishu_not_connected")
            if self._socket is None:
                pause_s = min(max(1.0, 2 * pause_s), self._again_s) * random.uniform(0.5, 1)  # noqa: S311

    async def finish(self) -> None:
        """Wait until everything received is acknowledged, as long as Feishu would wait for it. Handlers that are not
        done by then are cancelled, and acknowledge nothing."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while self._at_work:
                    await asyncio.wait(tuple(self._at_work))

    async def close(self) -> None:
        await cancel_and_wait(tuple(self._at_work))
        if self._socket is not None:
            await self._socket.close()

    async def _receive_until_lost(self, socket: ClientWebSocketResponse) -> None:
        loop, why = asyncio.get_running_loop(), "closed"

        async def ping() -> None:
            with suppress(ClientError, OSError):
                while True:
                    await socket.send_bytes(encode_frame(Frame(CONTROL, self._service, headers={"type": "ping"})))
                    self._next_ping = loop.time() + self._ping_s
                    await asyncio.sleep(self._ping_s)

        pings = asyncio.create_task(ping())
        try:
            while True:
                message = await socket.receive(timeout=max(self._silent_at - loop.time(), 0.001))
                if message.type is WSMsgType.BINARY:
                    self._accept_frame(socket, message.data)
                elif message.type is not WSMsgType.TEXT:
                    why = f"{message.type.name} {socket.close_code or ''}".strip()
                    break
        except TimeoutError:
            why = "silent"
        finally:
            await cancel_and_wait([pings])
            await socket.close()
        log.warning("feishu_connection_lost", why=why)

    def _accept_frame(self, socket: ClientWebSocketResponse, data: bytes) -> None:
        try:
            frame = decode_frame(data)
            if frame.method == CONTROL:
                if frame.headers.get("type") == "pong":
                    self._silent_at = self._next_ping + PONG_S
                    if frame.payload:
                        self._adopt_parameters(parse_object(frame.payload))
                return
            payload = self._joiner.join(frame) if frame.method == DATA else None
        except FrameError as error:
            log.warning("feishu_odd_frame", error=str(error))
            return
        if payload is None:
            return

        def end_event(task: asyncio.Task[None]) -> None:
            self._at_work.discard(task)
            self._gate.end_event()
            if not task.cancelled() and (failed := task.exception()):
                log.error("feishu_event_failed", exc_info=failed)

        self._gate.begin_event()
        task = asyncio.create_task(self._answer(socket, frame, payload))
        self._at_work.add(task)
        task.add_done_callback(end_event)

    async def _answer(self, socket: ClientWebSocketResponse, frame: Frame, payload: bytes) -> None:
        began, reply, content = time.perf_counter(), dict[str, Any](), parse_object(payload)
        is_event = find_value(content, "header", "event_type") not in (None, PRESS)
        kind = "events_api" if is_event else "interactive"  # as on Slack, so that one chart shows both
        with metrics.time_outcome(metrics.ACKNOWLEDGEMENTS, outcome="acknowledged", kind=kind) as ended:
            status, answer = await handle_payload(self._handle, content)
            reply["code"] = status
            if answer is not None:
                text = json.dumps(answer, ensure_ascii=False).encode()
                reply["data"] = base64.b64encode(text).decode()
            took_ms = round((time.perf_counter() - began) * 1000)
            headers = {**frame.headers, "biz_rt": str(took_ms)}
            ended.name = "acknowledged" if status == 200 else "failed"
            try:
                await socket.send_bytes(
                    encode_frame(replace(frame, headers=headers, payload=json.dumps(reply).encode()))
                )
            except (ClientError, OSError):  # the connection is gone: Feishu sends the event again
                ended.name = "failed"

    def _adopt_parameters(self, told: object) -> None:
        """Adopt Feishu's parameters, within bounds. It counts in seconds, and may leave any of them out."""

        def read(name: str, least: float, most: float, before: float) -> float:
            value = find_value(told, name)
            return min(max(value, least), most) if isinstance(value, int) else before

        self._ping_s = read("PingInterval", PING_MIN_S, PING_MAX_S, self._ping_s)
        self._first_s = read("ReconnectNonce", 0, FIRST_MAX_S, self._first_s)
        self._again_s = read("ReconnectInterval", 1, AGAIN_MAX_S, self._again_s)


def explain_refusal(refused: ChatError) -> str:
    """Say why Feishu gives the app no long connection, and who can change that."""
    return _REFUSALS.get(refused.code, f"Feishu refuses a long connection: {refused}")


@asynccontextmanager
async def open_long_connection(
    client: FeishuClient, handle: Handle, gate: IngressGate
) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
    """Connect while the context is open, and reconnect automatically. Yields the function that tells whether events can
    come now. At the end, everything received is acknowledged first; Feishu then uses other connections, and sends again
    what is on the wire at that moment. Raises `SettingsError` for an app that Feishu refuses, `ChatUnavailableError`
    when Feishu cannot be reached at the start."""
    connection = LongConnection(client, handle, gate)
    try:
        await connection.connect()
    except ChatError as failed:
        if is_outage(failed):
            raise
        raise SettingsError(explain_refusal(failed)) from failed
    serving = asyncio.create_task(connection.serve())
    try:
        yield connection.is_connected
        await connection.finish()
    finally:
        await cancel_and_wait([serving])
        await connection.close()


async def handle_payload(handle: Handle, payload: dict[str, Any] | None) -> tuple[int, Answer]:
    """Handle a payload and return the status for Feishu, with the answer. A payload that is no object is dropped,
    because Feishu would only send it again."""
    if payload is None:
        log.warning("feishu_odd_payload")
        return 200, None
    try:
        return 200, await handle(payload)
    except (StoreUnavailableError, ChatError) as failed:
        log.warning("feishu_event_not_durable", error=str(failed))
    except Exception:
        log.exception("feishu_event_failed")
    return 500, None
