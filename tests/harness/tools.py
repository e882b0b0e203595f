"""Small tools: those that only read, and those whose effect is confirmed on a card."""

from typing import Any

from pydantic import BaseModel

from tools.spec import CardChoice, EffectPlace, Gate, Proposal, TextRef
from tools.tool import Tool, ToolContext


async def propose(use: ToolContext, args: BaseModel) -> Proposal:
    choices = (CardChoice(name="confirm"),)
    return Proposal(args=args.model_dump(), title=TextRef(key="x"), fields=(), deciders=("U1",), choices=choices)


def build_tool(name: str, args: type[BaseModel], run: Any, **more: Any) -> Tool:
    card: dict[str, Any] = {"purpose": f"To {name}.", "use_when": "It is asked for.", "avoid_when": "It is not."}
    return Tool(name=name, args=args, run=run, **{**card, "returns": "{}", "errors": {}, "example": {}, **more})


def build_gated_tool(name: str, args: type[BaseModel], run: Any, **more: Any) -> Tool:
    effect: dict[str, Any] = {"gate": Gate.CONFIRM, "effect_place": EffectPlace.OUTSIDE, "stored_args": args}
    return build_tool(name, args, run, **{**effect, "prepare": propose, **more})
