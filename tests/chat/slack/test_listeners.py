"""Payloads in: every shape Slack sends, through the whole of Bolt."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from slack_bolt.response import BoltResponse

from bot.chat.messages import Acceptance, Card, Dialog, HomeEntry, HomeSection, HomeView, MessageRef, Place
from bot.chat.slack import listeners
from tests.chat.slack.conftest import Desk
from tests.chat.slack.doubles import dispatch, event, mention, pressed, slash, submission, written
from tools.spec import DialogField


async def eventually(check: Any) -> None:
    async with asyncio.timeout(3):
        while not check():
            await asyncio.sleep(0.01)


async def test_a_direct_message_is_taken_with_its_place(desk: Desk) -> None:
    assert (await dispatch(desk.app, event(written("I need 10 days off")))).status == 200
    [(message, aliases)] = desk.inbox.messages
    assert message.id == "Ev1"
    assert aliases == ("D01ZHANG:10.1",)
    assert message.place == Place(team="T0", channel="D01ZHANG", direct=True), "the answer stands beside the message"
    assert message.thread_place.thread == "10.1", "and the steps under it"
    assert (message.person, message.text, message.at) == ("U01ZHANG", "I need 10 days off", "10.1")


async def test_a_reply_in_a_dm_thread_keeps_its_thread(desk: Desk) -> None:
    await dispatch(desk.app, event(written("Li Si", ts="11.1", thread_ts="10.1")))
    assert desk.inbox.messages[0][0].place.thread == "10.1"


async def test_a_mention_arrives_once_though_slack_sends_two_events(desk: Desk) -> None:
    said = "<@U0BOT> I need a day off"
    await dispatch(desk.app, event(mention(said), "Ev1"))
    await dispatch(desk.app, event(written(said, "C01GENERAL"), "Ev2"))
    [(message, _)] = desk.inbox.messages
    assert message.text == "I need a day off"
    assert message.place == Place(team="T0", channel="C01GENERAL", thread="10.1", direct=False)


async def test_either_of_the_two_events_is_enough(desk: Desk) -> None:
    await dispatch(desk.app, event(written("hello <@U0BOT>", "C01GENERAL"), "Ev2"))
    assert desk.inbox.texts == ["hello"]


async def test_follow_ups_need_no_mention_where_the_bot_takes_part(desk: Desk) -> None:
    reply = written("<@U02LI>", "C01GENERAL", "11.1", thread_ts="10.1")
    await dispatch(desk.app, event(reply, "Ev1"))
    assert desk.inbox.messages == []
    desk.inbox.threads.add("10.1")
    await dispatch(desk.app, event(reply, "Ev2"))
    assert desk.inbox.texts == ["<@U02LI>"]


def follow_up(number: int) -> dict[str, Any]:
    return event(written(f"and {number}", "C01GENERAL", f"11.{number}", thread_ts="10.1"), f"Ev{number}")


async def overtaking(desk: Desk) -> None:
    """Two follow-ups, then the mention that they belong to, then a third one."""
    early = [asyncio.create_task(dispatch(desk.app, follow_up(number))) for number in (1, 2)]
    await asyncio.sleep(0.1)
    assert desk.inbox.messages == []
    await dispatch(desk.app, event(mention("<@U0BOT> hello"), "Ev0"))
    desk.inbox.threads.add("10.1")
    answers = await asyncio.gather(*early, dispatch(desk.app, follow_up(3)))
    assert [answer.status for answer in answers] == [200] * 3


async def test_follow_ups_that_overtake_their_mention_are_taken_in_order(desk: Desk) -> None:
    await overtaking(desk)
    assert desk.inbox.texts == ["hello", "and 1", "and 2", "and 3"]


async def test_looking_only_once_would_drop_them(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control."""
    monkeypatch.setattr(listeners, "RECHECK_S", -1)
    await overtaking(desk)
    assert desk.inbox.texts == ["hello", "and 3"]


async def test_chat_among_people_is_acknowledged_well_in_time(desk: Desk) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    answers = await asyncio.gather(*(dispatch(desk.app, follow_up(number)) for number in range(20)))
    assert [answer.status for answer in answers] == [200] * 20 and desk.inbox.messages == []
    assert loop.time() - began < 2 and desk.inbox.log.count("engaged") < 30, "who had to wait looks once"


