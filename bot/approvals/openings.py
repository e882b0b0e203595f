"""Opens a card: a new one, the same one again, or a new version, because it was edited, had expired, or needs another
confirmation. Every new version is validated, shown and sealed. The buttons of older versions are stale from then on."""

from __future__ import annotations

from collections.abc import Sequence

from bot.agent.tool_executor import propose_call
from bot.approvals.cards import Cards
from bot.approvals.delivery import (
    can_decide_card,
    list_card_events,
    list_recipients,
    post_card,
    post_copies,
    post_note,
    replace_card,
)
from bot.approvals.lifecycle import (
    build_event_writes,
    build_file_writes,
    build_journal_write,
    build_refresh_request,
    notify_waiter,
)
from bot.approvals.opinion_drafts import has_draft, has_new_draft
from bot.approvals.render import ADVICE_LABEL
from bot.approvals.state import OpenPeriod, add_waiter, create_approval, edit_args, open_next_version
from bot.chat.messages import Click
from bot.core.clock import to_ms
from bot.core.records import Approval, ApprovalState, OpenCard
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from bot.storage.approvals import derive_task_card_id
from tools.spec import Caller, Gate, Proposal, TextRef, ToolError
from tools.tasks.todo import DECIDE_TASK, propose_decision
from tools.tool import ToolContext
from tools.workflow.engine.authority import OVER_CODES
from tools.workflow.engine.state import TaskKind


async def open_card(cards: Cards, lease: Lease, requested_card: OpenCard) -> Sequence[Write]:
    """Deliver a card to the people who may press it. An open card is shown again, never doubled. If the card's subject
    has just ended, the waiting run gets that end instead."""
    approval = cards.stores.approvals.read_from_lease(lease)
    if approval is not None and approval.is_settled:
        return [notify_waiter(approval, requested_card.waiter)] if requested_card.waiter else []
    approval, period = await _bring_up_to_date(cards, requested_card, approval)
    if period:  # stored before it is shown: an immediate press finds it, also on a server that takes over
        opened = cards.stores.approvals.build_open_writes(approval, period.reminder_ms)
        await lease.checkpoint("open", *opened, confirm=True)
    unseen, caller = approval.delivered_version != approval.version, requested_card.caller
    item, again = lease.item, lease.item.is_redelivery
    # A decider who asks for the card is shown it again, and their own draft notifies nobody else. For other
    # requests each person has one copy, with a note under it if there is one.
    if approval.delivered_version and has_draft(approval.proposal, caller):
        readers = [caller]
    else:
        readers = await list_recipients(cards, approval)
        if not unseen and not await can_decide_card(cards, approval, caller):
            readers = [one for one in readers if one not in dict(approval.copies)]
    card = await post_copies(cards, approval, readers, item.id, again=again)
    follow_up, notes = requested_card.follow_up, dict[str, str]()
    if follow_up:
        notes = await post_note(cards, card.approval, follow_up, item.id, again=again)
    journal_write = build_journal_write(cards, approval, "approval.requested", person=caller, sha=approval.seal[:12])
    # The person of a waiting run is left out, because the run itself says where the card is.
    has_new_copy = {reader for reader, ref in card.approval.copies if (reader, ref) not in approval.copies}
    excluded = dict(card.approval.copies).keys() - has_new_copy
    excluded |= {caller} if requested_card.waiter else set()
    events = build_event_writes(item, await list_card_events(cards, card.approval, excluded) | notes)
    return [
        cards.stores.approvals.build_delivery_write(card.approval),
        *cards.stores.approvals.build_home_marks(card.approval),
        journal_write,
        *(cards.features.build_card_writes(approval) if unseen else ()),
        *build_file_writes(card),
        *events,
        *build_refresh_request(item, card),
    ]


async def _bring_up_to_date(
    cards: Cards, requested_card: OpenCard, approval: Approval | None
) -> tuple[Approval, OpenPeriod | None]:
    """Return the record with its new waiter: a new card, the next version for a new draft, or the unchanged version,
    which has no new period."""
    period = None
    if approval is None or approval.state is not ApprovalState.OPEN:
        asked = requested_card.proposal
        knows_all = requested_card.caller in ("", *asked.deciders, asked.args.get("drafted_by"))
        if requested_card.gate is Gate.APPROVE and not knows_all:
            requested_card = await _complete_for_approver(cards, requested_card)
        period = await measure_open_time(cards, requested_card.proposal, requested_card.caller)
        approval = create_approval(approval, requested_card, period)
    elif has_new_draft(approval, requested_card.proposal, requested_card.caller) and await can_decide_card(
        cards, approval, requested_card.caller
    ):
        suggestion = [fact for fact in approval.proposal.fields if fact.label == ADVICE_LABEL]
        proposal = requested_card.proposal.with_card_fields((*requested_card.proposal.fields, *suggestion))
        period = await measure_open_time(cards, proposal, approval.caller)
        approval = open_next_version(approval, proposal, period)
    if requested_card.waiter and requested_card.waiter not in approval.waiters:
        approval = add_waiter(approval, requested_card.waiter)
    return approval, period


