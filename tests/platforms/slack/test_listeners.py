"""Payloads in: every shape Slack sends, through the whole of Bolt."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from bot.chat.messages import Acceptance, Dialog, FormDialog, FormInput, HomeDialog, MessageRef, Place
from bot.core.cancellation import cancel_and_wait
from bot.platforms import shared
from bot.platforms.slack import listeners
from bot.platforms.slack.forms import render_form
from bot.platforms.slack.home import render_home_dialog
from bot.platforms.slack.quotes import MAX_QUOTE, MAX_QUOTES, list_forwarded_files, read_quotes
from tests.platforms.slack.conftest import Desk
from tests.platforms.slack.doubles import dispatch, event, eventually, mention, pressed, slash, submission, written
from tools.spec import DialogField

FORWARDED: dict[str, Any] = {
    "is_share": True, "author_name": "Li Si\n(admin)", "author_id": "U02LI",
    "text": "Hotel &lt;Harbour View&gt;, 2 nights,\n1,480.00 CNY",
    "files": [{"id": "F1", "name": "invoice.pdf", "size": 7}],
}  # fmt: skip
MONDAY = {"type": "rich_text_section", "elements": [{"type": "text", "text": "Mon"}]}
HEAD = [{"type": "raw_text", "text": "day"}, {"type": "raw_text", "text": "CNY"}]
ROW = [{"type": "rich_text", "elements": [MONDAY]}, {"type": "raw_number", "text": "86.00"}]
TABLE = {"type": "table", "rows": [HEAD, ROW]}


@pytest.mark.parametrize("where", ["D01ZHANG", "C01GENERAL"])
async def test_what_is_forwarded_and_tables_are_read_as_quotes_with_their_files(desk: Desk, where: str) -> None:
    said = "please claim this for me" if where == "D01ZHANG" else "<@U0BOT> please claim this for me"
    carried = {"attachments": [FORWARDED, {"from_url": "https://x.example", "text": "a preview"}], "blocks": [TABLE]}
    await dispatch(desk.app, event({**written(said, where), **carried}))
    [(message, _)] = desk.inbox.messages
    assert message.text == (
        "please claim this for me\n\n(forwarded message, written by Li Si (admin))\n"
        "> Hotel <Harbour View>, 2 nights,\n> 1,480.00 CNY\n\n(table)\n> day | CNY\n> Mon | 86.00"
    )
    assert [(one.id, one.name) for one in message.files] == [("F1", "invoice.pdf")]


async def test_forwarded_without_a_word_it_is_a_message_and_no_order(desk: Desk) -> None:
    for number, forwarded in enumerate(({**FORWARDED, "text": "stop"}, {"is_share": True}, *[FORWARDED] * 11)):
        await dispatch(desk.app, event({**written("", ts=f"{number}.1"), "attachments": [forwarded]}, f"Ev{number}"))
    texts = [message.text for message, _ in desk.inbox.messages]
    assert texts[0] == "(forwarded message, written by Li Si (admin))\n> stop"
    assert texts[1] == "(forwarded message, written by ?; there is no text in it that I can read)"
    await dispatch(desk.app, event({**written("", ts="99.1"), "attachments": [FORWARDED] * 12}, "Ev99"))
    last = desk.inbox.messages[-1][0]
    assert last.text.endswith("(2 more forwarded messages were not read)") and len(last.files) == 10


HUGE: list[dict[str, Any]] = [
    {"attachments": [{**FORWARDED, "text": "x" * 1_000_000, "author_name": "y" * 1_000_000}] * 1_000},
    {"attachments": "x"},
    {"attachments": [{**FORWARDED, "author_name": 7, "text": {}, "files": {}, "blocks": {}}]},
    {"blocks": [{"type": "table", "rows": [[{"text": "z" * 100_000}] * 1_000] * 1_000}]},
    {"blocks": [{"type": "table", "rows": [7, [7, None, {"elements": [{"elements": 7}]}]]}]},
]


def test_it_is_bounded_before_it_is_read() -> None:
    for carried in HUGE:
        assert len(read_quotes(carried, "U0BOT", "en")) < 2 * MAX_QUOTES * MAX_QUOTE
        assert len(list_forwarded_files(carried)) <= MAX_QUOTES


async def test_a_mention_arrives_once_though_slack_sends_two_events(desk: Desk) -> None:
    """In either order; in a channel, in a group DM and in a thread, where words among people are none."""
    for number, (place, more) in enumerate((
        (Place(team="T0", channel="C01GENERAL", thread="10.1"), {}),
        (Place(team="T0", channel="G01GROUP", thread="11.1"), {"channel_type": "mpim"}),
        (Place(team="T0", channel="C01GENERAL", thread="9.1"), {"thread_ts": "9.1"}),
    )):  # fmt: skip
        at = f"1{number}.1"
        both = [one("<@U0BOT> Stop", place.channel, at, **more) for one in (mention, written)]
        others = written("stop", place.channel, f"{at}5", user="U04ZHAO", **more)
        for said in (*(reversed(both) if number == 1 else both), others):
            await dispatch(desk.app, event(said, f"{number} {said['type']} {said['ts']}"))
        message, _ = desk.inbox.messages.pop()
        assert (message.text, message.person, message.at, message.place) == ("Stop", "U01ZHANG", at, place)
        assert not desk.inbox.messages


async def test_follow_ups_need_no_mention_where_the_bot_takes_part(desk: Desk) -> None:
    reply = written("<@U02LI>", "C01GENERAL", "11.1", thread_ts="10.1")
    await dispatch(desk.app, event(reply, "Ev1"))
    assert desk.inbox.messages == []
    desk.inbox.threads.add("10.1")
    await dispatch(desk.app, event(reply, "Ev2"))
    assert desk.inbox.texts == ["<@U02LI>"]


async def test_the_first_message_of_a_thread_is_no_follow_up(desk: Desk) -> None:
    """A look for missed messages finds it with its thread, which the bot may have joined since."""
    desk.inbox.threads.add("10.1")
    first = written("lunch?", "C01GENERAL", "10.1", thread_ts="10.1", reply_count=1)
    await dispatch(desk.app, event(first, "Ev1"))
    assert desk.inbox.messages == []


def follow_up(number: int) -> dict[str, Any]:
    return event(written(f"and {number}", "C01GENERAL", f"11.{number}", thread_ts="10.1"), f"Ev{number}")


@pytest.mark.parametrize("looks_again", [True, False])
async def test_follow_ups_that_overtake_their_mention_are_taken_in_order(
    desk: Desk, looks_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two follow-ups, then their mention, then a third one. Negative control: looking only once drops the two."""
    monkeypatch.setattr(shared, "RECHECK_S", 20 if looks_again else -1)
    early = [asyncio.create_task(dispatch(desk.app, follow_up(number))) for number in (1, 2)]
    await asyncio.sleep(0.1)
    assert desk.inbox.messages == []
    await dispatch(desk.app, event(mention("<@U0BOT> hello"), "Ev0"))
    desk.inbox.threads.add("10.1")
    answers = await asyncio.gather(*early, dispatch(desk.app, follow_up(3)))
    assert [answer.status for answer in answers] == [200] * 3
    assert desk.inbox.texts == ["hello", *(["and 1", "and 2"] if looks_again else []), "and 3"]


