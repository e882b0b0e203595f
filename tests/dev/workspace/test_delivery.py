"""Socket Mode and signed HTTP as the platform does them: redelivery, waiting, round robin, disconnects, limits."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from slack_sdk.web.async_client import AsyncWebClient

from bot.core.errors import LocalStartError
from bot.dev.workspace.workspace import Workspace
from tests.dev.workspace.hands import (
    APP_TOKEN,
    DM_ZHANG,
    HASTY,
    ZHANG,
    bolt,
    online,
    setup,
    sinks,
    web_client,
)
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


async def test_hello_and_single_use_ticket(workspace: Workspace, client: AsyncWebClient) -> None:
    url = (await client.apps_connections_open(app_token=APP_TOKEN))["url"]
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(url) as ws:
            hello = await ws.receive_json(timeout=2)
            assert hello["type"] == "hello" and hello["num_connections"] == 1
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


async def test_a_lost_acknowledgement_means_redelivery(hasty: Workspace) -> None:
    driver = Hands(hasty)
    seen: Counter[str] = Counter()
    app = bolt(hasty)

    @app.middleware
    async def count(body: dict[str, Any], next: Any) -> None:
        seen[body["event_id"]] += 1
        await next()

    sinks(app)
    async with online(driver, app):
        driver.hold_next_acks()
        await driver.send_message(ZHANG, DM_ZHANG, "once")
        await driver.wait_until(lambda: not hasty.state.waiting)
        assert not driver.watched.holds
        (event_id, came), *others = seen.items()
        assert came >= 2 and not others
        driver.redeliver_event(event_id)
        await driver.wait_until(lambda: seen[event_id] > came)


async def test_events_wait_for_a_socket_and_presses_do_not(workspace: Workspace, driver: Hands) -> None:
    texts = ["one", "two", "three"]
    for text in texts:
        await driver.send_message(ZHANG, DM_ZHANG, text)
    done = await driver.run_slash_command(ZHANG, DM_ZHANG, "/countersign", "tasks")
    assert done.error == "no_app"
    async with socket(workspace) as ws:
        came = [(await ws.receive_json(timeout=2))["payload"]["event"]["text"] for _ in texts]
    assert came == texts


async def test_each_envelope_goes_to_one_socket(workspace: Workspace, driver: Hands) -> None:
    async with socket(workspace) as first, socket(workspace) as second:
        for number in range(6):
            await driver.send_message(ZHANG, DM_ZHANG, str(number))
        came = []
        for ws in (first, second):
            for _ in range(3):
                came.append((await ws.receive_json(timeout=2))["payload"]["event"]["text"])
    assert sorted(came) == [str(number) for number in range(6)]


async def test_the_eleventh_socket_is_sent_away(workspace: Workspace, client: AsyncWebClient) -> None:
    async with aiohttp.ClientSession() as session:
        ten = []
        for _ in range(10):
            url = (await client.apps_connections_open(app_token=APP_TOKEN))["url"]
            ten.append(await session.ws_connect(url))
            assert (await ten[-1].receive_json(timeout=2))["type"] == "hello"
        url = (await client.apps_connections_open(app_token=APP_TOKEN))["url"]
        eleventh = await session.ws_connect(url)
        frame = await eleventh.receive_json(timeout=2)
        assert (frame["type"], frame["reason"]) == ("disconnect", "too_many_websockets")
        assert (await eleventh.receive(timeout=2)).type == aiohttp.WSMsgType.CLOSE
        assert len(workspace.sockets.list_live_links()) == 10


class Listener:
    """An app behind HTTP that answers as told and keeps what it got."""

    def __init__(self, *answers: web.Response | float) -> None:
        self.answers, self.got = list(answers), []  # type: ignore[var-annotated]

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.text()
        if "url_verification" in body:
            return web.Response(text=str(json.loads(body)["challenge"]))
        self.got.append((dict(request.headers), body))
        answer = self.answers.pop(0) if self.answers else web.Response()
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            return web.Response()
        return answer


@asynccontextmanager
async def by_http(workspace: Workspace, listener: Listener) -> AsyncIterator[None]:
    app = web.Application()
    app.router.add_post("/slack/events", listener.handle)
    async with serve_app(app) as address:
        await use_http_delivery(workspace, f"{address}/slack/events")
        try:
            yield
        finally:
            await workspace.delivery.carrier.close()


async def test_http_redelivery_says_why_and_no_retry_is_honoured(hasty: Workspace) -> None:
    driver = Hands(hasty)
    never_again = web.Response(status=500, headers={"X-Slack-No-Retry": "1"})
    listener = Listener(web.Response(status=500), HASTY.ack + 0.2, web.Response(), never_again)
    async with by_http(hasty, listener):
        await driver.send_message(ZHANG, DM_ZHANG, "hello")
        await driver.wait_until(lambda: len(listener.got) == 3)
        await driver.wait_until(lambda: not hasty.state.waiting)
        assert not hasty.delivery.abandoned_events
        await driver.send_message(ZHANG, DM_ZHANG, "hello")
        await driver.wait_until(lambda: hasty.delivery.abandoned_events)
        await asyncio.sleep(0.1)
    retries = [(h.get("X-Slack-Retry-Num"), h.get("X-Slack-Retry-Reason")) for h, _ in listener.got]
    assert retries == [(None, None), ("1", "http_error"), ("2", "http_timeout"), (None, None)]


async def test_undelivered_events_survive_a_restart(tmp_path: Any) -> None:
    first = Workspace(setup(), folder=tmp_path)
    async with serve_workspace(first):
        await Hands(first).send_message(ZHANG, DM_ZHANG, "are you there?")
    second = Workspace(setup(), folder=tmp_path)
    async with serve_workspace(second), socket(second) as ws:
        frame = await ws.receive_json(timeout=2)
    assert frame["payload"]["event"]["text"] == "are you there?"
    assert frame["payload"]["event_id"] == Hands(first).events[0]["event_id"]


async def test_a_url_that_does_not_echo_the_challenge_is_not_used(workspace: Workspace) -> None:
    wrong = Workspace(setup(signing_secret="another"))
    async with serve_app(bolt(workspace).web_app("/slack/events")) as address:
        with pytest.raises(LocalStartError, match="challenge"):
            await use_http_delivery(wrong, f"{address}/slack/events")
    await wrong.close()
