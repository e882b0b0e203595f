"""ReAct as text: Thought, Action, Action Input, Observation … Final Answer, for models without tool calls.

A call is read only where a label at the beginning of a line asks for it. The first action counts; what follows an
observation that the model made up is not read at all; beside an action no answer is believed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.react.decision import Act, Answer, Decision, Malformed
from bot.react.model import Reply
from bot.react.styles.calls import (
    NAME_MAX,
    Input,
    arguments,
    known,
    none_at_all,
    proposed,
    spell_name,
    unfenced,
    unquoted,
)
from bot.react.styles.cards import cards, manual
from bot.react.styles.labels import LABEL, OBSERVED, Part, parts
from bot.react.styles.objects import decided
from bot.react.styles.payload import Unreadable, extent, read
from bot.react.styles.whole import rewrite_answer, sentence, written
from tools.tool import Tool

STOPS = ["\nObservation", "\n观察", "\n**Observation", "\nobservation"]
"""Where the model has said enough; endpoints take at most four."""
_BRACKETS = re.compile(r"\s*+(?:[*_]{1,3}+[ \t]++)?(?:(?:```|~~~)[\w-]*+\s*+)?(?=[{\[])")
_CALL = re.compile(r"""["'`*]*(?P<name>[^\W\d][\w-]*)[`*]*(?P<gap>[ \t]*)(?P<bracket>[\[(（])""")
_FINISH = re.compile(r"finish|final[ _-]?answer|完成|结束", re.IGNORECASE)
_BESIDE = re.compile(
    rf"(?:{_FINISH.pattern})(?=[ \t]*+[:：]\s*+\S)|[*_`]*+[^\W\d][\w-]*+[*_`]*+[:：]?\s*+(?={{)", re.IGNORECASE
)
"""A name with its input right behind it."""
_QUOTED = re.compile(r"\s*+(?:[{\[\"']|\w++\s*+=)")
"""How an input begins that is an object, a list, a text, or pairs."""
_CLOSES = {"[": "]", "(": ")", "（": "）"}
NO_LABEL = Malformed("There was neither an Action nor a Final Answer in it. Begin your lines with these labels.")
NO_TOOL = Malformed("No tool was named after Action. Name one of the tools, or write Final Answer: and the answer.")
NO_INPUT = Malformed("There was no Action Input. Write it after the Action: one JSON object, {} if there are none.")
NO_ANSWER = Malformed("The answer was empty.")
EXAMPLE = Malformed("The Action stood in a fence, between words of yours, as an example would. Write it by itself.")
TWO = Malformed("After your Final Answer came an Action. Write one of them.")
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
class Text:
    """Implements `Style`: any model that can follow a form."""

    name: str = "text"

    def body(self, tools: Sequence[Tool]) -> str:
        return f'"stop":{json.dumps(STOPS, ensure_ascii=False)}'

    def manual(self, tools: Sequence[Tool]) -> str:
        return manual(MANUAL, tools)

    def told(self, tools: Sequence[Tool]) -> str:
        return cards(tools)

    def decide(self, reply: Reply, tools: Sequence[Tool], *, most: int) -> Decision:
        text = written(reply, OBSERVED)
        if not isinstance(text, str):
            return text
        try:
            return _decision(_opened(_cut_stop(text)), tools)
        except Unreadable as error:
            return Malformed(f"The input of your Action cannot be used: {error}. Write it as one JSON object.")

    def asked(self, act: Act) -> dict[str, Any]:
        """The one form of an action, on three lines: what else the reply held is not kept."""
        [call] = act.proposed
        lines = (
            f"Thought: {_line(call.reason)}",
            f"Action: {_line(call.tool)}",
            f"Action Input: {json.dumps(call.args, ensure_ascii=False)}",
        )
        return {"role": "assistant", "content": "\n".join(lines)}

    def observed(self, model_id: str, observation: str) -> dict[str, Any]:
        return {"role": "user", "content": f"Observation: {observation}"}

    def answered(self, message: str) -> str:
        return rewrite_answer(message, "Final Answer: {}".format)


def _cut_stop(text: str) -> str:
    """Without what an endpoint leaves of a stop sequence that it did not wait for: a last line like `Obs`."""
    before, newline, last = text.rpartition("\n")
    word = last.strip(" \t*").casefold()
    is_stop = (len(word) >= 3 and "observation".startswith(word)) or word == "观"
    return before.rstrip() if newline and is_stop else text


