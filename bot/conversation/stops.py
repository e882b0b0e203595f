"""Ends runs that wait for a card, after a written or pressed *stop*. Running work was stopped before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bot.agent.limits import StopReason
from bot.chat.messages import Channel, ChatDirectory, Place, SessionStatus
from bot.core.clock import Clock
from bot.core.history_entries import PausedRun
from bot.core.i18n import translate
from bot.core.work_items import SessionStopped, StopOpenCard
from bot.queue.lanes import Lanes, Lease
from bot.queue.writes import Write
from bot.storage.approvals import ApprovalStore, Verdict
from bot.storage.history import HistoryStore
from bot.storage.journal import Journal
from bot.storage.runs import RunStore
from tools.spec import Caller, Gate

RECENT_ENTRIES = 20
"""Number of entries of a conversation that are searched for a run that a *stop* ended."""
SKEW_MS = 5_000
"""Largest difference between the platform's clock and the bot's (ms)."""


@dataclass(frozen=True, slots=True)
class StopResult:
    """The outcome of a stop."""

    cancelled_cards: int
    is_empty: bool
    """Whether nothing of this person's was at work or waited, and they may stop nobody else's work."""
    is_waiting: bool
    """Whether a run of somebody else still waits for a card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopper:
    runs: RunStore
    history: HistoryStore
    card_stopper: CardStopper

    async def stop_waiting_runs(self, place: Place, caller: Caller, at: str) -> StopResult:
        """Stop the runs that wait for a card here: the caller's own, or everybody's for an administrator. Running work
        stopped before this item was read. `at`: the platform's time of the stop."""
        waiting = (await self.runs.load_conversation(place.conversation, self.history)).waiting
        cancelled = await self.card_stopper.stop_waiting_runs(waiting, caller)
        is_entitled = place.direct or caller.person.is_administrator
        is_empty = not (is_entitled or cancelled)
        if is_empty:  # unless this *stop* ended a run of its own author
            entries = (await self.history.load_history(place.conversation)).entries[-RECENT_ENTRIES:]
            runs = [await self.runs.load_run(one) for one in dict.fromkeys(entry.run for entry in entries if entry.run)]
            own_runs = [run for run in runs if run is not None and run.message.person == caller.id]
            is_timestamp = at.replace(".", "", 1).isdigit()
            since_ms = (float(at) * 1000 if is_timestamp else 0.0) - SKEW_MS
            results = [run.result for run in own_runs if run.ended_ms >= since_ms]
            is_empty = not any(one is not None and one.stop_reason == StopReason.USER for one in results)
        return StopResult(
            cancelled_cards=cancelled,
            is_empty=is_empty,
            is_waiting=not is_entitled and any(one.person != caller.id for one in waiting),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStopHandler:
    chat: Channel
    directory: ChatDirectory
    run_stopper: RunStopper
    journal: Journal

    async def stop_session(self, lease: Lease, stop: SessionStopped) -> Sequence[Write]:
        """Handle the platform's own *Stop* button. The run that it ended has said so by now, and so does each card.
        Only a person who could stop nothing is told, privately."""
        caller = await self.directory.find_caller(stop.person)
        if caller is None:
            return []
        result = await self.run_stopper.stop_waiting_runs(stop.place, caller, stop.at)
        if result.is_empty:
            text = translate("command.stopped_nothing", caller.person.language)
            await self.chat.post_ephemeral(stop.place, stop.person, text)
        status = SessionStatus.SUSPENDED if result.is_waiting else SessionStatus.ACTIVE
        self.chat.set_session_status(stop.place, status)
        await self.chat.wait_for_session(stop.place)
        return [
            self.journal.build_record_write(
                lease.lane, "command", person=stop.person, channel=stop.place.channel, text="stop"
            )
        ]


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
