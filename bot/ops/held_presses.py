"""Withdraws presses that wait in a restored store. Their effects outside (a mail, a server's tool) may have happened
since the copy was made, unknown to the copy. So none of these presses is carried out when work goes on.

The presser is told, checks, and presses again on the card, which is shown as the store has it. An effect that had begun
is *unknown*, and its card asks about it. An effect inside the store is gone with the old store, so its press is carried
out as it waits."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError

from bot.approvals.authorization import RECOVERY_CHOICES
from bot.approvals.render import find_choice
from bot.core.records import ApprovalState, EffectState
from bot.core.work_items import SET_DECISIONS, ButtonPressed, NotifyPerson, RefreshCard, SettleCard, build_show_lane
from bot.ops.holds import stream_waiting_items
from bot.queue.keys import build_stored_item, get_put_ms, split_stored_item
from bot.queue.scripts import ScriptRunner
from bot.queue.writes import EnqueueItem, apply_writes
from bot.storage.approvals import ApprovalStore
from tools.spec import TextRef
from tools.tasks.todo import DECIDE_TASK

STALE = 0
"""A version that no card or set ever has."""


async def withdraw_presses(scripts: ScriptRunner, is_kept_here: Callable[[str], bool]) -> int:
    """Replace every press that would have an effect outside this store, while nobody works in it. `is_kept_here`:
    whether the effects of a tool (by name) lie in the store. Returns the number of replaced presses. Raises
    StoreUnavailableError."""
    count = 0
    async for inbox, rows in stream_waiting_items(scripts):
        for index, row in enumerate(rows):
            id, body = split_stored_item(row)
            if other := await _choose_replacement(scripts, body, is_kept_here):
                await scripts.redis.lset(inbox, index, build_stored_item(get_put_ms(row), id, other))
                count += 1
    return count


async def _choose_replacement(scripts: ScriptRunner, body: str, is_kept_here: Callable[[str], bool]) -> str:
    """Return the body of the item that replaces a press; empty if the press stays, and for any other item."""
    try:
        click = ButtonPressed.model_validate_json(body).click
    except ValidationError:
        return ""
    stale = ButtonPressed(click=click.model_copy(update={"version": STALE})).model_dump_json()
    if click.choice in SET_DECISIONS:
        return "" if is_kept_here(DECIDE_TASK.name) else stale
    redis, keys = scripts.redis, scripts.keys
    approvals = ApprovalStore(redis, keys)
    approval = await approvals.find_readable_approval(click.approval)
    if approval is None or is_kept_here(approval.tool):
        return ""
    if approval.press_id == click.id:
        is_decided = approval.state is ApprovalState.DECIDED
        if not is_decided or approval.effect not in (EffectState.NONE, EffectState.STARTED):
            return ""
        unknown = approval.model_copy(update={"effect": EffectState.UNKNOWN, "attempts": max(approval.attempts, 1)})
        put = EnqueueItem(unknown.id, f"withdrawn:{unknown.id}:{unknown.press_id}", SettleCard().model_dump_json())
        await apply_writes(redis, keys, keys.get_partition(unknown.id), (*approvals.build_close_writes(unknown), put))
        return stale
    if approval.state is ApprovalState.OPEN:
        choice = find_choice(approval.proposal, click.choice)
        executes = choice is not None and choice.executes
    else:
        is_unclear = approval.effect in (EffectState.FAILED, EffectState.UNKNOWN)
        executes = is_unclear and click.choice in RECOVERY_CHOICES - {"happened"}
    if not executes:
        return ""
    if click.in_set:
        return stale
    # The card's messages are updated from the store: people see a later state, which cannot be pressed.
    lane, work = build_show_lane(approval.id), RefreshCard(approval=approval.id)
    put = EnqueueItem(lane, f"withdrawn:{click.id}", work.model_dump_json())
    await apply_writes(redis, keys, keys.get_partition(lane), [put])
    title = (approval.proposal.title,) if click.person in approval.proposal.deciders else ()
    told = TextRef(key="restored.press_withdrawn")
    return NotifyPerson(person=click.person, text=told, more=title).model_dump_json()
