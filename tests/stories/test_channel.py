"""The bot in a shared channel, in English, and Slack over signed HTTP."""

import socket
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from tests.harness.office import CHAT, LI, SECRET, ZHANG, Office
from tests.stories.script import requests_of


@pytest.fixture
async def by_http(empty: Office) -> AsyncIterator[tuple[Office, str]]:
    """The bot in HTTP mode, and the address on which it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    keys = {"feishu_encrypt_key": SECRET, "feishu_verification_token": SECRET}
    async with empty.opened(slack_mode="http", feishu_mode="http", http_port=port, **keys):
        yield empty, f"http://127.0.0.1:{port}/{CHAT}/events"


async def test_http_mode_from_a_message_to_a_started_request(by_http: tuple[Office, str], redis: Redis) -> None:
    http, _ = by_http
    here = http.dm(ZHANG)
    assert not http.driver.ws.sockets.list_live_links(), "no socket: everything comes signed"
    await http.says(ZHANG, "报销差旅费 500 元，审批人李四")
    await http.press(ZHANG, await http.card(here, "500"), "confirm")
    await http.until(lambda: "E-0001" in http.said(here))
    task = await http.card(http.dm(LI), "E-0001")
    assert (await http.press(LI, task, "reject")).ok
    assert (await http.fill(LI, opinion="请附发票")).ok, "a dialog, opened and submitted over HTTP"
    await http.until(lambda: "请附发票" in http.said(here))
    assert await requests_of(redis, ZHANG) == ["E-0001"]
    if CHAT == "slack":  # Feishu has no commands
        assert (await http.driver.run_slash_command(ZHANG, here, "/countersign", "help")).ok
        await http.until(lambda: "Countersign" in http.said(here))
