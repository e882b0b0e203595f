"""The sources that may support an answer: this run's observations and the arguments of its reads, the conversation's
history, the system's facts, the person's message. What a model said in this run never counts, and neither do marked
answers in the history."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from itertools import zip_longest
from typing import Any

from bot.agent.grounding import claims
from bot.agent.grounding.actions import ActionEvidence, PerformedAction, find_false_actions, list_action_statements
from bot.agent.grounding.claims import ClaimCheckResult, ClaimSource
from bot.agent.grounding.name_index import NameRoll, Spellings
from bot.agent.prompt import SUMMARY_START
from bot.agent.recall import (
    ARGUMENTS_ROLE,
    cut_observation_prefix,
    cut_unverified_lines,
    is_marked_unverified,
    list_call_results,
    list_grounding_messages,
    parse_call_results,
    parse_observation,
    parse_own_words,
)
from bot.core.errors import ChatError
from bot.core.history_entries import HistoryMessage
from bot.core.run_state import CallRecord, CallStatus, RunState
from tools.people.same_list import remember_by_list
from tools.spec import Person

UNVERIFIED_PREFIX = "[unverified: "
"""Prefix of the unsupported parts in an answer that an earlier version stored."""
RECEIPT_PREFIXES = ("系统记录：", "On record: ")
"""The start of a receipt, in either language."""
MAX_STATEMENT_LENGTH = 160
"""Longest text in a result that can report an action, in characters; a longer one is a page of the handbook."""
MAX_DEPTH = 12
"""How deep nested values are searched."""
REPEATED_ACTION_ERRORS = frozenset({"urged_lately", "urged_enough", "asked_already", "started_already", "told_already"})
"""Errors that report an earlier action."""
THINK = "think"
"""The tool that takes any text of a model and looks nothing up."""
_TALK = ("user", "assistant")
_RECORDED = ("<event ", SUMMARY_START, "\n[")
"""What a message contains if it records something."""
_WRITTEN = re.compile(r"\A<message [^>\n]{0,200}>\n")


async def list_nobody() -> Sequence[Person]:
    return ()


@remember_by_list
def list_spellings(people: Sequence[Person]) -> NameRoll:
    """The names of people."""
    return NameRoll(tuple(name for name in (one.name, *one.names) if name) for one in people)


@dataclass(frozen=True, slots=True)
class GroundingFindings:
    """The unsupported parts of an answer."""

    figures: ClaimCheckResult = field(default_factory=ClaimCheckResult)
    actions: tuple[str, ...] = ()
    """Claimed actions without evidence, in the answer's words."""

    def __bool__(self) -> bool:
        return bool(self.figures.unsupported or self.actions)


@dataclass(frozen=True)
class EarlierMessage:
    """A message of an earlier run. Each form of it is made once, and only if it is asked for: a conversation has many
    messages, and most answers need none of them."""

    role: str
    content: str

    @cached_property
    def value(self) -> Any:
        """Its content; if it is JSON, the value of that."""
        return _parse_json_value(cut_observation_prefix(self.content))

    @cached_property
    def text(self) -> str:
        """Its text; for JSON, the words and numbers in it."""
        return flatten_value(self.value)


