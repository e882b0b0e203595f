"""Rejects a call that already waits for its button, and a call that was just carried out unless the caller means it.

Code decides which calls are the same: same caller, conversation, tool and arguments, with a card that can still be
pressed. A card in another conversation (a DM, another thread) does not count. The engine refuses an identical start
that is pressed there (`tools.workflow.engine.port`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bot.core.history_entries import PausedRun
from bot.core.records import ApprovalState, Run
from bot.core.run_state import CallStatus, fingerprint_call
from bot.features.contract import Core, Feature
from bot.storage.approvals import ApprovalStore
from bot.storage.runs import RunStore
from tools.spec import Gate, Proposal, ToolError

REPEAT_ERRORS = {
    CallStatus.SUCCEEDED: (
        "done_just_now",
        "No card: this very call has been carried out in this run, its result stands above. Go on with what is left, "
        "or answer. Only if the person wants the same a second time, call it again.",
    ),
    CallStatus.DENIED: (
        "denied_just_now",
        "No card: the person has just said no to this very call. Do not propose it again; go on with what is left, or "
        "answer.",
    ),
}
"""End of an earlier call of the run → code and text of the error for a repeated call."""


def build(core: Core) -> Feature:
    return Feature(check_proposal=partial(reject_duplicate, core.stores.runs, core.stores.approvals))


async def reject_duplicate(
    runs: RunStore, approvals: ApprovalStore, waiting: Sequence[PausedRun], run: Run, tool: str, proposal: Proposal
) -> None:
    """Raise `ToolError` for a duplicate call. `waiting`: the paused runs of the conversation. Codes: `card_waits`
    while the same card waits; `card_edited` if the person edited that card (pressing both would do one thing
    twice). Once: `done_just_now` if this run has just carried out the call, or `denied_just_now` if the person
    cancelled it."""
    last = next((one for one in reversed(run.state.calls) if one.tool == tool), None)
    # Only while the call is the tool's last one: a model that calls again after this error means it.
    if (
        last is not None
        and last.status in REPEAT_ERRORS
        and _drop_derived_args(last.args) == _drop_derived_args(proposal.args)
    ):
        raise ToolError(*REPEAT_ERRORS[last.status])
    for one in waiting:
        other = await runs.load_run(one.run) if one.run != run.id and one.tool == tool else None
        if other is None or other.message.person != run.message.person:
            continue
        card = other.requested_card
        if card is None or card.gate is not Gate.CONFIRM:  # a task has one card for all who ask for it
            continue
        approval = await approvals.load_approval(card.approval)
        if approval is not None and approval.state is not ApprovalState.OPEN:
            continue
        fingerprint = fingerprint_call(tool, proposal.args)
        if fingerprint == fingerprint_call(tool, (approval or card).proposal.args):
            code, note = "card_waits", ""
        elif fingerprint == fingerprint_call(tool, card.proposal.args):
            code, note = "card_edited", "The person has edited that card since: it stands with their values. "
        else:
            continue
        # A card without a record is still on its way to their DM.
        copies = approval.copies if approval else ()
        channels = [ref.channel for reader, ref in copies if reader == run.message.person]
        here = run.message.place.channel in channels if channels else run.message.place.direct
        where = "above in this conversation" if here else "in their direct messages with you"
        raise ToolError(
            code,
            f"No second card: card {card.approval} for this very call waits already for the person's own button, "
            f"{where}. {note}Words press no button. Tell them in one sentence to press it there, and do not "
            "propose this again; cancel_card takes the card back.",
        )


def _drop_derived_args(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Drop the arguments that code computes for the card: their values may have changed since."""
    return {name: value for name, value in args.items() if name != "seen"}
