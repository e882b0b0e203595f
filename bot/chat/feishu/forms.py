"""Renders dialogs and forms as Feishu cards, and parses what was put in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bot.chat.feishu.cards import RenderedCard
from bot.chat.messages import Dialog, FormDialog, FormProblem


def render_dialog(
    dialog: Dialog,
    language: str,
    *,
    page: int = 0,
    values: Mapping[str, str] | None = None,
    typed: Mapping[str, str] | None = None,
    problems: Mapping[str, str] | None = None,
) -> RenderedCard | None:
    """Render a page of a dialog, counted from 0. `values` is the input of the pages before, and `typed` that of this
    page, which takes the place of the fields' values. Return None if it does not fit into a card."""
    raise NotImplementedError


def render_form(
    form: FormDialog, language: str, *, typed: Mapping[str, str] | None = None, problems: Sequence[FormProblem] = ()
) -> RenderedCard | None:
    """Render a page of a form. Return None if it does not fit into a card."""
    raise NotImplementedError


def render_closed_form(title: str, text: str) -> RenderedCard:
    """Render a form that was submitted or cancelled, without buttons."""
    raise NotImplementedError


def parse_form_value(given: object) -> dict[str, str]:
    """Return field → text of a submitted form (`action.form_value`), bounded. Inputs of one field are joined."""
    raise NotImplementedError
