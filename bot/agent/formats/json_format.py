"""ReAct with each reply as one JSON object, for models that write JSON better than anything else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from bot.agent.decision import Decision, FinalAnswer, MalformedReply, ToolCallRequest, ToolCalls
from bot.agent.formats.arguments import (
    NAME_MAX,
    ParsedArguments,
    build_call_request,
    find_spelled_tool,
    fit_value_to_tool,
    is_none_word,
    parse_arguments,
    strip_fence,
)
from bot.agent.formats.labels import LABEL, OBSERVATION_START
from bot.agent.formats.payload import JsonPayload, PayloadError, measure_brackets, parse_payload
from bot.agent.formats.reply_text import cut_first_sentence, read_reply_text, rewrite_answer_message
from bot.agent.formats.tool_descriptions import describe_tools, fill_instructions
from bot.agent.model import ModelReply
from tools.tool import Tool

CALL, FINAL = ("tool_call", "tool", "action", "function", "call"), ("final", "final_answer", "answer")
TOOL = ("tool", "action", "tool_name", "name")
ARGS = ("args", "arguments", "action_input", "tool_input", "parameters", "input")
ANSWER = ("answer", "final_answer")
REASON = ("reason_summary", "note", "reason", "thought", "thoughts")
_FINISH = re.compile(r"finish|final[ _-]?answer", re.IGNORECASE)
_BEGIN = re.compile(r"^[ \t]*(?:(?:```|~~~)[\w-]*[ \t]*)?(?=[{\[])", re.MULTILINE)
MAX_OBJECTS = 50
"""Most objects of one reply that are read."""
MAX_UNFINISHED_LENGTH = 2_000
"""Characters of an unfinished object that are searched."""
FORM = "Reply with exactly one JSON object, of the form you were shown."
EITHER = "It was both a tool call and a final answer. " + FORM
MANUAL = """\
You have no other way to call a tool than this. Reply with exactly one JSON object and nothing around it, either

{"type": "tool_call", "tool": "NAME", "args": INPUT, "reason_summary": "…"}

or, when you can answer or have to ask the person something:

{"type": "final", "answer": "…", "reason_summary": "…"}

`reason_summary` is one short sentence: why this, now. People read it; it is the `note`.
TOGETHER
The next messages bring what came of them after "Observation:". Never write an observation yourself.

The tools:

"""


ONE = "One call in a reply."
SEVERAL = (
    "One call in a reply; only calls that just read and do not need one another may go together, as an array of such\n"
    "objects."
)
"""An endpoint that guarantees an object accepts no array."""


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """Implements `ReplyFormat` for any model that can write an object. `mode`: the endpoint can be asked to guarantee
    one."""

    mode: bool = False
    name: str = "json"

    def build_extra_body(self, tools: Sequence[Tool]) -> str:
        return '"response_format":{"type":"json_object"}' if self.mode else ""

    def render_instructions(self, tools: Sequence[Tool]) -> str:
        return fill_instructions(MANUAL.replace("TOGETHER", ONE if self.mode else SEVERAL), tools)

    def describe_server_tools(self, tools: Sequence[Tool]) -> str:
        return describe_tools(tools)

    def parse_reply(self, reply: ModelReply, tools: Sequence[Tool], *, most: int) -> Decision:
        text = read_reply_text(reply, OBSERVATION_START)
        if not isinstance(text, str):
            return text
        try:
            return _choose_first_decision(list(_read_payloads(text)), text, tools, most)
        except PayloadError as error:
            return MalformedReply(f"Your reply cannot be used: {error}. {FORM}")

    def build_assistant_message(self, act: ToolCalls) -> dict[str, Any]:
        objects = [
            {"type": "tool_call", "tool": call.tool, "args": call.args, "reason_summary": call.reason}
            for call in act.calls
        ]
        content = json.dumps(objects[0] if len(objects) == 1 else objects, ensure_ascii=False)
        return {"role": "assistant", "content": content}

    def build_tool_message(self, model_id: str, observation: str) -> dict[str, Any]:
        return {"role": "user", "content": f"Observation {model_id}: {observation}"}

    def format_history_message(self, message: str) -> str:
        return rewrite_answer_message(
            message, lambda text: json.dumps({"type": "final", "answer": text}, ensure_ascii=False)
        )


def _read_payloads(text: str) -> Iterator[JsonPayload]:
    """The objects and arrays that begin a line. With text after it, one may be an example, so its request is uncertain.
    Raises `PayloadError`."""
    at, last, room = 0, len(text.rstrip("`~,. \n\t")), MAX_OBJECTS
    while (match := _BEGIN.search(text, at)) is not None:
        length = measure_brackets(text, match.end())
        if length is None:
            raise PayloadError("it is cut off, or a bracket or a quote in it is not closed")
        at = match.end() + length
        payload = parse_payload(text[match.end() : at])
        if not room:
            raise PayloadError(f"there are more than {MAX_OBJECTS} objects in it")
        yield replace(payload, repaired=payload.repaired or at < last)
        room -= 1


def has_call_object(text: str) -> bool:
    """True if an object that begins a line of a text reply asks for a tool, even if it is cut off."""
    at = 0
    for _ in range(MAX_OBJECTS):
        if (match := _BEGIN.search(text, at)) is None:
            return False
        length = measure_brackets(text, match.end())
        at = match.end() + (length or 1)
        if length is None:
            written = text[match.end() : match.end() + MAX_UNFINISHED_LENGTH]
            if any(f'"{name}"' in written for name in (*TOOL, *CALL)) and any(f'"{name}"' in written for name in ARGS):
                return True
            continue
        with suppress(PayloadError):
            value = parse_payload(text[match.end() : at]).value
            if any(map(_is_call_object, value if isinstance(value, list) else [value])):
                return True
    return False


def _is_call_object(value: Any) -> bool:
    """True for the form of a call: a name, and arguments."""
    if not isinstance(value, dict):
        return False
    if isinstance(function := value.get("function"), dict):
        value = function
    return value.get("type") == "tool_call" or bool(
        _find_first_text(value, TOOL) and any(name in value for name in ARGS)
    )


def find_object_answer(text: str) -> str:
    """The answer inside an object that is the whole reply, as in the JSON format; otherwise empty."""
    inner, around = strip_fence(text)
    if around or not inner.startswith("{") or measure_brackets(inner) != len(inner):
        return ""
    try:
        value = parse_payload(inner).value
    except PayloadError:
        return ""
    form = {"type", *ANSWER, *REASON}
    return _find_answer_text(value) if isinstance(value, dict) and value.keys() <= form else ""


def _choose_first_decision(payloads: Sequence[JsonPayload], text: str, tools: Sequence[Tool], most: int) -> Decision:
    """The first call counts. An answer beside a call is ignored."""
    if not payloads:
        plain = "{" not in text and "```" not in text and LABEL.search(text) is None
        return MalformedReply(f"There was no object in your reply. {FORM}", prose=text if plain else "")
    decisions = [parse_decision(one.value, tools, most=most, is_repaired=one.repaired) for one in payloads]
    if len(decisions) == 1:
        return decisions[0]
    if isinstance(decisions[0], ToolCalls):
        return decisions[0]
    return MalformedReply(f"There were {len(decisions)} objects in your reply. {FORM}")


def parse_decision(
    value: Any, tools: Sequence[Tool], *, most: int = 1, is_repaired: bool = False, reason: str = ""
) -> Decision:
    """The decision in one object, or in an array of calls. `reason`: the text before it. Raises `PayloadError`."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return _parse_call_array(value, tools, most, is_repaired)
    if not isinstance(value, dict):
        raise PayloadError("it is no object")
    thought, tool, answer = (
        str(value.get("type") or "").strip().casefold(),
        _find_first_text(value, TOOL),
        _find_answer_text(value),
    )
    tool = "" if is_none_word(tool) else tool
    if _FINISH.fullmatch(tool) and find_spelled_tool(tools, tool)[0] is None:
        thought, tool, answer = "final", "", answer or _find_first_text(value, ARGS)
    if thought in FINAL or (not thought and not tool):
        return _build_final_answer(answer, tool)
    if thought and thought not in CALL:
        raise PayloadError('its "type" is neither "tool_call" nor "final"')
    return ToolCalls((_parse_call_object(1, value, tool, tools, is_repaired or not thought or bool(answer), reason),))


