"""Finds calls in a model's text, for every reply format: JSON objects, and calls in the syntaxes of other programs.

Models write calls as text in some hundred syntaxes. Without its marks, each is an object with a name and arguments, or
a name before arguments in an object, in brackets or in tags. A call that is certain is taken as a guess if its tool
only reads. Everything else with such marks is refused, so that nobody is shown it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

from bot.agent.formats.arguments import (
    NAME_MAX,
    ParsedArguments,
    build_call_request,
    find_spelled_tool,
    fit_value_to_tool,
    get_argument_schemas,
    get_argument_type,
    is_none_word,
    parse_arguments,
    strip_fence,
)
from bot.agent.formats.labels import LABEL, OBSERVATION_START
from bot.agent.formats.payload import PayloadError, measure_brackets, parse_payload
from bot.agent.formats.reply_text import EMPTY, UNCLOSED, cut_first_sentence, cut_imitations, strip_thinking
from bot.agent.model import Decision, FinalAnswer, MalformedReply, ModelReply, ReplyFormat, ToolCallRequest, ToolCalls
from tools.characters import show_invisible
from tools.spec import Gate
from tools.tool import Tool

CALL, FINAL = ("tool_call", "tool", "action", "function", "call"), ("final", "final_answer", "answer")
TOOL = ("tool", "action", "tool_name", "name")
ARGS = ("args", "arguments", "action_input", "tool_input", "parameters", "input")
ANSWER = ("answer", "final_answer")
REASON = ("reason_summary", "note", "reason", "thought", "thoughts")
_FINISH = re.compile(r"finish|final[ _-]?answer", re.IGNORECASE)
FORM = "Reply with exactly one JSON object, of the form you were shown."
EITHER = "It was both a tool call and a final answer. " + FORM
GUESS_NOTE = (
    "The call of {tool}, which has consequences, was not written as it should be. Write it again: "
    "the tool's exact name, its arguments as one valid JSON object, and nothing behind it."
)
IMITATION_NOTE = (
    "It was a record or an event, which only the system writes. Call the tool, or answer in your own words."
)
REPLY_MAX = 4_000
"""Characters of an unusable reply that the model sees again."""
MAX_CALLS = 50
"""Most possible starts of calls that are tried in one reply."""
MAX_UNFINISHED_LENGTH = 2_000
"""Characters of an unfinished object that are searched."""
_DSML = re.compile(r"(</?+)\s*+[|｜‖]{1,2}\s*+DSML\s*+[|｜‖]{1,2}\s*+")
_NAMED = re.compile(r"<(?:tool_)?name>\s*+([\w.-]++)\s*+</(?:tool_)?name>(?=\s*+<(?:arguments|parameters)>)")
SPELLINGS = {"]<]minimax[>[": "", "<|open|>": "<", "<|close|>": "</", "<|sep|>": ">", '<|"|>': '"', "<escape>": '"'}
"""Parts of tags and quotes as some model families write them → their plain form."""
_TAGS = (
    r"(?:tool|function)(?:_?calls?|_sep|_use|_code|_response)?|invoke|call|tools|arguments|parameters"
    r"|(?:start|end)_function_call|bot_end|end_code"
)
MARKS = re.compile(
    rf"<(?:/?(?:[\w-]{{1,20}}[:_])?(?i:{_TAGS})(?:(?:\s++name)?\s*+=\s*+[\"']?(?P<name>[\w.-]++)[\"']?)?"
    r"(?:\s[^<>\n]*+)?\|?>|[|｜][^|｜<>\n]{1,40}[|｜]?>)"
    r"|\[(?:/?(?:TOOL_CALLS|ARGS|(?:END_)?TOOL_REQUEST|TOOL_RESULTS)\]|CALL_ID\]\w*+)"
    r"|to=functions?\.|func(?:tions\.(?=\w++:\d)|tools(?=\[)|tioncall(?=\{))|✿\w++✿:?|^>>>(?=\w)"
    r"|```tool_code\n|default_api\.|assistant(?:analysis|commentary|final)",
    re.MULTILINE,
)
"""Marks around calls and their parts in the syntaxes of other programs, and the tokens of any model family."""
_TAG_LINE = re.compile(r"^[ \t]*+</?[A-Za-z][\w:]*+>", re.MULTILINE)
"""A tag at the beginning of a line. Answers to people contain no tags, so it is a mark of an unknown model family."""
_FIRST = re.compile(r"[\s*_`\"']*+([A-Za-z_][\w-]*+)")
_OWN_TAG = re.compile(r"<(/?+)([A-Za-z][\w-]*+)>")
_ARGUMENT = re.compile(
    r"\s*+<(?P<tag>[\w:]++)(?:(?:\s++name)?\s*+=\s*+[\"']?(?P<name>[\w.-]++)[\"']?[^<>\n]*+)?>"
    r"(?P<value>(?:[^<]++|<(?!/))*+)</(?P=tag)>"
)
_OPEN_TAG = re.compile(r"\s*+<\w")
_START = re.compile(
    r"^[ \t\[(`*>-]*+(?:(?:call:|print\()[ \t]*+)?(?P<name>[A-Za-z_][\w-]*+)(?:\.call|:\d++)?`?"
    r"(?P<alone>(?=[ \t]*+$))?+"
    r"(?:\s++(?:commentary\b|json\b|code\b|```\w*+))*+\s*+(?=(?P<kind>[{(]|<\w|))"
    r"|^[ \t]*+(?:(?:```|~~~)[\w-]*+\s*+)?(?=[{\[])",
    re.MULTILINE | re.IGNORECASE,
)
"""The start of a call: a name (`alone` on its line) and the kind of its arguments, or an object."""
_COMMA = re.compile(r"\s*+,\s*+")
_KEYED = re.compile(r"\s*+(?:\w++\s*+=|[\"'{]|\Z)")
_JOINED = re.compile(r"(?<![A-Za-z0-9_.-])[a-z]++(?:_[a-z]++)++(?![A-Za-z0-9_])")
"""Words joined like tool names: `start_process`."""
WRITTEN = MalformedReply(
    "There was a tool call, or a mark around one, as another program writes it. Make the call in the form that you "
    "were told, or answer in plain words without tags.",
    is_leak=True,
)


def read_decision(
    style: ReplyFormat,
    reply: ModelReply,
    tools: Sequence[Tool],
    *,
    most: int,
    is_gated: Callable[[str], bool] = lambda name: False,
) -> Decision:
    """Read the decision in a reply, in its format, as it may be followed. A guessed call may look something up, but
    never becomes a card (`is_gated` takes the name of a tool). Records and events that only the system writes are
    removed from an answer."""
    decision = style.parse_reply(reply, tools, most=most)
    if isinstance(decision, ToolCalls):
        guessed = [one.tool for one in decision.calls if one.is_guess and is_gated(one.tool)]
        decision = MalformedReply(GUESS_NOTE.format(tool=guessed[0])) if guessed else decision
    if isinstance(decision, MalformedReply) and decision.prose:
        decision = replace(decision, prose=cut_imitations(decision.prose))
    elif isinstance(decision, FinalAnswer):
        text = cut_imitations(decision.text)
        decision = FinalAnswer(text) if text.strip() else MalformedReply(IMITATION_NOTE)
    if isinstance(decision, MalformedReply) and not decision.is_leak:
        words = strip_thinking(reply.text) or ""  # the model reads them again, and would imitate marks in them
        decision = replace(decision, reply="" if has_marks(words) else show_invisible(words[:REPLY_MAX]))
    return decision


def check_answer(decision: Decision, tools: Sequence[Tool], most: int) -> Decision:
    """Check the words of a decision. Words with a call, a thought or the name of a tool in them are no answer."""
    if isinstance(decision, MalformedReply) and decision.prose:
        plain = strip_thinking(decision.prose)
    elif isinstance(decision, FinalAnswer):
        plain = strip_thinking(decision.text)
    else:
        return decision
    if not plain:
        return UNCLOSED if plain is None else EMPTY
    if (written := read_written_calls(plain, tools, most)) is not None:
        return written
    names = {tool.name for tool in tools}  # those that are ordinary words do not count
    if (name := next((found[0] for found in _JOINED.finditer(plain) if found[0] in names), None)) is not None:
        return MalformedReply(
            f"You named the tool {name} and did not call it. Call it, or answer without the names of tools."
        )
    return FinalAnswer(plain) if isinstance(decision, FinalAnswer) else decision


def has_marks(text: str) -> bool:
    """Return whether the text has a mark of another program, or a tag at the beginning of a line."""
    return any(marks.search(_spell_plainly(text)) for marks in (MARKS, _TAG_LINE))


def read_written_calls(text: str, tools: Sequence[Tool], most: int) -> Decision | None:
    """Return the calls in a text as guesses, or a refusal if one of them is not certain. Return None for a text without
    calls and marks."""
    observation = OBSERVATION_START.search(text)
    plain = _spell_plainly(text[: observation.start()] if observation else text)
    # Each mark, and each name in a mark, goes on a line of its own.
    plain, marks = MARKS.subn(lambda mark: f"\n{mark['name'] or ''}\n", plain)
    labels = [one for one in LABEL.finditer(plain) if one["input"] or one["action"]]
    is_marked = marks > 0 or any(
        one["input"] or ((name := _FIRST.match(plain, one.end())) and find_spelled_tool(tools, name[1])[0])
        for one in labels
    )
    if labels:
        plain = LABEL.sub(lambda one: "\n" if one["input"] or one["action"] else one[0], plain)
    names = {tool.name for tool in tools}
    plain = _OWN_TAG.sub(lambda tag: f"\n{'' if tag[1] else tag[2]}\n" if tag[2] in names else tag[0], plain)
    try:
        calls = list(_read_calls(plain, tools, is_marked))
    except PayloadError:
        return WRITTEN
    if calls and len(calls) <= most:
        return ToolCalls(tuple(replace(call, model_id=f"call_{n}") for n, call in enumerate(calls)), is_leak=True)
    return WRITTEN if calls or is_marked or _TAG_LINE.search(text) else None


def _spell_plainly(text: str) -> str:
    for spelling, plain in SPELLINGS.items():
        text = text.replace(spelling, plain)
    return _NAMED.sub(r"<call name=\1>", _DSML.sub(r"\1", text))


def _read_calls(text: str, tools: Sequence[Tool], is_marked: bool) -> Iterator[ToolCallRequest]:
    """Yield the calls in a text without marks. Raises `PayloadError` for a call that is not certain."""
    names, at, tries = {tool.name: tool for tool in tools}, 0, 0
    while tries < MAX_CALLS and (start := _START.search(text, at)) is not None:
        tool, kind = names.get(start["name"] or ""), start["kind"]
        at = start.end() if start["name"] is None else start.end("name")
        if start["name"] is None or (tool and kind == "{" and _read_objects(text, start.end(), tools)[1]):
            at, calls = _read_objects(text, start.end(), tools)
        elif tool and (kind or (is_marked and start["alone"] is not None)):
            at, arguments = _read_arguments(text, start, tool)
            calls = [build_call_request(tool.name, tools, ParsedArguments(arguments, repaired=True), "")]
            if kind == "(" and (comma := _COMMA.match(text, at)):
                text, at = f"\n{text[comma.end() :]}", 0
        else:
            continue
        for call in calls:
            tool, _ = find_spelled_tool(tools, call.tool)
            known = get_argument_schemas(tool) if tool else {}
            if tool is None or tool.gate is not Gate.NONE or call.args.keys() - known.keys():
                raise PayloadError("only a tool that reads is called so")
            if set(tool.schema.get("required", ())) - call.args.keys():
                raise PayloadError("an argument is missing")
            yield call
        tries += 1


def _read_arguments(text: str, start: re.Match[str], tool: Tool) -> tuple[int, dict[str, Any]]:
    """Return where the call after a tool's name ends, and its arguments: in brackets or in tags. Raises
    `PayloadError`."""
    at, kind = start.end(), start["kind"]
    if not kind.startswith("<"):
        length = measure_brackets(text, at) if kind else 0
        if length is None or (kind == "(" and not _KEYED.match(text, at + 1, at + length - 1)):
            raise PayloadError("its brackets are not closed, or contain no arguments")
        inside = text[at + 1 : at + length - 1] if kind == "(" else text[at : at + length]
        return at + length, parse_arguments(tool, inside).args
    arguments, key = dict[str, Any](), ""
    while (found := _ARGUMENT.match(text, at)) is not None:
        tag, value, at = found["tag"], found["value"].strip(), found.end()
        if tag.endswith("arg_key"):
            key = value
            continue
        name = found["name"] or (key if tag.endswith("arg_value") else tag)
        if name in arguments:
            raise PayloadError("an argument is in it twice")
        arguments[name] = value
        if get_argument_type(tool, name) != "string":
            with suppress(ValueError, RecursionError):
                arguments[name] = json.loads(value)
    if not arguments or _OPEN_TAG.match(text, at):
        raise PayloadError("a tag is not closed")
    return at, arguments


def _read_objects(text: str, at: int, tools: Sequence[Tool]) -> tuple[int, list[ToolCallRequest]]:
    """Return where the object or array that begins at `at` ends, and the calls in it. Raises `PayloadError` for an
    unfinished call."""
    length = measure_brackets(text, at)
    if length is None:
        written = text[at : at + MAX_UNFINISHED_LENGTH]
        if all(any(f'"{name}"' in written for name in some) for some in ((*TOOL, *CALL), ARGS)):
            raise PayloadError("it is cut off, or a bracket or a quote in it is not closed")
        return at + 1, []
    try:
        objects = list(_find_call_objects(parse_payload(text[at : at + length]).value, tools))
    except PayloadError:
        return at + length, []
    decisions = [parse_decision(one, tools, is_repaired=True) for one in objects]
    return at + length, [call for one in decisions if isinstance(one, ToolCalls) for call in one.calls]


def _find_call_objects(value: Any, tools: Sequence[Tool]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects with a name and arguments, in the forms of all APIs."""
    if isinstance(value, list):
        found = [list(_find_call_objects(one, tools)) for one in value]
        yield from chain(*found) if all(found) else ()
    elif isinstance(value, dict):
        inner = next((value[name] for name in ("tool_calls", "function_call", "function") if name in value), None)
        [name, arguments], *more = value.items() or [("", None)]
        if isinstance(inner, dict | list):
            yield from _find_call_objects(inner, tools)
        elif not more and isinstance(arguments, dict) and find_spelled_tool(tools, name)[0]:
            yield {"name": name, "arguments": arguments}
        elif _find_first_text(value, TOOL) and any(one in value for one in ARGS):
            yield {name: one for name, one in value.items() if name != "type"}


