"""Cancels the cards of runs that are stopped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bot.core.clock import Clock
from bot.core.history_entries import PausedRun
from bot.core.work_items import StopOpenCard
from bot.queue.lanes import Lanes
from bot.storage.approvals import ApprovalStore, Verdict
from bot.storage.runs import RunStore
from tools.spec import Caller, Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class CardStopper:
    lanes: Lanes
    approvals: ApprovalStore
    runs: RunStore
    clock: Clock

    async def stop_waiting_runs(self, waiting: Iterable[PausedRun], caller: Caller) -> int:
        """Stop the runs that wait for a card: the caller's own, or all for an administrator. Returns the number of
        cards cancelled. A press that came first stands."""
        stoppable = [one for one in waiting if one.person == caller.id or caller.person.is_administrator]
        cancelled = 0
        for one in stoppable:
            # The card's own lane carries the stop out. A card that is not there yet is cancelled there, before anybody
            # can press it.
            stop = StopOpenCard(approval=one.approval, run=one.run, person=caller.id)
            await self.lanes.enqueue(one.approval, f"stop:{one.approval}:{one.run}", stop.model_dump_json())
            approval = await self.approvals.load_approval(one.approval)
            if approval is None:
                run = await self.runs.load_run(one.run)
                card = run.requested_card if run is not None else None
                cancelled += card is not None and card.gate is not Gate.APPROVE
            elif approval.owner:  # decided here, once, against any press that may come first
                verdict = await self.approvals.decide_stop(approval, caller.id, self.clock.now_ms())
                cancelled += verdict is Verdict.OK
        return cancelled
