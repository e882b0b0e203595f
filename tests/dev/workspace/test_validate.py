"""A corpus of what the platform accepts and what it refuses."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.dev.workspace.validate import check_blocks, check_metadata, check_view
from bot.dev.workspace.world import Json
from tests.dev.workspace.blocks import actions, button, field, modal, mrkdwn, option, options, plain, section, select
from tests.harness.spoilt import list_paths, replace_part

VALID: dict[str, list[Json]] = {
    "nothing": [],
    "section": [section()],
    "fifty blocks": [{"type": "divider"}] * 50,
    "fields only": [{"type": "section", "fields": [mrkdwn()] * 10}],
    "3000 characters": [section(text=mrkdwn("x" * 3000))],
    "header": [{"type": "header", "text": plain("x" * 150)}],
    "context": [{"type": "context", "elements": [mrkdwn(), plain()]}],
    "buttons": [actions(*(button(str(n)) for n in range(25)))],
    "styled": [actions(button(style="danger", value="v" * 2000))],
    "same action id in two blocks": [actions(button(), block_id="1"), actions(button(), block_id="2")],
    "select": [actions(select(*options(*map(str, range(100)))))],
    "initial option": [actions(select(*options("0", "1"), initial_option=option("1", "1")))],
    "date": [actions({"type": "datepicker", "action_id": "d", "initial_date": "2026-11-02"})],
    "markdown": [{"type": "markdown", "text": "# x"}],
    "input": [field()],
    "rich text": [
        {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "x"}]}]}
    ],
    "checkboxes": [actions(select(*options(*"0123456789"), type="checkboxes"))],
    "plan": [{"type": "plan", "title": "Steps", "tasks": [{"task_id": "1", "title": "one", "status": "complete"}]}],
}

INVALID: dict[str, tuple[list[Any], str]] = {
    "51 blocks": ([{"type": "divider"}] * 51, "no more than 50 items"),
    "not an object": (["x"], "must be an object"),
    "no type": ([{"text": mrkdwn()}], "missing required field: type"),
    "unknown block": ([{"type": "bogus"}], "unsupported type: bogus"),
    "a block that the bot never sends": ([{"type": "image", "alt_text": "i"}], "unsupported type: image"),
    "an element that the bot never sends": ([actions({"type": "overflow"})], "unsupported type: overflow"),
    "a question before a press": (
        [actions(button(confirm={"title": plain()}))],
        "invalid additional property: confirm",
    ),
    "unknown property": ([section(colour="red")], "invalid additional property: colour"),
    "no text": ([{"type": "section"}], "missing required field"),
    "empty text": ([section(text=mrkdwn(""))], "must be more than 0 characters"),
    "text too long": ([section(text=mrkdwn("x" * 3001))], "must be less than 3001 characters"),
    "text without a type": ([section(text={"text": "x"})], "missing required field: type"),
    "text not a string": ([section(text={"type": "mrkdwn", "text": 1})], "must be a string"),
    "text a bare string": ([section(text="x")], "must be an object"),
    "eleven fields": ([section(fields=[mrkdwn()] * 11)], "no more than 10 items"),
    "field too long": ([section(fields=[mrkdwn("x" * 2001)])], "must be less than 2001"),
    "header too long": ([{"type": "header", "text": plain("x" * 151)}], "must be less than 151"),
    "mrkdwn header": ([{"type": "header", "text": mrkdwn()}], "unsupported type: mrkdwn"),
    "context too many": ([{"type": "context", "elements": [mrkdwn()] * 11}], "no more than 10 items"),
    "context empty": ([{"type": "context", "elements": []}], "no less than 1 items"),
    "button in context": ([{"type": "context", "elements": [button()]}], "unsupported type: button"),
    "actions empty": ([actions()], "no less than 1 items"),
    "actions too many": ([actions(*(button(str(n)) for n in range(26)))], "no more than 25 items"),
    "text input in actions": ([actions({"type": "plain_text_input", "action_id": "i"})], "unsupported type"),
    "unknown element": ([actions({"type": "slider"})], "unsupported type: slider"),
    "button without text": ([actions({"type": "button", "action_id": "a"})], "missing required field: text"),
    "button text too long": ([actions(button(text=plain("x" * 76)))], "must be less than 76"),
    "button text empty": ([actions(button(text=plain("")))], "must be more than 0"),
    "mrkdwn button": ([actions(button(text=mrkdwn()))], "unsupported type: mrkdwn"),
    "button value too long": ([actions(button(value="x" * 2001))], "must be less than 2001"),
    "button value not a string": ([actions(button(value=1))], "must be a string"),
    "button style": ([actions(button(style="green"))], "must be one of"),
    "button url": ([actions(button(url="nonsense"))], "must be a valid URL"),
    "action id too long": ([actions(button("x" * 256))], "must be less than 256"),
    "block id too long": ([section(block_id="x" * 256)], "must be less than 256"),
    "same action id twice": ([actions(button(), button())], "`action_id` already exists"),
    "same block id twice": ([section(block_id="b"), section(block_id="b")], "`block_id` already exists"),
    "select without options": ([actions(select())], "no less than 1 items"),
    "select without anything": ([actions({"type": "static_select"})], "missing required field: options"),
    "101 options": ([actions(select(*options(*map(str, range(101)))))], "no more than 100 items"),
    "option text too long": ([actions(select(option("x" * 76)))], "must be less than 76"),
    "option value too long": ([actions(select(option(value="x" * 151)))], "must be less than 151"),
    "same option value twice": ([actions(select(option(), option()))], "option values must be unique"),
    "initial option elsewhere": ([actions(select(option(), initial_option=option("y", "y")))], "initial option"),
    "date format": ([actions({"type": "datepicker", "initial_date": "2.11.2026"})], "YYYY-MM-DD"),
    "input without label": ([{"type": "input", "element": field()["element"]}], "missing required field: label"),
    "button as input": ([field(button())], "unsupported type: button"),
    "placeholder too long": (
        [field({"type": "plain_text_input", "action_id": "i", "placeholder": plain("x" * 151)})],
        "must be less than 151",
    ),
    "max_length too long": ([field({"type": "plain_text_input", "max_length": 3001})], "min_length and max_length"),
    "markdown too long": ([{"type": "markdown", "text": "x" * 6001}] * 2, "markdown text must be less than"),
}


def test_what_the_platform_accepts_is_accepted() -> None:
    assert {name: problems for name, blocks in VALID.items() if (problems := check_blocks(blocks))} == {}


def test_what_the_platform_refuses_is_refused_where_it_stands(subtests: pytest.Subtests) -> None:
    for name, (blocks, words) in INVALID.items():
        with subtests.test(name):
            problems = check_blocks(blocks)
            assert any(words in problem for problem in problems), problems
            assert all(one.startswith("[ERROR] ") and "[json-pointer:/blocks" in one for one in problems)


VALID_VIEWS: list[Json] = [
    modal(),
    modal(private_metadata="x" * 3000, callback_id="x" * 255, close=plain("x" * 24)),
    modal(section(), submit=None),
    modal(*[{"type": "divider"}] * 100),
    {"type": "home", "blocks": [section(), actions(button())]},
]
INVALID_VIEWS: dict[str, tuple[Json, str]] = {
    "title too long": (modal(title=plain("x" * 25)), "must be less than 25"),
    "no title": (modal(title=None), "missing required field: title"),
    "mrkdwn title": (modal(title=mrkdwn()), "unsupported type: mrkdwn"),
    "submit too long": (modal(submit=plain("x" * 25)), "must be less than 25"),
    "input without submit": ({k: v for k, v in modal().items() if k != "submit"}, "missing required field: submit"),
    "private metadata too long": (modal(private_metadata="x" * 3001), "must be less than 3001"),
    "callback id too long": (modal(callback_id="x" * 256), "must be less than 256"),
    "no blocks": (modal(blocks=[]), "no less than 1 items"),
    "101 blocks": (modal(*[{"type": "divider"}] * 101), "no more than 100 items"),
    "unknown type": ({"type": "popup", "blocks": [section()]}, "unsupported type: popup"),
    "unknown property": (modal(colour="red"), "invalid additional property"),
    "home with submit": ({"type": "home", "blocks": [section()], "submit": plain()}, "invalid additional property"),
    "markdown in a modal": (modal({"type": "markdown", "text": "x"}), "unsupported type: markdown"),
    "bad block": (modal(section(text=mrkdwn("x" * 3001))), "/view/blocks/0/text/text"),
}


def test_views_are_accepted_and_refused_alike() -> None:
    assert [problems for view in VALID_VIEWS if (problems := check_view(view))] == []
    found = {name: check_view(view) for name, (view, _) in INVALID_VIEWS.items()}
    missed = {name: found[name] for name, (_, words) in INVALID_VIEWS.items() if words not in " ".join(found[name])}
    assert missed == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300)
@given(st.data())
def test_spoilt_blocks_are_answered_never_crash(data: st.DataObject) -> None:
    """Any valid payload with any one value in it replaced by any JSON."""
    blocks = VALID[data.draw(st.sampled_from(sorted(VALID)))]
    spoilt = replace_part(blocks, data.draw(st.sampled_from(list_paths(blocks))), data.draw(JSON))
    assert all(isinstance(problem, str) for problem in check_blocks(spoilt))
    assert isinstance(check_view({"type": "modal", "title": plain(), "blocks": spoilt}), list)


@given(st.data())
def test_spoilt_views_are_answered_never_crash(data: st.DataObject) -> None:
    view = data.draw(st.sampled_from(VALID_VIEWS[:2]))
    spoilt = replace_part(view, data.draw(st.sampled_from(list_paths(view))), data.draw(JSON))
    assert isinstance(check_view(spoilt), list)


@given(JSON)
def test_any_metadata_is_answered(metadata: Any) -> None:
    assert isinstance(check_metadata(metadata), list)
