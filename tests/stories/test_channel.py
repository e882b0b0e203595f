"""In a shared channel, in English; talk that is nobody's business of ours; and Slack over signed HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession
from redis.asyncio import Redis

from bot.app.ingress import LaneIngress
from bot.chat.messages import Message
from bot.local.workspace.payloads import build_event_callback
from bot.local.workspace.signed import sign_request
from tests.harness.office import (
    ANN,
    GENERAL,
    LI,
    SECRET,
    WANG,
    ZHANG,
    ZHAO,
    Office,
    list_buttons,
    read_message_key,
    read_message_text,
)
from tests.stories.behind import DECISION
from tests.stories.script import requests_of

LEAVE = "I need 10 days off from tomorrow, stomach ache"
HAN = "\u4e00", "\u9fff"
LEADS, TRIO = "C02LEADS", "C03TRIO"
"""A private channel of Li and Wang; a group DM of Zhang and Li."""


def finals(desk: Office, thread: str) -> list[str]:
    """Final answers in a thread of the shared channel."""
    posts = [m for m in desk.posts(GENERAL) if m.get("thread_ts") == thread]
    return [read_message_text(m) for m in posts if read_message_key(m).endswith(":final")]


@pytest.mark.parametrize("room", [LEADS, TRIO])
async def test_in_a_private_channel_and_in_a_group_dm_it_hears_who_calls_it(
    desk: Office, redis: Redis, room: str
) -> None:
    talk = await desk.driver.send_message(LI, room, "中午吃什么？")
    thread = await desk.driver.mention_bot(LI, room, "明天起请2天年假，去看父母，审批人王五")
    preview = await desk.card(desk.dm(LI))
    answered = await desk.until(lambda: [m for m in desk.posts(room) if m.get("thread_ts") == thread])
    assert not any(word in read_message_text(m) for m in answered for word in ("父母", "年假"))
    await desk.press(LI, preview, "confirm")
    await desk.until(lambda: [text for text in desk.finals(desk.dm(LI)) if "L-0001" in text])
    assert not desk.cards(room) and not [m for m in desk.posts(room) if m.get("thread_ts") == talk]


async def test_o_leave_in_a_channel_thread_by_mention_in_english(desk: Office, redis: Redis) -> None:
    thread = await desk.driver.mention_bot(ANN.id, GENERAL, LEAVE)
    [asked] = await desk.until(lambda: finals(desk, thread))
    assert "approve" in asked and "nothing was changed" in asked
    await desk.says(ANN.id, "Li Si", channel=GENERAL, thread=thread)  # no mention: the thread is engaged
    preview = await desk.card(desk.dm(ANN.id))
    shown = read_message_text(preview)
    assert "Open until" in shown and "stomach ache" in shown.lower() and "Tue 24 Nov 2026" in shown
    assert {button["text"]["text"] for button in list_buttons(preview)} == {"Confirm", "Edit", "Cancel"}

    await desk.until(lambda: "The card is in our DM" in desk.said(GENERAL))
    assert await requests_of(redis, ANN.id) == [] and not desk.cards(GENERAL), "the card waits for its person"

    await desk.press(ANN.id, preview, "confirm")
    told = await desk.until(lambda: [text for text in desk.finals(desk.dm(ANN.id)) if "L-0001" in text])
    assert "On record" in told[0]
    card = await desk.card(desk.dm(LI), "L-0001")
    assert {button["action_id"] for button in list_buttons(card)} == {f"cs:{one}" for one in DECISION}
    await desk.quiet()
    assert await requests_of(redis, ANN.id) == ["L-0001"]
    assert all(message["thread_ts"] == thread for message in desk.posts(GENERAL)), "the channel itself stays quiet"
    assert "On record: started leave request L-0001" in desk.said(GENERAL) and not desk.cards(GENERAL)


async def test_o_steps_and_cards_in_the_channel_are_in_the_requesters_language(desk: Office) -> None:
    thread = await desk.driver.mention_bot(ANN.id, GENERAL, f"{LEAVE}, approver Li Si")
    card = await desk.card(desk.dm(ANN.id))
    await desk.quiet()
    own = read_message_text(card) + desk.said(GENERAL)
    for name in ("赵六", "李四", "王五"):
        own = own.replace(name, "")
    chinese = [character for character in own if HAN[0] <= character <= HAN[1]]
    assert not chinese, f"an English reader's card says {''.join(chinese)}"
    assert {one["thread_ts"] for one in desk.posts(GENERAL)} == {thread}


async def test_o_who_says_nothing_to_the_bot_is_not_answered(desk: Office, redis: Redis) -> None:
    """The twin of the follow-up without mention: outside engaged threads nothing is taken as said to the bot."""
    alone = await desk.says(ZHAO, LEAVE, channel=GENERAL)
    await desk.says(WANG, "get well soon", channel=GENERAL, thread=alone)
    await desk.driver.mention_bot(ZHAO, GENERAL, "help")
    await desk.until(lambda: desk.posts(GENERAL) and len(desk.driver.acks) == 4)  # looked at again, and let go
    await desk.quiet()
    assert not [message for message in desk.posts(GENERAL) if message.get("thread_ts") == alone]
    assert await requests_of(redis, ZHAO) == []


async def test_o_a_follow_up_while_the_bot_is_still_thinking_is_taken(desk: Office) -> None:
    """Who adds a word before the first answer is not passed over: the thread is engaged from the mention on."""
    desk.answering.clear()
    thread = await desk.driver.mention_bot(ANN.id, GENERAL, LEAVE)
    await desk.until(lambda: len(desk.driver.acks) == 2)  # the platform sends a mention as two events
    await desk.says(ANN.id, "Li Si", channel=GENERAL, thread=thread)
    await desk.until(lambda: len(desk.driver.acks) == 3)
    assert not finals(desk, thread)
    desk.answering.set()
    await desk.card(desk.dm(ANN.id))
    assert len(finals(desk, thread)) == 1


async def test_o_a_follow_up_that_overtakes_its_mention_is_taken(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mention is not durable yet when the next word comes."""
    take = LaneIngress.accept_message

    async def slowly(self: LaneIngress, message: Message, **more: Any) -> None:
        await asyncio.sleep(0.15 if LEAVE in message.text else 0)
        await take(self, message, **more)

    monkeypatch.setattr(LaneIngress, "accept_message", slowly)
    thread = await desk.driver.mention_bot(ANN.id, GENERAL, LEAVE)
    await desk.says(ANN.id, "Li Si", channel=GENERAL, thread=thread)
    await desk.card(desk.dm(ANN.id))
    await desk.quiet()
    assert len(finals(desk, thread)) == 1


