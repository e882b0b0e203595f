"""A correction of an answer, as rules can make it: they have said what they saw, and say it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot.local.rehearsal.reply import PlannedReply
from bot.local.rehearsal.scene import join_content_text

WANTED = "Your answer below has not been sent yet"
"""What the rules say where an answer is to be corrected."""


def build_correction(messages: Sequence[Mapping[str, Any]]) -> PlannedReply | None:
    """The reply to a request for a correction; None for any other."""
    rules, *told = [join_content_text(message.get("content")) for message in messages] or [""]
    if not told or WANTED not in rules:
        return None
    answer, end, _ = told[0].partition("<answer>\n")[2].rpartition("\n</answer>")
    return PlannedReply(answer) if end else None
