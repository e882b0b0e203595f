"""Cancels a card that waits for its button. The tool has no gate, because cancelling changes nothing else."""

from __future__ import annotations

from pydantic import Field

from tools.error_advice import select_advice
from tools.spec import Privacy, TextRef, ToolError, ToolOutcome
from tools.tool import Tool, ToolArgs, ToolContext


class CancelCardArgs(ToolArgs):
    card: str = Field(description="Its id, as listed under the open cards.")


async def run_cancel_card(context: ToolContext, args: CancelCardArgs) -> ToolOutcome:
    if context.services.cards is None or not await context.services.cards.cancel_card(
        args.card.strip(), context.caller.id
    ):
        raise ToolError(
            "no_card", f"There is no open card {args.card[:40]!r} that this person asked for.", card=args.card[:40]
        )
    return ToolOutcome(data={"card": args.card, "status": "cancelled"}, summary=TextRef(key="result.cancelled"))


CANCEL_CARD = Tool(
    name="cancel_card",
    purpose="Take back an open card of this conversation.",
    use_when="They do not want what it proposes, or want something else instead.",
    avoid_when="It was pressed already (withdraw_request), or is somebody else's task.",
    args=CancelCardArgs,
    returns='{"card", "status": "cancelled"}',
    errors=select_advice("no_card"),
    example={"card": "A03k2j5d8f1g0h2"},
    run=run_cancel_card,
    is_cacheable=False,
    privacy=Privacy.PUBLIC,
)
