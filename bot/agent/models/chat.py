"""Chat completions. The body is built from existing JSON: the SDK's work on each message costs more CPU than all the
rest of a step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bot.agent.model import ModelReply, RawToolCall
from bot.agent.models.error_responses import ErrorResponse, find_embedded_error
from bot.agent.models.fields import read_arguments, read_content, read_count, read_field, read_list, read_string
from bot.agent.models.model_profile import RETURNED_MEMBERS, Api
from bot.agent.models.transport import ModelRequest, adapt_roles, format_json, parse_members
from bot.agent.provider_details import DETAILS_START, detach_details, dump_provider_details

MISSING_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Replaces a missing signature (of an earlier message, or of another model): the value that Google defines for calls
that its model did not write itself (Gemini API, thought signatures)."""
MAX_CALLS = 128
"""Most tool calls in a stream."""


FINISHES = {
    **dict.fromkeys(("max_tokens", "max_output_tokens", "model_length"), "length"),
    **dict.fromkeys(("safety", "prohibited_content", "blocklist", "recitation"), "content_filter"),
}
"""Other words of endpoints for why a reply ended → OpenAI's."""


@dataclass(frozen=True, slots=True)
class ChatCompletionsTransport:
    """Implements `Transport`."""

    api: Api = "chat"
    path: str = "chat/completions"

    def encode_request(self, request: ModelRequest) -> bytes:
        lessons = request.profile
        model_members = f'"model":{json.dumps(request.model)}'
        if "temperature" not in lessons.unsupported:
            model_members += f',"temperature":{request.temperature}'
        if effort := request.reasoning_effort:
            model_members += f',"reasoning_effort":"{effort}"'
        if request.streamed:
            model_members += ',"stream":true'
            model_members += (
                "" if "stream_options" in lessons.unsupported else ',"stream_options":{"include_usage":true}'
            )
        more = _drop_members(request.extra, lessons.unsupported) if lessons.unsupported else request.extra
        messages = ",".join(_build_request_messages(request))
        return f'{{{model_members},"messages":[{messages}]{"," if more else ""}{more}}}'.encode(errors="replace")

    def parse_response(self, answer: Any, model: str, owner: str) -> ModelReply | ErrorResponse:
        if (error := find_embedded_error(answer)) is not None:
            return error
        first = _read_choice(answer)
        message, usage = read_field(first, "message"), read_field(answer, "usage")
        calls = [one for one in read_list(read_field(message, "tool_calls"))]
        finish = read_string(read_field(first, "finish_reason")) or "stop"
        hit = read_field(usage, "prompt_cache_hit_tokens")  # DeepSeek's field
        return ModelReply(
            text=read_content(read_field(message, "content")),
            calls=tuple(map(_read_tool_call, calls)),
            finish="empty" if message is None else FINISHES.get(finish.lower(), finish),
            refusal=read_string(read_field(message, "refusal")),
            tokens_in=read_count(read_field(usage, "prompt_tokens")),
            tokens_cached=read_count(read_field(usage, "prompt_tokens_details", "cached_tokens")) or read_count(hit),
            tokens_out=read_count(read_field(usage, "completion_tokens")),
            tokens_reasoning=read_count(read_field(usage, "completion_tokens_details", "reasoning_tokens")),
            model=model,
            provider_details=_build_provider_details(message, calls, owner) if calls else "",
        )

    def join_events(self, events: Sequence[Any], *, has_said_end: bool) -> Any:
        """One completion from its pieces, which may be one; None if none of them ends it."""
        message, is_over = _StreamedMessage(), False
        for event in events:
            if find_embedded_error(event) is not None or read_field(_read_choice(event), "message") is not None:
                return event
            is_over |= message.add_event(event)
        return message.completion if is_over or (has_said_end and (message.texts or message.calls)) else None


