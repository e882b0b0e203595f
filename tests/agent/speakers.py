"""Models that speak a style of ReAct, and what they read in the messages they are sent.

Each writes as models of its kind do, not as they are told to: thinking aloud, in fences, with labels of their own, and
with results that nobody has given them.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.model import Messages, ModelReply, RawToolCall, ReplyFormat
from tests.harness.corpus import corpus

Args = Mapping[str, Any]
Call = tuple[str, Args]
INVENTED = "it is done, and the answer is 4711"
"""What a model makes up as the result of its own call."""
MARK = "Observation"


@dataclass(frozen=True)
class Speaker:
    """A model that speaks a style."""

    name: str
    style: ReplyFormat
    calls: Callable[[Sequence[Call]], ModelReply]
    """Actions of one reply; more than one only where `several`."""
    answer: Callable[[str], ModelReply]
    guess: Callable[[str, Args], ModelReply]
    """A call that is not written as it should be, and can only be guessed."""
    several: bool = True

    def call(self, tool: str, args: Args) -> ModelReply:
        return self.calls([(tool, args)])


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# Native


def native(calls: Sequence[Call]) -> ModelReply:
    made = [RawToolCall(f"call_{n}", tool, dumped({"reason": "why", **args})) for n, (tool, args) in enumerate(calls)]
    return ModelReply(calls=tuple(made), finish="tool_calls")


def native_aloud(calls: Sequence[Call]) -> ModelReply:
    """With words beside the call, and ids that are all alike, as some servers give them."""
    made = tuple(replace(one, id="call_0") for one in native(calls).calls)
    return ModelReply(text=f"<think>Let me see.</think>{MARK}: {INVENTED}", calls=made, finish="tool_calls")


def native_guess(tool: str, args: Args) -> ModelReply:
    return ModelReply(calls=(RawToolCall("a", tool, str({"reason": "why", **args})),), finish="tool_calls")


# Text


def write_action(form: str) -> Callable[[Sequence[Call]], ModelReply]:
    def write(calls: Sequence[Call]) -> ModelReply:
        [(tool, args)] = calls
        return ModelReply(text=form.format(tool=tool, args=dumped(args)))

    return write


def write_answer(form: str) -> Callable[[str], ModelReply]:
    return lambda said: ModelReply(text=form.format(said))


def text_guess(tool: str, args: Args) -> ModelReply:
    return ModelReply(text=f"Thought: why\nAction: {tool.title()}\nAction Input: {dict(args)}")


MADE_UP = f"\n{MARK}: {INVENTED}\nThought: good\nFinal Answer: I did all of it."
"""Everything that a model makes up when its stop sequence does not hold."""
text = write_action("Thought: why\nAction: {tool}\nAction Input: {args}" + MADE_UP)
text_zh = write_action("<think>先想想。</think>\n思考：why\n行动：{tool}\n行动输入：{args}\n观察：" + INVENTED)
text_numbered = write_action(
    "**Thought 1:** why\n**Action 1:** `{tool}`\n**Action Input 1:**\n```json\n{args}\n```\n"
    f"**Observation 1:** {INVENTED}"
)
plainly = write_answer("{}")
after_a_thought = write_answer("Thought: enough\nFinal Answer: {}")
in_chinese = write_answer("<think>够了。</think>思考：够了。\n最终答案：{}")


# JSON


def write_objects(form: str) -> Callable[[Sequence[Call]], ModelReply]:
    def write(calls: Sequence[Call]) -> ModelReply:
        made = [{"type": "tool_call", "tool": tool, "args": args, "reason_summary": "why"} for tool, args in calls]
        return ModelReply(text=form.format(dumped(made[0] if len(made) == 1 else made)))

    return write


def object_guess(tool: str, args: Args) -> ModelReply:
    return ModelReply(text=dumped({"tool": tool, "args": args, "reason_summary": "why"}))


def final_object(said: str) -> ModelReply:
    return ModelReply(text=dumped({"type": "final", "answer": said, "reason_summary": "enough"}))


an_object = write_objects("```json\n{}\n```\n" + f"{MARK}: {INVENTED}")
an_object_after_thinking = write_objects("<think>\nI need a tool.\n</think>\n\n{}")


SPEAKERS = (
    Speaker("native", NativeFormat(), native, plainly, native_guess),
    Speaker("text", TextFormat(), text, after_a_thought, text_guess, several=False),
    Speaker("json", JsonFormat(), an_object, final_object, object_guess),
)
DIALECTS = (
    *SPEAKERS,
    Speaker("native, aloud", NativeFormat(), native_aloud, plainly, native_guess),
    Speaker("text, Chinese", TextFormat(), text_zh, in_chinese, text_guess, several=False),
    Speaker("text, numbered", TextFormat(), text_numbered, after_a_thought, text_guess, several=False),
    Speaker("json, thinking", JsonFormat(), an_object_after_thinking, final_object, object_guess),
)


each = corpus("speaker", *SPEAKERS)
each_dialect = corpus("speaker", *DIALECTS)
where_several = corpus("speaker", *(one for one in SPEAKERS if one.several))


# What a model reads


def seen(messages: Messages) -> list[dict[str, Any]]:
    """The observations of this run, as data, oldest first, whatever style they are told in."""
    said = [n for n, one in enumerate(messages) if one["role"] == "user" and not _observed(one) and not _told(one)]
    start = said[-1]
    return [_data(one) for one in messages[start:] if _observed(one)]


def _observed(message: Mapping[str, Any]) -> bool:
    return message["role"] == "tool" or str(message["content"]).startswith((f"{MARK} ", f"{MARK}:"))


def _told(message: Mapping[str, Any]) -> bool:
    """By the loop, not by a person."""
    return message["role"] in ("system", "developer")


def _data(message: Mapping[str, Any]) -> dict[str, Any]:
    told = str(message["content"])
    return dict(json.JSONDecoder().raw_decode(told, told.index("{"))[0])


Thinking = Callable[[Sequence[Mapping[str, Any]]], "Call | str"]
"""From the observations so far to the next call, or to the answer."""


def living(speaker: Speaker, think: Thinking) -> Callable[[Messages], Awaitable[ModelReply]]:
    """A model that knows how far it has come only from what it is sent, as every model does."""

    async def reply(messages: Messages) -> ModelReply:
        thought = think(seen(messages))
        return speaker.answer(thought) if isinstance(thought, str) else speaker.call(*thought)

    return reply


Seen = Sequence[Mapping[str, Any]]
