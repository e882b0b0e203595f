"""What both transports have in common: a request before it is written, and the port that each of them is."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from bot.agent.model import ModelReply
from bot.agent.models.error_responses import ErrorResponse
from bot.agent.models.model_profile import EFFORT, OPTIONAL, Api, Effort, ModelProfile
from bot.agent.provider_details import attach_details, detach_details

SYSTEM = "[system]"
"""How a note of the system begins where it has to be sent as the user's. What people write stands in quotations."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One reply to be asked for."""

    model: str
    messages: Sequence[str]
    """Of chat completions, as JSON; each text holds one or several, with commas between."""
    extra: str
    """Further members of a chat completion as JSON."""
    profile: ModelProfile
    temperature: float = 0.3
    effort: Effort = "auto"
    owner: str = ""
    """Whose `kept` members are sent back (`bot.agent.provider_details`); empty: nobody's."""
    streamed: bool = False
    rejected_details: Collection[str] = field(default_factory=frozenset)
    """What was kept and is not taken back."""

    @property
    def reasoning_effort(self) -> str:
        """The reasoning effort that is asked for; empty: the endpoint's own."""
        if EFFORT in self.profile.unsupported:
            return ""
        return self.profile.effort or ("" if self.effort == "auto" else self.effort)

    @property
    def optional_members(self) -> frozenset[str]:
        """Of what it can do without, what it has."""
        has = {"temperature", "include", "store", *parse_members(self.extra)}
        has |= {EFFORT} if self.reasoning_effort else set()
        has |= {"strict"} if "tools" in has else set()
        has |= {"stream", "stream_options"} if self.streamed else set()
        return frozenset(has.intersection(OPTIONAL[self.profile.api])) - self.profile.unsupported


class Transport(Protocol):
    @property
    def api(self) -> Api: ...

    @property
    def path(self) -> str:
        """Behind the base address."""

    def encode_request(self, request: ModelRequest) -> bytes: ...

    def parse_response(self, answer: Any, model: str, of: str) -> ModelReply | ErrorResponse:
        """The parts of an answer that are used; a refusal if it is one in spite of its status."""

    def join_events(self, events: Sequence[Any]) -> Any:
        """The answer that a stream's events add up to; None if they stop before its end."""


@lru_cache(maxsize=64)
def parse_members(extra: str) -> Mapping[str, Any]:
    """Members of a request by name."""
    return dict(json.loads(f"{{{extra}}}"))


def format_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def adapt_roles(messages: Sequence[str], profile: ModelProfile) -> Sequence[str]:
    """Messages in the roles that the endpoint's chat template takes; mostly they are so already."""
    if profile.alternates or profile.no_system:
        return _merge_neighbours(messages, profile)
    if profile.one_system:
        return [*messages[:1], *map(_rename_system_messages, messages[1:])]
    return messages


@lru_cache(maxsize=256)
def _rename_system_messages(text: str) -> str:
    """Messages of the system as the user's, with the mark that nobody else's begin with."""
    if '"system"' not in text and '"developer"' not in text:
        return text
    bare, kept = detach_details(text)
    return attach_details(format_json([_rename_system_role(one) for one in json.loads(f"[{bare}]")])[1:-1], kept)


def _rename_system_role(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("role") not in ("system", "developer"):
        return message
    return {**message, "role": "user", "content": f"{SYSTEM} {message['content']}"}


def _merge_neighbours(messages: Sequence[str], profile: ModelProfile) -> list[str]:
    """No two of one side in a row: what the user says behind a result goes into that. A call stays as it came."""
    merged = list[tuple[dict[str, Any], str]]()
    for n, text in enumerate(messages):
        bare, kept = detach_details(text)
        for message in json.loads(f"[{bare}]"):
            one = message if n == 0 and not profile.no_system else _rename_system_role(message)
            before = merged[-1][0] if merged else {}
            if profile.alternates and _can_merge(before, one):
                merged[-1] = ({**before, "content": _merge_contents(before["content"], one["content"])}, merged[-1][1])
            else:
                merged.append((one, kept))
    return [attach_details(format_json(one), kept) for one, kept in merged]


def _can_merge(before: Mapping[str, Any], one: Mapping[str, Any]) -> bool:
    """True for a message that may not stand behind another one, and goes into that."""
    if "tool_calls" in before or "tool_calls" in one:
        return False
    pair = before.get("role"), one.get("role")
    return pair in (("user", "user"), ("assistant", "assistant"), ("tool", "user"))


def _merge_contents(before: Any, content: Any) -> Any:
    """Two contents, each a text or a list of parts."""
    if isinstance(before, str) and isinstance(content, str):
        return f"{before}\n\n{content}"
    parts = ([{"type": "text", "text": one}] if isinstance(one, str) else one or [] for one in (before, content))
    return [part for some in parts for part in some]
