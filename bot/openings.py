"""How a card comes to people: fresh, once more, or anew after it was edited or has expired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot import advising
from bot.approval_events import ApprovalEffects, CardRedrafted, CardRequested, WaiterAdded
from bot.approval_state import transition
from bot.board import Shown
from bot.drafting import draft_of, is_redrafted
from bot.ends import Ends, put_events
from bot.heard import resume
from bot.records import Approval, ApprovalState, Ask
from bot.store.lanes import Lease
from bot.store.writes import Write


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
        approval, effects = await self._bring_up_to_date(ask, approval)
        if effects:  # kept before it is shown: whoever presses at once finds it
            await lease.checkpoint("open", *self.ends.write_effects(approval, effects))
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

    async def _bring_up_to_date(self, ask: Ask, approval: Approval | None) -> tuple[Approval, ApprovalEffects]:
        """The card with who waits for it: a fresh one, the next version for a new draft, or as it is."""
        now = self.ends.now()
        effects: ApprovalEffects = ()
        if approval is None or approval.state is not ApprovalState.OPEN:
            approval, effects = transition(approval, self._request(ask), now)
        elif is_redrafted(approval, ask.plan, ask.caller) and await self.ends.board.is_for(approval, ask.caller):
            plan = advising.with_advice(ask.plan, approval.plan)
            approval, effects = transition(approval, CardRedrafted(plan=plan, lasts=self.lasts), now)
        if ask.waiter and ask.waiter not in approval.waiters:
            approval, _ = transition(approval, WaiterAdded(ask.waiter), now)
        return approval, effects

    def _request(self, ask: Ask) -> CardRequested:
        return CardRequested(
            approval=ask.approval,
            tool=ask.tool,
            gate=ask.gate,
            plan=ask.plan,
            caller=ask.caller,
            place=ask.place,
            run=ask.waiter.run if ask.waiter else "",
            lasts=self.lasts,
        )