RECORDED_BROADCAST = {
    "type": "message",
    "subtype": "thread_broadcast",
    "text": "and so say all of us",
    "user": "U01ZHANG",
    "ts": "10.1",
    "thread_ts": "9.1",
    "root": {"type": "message", "user": "U04ZHAO", "text": "shall we?", "ts": "9.1", "thread_ts": "9.1"},
    "channel": "D01ZHANG",
    "event_ts": "10.1",
    "channel_type": "im",
}
"""The shape that was recorded in SlackNet#69."""


@pytest.mark.parametrize(
    "said", [written("me", subtype="me_message"), RECORDED_BROADCAST], ids=lambda said: said["subtype"]
)
async def test_whatever_somebody_wrote_just_now_is_heard(desk: Desk, said: dict[str, Any]) -> None:
    await dispatch(desk.app, event(said))
    assert desk.inbox.texts == [said["text"]]


async def test_in_a_group_dm_the_bot_is_addressed_like_in_a_channel(desk: Desk) -> None:
    for text in ("between us", "<@U0BOT> hello"):
        said = written(text, "G01GROUP", channel_type="mpim", ts=f"1{len(text)}.1")
        await dispatch(desk.app, event(said, f"Ev{len(text)}"))
    assert desk.inbox.texts == ["hello"]
    [(message, _)] = desk.inbox.messages
    assert not message.place.direct and message.place.thread == message.at


@pytest.mark.parametrize(
    "said",
    [
        written("chat among people", "C01GENERAL"),
        written("<@U02LI> lunch?", "C01GENERAL"),
        written("from another bot", bot_id="B9"),
        written("from a bot user", bot_profile={"id": "B9"}),
        written("my own", user="U0BOT"),
        written("my own, as Slack sends it", user="U0BOT", bot_id="B0BOT"),
        written("reminder", user="USLACKBOT"),
        written("joined", subtype="channel_join"),
        written("by a bot", subtype="bot_message", bot_id="B9"),
        {"type": "message", "subtype": "message_changed", "channel": "D01ZHANG", "channel_type": "im", "ts": "10.2",
         "message": written("edited"), "previous_message": written("before")},
        {"type": "message", "subtype": "message_deleted", "channel": "D01ZHANG", "channel_type": "im", "ts": "10.2",
         "deleted_ts": "10.1", "previous_message": written("gone")},
        mention("<@U0BOT> hi", bot_id="B9"),
        {"type": "reaction_added", "user": "U01ZHANG", "item": {}},
        {"type": "an_event_of_next_year"},
    ],
)  # fmt: skip
async def test_everything_else_is_acknowledged_and_ignored(desk: Desk, said: dict[str, Any]) -> None:
    assert (await dispatch(desk.app, event(said))).status == 200
    assert desk.inbox.messages == []


async def test_of_a_shared_file_the_text_is_taken(desk: Desk) -> None:
    await dispatch(desk.app, event(written("see here", subtype="file_share", files=[{"id": "F1"}])))
    assert desk.inbox.texts == ["see here"]


async def test_an_empty_mention_is_handed_in_too(desk: Desk) -> None:
    await dispatch(desk.app, event(mention("<@U0BOT>")))
    assert desk.inbox.texts == [""]


async def test_no_store_no_acknowledgement(desk: Desk) -> None:
    desk.inbox.down = True
    assert (await dispatch(desk.app, event(written("hello")))).status == 500
    desk.inbox.down = False
    assert (await dispatch(desk.app, event(written("hello")))).status == 200
    assert desk.inbox.texts == ["hello"]


async def test_no_store_no_acknowledgement_while_asking_for_a_thread(desk: Desk) -> None:
    desk.inbox.down = True
    reply = written("yes", "C01GENERAL", "11.1", thread_ts="10.1")
    assert (await dispatch(desk.app, event(reply))).status == 500


async def test_stop_acts_before_the_queue_and_is_answered(desk: Desk) -> None:
    await dispatch(desk.app, event(mention("<@U0BOT> Stop", thread_ts="9.1")))
    assert desk.inbox.log == ["stop", "message"]
    assert desk.inbox.stops == [(Place(team="T0", channel="C01GENERAL", thread="9.1"), "U01ZHANG", "10.1")]


async def test_stop_of_strangers_to_the_thread_stops_nothing(desk: Desk) -> None:
    await dispatch(desk.app, event(written("stop", "C01GENERAL")))
    assert desk.inbox.stops == []


