"""Slack refuses: the token is no longer valid, or a channel is closed to apps. Nothing is lost, and the bot says
why."""

import pytest

from bot.platforms.slack import app as slack_app
from tests.harness.hands import CODES
from tests.harness.office import CHAT, GENERAL, ZHANG, Office


async def test_a_token_that_is_no_longer_valid_is_an_outage_that_says_its_cause_and_loses_nothing(
    empty: Office,
) -> None:
    """The process is restarted with the new token, as the journal advises; the message is answered once."""
    empty.driver.fail_next_call("chat.postMessage", "token_revoked", 100)
    async with empty.opened():
        await empty.says(ZHANG, "帮助")
        [noted] = await empty.noted("chat.refused")
        code = CODES["token_revoked"] if CHAT == "feishu" else "token_revoked"
        assert code in noted.text and "Install the app again" in noted.text
        assert not await empty.dead() and not empty.said(empty.dm(ZHANG))
    empty.driver.app.planned.clear()
    async with empty.opened():
        await empty.until(lambda: "我是 Countersign" in empty.said(empty.dm(ZHANG)), 40)


async def test_in_a_channel_that_is_closed_to_apps_the_answer_comes_in_the_dm_and_says_why(desk: Office) -> None:
    await desk.driver.mention_bot(ZHANG, GENERAL, "帮助")
    await desk.until(lambda: desk.said(GENERAL))
    await desk.quiet()
    assert not desk.said(desk.dm(ZHANG)), "the control: in an open channel nothing goes to the DM"
    desk.driver.fail_next_call("chat.postMessage", "restricted_action")
    await desk.driver.mention_bot(ZHANG, GENERAL, "帮助")
    said = await desk.until(lambda: desk.said(desk.dm(ZHANG)))
    assert said.startswith("那个频道不允许我发言") and "可以直接说" in said
    await desk.quiet()
    assert not await desk.dead()


async def test_socket_mode_that_was_switched_off_is_named_and_works_again_once_it_is_on(
    empty: Office, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_app, "PING_S", 0.2)
    async with empty.opened():
        await empty.driver.disconnect_sockets("refresh_requested")
        await empty.driver.wait_for_sockets()
        assert "switched Socket Mode off" not in caplog.text, "the control: one that is only renewed alarms nobody"
        empty.driver.fail_next_call("apps.connections.open", "not_allowed", 3)
        await empty.driver.disconnect_sockets("link_disabled")
        await empty.until(lambda: "switched Socket Mode off" in caplog.text)
        await empty.driver.wait_for_sockets()
        assert len([one for one in empty.driver.calls if one.error == "not_allowed"]) == 3
        await empty.says(ZHANG, "帮助")
        await empty.until(lambda: "我是 Countersign" in empty.said(empty.dm(ZHANG)))
