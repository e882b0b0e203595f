"""Socket Mode and signed HTTP as the platform does them: redelivery, waiting, round robin, limits."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from slack_sdk.web.async_client import AsyncWebClient

from bot.core.errors import LocalStartError
from bot.dev.workspace.workspace import Workspace
from tests.dev.workspace.hands import APP_TOKEN, DM_ZHANG, HASTY, ZHANG, setup, web_client
from tests.harness.hands import Hands
from tests.harness.http_delivery import use_http_delivery
from tests.harness.serving import serve_app
from tests.harness.workspace_server import serve_workspace


@pytest.fixture
async def hasty() -> AsyncIterator[Workspace]:
    """A workspace that does not wait long for acknowledgements."""
    ws = Workspace(setup(timing=HASTY))
    async with serve_workspace(ws):
        yield ws


@asynccontextmanager
async def socket(workspace: Workspace) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A bare socket that was said hello to."""
    answer = await web_client(workspace).apps_connections_open(app_token=APP_TOKEN)
    async with aiohttp.ClientSession() as session, session.ws_connect(answer["url"]) as ws:
        assert (await ws.receive_json(timeout=2))["type"] in ("hello", "disconnect")
        yield ws


async def test_a_ticket_is_good_for_one_socket_and_the_eleventh_is_sent_away(
    workspace: Workspace, client: AsyncWebClient
) -> None:
    async with aiohttp.ClientSession() as session, AsyncExitStack() as opened:
        for number in range(1, 12):
            url = (await client.apps_connections_open(app_token=APP_TOKEN))["url"]
            ws = await opened.enter_async_context(session.ws_connect(url))
            frame = await ws.receive_json(timeout=2)
            if number <= 10:
                assert (frame["type"], frame["num_connections"]) == ("hello", number)
        assert (frame["type"], frame["reason"]) == ("disconnect", "too_many_websockets")
        assert (await ws.receive(timeout=2)).type == aiohttp.WSMsgType.CLOSE
        assert len(workspace.sockets.list_live_links()) == 10
        for used in (url, url.replace("ticket=", "ticket=x")):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(used)
            assert refused.value.status == 401


async def test_unacknowledged_events_come_again_in_new_envelopes(hasty: Workspace) -> None:
    driver = Hands(hasty)
    async with socket(hasty) as ws:
        await driver.send_message(ZHANG, DM_ZHANG, "hello")
        frames = [await ws.receive_json(timeout=3) for _ in range(4)]
        await driver.wait_until(lambda: hasty.delivery.abandoned_events)
        with pytest.raises(TimeoutError):
            await ws.receive_json(timeout=0.2)
    assert [frame["retry_attempt"] for frame in frames] == [0, 1, 2, 3]
    assert [frame["retry_reason"] for frame in frames] == ["", "timeout", "timeout", "timeout"]
    assert len({frame["envelope_id"] for frame in frames}) == 4
    assert len({frame["payload"]["event_id"] for frame in frames}) == 1


async def test_an_acknowledged_event_comes_once_and_a_press_is_not_brought_again(hasty: Workspace) -> None:
    driver = Hands(hasty)
    async with socket(hasty) as ws:
        await driver.send_message(ZHANG, DM_ZHANG, "hello")
        frame = await ws.receive_json(timeout=2)
        await ws.send_json({"envelope_id": frame["envelope_id"]})
        await driver.wait_until(lambda: not hasty.state.waiting)
        with pytest.raises(TimeoutError):
            await ws.receive_json(timeout=HASTY.ack + 0.2)
    async with socket(hasty) as ws:
        done = await driver.run_slash_command(ZHANG, DM_ZHANG, "/countersign", "tasks")
        frame = await ws.receive_json(timeout=2)
        assert done.error == "no_answer"
        assert frame["type"] == "slash_commands" and "retry_attempt" not in frame
        assert frame["accepts_response_payload"] is True
        with pytest.raises(TimeoutError):
            await ws.receive_json(timeout=0.3)
    assert not hasty.delivery.abandoned_events


async def test_events_wait_for_a_socket_and_presses_do_not_and_each_goes_to_one(
    workspace: Workspace, driver: Hands
) -> None:
    async def receive_texts(ws: aiohttp.ClientWebSocketResponse) -> list[str]:
        return [(await ws.receive_json(timeout=2))["payload"]["event"]["text"] for _ in range(3)]

    texts = [str(number) for number in range(9)]
    for text in texts[:3]:
        await driver.send_message(ZHANG, DM_ZHANG, text)
    assert (await driver.run_slash_command(ZHANG, DM_ZHANG, "/countersign", "tasks")).error == "no_app"
    async with socket(workspace) as first:
        assert await receive_texts(first) == texts[:3]
        async with socket(workspace) as second:
            for text in texts[3:]:
                await driver.send_message(ZHANG, DM_ZHANG, text)
            assert sorted(await receive_texts(first) + await receive_texts(second)) == texts[3:]


async def test_undelivered_events_survive_a_restart(tmp_path: Any) -> None:
    first = Workspace(setup(), folder=tmp_path)
    async with serve_workspace(first):
        await Hands(first).send_message(ZHANG, DM_ZHANG, "are you there?")
    second = Workspace(setup(), folder=tmp_path)
    async with serve_workspace(second), socket(second) as ws:
        frame = await ws.receive_json(timeout=2)
    assert frame["payload"]["event"]["text"] == "are you there?"
    assert frame["payload"]["event_id"] == Hands(first).events[0]["event_id"]


async def test_http_redelivery_says_why_no_retry_is_honoured_and_the_challenge_must_come_back(hasty: Workspace) -> None:
    driver, got, late = Hands(hasty), list[tuple[str | None, str | None]](), asyncio.Event()
    answers: list[tuple[int, dict[str, str]] | None] = [(500, {}), None, (200, {}), (500, {"X-Slack-No-Retry": "1"})]

    async def handle(request: web.Request) -> web.Response:
        if "url_verification" in (body := await request.text()):
            return web.Response(text=str(json.loads(body)["challenge"]))
        got.append((request.headers.get("X-Slack-Retry-Num"), request.headers.get("X-Slack-Retry-Reason")))
        if (answer := answers.pop(0)) is None:
            await late.wait()
            return web.Response()
        return web.Response(status=answer[0], headers=answer[1])

    app = web.Application()
    app.router.add_post("/slack/events", handle)
    async with serve_app(app) as address:
        with pytest.raises(LocalStartError, match="challenge"):
            await use_http_delivery(hasty, f"{address}/elsewhere")
        await hasty.delivery.carrier.close()
        await use_http_delivery(hasty, f"{address}/slack/events")
        try:
            await driver.send_message(ZHANG, DM_ZHANG, "hello")
            await driver.wait_until(lambda: len(got) == 3 and not hasty.state.waiting)
            assert not hasty.delivery.abandoned_events
            await driver.send_message(ZHANG, DM_ZHANG, "hello")
            await driver.wait_until(lambda: hasty.delivery.abandoned_events)
        finally:
            late.set()
            await hasty.delivery.carrier.close()
    assert got == [(None, None), ("1", "http_error"), ("2", "http_timeout"), (None, None)]
