"""Bad input: whatever people, platforms and models send, the answer is clear, and nothing is lost or done."""

import json
import re
from collections.abc import Iterator
from typing import Any

from bot.dev.workspace.feishu.cards import list_elements
from tests.harness.office import CHAT, GENERAL, LI, ZHANG, ZHAO, Office, read_message_text
from tests.stories.behind import request_of

LEAVE = "请年假 2026-11-30 到 2026-12-01，审批人李四，原因："


def strings(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        yield from (text for value in node.values() for text in strings(value))
    elif isinstance(node, list):
        yield from (text for value in node for text in strings(value))


PINGS = ("<at id=all", f"<at id={ZHAO}", "](") if CHAT == "feishu" else ("<!", f"<@{ZHAO}", "<#", "<http")
"""Beginnings of mentions of people who have nothing to do with a card, and of links."""


def list_markup(office: Office) -> list[str]:
    """List the texts that the bot gave the platform for people to read, and in which marks mean something."""
    ways = ("chat.postMessage", "chat.update", "chat.postEphemeral", "views.open")
    sent = [arguments for way in ways for arguments in office.driver.list_call_arguments(way)]
    if CHAT == "slack":
        return list(strings(sent))
    cards = [json.loads(one["content"]) for one in sent]
    return [one["content"] for card in cards for one in list_elements(card) if one["tag"] == "markdown"]


def shown(card: dict[str, Any]) -> str:
    """Return a card as it reads on the screen."""
    return read_message_text(card).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


async def test_40000_characters_are_refused_with_their_number_and_11000_are_read(desk: Office) -> None:
    told = await desk.answer(ZHANG, "长" * 40_000)
    assert "40000" in told.replace(",", "") and "12000" in told.replace(",", "") and "什么都没有做" in told
    assert "请 10 天假" in await desk.answer(ZHANG, "你好" + "，" * 11_000)
    assert "40000" not in await desk.answer(ZHANG, "历史"), "what was not read is not remembered"


async def test_emoji_and_right_to_left_text_travel_whole_and_hidden_signs_are_removed_with_a_note(desk: Office) -> None:
    reason = "👩‍👩‍👧‍👦 𝔘𝔫𝔦 مرحبا بالعالم 😵‍💫"
    await desk.says(ZHANG, LEAVE + reason + " \u202egnp.exe")
    card = await desk.card(desk.dm(ZHANG))
    assert reason in shown(card) and "\u202e" not in shown(card) and "⟨U+202E⟩" not in shown(card)
    assert "去掉了 1 个（在「请假事由」里）" in shown(card), "what the person could not see is not in what they confirm"
    await desk.press(ZHANG, card, "confirm")
    theirs = await desk.card(desk.dm(LI), "L-0001")
    assert reason in shown(theirs) and "⟨U+202E⟩" not in shown(theirs)
    kept = await request_of(desk, "L-0001")
    assert kept.filled.values["reason"] == reason + " gnp.exe", "what is kept is what was shown"


async def test_a_mention_in_a_reason_is_text_on_every_card_and_pings_nobody(desk: Office) -> None:
    everybody, mention = (
        ("<at id=all></at>", f"<at id={ZHAO}></at>") if CHAT == "feishu" else ("<!channel>", f"<@{ZHAO}>")
    )
    links = "<!here|here> <https://evil.example|bank> [bank](https://evil.example) <at id=all></at>"
    await desk.says(ZHANG, f"{LEAVE}{everybody} {mention} {links} @{'zhaoliu' if CHAT == 'feishu' else 'Zhao Liu'}")
    assert ZHAO in str(desk.driver.events[-1]["event"]), "control: the last reaches the bot as a real mention"
    card = await desk.card(desk.dm(ZHANG))
    assert f"{everybody} {mention}" in shown(card) and f"<@{ZHAO}>" in shown(card)
    await desk.press(ZHANG, card, "confirm")
    theirs = await desk.card(desk.dm(LI), "L-0001")
    assert f"{everybody} {mention}" in shown(theirs)
    await desk.press(LI, theirs, "approve")
    await desk.until(lambda: "已通过" in desk.said(desk.dm(ZHANG)))
    await desk.answer(ZHANG, "历史")
    await desk.answer(ZHANG, "申请")
    await desk.quiet()
    assert any("L-0001" in text for text in list_markup(desk)), "control: what people read is looked at"
    for text in list_markup(desk):
        text = re.sub(r"<!date\^[^<>|]+\|[^<>|]+>", "", text)  # times that we format
        assert not any(mark in text for mark in PINGS), "nobody but whom the card is about"


async def test_commands_are_plain_words_only_in_a_dm(desk: Office) -> None:
    """In a channel, words go to the model: somebody may well say *history* there."""
    await desk.driver.mention_bot(ZHAO, GENERAL, "history")
    await desk.until(lambda: desk.finals(GENERAL))
    await desk.quiet()
    assert "I remember nothing" not in desk.said(GENERAL)