def find_object_answer(text: str) -> str:
    """Return the answer inside an object that is the whole reply, as in the JSON format; otherwise an empty text."""
    inner, around = strip_fence(text)
    if around or not inner.startswith("{") or measure_brackets(inner) != len(inner):
        return ""
    try:
        value = parse_payload(inner).value
    except PayloadError:
        return ""
    form = {"type", *ANSWER, *REASON}
    return _find_answer_text(value) if isinstance(value, dict) and value.keys() <= form else ""


def parse_decision(
    value: Any, tools: Sequence[Tool], *, most: int = 1, is_repaired: bool = False, reason: str = ""
) -> Decision:
    """Parse the decision in one object, or in an array of calls. `reason` is the text before it. Raises
    `PayloadError`."""
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        if len(value) > most:
            return MalformedReply(f"You asked for {len(value)} tool calls at once; at most {most} are taken.")
        decisions = [parse_decision(one, tools, is_repaired=is_repaired) for one in value]
        if len(decisions) == 1:
            return decisions[0]
        calls = [call for one in decisions if isinstance(one, ToolCalls) for call in one.calls]
        if len(calls) < len(decisions):
            return MalformedReply("An array may hold nothing but tool calls.")
        return ToolCalls(tuple(replace(call, model_id=str(n)) for n, call in enumerate(calls, 1)))
    if not isinstance(value, dict):
        raise PayloadError("it is no object")
    kind = str(value.get("type") or "").strip().casefold()
    name, answer = _find_first_text(value, TOOL), _find_answer_text(value)
    name = "" if is_none_word(name) else name
    if _FINISH.fullmatch(name) and find_spelled_tool(tools, name)[0] is None:
        kind, name, answer = "final", "", answer or _find_first_text(value, ARGS)
    if kind in FINAL or (not kind and not name):
        if name:
            return MalformedReply(EITHER)
        return FinalAnswer(answer) if answer else MalformedReply(f'"answer" was missing or empty. {FORM}')
    if kind and kind not in CALL:
        raise PayloadError('its "type" is neither "tool_call" nor "final"')
    if not name or "\n" in name or len(name) > NAME_MAX:
        raise PayloadError('"tool" does not name a tool')
    tool, _ = find_spelled_tool(tools, name)
    key = next((key for key in ARGS if key in value), "")
    args = value.get(key)
    if not key and value.keys() - {"type", *TOOL, *ANSWER, *REASON}:
        raise PayloadError('its arguments are not in "args"')
    if args is None:
        arguments = ParsedArguments({}, repaired=not key)
    elif isinstance(args, dict | list):
        arguments = fit_value_to_tool(tool, args, is_repaired=False)
    else:
        arguments = parse_arguments(tool, args if isinstance(args, str) else json.dumps(args))
    arguments = arguments.mark_as_guess(is_repaired or not kind or bool(answer))
    reason = reason or cut_first_sentence(_find_first_text(value, REASON))
    return ToolCalls((build_call_request(name, tools, arguments, reason),))


def _find_answer_text(value: Mapping[str, Any]) -> str:
    found = value.get("answer")
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return str(found) if is_number else _find_first_text(value, ANSWER)


def _find_first_text(value: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the first of these members that is a text."""
    return next((text.strip() for name in names if isinstance(text := value.get(name), str) and text.strip()), "")
