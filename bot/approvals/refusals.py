"""A press that does nothing: its person is told why, the journal too, and a card that is wrong is put right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.approvals.authorization import PressRefusal
from bot.approvals.delivery import CardDelivery
from bot.approvals.lifecycle import ApprovalLifecycle
from bot.chat.messages import Click
from bot.core.clock import Clock
from bot.core.records import Approval, ApprovalState
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from bot.storage.approvals import ApprovalStore
from bot.storage.journal import Journal

SETTLED_MS = 60_000
"""So long after a change its card may still be on the way to people: a press on the old one is only late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PressRefuser:
    card_delivery: CardDelivery
    lifecycle: ApprovalLifecycle
    approvals: ApprovalStore
    journal: Journal
    clock: Clock

    async def refuse_press(
        self, lease: Lease, click: Click, approval: Approval | None, refusal: PressRefusal
    ) -> Sequence[Write]:
        """Never silent: the person is told privately why, and who can; and it is on record. If it is the card that is
        wrong, that ends here."""
        await self.card_delivery.post_refusal(click, approval, refusal)
        noted = self.journal.build_record_write(
            click.approval,
            "approval.refused",
            person=click.person,
            channel=click.place.channel,
            text=refusal.code,
            approval=click.approval,
            choice=click.choice,
        )
        return [noted, *await self._correct_pressed_copy(lease, click, approval)]

    async def _correct_pressed_copy(self, lease: Lease, click: Click, approval: Approval | None) -> Sequence[Write]:
        """A copy that nobody knew of, and one that was never brought up to date, say from now on what is true."""
        if approval is None or click.card is None:
            return []
        known = self.approvals.read_from_lease(lease)
        settled_ms = max(approval.created_ms, approval.decided_ms) + SETTLED_MS
        outdated = approval.state is not ApprovalState.OPEN or click.version != approval.version
        if approval == known and not (outdated and self.clock.now_ms() > settled_ms):
            return []
        shown = await self.card_delivery.update_copies(approval, [click.card])
        refresh = self.lifecycle.build_refresh_request(lease.item, shown)
        return [self.approvals.build_delivery_write(shown.approval), *refresh]
