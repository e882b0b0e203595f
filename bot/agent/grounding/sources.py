"""Checks an answer against the sources that may support it.

Sources are this run's observations and the arguments of its reads, the conversation's history, the system's facts, the
person's message, and what the engine says now of the requests that the answer names. The model's own words in this run
never count, and neither do marked answers in the history."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from itertools import chain, zip_longest
from typing import Any

from bot.agent.grounding import claims
from bot.agent.grounding.claims import ClaimSource
from bot.agent.grounding.name_index import NameRoll, Spellings
from bot.agent.grounding.records import RequestRecords, collect_records, flatten_value, parse_json_or_text
from bot.agent.grounding.sentences import find_requests, normalize_text
from bot.agent.recall import (
    ARGUMENTS_ROLE,
    CALLED,
    cut_observation_prefix,
    cut_unverified_lines,
    is_marked_unverified,
    list_call_results,
    list_grounding_messages,
    parse_event_lines,
    parse_observation,
    parse_own_words,
)
from bot.core.errors import ChatError
from bot.core.history_entries import HistoryMessage
from bot.core.run_state import CallStatus, RunState
from tools.people.same_list import remember_by_list
from tools.spec import Person
from tools.think.tool import THINK

UNVERIFIED_PREFIX = "[unverified: "
"""Prefix of the unsupported parts in an answer that an earlier version stored."""
RECEIPT_PREFIXES = ("系统记录：", "On record: ")
"""The start of a receipt, in each language."""
MAX_RECORDS, MAX_RECORD = 12, 300
"""Most records shown to a model that corrects its answer, and characters of each."""
_WRITTEN = re.compile(r"\A<message [^>\n]{0,200}>\n")


async def list_nobody() -> Sequence[Person]:
    return ()


async def load_no_requests(numbers: Sequence[str]) -> Sequence[Mapping[str, Any]]:
    return ()


@remember_by_list
def list_spellings(people: Sequence[Person]) -> NameRoll:
    return NameRoll(tuple(name for name in (one.name, *one.names) if name) for one in people)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundingFindings:
    """The unsupported parts of an answer, in its own words."""

    unsupported: tuple[str, ...] = ()
    claim_count: int = 0
    records: Sequence[str] = ()
    """The known lines about the requests in the answer."""


@dataclass(frozen=True)
class EarlierMessage:
    """A message of an earlier run. Each form of its text is computed once, when it is first needed. A conversation has
    many messages, and most answers need none of them."""

    role: str
    content: str

    @cached_property
    def value(self) -> Any:
        """The message's content, parsed if it is JSON."""
        return _parse_json_value(cut_observation_prefix(self.content))

    @cached_property
    def text(self) -> str:
        """The message's text. For JSON, the words and numbers in it."""
        return flatten_value(self.value)