async def test_a_press_is_durable_before_it_is_acknowledged(desk: Desk) -> None:
    assert (await dispatch(desk.app, pressed())).status == 200
    [click] = desk.inbox.clicks
    assert (click.id, click.approval, click.version, click.choice) == ("1.2.x", "A03abc", 2, "confirm")
    assert click.person == "U01ZHANG"
    assert click.place == Place(team="T0", channel="D01ZHANG", thread="10.1", direct=True)
    assert click.form is None
    assert click.card == MessageRef(channel="D01ZHANG", ts="20.1")


@pytest.mark.parametrize("blocks", [[], [{"type": "rich_text", "elements": [{"type": "rich_text_section"}]}]])
async def test_a_message_without_the_button_is_not_the_card(desk: Desk, blocks: list[Any]) -> None:
    """Rewritten since it was pressed: nothing is known of it but where the press came from."""
    await dispatch(desk.app, pressed(message={"ts": "20.1", "blocks": blocks}))
    assert desk.inbox.clicks[0].card is None


async def test_two_presses_are_two_clicks(desk: Desk) -> None:
    for trigger in ("1.1.a", "1.1.b"):
        await dispatch(desk.app, pressed(trigger=trigger))
    assert len(desk.inbox.clicks) == 2


async def test_a_press_that_cannot_be_taken_is_not_acknowledged_and_said(desk: Desk) -> None:
    desk.inbox.down = True
    assert (await dispatch(desk.app, pressed())).status == 500
    [told] = desk.slack.called("chat.postEphemeral")
    assert (told["user"], told["channel"], told["thread_ts"]) == ("U01ZHANG", "D01ZHANG", "10.1")
    assert "什么都没有发生" in told["text"]


@pytest.mark.parametrize(
    ("withdrawn", "words"),
    [(Acceptance.TAKEN, "不过已经收下"), (Acceptance.UNKNOWN, "还不能确定"), (Acceptance.NOT_TAKEN, "什么都没有发生")],
)
async def test_what_is_said_of_a_press_is_what_became_of_it(desk: Desk, withdrawn: Acceptance, words: str) -> None:
    """Its acceptance failed, or only the answer was lost: the store is asked before anything is said."""
    desk.inbox.down, desk.inbox.withdrawn = True, withdrawn
    await dispatch(desk.app, pressed())
    [told] = desk.slack.called("chat.postEphemeral")
    assert words in told["text"]


async def test_a_press_on_the_home_tab_that_cannot_be_taken_is_said_in_the_dm(desk: Desk) -> None:
    desk.inbox.down = True
    await dispatch(desk.app, pressed(container={"type": "view", "view_id": "V1"}, channel=None, message=None))
    assert desk.slack.called("chat.postEphemeral")[0]["channel"] == "D01ZHANG"


async def test_a_press_on_the_home_tab_belongs_to_the_dm(desk: Desk) -> None:
    home = pressed(container={"type": "view", "view_id": "V1"}, channel=None, message=None)
    await dispatch(desk.app, home)
    assert desk.inbox.clicks[0].place == Place(team="T0", channel="D01ZHANG", direct=True)
    assert desk.inbox.clicks[0].card is None


async def test_a_card_that_starts_its_own_thread(desk: Desk) -> None:
    container = {"type": "message", "channel_id": "C01GENERAL", "message_ts": "20.1"}
    await dispatch(desk.app, pressed(container=container, message={"ts": "20.1"}))
    assert desk.inbox.clicks[0].place == Place(team="T0", channel="C01GENERAL", thread="20.1")


@pytest.mark.parametrize("value", ["", "nothing", "A1.x", ".", None])
async def test_a_misshapen_press_is_acknowledged_and_nothing_else(desk: Desk, value: Any) -> None:
    await dispatch(desk.app, pressed(value=value))
    assert desk.inbox.clicks == []


FIELDS = (
    DialogField(name="opinion", label="opinion", kind="long", value="because"),
    DialogField(name="day", label="day", kind="date", value="2026-12-01"),
    DialogField(name="type", label="type", kind="choice", value="sick", choices=()),
    DialogField(name="who", label="who", kind="person", required=False),
)
OPTIONS = ((), (), (("annual", "Annual leave"), ("sick", "Sick leave")), ())


def rejecting(**more: Any) -> Dialog:
    given: dict[str, Any] = {
        "title": "Reject the leave request of Zhang San", "submit": "Reject", "cancel": "Back",
        "approval": "A03abc", "version": 2, "choice": "reject", "fields": FIELDS, "options": OPTIONS,
        "place": Place(team="T0", channel="D01ZHANG", thread="10.1", direct=True),
        "labels": ("Opinion", "Day", "Type", "Who"),
    }  # fmt: skip
    return Dialog(**given | more)


