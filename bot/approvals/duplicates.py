"""A call that waits for its button already gets no second card, and one that was just carried out only if it is meant.

Which call is the same is decided here, by code: the same caller, conversation, tool and arguments, and a card that can
still be pressed. What stands in another conversation (a DM, another thread) is another matter; an identical start that
is pressed there is caught by the engine (`tools.workflow.engine.duplicates`).
"""

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

JUST = {
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
"""How a call of the same run has ended: the code and the text of the error for the same once more."""


@dataclass(frozen=True, slots=True)
class DuplicateGuard:
    approvals: ApprovalStore
    runs: RunStore

    async def reject_duplicate(self, waiting: Sequence[PausedRun], run: Run, tool: str, proposal: Proposal) -> None:
        """`waiting`: the runs of the conversation that wait for a button. Raises `ToolError` `card_waits`, or
        `card_edited` when the person has changed the card since it was proposed: pressing both would do twice what is
        wanted once; once, when this very run has carried it out, `done_just_now`, and `denied_just_now` when the
        person did not want it."""
        _reject_repeated_call(run, tool, proposal)
        for one in waiting:
            other = await self.runs.load_run(one.run) if one.run != run.id and one.tool == tool else None
            if other is not None and other.message.person == run.message.person:
                await self._reject_waiting_duplicate(other, run, tool, proposal)

    async def _reject_waiting_duplicate(self, other: Run, run: Run, tool: str, proposal: Proposal) -> None:
        if (
            other.requested_card is None or other.requested_card.gate is not Gate.CONFIRM
        ):  # the card of a task is one whoever asks for it
            return
        approval = await self.approvals.load_approval(other.requested_card.approval)
        if approval is not None and approval.state is not ApprovalState.OPEN:
            return
        wanted = fingerprint_call(tool, proposal.args)
        if wanted == fingerprint_call(tool, (approval.proposal if approval else other.requested_card.proposal).args):
            raise _build_duplicate_error(
                "card_waits", "", other.requested_card.approval, _describe_card_location(approval, run)
            )
        if wanted == fingerprint_call(tool, other.requested_card.proposal.args):
            changed = "The person has edited that card since: it stands with their values. "
            raise _build_duplicate_error(
                "card_edited", changed, other.requested_card.approval, _describe_card_location(approval, run)
            )


def _reject_repeated_call(run: Run, tool: str, proposal: Proposal) -> None:
    """Only while it is the last call of the tool: who was told so and calls again, means it."""
    last = next((one for one in reversed(run.state.calls) if one.tool == tool), None)
    if last is None or last.status not in JUST or _drop_derived_args(last.args) != _drop_derived_args(proposal.args):
        return
    raise ToolError(*JUST[last.status])


def _drop_derived_args(args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what the program says of the card: sums on it have changed since."""
    return {name: value for name, value in args.items() if name != "seen"}


def _build_duplicate_error(code: str, changed: str, card: str, where: str) -> ToolError:
    text = (
        f"No second card: card {card} for this very call waits already for the person's own button, {where}. {changed}"
        "Words press no button. Tell them in one sentence to press it there, and do not propose this again; "
        "cancel_card takes the card back."
    )
    return ToolError(code, text)


def _describe_card_location(approval: Approval | None, run: Run) -> str:
    """Where the person finds the card. One that is just being brought (no record yet) comes to their DM."""
    channels = [ref.channel for reader, ref in approval.copies if reader == run.message.person] if approval else []
    here = run.message.place.channel in channels if channels else run.message.place.direct
    return "above in this conversation" if here else "in their direct messages with you"
