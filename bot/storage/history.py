"""A conversation's history: its latest turns, limited by tokens, the oldest dropped first, all deleted after thirty
days. A long history begins with a summary of older turns.

The whole history is one list. Its values are `tokens:sum|…`: the cost of each, and the running sum of all that was ever
added. So the first and the last value tell how much the list holds, and whether turns are missing after the summary.
Each call of a run is one line in the list. A second list holds the calls of the latest runs themselves. Only the part
that is always sent is counted and compacted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from bot.core.history_entries import EntryKind, HistoryEntry, HistoryMessage, PastCall, estimate_tokens
from bot.queue.keys import Keys
from bot.queue.writes import AppendHistory, Delete, RPush, Write

RETENTION_MS = 30 * 24 * 3_600_000
CALL_TOKENS = 24
"""Tokens of a call besides its arguments and its result."""
TAB = "\t"
"""The separator between the parts of an entry: JSON contains no raw tab."""
_CALLS_MARK = f"{TAB}{EntryKind.CALLS.value}{TAB}"
"""The text that marks a stored entry with lines of calls."""
SUMMARY_MARK = "="
"""The text of a stored summary in the place of an entry's run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySummary:
    """A model's summary of older turns."""

    message: str
    """The text for the model, as JSON."""
    lines: tuple[str, ...]
    since_ms: int
    until_ms: int
    """Times of the first and the last entry that the summary covers (epoch ms)."""
    turns: int
    """Number of turns that the summary covers."""
    has_gap: bool = False
    """Whether entries among these were dropped for lack of room before they could be compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationHistory:
    """A conversation's history, oldest first."""

    stored_entries: Sequence[str]
    """The entries as stored: their text has all that every turn needs."""
    start: int = 0
    """Index of the first shown entry, which is never an answer whose question was trimmed."""
    stored_summary: str = ""
    """The stored summary of older turns."""
    calls: Sequence[str] = ()
    """The stored calls of the latest runs."""

    def list_messages(self, *, without: str) -> list[HistoryMessage]:
        """List the messages for a model with the calls of the latest runs themselves, each once and with its current
        end; older calls have a line each. `without`: the run to leave out."""
        calls_by_entry = parse_latest_calls(self.calls, without)
        latest_calls = {call.uid: call for calls in calls_by_entry.values() for call in calls}
        messages = list[HistoryMessage]()
        for value in [*filter(None, [self.stored_summary]), *self.stored_entries[self.start :]]:
            if f"|{without}{TAB}" in value:
                continue
            calls = None
            if calls_by_entry and _CALLS_MARK in value:
                run, at_ms, _, kind, *_ = [*value.partition("|")[2].split(TAB, 4), ""]
                calls = calls_by_entry.get(f"{run}{TAB}{at_ms}" if kind == EntryKind.CALLS else "")
            message_calls = (
                None if calls is None else [latest_calls.pop(call.uid) for call in calls if call.uid in latest_calls]
            )
            messages.append(HistoryMessage(value[value.rindex(TAB) + 1 :], message_calls))
        return messages

    def list_called_tools(self) -> list[str]:
        """List the names of the tools that the latest runs called, each once, the newest last."""
        called = [str(one[1]) for value in self.calls for one in json.loads(value.rpartition(TAB)[2])]
        return list(reversed(dict.fromkeys(reversed(called))))

    @property
    def entries(self) -> list[HistoryEntry]:
        return [parse_entry(value) for value in self.stored_entries[self.start :]]

    @property
    def summary(self) -> HistorySummary | None:
        if not self.stored_summary:
            return None
        _, since_ms, about, message = self.stored_summary.partition("|")[2].split(TAB, 3)
        until_ms, turns, missed, *lines = json.loads(about)
        return HistorySummary(
            message=message, lines=tuple(lines), since_ms=int(since_ms), until_ms=until_ms, turns=turns, has_gap=missed
        )

    @property
    def tokens(self) -> int:
        """The cost of the whole history."""
        tokens = parse_tokens(self.stored_summary) if self.stored_summary else 0
        if entries := self.stored_entries:
            tokens += parse_running_sum(entries[-1]) - _compute_sum_before(entries[0])
        return tokens

    @property
    def has_gap(self) -> bool:
        """Whether turns between the summary and the first entry were dropped for lack of room."""
        if not (self.stored_summary and self.stored_entries):
            return False
        return _compute_sum_before(self.stored_entries[0]) > parse_running_sum(self.stored_summary)

    def __bool__(self) -> bool:
        return bool(self.stored_summary) or self.start < len(self.stored_entries)


