"""Handles one click.

`handle_press` is the whole path of a press, top to bottom. Find the card → finish what a crash interrupted → identify
and authorize the person → find the button's choice → decide once, with one write under the lane's token → carry out the
effect: start, execute, end, with the stored arguments and no model in between. The commit that pops the click also
writes the result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from bot.approvals import render
from bot.approvals.authorization import RECOVERY_CHOICES, RENEWAL_CHOICES, authorize_press
from bot.approvals.cards import Cards
from bot.approvals.delivery import list_represented
from bot.approvals.lifecycle import build_journal_write, end_approval, request_refresh
from bot.approvals.openings import edit_card, renew_card, reopen_card
from bot.approvals.opinion_drafts import read_form_answers
from bot.approvals.refusals import post_refusal, refuse_press, replace_unreadable_card
from bot.approvals.state import (
    ENDED_EFFECTS,
    IllegalTransitionError,
    change_parts,
    complete_effect,
    confirm_effect,
    decide_approval,
    fail_effect,
    is_resumable,
    keep_copies,
    lose_effect,
    merge_args,
    retry_effect,
    start_effect,
)
from bot.chat.messages import Click
from bot.core import metrics
from bot.core.cancellation import cancel_and_wait
from bot.core.errors import UnreadableRecordError
from bot.core.records import Approval, ApprovalState, EffectState, compute_seal
from bot.core.run_state import validate_args
from bot.queue.lanes import Lease, RetryLater
from bot.queue.worker import write_until_stored
from bot.queue.writes import Write
from tools.catalog import TOOLS
from tools.characters import clean_form, count_cleaned
from tools.effect_parts import EffectParts, PartState
from tools.spec import Caller, CardChoice, ConfirmAgainError, EffectPlace, EffectUnknownError, Gate, TextRef, ToolError
from tools.tool import ToolContext
from tools.workflow.process.forms import list_file_ids

CHOICES_WITHOUT_DECISION = RENEWAL_CHOICES | RECOVERY_CHOICES
"""Presses that decide nothing about an open card."""
UNAUTHORIZED_CODES = frozenset({"not_named", "nobody_named"})
"""Codes of `Tool.authorize` for a person whom the rules no longer name. The effect reports any other code."""
SHOWN_AFTER_S = 1.0
"""Time after which a running effect is shown on its card as begun (s)."""
TRY_AGAIN_S = (60.0, 360.0)
"""Delays before the retries after a temporary refusal (s). Mail servers that put strangers off do so for five minutes
at most."""
_TOOL_NAMES = frozenset(tool.name for tool in TOOLS)
"""Names of the bot's own tools; tools of servers are counted together."""
for _name in (*sorted(tool.name for tool in TOOLS if tool.gate is not Gate.NONE), metrics.OTHER):
    metrics.EFFECTS.labels(_name, EffectState.UNKNOWN.value)  # at zero: the first one is an increase


