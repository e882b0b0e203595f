"""ReAct as text (Thought, Action, Action Input, Observation … Final Answer), for models without tool calls.

A call is read only where a label at the beginning of a line asks for it. The first action counts. Text after an
observation that the model invented is ignored, and so is an answer beside an action."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.agent.formats.arguments import (
    NAME_MAX,
    build_call_request,
    find_spelled_tool,
    is_none_word,
    normalize_tool_name,
    parse_arguments,
    strip_fence,
    strip_quotes,
    take_note,
)
from bot.agent.formats.labels import LABEL, OBSERVATION_START, LabelledPart, split_by_labels
from bot.agent.formats.payload import PayloadError, measure_brackets, parse_payload
from bot.agent.formats.reply_text import EMPTY, cut_first_sentence, read_reply_text, rewrite_answer_message
from bot.agent.formats.written_calls import MAX_CALLS, check_answer, has_marks, parse_decision, read_written_calls
from bot.agent.model import Decision, FinalAnswer, MalformedReply, ModelReply, ToolCallRequest, ToolCalls
from tools.tool import Tool

STOP_SEQUENCES = ["\nObservation", "\n观察", "\n**Observation", "\nobservation"]
"""Stop sequences that the endpoint gets. Endpoints take at most four."""
_CALL = re.compile(r"""["'`*]*(?P<name>[^\W\d][\w-]*)[`*]*(?P<gap>[ \t]*)(?P<bracket>[\[(（])""")
_FINISH = re.compile(r"finish|final[ _-]?answer|完成|结束", re.IGNORECASE)
_BESIDE = re.compile(
    rf"(?:{_FINISH.pattern})(?=[ \t]*+[:：]\s*+\S)|[*_`]*+[^\W\d][\w-]*+[*_`]*+[:：]?\s*+(?={{)", re.IGNORECASE
)
"""A name directly followed by its input."""
_QUOTED = re.compile(r"\s*+(?:[{\[\"']|\w++\s*+=)")
"""The start of an input that is an object, a list, a text or pairs."""
_CLOSES = {"[": "]", "(": ")", "（": "）"}
NO_LABEL = MalformedReply("There was neither an Action nor a Final Answer in it. Begin your lines with these labels.")
NO_TOOL = MalformedReply(
    "No tool was named after Action. Name one of the tools, or write Final Answer: and the answer."
)
NO_INPUT = MalformedReply(
    "There was no Action Input. Write it after the Action: one JSON object, {} if there are none."
)
EXAMPLE = MalformedReply(
    "The Action stood in a fence, between words of yours, as an example would. Write it by itself."
)
TWO = MalformedReply("After your Final Answer came an Action. Write one of them.")
MANUAL = """\
You have no other way to call a tool than this. Reply in exactly one of two forms, with labels that begin their lines:

Thought: one short sentence: why this action, now. People read it; it is the `note`.
Action: the name of one tool, exactly as below
Action Input: its arguments as one JSON object on one line, in double quotes; {} if there are none

or, when you can answer or have to ask the person something:

Thought: one short sentence
Final Answer: the answer

One action in a reply, then stop: the next message brings what came of it after "Observation:". Never write an
Observation yourself, and never an Action together with a Final Answer. An example of an action:

Thought: I have to look that up first.
Action: NAME
Action Input: INPUT

The tools:

"""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """Implements `ReplyFormat` for any model that can follow a format."""

    name: str = "text"
    manual: str = MANUAL

    def build_extra_body(self, tools: Sequence[Tool]) -> str:
        return f'"stop":{json.dumps(STOP_SEQUENCES, ensure_ascii=False)}'

    def parse_reply(self, reply: ModelReply, tools: Sequence[Tool], *, most: int) -> Decision:
        text = read_reply_text(reply, OBSERVATION_START)
        if not isinstance(text, str):
            return text
        # An endpoint may leave the beginning of a stop sequence, such as a last line `Obs`.
        before, newline, last = text.rpartition("\n")
        word = last.strip(" \t*").casefold()
        if newline and ((len(word) >= 3 and "observation".startswith(word)) or word == "观"):
            text = before.rstrip()
        inner, around = strip_fence(text)
        is_fenced = text.startswith(("```", "~~~")) and not around and LABEL.search(inner) is not None
        try:
            decision = _parse_labelled_reply(inner if is_fenced else text, tools)
        except PayloadError as error:
            return MalformedReply(f"The input of your Action cannot be used: {error}. Write it as one JSON object.")
        return check_answer(decision, tools, most=1)

    def build_assistant_message(self, act: ToolCalls) -> dict[str, Any]:
        """Build the canonical form of an action, on three lines. The rest of the reply is dropped."""
        [call] = act.calls
        lines = (
            f"Thought: {_join_lines(call.reason)}",
            f"Action: {_join_lines(call.tool)}",
            f"Action Input: {json.dumps(call.args, ensure_ascii=False)}",
        )
        return {"role": "assistant", "content": "\n".join(lines)}

    def build_tool_message(self, model_id: str, observation: str) -> dict[str, Any]:
        return {"role": "user", "content": f"Observation: {observation}"}

    def format_history_message(self, message: str) -> str:
        return rewrite_answer_message(message, "Final Answer: {}".format)


