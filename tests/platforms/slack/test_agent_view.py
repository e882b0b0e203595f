"""Sessions and prompts of Slack's: in order, within Slack's rate, and given up where Slack has none."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import Place, Post, SessionStatus, SuggestedPrompt
from bot.dev.workspace.workspace import Workspace
from bot.platforms.shared import OptionalFeature
from bot.platforms.slack.agent_view import CALL_BURST, CALL_MS, AgentView
from bot.platforms.slack.channel import SlackChannel
from tests.dev.workspace.hands import BOT, BOT_TOKEN, DM_ZHANG, ZHANG, setup, web_client
from tests.harness.hands import Hands
from tests.harness.workspace_server import serve_workspace
from tests.platforms.slack.doubles import Slots

SESSIONS, STATUS = "agents.sessions.setStatus", "assistant.threads.setStatus"


@pytest.fixture
async def driver() -> AsyncIterator[Hands]:
    ws = Workspace(setup())
    async with serve_workspace(ws):
        yield Hands(ws)


async def write(driver: Hands) -> Place:
    ts = await driver.send_message(ZHANG, DM_ZHANG, "hello")
    return Place(team="T", channel=DM_ZHANG, thread=ts, direct=True)


async def test_none_overtakes_another_and_what_is_outdated_is_not_sent(driver: Hands) -> None:
    view, place = AgentView(web_client(driver.ws)), await write(driver)
    driver.delay_answers(0.1, SESSIONS)
    for status in (SessionStatus.PROCESSING, SessionStatus.SUSPENDED, SessionStatus.PROCESSING, SessionStatus.ACTIVE):
        view.set_session_status(place, status, person=ZHANG, title="hello " * 100)
        await asyncio.sleep(0)
    await view.wait_for_session(place)
    asked = driver.list_call_arguments(SESSIONS)
    assert [one["status"] for one in asked][-1] == "active" and len(asked) <= 2
    assert len(asked[0]["title"]) <= 200


class Prompt(AsyncWebClient):
    """Slack's client; each answer is followed at once by whatever is in `then`."""

    def __init__(self, driver: Hands) -> None:
        super().__init__(token=BOT_TOKEN, base_url=f"{driver.ws.address}/api/")
        self.then: list[Callable[[], None]] = []

    async def api_call(self, *given: Any, **more: Any) -> Any:
        answer = await super().api_call(*given, **more)
        for act in self.then:
            asyncio.get_running_loop().call_soon(act)
        self.then.clear()
        return answer


async def test_what_is_wanted_in_the_moment_in_which_the_last_one_was_sent_is_sent_too(driver: Hands) -> None:
    client, place = Prompt(driver), await write(driver)
    view, channel = AgentView(client), SlackChannel(client, Slots(), team="T", bot=BOT)
    client.then.append(lambda: view.set_session_status(place, SessionStatus.ACTIVE))
    view.set_session_status(place, SessionStatus.PROCESSING)
    await driver.wait_until(lambda: [one["status"] for one in driver.ws.state.sessions.values()] == ["active"])
    client.then.append(lambda: channel.show_status(place, "second"))
    channel.show_status(place, "first")
    await driver.wait_until(lambda: list(driver.ws.state.statuses.values()) == ["second"])


async def test_after_a_refusal_no_status_is_asked_for_that_was_wanted_meanwhile(driver: Hands) -> None:
    channel, place = SlackChannel(web_client(driver.ws), Slots(), team="T", bot=BOT), await write(driver)
    driver.fail_next_call(STATUS, "missing_scope", 9)
    driver.delay_answers(0.1, STATUS)
    channel.show_status(place, "first")
    await driver.wait_until(lambda: list(driver.calls))
    channel.show_status(place, "second")
    await channel.post_message(place, Post("done"), key="k")
    assert [one.method for one in driver.calls].count(STATUS) == 1


async def test_in_a_flood_nothing_is_left_at_work_and_slacks_rate_is_kept(driver: Hands) -> None:
    view, began = AgentView(web_client(driver.ws)), time.monotonic()
    places = [await write(driver) for _ in range(40)]
    for place in places:
        view.set_session_status(place, SessionStatus.PROCESSING, person=ZHANG)
        await asyncio.sleep(0.01)
    for place in places:
        view.set_session_status(place, SessionStatus.ACTIVE)
    await asyncio.gather(*(view.wait_for_session(place) for place in places))
    most = CALL_BURST + (time.monotonic() - began) * 1000 / CALL_MS
    assert 0 < len(driver.list_call_arguments(SESSIONS)) <= most
    assert {one["status"] for one in driver.ws.state.sessions.values()} == {"active"}


async def test_a_place_that_is_gone_switches_nothing_off_and_any_process_ends_a_session(driver: Hands) -> None:
    view, place = AgentView(web_client(driver.ws)), await write(driver)
    for one in (place.model_copy(update={"thread": "1.0"}), place):
        view.set_session_status(one, SessionStatus.ACTIVE)
        await view.wait_for_session(one)
    assert len(driver.ws.state.sessions) == 1
    await view.suggest_prompts(place, [SuggestedPrompt("x" * 200, "hello")] * 9)
    [asked] = driver.list_call_arguments("assistant.threads.setSuggestedPrompts")
    assert len(asked["prompts"]) == 4 and "thread_ts" not in asked
    place = await write(driver)
    AgentView(web_client(driver.ws)).set_session_status(place, SessionStatus.PROCESSING)
    await driver.wait_until(lambda: len(driver.ws.state.sessions) == 2)
    other = AgentView(web_client(driver.ws))
    other.set_session_status(place, SessionStatus.ACTIVE)
    await other.wait_for_session(place)
    assert driver.ws.state.sessions[place.channel, place.thread or ""]["status"] == "active"


def test_a_refused_feature_is_tried_again_later() -> None:
    now = 0.0
    feature = OptionalFeature("sessions", lambda: now)
    assert feature.is_available
    feature.record_refusal("missing_scope")
    assert not feature.is_available
    now = 601.0
    assert feature.is_available