async def test_o_threads_are_conversations_of_their_own(desk: Office) -> None:
    """An answer belongs to the question of its thread, not to that of another."""
    one = await desk.driver.mention_bot(ANN.id, GENERAL, LEAVE)
    two = await desk.driver.mention_bot(WANG, GENERAL, "I need 2 days off from tomorrow")
    await desk.until(lambda: finals(desk, one) and finals(desk, two))
    await desk.says(ANN.id, "Li Si", channel=GENERAL, thread=one)
    await desk.card(desk.dm(ANN.id))
    await desk.quiet()
    pointers = [m for m in desk.posts(GENERAL) if "The card is in our DM" in read_message_text(m)]
    assert [m["thread_ts"] for m in pointers] == [one]
    assert not desk.cards(desk.dm(WANG)) and len(finals(desk, two)) == 1


@pytest.mark.parametrize("text", ["What should we have for dinner?", "晚饭吃什么好呢？", "晚饭后天气好的话散步吗？"])
async def test_p_a_chat_about_dinner_uses_no_tool_that_changes_anything(desk: Office, redis: Redis, text: str) -> None:
    answer = await desk.answer(ZHANG, text)
    assert "没有做任何改动" in answer
    await desk.quiet()
    records = await desk.journal()
    assert not [one for one in records if one.kind.startswith(("effect.", "approval."))]
    assert not [one for one in records if one.kind == "step"], "it does not even look anything up"
    assert desk.mails == [] and not desk.cards(desk.dm(ZHANG)) and await requests_of(redis, ZHANG) == []


async def test_p_dinner_between_question_and_answer_does_not_start_anything(desk: Office, redis: Redis) -> None:
    """Talk in the middle of a request neither confirms nor becomes part of it."""
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, "我肚子疼，从明天起请10天假，审批人李四")
    card = await desk.card(here)
    await desk.answer(ZHANG, "晚饭吃什么好呢？")
    assert await requests_of(redis, ZHANG) == [] and len(desk.cards(here)) == 1
    await desk.press(ZHANG, card, "confirm")
    await desk.until(lambda: "L-0001" in desk.said(here))
    assert await requests_of(redis, ZHANG) == ["L-0001"], "the positive twin: a press does it"