def rewrite_native_messages(messages: Iterable[str]) -> list[str]:
    """Rewrite native calls and their results in this format, each result after its call. Messages are JSON."""
    style, calls, rewritten = TextFormat(), dict[str, ToolCallRequest](), list[str]()
    for text in messages:
        message = json.loads(text) if '"tool_call' in text else {}
        for one in message.get("tool_calls", ()):
            args = json.loads(one["function"]["arguments"])
            call = ToolCallRequest(
                model_id=one["id"], tool=one["function"]["name"], args=args, reason=take_note(args, None)
            )
            calls[call.model_id] = call
        if "tool_call_id" in message:
            act = ToolCalls((calls[message["tool_call_id"]],))
            pair = style.build_assistant_message(act), style.build_tool_message("", message["content"])
            rewritten += [json.dumps(one, ensure_ascii=False) for one in pair]
        elif "tool_calls" not in message:
            rewritten.append(text)
    return rewritten


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _parse_labelled_reply(text: str, tools: Sequence[Tool]) -> Decision:
    """Parse a reply by its labels. Text without labels is words, `Finish[…]` alone, or an object that is clearly a
    call. Raises `PayloadError`."""
    parts = split_by_labels(text)
    kinds = [part.kind for part in parts]
    at = next(
        (
            n
            for n, part in enumerate(parts)
            if part.kind == "action"
            and not any(is_none_word(part.text.strip(marks)) for marks in ("*_`\"' []()<>", "*_`\"' "))
        ),
        None,
    )
    final = kinds.index("final") if "final" in kinds else len(kinds)
    if at is not None and final < at:
        return TWO
    if at is not None:
        action = parts[at]
        is_fenced = parts[0].start == 0 and text.count("```", 0, action.label) % 2 == 1
        if is_fenced and not text.endswith("```"):
            return EXAMPLE
        if final < len(kinds) and not action.text.lstrip("`~").startswith(("{", "[", "json")):
            named = _CALL.match(action.text)
            name = named["name"] if named else _split_name(action.text.strip())[0]
            if find_spelled_tool(tools, name)[0] is None:  # it cannot be done, so the answer after it is the reply
                return _parse_final_answer(text, parts[final:])
        thoughts = [part.text for part in parts[:at] if part.kind == "thought"]
        thought = cut_first_sentence(thoughts[-1].strip("*_ ")) if thoughts else ""
        given = parts[at + 1].text if kinds[at + 1 : at + 2] == ["input"] else None  # from the very next label only
        decision = _parse_action(action.text, given, thought, tools)
        if isinstance(decision, ToolCalls) and (is_fenced or has_marks(text[: action.label])):  # maybe an example
            return ToolCalls(tuple(replace(call, is_guess=True) for call in decision.calls))
        return decision
    if final < len(kinds):
        return _parse_final_answer(text, parts[final:])
    if "action" in kinds or "input" in kinds:
        return NO_TOOL
    call = _CALL.match(text)
    if call is not None and _FINISH.fullmatch(call["name"]):
        return _parse_finish_call(text, call)
    if (written := read_written_calls(text, tools, most=MAX_CALLS)) is not None:
        return replace(written, calls=written.calls[:1]) if isinstance(written, ToolCalls) else written
    is_plain = parts[0].start == 0 and "```" not in text and text[0] not in "{[<"
    return MalformedReply(NO_LABEL.problem, prose=text) if is_plain else NO_LABEL


def _parse_final_answer(text: str, found: Sequence[LabelledPart]) -> Decision:
    """Return the answer from its label to the end, or to the next invented step."""
    ends = next((part.label for part in found if part.kind not in ("final", "question")), len(text))
    answer = text[found[0].start : ends].strip().removeprefix("**").strip()
    return FinalAnswer(answer) if answer else EMPTY


