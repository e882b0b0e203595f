"""From the name and the input that a model wrote to a call of a tool."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.react.decision import Proposed
from bot.react.styles.payload import Unreadable, extent, read
from bot.react.styles.whole import sentence
from tools.tool import Tool

NAME_MAX = 64
_NOTHING = re.compile(
    r"(none|null|nil|n/?a|nothing|not applicable|无|没有|不需要|无需\w*|暂无)[.。!！]?"
    r"|(none|no (further |more )?(action|tool|input|argument)s?)\b[^\n\[\](){}]*"
    r"|(none|null|nil|n/?a|无|没有|不需要)\s*+[(（][^\n{}]*",
    re.IGNORECASE,
)
_FENCE = re.compile(r"\s*(?:```|~~~)[\w-]*+[ \t]*+\n?+(.*?)(?:```|~~~)[ \t]*+", re.DOTALL)
_EMPHASIS = re.compile(r"\A[*_]{1,3}+[ \t]++(?=[{\[`~])")
"""What is left of emphasis around a label, before the payload."""
_OPENING = re.compile(r"(?:```|~~~)[\w-]*+[ \t]*+\n")
_KEYWORD = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*+(?:"|\\?\Z)|'(?:\\.|[^'\\])*+(?:'|\\?\Z))|(?P<name>\b[A-Za-z_]\w*+)\s*+=(?!=)""",
    re.DOTALL,
)
"""A string, to the end of it or of everything, or a name with its sign of equality."""
_LABELLED = re.compile(r"\w++\s*+[:：]")
_JOINTS = re.compile(r"[\s_-]+")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "「": "」"}


@dataclass(frozen=True, slots=True)
class Input:
    """Arguments as they were read."""

    args: dict[str, Any]
    repaired: bool = False

    def unsure(self, doubt: bool = True) -> Input:
        """The same, a guess if there is a doubt."""
        return Input(self.args, self.repaired or doubt)


def none_at_all(text: str) -> bool:
    """A tool's name or an input that says there is none."""
    return _NOTHING.fullmatch(text.strip()) is not None


def known(tools: Sequence[Tool], name: str) -> tuple[Tool | None, bool]:
    """The tool of this name, and whether it is spelled otherwise."""
    exact = next((tool for tool in tools if tool.name == name), None)
    spelling = spell_name(name)
    alike = [tool for tool in tools if spell_name(tool.name) == spelling]
    return exact or (alike[0] if len(alike) == 1 else None), exact is None


def spell_name(name: str) -> str:
    """A tool's name without what models change of it: case, blanks, dashes and underscores."""
    return _JOINTS.sub("", name).casefold()


def arguments(tool: Tool | None, text: str) -> Input:
    """The arguments in an input: an object, `name="value"` pairs, or one value for the only or first argument that
    the tool needs. Raises `Unreadable`."""
    body, around = unfenced(text)
    if not body or none_at_all(body):
        return Input({}, repaired=body != "")
    if body[0] in "{[":
        end = extent(body)
        payload, more = read(body[:end]), _rest(body[end:]) if end else ""
        return fitted(tool, payload.value, payload.repaired or around or bool(more))
    if pairs := _pairs(body):
        payload = read(pairs)
        return Input(dict(payload.value), payload.repaired or around)
    if tool is not None and _LABELLED.match(body) and body.partition("\n")[1]:
        raise Unreadable("its arguments are not one JSON object")
    return _single(tool, body, around)


def unfenced(text: str) -> tuple[str, bool]:
    """What stands in a fence or in back-ticks, and whether there was anything else."""
    text = text.strip()
    if (found := _FENCE.match(text)) is not None:
        return found[1].strip(), bool(_rest(text[found.end() :]))
    text = _half_fenced(_EMPHASIS.sub("", text, count=1))
    if len(text) > 1 and text[0] == text[-1] == "`":
        text = text.strip("`").strip()
    return text, False


