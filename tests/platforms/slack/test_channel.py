"""Posting on Slack, where it is not as on Feishu; what both have is in `tests/platforms/test_channels.py`."""

import asyncio

import pytest

from bot.chat.messages import MessageRef
from bot.core.errors import ChatBusyError, ChatError
from bot.platforms.shared import LocalRateLimiter
from bot.platforms.slack.channel import UPDATE_BURST, UPDATE_MS
from bot.platforms.slack.web_api import call_slack
from tests.platforms.slack.conftest import DM, PLACE, Desk
from tests.platforms.slack.doubles import CARD, SHARED


async def test_a_post_says_where_what_and_which_and_one_of_somebody_else_is_not_taken_for_it(desk: Desk) -> None:
    ref = await desk.channel.post_message(PLACE, CARD, key="R03x.1")
    [sent] = desk.slack.called("chat.postMessage")
    assert ref == MessageRef(channel="C01GENERAL", ts=desk.slack.messages["C01GENERAL"][0]["ts"])
    assert (sent["channel"], sent["thread_ts"], sent["text"]) == ("C01GENERAL", "10.1", "Please confirm")
    assert sent["metadata"] == {"event_type": "countersign_post", "event_payload": {"key": "R03x.1", "part": 1}}
    assert sent["unfurl_links"] is False
    assert desk.slots.reserved == [("slack:T0:C01GENERAL", 1050, 4)]
    metadata = {"event_type": "countersign_post", "event_payload": {"key": "R03x.3"}}
    desk.slack.messages["D01ZHANG"].append({"user": "U02LI", "ts": "1.1", "metadata": metadata, "text": ""})
    assert (await desk.channel.post_message(DM, CARD, key="R03x.3", again=True)).ts != "1.1"


async def test_retrying_blindly_would_say_it_twice(desk: Desk) -> None:
    """The negative control: what the look before the second try prevents."""
    desk.slack.faults["chat.postMessage"] = ["lose"]
    said = {"channel": "C01GENERAL", "text": "hi"}
    await call_slack(desk.client.chat_postMessage, said, repeatable=True, retry_delay_s=0)
    assert len(desk.slack.messages["C01GENERAL"]) == 2


async def test_limits_are_waited_out_and_told_to_the_others_but_an_update_says_when_to_ask_again(desk: Desk) -> None:
    ref = await desk.channel.post_message(PLACE, CARD, key="k")
    now = 0.0
    desk.channel._updates = LocalRateLimiter(UPDATE_MS, UPDATE_BURST, lambda: now)
    desk.slack.faults["chat.update"] = [0.3]
    for _ in range(2):  # the second one does not even ask
        with pytest.raises(ChatBusyError) as busy:
            await desk.channel.update_message(ref, CARD)
        assert 0 < busy.value.wait_ms <= 301  # rounded up
    now += busy.value.wait_ms / 1000 + 0.001  # its lane waits
    await desk.channel.update_message(ref, CARD)
    desk.slack.faults["chat.postMessage"] = [0.05]
    await desk.channel.post_message(PLACE, CARD, key="limited")
    assert desk.slots.penalties == [("slack:T0:C01GENERAL", 50)]
    assert len(desk.slack.messages["C01GENERAL"]) == 2


async def test_edits_keep_a_pace_of_their_own_and_a_refusal_for_speed_holds_the_next_one_up() -> None:
    now = 0.0
    pace = LocalRateLimiter(1_000, 2, lambda: now)
    for left in (1, 0):
        await asyncio.wait_for(pace.wait_for_slot(), 0.5)
        assert pace.count_free_slots() == left
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pace.wait_for_slot(), 0.05)
    now = 10.0
    assert pace.count_free_slots() == 2
    await pace.apply_penalty(5_000)
    assert pace.count_free_slots() == 0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pace.wait_for_slot(), 0.05)
    now = 16.0
    await asyncio.wait_for(pace.wait_for_slot(), 0.5)


async def test_somebody_whom_slack_does_not_reach_is_asked_for_once(desk: Desk) -> None:
    """Measured before this was so: six tries, and the next press on the card waited 46 s."""
    desk.slack.faults["chat.postEphemeral"] = desk.slack.faults["conversations.open"] = ["user_not_found"] * 9
    await desk.channel.post_ephemeral(PLACE, "U01ZHANG", "Only Li Si can approve this.")
    assert [name for name, _ in desk.slack.calls] == ["chat.postEphemeral", "conversations.open"]
    desk.slack.faults.clear()
    for _ in range(2):
        assert await desk.channel.open_dm("U01ZHANG") == DM
    assert len(desk.slack.called("conversations.open")) == 2, "the one above, and one that was answered"
    desk.slack.faults |= {"chat.postEphemeral": ["thread_not_found"], "chat.postMessage": ["account_inactive"]}
    with pytest.raises(ChatError, match="account_inactive"):
        await desk.channel.post_ephemeral(PLACE, "U01ZHANG", "nobody can take it")


async def test_a_picture_goes_up_in_three_steps_and_into_the_thread(desk: Desk) -> None:
    await desk.channel.upload_picture(PLACE, b"png", **SHARED, key="k")
    [file] = desk.slack.files.values()
    [message] = desk.slack.messages["C01GENERAL"]
    assert file["content"] == b"png" and file["name"].startswith("process-")
    assert (message["thread_ts"], message["files"][0]["title"]) == ("10.1", "请假 QJ-1")
    assert message["text"] == "审批 &lt;李四&gt; &amp; 王五"
    assert desk.slots.reserved == [("slack:T0:C01GENERAL", 1050, 4)]
    assert "alt_txt" not in desk.slack.called("files.getUploadURLExternal")[0]
    assert [bool(sent) for sent in desk.slack.authorization] == [True, False, True], "no token goes with the bytes"


@pytest.mark.parametrize(
    ("step", "fault", "code"),
    [
        ("files.getUploadURLExternal", "missing_scope", "missing_scope"),
        ("upload", "403", "upload_refused"),
        ("upload", "drop", "unreachable"),
        ("files.completeUploadExternal", "drop", "unreachable"),
        ("files.completeUploadExternal", "channel_not_found", "channel_not_found"),
    ],
)
async def test_a_picture_that_cannot_be_shown_says_why(desk: Desk, step: str, fault: str, code: str) -> None:
    desk.slack.faults[step] = [fault] * 3
    with pytest.raises(ChatError) as failed:
        await desk.channel.upload_picture(PLACE, b"png", **SHARED, key=code)
    assert failed.value.code == code and not desk.slack.messages["C01GENERAL"]
