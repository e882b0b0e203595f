"""The arguments of a pressed card: those that the card showed, and those that the press adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.chat.messages import Click
from bot.core.records import Approval
from tools.spec import CardChoice


def merge_args(approval: Approval, choice: CardChoice | None, form: Mapping[str, str]) -> dict[str, Any]:
    """Merge the card's arguments with those of the pressed button and its dialog. The check and the effect both use
    this."""
    return {**approval.proposal.args, **(choice.fixed_args if choice else {}), **form}


def edit_args(approval: Approval, click: Click) -> dict[str, Any]:
    """Merge the card's arguments with the changes from its dialog."""
    return {**approval.proposal.args, **(click.form or {})}
