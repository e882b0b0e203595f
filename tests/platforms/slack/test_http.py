"""HTTP mode against those who are not Slack: nothing they send counts, is parsed, or stays."""

import asyncio
import gzip
import hashlib
import hmac
import json
import resource
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp import ClientSession

from bot.chat import platform
from bot.chat.platform import IngressGate
from bot.core.errors import SettingsError
from bot.platforms import http_mode
from bot.platforms.slack import app
from tests.harness.serving import HOST, serve_app
from tests.platforms.slack.conftest import Desk
from tests.platforms.slack.doubles import event, pressed, slash, written

SECRET, PATH = "secret", "/slack/events"
JSON, FORM = "application/json", "application/x-www-form-urlencoded"


class Counting(IngressGate):
    """A door that remembers how many have come in."""

    entered = 0

    def begin_event(self) -> None:
        self.entered += 1
        super().begin_event()


@asynccontextmanager
async def serve(desk: Desk, door: IngressGate) -> AsyncIterator[tuple[str, int]]:
    async with serve_app(http_mode.build_http_runner(app.build_web_app(desk.app, SECRET, door))) as url:
        yield HOST, int(url.rpartition(":")[2])


@pytest.fixture
def door() -> Counting:
    return Counting()


@pytest.fixture
async def address(desk: Desk, door: Counting) -> AsyncIterator[tuple[str, int]]:
    async with serve(desk, door) as found:
        yield found


