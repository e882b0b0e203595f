"""Requests a card for a run: what the card's lane has to deliver, and where the person finds the card."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bot.agent.events import RunPaused
from bot.approvals.render import describe_proposal
from bot.chat.messages import Channel
from bot.conversation.endings import RunReplies
from bot.conversation.reply import MessageDelivery
from bot.conversation.turn_context import TurnContext
from bot.core.clock import Clock
from bot.core.records import CardSummary, OpenCard, RunStatus
from bot.queue.keys import Keys
from bot.storage.approvals import build_open_card
from tools.spec import Gate, Privacy
from tools.tool import ToolServices


@dataclass(frozen=True, slots=True, kw_only=True)
class CardRequester:
    keys: Keys
    chat: Channel
    delivery: MessageDelivery
    replies: RunReplies
    tool_services: ToolServices
    clock: Clock

    async def request_card(self, context: TurnContext, event: RunPaused) -> OpenCard:
        """Pauses the run. The run knows which card it waits for."""
        run, place = context.run, context.run.message.place
        can_show_here = await self.delivery.can_show_in(place, Privacy.PRIVATE)
        requested_card = build_open_card(self.keys, run, event.call, event.proposal, event.gate, here=can_show_here)
        index = run.state.calls.index(event.call)
        run.state.calls[index] = replace(event.call, approval=requested_card.approval)
        run.requested_card, run.status = requested_card, RunStatus.PAUSED
        text = describe_proposal(event.proposal, context.caller.person)
        run.card_summary = CardSummary(text=text, made_ms=self.clock.now_ms())
        if not can_show_here and event.gate is Gate.CONFIRM:
            run.dm_place = await self.chat.open_dm(run.message.person)
        return requested_card

    async def post_card_location(self, context: TurnContext, requested_card: OpenCard, *, quiet: bool) -> None:
        """Tells the requester where the card is, unless it comes to this very place or a step line says so. `quiet`: no
        steps are shown."""
        run, list_deputies = context.run, self.tool_services.engine.list_task_deputies
        deputies = (
            await list_deputies(requested_card.proposal.subject, self.clock.today())
            if requested_card.gate is Gate.APPROVE
            else ()
        )
        theirs = run.message.person in (*requested_card.proposal.deciders, *deputies)
        await self.replies.post_card_location(
            run, requested_card, can_press=theirs, quiet=quiet, again=context.is_redelivery
        )
