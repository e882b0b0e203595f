"""The unmodified Bolt app, over Socket Mode and over signed HTTP: a whole conversation each."""

from __future__ import annotations

import time
from typing import Any

import aiohttp
import pytest
from slack_bolt.async_app import AsyncApp

from bot.core.errors import LocalStartError
from bot.dev.workspace.driver import WorkspaceDriver
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.signed import sign_request
from bot.dev.workspace.workspace import Workspace
from tests.dev.workspace.blocks import actions, button, field, modal, mrkdwn, section
from tests.dev.workspace.hands import (
    BOT,
    DM_LI,
    DM_ZHANG,
    GENERAL,
    LI,
    SECRET,
    ZHANG,
    bolt,
    listening,
    online,
    setup,
    sinks,
)

CARD = [
    section(block_id="s1", text=mrkdwn("*Leave request* L-0001")),
    actions(
        button("approve", "Approve", style="primary", value="L-0001"), button("reject", "Reject", value="L-0001"),
        block_id="a1",
    ),
]  # fmt: skip
WHY = field({"type": "plain_text_input", "action_id": "text", "multiline": True}, "why", "Reason")
DIALOG = modal(WHY, callback_id="reason", private_metadata="L-0001")


def approval_app(workspace: Workspace, seen: list[dict[str, Any]]) -> AsyncApp:
    """A little approval bot; `seen` gets every body."""
    app = bolt(workspace)

    @app.middleware
    async def remember(body: dict[str, Any], next: Any) -> None:
        seen.append(body)
        await next()

    @app.event("app_mention")
    async def mention(event: dict[str, Any], say: Any) -> None:
        await say(text="A card", blocks=CARD, thread_ts=event.get("thread_ts") or event["ts"])

    @app.message("card")
    async def card(event: dict[str, Any], client: Any) -> None:
        await client.chat_postMessage(channel=LI, text="A card", blocks=CARD)

    @app.action("approve")
    async def approve(ack: Any, body: dict[str, Any], client: Any) -> None:
        await ack()
        where = {"channel": body["channel"]["id"], "ts": body["message"]["ts"]}
        await client.chat_update(**where, text=f"approved by <@{body['user']['id']}>", blocks=[])
        await client.chat_postEphemeral(channel=where["channel"], user=body["user"]["id"], text="Thank you")

    @app.action("reject")
    async def reject(ack: Any, body: dict[str, Any], client: Any) -> None:
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=DIALOG)

    @app.view("reason")
    async def reason(ack: Any, view: dict[str, Any]) -> None:
        if view["state"]["values"]["why"]["text"]["value"] == "no":
            await ack(response_action="errors", errors={"why": "Say more, please"})
        else:
            await ack()

    @app.command("/countersign")
    async def command(ack: Any, command: dict[str, Any]) -> None:
        await ack(f"You said {command['text']}")

    @app.event("app_home_opened")
    async def home(event: dict[str, Any], client: Any) -> None:
        await client.views_publish(user_id=event["user"], view={"type": "home", "blocks": [section()]})

    sinks(app)
    return app


async def whole_conversation(driver: WorkspaceDriver) -> None:
    """Mention, card, press, dialog with a correction, slash command, Home tab."""
    ts = await driver.mention_bot(ZHANG, GENERAL, "ten days off")
    card = await driver.wait_until(lambda: driver.list_thread_messages(GENERAL, ts)[1:])
    assert card[0]["thread_ts"] == ts
    assert driver.list_thread_messages(GENERAL, ts)[0]["reply_count"] == 1
    in_thread = card[0]["ts"]

    await driver.send_message(ZHANG, DM_ZHANG, "bring Li Si a card")
    ts = (await driver.wait_until(lambda: driver.list_messages(DM_LI)))[0]["ts"]
    assert (await driver.click_button(LI, DM_LI, ts, "reject")).ok
    view = (await driver.wait_until(lambda: driver.list_open_views(LI)))[0]
    assert (await driver.submit_view(LI, view["id"], {})).errors == {"why": "required"}
    assert (await driver.submit_view(LI, view["id"], {"why": "no"})).errors == {"why": "Say more, please"}
    assert driver.list_open_views(LI)
    assert (await driver.submit_view(LI, view["id"], {"why": "too short notice"})).ok
    assert not driver.list_open_views(LI)

    assert (await driver.click_button(LI, DM_LI, ts, "approve")).ok
    await driver.wait_until(lambda: driver.list_messages(DM_LI)[0]["text"] == f"approved by <@{LI}>")
    assert "blocks" not in driver.list_messages(DM_LI)[0]
    await driver.wait_until(lambda: driver.list_ephemerals(LI))
    assert driver.list_ephemerals(LI)[0]["text"] == "Thank you"
    with pytest.raises(WorkspaceError, match="action_not_found"):
        await driver.click_button(LI, DM_LI, ts, "approve")
    assert (await driver.click_button(LI, DM_LI, ts, "approve", force=True)).ok

    assert (await driver.run_slash_command(ZHANG, DM_ZHANG, "/countersign", "tasks & more")).ok
    assert driver.list_ephemerals(ZHANG)[-1]["text"] == "You said tasks &amp; more"
    await driver.open_home(ZHANG)
    await driver.wait_until(lambda: ZHANG in driver.homes)

    assert (await driver.click_button(ZHANG, GENERAL, in_thread, "reject")).ok
    view = (await driver.wait_until(lambda: driver.list_open_views(ZHANG)))[0]
    assert (await driver.close_view(ZHANG, view["id"])).ok and not driver.list_open_views(ZHANG)


