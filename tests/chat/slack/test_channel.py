"""Posting: once, spaced, and honest about what Slack refuses."""

import asyncio
from contextlib import nullcontext

import pytest

from bot.chat.messages import Button, Card, MessageRef, Place, Post
from bot.chat.shared_parts import LocalRateLimiter
from bot.chat.slack.web_api import call_slack
from bot.core.errors import ChatBusyError, ChatError, ChatUnavailableError, LeaseLost
from bot.core.held_lease import bind_lease
from tests.chat.slack.conftest import Desk
from tests.chat.slack.doubles import Lane

PLACE = Place(team="T0", channel="C01GENERAL", thread="10.1")
DM = Place(team="T0", channel="D01ZHANG", direct=True)
CARD = Post(text="Please confirm", card=Card("Leave", buttons=(Button("Confirm", "confirm", "A03abc", 1),)))


async def test_a_post_says_where_what_and_which(desk: Desk) -> None:
    ref = await desk.channel.post_message(PLACE, CARD, key="R03x.1")
    [sent] = desk.slack.called("chat.postMessage")
    assert ref == MessageRef(channel="C01GENERAL", ts=desk.slack.messages["C01GENERAL"][0]["ts"])
    assert (sent["channel"], sent["thread_ts"], sent["text"]) == ("C01GENERAL", "10.1", "Please confirm")
    assert sent["metadata"] == {"event_type": "countersign_post", "event_payload": {"key": "R03x.1", "part": 1}}
    assert sent["unfurl_links"] is False
    assert desk.slots.reserved == [("slack:T0:C01GENERAL", 1050, 4)]


async def test_again_finds_what_is_already_there(desk: Desk) -> None:
    for place in (PLACE, DM):
        first = await desk.channel.post_message(place, CARD, key="R03x.1")
        assert await desk.channel.post_message(place, CARD, key="R03x.1", again=True) == first
        assert await desk.channel.post_message(place, CARD, key="R03x.2", again=True) != first
    metadata = {"event_type": "countersign_post", "event_payload": {"key": "R03x.3"}}
    desk.slack.messages["D01ZHANG"].append({"user": "U02LI", "ts": "1.1", "metadata": metadata})
    assert (await desk.channel.post_message(DM, CARD, key="R03x.3", again=True)).ts != "1.1", "somebody else's"


async def test_again_completes_a_post_of_several_messages(desk: Desk) -> None:
    long = Post(text="", card=Card("Mail", body="words and words\n" * 2000, buttons=CARD.card.buttons))  # type: ignore[union-attr]
    ref = await desk.channel.post_message(PLACE, long, key="k")
    count = len(desk.slack.messages["C01GENERAL"])
    lost = desk.slack.messages["C01GENERAL"].pop()
    assert (ref.ts, count > 1) == (lost["ts"], True)
    await desk.channel.post_message(PLACE, long, key="k", again=True)
    posted = [message["metadata"]["event_payload"]["part"] for message in desk.slack.messages["C01GENERAL"]]
    assert posted == list(range(1, count + 1))


async def test_a_dropped_connection_never_says_it_twice(desk: Desk, subtests: pytest.Subtests) -> None:
    for fault, calls in {"lose": 1, "drop": 2, "500": 2, "403": 2}.items():
        with subtests.test(fault):
            desk.slack.calls.clear()
            desk.slack.messages.clear()
            desk.slack.faults["chat.postMessage"] = [fault]
            ref = await desk.channel.post_message(PLACE, CARD, key=f"k {fault}")
            assert [message["ts"] for message in desk.slack.messages["C01GENERAL"]] == [ref.ts]
            assert len(desk.slack.called("chat.postMessage")) == calls


async def test_retrying_blindly_would_say_it_twice(desk: Desk) -> None:
    """The negative control: what the look before the second try prevents."""
    desk.slack.faults["chat.postMessage"] = ["lose"]
    said = {"channel": "C01GENERAL", "text": "hi"}
    await call_slack(desk.client.chat_postMessage, said, repeatable=True, retry_delay_s=0)
    assert len(desk.slack.messages["C01GENERAL"]) == 2


async def test_rate_limits_are_waited_out_and_told_to_the_others(desk: Desk) -> None:
    desk.slack.faults["chat.postMessage"] = [0.05]
    await desk.channel.post_message(PLACE, CARD, key="k")
    assert desk.slots.penalties == [("slack:T0:C01GENERAL", 50)]
    assert len(desk.slack.messages["C01GENERAL"]) == 1


