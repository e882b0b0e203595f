"""ReAct with one JSON object per reply, for models that write JSON better than anything else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.agent.formats.arguments import find_spelled_tool
from bot.agent.formats.labels import LABEL, OBSERVATION_START
from bot.agent.formats.payload import JsonPayload, PayloadError, measure_brackets, parse_payload
from bot.agent.formats.reply_text import read_reply_text, rewrite_answer_message
from bot.agent.formats.written_calls import FORM, check_answer, has_marks, parse_decision, read_written_calls
from bot.agent.model import Decision, FinalAnswer, MalformedReply, ModelReply, ToolCalls
from tools.tool import Tool

_BEGIN = re.compile(r"^[ \t]*(?:(?:```|~~~)[\w-]*[ \t]*)?(?=[{\[])", re.MULTILINE)
MANUAL = """\
You have no other way to call a tool than this. Reply with exactly one JSON object and nothing around it, either

{"type": "tool_call", "tool": "NAME", "args": INPUT, "reason_summary": "…"}

or, when you can answer or have to ask the person something:

{"type": "final", "answer": "…", "reason_summary": "…"}

`reason_summary` is one short sentence: why this, now. People read it; it is the `note`.
One call in a reply.
The next message brings what came of it after "Observation:". Never write an observation yourself.

The tools:

"""


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """Implements `ReplyFormat` for any model that can write an object. The endpoint is asked to guarantee one, unless
    it has refused to."""

    name: str = "json"
    manual: str = MANUAL

    def build_extra_body(self, tools: Sequence[Tool]) -> str:
        return '"response_format":{"type":"json_object"}'

    def parse_reply(self, reply: ModelReply, tools: Sequence[Tool], *, most: int) -> Decision:
        text = read_reply_text(reply, OBSERVATION_START)
        if not isinstance(text, str):
            return text
        begin = _BEGIN.search(text)
        if begin is None or has_marks(text[: begin.end()]):
            if (written := read_written_calls(text, tools, most)) is not None:
                return written
            is_plain = "{" not in text and "```" not in text and LABEL.search(text) is None
            words = MalformedReply(f"There was no object in your reply. {FORM}", prose=text if is_plain else "")
            return check_answer(words, tools, most)
        payload: JsonPayload | None = None
        try:
            length = measure_brackets(text, begin.end())
            if length is None:
                raise PayloadError("it is cut off, or a bracket or a quote in it is not closed")
            end = begin.end() + length
            payload = parse_payload(text[begin.end() : end])
            # A value with text after it may be an example, so it counts as repaired.
            is_repaired = payload.repaired or end < len(text.rstrip("`~,. \n\t"))
            decision = parse_decision(payload.value, tools, most=most, is_repaired=is_repaired)
            if not isinstance(decision, ToolCalls) and _BEGIN.search(text, end):  # an answer beside a call is ignored
                decision = MalformedReply(f"There was more than one object in your reply. {FORM}")
            decision = check_answer(decision, tools, most)
        except PayloadError as error:
            decision = MalformedReply(f"Your reply cannot be used: {error}. {FORM}")
            if payload is None and text[begin.end()] == "{":  # an object in this format, with an error
                return decision
        calls = decision.calls if isinstance(decision, ToolCalls) else ()
        if isinstance(decision, FinalAnswer) or any(find_spelled_tool(tools, call.tool)[0] for call in calls):
            return decision
        written = read_written_calls(text, tools, most)
        if isinstance(decision, MalformedReply) and isinstance(written, MalformedReply):
            return replace(decision, is_leak=True)
        return written if isinstance(written, ToolCalls) else decision

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