@pytest.fixture
async def by_http(empty: Office) -> AsyncIterator[tuple[Office, str]]:
    """The bot in HTTP mode, and the address it listens at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with empty.opened(slack_mode="http", http_port=port):
        yield empty, f"http://127.0.0.1:{port}/slack/events"


async def test_http_mode_from_a_message_to_a_started_request(by_http: tuple[Office, str], redis: Redis) -> None:
    http, _ = by_http
    here = http.dm(ZHANG)
    assert not http.driver.ws.sockets.list_live_links(), "no socket: everything comes signed"
    await http.says(ZHANG, "报销差旅费 500 元，审批人李四")
    await http.press(ZHANG, await http.card(here, "500"), "confirm")
    await http.until(lambda: "E-0001" in http.said(here))
    task = await http.card(http.dm(LI), "E-0001")
    assert (await http.press(LI, task, "reject")).ok
    assert (await http.fill(LI, opinion="请附发票")).ok, "a dialog, opened and submitted over HTTP"
    await http.until(lambda: "请附发票" in http.said(here))
    assert (await http.driver.run_slash_command(ZHANG, here, "/countersign", "help")).ok
    await http.until(lambda: "Countersign" in http.said(here))
    assert await requests_of(redis, ZHANG) == ["E-0001"]


def headers_of(stamp: str, body: str, secret: str = SECRET) -> dict[str, str]:
    return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": sign_request(secret, stamp, body)}


def unsigned(stamp: str) -> dict[str, str]:
    return {"X-Slack-Request-Timestamp": stamp}


def long_ago(now: str) -> str:
    return str(int(now) - 360)


FORGERIES = {
    "another secret": lambda body, now: headers_of(now, body, "no"),
    "no signature": lambda body, now: unsigned(now),
    "no headers": lambda body, now: {},
    "an odd timestamp": lambda body, now: headers_of(now, body) | {"X-Slack-Request-Timestamp": "soon"},
    "another body": lambda body, now: headers_of(now, body + " "),
    "replayed after six minutes": lambda body, now: headers_of(long_ago(now), body),
    "another timestamp": lambda body, now: headers_of(long_ago(now), body) | unsigned(now),
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_http_mode_a_wrong_signature_is_answered_401_and_nothing_is_taken(
    by_http: tuple[Office, str], forgery: str
) -> None:
    http, url = by_http
    now, kind = str(int(time.time())), {"Content-Type": "application/json"}
    event = {"type": "message", "channel_type": "im", "channel": http.dm(ZHANG), "user": ZHANG, "text": "help"}
    body = json.dumps(build_event_callback(http.driver.ws.app, {**event, "ts": f"{now}.000100"}, time.time()))
    async with ClientSession() as session:
        async with session.post(url, data=body, headers=kind | FORGERIES[forgery](body, now)) as answer:
            assert answer.status == 401
        await http.quiet()
        assert http.posts(http.dm(ZHANG)) == []
    assert "Countersign" in await http.answer(ZHANG, "help"), "the positive twin: the same, signed by the workspace"


async def test_http_mode_a_forged_press_decides_nothing(by_http: tuple[Office, str], redis: Redis) -> None:
    http, url = by_http
    await http.says(ZHANG, "报销差旅费 500 元，审批人李四")
    card = await http.card(http.dm(ZHANG), "500")
    button = next(one for one in list_buttons(card) if one["action_id"] == "cs:confirm")
    forged = {
        "type": "block_actions",
        "trigger_id": "1.2.forged",
        "team": {"id": "T0LOCAL"},
        "user": {"id": ZHANG},
        "container": {"type": "message", "message_ts": card["ts"], "channel_id": http.dm(ZHANG)},
        "actions": [{"action_id": "cs:confirm", "value": button["value"]}],
    }
    headers = {"X-Slack-Request-Timestamp": str(int(time.time())), "X-Slack-Signature": "v0=" + "0" * 64}
    async with (
        ClientSession() as session,
        session.post(url, data={"payload": json.dumps(forged)}, headers=headers) as no,
    ):
        assert no.status == 401
    await http.quiet()
    assert await requests_of(redis, ZHANG) == [] and http.cards(http.dm(ZHANG))
    await http.press(ZHANG, card, "confirm")
    await http.until(lambda: "E-0001" in http.said(http.dm(ZHANG)))