def _parse_finish_call(text: str, call: re.Match[str]) -> Decision:
    close = text.rfind(_CLOSES[call["bracket"]])
    return _parse_quoted_answer(text[call.end() : close] if close >= call.end() else "")


def _parse_quoted_answer(text: str) -> Decision:
    """Return an answer without its quotes, or the only text of an object. Raises `PayloadError`."""
    inner = strip_quotes(strip_fence(text)[0])
    if inner[:1] == "{" and measure_brackets(inner) == len(inner):
        value = parse_payload(inner).value
        inner = next((one for one in value.values() if isinstance(one, str)), "") if len(value) == 1 else inner
    inner = strip_quotes(inner.removeprefix("answer="))
    return FinalAnswer(inner) if inner.strip() else EMPTY


def _parse_action(written: str, given: str | None, thought: str, tools: Sequence[Tool]) -> Decision:
    """Parse `tool`, `tool[input]`, `tool(name="value")`, or an object with name and input. `given` is the Action Input;
    one that repeats the call around it, `name({…})`, is unwrapped. Raises `PayloadError`, also for an input that calls
    another tool."""
    inner, around = strip_fence(written)
    if inner.startswith(("{", "[{")):  # of several objects, the first
        payload = parse_payload(inner[: measure_brackets(inner)])
        several = isinstance(payload.value, list) and bool(payload.value)
        value = payload.value[0] if several else payload.value
        value = {"type": "tool_call", **value} if isinstance(value, dict) else value  # the label Action makes it a call
        return parse_decision(value, tools, is_repaired=payload.repaired or around or several, reason=thought)
    call = _CALL.match(inner)
    name, suffix = (call["name"], "") if call else _split_name(inner)
    tool, _ = find_spelled_tool(tools, name)
    if tool is None and _FINISH.fullmatch(name):
        return _parse_finish_call(inner, call) if call else _parse_quoted_answer(given or suffix)
    if call is not None:
        inside, rest = _split_brackets(inner, call)
        if given is None or is_none_word(given):
            given, doubt = inside, around or bool(call["gap"]) or bool(rest.strip("`*\"'.。; \n"))
        else:
            doubt = bool(inside.strip())  # an object in the Action Input wins over `tool(names of arguments)`
            if doubt and not strip_fence(given)[0].startswith("{"):
                raise PayloadError("there are two of them")
    else:
        if not name or len(name) > NAME_MAX or (tool is None and (suffix or given is None)):
            return NO_TOOL
        if given is None and suffix.startswith(("{", "```")):
            given = suffix
        elif given is None and (tool is None or tool.schema.get("required")):
            return NO_INPUT
        doubt, given = bool(suffix) or given is None, given or ""
        inner, around = strip_fence(given)
        call = _CALL.match(inner)
        if call is not None and not around and call["bracket"] != "[":
            if normalize_tool_name(call["name"]) == normalize_tool_name(name):
                inside, rest = _split_brackets(inner, call)
                given = given if rest.strip("`*; \n") else inside
            elif find_spelled_tool(tools, call["name"])[0] is not None:
                raise PayloadError("it is a call of another tool")
    arguments = parse_arguments(tool, given).mark_as_guess(doubt)
    return ToolCalls((build_call_request(name, tools, arguments, thought),))


def _split_name(text: str) -> tuple[str, str]:
    """Return the tool's name without the quotes, brackets and marks around it, and the text after it."""
    beside = _BESIDE.match(text)
    line = beside[0] if beside else text.partition("\n")[0]
    return line.strip("*_`\"'[]<>「」.。:： \n\t"), text[len(line) :].lstrip(":： \t\n")


def _split_brackets(text: str, call: re.Match[str]) -> tuple[str, str]:
    """Return the content of the brackets after a tool's name, and the text after the brackets. Raises
    `PayloadError`."""
    start, opens, depth = call.end(), call["bracket"], 1
    quoted = _QUOTED.match(text, start) is not None
    if quoted and opens != "（" and (length := measure_brackets(text, start - 1)) is not None:
        return text[start : start + length - 2], text[start + length - 1 :]
    for at in range(start, len(text)):
        depth += {opens: 1, _CLOSES[opens]: -1}.get(text[at], 0)
        if not depth:
            return text[start:at], text[at + 1 :]
    raise PayloadError("the bracket behind the tool's name is not closed")
