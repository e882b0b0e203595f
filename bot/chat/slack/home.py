"""A person's Home tab as a Slack view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bot.chat.slack.cards import Block, actions, content, context, heading, named, size
from bot.events import Card, Home
from bot.texts import say

BLOCKS = 96
"""Blocks of cards; Slack takes 100."""
BYTES = 60_000
"""Well below what Slack takes for a view (about 250 kB)."""


def view(home: Home, language: str) -> dict[str, Any]:
    """The Home tab. A card is shown whole or, when the page is full, counted and left out: its buttons
    never stand under half of what they do."""
    blocks, left = heading(home.title), 0
    for number, (title, cards, empty) in enumerate(home.sections):
        blocks += heading(title)
        blocks += [] if cards else list(context(empty))
        for index, card in enumerate(cards):
            page = [*blocks, *_card(card, f"{number}.{index}.")]
            fits = len(page) + 2 * len(home.sections) <= BLOCKS and size(page) <= BYTES
            blocks, left = (page, left) if fits else (blocks, left + 1)
    if left:
        blocks += context(say("slack.more_at_home", language, count=left))
    return {"type": "home", "blocks": blocks}


def _card(card: Card, where: str) -> Iterator[Block]:
    yield from named(card.title)
    yield from content(card)
    yield from actions(card.buttons, where)
    yield {"type": "divider"}