async def opened(desk: Desk, dialog: Dialog) -> dict[str, Any]:
    desk.inbox.dialogs["reject"] = dialog
    assert (await dispatch(desk.app, pressed("reject", trigger="7.7.t"))).status == 200
    await eventually(lambda: desk.slack.called("views.open"))
    call = desk.slack.called("views.open")[0]
    assert call["trigger_id"] == "7.7.t"
    return dict(call["view"])


async def test_a_press_opens_its_dialog(desk: Desk) -> None:
    view = await opened(desk, rejecting())
    assert view["callback_id"] == "cs:dialog"
    assert len(view["title"]["text"]) == 24
    assert view["title"]["text"].endswith("…")
    elements = {block["block_id"]: block["element"] for block in view["blocks"]}
    assert elements["opinion"]["multiline"] is True
    assert elements["opinion"]["initial_value"] == "because"
    assert elements["day"]["initial_date"] == "2026-12-01"
    assert elements["type"]["initial_option"]["value"] == "sick"
    assert elements["who"]["type"] == "users_select"
    assert "initial_user" not in elements["who"]
    assert [block["optional"] for block in view["blocks"]] == [False, False, False, True]
    assert desk.inbox.clicks == []


async def test_a_submitted_dialog_is_a_click_of_who_submitted_it(desk: Desk) -> None:
    view = await opened(desk, rejecting())
    filled = {
        "opinion": {"value": "not <@U1> & so"}, "day": {"selected_date": "2026-12-02"},
        "type": {"selected_option": {"value": "annual"}}, "who": {"selected_user": "U02LI"},
    }  # fmt: skip
    response = await dispatch(desk.app, submission(view, filled, person="U04ZHAO"))
    assert (response.status, response.body) == (200, "")
    [click] = desk.inbox.clicks
    assert click.form == {"opinion": "not <@U1> & so", "day": "2026-12-02", "type": "annual", "who": "U02LI"}
    assert (click.approval, click.version, click.choice) == ("A03abc", 2, "reject")
    assert (click.id, click.person) == ("V1:h1", "U04ZHAO")
    assert click.place == rejecting().place
    assert click.card is None


async def test_a_submitted_dialog_knows_the_card_it_was_opened_from(desk: Desk) -> None:
    card = MessageRef(channel="D01ZHANG", ts="20.1")
    view = await opened(desk, rejecting(card=card))
    await dispatch(desk.app, submission(view, {}))
    assert desk.inbox.clicks[0].card == card


async def test_problems_stand_under_their_fields_and_nothing_is_taken(desk: Desk) -> None:
    view = await opened(desk, rejecting())
    desk.inbox.wrong = {"day": "That day is over.", "": "Too late.", "other": "Odd."}
    response = await dispatch(desk.app, submission(view, {}))
    assert json.loads(response.body) == {
        "response_action": "errors",
        "errors": {"day": "That day is over.", "opinion": "Too late. Odd."},
    }
    assert desk.inbox.clicks == []


async def test_a_dialog_that_cannot_be_taken_stays_open(desk: Desk) -> None:
    view = await opened(desk, rejecting())
    desk.inbox.down = True
    assert (await dispatch(desk.app, submission(view, {}))).status == 500


@pytest.mark.parametrize("fault", ["expired_trigger_id", "drop", 3.0])
async def test_a_dialog_that_comes_too_late_is_said(desk: Desk, fault: str | float) -> None:
    desk.inbox.dialogs["reject"] = rejecting()
    desk.slack.faults["views.open"] = [fault]
    assert (await dispatch(desk.app, pressed("reject"))).status == 200
    await eventually(lambda: desk.slack.called("chat.postEphemeral"))
    assert "再点一次" in desk.slack.called("chat.postEphemeral")[0]["text"]
    assert len(desk.slack.called("views.open")) == 1


async def test_a_long_mail_is_edited_without_losing_a_character(desk: Desk) -> None:
    body = "\n\n".join(f"第 {n} 段 " + "字😀 " * 40 for n in range(60))
    mail = rejecting(
        fields=(DialogField(name="body", label="body", kind="long", value=body),), labels=("Text",), options=()
    )
    view = await opened(desk, mail)
    assert len(view["blocks"]) > 1
    shown = {block["block_id"]: {"value": block["element"]["initial_value"]} for block in view["blocks"]}
    assert all(len(one["value"].encode("utf-16-le")) <= 6000 for one in shown.values())
    assert not any(one["value"] != one["value"].strip() for one in list(shown.values())[:-1])
    await dispatch(desk.app, submission(view, shown))
    assert desk.inbox.clicks[0].form == {"body": body}


