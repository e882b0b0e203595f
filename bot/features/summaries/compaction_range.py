"""The part of a history that is compacted: which turns, and the write that replaces them by their summary."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from bot.core.history_entries import EntryKind, HistoryEntry, estimate_tokens
from bot.queue.writes import ReplaceHistory
from bot.storage.history import (
    SUMMARY_MARK,
    TAB,
    ConversationHistory,
    HistoryStore,
    HistorySummary,
    parse_entry,
    parse_run_id,
    parse_running_sum,
    parse_tokens,
)

MAX_SUMMARY_TOKENS = 600
"""Most tokens of a summary. If the history is limited to less than four times as many, the limit is a quarter of the
history's."""
MAX_COMPACTED_TOKENS, MAX_COMPACTED_ENTRIES = 16_000, 2_000
"""Most tokens that one compaction covers (plus at most one turn), and most entries that it reads: one script takes all
of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRange:
    """The oldest part of a history: the entries to compact, and those that stay."""

    before: Sequence[str]
    """The whole part as stored, with the summary so far."""
    entries: Sequence[HistoryEntry]
    """The entries to compact."""
    remaining: Sequence[str]
    """The stored values that stay."""
    summary: HistorySummary | None
    """The summary so far."""
    missed: bool
    """Whether entries among these were dropped for lack of room, now or before."""

    @property
    def since_ms(self) -> int:
        first = min(entry.at_ms for entry in self.entries)
        return min(first, self.summary.since_ms) if self.summary else first

    @property
    def until_ms(self) -> int:
        last = max(entry.at_ms for entry in self.entries)
        return max(last, self.summary.until_ms) if self.summary else last

    @property
    def turn_count(self) -> int:
        return len({entry.run for entry in self.entries if entry.run}) + (self.summary.turns if self.summary else 0)


def compute_threshold(store: HistoryStore) -> int:
    """Compute the number of tokens above which a history is compacted, before any entry has to be dropped."""
    return store.max_tokens * 3 // 4


def choose_compaction_range(history: ConversationHistory, waiting: Collection[str]) -> CompactionRange | None:
    """Choose the range to compact: whole turns, about half of all. The range never has the newest turn, nor turns of
    runs that wait for a button (`waiting`). None if no other turn is left."""
    places, run = dict[str, list[int]](), ""
    for place, value in enumerate(history.stored_entries):
        run = parse_run_id(value) or run  # an entry between two turns belongs to the one before
        places.setdefault(run, []).append(place)
    staying = {*waiting, run}
    chosen, tokens, token_limit = set[int](), 0, min(history.tokens / 2, MAX_COMPACTED_TOKENS)
    for run, where in places.items():
        if tokens < token_limit and run not in staying and where[-1] < MAX_COMPACTED_ENTRIES:
            chosen.update(where)
            tokens += sum(parse_tokens(history.stored_entries[place]) for place in where)
    if not chosen:
        return None
    head = history.stored_entries[: max(chosen) + 1]
    compacted = [parse_entry(value) for place, value in enumerate(head) if place in chosen]
    remaining = [value for place, value in enumerate(head) if place not in chosen]
    started_runs = {entry.run for entry in compacted if entry.kind is EntryKind.SAID and not entry.is_answer}
    so_far = history.summary
    is_torn = any(entry.run and entry.run not in started_runs for entry in compacted)
    missed = history.has_gap or is_torn or bool(so_far and so_far.has_gap)
    return CompactionRange(
        before=[*filter(None, [history.stored_summary]), *head],
        entries=compacted,
        remaining=remaining,
        summary=so_far,
        missed=missed,
    )


def build_compaction_write(
    store: HistoryStore, conversation: str, part: CompactionRange, summary: HistorySummary
) -> ReplaceHistory:
    """Build the write that replaces a range by its summary. The write refuses if the range has changed: forgotten,
    compacted by another process, or trimmed away."""
    running_sum = parse_running_sum(part.before[-1]) - sum(map(parse_tokens, part.remaining))
    # `tokens:sum|=⇥since⇥about⇥message`; the sum is that of the last turn it covers
    about = json.dumps([summary.until_ms, summary.turns, summary.has_gap, *summary.lines], ensure_ascii=False)
    stored_summary = TAB.join((SUMMARY_MARK, str(summary.since_ms), about, summary.message))
    values = [f"{estimate_tokens(summary.message)}:{running_sum}|{stored_summary}"]
    for value in part.remaining:  # these entries come after the compacted ones, and so does their count
        running_sum += parse_tokens(value)
        values.append(f"{parse_tokens(value)}:{running_sum}|{value.partition('|')[2]}")
    return ReplaceHistory(
        key=store.build_history_key(conversation), before=part.before, after=values, max_tokens=store.max_tokens
    )
