"""A call that waits for its button already gets no second card.

Which call is the same is decided here, by code: the same caller, conversation, tool and arguments, and a card that can
still be pressed. What stands in another conversation (a DM, another thread) is another matter; an identical start that
is pressed there is caught by the engine (`tools.workflow.repeating`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bot.records import Approval, ApprovalState, Run
from bot.store.approvals import Approvals
from bot.store.runs import Runs, Waiting
from bot.trace import fingerprint
from tools.spec import Gate, Plan, ToolError


@dataclass(frozen=True, slots=True)
class Duplicates:
    approvals: Approvals
    runs: Runs

    async def refuse(self, waiting: Sequence[Waiting], run: Run, tool: str, plan: Plan) -> None:
        """`waiting`: the runs of the conversation that wait for a button. Raises `ToolError` `card_waits`, or
        `card_edited` when the person has changed the card since it was proposed: pressing both would do twice what is
        wanted once."""
        for one in waiting:
            other = await self.runs.get(one.run) if one.run != run.id and one.tool == tool else None
            if other is not None and other.message.person == run.message.person:
                await self._refuse_beside(other, run, tool, plan)

    async def _refuse_beside(self, other: Run, run: Run, tool: str, plan: Plan) -> None:
        if other.ask is None or other.ask.gate is not Gate.CONFIRM:  # the card of a task is one whoever asks for it
            return
        approval = await self.approvals.get(other.ask.approval)
        if approval is not None and approval.state is not ApprovalState.OPEN:
            return
        wanted = fingerprint(tool, plan.args)
        if wanted == fingerprint(tool, (approval.plan if approval else other.ask.plan).args):
            raise _refusal("card_waits", "", other.ask.approval, _where(approval, run))
        if wanted == fingerprint(tool, other.ask.plan.args):
            changed = "The person has edited that card since: it stands with their values. "
            raise _refusal("card_edited", changed, other.ask.approval, _where(approval, run))


def _refusal(code: str, changed: str, card: str, where: str) -> ToolError:
    text = (
        f"No second card: card {card} for this very call waits already for the person's own button, {where}. {changed}"
        "Words press no button. Tell them in one sentence to press it there, and do not propose this again; "
        "cancel_card takes the card back."
    )
    return ToolError(code, text)


def _where(approval: Approval | None, run: Run) -> str:
    """Where the person finds the card. One that is just being brought (no record yet) comes to their DM."""
    channels = [ref.channel for reader, ref in approval.refs if reader == run.message.person] if approval else []
    here = run.message.place.channel in channels if channels else run.message.place.direct
    return "above in this conversation" if here else "in their direct messages with you"