async def test_chat_among_people_is_acknowledged_well_in_time(desk: Desk) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    answers = await asyncio.gather(*(dispatch(desk.app, follow_up(number)) for number in range(20)))
    assert [answer.status for answer in answers] == [200] * 20 and desk.inbox.messages == []
    assert loop.time() - began < 20 * shared.RECHECK_S / 2
    assert desk.inbox.log.count("engaged") < 30, "who had to wait looks once"


RECORDED_BROADCAST = {
    "type": "message", "subtype": "thread_broadcast", "text": "and so say all of us", "user": "U01ZHANG", "ts": "10.1",
    "root": {"type": "message", "user": "U04ZHAO", "text": "shall we?", "ts": "9.1", "thread_ts": "9.1"},
    "thread_ts": "9.1", "channel": "D01ZHANG", "event_ts": "10.1", "channel_type": "im",
}  # fmt: skip
"""The shape that was recorded in SlackNet#69."""


async def test_whatever_somebody_wrote_just_now_is_heard(desk: Desk) -> None:
    """Of special kinds, without a text, without a mention where a file is, and by either of the two events of a
    mention."""
    for number, (said, text) in enumerate((
        (written("me", ts="1.1", subtype="me_message"), "me"),
        (RECORDED_BROADCAST, RECORDED_BROADCAST["text"]),
        (written("hello <@U0BOT>", "C01GENERAL"), "hello"),
        (written("see here", ts="11.1", subtype="file_share", files=[{"id": "F1"}]), "see here"),
        (mention("<@U0BOT>", ts="12.1"), ""),
        (written("", ts="13.1", subtype="file_share", files=[]), ""),
    )):  # fmt: skip
        await dispatch(desk.app, event(said, f"Ev{number}"))
        assert len(desk.inbox.texts) == number + 1 and desk.inbox.texts[-1] == text


