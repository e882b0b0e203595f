"""Payloads of another shape than Slack's, from somebody who can sign: acknowledged, dropped, and nothing breaks."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bot.chat.messages import Dialog, FormInput, MessageRef, Place
from bot.chat.platform import IngressGate
from bot.platforms import shared
from bot.platforms.slack import dialogs, listeners
from bot.platforms.slack.app import open_socket_mode
from bot.platforms.slack.payload_shape import has_slack_shape
from bot.platforms.slack.text import parse_message_text
from tests.harness.spoilt import list_paths, replace_part
from tests.linear.pace import measure_pace
from tests.platforms.slack.conftest import Desk
from tests.platforms.slack.doubles import APP_TOKEN, dispatch, event, mention, pressed, slash, submission, written
from tools.spec import DialogField

ODD: tuple[Any, ...] = ([], {}, ["x"], {"a": 1}, 5, 1.5, True, "x" * 5_000, "\ud800", [[[]]])


DIALOG = Dialog(
    approval="A03abc", version=2, choice="reject", title="Reject", submit="Reject", cancel="Back",
    inputs=(FormInput(DialogField(name="note", label="note", kind="long"), "Note"),),
    place=Place(team="T0", channel="D01ZHANG", direct=True), card=MessageRef(channel="D01ZHANG", ts="20.1"),
)  # fmt: skip


def real() -> list[dict[str, Any]]:
    return [
        event(written("hello")),
        event(written("hello", "C01GENERAL", "11.1", thread_ts="10.1")),
        event(mention("<@U0BOT> hello")),
        event({"type": "app_home_opened", "user": "U01ZHANG", "tab": "home", "channel": "D01ZHANG"}),
        pressed(),
        submission(dialogs.render_modal(DIALOG), {"note": {"value": "rest well"}}),
        slash("help"),
    ]


def spoil(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The payload with one thing in it replaced, in every way."""
    for path in list_paths(body)[1:]:
        for odd in ODD:
            yield f"{path} = {str(odd)[:20]}", replace_part(body, path, odd)


async def test_nothing_odd_breaks_anything(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the socket and the server hand it on: what `has_slack_shape` lets through, Bolt and the bot can read."""
    monkeypatch.setattr(shared, "RECHECK_S", -1)
    passed, failed = list[int](), list[str]()
    for body in real():
        assert has_slack_shape(body), "the payload itself is one of Slack's"
        readable = [(name, spoilt) for name, spoilt in spoil(body) if has_slack_shape(spoilt)]
        passed.append(len(readable))
        for name, spoilt in readable:
            answer = await dispatch(desk.app, spoilt)
            failed += [] if answer.status in (200, 404) else [f"{name}: {answer.body}"]
    assert failed == []
    assert len(passed) == 7 and all(passed)


@pytest.mark.parametrize(
    "more", [{"ts": 1700000000}, {"actions": [{"id": "1", "name": "ok", "type": "button"}]}, {"actions": []}]
)
def test_an_attachment_of_another_app_is_as_slack_sends_it(more: dict[str, Any]) -> None:
    """A shortcut on the message of another app, or its preview of a link, was dropped without a word."""
    message = written("see this") | {"attachments": [{"id": 1, "is_share": True, "text": "x", **more}]}
    assert has_slack_shape(event(message))
    chosen = {"type": "message_action", "callback_id": "cs:request:expense", "trigger_id": "1.2"}
    assert has_slack_shape(chosen | {"user": {"id": "U01ZHANG"}, "message": message})
    assert not has_slack_shape(chosen | {"actions": []}), "the negative control"


async def test_without_the_check_bolt_stumbles(desk: Desk) -> None:
    """The negative control."""
    spoilt = event(written("hello")) | {"event": ["hello"]}
    assert not has_slack_shape(spoilt) and not has_slack_shape(json.loads("[1]")) and not has_slack_shape(None)
    assert (await dispatch(desk.app, spoilt)).status == 500


async def test_the_socket_lives_on(desk: Desk) -> None:
    async with open_socket_mode(desk.app, APP_TOKEN, IngressGate()):
        for number, odd in enumerate(([], {"event": []}, {"event": {"type": ["message"]}}, {"type": {}}, "text", None)):
            await desk.slack.deliver(f"E{number}", odd)  # type: ignore[arg-type]
            assert await desk.slack.acknowledged(f"E{number}", 3)
        await desk.slack.deliver("Egood", event(written("hello")))
        assert await desk.slack.acknowledged("Egood", 3)
    assert desk.inbox.texts == ["hello"]


# Length


def test_reading_is_linear() -> None:
    for unit in (" ", "<", "<@U0BOT> ", "<@U0BOT|", "&amp;", "\n", "<!a^", "<https://a|", "张", "`"):
        text, took = (unit * listeners.RAW_MAX)[: listeners.RAW_MAX], []
        for _ in range(3):
            began = time.thread_time()
            parse_message_text(text, "U0BOT")
            took.append(time.thread_time() - began)
        assert min(took) < 0.1 * measure_pace(), unit


async def test_what_is_not_for_the_bot_is_not_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "RECHECK_S", -1)
    read = list[str]()
    monkeypatch.setattr(listeners, "parse_message_text", lambda text, bot: read.append(text) or text)
    await dispatch(desk.app, event(written("chat among people", "C01GENERAL"), "Ev1"))
    await dispatch(desk.app, event(written("in a thread of theirs", "C01GENERAL", "11.1", thread_ts="10.1"), "Ev2"))
    assert read == [] and desk.inbox.texts == []
    await dispatch(desk.app, event(mention("<@U0BOT> hello", ts="12.1"), "Ev3"))
    assert read == ["<@U0BOT> hello"], "the control: what is for the bot is"


async def test_what_is_too_long_is_not_read_and_blanks_without_end_block_nobody(desk: Desk) -> None:
    await dispatch(desk.app, event(written("<" * (listeners.RAW_MAX + 1)), "Ev1"))
    await dispatch(desk.app, slash("x" * (listeners.RAW_MAX + 5)))
    assert [(one.text, one.unread) for one, _ in desk.inbox.messages] == [("", 60_001), ("", 60_005)]
    await dispatch(desk.app, event(written("&amp;" * 12_000, ts="13.1"), "Ev2"))
    assert desk.inbox.messages[-1][0].text == "&" * 12_000, "what a message may hold is read, however Slack writes it"
    body = event(written(" " * 39_000 + "x", ts="14.1"), "Ev3")  # from a guest, they blocked the loop for 2.4 s
    began = time.thread_time()
    await dispatch(desk.app, body)
    assert time.thread_time() - began < 0.5 * measure_pace()
    assert desk.inbox.texts[-1] == "x"
