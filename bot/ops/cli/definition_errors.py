"""Explain why a process file is refused, in the reader's language, with the line of each element."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from string import Formatter

from bot.core.i18n import load_sentences, translate
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.bpmn.xml import find_line
from tools.workflow.process.checks import FORM
from tools.workflow.process.form_lines import split_place

TOPIC = "definition."
INNER = "why"
"""Name of the part of a reason that is a reason itself."""
MAX_DEPTH = 5


def describe_definition_error(error: InvalidDefinitionError, source: bytes, language: str) -> str:
    """Describe an error as `line 12, manager: …`, or in a form as `line 12, policy row 2, who: …`."""
    element, reason = error.element, " ".join(error.reason.split())
    line = error.line or (0 if element == FORM else find_line(source, element))
    if element == FORM:
        place, reason = split_place(reason)
        if place is None:
            element = translate("processes.form", language)
        elif place.field:
            element = translate("processes.form_field", language, field=place.field)
        elif place.table:
            row = "processes.form_row_part" if place.part else "processes.form_row"
            element = translate(row, language, table=place.table, row=place.row, part=place.part)
        else:
            element = ", ".join(filter(None, (place.key, place.part)))
    key = "processes.problem_at" if line else "processes.problem"
    return translate(key, language, line=line, element=element, reason=translate_reason(reason, language))


def translate_reason(reason: str, language: str, depth: int = 0) -> str:
    """Translate the compiler's reason, found by its English sentence. A reason without a translation stays as it is."""
    for key, pieces in _list_sentences() if depth < MAX_DEPTH else ():
        if (parts := _match_sentence(pieces, reason)) is not None:
            if INNER in parts:
                parts = {**parts, INNER: translate_reason(parts[INNER], language, depth + 1)}
            return translate(key, language, **parts)
    return reason


@cache
def _list_sentences() -> tuple[tuple[str, tuple[tuple[str, str | None], ...]], ...]:
    """List the key and the English sentence of every reason, those with the most words first.

    A sentence is a tuple of pairs (words, name of the part that follows them)."""
    english = {key: words.get("en", "") for key, words in load_sentences().items() if key.startswith(TOPIC)}
    pieces = {
        key: tuple((words, name) for words, name, _, _ in Formatter().parse(text)) for key, text in english.items()
    }
    return tuple(sorted(pieces.items(), key=lambda item: -sum(len(words) for words, _ in item[1])))


def _match_sentence(pieces: tuple[tuple[str, str | None], ...], text: str) -> Mapping[str, str] | None:
    """Return the parts of a text that matches this sentence, or None. Each part ends where the next words first
    occur."""
    joined: list[tuple[str, str | None]] = []
    for words, name in pieces:
        if joined and joined[-1][1] is None:  # words are split by escaped braces, with no part between them
            joined[-1] = (joined[-1][0] + words, name)
        else:
            joined.append((words, name))
    first, *rest = joined
    if not text.startswith(first[0]) or (not rest and first[1] is None and text != first[0]):
        return None
    at, name, parts = len(first[0]), first[1], dict[str, str]()
    for number, (words, following) in enumerate(rest):
        is_last = number == len(rest) - 1 and following is None
        end = len(text) - len(words) if is_last and text.endswith(words) else text.find(words, at) if words else -1
        if name is None or end < at or (is_last and not text.endswith(words)):
            return None
        parts[name] = text[at:end]
        at, name = end + len(words), following
    if name is not None:
        parts[name] = text[at:]
    return parts
