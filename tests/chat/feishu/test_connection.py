"""The long connection against a server of frames: split, delayed, silent, gone, refusing."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from bot.chat.feishu import connection
from bot.chat.feishu.client import FeishuClient, open_feishu_client
from bot.chat.feishu.connection import FragmentJoiner, Handle, open_long_connection
from bot.chat.feishu.frames import DATA, Frame, FrameError
from bot.chat.platform import IngressGate
from bot.core.errors import ChatUnavailableError, SettingsError, StoreUnavailableError
from bot.core.redaction import redact_text
from tests.chat.feishu.frame_server import (
    APP_ID,
    APP_SECRET,
    CONFIG,
    FrameServer,
    build_event,
    run_frame_server,
)


class Desk:
    """What the bot's side has got, and how it answers."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.handle: Handle = self.accept
        self.gate = IngressGate()
        self.is_connected: Callable[[], Any]
        self.began, self.durable = asyncio.Event(), asyncio.Event()

    async def accept(self, payload: dict[str, Any]) -> None:
        self.got.append(payload)

    async def hold(self, payload: dict[str, Any]) -> None:
        """Take an event, but the second, when somebody says that it is durable."""
        self.began.set()
        if payload["event"]["number"] != 2:
            await self.durable.wait()


@asynccontextmanager
async def connect(server: FrameServer, desk: Desk, secret: str = APP_SECRET) -> AsyncIterator[Desk]:
    async def handle(payload: dict[str, Any]) -> Any:
        return await desk.handle(payload)

    async with (
        open_feishu_client(APP_ID, secret, server.url) as client,
        open_long_connection(client, handle, desk.gate) as desk.is_connected,
    ):
        yield desk


@pytest.fixture
async def server() -> AsyncIterator[FrameServer]:
    async with run_frame_server() as server:
        yield server


async def test_an_event_is_handled_and_acknowledged(server: FrameServer) -> None:
    async with connect(server, Desk()) as desk:
        await server.push(build_event(1))
        assert await server.wait_for_ack() == {"code": 200}
        assert desk.got == [build_event(1)] and await desk.is_connected() and desk.gate.coming == 0
        assert server.pings


async def test_a_press_is_answered_with_toast_and_card(server: FrameServer) -> None:
    answer = {"toast": {"type": "info", "content": "已收到"}, "card": {"type": "raw", "data": {"schema": "2.0"}}}

    async def press(payload: dict[str, Any]) -> Any:
        return answer if payload["event"].get("action") else None

    async with connect(server, Desk()) as desk:
        desk.handle = press
        await server.push(build_event(1, "card.action.trigger", action={"tag": "button"}))
        ack = await server.wait_for_ack()
        assert ack["code"] == 200 and json.loads(base64.b64decode(ack["data"])) == answer
        await server.push(build_event(2, "card.action.trigger"), "m2")
        assert await server.wait_for_ack("m2") == {"code": 200}


@pytest.mark.parametrize("order", [None, (2, 0, 4, 1, 3), (0, 0, 1, 1, 2, 3, 4)])
async def test_the_parts_of_an_event_are_joined_in_any_order(server: FrameServer, order: Any) -> None:
    event = build_event(1, text="很长" * 900)
    async with connect(server, Desk()) as desk:
        await server.push(event, parts=5, order=order)
        await server.wait_for_ack()
        assert desk.got == [event]


@pytest.mark.parametrize(
    "failed", [StoreUnavailableError("away"), ChatUnavailableError("unreachable"), ValueError("?")]
)
async def test_nothing_is_acknowledged_that_is_not_durable(server: FrameServer, failed: Exception) -> None:
    async def fail(payload: dict[str, Any]) -> None:
        raise failed

    async with connect(server, Desk()) as desk:
        desk.handle = fail
        await server.push(build_event(1))
        assert await server.wait_for_ack() == {"code": 500}
        desk.handle = desk.accept  # sent again
        await server.push(build_event(1))
        assert await server.wait_for_ack(number=2) == {"code": 200}


async def test_an_acknowledgement_waits_for_durability(server: FrameServer) -> None:
    async with connect(server, Desk()) as desk:
        desk.handle = desk.hold
        await server.push(build_event(1), "slow")
        await server.push(build_event(2), "quick")
        assert await server.wait_for_ack("quick") == {"code": 200}  # a slow handler blocks nobody
        assert "slow" not in server.acks and desk.gate.coming == 1
        desk.durable.set()
        assert await server.wait_for_ack("slow") == {"code": 200}


