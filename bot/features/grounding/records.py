"""Collects what results say of each request, and finds clauses that give a request a state it does not have. Pure.

No tool is known here by name. An object in a result is about the request whose number is one of its values."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.agent.request_numbers import IDENTIFIER, find_requests, normalize_text
from bot.features.grounding.sentences import OPEN, Clause, blank_examples, split_clauses

MAX_DEPTH = 12
"""Deepest nesting of values that is searched."""
_WORDS = {
    "approved": ("通过|批准|同意|批了", "approved", r"|approve[ds]?\b|agreed"),
    "rejected": ("驳回|拒绝", "rejected|declined|denied", "|reject|declin|revise"),
    "withdrawn": ("撤回|撤销", "withdrawn|revoked", "|withdr|revok"),
    "returned": ("退回", "returned", "|return|revise"),
}
"""The words for states that a request can end up in, in Chinese and in English; the sentences of cards and lists
(`[status]`, `[outcome]`) use them. Also further words by which a result tells of a state."""
_SEEN = {state: re.compile("|".join(words[:2]) + words[2], re.I) for state, words in _WORDS.items()}
_STATE_OF = {word: state for state, words in _WORDS.items() for some in words[:2] for word in some.split("|")}
_ZH, _EN = ("|".join(words[language] for words in _WORDS.values()) for language in (0, 1))
_SAID = re.compile(
    rf"(?:已经?|被|刚)[^,。;!?\n等待让请需要申不刚]{{0,10}}?(?P<after>{_ZH})|"
    rf"(?P<before>{_ZH})(?:(?<=了)|了|成功)(?!吗|么|没|再|就|之?后|的话)|\b(?P<en>{_EN})\b",
    re.I,
)


@dataclass
class RequestRecords:
    """Everything known of requests, by their numbers."""

    lines: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Number of a request → what results say of it, one text for each object, the newest last."""
    changed: dict[str, None] = field(default_factory=dict)
    """The requests that calls of this run have changed."""

    def add_result(self, result: Any, args: Mapping[str, Any] | None = None) -> None:
        """Add the objects of a result. `args` are those of a call that a person has confirmed, and count for the
        result's request."""
        result = parse_json(result)
        for value in _list_objects(result):
            if owner := _find_owner(value):
                self.lines[owner].append(flatten_value(value))
        if args is not None and isinstance(result, dict) and (owner := _find_owner(result)):
            self.lines[owner].append(flatten_value(dict(args)))
            self.changed[owner] = None

    def add_lines(self, lines: Iterable[str]) -> None:
        """Add recorded lines that are each about one request."""
        for line in lines:
            requests = find_requests(line)
            if len(requests) == 1:
                self.lines[requests[0]].append(line)

    def find_wrong_states(self, answer: str, question: str = "") -> tuple[str, ...]:
        """Return the clauses that give a request a state which no result tells of, each once. If its sentence has no
        request number, a clause is about the one request that this run has changed. A request without records has the
        states that the person's own words give it as a fact."""
        only = list(self.changed) if len(self.changed) == 1 else []
        wrong, told = dict[str, None](), dict[str, set[str]]()
        clauses = split_clauses(normalize_text(question))
        own = {(one, state) for clause in clauses for state, some in list_stated(clause, ()) for one in some}
        for clause in split_clauses(blank_examples(normalize_text(answer))):
            for state, requests in list_stated(clause, only):
                for request in requests:
                    if request not in told:
                        lines = self.lines.get(request, ())
                        told[request] = {one for one, seen in _SEEN.items() if any(map(seen.search, lines))}
                    if state not in told[request] and (request in self.lines or (request, state) not in own):
                        wrong[clause.text.strip(" \t\r\n,.;。!?")] = None
        return tuple(wrong)


def list_stated(clause: Clause, only: Sequence[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each state that a clause gives as a fact, with the requests that it is about: those before it in the
    clause, else those after it, else the only one of the sentence. Most clauses state nothing, so that is checked
    first."""
    if _SAID.search(clause.text) is None or clause.is_question or clause.is_conditional or OPEN.search(clause.text):
        return
    whole, start = clause.requests, 0
    for found in _SAID.finditer(clause.text):
        before = find_requests(clause.text[start : found.start()])
        requests = before or find_requests(clause.text[found.end() :]) or (whole if len(whole) == 1 else [])
        yield _STATE_OF[found[found.lastgroup or 0].lower()], requests or ([] if whole else only)
        start = found.end()


def _list_objects(value: Any, depth: int = MAX_DEPTH) -> Iterator[dict[str, Any]]:
    value = parse_json(value) if depth else None
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _list_objects(one, depth - 1)


def _find_owner(value: Mapping[str, Any]) -> str:
    """Return the request that an object is about, or an empty text if its values name none or several."""
    own = (one.strip() for one in value.values() if isinstance(one, str))
    requests = {request for one in own if IDENTIFIER.fullmatch(one) for request in find_requests(one)}
    return requests.pop() if len(requests) == 1 else ""


def flatten_value(value: Any, depth: int = MAX_DEPTH) -> str:
    """Return the words and numbers in a JSON value, also inside texts that are JSON themselves. Each is on a line that
    ends with a mark, so that it does not join the next."""
    value = parse_json(value) if depth else value
    if depth and isinstance(value, dict):
        unit = f" {value['currency']}" if isinstance(value.get("currency"), str) else ""
        texts = ((name, flatten_value(one, depth - 1)) for name, one in value.items())
        return ";\n".join(f"{name} {text}{unit if 'amount' in name else ''}" for name, text in texts)
    if depth and isinstance(value, list):
        return ";\n".join(flatten_value(one, depth - 1) for one in value)
    return str(value)


def parse_json(value: Any) -> Any:
    """Return the value of a text with a JSON object or array, and any other value as it is."""
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):  # the JSON is cut off, or other text follows
        return value.replace("\\n", "\n").replace('\\"', '"')
