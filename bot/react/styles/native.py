"""ReAct by native tool calls: every action carries a `note`, the thought that people are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from bot.react.decision import Act, Answer, Decision, Malformed, Proposed
from bot.react.model import RawCall, Reply
from bot.react.styles.calls import known, take_note
from bot.react.styles.labels import parts
from bot.react.styles.objects import answer_in_object, has_call_object
from bot.react.styles.payload import Payload, Unreadable, read
from bot.react.styles.whole import EMPTY, SENTENCE, UNCLOSED, unthought, unusable
from tools.tool import Tool

NOTE = "note"
"""The argument that every tool has: why this call, now. The system message says what it is."""
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What endpoints accept as a tool's name when the conversation is sent back to them."""
ID_MAX = 64
"""Characters of a call's id that endpoints take back."""
_FIRST = re.compile(r"[*_`\"']*+(?P<name>[^\W\d][\w-]*+)")
_LINE = re.compile(r"^[ \t]*+[*`>-]*+[ \t]*+(?P<name>[^\W\d][\w-]{2,63}+)`?[ \t]*+[({]", re.MULTILINE)
_JOINED = re.compile(r"(?<![A-Za-z0-9_.-])[a-z]++(?:_[a-z]++)++(?![A-Za-z0-9_])")
"""Words joined as the names of tools are: `start_process`."""
WRITTEN = re.compile(r"<tool_call>|<function[=_]|<\|(?:tool|python_tag|plugin)|<｜tool|\[TOOL_CALLS\]")
"""How models write a call that their server did not recognize as one."""


@dataclass(frozen=True, slots=True)
class Native:
    """Implements `Style`: the endpoint is given the tools, and the model calls them."""

    name: str = "native"

    def body(self, tools: Sequence[Tool]) -> str:
        return f'"tools":{json.dumps([schema(tool) for tool in tools], ensure_ascii=False)}' if tools else ""

    def manual(self, tools: Sequence[Tool]) -> str:
        return ""

    def told(self, tools: Sequence[Tool]) -> str:
        return ""

    def decide(self, reply: Reply, tools: Sequence[Tool], *, most: int) -> Decision:
        if (decision := unusable(reply)) is not None:
            return decision
        if len(reply.calls) > most:
            return Malformed(f"You asked for {len(reply.calls)} tool calls at once; at most {most} are taken.")
        return _act(reply.calls, tools) if reply.calls else _answer(reply.text, tools)

    def asked(self, act: Act) -> dict[str, Any]:
        """The assistant message of an action, as it goes back to the model."""
        calls = [
            {
                "id": call.model_id,
                "type": "function",
                "function": {
                    "name": call.tool,
                    "arguments": json.dumps({NOTE: call.reason, **call.args}, ensure_ascii=False),
                },
            }
            for call in act.proposed
        ]
        return {"role": "assistant", "content": "", "tool_calls": calls}

    def observed(self, model_id: str, observation: str) -> dict[str, Any]:
        """The message that carries an observation."""
        return {"role": "tool", "tool_call_id": model_id, "content": observation}

    def answered(self, message: str) -> str:
        return message


def schema(tool: Tool) -> dict[str, Any]:
    """The tool card as the function schema the endpoint takes."""
    parameters = dict(tool.schema)
    parameters["properties"] = {NOTE: {"type": "string"}, **parameters.get("properties", {})}
    parameters["required"] = [NOTE, *parameters.get("required", [])]
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.told, "parameters": parameters},
    }


def _answer(text: str, tools: Sequence[Tool]) -> Decision:
    """Words for the person. A call that was only written down is not done, and not shown as an answer."""
    plain = unthought(text)
    if not plain:
        return UNCLOSED if plain is None else EMPTY
    if WRITTEN.search(plain) or _has_label(plain, tools) or _has_line(plain, tools) or has_call_object(plain):
        return Malformed("You wrote a tool call as text. Call the tool itself.")
    if (name := _named_tool(plain, tools)) is not None:
        problem = f"You named the tool {name} and did not call it. Call it, or answer without the names of tools."
        return Malformed(problem, prose=plain)
    return Answer(answer_in_object(plain) or plain)


def _has_label(text: str, tools: Sequence[Tool]) -> bool:
    """Whether a call stands there in the form of the text style: an input, or an action that names a tool."""
    found = parts(text, lambda text, start: 0)
    return any(
        part.kind == "input" or (part.kind == "action" and _begins_with_tool(part.text, tools)) for part in found
    )


def _has_line(text: str, tools: Sequence[Tool]) -> bool:
    """Whether a line begins with a tool's name and brackets: `look(name="Li")`, `look {"name": "Li"}`."""
    names = {tool.name for tool in tools}
    return any(line["name"] in names for line in _LINE.finditer(text))


def _named_tool(text: str, tools: Sequence[Tool]) -> str | None:
    """The first tool whose name stands in a text. Names that are a word of the language do not count."""
    names = {tool.name for tool in tools}
    return next((found[0] for found in _JOINED.finditer(text) if found[0] in names), None)


def _begins_with_tool(text: str, tools: Sequence[Tool]) -> bool:
    name = _FIRST.match(text)
    return name is not None and known(tools, name["name"])[0] is not None


def _act(calls: Sequence[RawCall], tools: Sequence[Tool]) -> Decision:
    proposed: list[Proposed] = []
    for index, call in enumerate(calls):
        if not NAME.fullmatch(call.name):
            return Malformed(f"{call.name[:60]!r} is not the name of a tool.")
        try:
            payload = _arguments(call.arguments)
        except Unreadable as error:
            return Malformed(f"The arguments of {call.name!r} cannot be used: {error}. Write them as one JSON object.")
        reason = take_note(payload.value, known(tools, call.name)[0])[:SENTENCE]
        taken = {one.model_id for one in proposed}
        proposed.append(Proposed(_id(call.id, index, taken), call.name, payload.value, reason, payload.repaired))
    return Act(tuple(proposed))


def _arguments(text: str) -> Payload:
    """An object; some servers write it as a text in a text. Raises `Unreadable`."""
    payload = read(text.strip() or "{}")
    if isinstance(payload.value, str):
        payload = read(payload.value.strip() or "{}")
    if not isinstance(payload.value, dict):
        raise Unreadable("they are no object")
    return payload


def _id(written: str, index: int, taken: Collection[str]) -> str:
    """The model's id of a call, or one in its place: no two of a reply are alike."""
    known = written.strip()[:ID_MAX] or f"call_{index}"
    return f"{known[: ID_MAX - 8]}_{index}" if known in taken else known