async def test_negative_control_an_early_acknowledgement_is_seen(
    server: FrameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def acknowledge_first(handle: Handle, payload: Any) -> Any:
        asyncio.get_running_loop().create_task(handle(payload)).add_done_callback(lambda task: None)
        return 200, None

    monkeypatch.setattr(connection, "handle_payload", acknowledge_first)
    async with connect(server, Desk()) as desk:
        desk.handle = desk.hold
        await server.push(build_event(1))
        assert await server.wait_for_ack() == {"code": 200}  # nothing is durable: the tests above would fail
        desk.durable.set()


async def test_the_end_waits_for_what_was_received(server: FrameServer) -> None:
    async with AsyncExitStack() as stack:
        desk = await stack.enter_async_context(connect(server, Desk()))
        desk.handle = desk.hold
        await server.push(build_event(1))
        await desk.began.wait()
        ending = asyncio.create_task(stack.aclose())
        await asyncio.sleep(0)
        assert not ending.done() and not server.acks
        desk.durable.set()
        await ending
    assert await server.wait_for_ack() == {"code": 200}


async def test_the_end_gives_up_a_handler_without_acknowledging(
    server: FrameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "DRAIN_S", 0.1)
    async with connect(server, Desk()) as desk:
        desk.handle = desk.hold
        await server.push(build_event(1))
        await desk.began.wait()
    assert not server.acks and desk.gate.coming == 0


async def test_a_closed_connection_is_replaced(server: FrameServer) -> None:
    async with connect(server, Desk()) as desk:
        await server.wait_until(lambda: len(server.sockets) == 1)
        await server.sockets[0].close()
        await server.wait_until(lambda: len(server.sockets) == 2)
        await server.push(build_event(2), "m2")
        assert await server.wait_for_ack("m2") == {"code": 200}
        assert desk.got == [build_event(2)]


async def test_an_unknown_failure_does_not_make_the_bot_deaf(
    server: FrameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, failures = FeishuClient.request_connection, [KeyError("unknown"), RuntimeError("unknown")]

    async def fail_twice(client: FeishuClient) -> dict[str, Any]:
        if server.sockets and failures:
            raise failures.pop()
        return await answer(client)

    monkeypatch.setattr(FeishuClient, "request_connection", fail_twice)
    async with connect(server, Desk()):
        await server.wait_until(lambda: len(server.sockets) == 1)
        await server.sockets[0].close()
        await server.wait_until(lambda: len(server.sockets) == 2)
        await server.push(build_event(1))
        assert await server.wait_for_ack() == {"code": 200}
        assert not failures


async def test_a_silent_connection_is_given_up(server: FrameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PONG_S", 0.3)
    server.silent = 1
    async with connect(server, Desk()):
        await server.wait_until(lambda: len(server.sockets) >= 2)
        await server.push(build_event(1))
        assert await server.wait_for_ack() == {"code": 200}


async def test_negative_control_a_connection_with_pongs_is_kept(
    server: FrameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PONG_S", 0.3)
    async with connect(server, Desk()):
        await server.wait_until(lambda: len(server.pings) == 3)
        assert len(server.sockets) == 1


async def test_the_watchdog_goes_by_the_last_pong_and_not_by_events(
    server: FrameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PONG_S", 0.3)
    server.silent = 1
    async with connect(server, Desk()):
        await server.wait_until(lambda: len(server.sockets) == 1)
        number = 0
        while len(server.sockets) == 1:
            number += 1
            await server.push(build_event(number), f"m{number}")
            await server.wait_until(lambda: f"m{number}" in server.acks or len(server.sockets) > 1)  # noqa: B023
        assert number > 1


async def test_pongs_bring_new_parameters(server: FrameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PING_MIN_S", 0.05)
    server.pong_config = {**CONFIG, "PingInterval": 0}
    async with connect(server, Desk()):
        await server.wait_until(lambda: len(server.pings) == 12)
        assert server.pings[-1] - server.pings[1] < 5 and len(server.sockets) == 1


@pytest.mark.parametrize(
    "told", [None, [], "x", {"PingInterval": "soon"}, {"PingInterval": float("nan")}, {"PingInterval": True}]
)
async def test_parameters_that_are_none_change_nothing_dangerous(server: FrameServer, told: Any) -> None:
    async with open_feishu_client(APP_ID, APP_SECRET, server.url) as client:
        one = connection.LongConnection(client, Desk().accept, IngressGate())
        one._adopt_parameters(told)
        assert connection.PING_MIN_S <= one._ping_s <= connection.PING_MAX_S


@pytest.mark.parametrize(
    ("refusal", "word"),
    [
        ({"handshake-status": "514", "handshake-autherrcode": "1000040350"}, "50 long connections"),
        ({"code": 514, "msg": "auth failed"}, "FEISHU_APP_ID"),
        ({"code": 403, "msg": "forbidden"}, "FEISHU_MODE=http"),
        ({"code": 1000040350, "msg": "too many"}, "50 long connections"),
        ({"code": 1000040344, "msg": "no credential"}, "FEISHU_APP_SECRET"),
    ],
)
async def test_a_refusal_at_the_start_says_what_to_do(server: FrameServer, refusal: dict[str, Any], word: str) -> None:
    server.refusal, server.handshake = (refusal, {}) if "code" in refusal else (None, refusal)
    with pytest.raises(SettingsError, match=word):
        async with connect(server, Desk()):
            pass


@pytest.mark.parametrize("refusal", [{"code": 1, "msg": "busy"}, {"code": 1000040343}, {"code": 0, "data": {}}, {}])
async def test_an_outage_at_the_start_is_no_wrong_setting(server: FrameServer, refusal: dict[str, Any]) -> None:
    server.refusal = refusal
    with pytest.raises(ChatUnavailableError):
        async with connect(server, Desk()):
            pass


async def test_a_refusal_later_is_tried_again(server: FrameServer) -> None:
    async with connect(server, Desk()) as desk:
        await server.wait_until(lambda: len(server.sockets) == 1)
        server.refusal = {"code": 1000040350, "msg": "too many"}
        await server.sockets[0].close()
        await server.wait_until(lambda: server.addresses >= 3)
        assert not await desk.is_connected()
        server.refusal = None
        await server.wait_until(lambda: len(server.sockets) == 2)


@pytest.mark.parametrize("payload", [b"", b"no json", b"[1]", b"\xff\xfe", b"[" * 9_999])
async def test_a_payload_that_is_no_object_is_dropped_and_acknowledged(server: FrameServer, payload: bytes) -> None:
    async with connect(server, Desk()) as desk:
        await server.push(payload)
        assert await server.wait_for_ack() == {"code": 200}
        assert not desk.got


async def test_odd_frames_change_nothing(server: FrameServer) -> None:
    async with connect(server, Desk()) as desk:
        await server.wait_until(lambda: len(server.sockets) == 1)
        await server.sockets[0].send_bytes(b"\x0b")
        await server.sockets[0].send_str("hello")
        await server.push(build_event(1), "odd", parts=999, order=[998])
        await server.push(build_event(2), "m2")
        assert await server.wait_for_ack("m2") == {"code": 200}
        assert desk.got == [build_event(2)]


def _build_part(name: str, total: Any, at: Any, part: bytes = b"x") -> Frame:
    return Frame(DATA, headers={"message_id": name, "sum": str(total), "seq": str(at)}, payload=part)


def test_parts_that_wait_are_bounded_by_size_and_time() -> None:
    now = 0.0
    joiner = FragmentJoiner(lambda: now)
    for number in range(40):
        assert joiner.join(_build_part(f"m{number}", 2, 0, bytes(1_000_000))) is None
    assert joiner._size <= connection.JOINED_MAX and "m39" in joiner._parts and "m0" not in joiner._parts
    now = connection.JOINED_S + 1
    joiner.join(_build_part("young", 2, 0))
    assert set(joiner._parts) == {"young"} and joiner._size == 1
    assert joiner.join(_build_part("young", 2, 1, b"y")) == b"xy" and joiner._size == 0


@pytest.mark.parametrize(("total", "at"), [(0, 0), (-1, 0), (2, 2), (2, -1), (10**9, 1), ("a", 0), (2, "b")])
def test_impossible_numbers_of_parts_are_refused(total: Any, at: Any) -> None:
    with pytest.raises(FrameError):
        FragmentJoiner().join(_build_part("m", total, at))


async def test_the_address_with_its_ticket_is_never_logged(
    server: FrameServer, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connect(server, Desk()):
        await server.wait_until(lambda: len(server.sockets) == 1)
        server.handshake = {"handshake-status": "1"}
        await server.sockets[0].close()
        await server.wait_until(lambda: server.addresses >= 3)
    text = caplog.text + capsys.readouterr().out
    assert "feishu_not_connected" in text
    assert not any(secret in text for secret in ("t1i2c3k4e5t6s7", "a1c2c3e5s6k7e8y9z0", APP_SECRET))


def test_an_address_of_a_long_connection_is_masked_wherever_it_is_written() -> None:
    url = "wss://msg-frontier.feishu.cn/ws/v2?fpid=493&aid=552564&device_id=1&access_key=c5a1e3f9b7&service_id=3&ticket=9f8e-7d6c"
    masked = redact_text(f"lost {url}")
    assert "c5a1e3f9b7" not in masked and "9f8e-7d6c" not in masked and "service_id=3" in masked
