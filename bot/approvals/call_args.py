"""The arguments of a pressed card: what was shown, with what the press adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.chat.messages import Click
from bot.core.records import Approval
from tools.spec import CardChoice


def merge_args(approval: Approval, choice: CardChoice | None, form: Mapping[str, str]) -> dict[str, Any]:
    """What was shown, plus what the pressed button and its dialog add: the same when it is checked and when it runs."""
    return {**approval.proposal.args, **(choice.fixed_args if choice else {}), **form}


def edit_args(approval: Approval, click: Click) -> dict[str, Any]:
    """What was shown, with what its dialog has changed."""
    return {**approval.proposal.args, **(click.form or {})}
