"""The Responses API, used without state: nothing is stored at the endpoint, and the whole conversation is sent each
time. The model's own output of this run is sent back unchanged. Messages stay those of chat completions and are
converted to items here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bot.agent.model import ModelReply, RawToolCall, detach_details, dump_provider_details
from bot.agent.models.client import CONTENT_FILTER_CODES, UNSTATED_STATUS, ErrorResponse, find_embedded_error
from bot.agent.models.fields import read_arguments, read_content, read_count, read_field, read_list, read_string
from bot.agent.models.transport import ModelRequest, adapt_roles, format_json, parse_members

ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
UNFINISHED = ("incomplete", "in_progress")
STATUSES = {"rate_limit_exceeded": 429, "insufficient_quota": 429, "server_error": 500}
"""Code of a failed response → the corresponding status."""
MOVED_MEMBERS = frozenset({"tools", "response_format", "stop", "seed", "tool_choice", "stream", "stream_options"})
"""Members of a chat completion that have another place in Responses, or none."""


@dataclass(frozen=True, slots=True)
class ResponsesTransport:
    """Encodes requests, and parses answers, as the transport of chat completions does."""

    path: str = "responses"

    def encode_request(self, request: ModelRequest) -> bytes:
        lessons = request.profile
        parts = [f'"model":{json.dumps(request.model)}']
        messages = adapt_roles(request.messages, lessons)
        rules = _find_instructions(messages[0])
        if rules:
            parts.append(f'"instructions":{rules}')
            messages = messages[1:]
        items = list[str]()
        for bare, kept in map(detach_details, messages):
            # The endpoint's own output goes back unchanged if its calls are those of the message.
            is_wanted = kept and kept not in request.rejected_details
            items.append((_replay_items(bare, kept, request.owner) if is_wanted else "") or _convert_messages(bare))
        parts.append(f'"input":[{",".join(filter(None, items))}]')
        if more := _format_members(request.extra, lessons.unsupported):
            parts.append(more)
        if "temperature" not in lessons.unsupported:
            parts.append(f'"temperature":{request.temperature}')
        if effort := request.reasoning_effort:
            parts.append(f'"reasoning":{{"effort":"{effort}"}}')
        parts += [] if "store" in lessons.unsupported else ['"store":false']
        parts += [] if "include" in lessons.unsupported else ['"include":["reasoning.encrypted_content"]']
        parts += ['"stream":true'] if request.streamed else []
        return f"{{{','.join(parts)}}}".encode(errors="replace")

    def parse_response(self, answer: Any, model: str, owner: str) -> ModelReply | ErrorResponse:
        status = read_string(read_field(answer, "status"))
        if status in ("failed", "cancelled", "queued", "in_progress"):
            error = read_field(answer, "error")
            code = read_string(read_field(error, "code"))
            is_invalid = code in CONTENT_FILTER_CODES or code.startswith("invalid_")
            found = find_embedded_error(
                {"error": {"message": read_field(error, "message"), "type": code, "code": code}}
            )
            text = found.text if found is not None and found.text else f"the response is {read_field(answer, 'status')}"
            return ErrorResponse(400 if is_invalid else STATUSES.get(code, UNSTATED_STATUS), text, code, code)
        if (embedded := find_embedded_error(answer)) is not None:
            return embedded
        output = read_list(read_field(answer, "output"))
        calls = [one for one in output if read_field(one, "type") == "function_call"]
        parts = [
            part
            for one in output
            if read_field(one, "type") == "message"
            for part in read_list(read_field(one, "content"))
        ]
        # The finish reason in the words of chat completions. Cut-off output is never executed, whatever cut it off.
        finish = "tool_calls" if calls else "stop" if output else "empty"
        if status not in ("", "completed") or any(read_field(one, "status") in UNFINISHED for one in output):
            why = read_field(answer, "incomplete_details", "reason")
            finish = "content_filter" if why == "content_filter" else "length"
        usage = read_field(answer, "usage")
        return ModelReply(
            text=read_content(parts),
            calls=tuple(
                RawToolCall(
                    read_string(read_field(one, "call_id")) or read_string(read_field(one, "id")),
                    read_string(read_field(one, "name")),
                    read_arguments(read_field(one, "arguments")),
                )
                for one in calls
            ),
            finish=finish,
            refusal="".join(read_string(read_field(part, "refusal")) for part in parts),
            tokens_in=read_count(read_field(usage, "input_tokens")),
            tokens_cached=read_count(read_field(usage, "input_tokens_details", "cached_tokens")),
            tokens_out=read_count(read_field(usage, "output_tokens")),
            model=model,
            provider_details=dump_provider_details(owner, {"items": output}) if calls and owner else "",
        )

    def join_events(self, events: Sequence[Any], *, has_said_end: bool) -> Any:
        """Return the last event's response. If it does not repeat its items, the finished items of the stream are
        added."""
        items = [read_field(one, "item") for one in events if read_field(one, "type") == "response.output_item.done"]
        for event in events:
            if read_field(event, "output") is not None:
                return event  # a whole answer in the form of a stream
            kind = read_string(read_field(event, "type"))
            if kind == "error":
                return {"status": "failed", "error": event}
            response = read_field(event, "response")
            if kind in ENDS and isinstance(response, dict):
                return response if read_list(response.get("output")) else {**response, "output": items}
        return None


@lru_cache(maxsize=64)
def _find_instructions(text: str) -> str:
    """Return the rules as JSON if the text is one system message, otherwise an empty text."""
    some = json.loads(f"[{text}]")
    if len(some) != 1 or some[0].get("role") != "system" or not isinstance(some[0].get("content"), str):
        return ""
    return format_json(some[0]["content"])


@lru_cache(maxsize=256)
def _replay_items(bare: str, kept: str, owner: str) -> str:
    parts, message = json.loads(kept), json.loads(bare)
    items = read_list(parts.get("items"))
    asked = [read_field(one, "call_id") for one in items if read_field(one, "type") == "function_call"]
    known = [read_field(one, "id") for one in read_list(message.get("tool_calls"))]
    return format_json(items)[1:-1] if parts.get("of") == owner and asked == known else ""


@lru_cache(maxsize=512)
def _convert_messages(text: str) -> str:
    items = list[dict[str, Any]]()
    for message in json.loads(f"[{text}]"):
        role, content = message["role"], message.get("content")
        content = [_convert_part(one) for one in content] if isinstance(content, list) else content or ""
        if role == "tool":
            items.append({"type": "function_call_output", "call_id": message["tool_call_id"], "output": content})
            continue
        items += [{"role": "developer" if role == "system" else role, "content": content}] if content else []
        items += [
            {
                "type": "function_call",
                "call_id": call["id"],
                "name": call["function"]["name"],
                "arguments": call["function"]["arguments"],
            }
            for call in message.get("tool_calls") or ()
        ]
    return format_json(items)[1:-1]


def _convert_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a part of a message its name in Responses."""
    match part.get("type"):
        case "text":
            return {"type": "input_text", "text": part["text"]}
        case "image_url":
            image = part["image_url"]
            return {"type": "input_image", "image_url": image["url"], "detail": image.get("detail", "auto")}
        case "file":
            return {"type": "input_file", **part["file"]}
        case _:
            return part


@lru_cache(maxsize=64)
def _format_members(extra: str, dropped: frozenset[str]) -> str:
    """Format further members under their names in Responses."""
    members = parse_members(extra)
    some = {name: value for name, value in members.items() if name not in MOVED_MEMBERS}
    if tools := members.get("tools"):
        strict = {} if "strict" in dropped else {"strict": False}
        some["tools"] = [{"type": "function", **strict, **one["function"]} for one in tools]
    if (form := members.get("response_format")) and "response_format" not in dropped:
        some["text"] = {"format": {"type": form["type"], **form.get("json_schema", {})}}
    return format_json(some)[1:-1]