class _StreamedMessage:
    """A message, piece by piece."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.calls: dict[int, dict[str, Any]] = {}
        self.finish: str | None = None
        self.usage: Any = None

    def add_event(self, event: Any) -> bool:
        """Adds a piece. True once the message has ended."""
        if isinstance(usage := read_field(event, "usage"), dict):
            self.usage = usage
        choice = _read_choice(event)
        delta = read_field(choice, "delta")
        for name in ("content", "refusal", "reasoning_content"):
            if text := read_content(read_field(delta, name)):
                self.texts.setdefault(name, []).append(text)
        for call in read_list(read_field(delta, "tool_calls")):
            self._add_call(call)
        self.finish = read_string(read_field(choice, "finish_reason")) or self.finish
        return self.finish is not None

    def _add_call(self, call: Any) -> None:
        number = read_field(call, "index")
        index = number if isinstance(number, int) and 0 <= number < MAX_CALLS else max(len(self.calls) - 1, 0)
        stored_call = self.calls.setdefault(index, {"id": "", "function": {"name": "", "arguments": []}})
        function = read_field(call, "function")
        stored_call["id"] = stored_call["id"] or read_string(read_field(call, "id"))
        stored_call["function"]["name"] = stored_call["function"]["name"] or read_string(read_field(function, "name"))
        stored_call["function"]["arguments"].append(read_arguments(read_field(function, "arguments")))
        if (more := read_field(call, "extra_content")) is not None:
            stored_call["extra_content"] = more

    @property
    def completion(self) -> Any:
        message: dict[str, Any] = {name: "".join(texts) for name, texts in self.texts.items()}
        for call in self.calls.values():
            call["function"]["arguments"] = "".join(call["function"]["arguments"])
        message["tool_calls"] = [self.calls[index] for index in sorted(self.calls)]
        return {"choices": [{"message": message, "finish_reason": self.finish}], "usage": self.usage}


def _build_request_messages(request: ModelRequest) -> Sequence[str]:
    """The messages in this endpoint's form; most have it already."""
    messages, returned = adapt_roles(request.messages, request.profile), request.profile.returned
    if returned or any(DETAILS_START in one for one in messages):
        return [_add_returned_members(one, request.owner, returned) for one in messages]
    return messages


@lru_cache(maxsize=512)
def _add_returned_members(text: str, owner: str, returned: frozenset[str]) -> str:
    """Messages with the details that must come back in them, and no others."""
    bare, kept = detach_details(text)
    if not returned or '"tool_calls"' not in bare:
        return bare
    parts = json.loads(kept) if kept else {}
    parts = parts if parts.get("of") == owner else {}
    some = json.loads(f"[{bare}]")
    for message in some:
        if calls := message.get("tool_calls"):
            _fill_returned_members(message, calls, parts, returned)
    return format_json(some)[1:-1]


def _fill_returned_members(
    message: dict[str, Any], calls: Sequence[Any], parts: dict[str, Any], returned: frozenset[str]
) -> None:
    if "reasoning_content" in returned:  # an empty one is accepted where the real one is unknown
        message["reasoning_content"] = read_string(parts.get("reasoning_content"))
    if "extra_content" in returned:
        known = read_list(parts.get("extra_content")) or [MISSING_SIGNATURE] * len(calls)
        for call, more in zip(calls, known, strict=False):
            call.update({"extra_content": more} if more is not None else {})


def _build_provider_details(message: Any, calls: Sequence[Any], owner: str) -> str:
    """The details that may have to come back with these calls."""
    thought, extra_details = (
        read_string(read_field(message, RETURNED_MEMBERS[0])),
        [read_field(one, RETURNED_MEMBERS[1]) for one in calls],
    )
    parts: dict[str, Any] = {RETURNED_MEMBERS[0]: thought} if thought else {}
    parts |= {RETURNED_MEMBERS[1]: extra_details} if any(one is not None for one in extra_details) else {}
    return dump_provider_details(owner, parts) if parts and owner else ""


@lru_cache(maxsize=64)
def _drop_members(extra: str, names: frozenset[str]) -> str:
    """The request's members without these."""
    return format_json({name: value for name, value in parse_members(extra).items() if name not in names})[1:-1]


def _read_choice(answer: Any) -> Any:
    return next(iter(read_list(read_field(answer, "choices"))), None)


def _read_tool_call(call: Any) -> RawToolCall:
    """One tool call. Missing members are empty, and refused where they are needed."""
    function = read_field(call, "function")
    return RawToolCall(
        read_string(read_field(call, "id")),
        read_string(read_field(function, "name")),
        read_arguments(read_field(function, "arguments")),
    )
