"""Renders posts as Feishu cards (JSON 2.0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bot.chat.messages import Place, Post


@dataclass(frozen=True, slots=True)
class RenderedCard:
    """One card, and its words for notifications."""

    content: dict[str, Any]
    text: str


def render_post(post: Post, place: Place) -> tuple[RenderedCard, ...]:
    """Render the cards that show this post, in order. The last one carries the buttons."""
    raise NotImplementedError
