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
from bot.chat.messages import Click
from bot.core.approval_sets import SET_DECISIONS
from bot.core.records import Approval, ApprovalState, EffectState
from bot.core.work_items import ButtonPressed, NotifyPerson, RefreshCard, SettleCard, build_show_lane
from bot.queue.scripts import ScriptRunner
from bot.queue.stored_items import build_stored_item, get_put_ms, split_stored_item
from bot.queue.writes import EnqueueItem, apply_writes
from bot.redis.connect import translate_redis_errors
from bot.storage.approvals import ApprovalStore
from tools.spec import TextRef
from tools.tasks.todo import DECIDE_TASK

STALE = 0
"""A version that no card or set ever has."""


async def withdraw_presses(scripts: ScriptRunner, is_kept_here: Callable[[str], bool]) -> int:
    """Replace every press that would have an effect outside this store, while nobody works in it. `is_kept_here`:
    whether the effects of a tool (by name) lie in the store. Returns the number of replaced presses. Raises
    StoreUnavailableError."""
    redis, keys, count = scripts.redis, scripts.keys, 0
    for partition in range(keys.partitions):
        with translate_redis_errors():
            lanes = [str(one) for one in await redis.zrange(keys.build_key(partition, "z"), 0, -1)]
        for lane in lanes:
            inbox = keys.build_key(partition, "in", lane)
            with translate_redis_errors():
                rows = [str(one) for one in await redis.lrange(inbox, 0, -1)]
            for index, row in enumerate(rows):
                id, body = split_stored_item(row)
                click = _read_press(body)
                other = await _choose_replacement(scripts, click, is_kept_here) if click else ""
                if other:
                    with translate_redis_errors():
                        await redis.lset(inbox, index, build_stored_item(get_put_ms(row), id, other))
                count += bool(other)
    return count


def _read_press(body: str) -> Click | None:
    try:
        return ButtonPressed.model_validate_json(body).click
    except ValidationError:
        return None


async def _choose_replacement(scripts: ScriptRunner, click: Click, is_kept_here: Callable[[str], bool]) -> str:
    """Return the body of the item that replaces a press; empty if the press stays."""
    stale = ButtonPressed(click=click.model_copy(update={"version": STALE})).model_dump_json()
    if click.choice in SET_DECISIONS:
        return "" if is_kept_here(DECIDE_TASK.name) else stale
    approval = await ApprovalStore(scripts.redis, scripts.keys).find_readable_approval(click.approval)
    if approval is None or is_kept_here(approval.tool):
        return ""
    if approval.press_id == click.id:
        return stale if await _end_as_unknown(scripts, approval) else ""
    if not _executes(approval, click.choice):
        return ""
    if click.in_set:
        return stale
    await _show_again(scripts, approval.id, click.id)
    title = (approval.proposal.title,) if click.person in approval.proposal.deciders else ()
    told = TextRef(key="restored.press_withdrawn")
    return NotifyPerson(person=click.person, text=told, more=title).model_dump_json()


async def _show_again(scripts: ScriptRunner, approval: str, id: str) -> None:
    """Update the card's messages from the store: people see a later state, which cannot be pressed."""
    lane, work = build_show_lane(approval), RefreshCard(approval=approval)
    put = EnqueueItem(lane, f"withdrawn:{id}", work.model_dump_json())
    await apply_writes(scripts.redis, scripts.keys, scripts.keys.get_partition(lane), [put])


def _executes(approval: Approval, choice: str) -> bool:
    """Whether this button would run an effect of the card in its current state."""
    if approval.state is ApprovalState.OPEN:
        found = find_choice(approval.proposal, choice)
        return found is not None and found.executes
    return approval.effect in (EffectState.FAILED, EffectState.UNKNOWN) and choice in RECOVERY_CHOICES - {"happened"}


async def _end_as_unknown(scripts: ScriptRunner, approval: Approval) -> bool:
    """End as unknown a decision whose effect has not ended. Returns False if there is none."""
    if approval.state is not ApprovalState.DECIDED or approval.effect not in (EffectState.NONE, EffectState.STARTED):
        return False
    tries = max(approval.attempts, 1)
    unknown = approval.model_copy(update={"effect": EffectState.UNKNOWN, "attempts": tries})
    store, keys = ApprovalStore(scripts.redis, scripts.keys), scripts.keys
    put = EnqueueItem(unknown.id, f"withdrawn:{unknown.id}:{unknown.press_id}", SettleCard().model_dump_json())
    writes = (*store.build_close_writes(unknown), put)
    await apply_writes(scripts.redis, keys, keys.get_partition(unknown.id), writes)
    return True
