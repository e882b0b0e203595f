"""A person's Home tab as a Slack view."""

from __future__ import annotations

import json
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
from bot.chat.slack.forms import render_open_button
from bot.chat.slack.payload_shape import is_short_text
from bot.core.i18n import translate

MAX_BLOCKS = 96
"""Most blocks of cards; Slack takes 100."""
MAX_BYTES = 60_000
"""Most bytes, well below Slack's limit for a view (about 250 kB)."""


def render_home_view(home: HomeView, language: str, dm: str = "") -> dict[str, Any]:
    """The Home tab. `dm`: the channel that its cards belong to; it comes back with every press. A card is shown whole
    or, when the page is full, counted and left out: its buttons never stand under half of what they do."""
    blocks, left = [*render_heading(home.title), *render_open_button(home.request)], 0
    for number, (title, cards, empty) in enumerate(home.sections):
        blocks += render_heading(title)
        blocks += [] if cards else list(render_context(empty))
        for index, card in enumerate(cards):
            page = [*blocks, *_render_home_card(card, f"{number}.{index}.")]
            fits = len(page) + 2 * len(home.sections) <= MAX_BLOCKS and count_json_bytes(page) <= MAX_BYTES
            blocks, left = (page, left) if fits else (blocks, left + 1)
    if left:
        blocks += render_context(translate("slack.more_at_home", language, count=left))
    return {"type": "home", "blocks": blocks, "private_metadata": json.dumps({"dm": dm})}


def parse_home_dm(metadata: object) -> str:
    """The channel that a page names; empty where it names none."""
    try:
        named = json.loads(metadata).get("dm") if isinstance(metadata, str) else ""
    except (AttributeError, ValueError, RecursionError):
        return ""
    return named if is_short_text(named) and named.startswith("D") else ""


def _render_home_card(card: Card, where: str) -> Iterator[Block]:
    yield from render_card_title(card.title)
    yield from render_card_content(card)
    yield from render_actions(card.buttons, where)
    yield {"type": "divider"}
