"""Replies as models write them, style by style: each is read as what it says, or not at all."""

import pytest

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.model import ModelReply
from tests.agent.formats.small import MALFORMED, TOOLS, Expected, act, read_replies, seen

CALL = '{"type": "tool_call", "tool": "look", "args": {"name": "Li"}, "reason_summary": "why"}'
LONG: dict[str, dict[str, tuple[str, Expected]]] = {
    "text": {
        "deep": (f"Action: look\nAction Input: {'[' * 500}{']' * 500}", MALFORMED),
        "long": (f"Thought: {'x' * 500}\nAction: look[Li]", act("look", "x" * 280, name="Li")),
    },
    "json": {
        "array of too many": (f"[{', '.join([CALL] * 9)}]", MALFORMED),
        "deep": ('{"a":' * 300 + "1" + "}" * 300, MALFORMED),
    },
}
"""What is too long for the files `text_replies.toml` and `json_replies.toml`."""


def test_a_reply_is_read_as_what_it_says(subtests: pytest.Subtests) -> None:
    for style, count in ((TextFormat(), 229), (JsonFormat(), 80)):
        cases = read_replies(style.name) | LONG[style.name]
        assert len(cases) == count
        for name, (reply, expected) in cases.items():
            with subtests.test(f"{style.name}: {name}"):
                assert seen(style.parse_reply(ModelReply(text=reply), TOOLS, most=8), expected) == expected


def test_the_json_manual_asks_for_no_array_because_the_endpoint_allows_none() -> None:
    assert "array" not in JsonFormat().render_instructions(TOOLS)
    assert '"response_format":{"type":"json_object"}' in JsonFormat().build_extra_body(TOOLS)
