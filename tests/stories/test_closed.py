"""Slack refuses: the token is no longer valid, or a channel is closed to apps. Nothing is lost, and it says why."""

from __future__ import annotations

import asyncio

import pytest

from bot.chat.slack import app as slack_app
from tests.harness.office import GENERAL, ZHANG, Office

ASKED = "明天起请2天年假，去看父母，审批人李四"


@pytest.mark.parametrize("code", ["token_revoked", "account_inactive", "invalid_auth"])
async def test_a_token_that_is_no_longer_valid_is_an_outage_that_says_its_cause(desk: Office, code: str) -> None:
    desk.driver.fail_next_call("chat.postMessage", code, 100)
    await desk.says(ZHANG, "帮助")
    while "chat.refused" not in await desk.kinds():
        await asyncio.sleep(0.02)
    [noted] = [one for one in await desk.journal() if one.kind == "chat.refused"]
    assert code in noted.text and "Install the app again" in noted.text
    assert not await desk.dead() and not desk.said(desk.dm(ZHANG))


async def test_what_waited_for_a_new_token_is_then_said(empty: Office) -> None:
    """The process is restarted with the new token, as the journal says; the message is answered once."""
    empty.driver.fail_next_call("chat.postMessage", "token_revoked", 100)
    async with empty.opened():
        await empty.says(ZHANG, "帮助")
        while "chat.refused" not in await empty.kinds():
            await asyncio.sleep(0.02)
    empty.driver.ws.faults.calls.clear()
    async with empty.opened():
        await empty.until(lambda: "我是 Countersign" in empty.said(empty.dm(ZHANG)), 40)


@pytest.mark.parametrize("code", ["restricted_action", "is_archived", "not_in_channel"])
async def test_in_a_channel_that_is_closed_to_apps_the_answer_comes_in_the_dm_and_says_why(
    desk: Office, code: str
) -> None:
    refused = desk.driver.ws.faults.calls["chat.postMessage"]
    refused.extend([code])
    await desk.driver.mention_bot(ZHANG, GENERAL, "帮助")
    said = await desk.until(lambda: desk.said(desk.dm(ZHANG)))
    assert said.startswith("那个频道不允许我发言") and "您可以直接这样说" in said
    await desk.quiet()
    assert not await desk.dead()


async def test_socket_mode_that_was_switched_off_is_named_and_works_again_once_it_is_on(
    empty: Office, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_app, "PING_S", 0.2)
    async with empty.opened():
        empty.driver.fail_next_call("apps.connections.open", "not_allowed", 3)
        await empty.driver.disconnect_sockets("link_disabled")
        await empty.until(lambda: "switched Socket Mode off" in caplog.text)
        await empty.driver.wait_for_sockets()
        assert len([one for one in empty.driver.calls if one.error == "not_allowed"]) == 3
        await empty.says(ZHANG, "帮助")
        await empty.until(lambda: "我是 Countersign" in empty.said(empty.dm(ZHANG)))


async def test_the_control_a_connection_that_is_only_renewed_alarms_nobody(
    desk: Office, caplog: pytest.LogCaptureFixture
) -> None:
    await desk.driver.disconnect_sockets("refresh_requested")
    await desk.driver.wait_for_sockets()
    assert "switched Socket Mode off" not in caplog.text


async def test_the_control_in_an_open_channel_nothing_goes_to_the_dm(desk: Office) -> None:
    await desk.driver.mention_bot(ZHANG, GENERAL, "帮助")
    await desk.until(lambda: desk.said(GENERAL))
    await desk.quiet()
    assert not desk.said(desk.dm(ZHANG))