async def handle_press(cards: Cards, lease: Lease, click: Click) -> Sequence[Write]:
    """Handle a click. Returns the writes for its commit."""
    standing = frozenset[str]()  # the people for whom the presser is a deputy
    try:
        approval = cards.stores.approvals.read_from_lease(lease)
        if approval is not None:
            standing = await list_represented(cards, approval, click.person)
            approval = _add_pressed_copy(approval, click, standing)
    except UnreadableRecordError:
        return await replace_unreadable_card(cards, lease, click)
    if approval is not None and approval.press_id == click.id:  # this click decided the card before a crash
        # If the effect has ended, the click is only committed: a redelivered click never runs the effect again.
        return [] if approval.effect in ENDED_EFFECTS else await carry_out_effect(cards, lease, approval)
    await cards.platform.directory.refresh_people([click.person])
    person = await cards.platform.directory.find_caller(click.person)
    if approval is None or person is None:
        return await refuse_press(cards, lease, click, None, "gone" if person else "stranger")
    now_ms = cards.stores.clock.now_ms()
    is_feature = click.choice in cards.features.card_presses
    code = authorize_press(
        approval, click.person, click.choice, click.version, now_ms, standing, click.seal, is_feature=is_feature
    )
    if code:
        return await refuse_press(cards, lease, click, approval, code)
    choice = render.find_choice(approval.proposal, click.choice)
    if click.form is not None and not (choice and choice.fields):  # a dialog that nobody was shown
        return await refuse_press(cards, lease, click, approval, "no_form")
    if is_feature or click.choice in CHOICES_WITHOUT_DECISION:
        metrics.PRESSES.labels("changed").inc()
        if press := cards.features.card_presses.get(click.choice):
            return await press(approval, click)
        if click.choice in RENEWAL_CHOICES:
            return await renew_card(cards, lease, approval, person)
        return await recover_effect(cards, lease, approval, click)
    assert choice is not None, "authorize_press refuses what the card does not offer"
    if choice.edits and approval.tool not in cards.tools:  # a deploy has removed the tool
        return await refuse_press(cards, lease, click, approval, "no_tool")
    if choice.fields and click.form is None:
        return await refuse_press(cards, lease, click, approval, "no_form")
    click = click.with_form(read_form_answers(approval.proposal, choice, click))
    named = [(click.form or {}).get(field.name, "") for field in choice.inputs if field.kind == "file"]
    files = [id for text in named for id in list_file_ids(text)]
    taken = await cards.stores.files.keeper.take_chosen_files(lease, person.id, files)
    if taken.refused:
        await cards.platform.chat.post_ephemeral(click.place, click.person, taken.refusals[person.person.language])
        return []
    if choice.edits:
        metrics.PRESSES.labels("changed").inc()
        try:
            return await edit_card(cards, lease, approval, person, click)
        except ToolError as wrong:
            await post_refusal(cards, click, approval, wrong.code, wrong.note)
            return []
    if choice.executes and (error := await _check_authorization(cards, approval, person, choice, click)):
        return await refuse_press(cards, lease, click, approval, error.code, error.note)
    return await _decide_approval(cards, lease, approval, choice, click)


async def _check_authorization(
    cards: Cards, approval: Approval, person: Caller, choice: CardChoice, click: Click
) -> ToolError | None:
    """Return the tool's error if the rules no longer name this person. Nothing is decided: the card stays open for the
    others."""
    tool = cards.tools.get(approval.tool)
    if tool is None or tool.authorize is None or tool.stored_args is None:
        return None
    context = ToolContext(cards.tool_services, person, cards.stores.clock.today(person.person.zone))
    try:
        args = validate_args(tool.stored_args, merge_args(approval, choice, click.form or {}))
        await tool.authorize(context, args)
    except ToolError as error:
        return error if error.code in UNAUTHORIZED_CODES else None
    return None


async def _decide_approval(
    cards: Cards, lease: Lease, approval: Approval, choice: CardChoice, click: Click
) -> Sequence[Write]:
    """Decide once, with one write. A repeatable effect starts in the same write."""
    form = click.form or {}
    removed, click = sum(map(count_cleaned, form.values())), click.with_form(clean_form(form))
    try:
        decided = decide_approval(approval, click, removed, cards.stores.clock.now(), runs=choice.executes)
    except IllegalTransitionError as illegal:  # its time ran out since the check
        return await refuse_press(cards, lease, click, approval, illegal.code)
    decide = cards.stores.approvals.build_decide_writes(click, ends=decided.state, now_ms=decided.decided_ms)
    started = start_effect(decided) if choice.executes and await is_repeatable(cards, decided) else None
    begin = _build_start_writes(cards, started) if started else ()
    result = await lease.checkpoint("decide", *decide, *begin)
    if result.refused:
        return await refuse_press(cards, lease, click, approval, result.refused)
    metrics.PRESSES.labels("decided").inc()
    if started:
        return await run_effect(cards, lease, started, await find_presser(cards, started))
    return await carry_out_effect(cards, lease, decided)


def _build_start_writes(cards: Cards, started: Approval) -> Sequence[Write]:
    noted = build_journal_write(cards, started, "effect.started", person=started.decided_by)
    return [cards.stores.approvals.build_save_write(started), noted]