def _half_fenced(text: str) -> str:
    """Without a fence of which only one end is there. What ends with a fence that begins inside of it keeps it."""
    if (opening := _OPENING.match(text)) is not None:
        text = text[opening.end() :].strip()
    if text.count("```") % 2 == 0 and text.count("~~~") % 2 == 0:
        return text
    inner = text[:-3].rstrip() if text.endswith(("```", "~~~")) else text
    return inner.lstrip() if "\n" in text[len(inner) :] else text


def _rest(text: str) -> str:
    """What follows a payload, other than the end of a fence or of emphasis."""
    return text.strip(" \t\n\r`*~")


def _pairs(body: str) -> str:
    """`a="x", b=2` as an object; empty if it is nothing of the kind."""
    first = _KEYWORD.match(body)
    if first is None or not first["name"]:
        return ""
    return "{" + _KEYWORD.sub(lambda one: one["text"] or f'"{one["name"]}": ', body) + "}"


def proposed(number: int, name: str, tools: Sequence[Tool], given: Input, reason: str) -> Proposed:
    """A call; a note among the arguments of a tool that has none is what it says."""
    tool, misspelled = known(tools, name)
    args = dict(given.args)
    if tool is not None:
        said = sentence(take_note(args, tool))
        reason = reason or said
    repaired = given.repaired or (tool is not None and misspelled)
    return Proposed(str(number), tool.name if tool else name, args, reason, repaired)


NOTES = ("note", "reason")
"""How models call the note of a call. The second was its name in runs that began before it had the first one."""


def take_note(args: dict[str, Any], tool: Tool | None) -> str:
    """Takes the note out of the arguments of a call, unless the tool has an argument of that name."""
    own = fields(tool) if tool is not None else {}
    said = [str(args.pop(name)).strip() for name in NOTES if name in args and name not in own]
    return next(filter(None, said), "")


def fitted(tool: Tool | None, value: Any, repaired: bool) -> Input:
    """An array is the list that the tool's argument is, or holds the one object that was meant."""
    if isinstance(value, dict):
        return Input(value, repaired)
    if isinstance(value, list):
        name, sole = _first(tool)
        if tool is not None and _kind(tool, name) == "array":
            return Input({name: value}, repaired or not sole)
        if len(value) == 1 and isinstance(value[0], dict):
            return Input(value[0], repaired=True)
    raise Unreadable("it must be one JSON object")


def _single(tool: Tool | None, body: str, around: bool) -> Input:
    """One value without a name. It is a guess unless the tool has, or needs, just that."""
    plain, (name, sole) = unquoted(body), _first(tool)
    if not plain or (tool is not None and not fields(tool)):
        return Input({}, repaired=True)
    if plain == body and body[0] in "\"'" and body[-1] == body[0] and "," in body:
        return fitted(tool, read(f"[{body}]").value, repaired=True)
    if plain.count('"') == 1:  # the other one was forgotten, or cut off
        plain, around = plain.strip('" '), True
    return Input({name: plain}, around or not sole or "\n" in plain)


def unquoted(text: str) -> str:
    """Without the quotes around the whole of it."""
    text = text.strip()
    if len(text) < 2 or _QUOTES.get(text[0]) != text[-1] or text[0] in text[1:-1].replace("\\" + text[0], ""):
        return text
    try:
        return str(json.loads(text)) if text[0] == '"' else text[1:-1]
    except ValueError:
        return text[1:-1]


def _first(tool: Tool | None) -> tuple[str, bool]:
    """The argument that a lone value is for, and whether there can be no doubt."""
    if tool is None:
        return "input", False
    known, needed = fields(tool), tool.schema.get("required", ())
    return next(iter(needed or known), "input"), len(known) == 1 or len(needed) == 1


def fields(tool: Tool) -> Mapping[str, Any]:
    """The tool's arguments, each with its schema."""
    found: Mapping[str, Any] = tool.schema.get("properties", {})
    return found


def _kind(tool: Tool, name: str) -> str:
    return str(fields(tool).get(name, {}).get("type", ""))
