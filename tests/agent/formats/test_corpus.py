"""Replies as models write them, style by style: each is read as what it says, or not at all."""

from __future__ import annotations

import pytest

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.model import ModelReply
from bot.agent.reply_format import ReplyFormat
from tests.agent.formats.corpus import json_format, text_format
from tests.agent.formats.small import TOOLS, Expected, seen

CASES = [
    pytest.param(style, reply, expected, id=f"{style.name}: {name}")
    for style, cases in ((TextFormat(), text_format.CASES), (JsonFormat(), json_format.CASES))
    for name, (reply, expected) in cases.items()
]


@pytest.mark.parametrize(("style", "reply", "expected"), CASES)
def test_a_reply_is_read_as_what_it_says(style: ReplyFormat, reply: str, expected: Expected) -> None:
    assert seen(style.parse_reply(ModelReply(text=reply), TOOLS, most=8), expected) == expected


def test_the_corpus_is_large() -> None:
    assert len(CASES) >= 200


def test_the_json_manual_asks_for_no_array_where_the_endpoint_allows_none() -> None:
    assert "array" in JsonFormat().render_instructions(TOOLS) and "array" not in JsonFormat(
        mode=True
    ).render_instructions(TOOLS)
    assert '"response_format":{"type":"json_object"}' in JsonFormat(mode=True).build_extra_body(TOOLS)
