"""Refuses a press: tells the person why, journals it, and corrects an outdated copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.approvals.authorization import PressRefusal, shows_another_card
from bot.approvals.delivery import CardDelivery
from bot.approvals.lifecycle import ApprovalLifecycle, build_set_refresh
from bot.chat.messages import Click
from bot.core import metrics
from bot.core.clock import Clock
from bot.core.records import Approval, ApprovalState, EffectState
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from bot.storage.approvals import ApprovalStore
from bot.storage.journal import Journal

RECENT_MS = 24 * 3_600_000
"""Age up to which a card counts as recent (ms): far less than the time for which records of cards are kept."""
SETTLED_MS = 60_000
"""Time after a change in which an update may still be on its way to people (ms). A press in that time is only late."""


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
        """Tell the person privately why the press does nothing and who can press, and journal it. An outdated copy is
        corrected here. A press from a set is answered in the set. A double click is answered by the card alone: a
        person who decided with this very button gets no message, unless its effect failed."""
        metrics.PRESSES.labels(refusal.code).inc()
        is_repeated = (
            approval is not None
            and not shows_another_card(approval, click.version, click.seal)
            and approval.effect not in (EffectState.FAILED, EffectState.UNKNOWN)
            and (approval.decided_by, approval.choice, approval.version) == (click.person, click.choice, click.version)
        )
        if not click.in_set and not is_repeated:
            await self.card_delivery.post_refusal(click, approval, refusal)
        try:
            posted_ms = float(click.card.ts) * 1000 if click.card else 0
        except ValueError:
            posted_ms = float("-inf")
        # If the store has no record of a recent card, another store has it.
        is_foreign = approval is None and self.clock.now_ms() - posted_ms < RECENT_MS
        journal_write = self.journal.build_record_write(
            click.approval,
            "approval.refused",
            person=click.person,
            channel=click.place.channel,
            text=refusal.code,
            approval=click.approval,
            choice=click.choice,
            **({"set": click.in_set} if click.in_set else {}),
            **({"foreign": "yes"} if is_foreign else {}),
        )
        if click.in_set:
            told = {"approval": click.approval, "code": refusal.code, "note": refusal.text}
            return [journal_write, build_set_refresh(lease.item, click.in_set, **told)]
        if approval is None or click.card is None:
            return [journal_write]
        stored = self.approvals.read_from_lease(lease)
        settled_ms = max(approval.created_ms, approval.decided_ms) + SETTLED_MS
        is_other = shows_another_card(approval, click.version, click.seal)
        is_outdated = is_other or approval.state is not ApprovalState.OPEN or click.version != approval.version
        if approval == stored and not is_other and not (is_outdated and self.clock.now_ms() > settled_ms):
            return [journal_write]
        delivered_card = await self.card_delivery.update_copies(approval, [click.card])
        refresh = self.lifecycle.build_refresh_request(lease.item, delivered_card)
        return [journal_write, self.approvals.build_delivery_write(delivered_card.approval), *refresh]