def _build_final_answer(answer: str, tool: str) -> Decision:
    if tool:
        return MalformedReply(EITHER)
    return FinalAnswer(answer) if answer else MalformedReply(f'"answer" was missing or empty. {FORM}')


def _parse_call_array(
    values: Sequence[Mapping[str, Any]], tools: Sequence[Tool], most: int, is_repaired: bool
) -> Decision:
    if len(values) > most:
        return MalformedReply(f"You asked for {len(values)} tool calls at once; at most {most} are taken.")
    calls = [parse_decision(one, tools, is_repaired=is_repaired) for one in values]
    if len(calls) == 1:
        return calls[0]
    acts = [call for one in calls if isinstance(one, ToolCalls) for call in one.calls]
    if len(acts) < len(calls):
        return MalformedReply("An array may hold nothing but tool calls.")
    return ToolCalls(tuple(replace(call, model_id=str(n)) for n, call in enumerate(acts, 1)))


def _parse_call_object(
    number: int, value: Mapping[str, Any], name: str, tools: Sequence[Tool], is_repaired: bool, thought: str
) -> ToolCallRequest:
    if not name or "\n" in name or len(name) > NAME_MAX:
        raise PayloadError('"tool" does not name a tool')
    tool, _ = find_spelled_tool(tools, name)
    reason = thought or cut_first_sentence(_find_first_text(value, REASON))
    return build_call_request(
        number, name, tools, _parse_call_arguments(tool, value).mark_as_guess(is_repaired), reason
    )


def _parse_call_arguments(tool: Tool | None, value: Mapping[str, Any]) -> ParsedArguments:
    key = next((key for key in ARGS if key in value), None)
    if key is None:
        if value.keys() - {"type", *TOOL, *ANSWER, *REASON}:
            raise PayloadError('its arguments are not in "args"')
        return ParsedArguments({}, repaired=True)
    args = value[key]
    if args is None:
        return ParsedArguments({})
    if isinstance(args, dict | list):
        return fit_value_to_tool(tool, args, is_repaired=False)
    return parse_arguments(tool, args if isinstance(args, str) else json.dumps(args))


def _find_answer_text(value: Mapping[str, Any]) -> str:
    found = value.get("answer")
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return str(found) if is_number else _find_first_text(value, ANSWER)


def _find_first_text(value: Mapping[str, Any], names: Sequence[str]) -> str:
    """The first of these members that is a text."""
    return next((text.strip() for name in names if isinstance(text := value.get(name), str) and text.strip()), "")