def _opened(text: str) -> str:
    """A reply that is in a fence as a whole, without it."""
    inner, around = unfenced(text)
    return inner if text.startswith(("```", "~~~")) and not around and LABEL.search(inner) else text


def _line(text: str) -> str:
    return " ".join(text.split())


def _bracketed(text: str, start: int) -> int:
    """How far the brackets reach that open at `start`, in a fence or not; 0 without any."""
    opening = _BRACKETS.match(text, start)
    length = extent(text, opening.end()) if opening else None
    return opening.end() - start + length if opening and length else 0


def _decision(text: str, tools: Sequence[Tool]) -> Decision:
    found = parts(text, _bracketed)
    kinds = [part.kind for part in found]
    action = next((n for n, part in enumerate(found) if part.kind == "action" and not _none(part)), None)
    final = kinds.index("final") if "final" in kinds else len(kinds)
    if action is not None and final < action:
        return TWO
    if action is not None:
        fenced = found[0].start == 0 and text.count("```", 0, found[action].label) % 2 == 1
        if fenced and not text.endswith("```"):
            return EXAMPLE
        if final < len(kinds) and not _is_of_a_tool(found[action], tools):
            return _answer(text, found[final:])
        decision = _action(found[: action + 2], tools)
        return _doubt(decision) if fenced else decision
    if final < len(kinds):
        return _answer(text, found[final:])
    return NO_TOOL if "action" in kinds or "input" in kinds else _unlabelled(text, found[0], tools)


def _is_of_a_tool(part: Part, tools: Sequence[Tool]) -> bool:
    """Whether an action names a tool that there is, in whatever form. Without one, what is asked for is nothing that
    could be done, and the answer that stands behind it is the reply."""
    call = _CALL.match(part.text)
    name = call["name"] if call else _split(part.text.strip())[0]
    return part.text.lstrip("`~").startswith(("{", "[", "json")) or known(tools, name)[0] is not None


def _doubt(decision: Decision) -> Decision:
    """The same as a guess: what stands in a fence behind words may be an example. It may look something up."""
    if not isinstance(decision, Act):
        return decision
    return Act(tuple(replace(call, repaired=True) for call in decision.proposed))


def _none(part: Part) -> bool:
    return any(none_at_all(part.text.strip(marks)) for marks in ("*_`\"' []()<>", "*_`\"' "))


def _answer(text: str, found: Sequence[Part]) -> Decision:
    """From the label to the end, or to where another step is thought up."""
    ends = next((part.label for part in found if part.kind not in ("final", "question")), len(text))
    answer = text[found[0].start : ends].strip().removeprefix("**").strip()
    return Answer(answer) if answer else NO_ANSWER


def _unlabelled(text: str, only: Part, tools: Sequence[Tool]) -> Decision:
    """Nothing but words, `Finish[…]` alone, or an object that is clearly a call."""
    call = _CALL.match(text)
    if call is not None and _FINISH.fullmatch(call["name"]):
        return _finished(text, call)
    inner, around = unfenced(text)
    if inner.startswith("{") and not around and extent(inner) == len(inner):
        value = read(inner).value
        calls = isinstance(value, dict) and not value.keys().isdisjoint(("action_input", "tool"))
        return decided(value, tools, repaired=True) if calls else NO_LABEL
    plain = only.start == 0 and "```" not in text and text[0] not in "{[<"
    return Malformed(NO_LABEL.problem, prose=text) if plain else NO_LABEL


def _finished(text: str, call: re.Match[str]) -> Decision:
    close = text.rfind(_CLOSES[call["bracket"]])
    return _said(text[call.end() : close] if close >= call.end() else "")


def _said(text: str) -> Decision:
    """An answer, out of its quotes or of an object with just that in it. Raises `Unreadable`."""
    inner = unquoted(unfenced(text)[0])
    if inner[:1] == "{" and extent(inner) == len(inner):
        value = read(inner).value
        inner = next((one for one in value.values() if isinstance(one, str)), "") if len(value) == 1 else inner
    inner = unquoted(inner.removeprefix("answer="))
    return Answer(inner) if inner.strip() else NO_ANSWER


def _action(found: Sequence[Part], tools: Sequence[Tool]) -> Decision:
    """The first action, its input taken from the very next label only. Raises `Unreadable`."""
    at = next(n for n, part in enumerate(found) if part.kind == "action" and not _none(part))
    thoughts = [part.text for part in found[:at] if part.kind == "thought"]
    thought = sentence(thoughts[-1].strip("*_ ")) if thoughts else ""
    given = found[at + 1].text if found[at + 1 :] and found[at + 1].kind == "input" else None
    return _called(found[at].text, given, thought, tools)


