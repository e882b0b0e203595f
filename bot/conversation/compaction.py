"""A conversation that has grown long: its older turns are put in short by the model, in the background.

The commit of the turn that makes it so puts the work into a lane of the conversation's own, so that no message waits
for it. What comes of it replaces these turns in one script, if they are still there as they were: whoever forgets them
meanwhile, or is killed at any moment, loses nothing and brings nothing back. If nothing comes of it, they stay until
there is no room for them any more.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any

from bot.agent import prompt
from bot.agent.limits import DailyBudget
from bot.agent.prices import PriceTable
from bot.agent.summary import EarlierTurns, Summarizer, SummaryDraft
from bot.chat.messages import ChatDirectory
from bot.core.records import Run
from bot.core.work_items import CompactConversation
from bot.queue.lanes import Lease, RetryLater
from bot.queue.writes import AppendHistory, EnqueueItem, Write
from bot.storage.history import CompactionRange, ConversationHistory, HistoryStore, HistorySummary
from bot.storage.journal import Journal
from bot.storage.runs import RunStore
from bot.storage.spending import SYSTEM, UsageStore

AT_ONCE = 4
"""Summaries drafted at once in one process: the other hands are for people."""
TRIES = 4
"""After so many it is given up, until the next turn."""
BUSY_MS = 1_000


def build_compaction_request(
    history: HistoryStore, known: ConversationHistory, turn: AppendHistory, run: Run
) -> list[Write]:
    """What has the older turns folded, if with this one there are enough. The lane is of the conversation's own
    partition, so it is put in the commit of the turn or not at all."""
    if not history.needs_compaction(known, turn):
        return []
    place, keys = run.message.place, history.keys
    lane = keys.derive_id("F", keys.get_partition(place.conversation), place.conversation)
    fold = CompactConversation(place=place, person=run.message.person)
    return [EnqueueItem(lane, f"compact:{run.id}", fold.model_dump_json(), only_if_idle=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCompactor:
    summarizer: Summarizer
    runs: RunStore
    history: HistoryStore
    directory: ChatDirectory
    journal: Journal
    spending: UsageStore
    prices: PriceTable = field(default_factory=PriceTable)
    budget: DailyBudget = field(default_factory=DailyBudget)
    pause_ms: int = 60_000
    """Between the first two tries; each further one takes four times as long."""
    draft_semaphore: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def compact_history(self, lease: Lease, fold: CompactConversation) -> Sequence[Write]:
        """Folds about half of what is remembered. Raises `RetryLater` while the model is away or its answer is of no
        use."""
        if self.draft_semaphore.locked():
            raise RetryLater(BUSY_MS, "enough is folded at once")
        async with self.draft_semaphore:
            recalled = await self.runs.load_conversation(fold.place.conversation, self.history)
            if recalled.history.tokens <= self.history.compaction_threshold:
                return []
            part = recalled.history.choose_compaction_range({one.run for one in recalled.waiting})
            if part is None:
                return []
            if await self._is_budget_used_up(fold.person):
                return [self._build_journal_write(fold, "history.not_folded", SummaryDraft(), why="budget")]
            zone = await self._find_timezone(fold.person)
            notes = json.loads(part.summary.message)["content"] if part.summary else ""
            draft = await self.summarizer.draft_summary(
                EarlierTurns(part.entries, zone, notes), self.history.summary_tokens
            )
            # Nobody has asked for it, so it is on nobody's account.
            counted = self.spending.build_usage_writes(
                lease.lane, SYSTEM, map(self.prices.compute_usage, draft.replies)
            )
            if not draft.lines:
                return await self._retry_or_give_up(lease, fold, draft, counted)
            return await self._replace_with_summary(
                lease, fold, build_summary(part, draft.lines, zone), part, draft, counted
            )

    async def _is_budget_used_up(self, person: str) -> bool:
        """True when the person whose turn asked for it may take no more of the model today. Then nothing is asked of
        it; the first turn that ends while there is a budget asks again."""
        if not self.budget:
            return False
        used = await self.spending.load_daily_usage(self.spending.build_daily_query(person, self.prices.currency))
        return self.budget.is_used_up(used.tokens, used.cost)

    async def _replace_with_summary(
        self,
        lease: Lease,
        fold: CompactConversation,
        summary: HistorySummary,
        part: CompactionRange,
        draft: SummaryDraft,
        counted: Sequence[Write],
    ) -> Sequence[Write]:
        written = self.history.build_compaction_write(fold.place.conversation, part, summary)
        about = {"turns": len({entry.run for entry in part.entries}), "in_all": summary.turns, "dropped": draft.dropped}
        kept = await lease.checkpoint(
            "fold", written, *counted, self._build_journal_write(fold, "history.folded", draft, **about)
        )
        return (
            [*counted, self._build_journal_write(fold, "history.not_folded", draft, why=kept.refused)]
            if kept.refused
            else []
        )

    async def _retry_or_give_up(
        self, lease: Lease, fold: CompactConversation, draft: SummaryDraft, counted: Sequence[Write]
    ) -> Sequence[Write]:
        """What it has cost is written down with every try."""
        noted, tries = self._build_journal_write(fold, "history.not_folded", draft, why=draft.failure), lease.item.tries
        if tries >= TRIES:
            return [*counted, noted]
        await lease.checkpoint(f"failed:{tries}", *counted, noted)
        raise RetryLater(self.pause_ms * 4 ** (tries - 1), f"no summary: {draft.failure}", counts_try=True)

    async def _find_timezone(self, person: str) -> tzinfo:
        known = await self.directory.find_person(person)
        return known.zone if known is not None else UTC

    def _build_journal_write(self, fold: CompactConversation, kind: str, draft: SummaryDraft, **more: Any) -> Write:
        place = fold.place
        spent: dict[str, Any] = {
            "tokens_in": draft.tokens_in,
            "cached": draft.tokens_cached,
            "tokens_out": draft.tokens_out,
        }
        return self.journal.build_record_write(
            place.conversation, kind, person=fold.person, channel=place.channel, **more, **spent
        )


def build_summary(part: CompactionRange, lines: Sequence[str], zone: tzinfo) -> HistorySummary:
    """What stands for a part from now on. Its range is that of what was folded, and of nothing else."""
    since, until = (datetime.fromtimestamp(ms / 1000, zone) for ms in (part.since_ms, part.until_ms))
    message = prompt.build_summary_message(lines, since, until, part.turn_count, missed=part.missed)
    told = json.dumps(message, ensure_ascii=False)
    return HistorySummary(
        message=told,
        lines=tuple(lines),
        since_ms=part.since_ms,
        until_ms=part.until_ms,
        turns=part.turn_count,
        has_gap=part.missed,
    )
