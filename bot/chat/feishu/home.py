"""Renders a person's Home and its dialogs as Feishu cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.chat.feishu.cards import RenderedCard
from bot.chat.messages import FormProblem, HomeDialog, HomeView


def render_home(view: HomeView, language: str) -> RenderedCard:
    """Render Home. An entry is shown whole, or counted and left out."""
    raise NotImplementedError


def render_home_dialog(
    dialog: HomeDialog, language: str, *, typed: Mapping[str, str] | None = None, problems: Sequence[FormProblem] = ()
) -> RenderedCard:
    """Render a dialog of Home."""
    raise NotImplementedError
