"""Rejects a call that already waits for its button, and a call that was just carried out unless the caller means it.

Code decides which calls are the same: same caller, conversation, tool and arguments, with a card that can still be
pressed. A card in another conversation (a DM, another thread) does not count. The engine refuses an identical start
that is pressed there (`tools.workflow.engine.duplicates`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.core.history_entries import PausedRun
from bot.core.records import Approval, ApprovalState, Run
from bot.core.run_state import CallStatus, fingerprint_call
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


@dataclass(frozen=True, slots=True)
class DuplicateGuard:
    approvals: ApprovalStore
    runs: RunStore

    async def reject_duplicate(self, waiting: Sequence[PausedRun], run: Run, tool: str, proposal: Proposal) -> None:
        """Raise `ToolError` for a duplicate call. `waiting`: the paused runs of the conversation. Codes: `card_waits`
        while the same card waits; `card_edited` if the person edited that card (pressing both would do one thing
        twice). Once: `done_just_now` if this run has just carried out the call, or `denied_just_now` if the person
        cancelled it."""
        _reject_repeated_call(run, tool, proposal)
        for one in waiting:
            other = await self.runs.load_run(one.run) if one.run != run.id and one.tool == tool else None
            if other is not None and other.message.person == run.message.person:
                await self._reject_waiting_duplicate(other, run, tool, proposal)

    async def _reject_waiting_duplicate(self, waiting_run: Run, run: Run, tool: str, proposal: Proposal) -> None:
        if (
            waiting_run.requested_card is None or waiting_run.requested_card.gate is not Gate.CONFIRM
        ):  # a task has one card for all who ask for it
            return
        approval = await self.approvals.load_approval(waiting_run.requested_card.approval)
        if approval is not None and approval.state is not ApprovalState.OPEN:
            return
        fingerprint = fingerprint_call(tool, proposal.args)
        if fingerprint == fingerprint_call(
            tool, (approval.proposal if approval else waiting_run.requested_card.proposal).args
        ):
            raise _build_duplicate_error(
                "card_waits", "", waiting_run.requested_card.approval, _describe_card_location(approval, run)
            )
        if fingerprint == fingerprint_call(tool, waiting_run.requested_card.proposal.args):
            changed = "The person has edited that card since: it stands with their values. "
            raise _build_duplicate_error(
                "card_edited", changed, waiting_run.requested_card.approval, _describe_card_location(approval, run)
            )


def _reject_repeated_call(run: Run, tool: str, proposal: Proposal) -> None:
    """Reject a repeat only while the call is the tool's last one: a model that calls again after this error means
    it."""
    last = next((one for one in reversed(run.state.calls) if one.tool == tool), None)
    if (
        last is None
        or last.status not in REPEAT_ERRORS
        or _drop_derived_args(last.args) != _drop_derived_args(proposal.args)
    ):
        return
    raise ToolError(*REPEAT_ERRORS[last.status])


def _drop_derived_args(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Drop the arguments that code computes for the card: their values may have changed since."""
    return {name: value for name, value in args.items() if name != "seen"}


def _build_duplicate_error(code: str, note: str, card: str, where: str) -> ToolError:
    text = (
        f"No second card: card {card} for this very call waits already for the person's own button, {where}. {note}"
        "Words press no button. Tell them in one sentence to press it there, and do not propose this again; "
        "cancel_card takes the card back."
    )
    return ToolError(code, text)


def _describe_card_location(approval: Approval | None, run: Run) -> str:
    """Describe the place where the person finds the card. A card without a record is still on its way to their DM."""
    channels = [ref.channel for reader, ref in approval.copies if reader == run.message.person] if approval else []
    here = run.message.place.channel in channels if channels else run.message.place.direct
    return "above in this conversation" if here else "in their direct messages with you"
