"""ReAct by native tool calls. Every action has a `note`, which is the thought that people see."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bot.agent.formats.arguments import find_spelled_tool, take_note
from bot.agent.formats.payload import PayloadError, parse_payload
from bot.agent.formats.reply_text import MAX_SENTENCE, check_unusable_reply, strip_thinking
from bot.agent.formats.written_calls import check_answer, find_object_answer
from bot.agent.model import Decision, FinalAnswer, MalformedReply, ModelReply, ToolCallRequest, ToolCalls
from tools.tool import Tool

NOTE = "note"
"""The argument added to every tool: why this call, now. The system message explains it."""
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Tool names that endpoints accept when the conversation is sent back to them."""
ID_MAX = 64
"""Longest call id that endpoints accept, in characters."""


@dataclass(frozen=True, slots=True)
class NativeFormat:
    """Implements `ReplyFormat`. The endpoint gets the tools, and the model calls them."""

    name: str = "native"
    manual: str = ""

    def build_extra_body(self, tools: Sequence[Tool]) -> str:
        if not tools:
            return ""
        return f'"tools":{json.dumps([build_function_schema(tool) for tool in tools], ensure_ascii=False)}'

    def parse_reply(self, reply: ModelReply, tools: Sequence[Tool], *, most: int) -> Decision:
        if (decision := check_unusable_reply(reply)) is not None:
            return decision
        if not reply.calls:
            plain = strip_thinking(reply.text) or ""
            return check_answer(FinalAnswer(find_object_answer(plain) or reply.text), tools, most)
        if len(reply.calls) > most:
            return MalformedReply(f"You asked for {len(reply.calls)} tool calls at once; at most {most} are taken.")
        requests: list[ToolCallRequest] = []
        for index, call in enumerate(reply.calls):
            if not NAME.fullmatch(call.name):
                return MalformedReply(f"{call.name[:60]!r} is not the name of a tool.")
            try:
                payload = parse_payload(call.arguments.strip() or "{}")
                if isinstance(payload.value, str):  # some servers write the object as JSON inside a string
                    payload = parse_payload(payload.value.strip() or "{}")
                if not isinstance(payload.value, dict):
                    raise PayloadError("they are no object")
            except PayloadError as error:
                return MalformedReply(
                    f"The arguments of {call.name!r} cannot be used: {error}. Write them as one JSON object."
                )
            reason = take_note(payload.value, find_spelled_tool(tools, call.name)[0])[:MAX_SENTENCE]
            model_id = call.id.strip()[:ID_MAX] or f"call_{index}"
            if any(one.model_id == model_id for one in requests):
                model_id = f"{model_id[: ID_MAX - 8]}_{index}"
            requests.append(
                ToolCallRequest(
                    model_id=model_id, tool=call.name, args=payload.value, reason=reason, is_guess=payload.repaired
                )
            )
        return ToolCalls(tuple(requests))

    def build_assistant_message(self, act: ToolCalls) -> dict[str, Any]:
        """Build the assistant message of an action, as it is sent back to the model."""
        calls = [
            {
                "id": call.model_id,
                "type": "function",
                "function": {
                    "name": call.tool,
                    "arguments": json.dumps({NOTE: call.reason, **call.args}, ensure_ascii=False),
                },
            }
            for call in act.calls
        ]
        return {"role": "assistant", "content": "", "tool_calls": calls}

    def build_tool_message(self, model_id: str, observation: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": model_id, "content": observation}

    def format_history_message(self, message: str) -> str:
        return message


def build_function_schema(tool: Tool) -> dict[str, Any]:
    """Convert a tool to a function schema for the endpoint."""
    parameters = dict(tool.schema)
    parameters["properties"] = {NOTE: {"type": "string"}, **parameters.get("properties", {})}
    parameters["required"] = [NOTE, *parameters.get("required", [])]
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }
