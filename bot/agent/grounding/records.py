"""Collects what results say of each request, and finds clauses that give a request a state it does not have. Pure.

No tool is known here by name. An object in a result is about the request whose number is one of its values."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.agent.grounding.claims import is_open_ended
from bot.agent.grounding.sentences import (
    IDENTIFIER,
    Clause,
    blank_examples,
    find_requests,
    normalize_text,
    split_clauses,
)

MAX_DEPTH = 12
"""Deepest nesting of values that is searched."""
MAX_SENTENCE = 400
"""Characters of a sentence in which its request is looked for."""
MAX_NUMBER = 40
"""Length in characters that no request number reaches."""
_WORDS = {
    "approved": ("通过|批准|同意|批了", "approved"),
    "rejected": ("驳回|拒绝", "rejected|declined|denied"),
    "withdrawn": ("撤回|撤销", "withdrawn|revoked"),
    "returned": ("退回", "returned"),
}
"""The words for states that a request can end up in, in Chinese and in English. The sentences of cards and lists
(`[status]`, `[outcome]`) use them."""
_SEEN = {
    "approved": re.compile(r"通过|批准|同意|批了|approve[ds]?\b|agreed", re.I),
    "rejected": re.compile(r"驳回|拒绝|reject|declin|denied|revise", re.I),
    "withdrawn": re.compile(r"撤回|撤销|withdr|revok", re.I),
    "returned": re.compile(r"退回|return|revise", re.I),
}
"""The words by which a result tells of these states."""
_STATE_OF = {word: state for state, words in _WORDS.items() for some in words for word in some.split("|")}
_ZH, _EN = ("|".join(words[language] for words in _WORDS.values()) for language in (0, 1))
_SAID = re.compile(
    rf"(?:已经?|被|刚)[^,。;!?\n等待让请需要申不刚]{{0,10}}?(?P<after>{_ZH})|"
    rf"(?P<before>{_ZH})(?:(?<=了)|了|成功)(?!吗|么|没|再|就|之?后|的话)|\b(?P<en>{_EN})\b",
    re.I,
)
_NOTHING = re.compile(r"\b(?:nothing|nobody|none|any|who|which|by whom)\b|谁", re.I)


@dataclass
class RequestRecords:
    """Everything known of requests, by their numbers."""

    lines: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Number of a request → what results say of it, one text for each object, the newest last."""
    seen: dict[tuple[str, str], bool] = field(default_factory=dict)
    """Cache of whether a result tells of a state of a request."""
    changed: dict[str, None] = field(default_factory=dict)
    """The requests that calls of this run have changed."""

    def add_result(self, result: Any, args: Mapping[str, Any] | None = None) -> None:
        """Add the objects of a result. `args` are those of a call that a person has confirmed, and count for the
        result's request."""
        for value in _list_objects(result):
            if owner := _find_owner(value):
                self.lines[owner].append(flatten_value(value))
        if args is not None and isinstance(result, dict) and (owner := _find_owner(result)):
            self.lines[owner].append(flatten_value(dict(args)))
            self.changed[owner] = None

    def add_line(self, line: str) -> None:
        """Add a recorded line about one request."""
        requests = find_requests(line)
        if len(requests) == 1:
            self.lines[requests[0]].append(line)

    def add_statements(self, text: str) -> None:
        """Add what a checked text states of requests, but not its questions, wishes and plans."""
        for clause in split_clauses(normalize_text(text)):
            for _, requests in _list_stated(clause, ()):
                for request in requests:
                    self.lines[request].append(clause.text)

    def find_wrong_states(self, answer: str, *, is_complete: bool = False) -> tuple[str, ...]:
        """Return the clauses that give a request a state which no result tells of, each once. If its sentence has no
        request number, a clause is about the one request that this run has changed. With `is_complete`, a request
        without records has no state."""
        only = list(self.changed) if len(self.changed) == 1 else []
        wrong = dict[str, None]()
        for clause in split_clauses(blank_examples(normalize_text(answer))):
            stated = ((state, request) for state, requests in _list_stated(clause, only) for request in requests)
            for state, request in stated:
                if not is_complete and request not in self.lines:
                    continue
                if (state, request) not in self.seen:  # nothing is searched twice
                    self.seen[state, request] = any(_SEEN[state].search(line) for line in self.lines.get(request, ()))
                if not self.seen[state, request]:
                    wrong[clause.text.strip(" \t\r\n,.;。!?")] = None
                    break
        return tuple(wrong)


def _list_stated(clause: Clause, only: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each state that a clause gives as a fact, with the requests that it is about: those before it in the
    clause, else those after it, else the only one of the sentence. Most clauses state nothing, so that is checked
    first."""
    if _SAID.search(clause.text) is None or clause.is_question or clause.is_conditional:
        return
    if is_open_ended(clause.text) or _NOTHING.search(clause.text):
        return
    whole, start = find_requests(clause.sentence[:MAX_SENTENCE]), 0
    for found in _SAID.finditer(clause.text):
        before = find_requests(clause.text[start : found.start()])
        requests = before or find_requests(clause.text[found.end() :]) or (whole if len(whole) == 1 else [])
        yield _STATE_OF[found[found.lastgroup or 0].lower()], requests or ([] if whole else only)
        start = found.end()


def _list_objects(value: Any, depth: int = MAX_DEPTH) -> Iterator[dict[str, Any]]:
    if isinstance(value, str) and value[:1] in ("{", "["):
        value = parse_json_or_text(value)
    if not depth or isinstance(value, str):
        return
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _list_objects(one, depth - 1)


def _find_owner(value: Mapping[str, Any]) -> str:
    """Return the request that an object is about, or an empty text if its values name none or several."""
    own = (one.strip() for one in value.values() if isinstance(one, str) and len(one) < MAX_NUMBER)
    requests = {request for one in own if IDENTIFIER.fullmatch(one) for request in find_requests(one)}
    return requests.pop() if len(requests) == 1 else ""


def flatten_value(value: Any, depth: int = MAX_DEPTH) -> str:
    """Return the words and numbers in a JSON value, also inside texts that are JSON themselves. Each is on a line that
    ends with a mark, so that it does not join the next."""
    if depth and isinstance(value, dict):
        unit = f" {value['currency']}" if isinstance(value.get("currency"), str) else ""
        texts = ((name, flatten_value(one, depth - 1)) for name, one in value.items())
        return ";\n".join(f"{name} {text}{unit if 'amount' in name else ''}" for name, text in texts)
    if depth and isinstance(value, list):
        return ";\n".join(flatten_value(one, depth - 1) for one in value)
    if depth and isinstance(value, str) and value[:1] in ("{", "["):
        inner = parse_json_or_text(value)
        return value if isinstance(inner, str) else flatten_value(inner, depth - 1)
    return str(value)


def parse_json_or_text(text: str) -> Any:
    """Return the value of a JSON text, otherwise the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # the JSON is cut off, or other text follows
        return text.replace("\\n", "\n").replace('\\"', '"')


def collect_records(results: Iterable[tuple[Any, Mapping[str, Any] | None]], lines: Iterable[str]) -> RequestRecords:
    """Collect the records of these results and recorded lines. A result comes with the arguments of its call if a
    person has confirmed the call."""
    records = RequestRecords()
    for line in lines:
        records.add_line(line)
    for result, args in results:
        records.add_result(result, args)
    return records
