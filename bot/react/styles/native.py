"""ReAct by native tool calls: every action carries a required `reason`, the thought that people are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bot.react.decision import Act, Answer, Decision, Malformed, Proposed
from bot.react.model import Reply
from tools.tool import Tool

REASON = {
    "type": "string",
    "description": "One short sentence in the person's language: why this action, now. People read it.",
}


NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What endpoints accept as a tool's name when the conversation is sent back to them."""


@dataclass(frozen=True, slots=True)
class Native:
    """Implements `Style`: the endpoint is given the tools, and the model calls them."""

    name: str = "native"

    def body(self, tools: Sequence[Tool]) -> str:
        return f'"tools":{json.dumps([schema(tool) for tool in tools], ensure_ascii=False)}' if tools else ""

    def manual(self, tools: Sequence[Tool]) -> str:
        return ""

    def decide(self, reply: Reply, *, most: int) -> Decision:
        """What the reply asks for. A reply that was cut off is never acted on."""
        if reply.finish == "length":
            return Malformed("Your reply was cut off by its length. Answer again, shorter.")
        if len(reply.calls) > most:
            return Malformed(f"You asked for {len(reply.calls)} tool calls at once; at most {most} are taken.")
        if reply.calls:
            return _act(reply)
        text = reply.text.strip()
        return Answer(text) if text else Malformed("Your reply was empty. Call a tool or answer the person.")

    def asked(self, act: Act) -> dict[str, Any]:
        """The assistant message of an action, as it goes back to the model."""
        calls = [
            {
                "id": call.model_id,
                "type": "function",
                "function": {
                    "name": call.tool,
                    "arguments": json.dumps({"reason": call.reason, **call.args}, ensure_ascii=False),
                },
            }
            for call in act.proposed
        ]
        return {"role": "assistant", "content": "", "tool_calls": calls}

    def observed(self, model_id: str, observation: str) -> dict[str, Any]:
        """The message that carries an observation."""
        return {"role": "tool", "tool_call_id": model_id, "content": observation}


def schema(tool: Tool) -> dict[str, Any]:
    """The tool card as the function schema the endpoint takes."""
    described = (
        f"{tool.purpose}\nUse when: {tool.use_when}\nDo not use when: {tool.avoid_when}\nReturns: {tool.returns}"
    )
    if tool.errors:
        described += "\nErrors: " + "; ".join(f"{code}: {cure}" for code, cure in tool.errors.items())
    described += f"\nExample: {json.dumps(dict(tool.example), ensure_ascii=False)}"
    parameters = tool.args.model_json_schema()
    parameters.pop("title", None)
    parameters["properties"] = {"reason": REASON, **parameters.get("properties", {})}
    parameters["required"] = ["reason", *parameters.get("required", [])]
    return {
        "type": "function",
        "function": {"name": tool.name, "description": described, "parameters": parameters},
    }


def _act(reply: Reply) -> Decision:
    proposed: list[Proposed] = []
    for index, call in enumerate(reply.calls):
        if not NAME.fullmatch(call.name):
            return Malformed(f"{call.name[:60]!r} is not the name of a tool.")
        try:
            args = _parsed(call.arguments or "{}")
        except (ValueError, RecursionError):
            return Malformed(f"The arguments of {call.name[:60]!r} were not valid JSON.")
        if not isinstance(args, dict):
            return Malformed(f"The arguments of {call.name[:60]!r} must be a JSON object.")
        reason = args.pop("reason", "")
        id_ = call.id or f"call_{index}"
        if id_ in {one.model_id for one in proposed}:
            id_ = f"{id_}_{index}"
        proposed.append(Proposed(id_, call.name, args, str(reason).strip()[:280]))
    return Act(tuple(proposed))


def _parsed(text: str) -> Any:
    """JSON, with halves of surrogate pairs replaced: its escapes can spell them, and no wire or store carries them."""
    written = json.dumps(json.loads(text), ensure_ascii=False)
    return json.loads(written.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