def changed(now: dict[str, Any] | None, before: dict[str, Any] | None) -> dict[str, Any]:
    """Slack's event of a message that was changed, or deleted."""
    where = {"channel": (now or before or {})["channel"], "channel_type": (now or before or {})["channel_type"]}
    kind = {"subtype": "message_changed", "message": now} if now else {"subtype": "message_deleted"}
    return {"type": "message", "ts": "10.2", **where, **kind, **({"previous_message": before} if before else {})}


IGNORED: list[dict[str, Any]] = [
    written("chat among people", "C01GENERAL"),
    written("<@U02LI> lunch?", "C01GENERAL"),
    written("from another bot", bot_id="B9"),
    written("from a bot user", bot_profile={"id": "B9"}),
    written("my own", user="U0BOT"),
    written("my own, as Slack sends it", user="U0BOT", bot_id="B0BOT"),
    written("reminder", user="USLACKBOT"),
    written("joined", subtype="channel_join"),
    written("by a bot", subtype="bot_message", bot_id="B9"),
    changed(written("see https://a.cn", attachments=[{"title": "A"}]), written("see https://a.cn")),
    changed(written("a bot's own", bot_id="B9"), written("rewritten", bot_id="B9")),
    changed(written("my own", user="U0BOT"), written("rewritten", user="U0BOT")),
    changed(written("in a channel", "C01GENERAL"), written("where the bot is not", "C01GENERAL")),
    changed(written("now"), None),
    changed(None, written("not mine", user="U0BOT")),
    mention("<@U0BOT> hi", bot_id="B9"),
    {"type": "reaction_added", "user": "U01ZHANG", "item": {}},
    {"type": "an_event_of_next_year"},
]  # fmt: skip


async def test_everything_else_is_acknowledged_and_ignored(desk: Desk) -> None:
    for number, said in enumerate(IGNORED):
        assert (await dispatch(desk.app, event(said, f"Ev{number}"))).status == 200, said
        assert not desk.inbox.messages and not desk.inbox.changes, said


async def test_a_message_that_its_writer_changes_or_deletes_is_heard_of(desk: Desk) -> None:
    await dispatch(desk.app, event(changed(written("51 CNY"), written("15 CNY")), "Ev1"))
    await dispatch(desk.app, event(changed(None, written("15 CNY")), "Ev2"))
    await dispatch(desk.app, event(changed(written("", subtype="tombstone", user="USLACKBOT"), written("root")), "Ev3"))
    told = [(one.id, one.text, one.person, one.at, gone) for one, gone in desk.inbox.changes]
    who = ("U01ZHANG", "10.1")
    assert told == [("Ev1", "51 CNY", *who, False), ("Ev2", "15 CNY", *who, True), ("Ev3", "root", *who, True)]
    reply = written("<@U0BOT> now", "C01GENERAL", thread_ts="9.1")
    desk.inbox.threads.add("9.1")
    await dispatch(desk.app, event(changed(reply, written("then", "C01GENERAL", thread_ts="9.1")), "Ev4"))
    assert desk.inbox.changes[-1][0].place == Place(team="T0", channel="C01GENERAL", thread="9.1")
    assert desk.inbox.messages == []
    desk.inbox.down = True
    assert (await dispatch(desk.app, event(changed(written("a"), written("b")), "Ev5"))).status == 500


async def test_a_direct_message_is_taken_with_its_place_and_acknowledged_if_it_is_durable(desk: Desk) -> None:
    desk.inbox.down = True
    assert (await dispatch(desk.app, event(written("hello")))).status == 500
    reply = written("yes", "C01GENERAL", "11.1", thread_ts="10.1")
    assert (await dispatch(desk.app, event(reply))).status == 500, "whether the bot takes part there is not known"
    desk.inbox.down = False
    assert (await dispatch(desk.app, event(written("hello")))).status == 200
    [(message, aliases)] = desk.inbox.messages
    assert message.id == "Ev1"
    assert aliases == ("D01ZHANG:10.1",)
    assert message.place == Place(team="T0", channel="D01ZHANG", direct=True), "the answer stands beside the message"
    assert message.thread_place.thread == "10.1", "and the steps under it"
    assert (message.person, message.text, message.at) == ("U01ZHANG", "hello", "10.1")


