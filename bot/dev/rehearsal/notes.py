"""Notes on older turns by fixed rules: the beginning of every message, and the lines on record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bot.core.i18n import translate
from bot.dev.rehearsal.scene import PlannedReply, detect_language, join_content_text

WANTED = '{"lines": ['
"""Text in the system rules that marks a request for notes."""
BEGINNING = 60
"""Maximum characters of a message in a note."""
NOTED = re.compile(r"^- (?P<line>.+)$", re.M)
OPENED = re.compile(r"<(?P<tag>message|answer|event)(?P<about>[^<>]*+)>\n")


def build_notes(messages: Sequence[Mapping[str, Any]]) -> PlannedReply | None:
    """Build the reply to a request for notes; None for any other request."""
    rules, *told = [join_content_text(message.get("content")) for message in messages] or [""]
    if not told or WANTED not in rules:
        return None
    before, mark, turns = told[0].rpartition("</summary>\n")
    lines = [found["line"] for found in NOTED.finditer(before)] if mark else []
    language = detect_language([turns], "zh")
    lines = [translate("rehearsal.notes", language), *lines, *list_note_lines(turns)]
    return PlannedReply(json.dumps({"lines": list(dict.fromkeys(lines))}, ensure_ascii=False))


def list_note_lines(turns: str) -> Iterator[str]:
    at = 0
    while (opened := OPENED.search(turns, at)) is not None:
        end = turns.find(f"\n</{opened['tag']}>", opened.end() - 1)
        if end < 0:
            return
        at, said = end + 1, turns[opened.end() : end]
        if opened["tag"] == "message":
            yield " ".join(said.split())[:BEGINNING]
            continue
        if opened["tag"] == "event":
            yield from () if "kind=" in opened["about"] else (line[: 2 * BEGINNING] for line in said.splitlines())
            continue
        receipt = said.rpartition("\n")[2]
        if len(receipt) > 2 and receipt[0] == "[" and receipt[-1] == "]":
            yield " ".join(receipt[1:-1].split())[: 2 * BEGINNING]
