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

from bot.events import Directory
from bot.react import prompt
from bot.react.guards import Budget
from bot.react.prices import Prices
from bot.react.summary import Draft, Old, Summarizer
from bot.records import Fold, Run
from bot.store.history import History, Part, Remembered, Summary
from bot.store.journal import Journal
from bot.store.lanes import Later, Lease
from bot.store.runs import Runs
from bot.store.spending import SYSTEM, Spending
from bot.store.writes import Put, Remember, Write

AT_ONCE = 4
"""Summaries drafted at once in one process: the other hands are for people."""
TRIES = 4
"""After so many it is given up, until the next turn."""
BUSY_MS = 1_000


def wanted(history: History, known: Remembered, turn: Remember, run: Run) -> list[Write]:
    """What has the older turns folded, if with this one there are enough. The lane is of the conversation's own
    partition, so it is put in the commit of the turn or not at all."""
    if not history.grown(known, turn):
        return []
    place, keys = run.message.place, history.keys
    lane = keys.derived("F", keys.partition(place.conversation), place.conversation)
    fold = Fold(place=place, person=run.message.person)
    return [Put(lane, f"fold:{run.id}", fold.model_dump_json(), idle=True)]


@dataclass(frozen=True, slots=True)
class Folding:
    summarizer: Summarizer
    runs: Runs
    history: History
    directory: Directory
    journal: Journal
    spending: Spending
    prices: Prices = field(default_factory=Prices)
    budget: Budget = field(default_factory=Budget)
    pause_ms: int = 60_000
    """Between the first two tries; each further one takes four times as long."""
    hands: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def fold(self, lease: Lease, fold: Fold) -> Sequence[Write]:
        """Folds about half of what is remembered. Raises `Later` while the model is away or its answer is of no use."""
        if self.hands.locked():
            raise Later(BUSY_MS, "enough is folded at once")
        async with self.hands:
            recalled = await self.runs.recall(fold.place.conversation, self.history)
            if recalled.history.tokens <= self.history.mark:
                return []
            part = recalled.history.oldest({one.run for one in recalled.waiting})
            if part is None:
                return []
            if await self._is_used_up(fold.person):
                return [self._noted(fold, "history.not_folded", Draft(), why="budget")]
            zone = await self._zone(fold.person)
            notes = json.loads(part.summary.message)["content"] if part.summary else ""
            draft = await self.summarizer.draft(Old(part.entries, zone, notes), self.history.summary_tokens)
            # Nobody has asked for it, so it is on nobody's account.
            counted = self.spending.counts(lease.lane, SYSTEM, map(self.prices.spent, draft.replies))
            if not draft.lines:
                return await self._failed(lease, fold, draft, counted)
            return await self._folded(lease, fold, summed(part, draft.lines, zone), part, draft, counted)

    async def _is_used_up(self, person: str) -> bool:
        """True when the person whose turn asked for it may take no more of the model today. Then nothing is asked of
        it; the first turn that ends while there is a budget asks again."""
        if not self.budget:
            return False
        used = await self.spending.used(self.spending.today(person, self.prices.currency))
        return self.budget.is_used_up(used.tokens, used.cost)

    async def _folded(
        self, lease: Lease, fold: Fold, summary: Summary, part: Part, draft: Draft, counted: Sequence[Write]
    ) -> Sequence[Write]:
        written = self.history.fold(fold.place.conversation, part, summary)
        about = {"turns": len({entry.run for entry in part.entries}), "in_all": summary.turns, "dropped": draft.dropped}
        kept = await lease.checkpoint("fold", written, *counted, self._noted(fold, "history.folded", draft, **about))
        return [*counted, self._noted(fold, "history.not_folded", draft, why=kept.refused)] if kept.refused else []

    async def _failed(self, lease: Lease, fold: Fold, draft: Draft, counted: Sequence[Write]) -> Sequence[Write]:
        """What it has cost is written down with every try."""
        noted, tries = self._noted(fold, "history.not_folded", draft, why=draft.why), lease.item.tries
        if tries >= TRIES:
            return [*counted, noted]
        await lease.checkpoint(f"failed:{tries}", *counted, noted)
        raise Later(self.pause_ms * 4 ** (tries - 1), f"no summary: {draft.why}", counted=True)

    async def _zone(self, person: str) -> tzinfo:
        known = await self.directory.get(person)
        return known.zone if known is not None else UTC

    def _noted(self, fold: Fold, kind: str, draft: Draft, **more: Any) -> Write:
        place = fold.place
        spent: dict[str, Any] = {
            "tokens_in": draft.tokens_in,
            "cached": draft.tokens_cached,
            "tokens_out": draft.tokens_out,
        }
        return self.journal.entry(place.conversation, kind, person=fold.person, channel=place.channel, **more, **spent)


def summed(part: Part, lines: Sequence[str], zone: tzinfo) -> Summary:
    """What stands for a part from now on. Its range is that of what was folded, and of nothing else."""
    since, until = (datetime.fromtimestamp(ms / 1000, zone) for ms in (part.since_ms, part.until_ms))
    message = prompt.summary(lines, since, until, part.turns, missed=part.missed)
    told = json.dumps(message, ensure_ascii=False)
    return Summary(told, tuple(lines), part.since_ms, part.until_ms, part.turns, part.missed)
