"""Chat completions. The body is built from existing JSON, because the SDK's work on each message costs more CPU than
all the rest of a step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bot.agent.model import DETAILS_START, ModelReply, RawToolCall, detach_details, dump_provider_details
from bot.agent.models.client import UNSTATED_STATUS, ErrorResponse, find_embedded_error
from bot.agent.models.fields import (
    parse_json,
    read_arguments,
    read_content,
    read_count,
    read_field,
    read_list,
    read_string,
)
from bot.agent.models.model_profile import RETURNED_MEMBERS
from bot.agent.models.transport import ModelRequest, adapt_roles, format_json, parse_members

MISSING_SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""Replaces a missing signature (of an earlier message, or of another model). Google defines this value for calls that
its model did not write itself (Gemini API, thought signatures)."""
MAX_CALLS = 128
"""Most tool calls in a stream."""
FINISHES = {
    **dict.fromkeys(("", "stop", "eos", "eos_token", "end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("tool_calls", "function_call", "tool_use"), "tool_calls"),
    **dict.fromkeys(("content_filter", "safety", "prohibited_content", "blocklist", "recitation"), "content_filter"),
}
"""Reasons why a reply ended, in the words of endpoints → in ours. Any other reason means that the reply was cut off."""
FAILURES = frozenset({"error", "failed", "abort", "aborted", "cancelled", "timeout", "insufficient_system_resource"})
"""Reasons after which the request is sent again, because the endpoint could not finish."""


@dataclass(frozen=True, slots=True)
class ChatCompletionsTransport:
    """Encodes requests, and parses answers into replies."""

    path: str = "chat/completions"
    """The path after the base address."""

    def encode_request(self, request: ModelRequest) -> bytes:
        unsupported = request.profile.unsupported
        parts = [f'"model":{json.dumps(request.model)}']
        parts += [] if "temperature" in unsupported else [f'"temperature":{request.temperature}']
        parts += [f'"reasoning_effort":"{effort}"'] if (effort := request.reasoning_effort) else []
        parts += ['"stream":true'] if request.streamed else []
        is_counted = request.streamed and "stream_options" not in unsupported
        parts += ['"stream_options":{"include_usage":true}'] if is_counted else []
        messages, returned = adapt_roles(request.messages, request.profile), request.profile.returned
        if returned or any(DETAILS_START in one for one in messages):
            messages = [_add_returned_members(one, request.owner, returned) for one in messages]
        parts.append(f'"messages":[{",".join(messages)}]')
        parts.append(_drop_members(request.extra, unsupported) if unsupported else request.extra)
        return f"{{{','.join(filter(None, parts))}}}".encode(errors="replace")

    def parse_response(self, answer: Any, model: str, owner: str) -> ModelReply | ErrorResponse:
        """Parse the used parts of an answer. Return an error if the answer is one in spite of its status."""
        answer = _unwrap_answer(answer)
        if (error := find_embedded_error(answer)) is not None:
            return error
        first, usage = _read_choice(answer), read_field(answer, "usage")
        message, finish = read_field(first, "message"), read_field(first, "finish_reason")
        finish = finish.lower() if isinstance(finish, str) else "" if finish is None else "other"
        if finish in FAILURES:
            return ErrorResponse(UNSTATED_STATUS, f"the reply ended with {finish}")
        text = read_content(read_field(message, "content"))
        if text.startswith("{") and '"choices"' in text:  # a whole answer as JSON: its words count, its calls do not
            with suppress(ValueError):
                inner = read_field(_read_choice(parse_json(text.encode())), "message")
                text = read_content(read_field(inner, "content")) if inner is not None else text
        calls, raw_calls, details = _read_calls(message), list[RawToolCall](), dict[str, Any]()
        for call in calls:  # missing members become empty, and are refused where they are needed
            id, name = read_string(read_field(call, "id")), read_string(read_field(call, "function", "name"))
            arguments = read_arguments(read_field(call, "function", "arguments"))
            # Some servers begin with `{}` and write the arguments after it.
            raw_calls.append(RawToolCall(id, name, arguments.removeprefix("{}").strip() or arguments))
        if calls and owner:
            thought = read_string(read_field(message, RETURNED_MEMBERS[0]))
            extra = [read_field(one, RETURNED_MEMBERS[1]) for one in calls]
            details |= {RETURNED_MEMBERS[0]: thought} if thought else {}
            details |= {RETURNED_MEMBERS[1]: extra} if any(one is not None for one in extra) else {}
        return ModelReply(
            text=text,
            calls=tuple(raw_calls),
            finish="empty" if message is None else FINISHES.get(finish, "length"),
            refusal=read_string(read_field(message, "refusal")),
            tokens_in=read_count(read_field(usage, "prompt_tokens")),
            tokens_cached=read_count(read_field(usage, "prompt_tokens_details", "cached_tokens"))
            or read_count(read_field(usage, "prompt_cache_hit_tokens")),  # DeepSeek's name
            tokens_out=read_count(read_field(usage, "completion_tokens")),
            model=model,
            provider_details=dump_provider_details(owner, details) if details else "",
        )

    def join_events(self, events: Sequence[Any], *, has_said_end: bool) -> Any:
        """Join the pieces of one completion, which may be a single piece. Return None if no piece ends it."""
        message, is_over = _StreamedMessage(), False
        for event in map(_unwrap_answer, events):
            if find_embedded_error(event) is not None or read_field(_read_choice(event), "message") is not None:
                return event
            is_over |= message.add_event(event)
        return message.completion if is_over or (has_said_end and (message.texts or message.calls)) else None


class _StreamedMessage:
    """A message that is built piece by piece."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.calls: list[dict[str, Any]] = []
        self.numbered: dict[int, dict[str, Any]] = {}
        """Number → the latest call with this number."""
        self.finish: Any = None
        self.usage: Any = None

    def add_event(self, event: Any) -> bool:
        """Add a piece. Return whether the message has ended."""
        if isinstance(usage := read_field(event, "usage"), dict):
            self.usage = usage
        choice = _read_choice(event)
        delta = read_field(choice, "delta")
        for name in ("content", "refusal", "reasoning_content"):
            if text := read_content(read_field(delta, name)):
                self.texts.setdefault(name, []).append(text)
        for call in _read_calls(delta):
            self._add_call(call)
        self.finish = read_field(choice, "finish_reason") or self.finish
        return self.finish is not None

    def _add_call(self, piece: Any) -> None:
        """Add a piece to the latest call with its number or, without a number, to the latest call. Some servers give
        all calls one number, or none. A new call then begins with another id, another name, or a name after whole
        arguments."""
        number, id = read_field(piece, "index"), read_string(read_field(piece, "id"))
        name, text = (read_field(piece, "function", one) for one in ("name", "arguments"))
        name, text = read_string(name), read_arguments(text)
        is_numbered = isinstance(number, int)
        call = self.numbered.get(number) if is_numbered else self.calls[-1] if self.calls else None
        if call is not None and name and call["is_whole"] and text.lstrip().startswith("{") and id == call["id"] != "":
            call["arguments"] = []  # the arguments come once more, whole
        if call is None or (
            id != call["id"]
            if id and call["id"]
            else name and call["name"] and (name != call["name"] or call["is_whole"])
        ):
            if len(self.calls) == MAX_CALLS:
                return
            call = {"id": id, "name": name, "arguments": [], "is_whole": False, "extra_content": None}
            self.calls.append(call)
        if is_numbered:
            self.numbered[number] = call
        call["id"], call["name"] = call["id"] or id, call["name"] or name
        if text:
            call["arguments"].append(text)
            call["is_whole"] = text.rstrip().endswith("}")
        if (more := read_field(piece, "extra_content")) is not None:
            call["extra_content"] = more

    @property
    def completion(self) -> Any:
        message: dict[str, Any] = {name: "".join(texts) for name, texts in self.texts.items()}
        message["tool_calls"] = [
            {**one, "function": {"name": one["name"], "arguments": "".join(one["arguments"])}} for one in self.calls
        ]
        return {"choices": [{"message": message, "finish_reason": self.finish}], "usage": self.usage}


@lru_cache(maxsize=512)
def _add_returned_members(text: str, owner: str, returned: frozenset[str]) -> str:
    """Return messages with only those details that this endpoint wants back."""
    bare, kept = detach_details(text)
    if not returned or '"tool_calls"' not in bare:
        return bare
    parts = json.loads(kept) if kept else {}
    parts = parts if parts.get("of") == owner else {}
    some = json.loads(f"[{bare}]")
    for message in some:
        if not (calls := message.get("tool_calls")):
            continue
        if "reasoning_content" in returned:  # an empty text is accepted where the real one is unknown
            message["reasoning_content"] = read_string(parts.get("reasoning_content"))
        if "extra_content" in returned:
            known = read_list(parts.get("extra_content")) or [MISSING_SIGNATURE] * len(calls)
            for call, more in zip(calls, known, strict=False):
                call.update({"extra_content": more} if more is not None else {})
    return format_json(some)[1:-1]


@lru_cache(maxsize=64)
def _drop_members(extra: str, names: frozenset[str]) -> str:
    """Return the request's members without these names."""
    return format_json({name: value for name, value in parse_members(extra).items() if name not in names})[1:-1]


def _unwrap_answer(answer: Any) -> Any:
    """Return the completion in an answer. Some relays put it into another object."""
    if not isinstance(answer, dict) or "choices" in answer or answer.get("error"):
        return answer
    return next((one for one in answer.values() if isinstance(one, dict) and "choices" in one), answer)


def _read_choice(answer: Any) -> Any:
    return next(iter(read_list(read_field(answer, "choices"))), None)


def _read_calls(message: Any) -> list[Any]:
    """Return the calls of a message, or the one in the older form."""
    older = read_field(message, "function_call")
    return read_list(read_field(message, "tool_calls")) or ([{"function": older}] if older else [])