@pytest.mark.parametrize("place", [PLACE, DM])
async def test_whether_a_card_shows_the_buttons_of_today_is_read_from_slack(desk: Desk, place: Place) -> None:
    later = Post(text="", card=Card("Leave", buttons=(Button("Confirm", "confirm", "A03abc", 2),)))
    over = Post(text="Approved", card=Card("Approved"))
    for number, shown in enumerate((CARD, later, over)):
        ref = await desk.channel.post_message(place, shown, key=f"k{number}")
        for one in (CARD, later, over):
            assert await desk.channel.has_buttons_of(ref, one) is (one is shown)
    assert await desk.channel.has_buttons_of(ref.model_copy(update={"ts": "1.1"}), CARD), "it is gone"
    desk.slack.faults["conversations.replies"] = ["500"] * 9
    with pytest.raises(ChatUnavailableError):
        await desk.channel.has_buttons_of(ref, CARD)


async def test_an_update_waits_for_nothing_and_says_when_to_ask_again(desk: Desk) -> None:
    ref = await desk.channel.post_message(PLACE, CARD, key="k")
    desk.slack.faults["chat.update"] = [0.3]
    for _ in range(2):  # the second one does not even ask
        with pytest.raises(ChatBusyError) as busy:
            await desk.channel.update_message(ref, CARD)
        assert 0 < busy.value.wait_ms <= 300
    await asyncio.sleep(busy.value.wait_ms / 1000 + 0.001)  # as its lane does
    await desk.channel.update_message(ref, CARD)


async def test_a_post_waits_for_its_slot_and_reserves_none_when_it_has_one(desk: Desk) -> None:
    loop, desk.slots.wait_ms = asyncio.get_running_loop(), 40
    for wait_ms, reserved in ((None, 1), (40, 1)):
        began = loop.time()
        await desk.channel.post_message(PLACE, CARD, key="k", wait_ms=wait_ms)
        assert loop.time() - began >= 0.039 and len(desk.slots.reserved) == reserved


async def test_edits_keep_a_pace_of_their_own_and_a_refusal_for_speed_holds_the_next_one_up() -> None:
    now = 0.0
    pace = LocalRateLimiter(1_000, 2, lambda: now)
    await asyncio.wait_for(asyncio.gather(pace.wait_for_slot(), pace.wait_for_slot()), 0.5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pace.wait_for_slot(), 0.05)
    now = 10.0
    await pace.apply_penalty(5_000)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pace.wait_for_slot(), 0.05)
    now = 16.0
    await asyncio.wait_for(pace.wait_for_slot(), 0.5)


async def test_a_post_that_fails_says_why(desk: Desk) -> None:
    for faults, code in ((["is_archived"], "is_archived"), (["drop"] * 3, "unreachable")):
        desk.slack.faults["chat.postMessage"] = [*faults]
        with pytest.raises(ChatError) as failed:
            await desk.channel.post_message(PLACE, CARD, key="k")
        assert (failed.value.code, failed.value.method) == (code, "chat.postMessage")


NOT_THERE = (
    "not_in_channel", "user_not_in_channel", "channel_not_found", "is_archived", "thread_not_found",
    "message_not_found", "cannot_reply_to_message", "restricted_action", "a_code_of_next_year",
)  # fmt: skip


async def test_what_only_one_person_may_see_goes_to_the_dm_where_slack_does_not_show_it(desk: Desk) -> None:
    desk.slack.faults["chat.postEphemeral"] = [*NOT_THERE]
    for code in NOT_THERE:
        await desk.channel.post_ephemeral(PLACE, "U01ZHANG", f"Only Li Si: {code}")
        assert desk.slack.messages["D01ZHANG"][-1]["text"] == f"Only Li Si: {code}"
    assert desk.slack.messages["C01GENERAL"] == []
    desk.slack.faults["chat.postEphemeral"] = ["thread_not_found"]
    desk.slack.faults["chat.postMessage"] = ["account_inactive"]
    with pytest.raises(ChatError, match="account_inactive"):
        await desk.channel.post_ephemeral(PLACE, "U01ZHANG", "nobody can take it")