@dataclass(frozen=True)
class GroundingSources:
    facts: Sequence[str] = ()
    """What the system itself told the model: the person, open cards, who approves what."""
    history: Sequence[HistoryMessage] = ()
    """Messages of earlier runs, and their calls."""
    people: Callable[[], Awaitable[Sequence[Person]]] = field(default=list_nobody)
    """The people in the directory."""
    has_card: bool = False
    """A card waits in this conversation."""
    days: str = ""
    """The calendar days in the prompt."""

    async def check_answer(self, answer: str, state: RunState, today: date) -> GroundingFindings:
        """The parts of the answer that nothing supports. `today`: the caller's."""
        people = await self._load_names()
        figures = claims.check_claims(answer, self._list_claim_sources(state), today, people)
        return GroundingFindings(figures, find_false_actions(answer, self.collect_evidence(state, people)))

    async def _load_names(self) -> Sequence[Spellings]:
        """None while the platform cannot be reached: an answer does not wait for it."""
        with suppress(ChatError):
            return list_spellings(await self.people())
        return ()

    def collect_evidence(self, state: RunState, people: Sequence[Spellings] = ()) -> ActionEvidence:
        """The evidence that something was done."""
        observations = list(_list_observed_values(state))
        results = _list_result_values(state)
        return ActionEvidence(
            effects=[
                PerformedAction(call.tool, f"{flatten_value(call.args)}\n{flatten_value(result)}")
                for call, result in zip(state.calls, results, strict=True)
                if (call.status is CallStatus.SUCCEEDED and _has_effect(call)) or _is_refused_as_done(result)
            ]
            + [
                PerformedAction(call.tool, flatten_value(done))
                for call, result in zip(state.calls, results, strict=True)
                if (done := _get_done_parts(result))
            ],
            results=[line for one in observations for line in list_statements(one)],
            load_earlier_lines=lambda: list(self._list_earlier_lines()),
            question=_read_question(state),
            has_card=self.has_card or any(call.status is CallStatus.AWAITING for call in state.calls),
            people=people,
        )

    def list_receipts(self, state: RunState) -> list[str]:
        """What was done, one line each: for earlier messages from their receipts, for this run with the end of each
        call."""
        lines = [line for message in self._list_factual_messages() for line in _list_recorded_lines(message) if line]
        lines += [
            f"{one.tool} {flatten_value(one.args)}: {one.status.value}" for one in state.calls if _has_effect(one)
        ]
        return lines + (["a card waits for a button"] if self.has_card else [])

    def _list_claim_sources(self, state: RunState) -> Iterator[ClaimSource]:
        """What cards showed counts too: code has checked it, and a person has seen it."""
        yield from map(ClaimSource, self.facts)
        for message, behind in zip_longest(self._earlier_messages, self._earlier_messages[1:]):
            if message.role != "assistant":
                yield ClaimSource(
                    cut_unverified_lines(message.text),
                    is_wish=message.role == ARGUMENTS_ROLE,
                    counts=count_entries(message.value),
                )
            elif not is_doubtful(message.text, behind.text if behind else ""):
                yield ClaimSource(message.text)
        yield ClaimSource(_read_question(state), is_wish=True)
        yield from (ClaimSource(flatten_value(one), counts=count_entries(one)) for one in _list_observed_values(state))
        for call in state.calls:
            if call.approval or (call.status is CallStatus.SUCCEEDED and call.tool != THINK):
                yield ClaimSource(flatten_value(call.args), is_wish=True)
        yield ClaimSource(self.days)  # last: only a limited number of days is used

    def _list_earlier_lines(self) -> Iterator[str]:
        """Results of earlier messages, or the lines they were compacted to; and what is on record of them."""
        for message in self._list_factual_messages():
            yield from _list_recorded_lines(message)
            if message.role in ("tool", "system", "developer"):
                yield from list_statements(message.value)
            else:
                yield from parse_call_results(message.text)

    def _list_factual_messages(self) -> Iterator[EarlierMessage]:
        """Earlier messages except plain talk between people and the bot, which is most of a long conversation."""
        for message in self._earlier_messages:
            if message.role not in _TALK or any(sign in message.content for sign in _RECORDED):
                yield message

    @cached_property
    def _earlier_messages(self) -> Sequence[EarlierMessage]:
        return [EarlierMessage(role, content) for role, content in list_grounding_messages(self.history)]


def _list_recorded_lines(message: EarlierMessage) -> Sequence[str]:
    """Events that code has written, and facts of the summary, which were checked when it was made."""
    if message.role == "assistant":
        return [extract_receipt(message.text)]
    if message.role != "user":
        return []
    is_summary = message.text.startswith(SUMMARY_START)
    return list_action_statements(message.text) if is_summary else parse_own_words(message.text)


def _get_done_parts(result: Any) -> Any:
    """For a call that broke off half way: whom it was done for nevertheless."""
    parts = result.get("parts") if isinstance(result, dict) else None
    return parts.get("done") if isinstance(parts, dict) else None


def extract_receipt(answer: str) -> str:
    """The receipt under an answer that an earlier version stored with it; empty if there is none. A model that writes
    such a line has it removed (`bot.agent.imitations`)."""
    last = answer.rpartition("\n[")[2]
    return last if last.startswith(RECEIPT_PREFIXES) else ""


def is_doubtful(answer: str, behind: str) -> bool:
    """True if a stored answer was marked, in itself or by the event after it: then it supports nothing."""
    return UNVERIFIED_PREFIX in answer or is_marked_unverified(behind)