async def _complete_for_approver(cards: Cards, asked: OpenCard) -> OpenCard:
    """Return the card as its approver has to see it. The person who asked for it does not decide, and was told less."""
    person = await cards.platform.directory.find_caller(asked.caller)
    whole = await build_task_card(cards, person, asked.proposal.subject) if person else None
    # If the task is over, a press on the card is told so.
    return asked.model_copy(update={"proposal": whole.proposal}) if whole else asked


async def edit_card(cards: Cards, lease: Lease, approval: Approval, person: Caller, click: Click) -> Sequence[Write]:
    """Show the edited arguments on the card. Raises `ToolError` if they are invalid; the card stays as it is."""
    tool = cards.tools[approval.tool]
    if tool.prepare is None:
        return []
    context = ToolContext(cards.tool_services, person, cards.stores.clock.today(person.person.zone))
    proposal = await propose_call(tool, context, edit_args(approval, click))
    return await _show_next_version(cards, lease, approval, proposal, click.id, "approval.edited", click.person)


async def renew_card(cards: Cards, lease: Lease, approval: Approval, person: Caller) -> Sequence[Write]:
    """Renew an expired card: the same arguments, open again, for the same people."""
    proposal, was = approval.proposal, ApprovalState.EXPIRED
    return await _show_next_version(cards, lease, approval, proposal, "renewed", "approval.renewed", person.id, was=was)


async def reopen_card(cards: Cards, lease: Lease, approval: Approval, proposal: Proposal) -> Sequence[Write]:
    """Reopen a card whose tool did nothing. The card now says what the presser did not know, and needs another
    press."""
    asked, by, was = f"again:{approval.version}", approval.decided_by, ApprovalState.DECIDED
    return await _show_next_version(cards, lease, approval, proposal, asked, "approval.asked_again", by, was=was)


async def _show_next_version(
    cards: Cards,
    lease: Lease,
    approval: Approval,
    proposal: Proposal,
    key_part: str,
    kind: str,
    person: str,
    *,
    was: ApprovalState = ApprovalState.OPEN,
) -> Sequence[Write]:
    """Open the next version of a card that was in this state, and show it. Readers of an expired card get a new one.
    `kind`, `person`: of the journal line."""
    period = await measure_open_time(cards, proposal, approval.caller)
    opened, again = open_next_version(approval, proposal, period, after=was), lease.item.is_redelivery
    if was is ApprovalState.EXPIRED:
        shown = await post_card(cards, opened, key_part, again=again)
    else:
        shown = await replace_card(cards, approval, opened, key_part, again=again)
    return [
        *cards.stores.approvals.build_open_writes(shown.approval, period.reminder_ms),
        build_journal_write(cards, opened, kind, person=person),
        *build_file_writes(shown),
        *build_refresh_request(lease.item, shown),
    ]


async def measure_open_time(cards: Cards, proposal: Proposal, caller: str) -> OpenPeriod:
    """Compute the open time of a card that opens now. `caller`: the person who is asked if the card names no
    deciders."""
    now, calendar = cards.stores.clock.now(), cards.tool_services.calendar
    person = await cards.platform.directory.find_person(next(iter(proposal.deciders), caller))
    zone = person.zone if person else now.tzinfo
    assert zone is not None
    end = calendar.add_working_time(now, cards.open_for, zone)
    reminder = calendar.add_working_time(now, cards.open_for, zone, share=0.5)
    return OpenPeriod(to_ms(now), to_ms(reminder), to_ms(end))


async def build_task_card(cards: Cards, reader: Caller, task: str, follow_up: TextRef | None = None) -> OpenCard | None:
    """Build the card of a task in its current state. Return None if the task is over. Raises `ToolError`."""
    context = ToolContext(cards.tool_services, reader, cards.stores.clock.today())
    try:
        kind = (await cards.tool_services.engine.get_task(task)).task.kind
        proposal = await propose_decision(context, task)
    except ToolError as error:
        if error.code in OVER_CODES:
            return None
        raise
    return OpenCard(
        approval=derive_task_card_id(cards.stores.approvals.keys, task),
        tool=DECIDE_TASK.name,
        gate=Gate.CONFIRM if kind is TaskKind.REVISE else Gate.APPROVE,
        proposal=proposal,
        caller="",
        place=None,
        follow_up=follow_up,
    )
