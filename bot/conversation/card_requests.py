"""Requests a card for a run: the order for the card's lane, and the sentence that tells the person where the card
is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bot.agent.events import RunPaused
from bot.approvals.render import describe_proposal
from bot.chat.messages import Post
from bot.conversation.endings import post_pointer
from bot.conversation.turn_context import TurnContext, Turns
from bot.core.disclosure import can_show_in
from bot.core.i18n import render_value, translate
from bot.core.records import Approval, CardSummary, OpenCard, RunStatus
from bot.core.run_state import CallStatus
from bot.core.work_items import CHANGED
from bot.storage.approvals import build_open_card
from tools.cancel_card.tool import CANCEL_CARD
from tools.cards.fields import build_change_fields
from tools.languages import choose_words
from tools.people.names import format_people_names
from tools.requests.processes import START_PROCESS, WITHDRAW_REQUEST
from tools.spec import Gate, Privacy


async def request_card(turns: Turns, context: TurnContext, event: RunPaused) -> None:
    """Pause the run and build its card. The run records the card that it waits for."""
    run, place = context.run, context.run.message.place
    can_show_here = await can_show_in(turns.platform, place, Privacy.PRIVATE)
    proposal = event.proposal
    former: Approval | None = None
    if event.call.tool == START_PROCESS.name:  # a new request may replace a card: it shows the differences
        # The card that this run has cancelled or by which it has withdrawn a request, or the changed message's.
        cards = [
            one.approval if one.tool == WITHDRAW_REQUEST.name else str(one.args.get("card", "")).strip()
            for one in run.state.calls
            if one.status is CallStatus.SUCCEEDED and one.tool in (WITHDRAW_REQUEST.name, CANCEL_CARD.name)
        ]
        if not cards and run.message.id.startswith(CHANGED):
            earlier = await turns.stores.runs.load_run(run.message.id.removeprefix(CHANGED))
            cards = [one.approval for one in earlier.state.calls if one.approval] if earlier else []
        former = await turns.stores.approvals.load_approval(cards[-1]) if cards else None
    if (
        former is not None
        and former.owner == run.message.person
        and former.proposal.title.params.get("process") == proposal.title.params["process"]
    ):
        form, fields = proposal.args["form"], former.proposal.fields
        is_same = former.proposal.args.get("form", form) == form
        changes = build_change_fields(fields, proposal.fields, render_value, is_same=is_same)
        proposal = proposal.with_card_fields((*changes, *proposal.fields))
    run.requested_card = build_open_card(turns.stores.keys, run, event.call, proposal, event.gate, here=can_show_here)
    index = run.state.calls.index(event.call)
    run.state.calls[index] = replace(event.call, approval=run.requested_card.approval)
    run.status = RunStatus.PAUSED
    text = describe_proposal(proposal, context.caller.person)
    run.card_summary = CardSummary(text=text, made_ms=turns.stores.clock.now_ms())
    if not can_show_here and event.gate is Gate.CONFIRM:
        run.dm_place = await turns.platform.chat.open_dm(run.message.person)


async def post_card_location(turns: Turns, context: TurnContext, requested_card: OpenCard) -> None:
    """Tell the requester who decides and where the card is, unless the card comes to this very place or a step line
    says so."""
    run, again, deciders = context.run, context.is_redelivery, requested_card.proposal.deciders
    place, person, key = run.message.place, run.message.person, f"{run.id}:card:{len(run.state.calls)}"
    deputies: Sequence[str] = ()
    if requested_card.gate is Gate.APPROVE:
        engine, today = turns.tool_services.engine, turns.stores.clock.today()
        deputies = await engine.list_task_deputies(requested_card.proposal.subject, today)
    can_press, shows_steps = person in (*deciders, *deputies), turns.progress.get_display(run) == "replies"
    if requested_card.place == place or (place.direct and (can_press or shows_steps)):
        return
    if place.direct:
        who = choose_words(await format_people_names(turns.platform.directory, deciders), run.language)
        text = translate("turn.brought", run.language, who=who)
        await turns.platform.chat.post_message(place, Post(text), key=f"{run.id}:brought", again=again)
    elif can_press:
        await post_pointer(turns.platform, place, person, "pointer.card", key=key, again=again)
    elif not shows_steps or not await can_show_in(turns.platform, place):
        await post_pointer(turns.platform, place, person, "pointer.brought", key=key, again=again)
