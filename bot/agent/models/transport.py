"""A request before it is encoded for one of the APIs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from bot.agent.model import attach_details, detach_details
from bot.agent.models.model_profile import EFFORT, OPTIONAL_MEMBERS, Effort, ModelProfile

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
    """The owner whose stored details are sent back (`bot.agent.model`). If empty, none are."""
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
    def optional_members(self) -> frozenset[str]:
        """The optional members that the request has."""
        has = {"temperature", "include", "store", *parse_members(self.extra)}
        has |= {EFFORT} if self.reasoning_effort else set()
        has |= {"strict"} if "tools" in has else set()
        has |= {"stream", "stream_options"} if self.streamed else set()
        return frozenset(has.intersection(OPTIONAL_MEMBERS[self.profile.api])) - self.profile.unsupported


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
    is_strict = profile.alternates or profile.no_system or profile.one_system
    return _merge_neighbours(messages, profile) if is_strict else messages


def _merge_neighbours(messages: Sequence[str], profile: ModelProfile) -> list[str]:
    """Rename later system messages, and merge neighbours of one side if these may not be. The user's text after a
    result goes into that result. Calls stay unchanged."""
    merged = list[tuple[dict[str, Any], str]]()
    for n, text in enumerate(messages):
        bare, details = detach_details(text)
        for message in json.loads(f"[{bare}]"):
            one = message
            if (n > 0 or profile.no_system) and message.get("role") in ("system", "developer"):
                one = {**message, "role": "user", "content": f"{SYSTEM_MARK} {message['content']}"}
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
