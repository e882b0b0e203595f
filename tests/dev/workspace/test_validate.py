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
    "a length that is null": [field({"type": "plain_text_input", "action_id": "i", "max_length": None})],
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
    "no text": ([{"type": "section"}], "missing required field: text or fields"),
    "empty text": ([section(text=mrkdwn(""))], "must be more than 0 characters"),
    "text too long": ([section(text=mrkdwn("x" * 3001))], "must be less than 3001 characters"),
    "text not a string": ([section(text={"type": "mrkdwn", "text": 1})], "must be a string"),
    "mrkdwn header": ([{"type": "header", "text": mrkdwn()}], "unsupported type: mrkdwn"),
    "button in context": ([{"type": "context", "elements": [button()]}], "unsupported type: button"),
    "actions empty": ([actions()], "no less than 1 items"),
    "text input in actions": ([actions({"type": "plain_text_input", "action_id": "i"})], "unsupported type"),
    "button style": ([actions(button(style="green"))], "must be one of"),
    "a button that is a link": ([actions(button(url="https://example.com"))], "invalid additional property: url"),
    "same action id twice": ([actions(button(), button())], "`action_id` already exists"),
    "same block id twice": ([section(block_id="b"), section(block_id="b")], "`block_id` already exists"),
    "same option value twice": ([actions(select(option(), option()))], "option values must be unique"),
    "initial option elsewhere": ([actions(select(option(), initial_option=option("y", "y")))], "initial option"),
    "date format": ([actions({"type": "datepicker", "initial_date": "2.11.2026"})], "YYYY-MM-DD"),
    "button as input": ([field(button())], "unsupported type: button"),
    "max_length too long": ([field({"type": "plain_text_input", "max_length": 3001})], "max_length must be between"),
    "markdown too long": ([{"type": "markdown", "text": "x" * 6001}] * 2, "markdown text must be less than"),
    # Of `kit`, by which the bot's own blocks are judged: each limit, and what there has to be
    "eleven fields": ([section(fields=[mrkdwn()] * 11)], "no more than 10 items"),
    "field too long": ([section(fields=[mrkdwn("x" * 2001)])], "must be less than 2001"),
    "header too long": ([{"type": "header", "text": plain("x" * 151)}], "must be less than 151"),
    "context too many": ([{"type": "context", "elements": [mrkdwn()] * 11}], "no more than 10 items"),
    "context empty": ([{"type": "context", "elements": []}], "no less than 1 items"),
    "actions too many": ([actions(*(button(str(n)) for n in range(26)))], "no more than 25 items"),
    "button without text": ([actions({"type": "button", "action_id": "a"})], "missing required field: text"),
    "button text too long": ([actions(button(text=plain("x" * 76)))], "must be less than 76"),
    "mrkdwn button": ([actions(button(text=mrkdwn()))], "unsupported type: mrkdwn"),
    "button value too long": ([actions(button(value="x" * 2001))], "must be less than 2001"),
    "action id too long": ([actions(button("x" * 256))], "must be less than 256"),
    "block id too long": ([section(block_id="x" * 256)], "must be less than 256"),
    "select without options": ([actions(select())], "no less than 1 items"),
    "select without anything": ([actions({"type": "static_select"})], "missing required field: options"),
    "101 options": ([actions(select(*options(*map(str, range(101)))))], "no more than 100 items"),
    "option text too long": ([actions(select(option("x" * 76)))], "must be less than 76"),
    "option value too long": ([actions(select(option(value="x" * 151)))], "must be less than 151"),
    "input without label": ([{"type": "input", "element": field()["element"]}], "missing required field: label"),
    "placeholder too long": ([field({"type": "plain_text_input", "placeholder": plain("x" * 151)})], "less than 151"),
}


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
    "private metadata too long": (modal(private_metadata="x" * 3001), "must be less than 3001"),
    "callback id too long": (modal(callback_id="x" * 256), "must be less than 256"),
    "input without submit": ({k: v for k, v in modal().items() if k != "submit"}, "missing required field: submit"),
    "no blocks": (modal(blocks=[]), "no less than 1 items"),
    "101 blocks": (modal(*[{"type": "divider"}] * 101), "no more than 100 items"),
    "unknown type": ({"type": "popup", "blocks": [section()]}, "unsupported type: popup"),
    "home with submit": ({"type": "home", "blocks": [section()], "submit": plain()}, "invalid additional property"),
    "markdown in a modal": (modal({"type": "markdown", "text": "x"}), "unsupported type: markdown"),
    "bad block": (modal(section(text=mrkdwn("x" * 3001))), "/view/blocks/0/text/text"),
}


def test_what_the_platform_accepts_is_accepted_and_the_rest_is_refused_where_it_stands(
    subtests: pytest.Subtests,
) -> None:
    assert {name: problems for name, blocks in VALID.items() if (problems := check_blocks(blocks))} == {}
    assert [problems for view in VALID_VIEWS if (problems := check_view(view))] == []
    refused = {name: (check_blocks(blocks), words, "/blocks") for name, (blocks, words) in INVALID.items()}
    refused |= {name: (check_view(view), words, "/view") for name, (view, words) in INVALID_VIEWS.items()}
    for name, (problems, words, place) in refused.items():
        with subtests.test(name):
            assert any(words in problem for problem in problems), problems
            assert all(one.startswith("[ERROR] ") and f"[json-pointer:{place}" in one for one in problems)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300)
@given(st.data())
def test_what_is_spoilt_is_answered_and_never_crashes(data: st.DataObject) -> None:
    """Any valid payload with any one value in it replaced by any JSON."""
    blocks = VALID[data.draw(st.sampled_from(sorted(VALID)))]
    spoilt = replace_part(blocks, data.draw(st.sampled_from(list_paths(blocks))), data.draw(JSON))
    assert all(isinstance(problem, str) for problem in check_blocks(spoilt))
    assert isinstance(check_view({"type": "modal", "title": plain(), "blocks": spoilt}), list)
    view = data.draw(st.sampled_from(VALID_VIEWS[:2]))
    spoilt = replace_part(view, data.draw(st.sampled_from(list_paths(view))), data.draw(JSON))
    assert isinstance(check_view(spoilt), list)
    assert isinstance(check_metadata(data.draw(JSON)), list)