def sign(
    body: bytes, kind: str = JSON, *, secret: str = SECRET, off_s: int = 0, sent: bytes | None = None
) -> dict[str, str]:
    """The headers of a body that Slack has signed. `sent`: the body that is signed, if it is another one."""
    stamp = str(int(time.time()) + off_s)
    signed = hmac.new(secret.encode(), b"v0:" + stamp.encode() + b":" + (sent or body), hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={signed}", "Content-Type": kind}


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
NOW = "now"
NONE = "v0=" + "0" * 64
SIGNED_BY_NOBODY = {"X-Slack-Signature": NONE}
UNSIGNED: dict[str, tuple[str | None, str | None]] = {
    "nothing": (None, None),
    "no signature": (NOW, None),
    "no timestamp": (None, NONE),
    "a wrong signature": (NOW, NONE),
    "a short signature": (NOW, "v0=00"),
    "a signature of another version": (NOW, "v1=" + "0" * 64),
    "a signature that is not ASCII": (NOW, "v0=é" + "0" * 63),
    "a timestamp in words": ("noon", NONE),
    "a timestamp in other digits": ("１７００００００００", NONE),
    "a timestamp in a power": ("²", NONE),
    "a timestamp below zero": ("-5", NONE),
    "a broken timestamp": ("1e9", NONE),
    "a timestamp without end": ("9" * 5_000, NONE),
    "an old timestamp": ("1", NONE),
}
"""What is wrong → the timestamp and the signature."""
FORGED: dict[str, dict[str, Any]] = {
    "with another secret": {"secret": "other"},
    "without one": {"secret": ""},
    "long ago": {"off_s": -400},
    "ahead of time": {"off_s": 400},
    "for another body": {"sent": b"{}"},
}
KINDS = (JSON, FORM, "text/plain", "a/b; charset=utf-7", "/")
BODIES = (EVENT, DEEP, b"payload=" + DEEP, b"\xff\xfe", b"[]", b"")


async def test_what_slack_did_not_sign_gets_401_and_counts_for_nothing(
    desk: Desk, door: Counting, address: tuple[str, int], subtests: pytest.Subtests
) -> None:
    names = ("X-Slack-Request-Timestamp", "X-Slack-Signature")
    for why, values in UNSIGNED.items():
        with subtests.test(why):
            headers = {name: value for name, value in zip(names, values, strict=True) if value is not None}
            if values[0] == NOW:
                headers[names[0]] = str(int(time.time()))
            for kind, body in product(KINDS, BODIES):
                status, _ = await post(address, body, {**headers, "Content-Type": kind})
                assert status == 401, (kind, body[:20])
    for why, how in FORGED.items():
        with subtests.test(f"signed {why}"):
            assert (await post(address, EVENT, sign(EVENT, **how)))[0] == 401
    assert door.entered == 0 and desk.inbox.log == []


async def test_what_is_signed_counts_and_is_dropped_if_it_is_no_payload(
    desk: Desk, door: Counting, address: tuple[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    """The control of the test above: an event, a press, a command; and a store that is away is not acknowledged."""
    press = urlencode({"payload": json.dumps(pressed())}).encode()
    command = urlencode(slash("help")).encode()
    for body, kind in ((EVENT, JSON), (press, FORM), (command, FORM)):
        assert (await post(address, body, sign(body, kind)))[0] == 200
    assert door.entered == 3 and desk.inbox.texts == ["hello", "help"] and len(desk.inbox.clicks) == 1
    desk.inbox.down = True
    assert (await post(address, EVENT, sign(EVENT)))[0] == 500
    desk.inbox.log.clear()
    odd = (DEEP, b"[" * 100_000, b"[]", b'"text"', b"{", b"\xff", urlencode({"payload": "[]"}).encode())
    for body in odd:
        caplog.clear()
        assert (await post(address, body, sign(body, FORM if body.startswith(b"payload") else JSON)))[0] == 200
        assert desk.inbox.log == [] and "cannot be read" in caplog.text, body[:20]


async def test_it_needs_a_secret_and_answers_the_address_check(desk: Desk, address: tuple[str, int]) -> None:
    with pytest.raises(SettingsError, match="SLACK_SIGNING_SECRET"):
        app.build_web_app(desk.app, "", IngressGate())
    body = json.dumps({"type": "url_verification", "challenge": "c123"}).encode()
    url = "http://{}:{}{}".format(*address, PATH)
    async with ClientSession() as session, session.post(url, data=body, headers=sign(body)) as response:
        assert (response.status, "c123" in await response.text()) == (200, True)


async def test_odd_headers_and_large_bodies_are_refused(desk: Desk, address: tuple[str, int]) -> None:
    """Headers are not signed: whoever has a signed body cannot have it read in another way."""
    for kind in ("application/json; charset=utf-16", "application/json; charset=nonsense"):
        assert (await post(address, EVENT, sign(EVENT, kind)))[0] == 401
    packed = gzip.compress(EVENT)
    assert (await post(address, packed, sign(packed) | {"Content-Encoding": "gzip"}))[0] == 401
    assert (await post(address, b"x" * (http_mode.BODY_MAX + 1), sign(b"") | SIGNED_BY_NOBODY))[0] == 413
    assert desk.inbox.texts == []


async def begin_body(
    stack: AsyncExitStack,
    address: tuple[str, int],
    length: int = 1_000,
    *,
    sent: bytes = b'{"a":',
    headers: dict[str, str] | None = None,
    peer: str = HOST,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A request that has so far sent so much of its body. By default it only looks signed."""
    reader, writer = await asyncio.open_connection(*address, local_addr=(peer, 0))
    stack.callback(writer.close)
    told = "".join(f"{name}: {value}\r\n" for name, value in (headers or sign(b"") | SIGNED_BY_NOBODY).items())
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: bot\r\nContent-Length: {length}\r\n{told}\r\n".encode() + sent)
    await writer.drain()
    return reader, writer


async def test_three_hundred_half_sent_bodies_hold_nobody_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them passes the door, at which turns wait; the next test measures what each would cost."""
    monkeypatch.setattr(http_mode, "BODY_S", 2.0)
    door = Counting()
    async with serve(desk, door) as address, AsyncExitStack() as stack:
        readers = [(await begin_body(stack, address))[0] for _ in range(300)]
        assert (await post(address, EVENT, sign(EVENT)))[0] == 200, "Slack is served meanwhile"
        async with asyncio.timeout(10):
            answers = [await reader.readline() for reader in readers]
        assert {answer.split()[1] for answer in answers} == {b"408"}, "and they all end by the time-out"
    assert door.entered == 1


async def test_who_counts_before_being_verified_holds_everybody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control: what the door costs five turns at once when it is entered too early."""
    monkeypatch.setattr(platform, "CROWD_S", 60)  # the crowd is not over before the turns begin to wait
    door, loop = IngressGate(), asyncio.get_running_loop()
    for _ in range(300):
        door.begin_event()
    began = loop.time()
    await asyncio.gather(*(door.wait_until_quiet() for _ in range(5)))
    assert loop.time() - began > 0.4


async def test_headers_that_never_end_are_not_waited_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_mode, "HEADERS_S", 0.3)
    async with serve(desk, IngressGate()) as address, AsyncExitStack() as stack:
        connections = [await asyncio.open_connection(*address) for _ in range(20)]
        for _, writer in connections:
            stack.callback(writer.close)
            writer.write(f"POST {PATH} HTTP/1.1\r\nHost: bot\r\nX-Rest".encode())
        async with asyncio.timeout(10):
            assert [await reader.read() for reader, _ in connections] == [b""] * 20


async def test_small_bodies_need_no_place_however_many_are_half_sent(desk: Desk) -> None:
    """Measured before this was so: 1,000 of them kept every place for five seconds, and presses got 503."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    async with serve(desk, IngressGate()) as address, AsyncExitStack() as stack:
        for _ in range(1_000):
            await begin_body(stack, address)
        assert (await post(address, EVENT, sign(EVENT)))[0] == 200


async def test_a_body_has_to_begin_soon(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_mode, "BODY_S", 60.0)
    monkeypatch.setattr(http_mode, "FIRST_S", 0.2)
    async with serve(desk, IngressGate()) as address, AsyncExitStack() as stack:
        silent = await begin_body(stack, address, 1_000, sent=b"")
        begun, writer = await begin_body(stack, address, len(EVENT), sent=EVENT[:1], headers=sign(EVENT))
        async with asyncio.timeout(10):
            assert b"408" in await silent[0].readline()
        writer.write(EVENT[1:])
        async with asyncio.timeout(10):
            assert b"200" in await begun.readline(), "the control: this one has begun, and takes its time"


async def test_a_large_body_takes_the_place_of_an_older_one(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half-sent large bodies keep nobody out, and another peer loses nothing by them."""
    monkeypatch.setattr(http_mode, "LARGE_AT_ONCE", 3)
    monkeypatch.setattr(http_mode, "BODY_S", 60.0)
    large = EVENT + b" " * http_mode.SMALL_MAX
    async with serve(desk, IngressGate()) as address, AsyncExitStack() as stack:
        slack, writer = await begin_body(
            stack, address, len(large), sent=large[:1], headers=sign(large), peer="127.0.0.2"
        )
        hostile = [(await begin_body(stack, address, 900_000, sent=b"{"))[0] for _ in range(5)]
        async with asyncio.timeout(10):
            assert all([b"408" in await one.readline() for one in hostile[:3]]), "the oldest went first"
            assert (await post(address, large, sign(large)))[0] == 200
            writer.write(large[1:])
            assert b"200" in await slack.readline()
