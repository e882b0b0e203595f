"""The app on its two transports, and at its start."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import time
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import pytest
from aiohttp import ClientSession, web

from bot.chat.ingress_gate import IngressGate
from bot.chat.messages import Message
from bot.chat.slack import app
from bot.chat.slack.app import (
    build_bolt_app,
    build_web_app,
    open_socket_mode,
)
from bot.chat.slack.web_client import identify_bot, is_loopback_url, open_web_client
from bot.core.errors import ChatError, SettingsError
from tests.chat.slack.conftest import Desk
from tests.chat.slack.doubles import APP_TOKEN, ME, TOKEN, event, pressed, slash, written


async def test_an_event_is_acknowledged_when_durable_and_redelivered_until_then(desk: Desk) -> None:
    async with open_socket_mode(desk.app, APP_TOKEN, IngressGate()):
        desk.inbox.down = True
        await desk.slack.deliver("E1", event(written("hello")))
        assert not await desk.slack.acknowledged("E1", 0.15)
        desk.inbox.down = False
        await desk.slack.deliver("E2", event(written("hello")), attempt=1)
        assert await desk.slack.acknowledged("E2", 3)
    assert desk.inbox.texts == ["hello"]


class Slow:
    """The app's intake of messages, which lasts until somebody lets it go on."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go_on, self._take = asyncio.Event(), asyncio.Event(), desk.inbox.accept_message
        monkeypatch.setattr(desk.inbox, "accept_message", self.accept_message)

    async def accept_message(self, message: Message, *, aliases: tuple[str, ...] = ()) -> None:
        self.began.set()
        await self.go_on.wait()
        await self._take(message, aliases=aliases)


async def test_what_was_received_is_durable_and_acknowledged_before_the_socket_ends(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(desk, monkeypatch)
    async with open_socket_mode(desk.app, APP_TOKEN, IngressGate()):
        await desk.slack.deliver("E1", event(written("hello")))
        await slow.began.wait()
        asyncio.get_running_loop().call_later(0.1, slow.go_on.set)
    assert desk.inbox.texts == ["hello"] and "E1" in desk.slack.acks


async def test_an_intake_that_hangs_does_not_hold_the_end_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "DRAIN_S", 0.1)
    slow = Slow(desk, monkeypatch)
    async with asyncio.timeout(5):
        async with open_socket_mode(desk.app, APP_TOKEN, IngressGate()):
            await desk.slack.deliver("E1", event(written("hello")))
            await slow.began.wait()
    assert desk.slack.acks == {}, "Slack brings it to somebody else"
    slow.go_on.set()


async def test_a_refused_app_token_is_said_at_once(desk: Desk) -> None:
    desk.slack.faults["apps.connections.open"] = ["invalid_auth"]
    with pytest.raises(SettingsError, match=r"SLACK_APP_TOKEN.*invalid_auth"):
        async with open_socket_mode(desk.app, APP_TOKEN, IngressGate()):
            pass


async def test_a_refused_bot_token_is_said_at_once(desk: Desk) -> None:
    assert await identify_bot(desk.client) == ME
    desk.slack.faults["auth.test"] = ["invalid_auth"]
    with pytest.raises(SettingsError, match=r"SLACK_BOT_TOKEN \(invalid_auth\)"):
        await identify_bot(desk.client)


async def test_slack_away_at_the_start_is_another_matter(desk: Desk) -> None:
    desk.slack.faults["auth.test"] = ["drop"] * 3
    with pytest.raises(ChatError, match="unreachable"):
        await identify_bot(desk.client)
    desk.slack.faults["apps.connections.open"] = ["drop"] * 3
    with pytest.raises(ChatError, match="unreachable"):
        async with open_socket_mode(desk.app, APP_TOKEN, IngressGate()):
            pass


async def test_what_the_environment_holds_changes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"SLACK_CLIENT_ID": "1", "SLACK_CLIENT_SECRET": "s", "SLACK_BOT_TOKEN": "xoxb-other"}
    for name, value in kept.items():
        monkeypatch.setenv(name, value)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with open_web_client(TOKEN, desk.slack.url) as client:
        app = build_bolt_app(client, ME, desk.inbox, desk.channel, desk.directory)
        assert app.oauth_flow is None
        assert await identify_bot(client) == ME
        assert desk.slack.authorization == [f"Bearer {TOKEN}"]
        async with open_socket_mode(app, APP_TOKEN, IngressGate()) as handler:
            assert handler.client.proxy is None
    assert (app.client.proxy, app.client.token) == (None, None)
    assert {name: os.environ[name] for name in kept} == kept


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:8484/api/", True), ("http://localhost/api/", True), ("http://[::1]:1/", True),
        ("https://slack.com/api/", False), ("https://127.example.com/", False), ("https://localhost.evil/", False),
    ],
)  # fmt: skip
def test_loopback(url: str, local: bool) -> None:
    assert is_loopback_url(url) is local


SECRET = "secret"


@pytest.fixture
async def served(desk: Desk) -> AsyncIterator[str]:
    runner = web.AppRunner(build_web_app(desk.app, SECRET, IngressGate()), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield "http://{}:{}/slack/events".format(*runner.addresses[0][:2])
    await runner.cleanup()


async def send(url: str, body: str, kind: str, secret: str = SECRET, at: int | None = None) -> tuple[int, str]:
    stamp = str(int(time.time()) if at is None else at)
    signed = hmac.new(secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
    headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={signed}", "Content-Type": kind}
    async with ClientSession() as session, session.post(url, data=body, headers=headers) as response:
        return response.status, await response.text()


JSON, FORM = "application/json", "application/x-www-form-urlencoded"


async def test_http_takes_events_presses_and_commands(desk: Desk, served: str) -> None:
    assert (await send(served, json.dumps(event(written("hello"))), JSON))[0] == 200
    assert (await send(served, urlencode({"payload": json.dumps(pressed())}), FORM))[0] == 200
    assert (await send(served, urlencode(slash("help")), FORM))[0] == 200
    assert desk.inbox.texts == ["hello", "help"]
    assert len(desk.inbox.clicks) == 1


async def test_http_answers_the_address_check(served: str) -> None:
    body = json.dumps({"type": "url_verification", "challenge": "c123"})
    status, text = await send(served, body, JSON)
    assert (status, "c123" in text) == (200, True)


@pytest.mark.parametrize(
    ("secret", "off_s"), [("other", 0), (None, -400), (None, 400), ("", 0)], ids=["forged", "old", "ahead", "bare"]
)
async def test_http_refuses_what_slack_did_not_sign(desk: Desk, served: str, secret: str | None, off_s: int) -> None:
    how = {"at": int(time.time()) + off_s} | ({} if secret is None else {"secret": secret})
    assert (await send(served, json.dumps(event(written("hello"))), JSON, **how))[0] == 401
    async with ClientSession() as session, session.post(served, json=event(written("hello"))) as response:
        assert response.status == 401
    assert desk.inbox.texts == []


async def test_http_without_a_store_is_not_acknowledged(desk: Desk, served: str) -> None:
    desk.inbox.down = True
    assert (await send(served, json.dumps(event(written("hello"))), JSON))[0] == 500


async def test_http_needs_a_secret(desk: Desk) -> None:
    with pytest.raises(SettingsError, match="SLACK_SIGNING_SECRET"):
        build_web_app(desk.app, "", IngressGate())