def flatten_value(value: Any, depth: int = MAX_DEPTH) -> str:
    """The words and numbers in a JSON value, one line each; also inside texts that are JSON themselves."""
    if depth and isinstance(value, dict):
        return "\n".join(f"{name} {flatten_value(one, depth - 1)}" for name, one in value.items())
    if depth and isinstance(value, list):
        return "\n".join(flatten_value(one, depth - 1) for one in value)
    if depth and isinstance(value, str) and value[:1] in ("{", "["):
        inner = parse_json_or_text(value)
        return value if isinstance(inner, str) else flatten_value(inner, depth - 1)
    return str(value)


def parse_json_or_text(text: str) -> Any:
    """The value of a JSON text, otherwise the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # it was cut, or something follows it
        return text.replace("\\n", "\n").replace('\\"', '"')


def list_statements(value: Any, depth: int = MAX_DEPTH) -> Iterator[str]:
    """The statements in a result: an object with its own short texts, or a line of a short text."""
    if isinstance(value, str):
        inner = parse_json_or_text(value) if depth and value[:1] in ("{", "[") else value
        if not isinstance(inner, str):
            yield from list_statements(inner, depth - 1)
        else:
            yield from (line for line in inner.splitlines() if line and len(line) <= MAX_STATEMENT_LENGTH)
    elif isinstance(value, dict):
        own = [
            f"{name} {one}"
            for name, one in value.items()
            if not isinstance(one, dict | list) and len(str(one)) <= MAX_STATEMENT_LENGTH
        ]
        own += [f"{name} {', '.join(map(str, one))}" for name, one in value.items() if _is_short_list(one)]
        yield " · ".join(own)
        if depth:
            for one in value.values():
                if isinstance(one, dict | list) or (isinstance(one, str) and one[:1] in ("{", "[")):
                    yield from list_statements(one, depth - 1)
    elif isinstance(value, list) and depth:
        for one in value:
            yield from list_statements(one, depth - 1)


def _is_short_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= 8 and all(isinstance(one, str) and len(one) <= 60 for one in value)


def count_entries(value: Any, depth: int = MAX_DEPTH) -> frozenset[int]:
    """The lengths of lists, and how many of their entries are alike in something."""
    if isinstance(value, str) and depth and value[:1] in ("{", "["):
        inner = parse_json_or_text(value)
        return frozenset() if isinstance(inner, str) else count_entries(inner, depth - 1)
    if not isinstance(value, dict | list) or not depth:
        return frozenset()
    lengths = {len(value)} if isinstance(value, list) else set[int]()
    if isinstance(value, list):
        alike = Counter(
            (name, str(one)[:MAX_STATEMENT_LENGTH])
            for entry in value
            if isinstance(entry, dict)
            for name, one in entry.items()
        )
        lengths |= {n for many in alike.values() for n in (many, len(value) - many)}
    for one in value.values() if isinstance(value, dict) else value:
        lengths |= count_entries(one, depth - 1)
    return frozenset(lengths)


def _has_effect(call: CallRecord) -> bool:
    """True for a call that had a card, or that cancels one."""
    return bool(call.approval) or call.tool == "cancel_card"


def _is_refused_as_done(result: Any) -> bool:
    """True for a call that was refused because the same was done before: then it was done."""
    return isinstance(result, dict) and result.get("error") in REPEATED_ACTION_ERRORS


def _list_result_values(state: RunState) -> list[Any]:
    """The result of each call."""
    return [_parse_json_value(one) for one in list_call_results(state)]


def _read_question(state: RunState) -> str:
    """What the person wrote."""
    if not state.messages:
        return ""
    return _WRITTEN.sub("", flatten_value(_read_message_value(json.loads(state.messages[0]))))


def _list_observed_values(state: RunState) -> Iterator[Any]:
    """What tools returned in this run, as values if it is JSON."""
    for message in map(json.loads, state.messages[1:]):
        if message.get("role") not in ("assistant", "system"):
            yield _read_message_value(message)


def _read_message_value(message: dict[str, Any]) -> Any:
    return _parse_json_value(parse_observation(message))


def _parse_json_value(text: str) -> Any:
    return parse_json_or_text(text) if text[:1] in ("{", "[") else text