async def test_somebody_whom_slack_does_not_reach_is_asked_for_once(desk: Desk) -> None:
    """Measured before this was so: six tries, and the next press on the card waited 46 s."""
    desk.slack.faults["chat.postEphemeral"] = desk.slack.faults["conversations.open"] = ["user_not_found"] * 9
    await desk.channel.post_ephemeral(PLACE, "U01ZHANG", "Only Li Si can approve this.")
    assert [name for name, _ in desk.slack.calls] == ["chat.postEphemeral", "conversations.open"]


async def test_dms_are_opened_once(desk: Desk) -> None:
    assert await desk.channel.open_dm("U01ZHANG") == DM
    assert await desk.channel.open_dm("U01ZHANG") == DM
    assert len(desk.slack.called("conversations.open")) == 1


SHARED = {"name": "process.png", "title": "请假 QJ-1", "alt": "审批 <李四> & 王五"}


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


async def test_a_picture_that_is_there_is_not_shown_again(desk: Desk) -> None:
    for key, shown in (("k", 1), ("k", 1), ("another", 2)):
        await desk.channel.upload_picture(PLACE, b"png", **SHARED, key=key, again=True)
        assert len(desk.slack.messages["C01GENERAL"]) == shown


MISHAPS: tuple[tuple[str, list[str | float]], ...] = (
    ("files.getUploadURLExternal", ["drop"]),
    ("files.getUploadURLExternal", [0.01]),
    ("upload", ["drop"]),
    ("upload", ["500", "500"]),
    ("files.completeUploadExternal", [0.01]),
    ("files.completeUploadExternal", ["lose"]),
)
FAILURES = (
    ("files.getUploadURLExternal", "missing_scope", "missing_scope"),
    ("upload", "403", "upload_refused"),
    ("upload", "drop", "unreachable"),
    ("files.completeUploadExternal", "drop", "unreachable"),
    ("files.completeUploadExternal", "channel_not_found", "channel_not_found"),
)


async def test_a_mishap_on_the_way_shows_the_picture_once_all_the_same(desk: Desk, subtests: pytest.Subtests) -> None:
    for number, (step, faults) in enumerate(MISHAPS):
        with subtests.test(step, faults=faults):
            desk.slack.messages.clear()
            desk.slack.faults[step] = [*faults]
            await desk.channel.upload_picture(PLACE, b"png", **SHARED, key=f"k{number}")
            assert len(desk.slack.messages["C01GENERAL"]) == 1


async def test_a_picture_that_cannot_be_shown_says_why(desk: Desk, subtests: pytest.Subtests) -> None:
    for step, fault, code in FAILURES:
        with subtests.test(step, fault=fault):
            desk.slack.faults[step] = [fault] * 3
            with pytest.raises(ChatError) as failed:
                await desk.channel.upload_picture(PLACE, b"png", **SHARED, key=code)
            assert failed.value.code == code and not desk.slack.messages["C01GENERAL"]
            desk.slack.faults.clear()


async def test_whoever_has_lost_the_lane_says_and_changes_nothing(desk: Desk) -> None:
    bind_lease(Lane(0))
    with pytest.raises(LeaseLost):
        await desk.channel.post_message(PLACE, CARD, key="k")
    with pytest.raises(LeaseLost):
        await desk.channel.update_message(MessageRef(channel="C01GENERAL", ts="20.1"), CARD)
    with pytest.raises(LeaseLost):
        await desk.channel.post_ephemeral(PLACE, "U01ZHANG", "Only Li Si can approve this.")
    with pytest.raises(LeaseLost):
        await desk.channel.upload_picture(PLACE, b"png", **SHARED, key="k")
    assert desk.slack.calls == []


async def test_it_looks_again_before_each_try(desk: Desk) -> None:
    """Slack may say for how long to wait; in that time much can happen."""
    for looks, posted in ((1, 0), (2, 1)):
        bind_lease(Lane(looks))
        desk.slack.calls.clear()
        desk.slack.faults["chat.postMessage"] = [0.01]
        with nullcontext() if posted else pytest.raises(LeaseLost):
            await desk.channel.post_message(PLACE, CARD, key="k")
        assert len(desk.slack.called("chat.postMessage")) == 1 + posted
        assert len(desk.slack.messages["C01GENERAL"]) == posted, "who holds the lane is not hindered"
