"""Types that both APIs share: a request before it is encoded, and the interface that each API implements."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from bot.agent.model import ModelReply
from bot.agent.models.error_responses import ErrorResponse
from bot.agent.models.model_profile import EFFORT, OPTIONAL_MEMBERS, Api, Effort, ModelProfile
from bot.agent.provider_details import attach_details, detach_details

SYSTEM_MARK = "[system]"
"""Prefix of a system note that has to be sent as the user's. People's own text is always quoted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    model: str
    messages: Sequence[str]
    """Messages of chat completions, as JSON. Each text holds one message or several (separated by commas)."""
    extra: str
    """Further members of a chat completion, as JSON."""
    profile: ModelProfile
    temperature: float = 0.3
    effort: Effort = "auto"
    owner: str = ""
    """The owner whose stored details are sent back (`bot.agent.provider_details`). If empty, none are."""
    streamed: bool = False
    rejected_details: Collection[str] = field(default_factory=frozenset)
    """Stored details that the endpoint does not take back."""

    @property
    def reasoning_effort(self) -> str:
        """The requested reasoning effort. Empty means the endpoint's default."""
        if EFFORT in self.profile.unsupported:
            return ""
        return self.profile.effort or ("" if self.effort == "auto" else self.effort)

    @property
    def tool_names(self) -> Sequence[str]:
        return [one["function"]["name"] for one in parse_members(self.extra).get("tools", ())]

    @property
    def optional_members(self) -> frozenset[str]:
        """The optional members that the request has."""
        has = {"temperature", "include", "store", *parse_members(self.extra)}
        has |= {EFFORT} if self.reasoning_effort else set()
        has |= {"strict"} if "tools" in has else set()
        has |= {"stream", "stream_options"} if self.streamed else set()
        return frozenset(has.intersection(OPTIONAL_MEMBERS[self.profile.api])) - self.profile.unsupported


class Transport(Protocol):
    @property
    def api(self) -> Api: ...

    @property
    def path(self) -> str:
        """The path after the base address."""

    def encode_request(self, request: ModelRequest) -> bytes: ...

    def parse_response(self, answer: Any, model: str, owner: str) -> ModelReply | ErrorResponse:
        """Parse the used parts of an answer. Return an error if the answer is one in spite of its status."""

    def join_events(self, events: Sequence[Any], *, has_said_end: bool) -> Any:
        """Join a stream's events into the answer. Return None if they stop before its end."""


@lru_cache(maxsize=64)
def parse_members(extra: str) -> Mapping[str, Any]:
    return dict(json.loads(f"{{{extra}}}"))


@lru_cache(maxsize=64)
def leave_out_tools(extra: str, refused: frozenset[str]) -> str:
    """Return the members of a request without these tools."""
    members = parse_members(extra)
    kept = [one for one in members.get("tools", ()) if one["function"]["name"] not in refused]
    others = {name: value for name, value in members.items() if name != "tools"}
    return format_json({**others, "tools": kept} if kept else others)[1:-1]


def format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def adapt_roles(messages: Sequence[str], profile: ModelProfile) -> Sequence[str]:
    """Convert messages to the roles that the endpoint's chat template takes. Most already have them."""
    if profile.alternates or profile.no_system:
        return _merge_neighbours(messages, profile)
    if profile.one_system:
        return [*messages[:1], *map(_rename_system_messages, messages[1:])]
    return messages


@lru_cache(maxsize=256)
def _rename_system_messages(text: str) -> str:
    """Rename system messages to the user's, with a mark that no other message begins with."""
    if '"system"' not in text and '"developer"' not in text:
        return text
    bare, kept = detach_details(text)
    return attach_details(format_json([_rename_system_role(one) for one in json.loads(f"[{bare}]")])[1:-1], kept)


def _rename_system_role(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("role") not in ("system", "developer"):
        return message
    return {**message, "role": "user", "content": f"{SYSTEM_MARK} {message['content']}"}


def _merge_neighbours(messages: Sequence[str], profile: ModelProfile) -> list[str]:
    """Merge neighbours of one side. The user's text after a result goes into that result. Calls stay unchanged."""
    merged = list[tuple[dict[str, Any], str]]()
    for n, text in enumerate(messages):
        bare, details = detach_details(text)
        for message in json.loads(f"[{bare}]"):
            one = message if n == 0 and not profile.no_system else _rename_system_role(message)
            before = merged[-1][0] if merged else {}
            pair = before.get("role"), one.get("role")
            is_one_side = pair in (("user", "user"), ("assistant", "assistant"), ("tool", "user"))
            if not profile.alternates or not is_one_side or "tool_calls" in before or "tool_calls" in one:
                merged.append((one, details))
                continue
            first, second = before["content"], one["content"]
            if isinstance(first, str) and isinstance(second, str):
                content: Any = f"{first}\n\n{second}"
            else:
                content = [
                    part
                    for some in (first, second)
                    for part in ([{"type": "text", "text": some}] if isinstance(some, str) else some or ())
                ]
            merged[-1] = {**before, "content": content}, merged[-1][1]
    return [attach_details(format_json(one), details) for one, details in merged]
