"""The app on its socket, and at its start. Over HTTP: `test_http.py`."""

import asyncio
import json
import os

import pytest

from bot.chat.platform import IngressGate
from bot.core.errors import ChatUnavailableError, SettingsError
from bot.platforms.slack import app
from bot.platforms.slack.app import build_bolt_app, open_socket_mode
from bot.platforms.slack.listeners import SlackListeners
from bot.platforms.slack.web_client import identify_bot, is_loopback_url, open_web_client
from tests.platforms.slack.conftest import Desk
from tests.platforms.slack.doubles import APP_TOKEN, ME, TOKEN, event, eventually, written


async def test_an_event_is_acknowledged_when_durable_and_redelivered_until_then(desk: Desk) -> None:
    async with open_socket_mode(desk.app, APP_TOKEN, IngressGate()):
        desk.inbox.down = True
        await desk.slack.deliver("E1", event(written("hello")))
        assert not await desk.slack.acknowledged("E1", 0.15)
        desk.inbox.down = False
        await desk.slack.deliver("E2", event(written("hello")), attempt=1)
        assert await desk.slack.acknowledged("E2", 3)
    assert desk.inbox.texts == ["hello"]


async def test_the_end_of_the_socket_waits_until_what_was_received_is_durable_and_acknowledged(desk: Desk) -> None:
    desk.inbox.moving.clear()
    async with open_socket_mode(desk.app, APP_TOKEN, IngressGate()):
        await desk.slack.deliver("E1", event(written("hello")))
        await eventually(lambda: desk.inbox.coming)
        asyncio.get_running_loop().call_later(0.1, desk.inbox.moving.set)
    assert desk.inbox.texts == ["hello"] and "E1" in desk.slack.acks


async def test_an_intake_that_hangs_does_not_hold_the_end_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "DRAIN_S", 0.1)
    desk.inbox.moving.clear()
    async with asyncio.timeout(5):
        async with open_socket_mode(desk.app, APP_TOKEN, IngressGate()):
            await desk.slack.deliver("E1", event(written("hello")))
            await eventually(lambda: desk.inbox.coming)
    assert desk.slack.acks == {}, "Slack brings it to somebody else"
    desk.inbox.moving.set()


async def test_a_refused_token_is_said_at_once(desk: Desk) -> None:
    assert await identify_bot(desk.client) == ME
    desk.slack.faults |= {"apps.connections.open": ["invalid_auth"], "auth.test": ["invalid_auth"]}
    with pytest.raises(SettingsError, match=r"SLACK_APP_TOKEN.*invalid_auth"):
        async with open_socket_mode(desk.app, APP_TOKEN, IngressGate()):
            pass
    with pytest.raises(SettingsError, match=r"SLACK_BOT_TOKEN \(invalid_auth\)"):
        await identify_bot(desk.client)


async def test_how_many_connections_the_app_has_is_noted_at_the_first_one(desk: Desk) -> None:
    """Later ones count the connection that they replace."""
    gate = IngressGate()
    async with open_socket_mode(desk.app, APP_TOKEN, gate) as handler:
        async with asyncio.timeout(5):
            while not gate.connections:
                await asyncio.sleep(0.01)
        assert gate.connections == 1
        for count in (2, "many"):
            await handler.client.enqueue_message(json.dumps({"type": "hello", "num_connections": count}))
        async with asyncio.timeout(5):
            await handler.client.wait_until_acknowledged()
        assert gate.connections == 1


@pytest.mark.parametrize("fault", ["drop", "500", "internal_error", "fatal_error", "service_unavailable", 0.01])
async def test_slack_away_at_the_start_is_another_matter(desk: Desk, fault: str | float) -> None:
    """Nobody is told to make a token because of a mishap of Slack's own."""
    desk.slack.faults["auth.test"] = [fault] * 3
    with pytest.raises(ChatUnavailableError):
        await identify_bot(desk.client)
    desk.slack.faults["apps.connections.open"] = [fault] * 3
    with pytest.raises(ChatUnavailableError):
        async with open_socket_mode(desk.app, APP_TOKEN, IngressGate()):
            pass


async def test_what_the_environment_holds_changes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"SLACK_CLIENT_ID": "1", "SLACK_CLIENT_SECRET": "s", "SLACK_BOT_TOKEN": "xoxb-other"}
    for name, value in kept.items():
        monkeypatch.setenv(name, value)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with open_web_client(TOKEN, desk.slack.url) as client:
        listeners = SlackListeners(client, ME, desk.inbox, desk.channel, desk.directory)
        app = build_bolt_app(client, ME, desk.inbox, desk.channel, desk.directory, listeners)
        assert app.oauth_flow is None
        assert await identify_bot(client) == ME
        assert desk.slack.authorization == [f"Bearer {TOKEN}"]
        async with open_socket_mode(app, APP_TOKEN, IngressGate()) as handler:
            assert handler.client.proxy is None
    assert (app.client.proxy, app.client.token) == (None, None)
    assert {name: os.environ[name] for name in kept} == kept


def test_loopback() -> None:
    here = ("http://127.0.0.1:8484/api/", "http://localhost/api/", "http://[::1]:1/")
    elsewhere = ("https://slack.com/api/", "https://127.example.com/", "https://localhost.evil/")
    assert all(map(is_loopback_url, here)) and not any(map(is_loopback_url, elsewhere))