def _called(written: str, given: str | None, thought: str, tools: Sequence[Tool]) -> Decision:
    """`tool`, `tool[input]`, `tool(name="value")`, or an object that holds the name and the input."""
    inner, around = unfenced(written)
    if inner.startswith(("{", "[{")):
        return _object(inner, around, thought, tools)
    call = _CALL.match(inner)
    if call is None:
        return _named(inner, given, thought, tools)
    tool, _ = known(tools, call["name"])
    if tool is None and _FINISH.fullmatch(call["name"]):
        return _finished(inner, call)
    inside, rest = _inside(inner, call)
    if given is not None and not none_at_all(given):
        return _twice(call["name"], inside, given, thought, tools)
    doubt = around or bool(call["gap"]) or bool(rest.strip("`*\"'.。; \n"))
    return Act((proposed(1, call["name"], tools, arguments(tool, inside).unsure(doubt), thought),))


def _object(text: str, around: bool, thought: str, tools: Sequence[Tool]) -> Decision:
    """The first object, if there are several."""
    payload = read(text[: extent(text)])
    several = isinstance(payload.value, list) and bool(payload.value)
    value = payload.value[0] if several else payload.value
    value = {"type": "tool_call", **value} if isinstance(value, dict) else value  # that is what Action says
    return decided(value, tools, repaired=payload.repaired or around or several, reason=thought)


def _twice(name: str, inside: str, given: str, thought: str, tools: Sequence[Tool]) -> Decision:
    """Brackets and an Action Input: an object in the latter is what counts, beside `tool(names of arguments)`."""
    if inside.strip() and not unfenced(given)[0].startswith("{"):
        raise Unreadable("there are two of them")
    found = arguments(known(tools, name)[0], given)
    return Act((proposed(1, name, tools, found.unsure(bool(inside.strip())), thought),))


def _named(written: str, given: str | None, thought: str, tools: Sequence[Tool]) -> Decision:
    name, more = _split(written.strip())
    tool, _ = known(tools, name)
    if tool is None and _FINISH.fullmatch(name):
        return _said(given or more)
    if not name or len(name) > NAME_MAX or (tool is None and (more or given is None)):
        return NO_TOOL
    if given is None and more.startswith(("{", "```")):
        given = more
    if given is not None:
        inside = _given(tools, name, given)
        return Act((proposed(1, name, tools, arguments(tool, inside).unsure(bool(more)), thought),))
    if tool is None or tool.schema.get("required"):
        return NO_INPUT
    return Act((proposed(1, name, tools, Input({}, repaired=True), thought),))


def _given(tools: Sequence[Tool], name: str, written: str) -> str:
    """An input, out of the call as which it was written: `name({…})`. Raises `Unreadable` for one of another tool."""
    inner, around = unfenced(written)
    call = _CALL.match(inner)
    if call is None or around or call["bracket"] == "[":
        return written
    if spell_name(call["name"]) != spell_name(name):
        if known(tools, call["name"])[0] is not None:
            raise Unreadable("it is a call of another tool")
        return written
    inside, rest = _inside(inner, call)
    return written if rest.strip("`*; \n") else inside


def _split(written: str) -> tuple[str, str]:
    """The name, and what stands with it."""
    beside = _BESIDE.match(written)
    line = beside[0] if beside else written.partition("\n")[0]
    return _name(line), written[len(line) :].lstrip(":： \t\n")


def _name(written: str) -> str:
    """Without the quotes, brackets and marks that stand around a name."""
    return written.strip("*_`\"'[]<>「」.。:： \n\t")


def _inside(written: str, call: re.Match[str]) -> tuple[str, str]:
    """What stands in the brackets behind a tool's name, and what stands behind them. Raises `Unreadable`."""
    start, opens, depth = call.end(), call["bracket"], 1
    quoted = _QUOTED.match(written, start) is not None
    if quoted and opens != "（" and (length := extent(written, start - 1)) is not None:
        return written[start : start + length - 2], written[start + length - 1 :]
    for at in range(start, len(written)):
        depth += {opens: 1, _CLOSES[opens]: -1}.get(written[at], 0)
        if not depth:
            return written[start:at], written[at + 1 :]
    raise Unreadable("the bracket behind the tool's name is not closed")
