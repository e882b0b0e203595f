"""Compaction: in the background, the model summarizes the older turns of a long conversation.

The commit of the turn that makes the conversation too long enqueues the work in a lane of its own, so no message waits
for it. One script then replaces these turns by the summary, if they are still unchanged. So nothing is lost or brought
back if the conversation is forgotten meanwhile, or if a process is killed at any moment. Without a summary, the turns
stay until there is no more room for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any, Literal

from bot.agent.loop import ModelInUse
from bot.chat.messages import ChatDirectory, Place
from bot.core.records import Run
from bot.features.budgets import is_budget_used_up
from bot.features.summaries.compaction_range import (
    MAX_SUMMARY_TOKENS,
    CompactionRange,
    build_compaction_write,
    choose_compaction_range,
    compute_threshold,
)
from bot.features.summaries.summary import EarlierTurns, Summarizer, SummaryDraft, build_summary_message
from bot.queue.lanes import Lease, RetryLater
from bot.queue.writes import AppendHistory, EnqueueItem, Write
from bot.storage.history import ConversationHistory, HistoryStore, HistorySummary
from bot.storage.spending import SYSTEM
from bot.storage.stores import Stores
from tools.spec import StoredModel

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
            "tokens_in": draft.tokens_in,
            "cached": draft.tokens_cached,
            "tokens_out": draft.tokens_out,
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
