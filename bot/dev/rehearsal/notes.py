"""Answers what the program asks for itself, by fixed rules: notes on older turns (the beginning of every message, the
lines on record), and a correction, which repeats the answer unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bot.core.i18n import translate
from bot.dev.rehearsal.scene import PlannedReply, detect_language, join_content_text

WANTED, CORRECTED = '{"lines": [', "Your answer below has not been sent yet"
"""Texts in the system rules that mark a request for notes, and one for a correction."""
BEGINNING = 60
"""Maximum characters of a message in a note."""
NOTED = re.compile(r"^- (.+)$", re.M)
OPENED = re.compile(r"<(message|answer|event)\b[^<>]*+>")


def build_notes(messages: Sequence[Mapping[str, Any]]) -> PlannedReply | None:
    """Build the reply to a request for notes or for a correction; None for any other request."""
    rules, *told = [join_content_text(message.get("content")) for message in messages] or [""]
    if told and CORRECTED in rules:
        answer, end, _ = told[0].partition("<answer>\n")[2].rpartition("\n</answer>")
        return PlannedReply(answer) if end else None
    if not told or WANTED not in rules:
        return None
    before, mark, turns = told[0].rpartition("</summary>\n")
    known = NOTED.findall(before) if mark else []
    lines = [translate("rehearsal.notes", detect_language([turns], "zh")), *known, *list_note_lines(turns)]
    return PlannedReply(json.dumps({"lines": list(dict.fromkeys(lines))}, ensure_ascii=False))


def list_note_lines(turns: str) -> Iterator[str]:
    tag = ""
    for line in turns.splitlines():
        if (opened := OPENED.fullmatch(line)) or line.startswith("</"):
            tag = opened[1] if opened and "kind=" not in line else ""
        elif tag == "message":
            yield " ".join(line.split())[:BEGINNING]
            tag = ""
        elif tag == "event" or (tag == "answer" and line[:1] == "[" and line[-1:] == "]"):
            yield " ".join(line.strip("[]").split())[: 2 * BEGINNING]
