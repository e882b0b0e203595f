"""How a card comes to people: fresh, once more, or anew after it was edited or has expired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot import advising
from bot.board import Shown
from bot.drafting import draft_of, is_redrafted
from bot.ends import Ends, put_events
from bot.heard import resume
from bot.records import Approval, ApprovalState, Ask, EffectState, seal
from bot.store.lanes import Lease
from bot.store.writes import Write
from tools.spec import Plan

UNDECIDED = {
    "state": ApprovalState.OPEN,
    "by": "",
    "choice": "",
    "form": {},
    "press": "",
    "decided_ms": 0,
    "effect": EffectState.NONE,
}
"""What a card is before anybody has pressed."""


@dataclass(frozen=True, slots=True)
class Openings:
    ends: Ends
    lasts: timedelta = timedelta(hours=72)
    """How long a card is open; people are reminded at half time."""
    advice: bool = False
    """A model's suggestion is added to the cards of approvals."""

    async def open(self, lease: Lease, ask: Ask) -> Sequence[Write]:
        """Brings a card to those who may press. Asked for again while it is open, it is shown again, not doubled; asked
        for when its matter has just ended, the answer is how it ended."""
        approvals, approval = self.ends.approvals, self.ends.approvals.of(lease)
        if approval is not None and approval.over:
            return [resume(approval, ask.waiter)] if ask.waiter else []
        fresh = approval is None or approval.state is not ApprovalState.OPEN
        if approval is None or fresh:
            approval = self._new(ask, approval)
        elif is_redrafted(approval, ask.plan, ask.caller) and await self.ends.board.is_for(approval, ask.caller):
            fresh, approval = True, self.again(approval, advising.with_advice(ask.plan, approval.plan))
        if ask.waiter and ask.waiter not in approval.waiters:
            approval = approval.model_copy(update={"waiters": (*approval.waiters, ask.waiter)})
        if fresh:  # kept before it is shown: whoever presses at once finds it
            await lease.checkpoint("open", *approvals.opened(approval))
        unseen = approval.brought != approval.version
        shown, word = await self._brought(lease, ask, approval)
        asked = self.ends.noted(approval, "approval.requested", person=ask.caller, sha=approval.sha[:12])
        advice = advising.wanted(approval) if unseen and self.advice and not advising.has_advice(approval.plan) else []
        events = put_events(lease.item, await self._list_events(ask, approval, shown.approval) | word)
        return [approvals.shown(shown.approval), asked, *advice, *events, *self.ends.behind(lease.item, shown)]

    async def _list_events(self, ask: Ask, before: Approval, shown: Approval) -> dict[str, str]:
        """By person: the card, for those who have got it now, but not for who waits for it: their run tells of it."""
        known = {reader for reader, ref in shown.refs if (reader, ref) in before.refs}
        had = known - {reader for reader, ref in shown.refs if (reader, ref) not in before.refs}
        return await self.ends.board.list_events(shown, {*had, ask.caller} if ask.waiter else had)

    async def _brought(self, lease: Lease, ask: Ask, approval: Approval) -> tuple[Shown, dict[str, str]]:
        """Who decides and asks for it is shown it again. Of what others ask for, and the engine tells of, there is one
        copy a person, with a word under it if there is one to say. A draft of one of them is news to nobody else. With
        what that word was, by person."""
        board, item = self.ends.board, lease.item
        if approval.brought and draft_of(approval.plan, ask.caller):
            shown = await board.show_again(approval, ask.caller, item.id, again=item.again)
        elif approval.brought != approval.version or await board.is_for(approval, ask.caller):
            shown = await board.post(approval, item.id, again=item.again)
        else:
            shown = await board.complete(approval, item.id, again=item.again)
        word = await board.word(shown.approval, ask.word, item.id, again=item.again) if ask.word else {}
        return shown, word

    def _new(self, ask: Ask, before: Approval | None) -> Approval:
        """A fresh card. The copies of the one before it, which expired or failed, will point to it."""
        created_ms, expires_ms = self._times()
        return Approval(
            id=ask.approval,
            version=before.version + 1 if before else 1,
            refs=before.refs if before else (),
            tool=ask.tool,
            gate=ask.gate,
            plan=ask.plan,
            sha=seal(ask.tool, ask.plan),
            caller=ask.caller,
            place=ask.place,
            run=ask.waiter.run if ask.waiter else "",
            created_ms=created_ms,
            expires_ms=expires_ms,
        )

    def again(self, approval: Approval, plan: Plan) -> Approval:
        """The next version of a card: open, with all its time, whatever was pressed on the one before."""
        created_ms, expires_ms = self._times()
        return approval.model_copy(
            update={
                "version": approval.version + 1,
                "plan": plan,
                "sha": seal(approval.tool, plan),
                "created_ms": created_ms,
                "expires_ms": expires_ms,
                **UNDECIDED,
            }
        )

    def _times(self) -> tuple[int, int]:
        """When a card begins now, and when it ends."""
        now_ms = int(self.ends.now().timestamp() * 1000)
        return now_ms, now_ms + int(self.lasts.total_seconds() * 1000)
