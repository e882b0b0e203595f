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
        return sum([await self._stop_run(one, caller.id) for one in stoppable])

    async def _stop_run(self, waiting: PausedRun, person: str) -> bool:
        """Stop one run. Returns whether a card is cancelled. This is decided here, once, against any press that may
        come first; the card's own lane carries it out. A card that is not there yet is cancelled there, before anybody
        can press it."""
        stop = StopOpenCard(approval=waiting.approval, run=waiting.run, person=person)
        await self.lanes.enqueue(waiting.approval, f"stop:{waiting.approval}:{waiting.run}", stop.model_dump_json())
        approval = await self.approvals.load_approval(waiting.approval)
        if approval is None:
            run = await self.runs.load_run(waiting.run)
            return run is not None and run.requested_card is not None and run.requested_card.gate is not Gate.APPROVE
        if not approval.owner:
            return False
        return await self.approvals.decide_stop(approval, person, self.clock.now_ms()) is Verdict.OK
