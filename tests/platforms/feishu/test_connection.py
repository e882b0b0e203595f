"""The long connection against a server of frames: split, delayed, silent, gone, refusing."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from bot.chat.platform import IngressGate
from bot.core.errors import ChatUnavailableError, SettingsError, StoreUnavailableError
from bot.platforms.feishu import connection
from bot.platforms.feishu.client import FeishuClient, open_feishu_client
from bot.platforms.feishu.connection import FragmentJoiner, Handle, open_long_connection
from bot.platforms.feishu.frames import DATA, Frame, FrameError
from tests.platforms.feishu.frame_server import APP_ID, APP_SECRET, CONFIG, FrameServer, build_event, run_frame_server
from tests.platforms.slack.doubles import eventually


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
async def connect(server: FrameServer, desk: Desk) -> AsyncIterator[Desk]:
    async def handle(payload: dict[str, Any]) -> Any:
        return await desk.handle(payload)

    async with (
        open_feishu_client(APP_ID, APP_SECRET, server.url) as client,
        open_long_connection(client, handle, desk.gate) as desk.is_connected,
    ):
        yield desk


@pytest.fixture
async def server() -> AsyncIterator[FrameServer]:
    async with run_frame_server() as server:
        yield server


async def test_an_event_is_handled_and_acknowledged_and_a_press_answered(server: FrameServer) -> None:
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
        desk.handle = desk.accept
        await server.push(build_event(3), "m3")
        assert await server.wait_for_ack("m3") == {"code": 200}
        assert desk.got == [build_event(3)] and await desk.is_connected() and desk.gate.coming == 0
        assert server.pings


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


async def test_control_an_early_acknowledgement_is_seen(server: FrameServer, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_the_end_gives_up_what_hangs(server: FrameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "DRAIN_S", 0.1)
    async with connect(server, Desk()) as desk:
        desk.handle = desk.hold
        await server.push(build_event(1))
        await desk.began.wait()
    assert not server.acks and desk.gate.coming == 0


async def test_a_closed_connection_is_replaced_and_a_refusal_later_is_tried_again(server: FrameServer) -> None:
    async with connect(server, Desk()) as desk:
        for number, refusal in ((1, None), (2, {"code": 1000040350, "msg": "too many"})):
            await eventually(lambda: len(server.sockets) == number)  # noqa: B023
            server.refusal, asked = refusal, server.addresses
            await server.sockets[-1].close()
            if refusal:
                await eventually(lambda: server.addresses >= asked + 2)  # noqa: B023
                assert not await desk.is_connected()
                server.refusal = None
            await eventually(lambda: len(server.sockets) == number + 1)  # noqa: B023
            await server.push(build_event(number), f"m{number}")
            assert await server.wait_for_ack(f"m{number}") == {"code": 200}
        assert desk.got == [build_event(1), build_event(2)]


async def test_no_failure_makes_the_bot_deaf(server: FrameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, failures = FeishuClient.request_connection, [KeyError("unknown"), RuntimeError("unknown")]

    async def fail_twice(client: FeishuClient) -> dict[str, Any]:
        if server.sockets and failures:
            raise failures.pop()
        return await answer(client)

    monkeypatch.setattr(FeishuClient, "request_connection", fail_twice)
    async with connect(server, Desk()):
        await eventually(lambda: len(server.sockets) == 1)
        await server.sockets[0].close()
        await eventually(lambda: len(server.sockets) == 2)
        await server.push(build_event(1))
        assert await server.wait_for_ack() == {"code": 200}
        assert not failures


async def test_a_connection_without_pongs_is_given_up(server: FrameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PONG_S", 1.0)
    server.silent = 1
    async with connect(server, Desk()):
        await eventually(lambda: len(server.sockets) == 1)
        number = 0
        while len(server.sockets) == 1:
            number += 1
            with suppress(ConnectionError):  # it is just being closed
                await server.push(build_event(number), f"m{number}")
            await eventually(lambda: f"m{number}" in server.acks or len(server.sockets) > 1)  # noqa: B023
        assert number > 1
        await server.push(build_event(0), "after")
        assert await server.wait_for_ack("after") == {"code": 200}


async def test_pongs_keep_the_connection(server: FrameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the test above, too."""
    monkeypatch.setattr(connection, "PING_MIN_S", 0.05)
    monkeypatch.setattr(connection, "PONG_S", 1.0)
    server.pong_config = {**CONFIG, "PingInterval": 0}
    async with connect(server, Desk()):
        await eventually(lambda: len(server.pings) == 30)
        assert 1 < server.pings[-1] - server.pings[1] < 20 and len(server.sockets) == 1


async def test_parameters_that_are_none_change_nothing_dangerous(server: FrameServer) -> None:
    async with open_feishu_client(APP_ID, APP_SECRET, server.url) as client:
        one = connection.LongConnection(client, Desk().accept, IngressGate())
        for told in (None, [], "x", *({"PingInterval": odd} for odd in ("soon", float("nan"), True))):
            one._adopt_parameters(told)
            assert connection.PING_MIN_S <= one._ping_s <= connection.PING_MAX_S, told


@pytest.mark.parametrize(
    ("refusal", "kind", "word"),
    [
        ({"handshake-status": "514", "handshake-autherrcode": "1000040350"}, SettingsError, "50 long connections"),
        ({"code": 514, "msg": "auth failed"}, SettingsError, "FEISHU_APP_ID"),
        ({"code": 403, "msg": "forbidden"}, SettingsError, "FEISHU_MODE=http"),
        ({"code": 1000040350, "msg": "too many"}, SettingsError, "50 long connections"),
        ({"code": 1000040344, "msg": "no credential"}, SettingsError, "FEISHU_APP_SECRET"),
        *(
            (outage, ChatUnavailableError, None)
            for outage in ({"code": 1}, {"code": 1000040343}, {"code": 0, "data": {}}, {})
        ),
    ],
)
async def test_a_refusal_at_the_start_says_what_to_do_and_an_outage_is_none(
    server: FrameServer, refusal: dict[str, Any], kind: type[Exception], word: str | None
) -> None:
    is_handshake = "handshake-status" in refusal
    server.refusal, server.handshake = (None, refusal) if is_handshake else (refusal, {})
    with pytest.raises(kind, match=word):
        async with connect(server, Desk()):
            pass


async def test_odd_payloads_are_dropped_and_acknowledged_and_odd_frames_change_nothing(server: FrameServer) -> None:
    async with connect(server, Desk()) as desk:
        for payload in (b"", b"no json", b"[1]", b"\xff\xfe", b"[" * 9_999):
            await server.push(payload, f"{payload[:9]!r}")
            assert await server.wait_for_ack(f"{payload[:9]!r}") == {"code": 200}
        assert not desk.got
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


def test_impossible_numbers_of_parts_are_refused(subtests: pytest.Subtests) -> None:
    for total, at in ((0, 0), (-1, 0), (2, 2), (2, -1), (10**9, 1), ("a", 0), (2, "b")):
        with subtests.test(total=total, at=at), pytest.raises(FrameError):
            FragmentJoiner().join(_build_part("m", total, at))


async def test_the_address_with_its_ticket_is_never_logged(
    server: FrameServer, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with connect(server, Desk()):
        await eventually(lambda: len(server.sockets) == 1)
        server.handshake = {"handshake-status": "1"}
        await server.sockets[0].close()
        await eventually(lambda: server.addresses >= 3)
    text = caplog.text + capsys.readouterr().out
    assert "feishu_not_connected" in text
    assert not any(secret in text for secret in ("t1i2c3k4e5t6s7", "a1c2c3e5s6k7e8y9z0", APP_SECRET))
