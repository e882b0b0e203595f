"""Opens a new version of a card: edited, renewed after it expired, or reopened because more has to be confirmed.

Every new version is validated, shown and sealed. The buttons of older versions are stale from then on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bot.agent.proposals import propose_call
from bot.approvals.delivery import CardDelivery
from bot.approvals.events import CardEdited, CardRenewed, ConfirmationRequired
from bot.approvals.lifecycle import ApprovalLifecycle
from bot.approvals.openings import OpenTime
from bot.approvals.state import edit_args, transition
from bot.chat.messages import Click
from bot.core.clock import Clock
from bot.core.i18n import render_value
from bot.core.records import Approval
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from tools.spec import Caller, Proposal, ToolError
from tools.tool import Tool, ToolContext, ToolServices


@dataclass(frozen=True, slots=True, kw_only=True)
class CardEditor:
    card_delivery: CardDelivery
    lifecycle: ApprovalLifecycle
    tool_services: ToolServices
    tools: Mapping[str, Tool]
    clock: Clock
    open_time: OpenTime

    async def edit_card(self, lease: Lease, approval: Approval, person: Caller, click: Click) -> Sequence[Write]:
        """Show the edited arguments on the card. If they are invalid, the person gets the reason and the card stays as
        it is."""
        tool = self.tools[approval.tool]
        if tool.prepare is None:
            return []
        context = ToolContext(self.tool_services, person, self.clock.today(person.person.zone))
        try:
            proposal = await propose_call(tool, context, edit_args(approval, click))
        except ToolError as error:
            await self.card_delivery.post_ephemeral(click, render_value(error.note, person.person.language))
            return []
        now = self.clock.now()
        period = await self.open_time.measure(proposal, approval.caller, now)
        edited, effects = transition(approval, CardEdited(proposal=proposal, person=click.person, **period), now)
        shown = await self.card_delivery.replace_card(approval, edited, click.id, again=lease.item.is_redelivery)
        return self.lifecycle.write_shown_effects(lease.item, shown, effects)

    async def renew_card(self, lease: Lease, approval: Approval, person: Caller) -> Sequence[Write]:
        """Renew an expired card: the same arguments, open again, for the same people."""
        now = self.clock.now()
        period = await self.open_time.measure(approval.proposal, approval.caller, now)
        renewal = CardRenewed(proposal=approval.proposal, person=person.id, **period)
        renewed, effects = transition(approval, renewal, now)
        shown = await self.card_delivery.post_card(renewed, "renewed", again=lease.item.is_redelivery)
        return self.lifecycle.write_shown_effects(lease.item, shown, effects)

    async def reopen_card(self, lease: Lease, approval: Approval, proposal: Proposal) -> Sequence[Write]:
        """Reopen a card whose tool did nothing. The card now says what the presser did not know, and needs another
        press."""
        now = self.clock.now()
        period = await self.open_time.measure(proposal, approval.caller, now)
        reopened, effects = transition(approval, ConfirmationRequired(proposal=proposal, **period), now)
        asked, again = f"again:{approval.version}", lease.item.is_redelivery
        shown = await self.card_delivery.replace_card(approval, reopened, asked, again=again)
        return self.lifecycle.write_shown_effects(lease.item, shown, effects)
