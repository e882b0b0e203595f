"""Parses the name and the input that a model wrote into a tool call."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.agent.formats.payload import PayloadError, measure_brackets, parse_payload
from bot.agent.formats.reply_text import cut_first_sentence
from bot.agent.model import ToolCallRequest
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
"""Emphasis marks of a label, left over before the payload."""
_OPENING = re.compile(r"(?:```|~~~)[\w-]*+[ \t]*+\n")
_KEYWORD = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*+(?:"|\\?\Z)|'(?:\\.|[^'\\])*+(?:'|\\?\Z))|(?P<name>\b[A-Za-z_]\w*+)\s*+=(?!=)""",
    re.DOTALL,
)
"""A string that ends with its quote or with the text, or a name with an equals sign."""
_LABELLED = re.compile(r"\w++\s*+[:：]")
_JOINTS = re.compile(r"[\s_-]+")
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "「": "」"}


@dataclass(frozen=True, slots=True)
class ParsedArguments:
    args: dict[str, Any]
    repaired: bool = False

    def mark_as_guess(self, doubt: bool = True) -> ParsedArguments:
        """Return these arguments, marked as a guess if there is a doubt."""
        return ParsedArguments(self.args, self.repaired or doubt)


def is_none_word(text: str) -> bool:
    """Return whether a tool name or an input means "none"."""
    return _NOTHING.fullmatch(text.strip()) is not None


def find_spelled_tool(tools: Sequence[Tool], name: str) -> tuple[Tool | None, bool]:
    """Return the tool of this name, and whether the name was spelled differently."""
    exact = next((tool for tool in tools if tool.name == name), None)
    spelling = normalize_tool_name(name)
    alike = [tool for tool in tools if normalize_tool_name(tool.name) == spelling]
    return exact or (alike[0] if len(alike) == 1 else None), exact is None


def normalize_tool_name(name: str) -> str:
    """Return a tool's name without what models change in it: case, blanks, dashes and underscores."""
    return _JOINTS.sub("", name).casefold()


def parse_arguments(tool: Tool | None, text: str) -> ParsedArguments:
    """Parse an input: an object, `name="value"` pairs, or one value for the tool's only or first required argument.
    Raises `PayloadError`."""
    body, around = strip_fence(text)
    if not body or is_none_word(body):
        return ParsedArguments({}, repaired=body != "")
    if body[0] in "{[":
        end = measure_brackets(body)
        payload, more = parse_payload(body[:end]), _strip_closing_marks(body[end:]) if end else ""
        return fit_value_to_tool(tool, payload.value, payload.repaired or around or bool(more))
    if (first := _KEYWORD.match(body)) is not None and first["name"]:  # `a="x", b=2`
        pairs = _KEYWORD.sub(lambda one: one["text"] or f'"{one["name"]}": ', body)
        payload = parse_payload(f"{{{pairs}}}")
        return ParsedArguments(dict(payload.value), payload.repaired or around)
    if tool is not None and _LABELLED.match(body) and body.partition("\n")[1]:
        raise PayloadError("its arguments are not one JSON object")
    # One value without a name. It is a guess unless the tool has, or requires, exactly one argument.
    plain, (name, sole) = strip_quotes(body), _find_lone_argument(tool)
    if not plain or (tool is not None and not get_argument_schemas(tool)):
        return ParsedArguments({}, repaired=True)
    if plain == body and body[0] in "\"'" and body[-1] == body[0] and "," in body:
        return fit_value_to_tool(tool, parse_payload(f"[{body}]").value, is_repaired=True)
    if plain.count('"') == 1:  # the other quote is missing or cut off
        plain, around = plain.strip('" '), True
    return ParsedArguments({name: plain}, around or not sole or "\n" in plain)


def strip_fence(text: str) -> tuple[str, bool]:
    """Return the content of a fence or of backticks, and whether text follows the fence."""
    text = text.strip()
    if (found := _FENCE.match(text)) is not None:
        return found[1].strip(), bool(_strip_closing_marks(text[found.end() :]))
    text = _EMPHASIS.sub("", text, count=1)
    if (opening := _OPENING.match(text)) is not None:
        text = text[opening.end() :].strip()
    if text.count("```") % 2 or text.count("~~~") % 2:
        # The fence has only one end. Content that ends with a fence keeps it if that fence also begins inside.
        inner = text[:-3].rstrip() if text.endswith(("```", "~~~")) else text
        text = inner.lstrip() if "\n" in text[len(inner) :] else text
    if len(text) > 1 and text[0] == text[-1] == "`":
        text = text.strip("`").strip()
    return text, False


def _strip_closing_marks(text: str) -> str:
    """Return the text after a payload, without the end of a fence or of emphasis."""
    return text.strip(" \t\n\r`*~")


def build_call_request(name: str, tools: Sequence[Tool], arguments: ParsedArguments, reason: str) -> ToolCallRequest:
    """Build the request of the first call. If its tool takes no note, a note among the arguments becomes the reason."""
    tool, is_misspelled = find_spelled_tool(tools, name)
    args = dict(arguments.args)
    if tool is not None:
        said = cut_first_sentence(take_note(args, tool))
        reason = reason or said
    repaired = arguments.repaired or (tool is not None and is_misspelled)
    used = tool.name if tool else name
    return ToolCallRequest(model_id="1", tool=used, args=args, reason=reason, is_guess=repaired)


NOTE_NAMES = ("note", "reason")
"""Names that models give to the note of a call. Runs that began in an earlier version use the second name."""


def take_note(args: dict[str, Any], tool: Tool | None) -> str:
    """Remove the note from the arguments and return it, unless the tool has an argument of that name."""
    own = get_argument_schemas(tool) if tool is not None else {}
    said = [str(args.pop(name)).strip() for name in NOTE_NAMES if name in args and name not in own]
    return next(filter(None, said), "")


def fit_value_to_tool(tool: Tool | None, value: Any, is_repaired: bool) -> ParsedArguments:
    """Wrap an array for a tool whose argument is a list, or unwrap the one object in an array. Raises `PayloadError`
    for any other value that is no object."""
    if isinstance(value, dict):
        return ParsedArguments(value, is_repaired)
    if isinstance(value, list):
        name, sole = _find_lone_argument(tool)
        if tool is not None and get_argument_type(tool, name) == "array":
            return ParsedArguments({name: value}, is_repaired or not sole)
        if len(value) == 1 and isinstance(value[0], dict):
            return ParsedArguments(value[0], repaired=True)
    raise PayloadError("it must be one JSON object")


def strip_quotes(text: str) -> str:
    """Return the text without the quotes around it."""
    text = text.strip()
    if len(text) < 2 or _QUOTES.get(text[0]) != text[-1] or text[0] in text[1:-1].replace("\\" + text[0], ""):
        return text
    try:
        return str(json.loads(text)) if text[0] == '"' else text[1:-1]
    except ValueError:
        return text[1:-1]


def _find_lone_argument(tool: Tool | None) -> tuple[str, bool]:
    """Return the argument that a lone value belongs to, and whether that is certain."""
    if tool is None:
        return "input", False
    known, needed = get_argument_schemas(tool), tool.schema.get("required", ())
    return next(iter(needed or known), "input"), len(known) == 1 or len(needed) == 1


def get_argument_schemas(tool: Tool) -> Mapping[str, Any]:
    found: Mapping[str, Any] = tool.schema.get("properties", {})
    return found


def get_argument_type(tool: Tool, name: str) -> str:
    return str(get_argument_schemas(tool).get(name, {}).get("type", ""))
