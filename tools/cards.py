"""Taking back a card that waits for its button: less happens, so no button is needed for it."""

from __future__ import annotations

from pydantic import Field

from tools.advice import advice
from tools.spec import Frozen, Note, Outcome, Privacy, ToolError
from tools.tool import Tool, Use


class CancelCard(Frozen):
    card: str = Field(description="Its id, as listed under the open cards.")


async def run_cancel_card(use: Use, args: CancelCard) -> Outcome:
    if use.desk.cards is None or not await use.desk.cards.cancel(args.card.strip(), use.caller.id):
        raise ToolError(
            "no_card", f"There is no open card {args.card[:40]!r} that this person asked for.", card=args.card[:40]
        )
    return Outcome(data={"card": args.card, "status": "cancelled"}, note=Note(key="result.cancelled"))


CANCEL_CARD = Tool(
    name="cancel_card",
    purpose="Take back an open card of this conversation.",
    use_when="They do not want what it proposes, or want something else instead.",
    avoid_when="It was pressed already (withdraw_request), or is somebody else's task.",
    args=CancelCard,
    returns='{"card", "status": "cancelled"}',
    errors=advice("no_card"),
    example={"card": "A03k2j5d8f1g0h2"},
    run=run_cancel_card,
    cached=False,
    privacy=Privacy.PUBLIC,
)