@dataclass(frozen=True)
class GroundingSources:
    facts: Sequence[str] = ()
    """Texts that the system told the model: the person, open cards, who approves what."""
    history: Sequence[HistoryMessage] = ()
    """Messages of earlier runs, with their calls."""
    people: Callable[[], Awaitable[Sequence[Person]]] = field(default=list_nobody)
    """Loads the people in the directory."""
    requests: Callable[[Sequence[str]], Awaitable[Sequence[Mapping[str, Any]]]] = field(default=load_no_requests)
    """Loads what the engine says now of requests, by their numbers."""
    days: str = ""
    """The days off by name in the prompt's calendar."""

    async def check_answer(self, answer: str, state: RunState, today: date) -> GroundingFindings:
        """Find the parts of the answer that nothing supports. `today` is the caller's."""
        numbers = find_requests(normalize_text(answer))
        people: Sequence[Spellings] = ()
        with suppress(ChatError):  # an answer does not wait for a platform that cannot be reached
            people = list_spellings(await self.people())
        current = await self.requests(numbers)
        records = self.collect_records(state, current)
        sources = chain(self._list_claim_sources(state), map(ClaimSource, map(flatten_value, map(dict, current))))
        figures = claims.check_claims(answer, sources, today, people, records.lines)
        wrong = records.find_wrong_states(answer)
        concerned = numbers or list(records.changed)
        lines = [line for request in concerned for line in records.lines.get(request, ())]
        return GroundingFindings(
            unsupported=(*wrong, *(one for one in figures.unsupported if not any(one in clause for clause in wrong))),
            claim_count=figures.claim_count + len(wrong),
            records=[" ".join(line.split())[:MAX_RECORD] for line in dict.fromkeys(lines)][-MAX_RECORDS:],
        )

    def collect_records(self, state: RunState, current: Sequence[Mapping[str, Any]] = ()) -> RequestRecords:
        """Collect what is known of each request: from earlier messages, from this run, and now."""
        lines = list[str]()
        for one in self._earlier_messages:
            if one.role == "assistant":
                lines.append(extract_receipt(one.text))
            else:
                lines += parse_event_lines(one.text) if one.text.startswith(CALLED) else parse_own_words(one.text)
        calls = [call for one in self.history for call in one.calls or () if call.status != CallStatus.AWAITING]
        results: list[tuple[Any, dict[str, Any] | None]] = [(_parse_json_value(call.result), None) for call in calls]
        for call, text in zip(state.calls, list_call_results(state), strict=True):
            is_confirmed = bool(call.approval) and call.status is CallStatus.SUCCEEDED
            results.append((_parse_json_value(text), call.args if is_confirmed else None))
        return collect_records([*results, *((dict(one), None) for one in current)], lines)

    def _list_claim_sources(self, state: RunState) -> Iterator[ClaimSource]:
        """Yield the sources of claims. The fields that cards showed count too, because code has checked them and a
        person has seen them."""
        yield from map(ClaimSource, self.facts)
        for message, behind in zip_longest(self._earlier_messages, self._earlier_messages[1:]):
            if message.role != "assistant":
                yield ClaimSource(cut_unverified_lines(message.text), is_wish=message.role == ARGUMENTS_ROLE)
            elif not is_doubtful(message.text, behind.text if behind else ""):
                yield ClaimSource(message.text)
        yield ClaimSource(read_question(state), is_wish=True)
        for observed in map(json.loads, state.messages[1:]):
            if observed.get("role") not in ("assistant", "system"):
                yield ClaimSource(flatten_value(_read_message_value(observed)))
        for call in state.calls:
            if call.approval or (call.status is CallStatus.SUCCEEDED and call.tool != THINK.name):
                yield ClaimSource(flatten_value(call.args), is_wish=True)
        yield ClaimSource(self.days)  # last, because only a limited number of days is used

    @cached_property
    def _earlier_messages(self) -> Sequence[EarlierMessage]:
        return [EarlierMessage(role, content) for role, content in list_grounding_messages(self.history)]


def extract_receipt(answer: str) -> str:
    """Return the receipt under an answer that an earlier version stored with it, or an empty text. If a model writes
    such a line, `bot.agent.imitations` removes it."""
    last = answer.rpartition("\n[")[2]
    return last if last.startswith(RECEIPT_PREFIXES) else ""


def is_doubtful(answer: str, behind: str) -> bool:
    """Return whether a stored answer was marked as unverified, in itself or by the event after it. Such an answer
    supports nothing."""
    return UNVERIFIED_PREFIX in answer or is_marked_unverified(behind)


def read_question(state: RunState) -> str:
    """Return the person's own words that began the run."""
    if not state.messages:
        return ""
    text = flatten_value(_read_message_value(json.loads(state.messages[0])))
    return _WRITTEN.sub("", text).removesuffix("\n</message>")


def _read_message_value(message: dict[str, Any]) -> Any:
    return _parse_json_value(parse_observation(message))


def _parse_json_value(text: str) -> Any:
    return parse_json_or_text(text) if text[:1] in ("{", "[") else text
