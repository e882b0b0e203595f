"""Taking back a card that waits for its button: less happens, so no button is needed for it."""

from __future__ import annotations

from pydantic import Field

from tools.advice import advice
from tools.spec import Frozen, Note, Outcome, Privacy, ToolError
from tools.tool import Tool, Use


class CancelCard(Frozen):
    card: str = Field(description="Id of the open card, as listed under the open cards of this conversation.")


async def run_cancel_card(use: Use, args: CancelCard) -> Outcome:
    if use.desk.cards is None or not await use.desk.cards.cancel(args.card.strip(), use.caller.id):
        raise ToolError(
            "no_card", f"There is no open card {args.card[:40]!r} that this person asked for.", card=args.card[:40]
        )
    return Outcome(data={"card": args.card, "status": "cancelled"}, note=Note(key="result.cancelled"))


CANCEL_CARD = Tool(
    name="cancel_card",
    purpose="Take back a card of this conversation that still waits for a button.",
    use_when="the person says that they do not want what the open card proposes, or want something else instead",
    avoid_when="the request was started already (use withdraw_request), or the card is somebody else's task",
    args=CancelCard,
    returns='{"card", "status": "cancelled"}',
    errors=advice("no_card"),
    example={"card": "A03k2j5d8f1g0h2"},
    run=run_cancel_card,
    cached=False,
    privacy=Privacy.PUBLIC,
)
