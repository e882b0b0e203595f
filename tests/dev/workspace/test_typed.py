"""What people type arrives escaped and marked up, as from the platform's own composer."""

import re

from hypothesis import given
from hypothesis import strategies as st

from bot.dev.workspace.state import build_initial_state
from bot.dev.workspace.typed import mark_up_text
from bot.dev.workspace.world import read_world
from bot.platforms.slack.text import unescape_text

STATE = build_initial_state(read_world())


def typed(text: str, encoded: bool = False) -> str:
    return mark_up_text(text, STATE.people.values(), STATE.rooms.values(), encoded=encoded)


TYPED = {
    "<!channel> hi": "&lt;!channel&gt; hi",
    "<@U02LI>": "&lt;@U02LI&gt;",
    "a & b": "a &amp; b",
    "&lt;": "&amp;lt;",
    "@Countersign hello": "<@U0BOT> hello",
    "@countersign hello": "<@U0BOT> hello",
    "@countersigns": "@countersigns",
    "@李四你好": "<@U02LI>你好",
    "@Li Si, @lisi": "<@U02LI>, <@U02LI>",
    "@channel": "<!channel>",
    "see #general": "see <#C01GENERAL|general>",
    "http://a.example/x?y=1&z=2.": "<http://a.example/x?y=1&amp;z=2>.",
    "mail li@example.com": "mail <mailto:li@example.com|li@example.com>",
    "  trimmed  ": "trimmed",
    "🙂 שלום": "🙂 שלום",
}
"""What is typed → how it arrives."""
ENCODED = {
    "<@U0BOT> hi": "<@U0BOT> hi",
    "&lt;!channel&gt;": "&lt;!channel&gt;",
    "<!channel>": "&lt;!channel&gt;",
    "a & b &amp; c": "a &amp; b &amp; c",
}
"""What a client has encoded already → how it arrives."""


def test_what_is_typed_or_encoded_by_a_client_arrives_as_from_the_platforms_own_composer() -> None:
    assert {text: typed(text) for text in TYPED} == TYPED
    assert {text: typed(text, encoded=True) for text in ENCODED} == ENCODED


@given(st.text(max_size=200))
def test_nothing_typed_becomes_markup_by_itself(text: str) -> None:
    """What stands between `<` and `>` was put there by the composer: a link or address as typed, or a name's id."""
    arrived = typed(text)
    for mark in re.findall(r"<([^<>]*)>", arrived):
        assert re.match(r"@U|#C|!(channel|here|everyone)$|https?://|mailto:", mark)
        if mark.startswith(("http", "mailto")):
            assert unescape_text(mark.removeprefix("mailto:").split("|")[0]) in text
    assert re.sub(r"<[^<>]*>", "", arrived).count("<") == 0