async def test_socket_mode(workspace: Workspace, driver: WorkspaceDriver) -> None:
    seen: list[dict[str, Any]] = []
    async with online(driver, approval_app(workspace, seen)):
        await whole_conversation(driver)
    shapes(seen)


async def test_signed_http(workspace: Workspace, driver: WorkspaceDriver) -> None:
    seen: list[dict[str, Any]] = []
    async with listening(approval_app(workspace, seen)) as url:
        await workspace.use_http_delivery(url)
        await whole_conversation(driver)
        await workspace.delivery.carrier.close()
    shapes(seen)


def shapes(seen: list[dict[str, Any]]) -> None:
    """The payloads are in the platform's full shape."""
    events = [body["event"] for body in seen if "event" in body]
    asked, mentioned = (next(e for e in events if e["type"] == kind) for kind in ("message", "app_mention"))
    assert asked["ts"] == mentioned["ts"] == asked["event_ts"]
    assert (asked["channel_type"], asked["team"]) == ("channel", "T0LOCAL")
    assert "channel_type" not in mentioned
    assert asked["text"] == f"<@{BOT}> ten days off"
    assert asked["blocks"][0]["elements"][0]["elements"][0] == {"type": "user", "user_id": BOT}
    assert asked["client_msg_id"]
    ids = [body["event_id"] for body in seen if "event" in body]
    assert len(set(ids)) == len(ids)

    press = next(body for body in seen if body["type"] == "block_actions")
    action = press["actions"][0]
    assert (action["action_id"], action["block_id"], action["value"], action["type"]) == (
        "reject",
        "a1",
        "L-0001",
        "button",
    )
    assert action["action_ts"] and press["trigger_id"] and press["response_url"]
    assert press["message"]["blocks"][1]["elements"][1]["action_id"] == "reject"
    assert press["container"]["message_ts"] == press["message"]["ts"]
    assert press["user"]["id"] == LI
    last = [body for body in seen if body.get("type") == "block_actions"][-1]
    assert last["container"]["thread_ts"] == asked["ts"]

    sent = next(body for body in seen if body["type"] == "view_submission")
    assert sent["view"]["private_metadata"] == "L-0001"
    assert sent["view"]["state"]["values"] == {"why": {"text": {"type": "plain_text_input", "value": "no"}}}


async def test_wrong_signature_is_refused_by_the_app(workspace: Workspace) -> None:
    """Negative control of the signed delivery: the same body signed with another secret is a 401."""
    async with listening(approval_app(workspace, [])) as url, aiohttp.ClientSession() as session:
        for secret, status in ((SECRET, 200), ("another", 401)):
            stamp, body = str(int(time.time())), '{"type":"url_verification","challenge":"c","token":"t"}'
            headers = {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": sign_request(secret, stamp, body)}
            headers["Content-Type"] = "application/json"
            async with session.post(url, data=body, headers=headers) as response:
                assert response.status == status


def test_signature_is_the_published_one() -> None:
    """The example of the platform's own documentation."""
    body = (
        "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        "&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    expected = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    assert sign_request("8f742231b10e8888abcd99yyyzzz85a5", "1531420618", body) == expected


async def test_a_url_that_does_not_echo_is_not_used(workspace: Workspace) -> None:
    wrong = Workspace(setup(signing_secret="another"))
    async with listening(approval_app(workspace, [])) as url:
        with pytest.raises(LocalStartError, match="challenge"):
            await wrong.use_http_delivery(url)
    await wrong.close()
