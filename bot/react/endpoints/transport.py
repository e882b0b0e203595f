"""What both transports have in common: a request before it is written, and the port that each of them is."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from bot.react.endpoints.lessons import EFFORT, OPTIONAL, Api, Effort, Lessons
from bot.react.endpoints.refusals import Refusal
from bot.react.model import Reply


@dataclass(frozen=True, slots=True)
class Request:
    """One reply to be asked for."""

    model: str
    messages: Sequence[str]
    """Of chat completions, as JSON; each text holds one or several, with commas between."""
    extra: str
    """Further members of a chat completion as JSON."""
    lessons: Lessons
    temperature: float = 0.3
    effort: Effort = "auto"
    of: str = ""
    """Whose `kept` members are sent back (`bot.react.replaying`); empty: nobody's."""
    streamed: bool = False
    unwanted: Collection[str] = field(default_factory=frozenset)
    """What was kept and is not taken back."""

    @property
    def effort_sent(self) -> str:
        """The reasoning effort that is asked for; empty: the endpoint's own."""
        if EFFORT in self.lessons.dropped:
            return ""
        return self.lessons.effort or ("" if self.effort == "auto" else self.effort)

    @property
    def members(self) -> frozenset[str]:
        """Of what it can do without, what it has."""
        has = {"temperature", "include", "store", *read_members(self.extra)}
        has |= {EFFORT} if self.effort_sent else set()
        has |= {"strict"} if "tools" in has else set()
        has |= {"stream", "stream_options"} if self.streamed else set()
        return frozenset(has.intersection(OPTIONAL[self.lessons.api])) - self.lessons.dropped


class Transport(Protocol):
    @property
    def api(self) -> Api: ...

    @property
    def path(self) -> str:
        """Behind the base address."""

    def write(self, request: Request) -> bytes: ...

    def read(self, answer: Any, model: str, of: str) -> Reply | Refusal:
        """The parts of an answer that are used; a refusal if it is one in spite of its status."""

    def gather(self, events: Sequence[Any]) -> Any:
        """The answer that a stream's events add up to; None if they stop before its end."""


@lru_cache(maxsize=64)
def read_members(extra: str) -> Mapping[str, Any]:
    """Members of a request by name."""
    return dict(json.loads(f"{{{extra}}}"))


def write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=256)
def merge_system(text: str) -> str:
    """Messages in which what the system says later is said by the user: some templates take one system message."""
    some = json.loads(f"[{text}]")
    for message in some:
        if message.get("role") in ("system", "developer"):
            message["role"] = "user"
    return write_json(some)[1:-1]
