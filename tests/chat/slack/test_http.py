"""HTTP mode against those who are not Slack: nothing they send counts, is parsed, or stays."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from urllib.parse import urlencode

import pytest
from aiohttp import ClientSession, web

from bot.chat.ingress_gate import IngressGate
from bot.chat.slack import app, request_verifier
from tests.chat.slack.conftest import Desk
from tests.chat.slack.doubles import event, written

SECRET, PATH = "secret", "/slack/events"
JSON = "application/json"


class Counting(IngressGate):
    """A door that remembers how many have come in."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = 0

    def begin_event(self) -> None:
        self.entered += 1
        super().begin_event()


@asynccontextmanager
async def serve(desk: Desk, door: IngressGate) -> AsyncIterator[tuple[str, int]]:
    runner = app.build_http_runner(desk.app, SECRET, door)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][:2]
    finally:
        await runner.cleanup()


@pytest.fixture
def door() -> Counting:
    return Counting()


@pytest.fixture
async def address(desk: Desk, door: Counting) -> AsyncIterator[tuple[str, int]]:
    async with serve(desk, door) as found:
        yield found


def sign(body: bytes, stamp: str, secret: str = SECRET) -> str:
    return "v0=" + hmac.new(secret.encode(), b"v0:" + stamp.encode() + b":" + body, hashlib.sha256).hexdigest()


def now() -> str:
    return str(int(time.time()))


async def post(address: tuple[str, int], body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """Over a plain socket, since no client library would send all of this."""
    lines = [f"POST {PATH} HTTP/1.1", "Host: bot", f"Content-Length: {len(body)}"]
    head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""])
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(head.encode("utf-8", "surrogateescape") + body)
        status = await asyncio.wait_for(reader.readline(), 10)
        return int(status.split()[1]), status
    finally:
        writer.close()


DEEP = b'{"a":' * 200_000
EVENT = json.dumps(event(written("hello"))).encode()
UNSIGNED = {
    "nothing": {},
    "no signature": {"X-Slack-Request-Timestamp": "now"},
    "no timestamp": {"X-Slack-Signature": "v0=" + "0" * 64},
    "a wrong signature": {"X-Slack-Request-Timestamp": "now", "X-Slack-Signature": "v0=" + "0" * 64},
    "a short signature": {"X-Slack-Request-Timestamp": "now", "X-Slack-Signature": "v0=00"},
    "a signature of another version": {"X-Slack-Request-Timestamp": "now", "X-Slack-Signature": "v1=" + "0" * 64},
    "a signature that is not ASCII": {"X-Slack-Request-Timestamp": "now", "X-Slack-Signature": "v0=é" + "0" * 63},
    "a timestamp in words": {"X-Slack-Request-Timestamp": "noon", "X-Slack-Signature": "v0=" + "0" * 64},
    "a timestamp in other digits": {
        "X-Slack-Request-Timestamp": "１７００００００００",
        "X-Slack-Signature": "v0=" + "0" * 64,
    },
    "a timestamp in a power": {"X-Slack-Request-Timestamp": "²", "X-Slack-Signature": "v0=" + "0" * 64},
    "a timestamp below zero": {"X-Slack-Request-Timestamp": "-5", "X-Slack-Signature": "v0=" + "0" * 64},
    "a broken timestamp": {"X-Slack-Request-Timestamp": "1e9", "X-Slack-Signature": "v0=" + "0" * 64},
    "a timestamp without end": {"X-Slack-Request-Timestamp": "9" * 5_000, "X-Slack-Signature": "v0=" + "0" * 64},
    "an old timestamp": {"X-Slack-Request-Timestamp": "1", "X-Slack-Signature": "v0=" + "0" * 64},
}


KINDS = (JSON, "application/x-www-form-urlencoded", "text/plain", "a/b; charset=utf-7", "/")
BODIES = (EVENT, DEEP, b"payload=" + DEEP, b"\xff\xfe", b"[]", b"")


@pytest.mark.parametrize("headers", UNSIGNED.values(), ids=list(UNSIGNED))
async def test_what_is_not_signed_gets_401_and_counts_for_nothing(
    desk: Desk, door: Counting, address: tuple[str, int], headers: dict[str, str]
) -> None:
    told = {name: now() if value == "now" else value for name, value in headers.items()}
    for kind, body in product(KINDS, BODIES):
        status, _ = await post(address, body, {**told, "Content-Type": kind})
        assert status == 401, (kind, body[:20])
    assert door.entered == 0 and desk.inbox.log == []


async def test_what_is_signed_counts(desk: Desk, door: Counting, address: tuple[str, int]) -> None:
    """The control of the test above."""
    stamp = now()
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": sign(EVENT, stamp), "Content-Type": JSON}
    assert (await post(address, EVENT, headers))[0] == 200
    assert door.entered == 1 and desk.inbox.texts == ["hello"]


