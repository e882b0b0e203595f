"""How a card ends without a press: reminded of in vain, expired, closed elsewhere, taken back, given up.

Whoever waits for it hears of the end in the very commit that closes the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.approval_events import (
    ApprovalEffect,
    CardExpired,
    CardSettled,
    CardTakenBack,
    ClaimDecision,
    EffectAbandoned,
    JournalLine,
    NotifyWaiter,
    ReminderDue,
    SaveEnd,
    SaveOpening,
    SaveRecord,
    SubjectClosed,
)
from bot.approval_state import to_ms, transition, try_transition
from bot.board import Board, Shown
from bot.errors import ChatDown
from bot.heard import resume, undelivered
from bot.records import Approval, ApprovalState, Ask, Cancel, Close, Expire, Happened, Pressed, Show, Work
from bot.store.approvals import Approvals, Verdict
from bot.store.journal import Journal
from bot.store.lanes import Item, Lease
from bot.store.writes import Put, Write


@dataclass(frozen=True, slots=True)
class Ends:
    board: Board
    approvals: Approvals
    journal: Journal
    now: Callable[[], datetime]
    """Aware UTC."""

    async def ended(self, item: Item, approval: Approval, *, silent: bool = False) -> Sequence[Write]:
        """The card says how it ended; then the writes of `over`."""
        return await self.over(item, await self.board.rewrite(approval), silent=silent)

    async def over(self, item: Item, shown: Shown, *, silent: bool = False) -> Sequence[Write]:
        """In one commit, waiting runs hear how it ended and the record is closed. `silent`: they end with that, because
        their person knows it already and has been answered."""
        settled, effects = transition(shown.approval, CardSettled(silent=silent), self.now())
        events = put_events(item, await self.board.list_events(shown.approval, _by_run(shown.approval)))
        return [*self.write_effects(settled, effects), *events, *self.behind(item, shown)]

    def write_effects(self, approval: Approval, effects: Iterable[ApprovalEffect]) -> list[Write]:
        """What transitions have led to, as writes in this order. `approval`: as it is to be stored, with the copies
        that people have."""
        return [write for effect in effects for write in self._write_effect(approval, effect)]

    def _write_effect(self, approval: Approval, effect: ApprovalEffect) -> Sequence[Write]:
        match effect:
            case SaveOpening():
                return self.approvals.opened(approval)
            case SaveRecord():
                return [self.approvals.saved(approval)]
            case SaveEnd():
                return self.approvals.closed(approval)
            case ClaimDecision(click, becomes, now_ms):
                return [self.approvals.decided(click, ends=becomes, now_ms=now_ms)]
            case JournalLine(kind, person, run, details):
                return [self.noted(approval, kind, person=person, run=run, **details)]
            case NotifyWaiter(waiter, silent):
                return [resume(approval, waiter, silent=silent)]

    def behind(self, item: Item, shown: Shown) -> Sequence[Write]:
        """Copies that could not be reached catch up by an item of their own, which waits for the platform."""
        return [Put(shown.approval.id, f"show:{item.id}", Show().model_dump_json())] if shown.behind else []

    async def show(self, lease: Lease) -> Sequence[Write]:
        """The copies catch up with the record as it is by now. Raises ChatDown while the platform is away."""
        approval = self.approvals.of(lease)
        if approval is None:
            return []
        shown = await self.board.rewrite(approval)
        if shown.behind:
            raise ChatDown("unreachable", "chat.update")
        return [self.approvals.shown(shown.approval)]

    async def remind(self, lease: Lease, version: int) -> Sequence[Write]:
        """Half of the time is over: a word to those who have not decided."""
        reminded = try_transition(self.approvals.of(lease), ReminderDue(version), self.now())
        if reminded is None:
            return []
        approval, effects = reminded
        told = await self.board.remind(approval, again=lease.item.again)
        return [*self.write_effects(approval, effects), *put_events(lease.item, told)]

    async def expire(self, lease: Lease, version: int) -> Sequence[Write]:
        """Time is over. Silence is not a no, and says so in words of its own."""
        expired = try_transition(self.approvals.of(lease), CardExpired(version), self.now())
        if expired is None:
            return []
        return await self.over(lease.item, await self.board.nobody(expired[0], again=lease.item.again))

    async def close(self, item: Item, close: Close) -> Sequence[Write]:
        """The task behind a card ended elsewhere (withdrawn, decided by another way): nobody can ask again either."""
        approval = await self._closing(close)
        return await self.ended(item, approval) if approval else []

    async def cancel(self, item: Item, cancel: Cancel) -> Sequence[Write]:
        """Whoever proposed a card takes it back by saying so in chat, and is answered there: the run that has proposed
        it says nothing more."""
        approval = await self._cancelling(cancel)
        return await self.ended(item, approval, silent=True) if approval else []

    async def give_up(self, item: Item, work: Work) -> Sequence[Write]:
        """What was to happen to a card has failed every time. Nobody waits for ever: the record says what is known,
        and the card too if it can be reached."""
        if isinstance(work, Ask):
            return undelivered(work)
        approval = await self._left(item.lane, work)
        return await self.ended(item, approval, silent=isinstance(work, Cancel)) if approval else []

    async def _left(self, lane: str, work: Work) -> Approval | None:
        """The card as far as it can be brought to an end without whatever keeps failing."""
        match work:
            case Pressed(click=click):
                approval = await self.approvals.get(lane)
                return self._stranded(approval) if approval is not None and approval.press == click.id else None
            case Expire(version=version):
                expired = try_transition(await self.approvals.get(lane), CardExpired(version), self.now())
                return expired[0] if expired else None
            case Close():
                return await self._closing(work)
            case Cancel():
                return await self._cancelling(work)
            case _:
                return None

    async def _closing(self, close: Close) -> Approval | None:
        approval = await self.approvals.get(close.approval)
        closed = try_transition(approval, SubjectClosed(close.by, close.why), self.now())
        return closed[0] if closed else None

    async def _cancelling(self, cancel: Cancel) -> Approval | None:
        approval, now = await self.approvals.get(cancel.approval), self.now()
        cancelled = try_transition(approval, CardTakenBack(cancel.person), now)
        if approval is None or cancelled is None:
            return None
        verdict = await self.approvals.take_back(approval, cancel.person, to_ms(now))
        return cancelled[0] if verdict is Verdict.OK else None

    def _stranded(self, approval: Approval) -> Approval | None:
        """A decision that was never carried out to its end; None when it was."""
        if approval.state is not ApprovalState.DECIDED:
            return approval
        abandoned = try_transition(approval, EffectAbandoned(), self.now())
        return abandoned[0] if abandoned else None

    def noted(self, approval: Approval, kind: str, *, person: str = "", run: str = "", **more: Any) -> Write:
        more |= {"raised_to": approval.on_behalf} if approval.on_behalf else {}
        return self.journal.entry(
            approval.id,
            kind,
            run=run or approval.journal_run,
            person=person,
            channel=approval.place.channel if approval.place else "",
            text=approval.tool,
            approval=approval.id,
            subject=approval.plan.subject,
            **more,
        )


def put_events(item: Item, told: Mapping[str, str]) -> list[Write]:
    """What DMs are to remember, by person. It goes on from a lane of the person's: nobody waits for it here."""
    events = {person: Happened(person=person, text=text) for person, text in told.items()}
    return [
        Put(f"notice:{person}", f"{item.id}:{person}:happened", event.model_dump_json())
        for person, event in events.items()
    ]


def _by_run(approval: Approval) -> set[str]:
    """Those whose DM hears how the card ended from the run that goes on."""
    lanes = {one.lane.rpartition(":")[2] for one in approval.waiters}
    there = {reader for reader, ref in approval.refs if ref.channel in lanes}
    return {*there, approval.caller} if approval.waiters else set()
