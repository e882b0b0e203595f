"""Replies as models write them, style by style: each is read as what it says, or not at all."""

from __future__ import annotations

import pytest

from bot.react.model import Reply
from bot.react.style import Style
from bot.react.styles.objects import Json
from bot.react.styles.text import Text
from tests.react.styles.corpus import objects, text
from tests.react.styles.small import TOOLS, Expected, seen

CASES = [
    pytest.param(style, reply, expected, id=f"{style.name}: {name}")
    for style, cases in ((Text(), text.CASES), (Json(), objects.CASES))
    for name, (reply, expected) in cases.items()
]


@pytest.mark.parametrize(("style", "reply", "expected"), CASES)
def test_a_reply_is_read_as_what_it_says(style: Style, reply: str, expected: Expected) -> None:
    assert seen(style.decide(Reply(text=reply), TOOLS, most=8), expected) == expected


def test_the_corpus_is_large() -> None:
    assert len(CASES) >= 200


def test_the_json_manual_asks_for_no_array_where_the_endpoint_allows_none() -> None:
    assert "array" in Json().manual(TOOLS) and "array" not in Json(mode=True).manual(TOOLS)
    assert '"response_format":{"type":"json_object"}' in Json(mode=True).body(TOOLS)
