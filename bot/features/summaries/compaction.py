"""Compaction: in the background, the model summarizes the older turns of a long conversation.

The commit of the turn that makes the conversation too long enqueues the work in a lane of its own, so no message waits
for it. One script then replaces these turns by the summary, if they are still unchanged. So nothing is lost or brought
back if the conversation is forgotten meanwhile, or if a process is killed at any moment. Without a summary, the turns
stay until there is no more room for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any, Literal

from bot.agent.loop import ModelInUse
from bot.chat.messages import ChatDirectory, Place
from bot.core.history_entries import EntryKind, HistoryEntry, estimate_tokens
from bot.core.records import Run
from bot.features.budgets import is_budget_used_up
from bot.features.summaries.summary import EarlierTurns, Summarizer, SummaryDraft, build_summary_message
from bot.queue.lanes import Lease, RetryLater
from bot.queue.writes import AppendHistory, EnqueueItem, ReplaceHistory, Write
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
from bot.storage.spending import SYSTEM
from bot.storage.stores import Stores
from tools.spec import StoredModel

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


MAX_CONCURRENT_DRAFTS = 4
"""Most summaries drafted at once in one process. The other places are for people."""
MAX_TRIES = 4
"""Number of tries after which compaction is given up until the next turn."""
BUSY_MS = 1_000


class CompactConversation(StoredModel):
    """A conversation has grown long: its older turns are to be summarized."""

    kind: Literal["compact_conversation"] = "compact_conversation"
    place: Place
    person: str
    """Id of the person whose turn made the conversation too long."""


def build_compaction_request(
    history: HistoryStore, run: Run, conversation_history: ConversationHistory, turn: AppendHistory
) -> list[Write]:
    """Build the item that compacts the conversation, if this turn makes it long enough. The item's lane is in the
    conversation's own partition, so only the commit of the turn can write it."""
    turn_tokens = sum(int(value.partition("|")[0]) for value in turn.values)
    if conversation_history.tokens + turn_tokens <= compute_threshold(history):
        return []
    place, keys = run.message.place, history.keys
    lane = keys.derive_id("F", keys.get_partition(place.conversation), place.conversation)
    fold = CompactConversation(place=place, person=run.message.person)
    return [EnqueueItem(lane, f"compact:{run.id}", fold.model_dump_json(), only_if_idle=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCompactor:
    stores: Stores
    directory: ChatDirectory
    model: ModelInUse
    summarizer: Summarizer
    pause_ms: int = 60_000
    """Pause between the first two tries (ms). Each further pause is four times as long."""
    draft_semaphore: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CONCURRENT_DRAFTS))

    async def compact_history(self, lease: Lease, fold: CompactConversation) -> Sequence[Write]:
        """Compact about half of the history. Raises `RetryLater` while the model cannot be reached or its summary is
        unusable."""
        if self.draft_semaphore.locked():
            raise RetryLater(BUSY_MS, "enough is folded at once")
        async with self.draft_semaphore:
            conversation = await self.stores.runs.load_conversation(fold.place.conversation, self.stores.history)
            if conversation.history.tokens <= compute_threshold(self.stores.history):
                return []
            part = choose_compaction_range(conversation.history, {one.run for one in conversation.waiting})
            if part is None:
                return []
            # The first turn that ends with budget left asks again.
            if await is_budget_used_up(self.model, self.stores.spending, fold.person):
                return [self._build_journal_write(fold, "history.not_folded", SummaryDraft(), why="budget")]
            member = await self.directory.find_person(fold.person)
            zone = member.zone if member is not None else UTC
            notes = json.loads(part.summary.message)["content"] if part.summary else ""
            draft = await self.summarizer.draft_summary(
                EarlierTurns(part.entries, zone, notes),
                min(MAX_SUMMARY_TOKENS, self.stores.history.max_tokens // 4),
            )
            # No person asked for this, so it counts on the system's account.
            usage_writes = self.stores.spending.build_usage_writes(
                lease.lane, SYSTEM, map(self.model.prices.compute_usage, draft.replies)
            )
            if not draft.lines:
                tries = lease.item.tries
                failed = self._build_journal_write(fold, "history.not_folded", draft, why=draft.failure)
                if tries >= MAX_TRIES:
                    return [*usage_writes, failed]
                await lease.checkpoint(f"failed:{tries}", *usage_writes, failed)
                raise RetryLater(self.pause_ms * 4 ** (tries - 1), f"no summary: {draft.failure}", counts_try=True)
            summary = build_summary(part, draft.lines, zone)
            write = build_compaction_write(self.stores.history, fold.place.conversation, part, summary)
            turns = len({entry.run for entry in part.entries})
            about = {"turns": turns, "in_all": summary.turns, "dropped": draft.dropped}
            folded = self._build_journal_write(fold, "history.folded", draft, **about)
            result = await lease.checkpoint("fold", write, *usage_writes, folded)
            if not result.refused:
                return []
            return [*usage_writes, self._build_journal_write(fold, "history.not_folded", draft, why=result.refused)]

    def _build_journal_write(self, fold: CompactConversation, kind: str, draft: SummaryDraft, **more: Any) -> Write:
        place = fold.place
        usage: dict[str, Any] = {
            "tokens_in": sum(reply.tokens_in for reply in draft.replies),
            "cached": sum(reply.tokens_cached for reply in draft.replies),
            "tokens_out": sum(reply.tokens_out for reply in draft.replies),
        }
        return self.stores.journal.build_record_write(
            place.conversation, kind, person=fold.person, channel=place.channel, **more, **usage
        )


def build_summary(part: CompactionRange, lines: Sequence[str], zone: tzinfo) -> HistorySummary:
    """Build the summary for a part of the history. The summary has exactly the range of the compacted entries."""
    since, until = (datetime.fromtimestamp(ms / 1000, zone) for ms in (part.since_ms, part.until_ms))
    message = build_summary_message(lines, since, until, part.turn_count, missed=part.missed)
    text = json.dumps(message, ensure_ascii=False)
    return HistorySummary(
        message=text,
        lines=tuple(lines),
        since_ms=part.since_ms,
        until_ms=part.until_ms,
        turns=part.turn_count,
        has_gap=part.missed,
    )
