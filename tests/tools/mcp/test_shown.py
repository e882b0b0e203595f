"""What a card shows of a server's arguments: all of it, and nothing in two ways."""

import json
import re
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.approvals import render as words
from bot.chat.messages import Button, Card, Click, Place, Post
from bot.dev.workspace.validate import VIEW_BYTES, check_view
from bot.platforms.slack.blocks import render_post
from bot.platforms.slack.dialogs import render_modal
from bot.platforms.slack.text import unescape_text
from tests.approvals.approval_walk import build_card
from tests.harness.corpus import corpus
from tests.platforms.slack.doubles import validate
from tests.tools.mcp.running import USE, build_listed_tool
from tests.tools.office import refused
from tools.characters import has_invisible
from tools.mcp import tool_adapter
from tools.mcp.tool_adapter import FACTS, MAX_DIALOG_BYTES, SHOWN, build_mcp_tool
from tools.spec import Proposal, ToolError
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
    return build_mcp_tool(build_listed_tool(), cast(Any, None), cast(Any, None))


async def plan(arguments: dict[str, Any]) -> Proposal:
    made = tool()
    return await made.prepare(USE, made.args.model_validate(arguments))


async def shown(arguments: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    plan_ = await plan(arguments)
    assert plan_.args["arguments"] == arguments, "what is shown is what is sealed"
    return words.describe_card_fields(plan_.fields, "en")


@corpus(
    ("one", "other"),
    (5, "5"), (None, "null"), ([], "[]"), ({}, "{}"), (True, "true"), (1, 1.0), (1, True), ("", " "),
    ("a\nb", "a\\nb"), ("a", "a\u200b"), ("a b", "a\u00a0b"), (["x"], {"1": "x"}), ({"1": "x"}, {'"1"': "x"}),
    ("\u200b", "\\u200b"), ([[]], []), ([None], []), ("é", "e\u0301\u200b"), ("5", '"5"'),
)  # fmt: skip
async def test_what_is_different_looks_different(one: Any, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await shown({"a": one}) != await shown({"a": other})
    plain: Callable[[Any], str] = lambda value: value if isinstance(value, str) else json.dumps(value)  # noqa: E731
    monkeypatch.setattr(tool_adapter, "format_json_value", plain)
    assert await shown({"a": 5}) == await shown({"a": "5"}), "the control: as texts were shown before"


@pytest.mark.slow
@given(ARGUMENTS, ARGUMENTS)
async def test_no_two_arguments_look_alike(one: dict[str, Any], other: dict[str, Any]) -> None:
    try:
        first, second = await shown(one), await shown(other)
    except ToolError:
        return
    assert (first == second) == (json.dumps(one) == json.dumps(other))
    assert not any(has_invisible(text.replace("\n", "")) for fact in first for text in fact)


def write(value: Any) -> str:
    """A value as a person reads it, in one line."""
    return tool_adapter.format_json_value(value).replace("\n", "")


def count_bytes(value: Any) -> int:
    return tool_adapter._count_markup_bytes(tool_adapter.format_json_value(value))


SIGNS = ["x", "长", "😀", "`", "a\n", "x" * 1499 + "\n", "<!channel> ", "&", "\u200b", '"', "\\"]


@corpus("text", *SIGNS)
@corpus("length", 1, 100, 3_000, 7_000, 12_000, 50_000, 100_000)
async def test_everything_that_will_be_sent_can_be_read_before_confirm(text: str, length: int) -> None:
    value = (text * length)[:length]
    assert write(value) in await everything({"text": value})


@corpus("text", *SIGNS)
async def test_as_much_as_a_dialog_may_hold_is_taken_by_the_platform(text: str) -> None:
    """In one value, and in as many as a card may name: at the bound nothing is refused by Slack's own limits."""
    at_most = MAX_DIALOG_BYTES * 1_000 // count_bytes((text * 1_000)[:1_000]) - 10
    value = (text * at_most)[:at_most]
    assert MAX_DIALOG_BYTES - 200 < count_bytes(value) <= MAX_DIALOG_BYTES
    assert write(value) in await everything({"text": value})
    each = at_most // (FACTS + 1)
    several = {f"a{number}": (text * each)[:each] for number in range(FACTS)}
    assert (await everything(several)).count(write(several["a0"])) == FACTS


async def test_what_no_dialog_holds_is_refused_in_words() -> None:
    with pytest.raises(ToolError, match=f"{MAX_DIALOG_BYTES} bytes"):
        await plan({"text": "x" * MAX_DIALOG_BYTES})
    with pytest.raises(ToolError, match=f"at most {FACTS} values"):
        await plan({str(number) + "a": number for number in range(FACTS + 1)})


async def test_a_long_text_does_not_push_short_ones_off_the_card() -> None:
    plan_ = await plan({"to": "Li", "text": "x" * (SHOWN + 1)})
    told = dict(words.describe_card_fields(plan_.fields, "en"))
    assert told["to"] == '"Li"' and "8003 characters" in told["text"]
    confirm = words.find_choice(plan_, "confirm")
    assert confirm is not None and [one.label for one in confirm.fields] == [{"zh": "text", "en": "text"}]
    assert confirm.inputs == ()
    held = words.find_choice(await plan({"to": "Li", "text": "x" * (SHOWN - 100)}), "confirm")
    assert held is not None and held.fields == (), "the control: what the card holds needs no dialog"


async def everything(arguments: dict[str, Any]) -> str:
    """What a person has read when they confirm: the card, and the dialog if it has one."""
    try:
        plan_ = await plan(arguments)
    except ToolError as error:
        assert error.code == "too_much" and str(MAX_DIALOG_BYTES) in error.text
        assert sum(map(count_bytes, arguments.values())) > MAX_DIALOG_BYTES
        return "".join(map(write, arguments.values()))
    assert plan_.args["arguments"] == arguments, "what is shown is what is sealed"
    facts = words.describe_card_fields(plan_.fields, "en")
    messages = render_post(Post("", card=Card("Title", facts, buttons=(Button("Confirm", "confirm", "A1", 1),))))
    for message in messages:
        validate({"text": message.text, "blocks": list(message.blocks)})
    assert [block["type"] for message in messages for block in message.blocks].count("actions") == 1
    assert messages[-1].blocks[-1]["type"] == "actions", "the button comes last, under all of it"
    return read([block for message in messages for block in message.blocks]) + read(dialog_of(plan_))


def dialog_of(plan_: Proposal) -> list[dict[str, Any]]:
    """The blocks of the dialog that *Confirm* opens, as Slack takes them."""
    approval = build_card(plan_, id="A" * 16, version=99, tool="crm__write", caller=USE.caller.id, place=None)
    place = Place(team="T1", channel="D1", direct=True)
    click = Click(id="C", approval=approval.id, version=99, choice="confirm", person=USE.caller.id, place=place)
    confirm = words.find_choice(plan_, "confirm")
    assert confirm is not None
    if not confirm.fields:
        return []
    shown_ = render_modal(words.render_dialog(approval, confirm, USE.caller.person, click))
    assert check_view(shown_) == [] and len(json.dumps(shown_).encode()) < VIEW_BYTES
    return list(shown_["blocks"])


def read(blocks: list[dict[str, Any]]) -> str:
    """What a person reads, in order."""
    sections = [block for block in blocks if block["type"] == "section"]
    texts = [one["text"] for block in sections for one in (block.get("fields") or [block["text"]])]
    inside = "".join(re.sub(r"```\n(.*)\n```", r"\1", text, flags=re.DOTALL) for text in texts)
    return unescape_text(inside).replace("⟨U+0060⟩", "`").replace("\n", "")


@corpus("name", "", "a\u200b", "a\u202eb", "a\nb", "a\u3164", "a\u00a0b", "a › b", "x" * 101, "😀" * 51)
async def test_a_name_that_a_card_cannot_show_is_refused(name: str) -> None:
    assert (await refused(plan({name: 1}))).code == "too_much"