async def test_a_press_is_durable_before_it_is_acknowledged(desk: Desk) -> None:
    assert (await dispatch(desk.app, pressed())).status == 200
    [click] = desk.inbox.clicks
    assert (click.id, click.approval, click.version, click.choice) == ("1.2.x", "A03abc", 2, "confirm")
    assert (click.person, click.form) == ("U01ZHANG", None)
    assert click.place == Place(team="T0", channel="D01ZHANG", thread="10.1", direct=True)
    assert click.card == MessageRef(channel="D01ZHANG", ts="20.1")
    for number, blocks in enumerate(([], [{"type": "rich_text", "elements": [{"type": "rich_text_section"}]}])):
        await dispatch(desk.app, pressed(trigger=f"1.{number}.a", message={"ts": "20.1", "blocks": blocks}))
    others = [click.card for click in desk.inbox.clicks[1:]]
    assert others == [None, None], "without the button it was rewritten since, and is not known to be the card"


async def test_a_press_that_is_not_acknowledged_is_told_what_became_of_it(desk: Desk) -> None:
    """Its acceptance failed, or only the answer was lost: the store is asked before anything is said."""
    becomes = {
        Acceptance.TAKEN: "不过已经收下", Acceptance.UNKNOWN: "还不能确定", Acceptance.NOT_TAKEN: "什么都没有发生"
    }  # fmt: skip
    assert set(becomes) == set(Acceptance)
    desk.inbox.down = True
    for desk.inbox.withdrawn, words in becomes.items():
        desk.slack.calls.clear()
        assert (await dispatch(desk.app, pressed())).status == 500
        [told] = desk.slack.called("chat.postEphemeral")
        assert (told["user"], told["channel"], told["thread_ts"]) == ("U01ZHANG", "D01ZHANG", "10.1")
        assert words in told["text"]
    desk.slack.calls.clear()
    home = pressed(container={"type": "view", "view_id": "V1"}, channel=None, message=None)
    await dispatch(desk.app, home)
    assert desk.slack.called("chat.postEphemeral")[0]["channel"] == "D01ZHANG", "where it is said that it was not taken"
    desk.inbox.down = False
    await dispatch(desk.app, home)
    assert desk.inbox.clicks[0].place == Place(team="T0", channel="D01ZHANG", direct=True)
    assert desk.inbox.clicks[0].card is None


TYPES = (("annual", "Annual leave"), ("sick", "Sick leave"))
INPUTS = (
    FormInput(DialogField(name="opinion", label="opinion", kind="long", value="because"), "Opinion"),
    FormInput(DialogField(name="day", label="day", kind="date", value="2026-12-01"), "Day"),
    FormInput(DialogField(name="type", label="type", kind="choice", value="sick", choices=()), "Type", TYPES),
    FormInput(DialogField(name="who", label="who", kind="person", required=False), "Who"),
)


def rejecting(**more: Any) -> Dialog:
    given: dict[str, Any] = {
        "title": "Reject the leave request of Zhang San", "submit": "Reject", "cancel": "Back",
        "approval": "A03abc", "version": 2, "choice": "reject", "inputs": INPUTS,
        "place": Place(team="T0", channel="D01ZHANG", thread="10.1", direct=True),
    }  # fmt: skip
    return Dialog(**given | more)


async def opened(desk: Desk, dialog: Dialog) -> dict[str, Any]:
    desk.inbox.dialogs["reject"] = dialog
    assert (await dispatch(desk.app, pressed("reject", trigger="7.7.t"))).status == 200
    await eventually(lambda: desk.slack.called("views.open"))
    call = desk.slack.called("views.open")[0]
    assert call["trigger_id"] == "7.7.t"
    return dict(call["view"])


async def test_a_press_opens_its_dialog_and_who_submits_it_clicks(desk: Desk) -> None:
    view = await opened(desk, rejecting())
    assert len(view["title"]["text"]) == 24 and view["title"]["text"].endswith("…")
    elements = {block["block_id"]: block["element"] for block in view["blocks"]}
    assert elements["opinion"]["initial_value"] == "because" and elements["day"]["initial_date"] == "2026-12-01"
    assert elements["type"]["initial_option"]["value"] == "sick" and "initial_user" not in elements["who"]
    assert [block["optional"] for block in view["blocks"]] == [False, False, False, True]
    assert desk.inbox.clicks == []
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
    card = MessageRef(channel="D01ZHANG", ts="20.1")
    desk.slack.calls.clear()
    desk.inbox.clicks.clear()
    await dispatch(desk.app, submission(await opened(desk, rejecting(card=card)), {}))
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
    desk.inbox.down = True
    assert (await dispatch(desk.app, submission(view, {}))).status == 500, "it stays open"


