"""Explain why a process file is refused, in the reader's language, with the line of each element."""

from __future__ import annotations

import re
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
    for key, sentence in _list_sentences() if depth < MAX_DEPTH else ():
        if found := sentence.fullmatch(reason):
            parts = found.groupdict()
            if INNER in parts:
                parts[INNER] = translate_reason(parts[INNER], language, depth + 1)
            return translate(key, language, **parts)
    return reason


@cache
def _list_sentences() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """List the key and the English sentence of every reason, those with the most words first. Each part of a sentence
    ends where the next words first occur, so that a pattern never looks back."""
    english = {key: words.get("en", "") for key, words in load_sentences().items() if key.startswith(TOPIC)}
    parsed = {key: [(words, name) for words, name, _, _ in Formatter().parse(text)] for key, text in english.items()}
    longest = sorted(parsed.items(), key=lambda item: -sum(len(words) for words, _ in item[1]))
    written = {
        key: "".join(re.escape(words) + (f")(?>(?P<{name}>.*?)" if name else "") for words, name in pieces)
        for key, pieces in longest
    }
    return tuple((key, re.compile(rf"(?>{pattern}\Z)", re.DOTALL)) for key, pattern in written.items())