def _add_pressed_copy(approval: Approval, click: Click, standing: frozenset[str]) -> Approval:
    """Add the pressed copy to the record if it was missing. A process that was held up may have posted the card a
    second time. The copy goes first in the list, so that it will point to the recorded one. Only copies of people whom
    the card concerns count, and only in the right place."""
    if click.card is None or click.card in [ref for _, ref in approval.copies]:
        return approval
    concerned = {*approval.proposal.deciders, approval.proposal.requester, approval.caller}
    concerned |= {click.person} if standing else set()
    reader = approval.caller if approval.place else click.person
    if reader not in concerned or click.card.channel != (approval.place or click.place).channel:
        return approval
    return keep_copies(approval, ((reader, click.card), *approval.copies))


# The effect: after a crash, a started one is never repeated blindly. If it is not safe to repeat, it ends as unknown,
# and a person says on the card what became of it.


async def carry_out_effect(cards: Cards, lease: Lease, approval: Approval) -> Sequence[Write]:
    """Take the effect from decided to done, failed or unknown. After a crash, the effect continues from the stored
    record."""
    if approval.state is not ApprovalState.DECIDED:
        return await end_approval(cards, lease.item, approval)
    is_started, is_safe = approval.effect is EffectState.STARTED, await is_repeatable(cards, approval)
    if is_started and not is_safe and not is_resumable(approval):
        return await _end_effect(cards, lease, lose_effect(approval))
    presser = await find_presser(cards, approval)
    if not is_started:  # this process alone knows that nothing has run
        approval = start_effect(approval)
        seq, writes = f"begin:{approval.attempts}", _build_start_writes(cards, approval)
        if is_safe:
            await lease.checkpoint(seq, *writes, confirm=True)
        elif not await write_until_stored(partial(lease.begin, seq, *writes)):
            return await _end_effect(cards, lease, lose_effect(approval))
    return await run_effect(cards, lease, approval, presser)


async def is_repeatable(cards: Cards, approval: Approval) -> bool:
    """Whether a started effect can run again with its key and give the same result."""
    tool = cards.tools.get(approval.tool)
    return tool is not None and tool.is_idempotent and await find_presser(cards, approval) is not None


async def find_presser(cards: Cards, approval: Approval) -> Caller | None:
    """Find the presser as they are now. Nothing runs in the name of a person who is no longer a member."""
    await cards.platform.directory.refresh_people([approval.decided_by])
    return await cards.platform.directory.find_caller(approval.decided_by)


async def run_effect(cards: Cards, lease: Lease, approval: Approval, presser: Caller | None) -> Sequence[Write]:
    """Run a started effect to its end, or reopen the card for another confirmation. While the effect runs for longer
    than a moment, the card shows who decided and when. The card of a shorter effect is rewritten once, at its end,
    because the platform allows few rewrites. An item of its own does the rewrite, so no effect waits for the
    platform."""

    async def show_later() -> None:
        await asyncio.sleep(SHOWN_AFTER_S)
        shown = request_refresh(approval.id, f"started:{approval.attempt_key}")
        await lease.checkpoint(f"show:{approval.attempts}", shown)

    try:
        with metrics.EFFECT_TIMES.labels(_get_tool_label(approval)).time():
            showing = asyncio.create_task(show_later())
            try:
                ended = await _execute_until_kept(cards, lease, approval, presser)
            finally:
                await cancel_and_wait([showing])
    except ConfirmAgainError as asked:
        return await reopen_card(cards, lease, approval, asked.plan)
    return await _end_effect(cards, lease, ended)


async def _execute_until_kept(cards: Cards, lease: Lease, approval: Approval, presser: Caller | None) -> Approval:
    """Execute the tool until one server has confirmed the writes before and after it. Another Redis server may take
    over while the engine works, and may lack the decision or the engine's result. A command of the engine can be
    repeated."""
    tool = cards.tools.get(approval.tool)
    if tool is None or tool.effect_place is not EffectPlace.ENGINE or not lease.is_confirmation_needed:
        return await _execute_tool(cards, lease, approval, presser)
    seq = f"kept:{approval.attempts}"
    before = await lease.confirm_effect(seq)
    while True:
        ended = await _execute_tool(cards, lease, approval, presser)
        if (after := await lease.confirm_effect(seq)) == before:
            return ended
        before = after