async def test_a_dialog_that_comes_too_late_is_said(desk: Desk) -> None:
    desk.inbox.dialogs["reject"] = rejecting()
    faults: list[str | float] = ["expired_trigger_id", "drop", 3.0]
    for fault in faults:
        desk.slack.calls.clear()
        desk.slack.faults["views.open"] = [fault]
        assert (await dispatch(desk.app, pressed("reject"))).status == 200
        await eventually(lambda: desk.slack.called("chat.postEphemeral"))
        assert "再点击一次" in desk.slack.called("chat.postEphemeral")[0]["text"], fault
        assert len(desk.slack.called("views.open")) == 1, fault


async def test_a_long_mail_is_edited_without_losing_a_character(desk: Desk) -> None:
    body = "\n\n".join(f"第 {n} 段 " + "字😀 " * 40 for n in range(60))
    mail = rejecting(inputs=(FormInput(DialogField(name="body", label="body", kind="long", value=body), "Text"),))
    view = await opened(desk, mail)
    assert len(view["blocks"]) > 1
    shown = {block["block_id"]: {"value": block["element"]["initial_value"]} for block in view["blocks"]}
    assert all(len(one["value"].encode("utf-16-le")) <= 6000 for one in shown.values())
    assert not any(one["value"] != one["value"].strip() for one in list(shown.values())[:-1])
    await dispatch(desk.app, submission(view, shown))
    assert desk.inbox.clicks[0].form == {"body": body}


async def test_the_slash_command_is_answered_in_the_dm(desk: Desk) -> None:
    response = await dispatch(desk.app, slash("tasks for &lt;me&gt; <@U02LI|lisi>"))
    assert (response.status, response.body) == (200, "收到，我在私信里回复您。")
    [(message, _)] = desk.inbox.messages
    assert (message.command, message.text) == (True, "tasks for <me> <@U02LI>")
    assert message.place == Place(team="T0", channel="D01ZHANG", direct=True)
    assert float(message.at) > 0
    response = await dispatch(desk.app, {**slash("stop", channel="D01ZHANG"), "trigger_id": "6.6.s"})
    assert (response.status, response.body) == (200, ""), "in our DM no pointer is needed"
    assert [message.text for message, _ in desk.inbox.messages][1:] == ["stop"]
    desk.inbox.down = True
    response = await dispatch(desk.app, slash("help", person="U04ZHAO"))
    assert response.status == 200 and "try again" in response.body, "one that cannot be taken says so"


REASON = FormInput(DialogField(name="reason", label="x", kind="long"), "Reason")
FORM = FormDialog(title="Leave", submit="Review", cancel="Close", process="leave", page=0, inputs=(REASON,))
HOME_DIALOG = HomeDialog(title="Leave", cancel="Close")
ACTS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "press": lambda dialog: pressed(),
    "dialog": lambda dialog: submission(dialog, {}),
    "command": lambda dialog: slash("help"),
    "form": lambda dialog: submission(cast(dict[str, Any], render_form(FORM)), {}),
    "dialog of Home": lambda dialog: submission(render_home_dialog(HOME_DIALOG, "zh", "D01ZHANG"), {}),
}


