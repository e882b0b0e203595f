"""A person's Home tab as a Slack view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bot.chat.messages import Card, HomeView
from bot.chat.slack.blocks import (
    Block,
    count_json_bytes,
    render_actions,
    render_card_content,
    render_card_title,
    render_context,
    render_heading,
)
from bot.core.i18n import translate

MAX_BLOCKS = 96
"""Most blocks of cards; Slack takes 100."""
MAX_BYTES = 60_000
"""Most bytes, well below Slack's limit for a view (about 250 kB)."""


def render_home_view(home: HomeView, language: str) -> dict[str, Any]:
    """The Home tab. If the page is full, a card is left out and counted, never shown in part: its buttons need all of
    its text above them."""
    blocks, omitted = render_heading(home.title), 0
    for number, (title, cards, empty) in enumerate(home.sections):
        blocks += render_heading(title)
        blocks += [] if cards else list(render_context(empty))
        for index, card in enumerate(cards):
            page = [*blocks, *_render_home_card(card, f"{number}.{index}.")]
            fits = len(page) + 2 * len(home.sections) <= MAX_BLOCKS and count_json_bytes(page) <= MAX_BYTES
            blocks, omitted = (page, omitted) if fits else (blocks, omitted + 1)
    if omitted:
        blocks += render_context(translate("slack.more_at_home", language, count=omitted))
    return {"type": "home", "blocks": blocks}


def _render_home_card(card: Card, where: str) -> Iterator[Block]:
    yield from render_card_title(card.title)
    yield from render_card_content(card)
    yield from render_actions(card.buttons, where)
    yield {"type": "divider"}