@dataclass(frozen=True, slots=True)
class HistoryStore:
    """Histories by conversation. `max_tokens` limits the estimate of the part that is always sent, newest first. The
    calls of the latest runs come on top (`MAX_CALL_TOKENS`)."""

    redis: Redis
    keys: Keys
    max_tokens: int = 8_000
    kept_ms: int = RETENTION_MS

    def build_history_key(self, conversation: str) -> str:
        return self.keys.build_key(self.keys.get_partition(conversation), "h", conversation)

    def _build_calls_key(self, conversation: str) -> str:
        return self.keys.build_key(self.keys.get_partition(conversation), "calls", conversation)

    def build_calls_write(self, conversation: str, entry: HistoryEntry, calls: Sequence[PastCall]) -> Write:
        """Build the write that stores the calls of an entry, as `run⇥when⇥tokens⇥calls`, and drops the oldest."""
        costs = (
            CALL_TOKENS + estimate_tokens(json.dumps(one.args, ensure_ascii=False)) + estimate_tokens(one.result)
            for one in calls
        )
        rows = json.dumps(calls, ensure_ascii=False)
        value = TAB.join((entry.run, str(entry.at_ms), str(sum(costs)), rows))
        return RPush(self._build_calls_key(conversation), [value], ttl_ms=self.kept_ms, most=MAX_CALL_ENTRIES)

    def build_turn_write(self, conversation: str, entries: Iterable[HistoryEntry]) -> AppendHistory:
        """Build the write that adds entries, oldest first: as `tokens|run⇥when⇥said⇥message`, with `kind⇥` before the
        message unless it was said."""
        values: list[str] = []
        for one in entries:
            shown_text = "" if one.shown_text is None else json.dumps(one.shown_text, ensure_ascii=False)
            kind = [one.kind.value] if one.kind else []
            fields = (one.run, str(one.at_ms), shown_text, *kind, one.message)
            values.append(f"{estimate_tokens(one.message)}|{TAB.join(fields)}")
        return AppendHistory(self.build_history_key(conversation), values, self.max_tokens, ttl_ms=self.kept_ms)

    async def load_history(self, conversation: str) -> ConversationHistory:
        """Load a history. Raises StoreUnavailableError."""
        async with self.redis.pipeline(transaction=False) as pipe:
            self.queue_reads(pipe, conversation)
            return self.parse_reads(*await pipe.execute())

    async def load_latest_run(self, conversation: str) -> str:
        """Id of the last run of the conversation; empty: the history knows none. Raises StoreUnavailableError."""
        entries = (await self.load_history(conversation)).entries
        return next((one.run for one in reversed(entries) if one.run), "")

    def queue_reads(self, pipe: Pipeline, conversation: str) -> None:
        """Queue the reads of a history in a shared pipeline; `parse_reads` takes the two answers."""
        pipe.lrange(self.build_history_key(conversation), 0, -1)
        pipe.lrange(self._build_calls_key(conversation), 0, -1)

    def parse_reads(self, values: Sequence[Any], calls: Sequence[Any]) -> ConversationHistory:
        summary = values[0] if values and parse_run_id(values[0]) == SUMMARY_MARK else ""
        turns = values[1:] if summary else values
        begins = (  # whether an entry belongs to no trimmed question
            not one.is_answer and (one.kind is EntryKind.SAID or not one.run) for one in map(parse_entry, turns)
        )
        start = next((i for i, can_begin in enumerate(begins) if can_begin), len(turns))
        return ConversationHistory(stored_entries=turns, start=start, stored_summary=summary, calls=calls)

    def build_forget_writes(self, conversation: str) -> tuple[Write, ...]:
        """Build the writes that erase the history."""
        return (Delete(self.build_history_key(conversation)), Delete(self._build_calls_key(conversation)))


def parse_entry(value: str) -> HistoryEntry:
    run, at_ms, shown_text, *kind, message = value.partition("|")[2].split(TAB)
    return HistoryEntry(
        message=message,
        run=run,
        shown_text=json.loads(shown_text) if shown_text else None,
        at_ms=int(at_ms),
        kind=EntryKind("".join(kind)),
    )


def parse_run_id(value: str) -> str:
    return value.partition("|")[2].partition(TAB)[0]


def parse_tokens(value: str) -> int:
    return int(value.partition(":")[0])


def parse_running_sum(value: str) -> int:
    """Return the sum of all that was ever added, up to the end of this value (tokens)."""
    return int(value.partition("|")[0].partition(":")[2])


def _compute_sum_before(value: str) -> int:
    return parse_running_sum(value) - parse_tokens(value)


MAX_RUNS, MAX_CALL_TOKENS = 3, 4_500
"""Most runs whose calls and results a model is sent in full, and most tokens of these on top of the history. Older runs
get one line per call."""
MAX_CALL_ENTRIES = 2 * MAX_RUNS
"""Number of entries whose calls are kept. A run that waited for a button has two entries."""


def parse_latest_calls(values: Sequence[str], without: str) -> dict[str, Sequence[PastCall]]:
    """Return the calls of the latest runs except `without`, within the limit, by run and time of their entry
    (`run⇥when`)."""
    by_run: dict[str, dict[str, list[PastCall]]] = {}
    costs: dict[str, int] = {}
    for value in reversed(values):
        run, at_ms, tokens, calls = value.split(TAB, 3)
        if run != without and (run in by_run or len(by_run) < MAX_RUNS):
            some = [PastCall(*one) for one in json.loads(calls)]
            by_run.setdefault(run, {}).setdefault(f"{run}{TAB}{at_ms}", [])[:0] = some
            costs[run] = costs.get(run, 0) + int(tokens)
    room, calls_by_entry = MAX_CALL_TOKENS, dict[str, Sequence[PastCall]]()
    for run, entries in by_run.items():
        room -= costs[run]
        if room < 0:
            break
        calls_by_entry.update(reversed(entries.items()))
    return calls_by_entry
