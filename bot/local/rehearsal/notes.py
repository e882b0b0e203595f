"""Notes on older turns, as rules can take them: how every message begins, and what is on record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bot.local.rehearsal.reply import Reply
from bot.local.rehearsal.scene import language_of, text_of
from bot.texts import say

WANTED = '{"lines": ['
"""What the rules ask for where notes are wanted."""
BEGINNING = 60
"""Characters of a message that are noted."""
NOTED = re.compile(r"^- (?P<line>.+)$", re.M)
TOLD = re.compile(
    r"<message[^>]*>\n(?P<text>.*?)\n</message>|<answer>\n(?:.*?\n)?\[(?P<receipt>[^\n]+)\]\n</answer>", re.S
)


def notes(messages: Sequence[Mapping[str, Any]]) -> Reply | None:
    """The reply to a request for notes; None for any other."""
    rules, *told = [text_of(message.get("content")) for message in messages] or [""]
    if not told or WANTED not in rules:
        return None
    before, mark, turns = told[0].rpartition("</summary>\n")
    lines = [found["line"] for found in NOTED.finditer(before)] if mark else []
    language = language_of([turns], "zh")
    lines = [say("rehearsal.notes", language), *lines, *_lines(turns)]
    return Reply(json.dumps({"lines": list(dict.fromkeys(lines))}, ensure_ascii=False))


def _lines(turns: str) -> Iterator[str]:
    for found in TOLD.finditer(turns):
        text = found["text"] or found["receipt"]
        yield " ".join(text.split())[: BEGINNING if found["text"] else 2 * BEGINNING]
