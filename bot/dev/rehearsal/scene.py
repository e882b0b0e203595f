"""The rehearsal planner's view: one request to the endpoint, read into plain facts, and the replies to it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

MESSAGE = re.compile(r"<message(?: from=\"(?P<name>[^\"<>]*+)\")?[^<>]*+>\n?")
END_OF_MESSAGE = "</message>"
"""End of a person's message. The prompt escapes this text within messages."""
ESCAPED = re.compile(r"<\\(\s*+(?:/\s*+)?message)", re.IGNORECASE)
TODAY = re.compile(r"Today is (\d{4}-\d\d-\d\d)")
LANGUAGE = re.compile(r"You speak with [^\n]{0,160}?, language (\w++)")
MANAGER = re.compile(r"^manager: (.+)$", re.M)
OPEN_CARD = re.compile(r"^- (A\w++(?:…\w*+)?): (\w+)", re.M)
CARDS, FACTS, FILES = "<cards ", "<facts ", "</message>\n<files>"
FILE = re.compile(r'^(F\w{1,40}+) "', re.M)
OF_THE_LOOP = ("[system] ", "<summary ", "<tools ", "<event ", CARDS, FACTS)
"""Beginnings of user messages that the program wrote, not the person."""
NAMED = re.compile(r"\b([a-z_]{3,40}+) \(")
"""Pattern of a tool that `find_tools` names: `add_sign (…)`."""
STARTED = re.compile(r"\b[A-Z]-\d{4}\b")
"""Pattern of a request's number."""
CJK, LATIN_WORD = re.compile(r"[\u3400-\u9fff]"), re.compile(r"[A-Za-z]{2,}")
IDENTIFIER = re.compile(r"<[^<>]*+>|\b[A-Z](?:[^\W\d]*+\d\w*+(?:-\d\w*+)?|\w*+-\d\w*+)")


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One tool call. `reason` is sent as the argument `note` that every tool takes."""

    tool: str
    reason: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedReply:
    """A final text or tool calls."""

    content: str = ""
    calls: tuple[PlannedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class PersonTurn:
    """One message of a person: its text, its writer's name, the ids of its files."""

    text: str
    name: str = ""
    files: tuple[str, ...] = ()
    is_after_start: bool = False
    """Whether our answer before it told of a request that is under way."""


@dataclass(frozen=True, slots=True)
class ToolObservation:
    """One tool call of this run and its result."""

    tool: str
    args: Mapping[str, Any]
    data: Mapping[str, Any]

    @property
    def is_error(self) -> bool:
        return "error" in self.data


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that one answer depends on."""

    today: date
    language: str
    """Language of the answer: `zh` or `en`."""
    turns: tuple[PersonTurn, ...]
    """Messages of the people, oldest first. The last one is to be answered."""
    seen: tuple[ToolObservation, ...]
    """Tool calls since the last message."""
    offered_tools: frozenset[str] = frozenset()
    cards: tuple[tuple[str, str], ...] = ()
    """Open cards of the conversation as (id, tool)."""
    manager: str = ""
    """Name of the person's manager in the directory; empty if none is given."""

    def find_observation(self, tool: str) -> Mapping[str, Any] | None:
        """Return the newest successful observation of `tool` in this run."""
        return next((s.data for s in reversed(self.seen) if s.tool == tool and not s.is_error), None)


def read_scene(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Scene:
    """Read a request's `messages` and `tools` into a `Scene`. Unknown roles and shapes are skipped."""
    rules = [m for m in messages if m.get("role") in ("system", "developer")]
    system = "\n".join(join_content_text(m.get("content")) for m in rules)
    turns, seen, cards = list[PersonTurn](), list[ToolObservation](), list[tuple[str, str]]()
    waiting, said, manager = dict[str, tuple[str, dict[str, Any]]](), "", ""
    for message in messages:
        content = join_content_text(message.get("content"))
        match message.get("role"):
            case "user" if content.startswith(OF_THE_LOOP):
                cards += OPEN_CARD.findall(content) if content.startswith(CARDS) else []
                if content.startswith(FACTS) and (found := MANAGER.search(content)):
                    manager = found[1].strip()
            case "user":
                name, text = parse_message(content)
                files = tuple(FILE.findall(content.rpartition(FILES)[2])) if FILES in content else ()
                turns.append(PersonTurn(text, name, files, STARTED.search(said) is not None))
                seen, waiting, said = [], {}, ""
            case "assistant":
                said = content or said
                for call in message.get("tool_calls") or ():
                    arguments = parse_json_object(call["function"].get("arguments", ""))
                    waiting[call["id"]] = (call["function"]["name"], arguments)
            case "tool":
                name, args = waiting.pop(str(message.get("tool_call_id", "")), ("", {}))
                seen += [ToolObservation(name, args, parse_json_object(content))] if name else []
    language, today = LANGUAGE.search(system), TODAY.search(system)
    return Scene(
        today=date.fromisoformat(today[1]) if today else date.today(),
        language="zh" if language and language[1].startswith("zh") else "en",
        turns=tuple(turns),
        seen=tuple(seen),
        offered_tools=frozenset(name for tool in tools for name in list_tool_names(tool)),
        cards=tuple(cards),
        manager=manager,
    )


def list_tool_names(tool: Mapping[str, Any]) -> list[str]:
    """List the name of a tool, and for `find_tools` also the tools that its description names."""
    if tool.get("type") != "function":
        return []
    name, said = tool["function"]["name"], str(tool["function"].get("description", ""))
    return [name, *(NAMED.findall(said) if name == "find_tools" else [])]


def join_content_text(content: object) -> str:
    """Return a message's content as text, from a string or from the text parts of a list."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def parse_message(content: str) -> tuple[str, str]:
    """Extract the writer's name and own words from the quoting of the prompt."""
    found = MESSAGE.search(content)
    end = content.find(END_OF_MESSAGE, found.end()) if found else -1
    text = ESCAPED.sub(r"<\1", content[found.end() : end]) if found and end >= 0 else content
    return (found["name"] or "") if found else "", text.strip()


def parse_json_object(text: str) -> dict[str, Any]:
    """Parse the JSON object in `text`, which may have quoting around it; `{"error": …}` if it is unreadable."""
    start, end = text.find("{"), text.rfind("}")
    try:
        value = json.loads(text[start : end + 1]) if 0 <= start < end else {}
    except ValueError:
        return {"error": "unreadable", "message": text[:200]}
    return value if isinstance(value, dict) else {}


def detect_language(texts: Sequence[str], otherwise: str) -> str:
    """Return the language (`zh` or `en`) of the first text that tells by more than an id."""
    for text in texts:
        words = IDENTIFIER.sub(" ", text)
        chinese, latin = len(CJK.findall(words)), len(LATIN_WORD.findall(words))
        if chinese != latin:
            return "zh" if chinese > latin else "en"
    return otherwise