async def _execute_tool(cards: Cards, lease: Lease, approval: Approval, presser: Caller | None) -> Approval:
    """Run exactly what the card showed, with the values that the pressed button and its dialog add. Nothing runs if the
    lease was lost since the start."""
    tool = cards.tools.get(approval.tool)
    if tool is None or tool.stored_args is None or presser is None:
        return fail_effect(approval, TextRef(key="error.gone"), "The tool or the person is not here any more.")
    if compute_seal(approval.tool, approval.proposal) != approval.seal:
        why = "The stored arguments are not the shown ones; nothing was run."
        return fail_effect(approval, TextRef(key="error.altered"), why)

    saved = approval

    async def save_part(name: str, state: PartState) -> None:
        nonlocal saved
        # The effect has begun; without parts it is not resumed. Its only part is not saved, its first needs no more.
        is_first = not is_resumable(saved)
        if is_first and state is PartState.BEGUN and len(parts.states) == 1:
            return
        saved = change_parts(approval, parts.states)
        seq, write = f"part:{name}:{state}", cards.stores.approvals.build_save_write(saved)
        # This process alone knows the outcome, and that nothing more has run.
        if is_first or state is not PartState.BEGUN:
            await write_until_stored(partial(lease.checkpoint, seq, write))
        elif not await write_until_stored(partial(lease.begin, seq, write)):
            raise EffectUnknownError("begun before another server took over")

    parts = EffectParts(dict(approval.parts), save_part)  # each part is saved before the tool goes on
    try:
        choice = render.find_choice(approval.proposal, approval.choice)
        args = validate_args(tool.stored_args, merge_args(approval, choice, approval.form))
        await lease.assert_held()
        today = cards.stores.clock.today(presser.person.zone)
        # Only a repeatable effect keeps its key when it is done again.
        key = approval.effect_key if tool.is_idempotent else approval.attempt_key
        outside = cards.outside if tool.effect_place is EffectPlace.OUTSIDE else None
        context = ToolContext(cards.tool_services, presser, today, idempotency_key=key, parts=parts, outside=outside)
        outcome = await tool.run(context, args)
    except ConfirmAgainError:
        raise
    except ToolError as error:
        if error.is_temporary and parts.states and lease.item.tries <= len(TRY_AGAIN_S):
            # The card says why. The press comes again by itself and does the parts that are left.
            postponed = change_parts(approval, parts.states, error.note)
            id = f"postponed:{approval.attempt_key}:{lease.item.tries}"
            saved_write = cards.stores.approvals.build_save_write(postponed)
            await lease.checkpoint("postponed", saved_write, request_refresh(postponed.id, id))
            delay_s = TRY_AGAIN_S[lease.item.tries - 1]
            raise RetryLater(int(delay_s * 1000), error.text, counts_try=True) from None
        return fail_effect(approval, error.note, error.text, error.maybe, parts.states)
    except EffectUnknownError:
        return lose_effect(approval, parts.states)
    return complete_effect(approval, outcome, parts.states)


async def _end_effect(cards: Cards, lease: Lease, ended: Approval) -> Sequence[Write]:
    """Show the end of an effect on its card, and return the writes that store it."""
    metrics.EFFECTS.labels(_get_tool_label(ended), ended.effect.value).inc()
    return await write_until_stored(partial(end_approval, cards, lease.item, ended))


def _get_tool_label(approval: Approval) -> str:
    """Return the tool's name in metrics."""
    return approval.tool if approval.tool in _TOOL_NAMES else metrics.OTHER


async def recover_effect(cards: Cards, lease: Lease, approval: Approval, click: Click) -> Sequence[Write]:
    """Recover an effect after *failed* or *unknown*: a person confirms that it happened, or has it done again. Both
    make the pressed buttons stale, so that a double press runs the effect only once."""
    if click.choice != "happened":
        return await carry_out_effect(cards, lease, retry_effect(approval, click))
    return await end_approval(cards, lease.item, confirm_effect(approval, click))