@pytest.mark.parametrize("metadata", ["", "{}", "not json", '{"approval": 1}', "[]"])
async def test_a_dialog_that_is_not_ours_is_acknowledged(desk: Desk, metadata: str) -> None:
    view = await opened(desk, rejecting())
    await dispatch(desk.app, submission(view | {"private_metadata": metadata}, {}))
    assert desk.inbox.clicks == []


async def test_the_slash_command_is_answered_in_the_dm(desk: Desk) -> None:
    response = await dispatch(desk.app, slash("tasks for &lt;me&gt; <@U02LI|lisi>"))
    assert (response.status, response.body) == (200, "收到，我在私信里回复你。")
    [(message, _)] = desk.inbox.messages
    assert (message.command, message.text) == (True, "tasks for <me> <@U02LI>")
    assert message.place == Place(team="T0", channel="D01ZHANG", direct=True)
    assert float(message.at) > 0


async def test_the_slash_command_in_our_dm_needs_no_pointer(desk: Desk) -> None:
    response = await dispatch(desk.app, slash("help", channel="D01ZHANG"))
    assert (response.status, response.body) == (200, "")


async def test_the_slash_command_stops_too(desk: Desk) -> None:
    await dispatch(desk.app, slash("stop"))
    assert desk.inbox.log == ["stop", "message"]


async def test_a_slash_command_that_cannot_be_taken_says_so(desk: Desk) -> None:
    desk.inbox.down = True
    response = await dispatch(desk.app, slash("help", person="U04ZHAO"))
    assert response.status == 200
    assert "try again" in response.body


async def test_the_home_tab_is_published(desk: Desk) -> None:
    desk.inbox.homes["U01ZHANG"] = HomeView("Hello", (HomeSection("Waiting for you", (HomeEntry(Card("Leave")),)),))
    opening = {"type": "app_home_opened", "user": "U01ZHANG", "tab": "home", "channel": "D01ZHANG"}
    await dispatch(desk.app, event(opening | {"tab": "messages"}))
    await dispatch(desk.app, event(opening))
    await eventually(lambda: desk.slack.called("views.publish"))
    [call] = desk.slack.called("views.publish")
    assert call["user_id"] == "U01ZHANG"
    assert call["view"]["type"] == "home"


UNKNOWN: list[dict[str, Any]] = [
    pressed() | {"actions": [{"type": "button", "action_id": "other", "block_id": "b", "value": "x"}]},
    {
        "type": "view_submission",
        "view": {"type": "modal", "callback_id": "other", "id": "V", "state": {"values": {}}},
        "user": {"id": "U1"},
    },
    {"type": "view_closed", "view": {"type": "modal", "callback_id": "cs:dialog", "id": "V"}, "user": {"id": "U1"}},
    {"type": "shortcut", "callback_id": "x", "user": {"id": "U1"}},
    {
        "type": "message_action",
        "callback_id": "x",
        "user": {"id": "U1"},
        "channel": {"id": "C1"},
        "message": {"ts": "1"},
    },
    {"type": "block_suggestion", "action_id": "x", "block_id": "b", "value": "", "user": {"id": "U1"}},
    slash("x", command="/other"),
]


@pytest.mark.parametrize("payload", UNKNOWN, ids=lambda p: p.get("type", "slash"))
async def test_unknown_interactions_are_acknowledged(desk: Desk, payload: dict[str, Any]) -> None:
    response: BoltResponse = await dispatch(desk.app, payload)
    assert response.status == 200
    assert desk.inbox.log == []


async def test_nobody_can_write_who_they_are(desk: Desk) -> None:
    lie = json.dumps({"user": {"id": "U02LI"}, "person": "U02LI"})
    await dispatch(desk.app, pressed(value="A03abc.2", message={"ts": "20.1", "text": lie, "user": "U02LI"}))
    view = await opened(desk, rejecting())
    about = json.loads(view["private_metadata"]) | {"person": "U02LI", "user": "U02LI"}
    await dispatch(desk.app, submission(view | {"private_metadata": json.dumps(about)}, {}))
    assert {click.person for click in desk.inbox.clicks} == {"U01ZHANG"}
