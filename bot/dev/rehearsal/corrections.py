"""Correction of an answer by fixed rules, which repeat the answer unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bot.dev.rehearsal.scene import PlannedReply, join_content_text

WANTED = "Your answer below has not been sent yet"
"""Text in the system rules that marks a request for a correction."""


def build_correction(messages: Sequence[Mapping[str, Any]]) -> PlannedReply | None:
    """Build the reply to a request for a correction; None for any other request."""
    rules, *told = [join_content_text(message.get("content")) for message in messages] or [""]
    if not told or WANTED not in rules:
        return None
    answer, end, _ = told[0].partition("<answer>\n")[2].rpartition("\n</answer>")
    return PlannedReply(answer) if end else None