@pytest.mark.parametrize("kind", ["application/json; charset=utf-16", "application/json; charset=nonsense"])
async def test_a_header_that_slack_did_not_write_is_refused(desk: Desk, address: tuple[str, int], kind: str) -> None:
    """Headers are not signed: whoever has a signed body cannot have it read in another way."""
    stamp = now()
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": sign(EVENT, stamp), "Content-Type": kind}
    assert (await post(address, EVENT, headers))[0] == 401
    packed = gzip.compress(EVENT)
    headers |= {"X-Slack-Signature": sign(packed, stamp), "Content-Type": JSON, "Content-Encoding": "gzip"}
    assert (await post(address, packed, headers))[0] == 401
    assert desk.inbox.texts == []


@pytest.mark.parametrize(
    "body", [DEEP, b"[" * 100_000, b"[]", b'"text"', b"{", b"\xff", urlencode({"payload": "[]"}).encode()], ids=str
)
async def test_what_is_signed_and_no_payload_is_acknowledged_and_dropped(
    desk: Desk, address: tuple[str, int], body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    stamp = now()
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": sign(body, stamp), "Content-Type": JSON}
    if body.startswith(b"payload"):
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    assert (await post(address, body, headers))[0] == 200
    assert desk.inbox.log == [] and "cannot be read" in caplog.text


async def test_a_body_that_is_too_large_is_not_read(address: tuple[str, int]) -> None:
    stamp = now()
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": "v0=" + "0" * 64, "Content-Type": JSON}
    assert (await post(address, b"x" * (request_verifier.BODY_MAX + 1), headers))[0] == 413


async def half_sent(stack: AsyncExitStack, address: tuple[str, int], *, headers_too: bool) -> asyncio.StreamReader:
    """A request that stops in the middle of its body, or of its headers."""
    reader, writer = await asyncio.open_connection(*address)
    stack.callback(writer.close)
    signed = f"X-Slack-Request-Timestamp: {now()}\r\nX-Slack-Signature: v0={'0' * 64}\r\n"
    head = f"POST {PATH} HTTP/1.1\r\nHost: bot\r\nContent-Length: 1000\r\nContent-Type: {JSON}\r\n{signed}"
    writer.write(head.encode() + (b'\r\n{"a":' if headers_too else b"X-Rest"))
    await writer.drain()
    return reader


async def work(door: IngressGate, pieces: int) -> float:
    """Seconds that so many turns take to pass the door, all at once."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(door.wait_until_quiet() for _ in range(pieces)))
    return loop.time() - began


async def test_three_hundred_half_sent_bodies_hold_nobody_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured before this was so: 0.13 s → 5.2 s for 50 pieces of work."""
    monkeypatch.setattr(request_verifier, "BODY_S", 2.0)
    door = Counting()
    async with serve(desk, door) as address, AsyncExitStack() as stack:
        alone = await work(door, 50)
        readers = [await half_sent(stack, address, headers_too=True) for _ in range(300)]
        beside = await work(door, 50)
        assert beside < max(3 * alone, 0.5), f"{alone:.3f} s → {beside:.3f} s"
        stamp = now()
        headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": sign(EVENT, stamp), "Content-Type": JSON}
        assert (await post(address, EVENT, headers))[0] == 200, "Slack is served meanwhile"
        async with asyncio.timeout(10):
            answers = [await reader.readline() for reader in readers]
        assert {answer.split()[1] for answer in answers} == {b"408"}, "and they all end by the time-out"
    assert door.entered == 1


async def test_who_counts_before_being_verified_holds_everybody_up() -> None:
    """The negative control: what the door costs when it is entered too early."""
    door = IngressGate()
    for _ in range(300):
        door.begin_event()
    assert await work(door, 5) > 0.4


async def test_headers_that_never_end_are_not_waited_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "HEADERS_S", 0.3)
    async with serve(desk, IngressGate()) as address, AsyncExitStack() as stack:
        readers = [await half_sent(stack, address, headers_too=False) for _ in range(20)]
        async with asyncio.timeout(10):
            assert [await reader.read() for reader in readers] == [b""] * 20


async def test_large_bodies_have_few_places_and_small_ones_pass_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_verifier, "LARGE_AT_ONCE", 1)
    async with serve(desk, IngressGate()) as address, AsyncExitStack() as stack:
        _, writer = await asyncio.open_connection(*address)
        stack.callback(writer.close)
        stamp = now()
        headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": sign(EVENT, stamp), "Content-Type": JSON}
        told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"POST {PATH} HTTP/1.1\r\nHost: bot\r\nContent-Length: 900000\r\n{told}\r\n{{".encode())
        await writer.drain()
        large = b" " * (request_verifier.SMALL_MAX + 1)
        async with asyncio.timeout(10):
            while (await post(address, large, headers))[0] != 503:
                await asyncio.sleep(0.01)
        assert (await post(address, EVENT, headers))[0] == 200


async def test_an_ordinary_client_is_served(desk: Desk, address: tuple[str, int]) -> None:
    stamp = now()
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": sign(EVENT, stamp), "Content-Type": JSON}
    url = "http://{}:{}{}".format(*address, PATH)
    async with ClientSession() as session, session.post(url, data=EVENT, headers=headers) as response:
        assert response.status == 200
