"""How a card ends without a press: reminded of in vain, expired, closed elsewhere, taken back, given up.

Whoever waits for it hears of the end in the very commit that closes the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.board import Board, Shown
from bot.errors import ChatDown
from bot.heard import resume, undelivered
from bot.records import Approval, ApprovalState, Ask, Cancel, Close, EffectState, Expire, Happened, Pressed, Show, Work
from bot.store.approvals import Approvals, Verdict
from bot.store.journal import Journal
from bot.store.lanes import Item, Lease
from bot.store.writes import Put, Write
from tools.spec import Note


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
        approval = shown.approval
        kind = f"effect.{approval.effect.value}" if approval.effect else f"approval.{approval.state.value}"
        opinion = approval.form.get("opinion", "")
        told = self.noted(approval, kind, person=approval.by, choice=approval.choice, opinion=opinion)
        heard = approval.model_copy(update={"waiters": ()})
        resumed = (resume(approval, waiter, silent=silent) for waiter in approval.waiters)
        events = put_events(item, await self.board.list_events(approval, _by_run(approval)))
        return [*self.approvals.closed(heard), told, *resumed, *events, *self.behind(item, shown)]

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
        approval = _still_open(self.approvals.of(lease), version)
        if approval is None:
            return []
        told = await self.board.remind(approval, again=lease.item.again)
        return [self.noted(approval, "approval.reminded"), *put_events(lease.item, told)]

    async def expire(self, lease: Lease, version: int) -> Sequence[Write]:
        """Time is over. Silence is not a no, and says so in words of its own."""
        approval = _still_open(self.approvals.of(lease), version)
        if approval is None:
            return []
        expired = self._at_last(approval, ApprovalState.EXPIRED)
        return await self.over(lease.item, await self.board.nobody(expired, again=lease.item.again))

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
                return _stranded(approval) if approval is not None and approval.press == click.id else None
            case Expire(version=version):
                approval = _still_open(await self.approvals.get(lane), version)
                return self._at_last(approval, ApprovalState.EXPIRED) if approval else None
            case Close():
                return await self._closing(work)
            case Cancel():
                return await self._cancelling(work)
            case _:
                return None

    async def _closing(self, close: Close) -> Approval | None:
        approval = await self.approvals.get(close.approval)
        if approval is None or approval.state not in (ApprovalState.OPEN, ApprovalState.EXPIRED):
            return None
        closed = self._at_last(approval, ApprovalState.CLOSED, close.by)
        return closed.model_copy(update={"choice": close.why})

    async def _cancelling(self, cancel: Cancel) -> Approval | None:
        approval = await self.approvals.get(cancel.approval)
        if approval is None or approval.owner != cancel.person:
            return None
        if await self.approvals.take_back(approval, cancel.person, self._now_ms()) is not Verdict.OK:
            return None
        return self._at_last(approval, ApprovalState.CANCELLED, cancel.person)

    def _at_last(self, approval: Approval, state: ApprovalState, by: str = "") -> Approval:
        return approval.model_copy(update={"state": state, "by": by, "decided_ms": self._now_ms()})

    def noted(self, approval: Approval, kind: str, *, person: str = "", **more: Any) -> Write:
        more |= {"raised_to": approval.on_behalf} if approval.on_behalf else {}
        return self.journal.entry(
            approval.id,
            kind,
            run=approval.run or next((one.run for one in approval.waiters), ""),
            person=person,
            channel=approval.place.channel if approval.place else "",
            text=approval.tool,
            approval=approval.id,
            subject=approval.plan.subject,
            **more,
        )

    def _now_ms(self) -> int:
        return int(self.now().timestamp() * 1000)


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


def _still_open(approval: Approval | None, version: int) -> Approval | None:
    fits = approval is not None and approval.state is ApprovalState.OPEN and approval.version == version
    return approval if fits else None


def _stranded(approval: Approval) -> Approval | None:
    """A decision that was never carried out to its end. Begun, it may have happened; otherwise it surely did not."""
    if approval.state is not ApprovalState.DECIDED:
        return approval
    if approval.effect is EffectState.STARTED:
        return approval.model_copy(update={"effect": EffectState.UNKNOWN})
    if approval.effect is not EffectState.NONE:
        return None
    why = "It could not be begun after several tries; nothing was done."
    problem = Note(key="error.given_up")
    return approval.model_copy(update={"effect": EffectState.FAILED, "problem": problem, "why": why})