@pytest.mark.parametrize("act", ACTS)
async def test_a_late_acceptance_is_said_to_whoever_waits(
    desk: Desk, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When Slack shows its error, nobody knows yet; when the store goes on, it is taken after all."""
    payload = ACTS[act](await opened(desk, rejecting()))
    desk.inbox.dialogs.clear()
    await desk.directory.find_person("U01ZHANG")
    desk.slack.calls.clear()
    assert (await dispatch(desk.app, payload)).status == 200
    assert not desk.slack.called("chat.postEphemeral"), "the control: in time nothing is said"
    monkeypatch.setattr(listeners, "ACK_S", 0.1)
    desk.inbox.moving.clear()
    answering = asyncio.create_task(dispatch(desk.app, payload))
    await eventually(lambda: desk.slack.called("chat.postEphemeral"))
    desk.inbox.moving.set()
    await answering
    await eventually(lambda: len(desk.slack.called("chat.postEphemeral")) == 2)
    told = desk.slack.called("chat.postEphemeral")
    assert {one["user"] for one in told} == {"U01ZHANG"}
    assert "还不能确定" in told[0]["text"] and "不过已经收下" in told[1]["text"]


async def test_a_command_that_is_refused_late_is_answered(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slack takes no acknowledgement any more, and nobody would see what is written in it."""
    await desk.directory.find_person("U01ZHANG")
    monkeypatch.setattr(listeners, "ACK_S", 0.1)
    desk.inbox.moving.clear()
    answering = asyncio.create_task(dispatch(desk.app, slash("help")))
    await eventually(lambda: desk.slack.called("chat.postEphemeral"))
    desk.inbox.down = True
    desk.inbox.moving.set()
    await eventually(lambda: len(desk.slack.called("chat.postEphemeral")) == 2)
    assert "什么都没有发生" in desk.slack.called("chat.postEphemeral")[1]["text"]
    await cancel_and_wait([answering])


async def test_what_slack_sends_for_another_workspace_is_dropped(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """It is signed all the same, where one app is installed in both."""
    view = await opened(desk, rejecting())
    theirs = [{"team_id": "T9", "user_id": "U0BOT9", "is_bot": True}]
    desk.inbox.log.clear()
    foreign = [
        event(written("hello")) | {"team_id": "T9", "authorizations": theirs},
        event(mention("<@U0BOT> hello")) | {"authorizations": theirs},
        event({"type": "agent_session_stopped"}) | {"authorizations": [], "team_id": "T9"},
        slash("help") | {"team_id": "T9"},
        submission(view | {"app_installed_team_id": "T9"}, {}),
    ]
    for payload in foreign:
        caplog.clear()
        assert (await dispatch(desk.app, payload)).status == 200
        assert desk.inbox.log == [] and "T9" in caplog.text, payload
    ours = [
        event(written("hello"), "Ev7") | {"team_id": "T9"},  # a channel that is shared with T9: still for us
        event(written("hello", ts="11.1"), "Ev8") | {"authorizations": [theirs[0] | {"is_enterprise_install": True}]},
        pressed(team={"id": "T9"}),
        slash("help"),
        submission(view | {"app_installed_team_id": "T0"}, {}),
    ]
    for payload in ours:
        desk.inbox.log.clear()
        assert (await dispatch(desk.app, payload)).status == 200
        assert desk.inbox.log, payload


UNKNOWN: list[dict[str, Any]] = [
    {**payload, "user": {"id": "U1"}}
    for payload in (
        pressed() | {"actions": [{"type": "button", "action_id": "other", "block_id": "b", "value": "x"}]},
        {"type": "view_submission", "view": {"type": "modal", "callback_id": "x", "id": "V", "state": {"values": {}}}},
        {"type": "view_closed", "view": {"type": "modal", "callback_id": "cs:dialog", "id": "V"}},
        {"type": "shortcut", "callback_id": "x"},
        {"type": "message_action", "callback_id": "x", "channel": {"id": "C1"}, "message": {"ts": "1"}},
        {"type": "block_suggestion", "action_id": "x", "block_id": "b", "value": ""},
        slash("x", command="/other"),
    )
]  # fmt: skip


async def test_what_is_not_ours_is_acknowledged_and_nothing_else(desk: Desk) -> None:
    view = await opened(desk, rejecting())
    desk.inbox.log.clear()
    misshapen = [pressed(value=value) for value in ("", "nothing", "A1.x", ".", cast(str, None))]
    others = [
        submission(view | {"private_metadata": metadata}, {})
        for metadata in ("", "{}", "not json", '{"approval": 1}', "[]")
    ]
    for payload in (*UNKNOWN, *misshapen, *others):
        assert (await dispatch(desk.app, payload)).status == 200, payload
        assert desk.inbox.log == [] and desk.inbox.clicks == [], payload


async def test_nobody_can_write_who_they_are(desk: Desk) -> None:
    lie = json.dumps({"user": {"id": "U02LI"}, "person": "U02LI"})
    await dispatch(desk.app, pressed(value="A03abc.2", message={"ts": "20.1", "text": lie, "user": "U02LI"}))
    view = await opened(desk, rejecting())
    about = json.loads(view["private_metadata"]) | {"person": "U02LI", "user": "U02LI"}
    await dispatch(desk.app, submission(view | {"private_metadata": json.dumps(about)}, {}))
    assert {click.person for click in desk.inbox.clicks} == {"U01ZHANG"}
