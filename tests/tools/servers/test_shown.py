"""What a card shows of a server's arguments: all of it, and nothing in two ways."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot import cards as words
from bot.chat.slack.cards import parts
from bot.chat.slack.text import unescape
from bot.events import Button, Card, Post
from tests.chat.slack.doubles import validate
from tests.tools.servers.running import USE
from tools.characters import has_invisible
from tools.servers import cards
from tools.servers.cards import FACTS, SHOWN, Theirs, card
from tools.spec import Gate, Plan, ToolError
from tools.tool import Tool

HARMLESS_NAME = st.text(st.characters(whitelist_categories=["Ll", "Nd"]), min_size=1, max_size=8)
NAMES = st.one_of(HARMLESS_NAME, st.sampled_from(["1", "2", '"1"', "a", "a b", "#1", "null"]))
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(["5", "null", "[]", "{}", "true", "", " ", "a\nb", "a\\nb", '"', "\u200b", "\u00a0", "1.0"]),
)  # fmt: skip
VALUES = st.recursive(
    LEAVES, lambda one: st.lists(one, max_size=3) | st.dictionaries(NAMES, one, max_size=3), max_leaves=6
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=3)


def tool() -> Tool:
    schema = {"type": "object", "properties": {}}
    one = Theirs("crm", "write", "Writes.", schema, False, Gate.CONFIRM, "mark")
    return card(one, cast(Any, None), cast(Any, None))


async def plan(arguments: dict[str, Any]) -> Plan:
    made = tool()
    assert made.prepare is not None
    return await made.prepare(USE, made.args.model_validate(arguments))


async def shown(arguments: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    plan_ = await plan(arguments)
    assert plan_.args["arguments"] == arguments, "what is shown is what is sealed"
    return words.told(plan_.facts, "en")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (5, "5"), (None, "null"), ([], "[]"), ({}, "{}"), (True, "true"), (1, 1.0), (1, True), ("", " "),
        ("a\nb", "a\\nb"), ("a", "a\u200b"), ("a b", "a\u00a0b"), (["x"], {"1": "x"}), ({"1": "x"}, {'"1"': "x"}),
        ("\u200b", "\\u200b"), ([[]], []), ([None], []), ("é", "e\u0301\u200b"), ("5", '"5"'),
    ],
)  # fmt: skip
async def test_what_is_different_looks_different(one: Any, other: Any) -> None:
    assert await shown({"a": one}) != await shown({"a": other})


@settings(deadline=None, max_examples=300)
@given(ARGUMENTS, ARGUMENTS)
async def test_no_two_arguments_look_alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    try:
        first, second = await shown(one), await shown(other)
    except ToolError:
        return
    assert (first == second) == (json.dumps(one) == json.dumps(other))
    assert not any(has_invisible(text.replace("\n", "")) for fact in first for text in fact)


async def test_control_as_texts_were_shown_before_two_of_them_looked_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "write_value", lambda value: value if isinstance(value, str) else json.dumps(value))
    assert await shown({"a": 5}) == await shown({"a": "5"})


@pytest.mark.parametrize("text", ["x", "长", "😀", "`", "a\n", "<!channel> ", "\u200b", '"'])
@pytest.mark.parametrize("length", [1, 100, 3_000, 7_000, 100_000])
async def test_everything_that_will_be_sent_can_be_read_before_confirm(text: str, length: int) -> None:
    value = (text * length)[:length]
    try:
        facts = await shown({"text": value})
    except ToolError as refused:
        assert refused.code == "too_much" and str(SHOWN) in refused.text and len(cards.write_value(value)) > SHOWN
        return
    messages = parts(Post("", card=Card("Title", facts, buttons=(Button("Confirm", "confirm", "A1", 1),))))
    for message in messages:
        validate({"text": message.text, "blocks": list(message.blocks)})
    assert [block["type"] for message in messages for block in message.blocks].count("actions") == 1
    assert messages[-1].blocks[-1]["type"] == "actions", "the button comes last, under all of it"
    assert cards.write_value(value).replace("\n", "") in read(messages)


def read(messages: Any) -> str:
    """What a person reads, in order."""
    blocks = [block for message in messages for block in message.blocks if block["type"] == "section"]
    texts = [one["text"] for block in blocks for one in (block.get("fields") or [block["text"]])]
    inside = "".join(re.sub(r"```\n(.*)\n```", r"\1", text, flags=re.DOTALL) for text in texts)
    return unescape(inside).replace("⟨U+0060⟩", "`").replace("\n", "")


async def test_more_values_than_a_card_holds_are_refused_in_words() -> None:
    with pytest.raises(ToolError, match=f"at most {FACTS} values"):
        await plan({str(number) + "a": number for number in range(FACTS + 1)})


@pytest.mark.parametrize(
    "name", ["", "a\u200b", "a\u202eb", "a\nb", "a\u3164", "a\u00a0b", "a › b", "x" * 101, "😀" * 51]
)
async def test_a_name_that_a_card_cannot_show_is_refused(name: str) -> None:
    with pytest.raises(ToolError) as refused:
        await plan({name: 1})
    assert refused.value.code == "too_much"
