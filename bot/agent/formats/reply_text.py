"""What every reply format does before it reads a reply: checks that it is complete, and removes what is not for the
reader."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable

from bot.agent.decision import ContentFiltered, Decision, FinalAnswer, MalformedReply
from bot.agent.model import ModelReply

MAX_SENTENCE = 280
"""Longest reason, in characters."""
MAX_REPLY_LENGTH = 100_000
"""Characters of a reply that are read: several times what a person may be told, or an email may hold."""
ANSWER_START = '{"role": "assistant"'
"""The beginning of a model's message, as JSON."""
_NAMES = (
    r"think(?:ing)?|thoughts?|reason(?:ing)?|reflect(?:ion)?|analysis|(?:reasoning_)?scratch_?pad|(?:inner_)?monologue"
)
_TAG = rf"(?:\w{{1,16}}[:_])?(?:{_NAMES})"
THINKING_MARKS = (
    (rf"<{_TAG}(?:\s[^<>\n]*+)?>", rf"</{_TAG}>"),
    (r"◁think▷", r"◁/think▷"),
    (r"\[THINK\]", r"\[/THINK\]"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    (r"<\|channel>thought\b", r"<channel\|>"),
    (r"<\|open\|>think<\|sep\|>", r"<\|close\|>think<\|sep\|>"),
)
"""How models mark the beginning and the end of their thinking. Any end closes any beginning: models mix them up."""
ANSWER_MARKS = (
    r"^<(?:final_)?answer>|^<response>|<\|START_RESPONSE\|>|<\|begin_of_solution\|>|<\|open\|>response<\|sep\|>",
    r"</(?:final_)?answer>|</response>|<\|END_RESPONSE\|>|<\|end_of_solution\|>|<\|close\|>response\b",
)
"""How models mark the answer after it."""
_OPENED, _CLOSING = (re.compile("|".join(marks), re.IGNORECASE) for marks in zip(*THINKING_MARKS, strict=True))
_ANSWER, _ANSWERED = re.compile(ANSWER_MARKS[0], re.MULTILINE), re.compile(ANSWER_MARKS[1])
_UNKNOWN = re.compile(
    r"\s*+<(?!\w*(?:call|tool|func|invoke)|(?:p|b|i|em|strong|span|div|[uo]l|li|table|pre|h\d|html|body|details)>)"
    r"([A-Za-z]\w*+)>[ \t]*+\n",
    re.IGNORECASE,
)
"""A tag that stands at the beginning of a reply on a line of its own, and is neither a call nor HTML: a thought in the
tag of an unknown family."""
_CLEAR = re.compile(r"(?:[^{\[\"\n]|\[THINK\])*+")
"""After a bracket or a quote, a tag may be part of a payload, which stays intact."""
_CHANNEL = re.compile(
    r"\s*+(?:<\|start\|>\s*+)?(?:assistant)?[^<\n]{0,80}<\|channel\|>|(?:analysis|commentary)(?=[^\W_a-z]| to=|[{<\n])"
    r"|\s*+Here(?: is|'s) my thought process:"
)
_HEADER = re.compile(
    r"(?:<\|start\|>assistant[^<\n]{0,80})?<\|channel\|>\s*+(?P<marked>\w*+)"
    r"|assistant(?P<joined>analysis|commentary|final)|\A(?P<first>analysis|commentary)"
    r"|Here(?: is|'s) my (?P<spoken>thought process|response):"
)
"""How gpt-oss begins a part of its reply: with tokens, or joined to the words before if a server has removed them; and
how Granite does."""
MAX_HEADER = 200
"""Characters in which a header names the recipient of a call."""
_LAST = re.compile(r"(?:\s*+(?:>[|｜][\w▁-]++[|｜]<|>s/<|>(?:nrut_fo_dne|soe)<))++\s*+")
"""Tokens that end a model's turn and that its server left there; read from the end."""
_END = re.compile(r"(?<=[。！？!?])|(?<=\.)\s|\n")
EMPTY = MalformedReply("Your reply was empty.")
UNCLOSED = MalformedReply("Your thinking was not closed. Answer again, without it.")


def check_unusable_reply(reply: ModelReply) -> Decision | None:
    """The decision for a reply that need not be read: filtered, refused, or cut off. Nothing in it is executed."""
    if reply.finish == "content_filter":
        return ContentFiltered()
    if reply.refusal.strip():
        return FinalAnswer(reply.refusal.strip())
    if reply.finish == "unreadable":
        return MalformedReply("Your tool call could not be read. Call the tool again, with one valid JSON object.")
    if reply.finish == "length":
        return MalformedReply("Your reply was cut off by its length. Answer again, shorter.")
    if any(len(one) > MAX_REPLY_LENGTH for one in (reply.text, *(call.arguments for call in reply.calls))):
        return MalformedReply(f"Your reply was longer than {MAX_REPLY_LENGTH} characters. Answer again, shorter.")
    return None


def strip_thinking(text: str, ends: re.Pattern[str] | None = None) -> str | None:
    """The reply without thinking; None if nobody can say where that ends. Nothing is read from `ends` on: whether that
    part is thinking is clear only if the marks are both opened and closed."""
    channel = _choose_channel(text)
    if channel is None:
        return None
    text = channel[: -len(ending[0])] if (ending := _LAST.match(channel[::-1])) else channel
    text = _strip_thinking_marks(text)
    if ends is not None and (end := ends.search(text)) is not None:
        text, after = text[: end.start()], text[end.start() :]
        if _CLOSING.search(after):
            return None
    *_, text = _CLOSING.split(text)
    return None if _OPENED.search(text) else _unwrap_answer(text).strip()


def _choose_channel(text: str) -> str | None:
    """The last part of a reply in channels: a call with its header, or the answer without it. None for thinking."""
    if not _CHANNEL.match(text):
        return text
    *_, header = _HEADER.finditer(text)
    if {"final", "response"}.isdisjoint(header.groups()):
        is_call = " to=" in text[header.start() :].partition("<|message|>")[0][:MAX_HEADER]
        return text[header.start() :] if is_call else None
    _, mark, answer = text[header.end() :].partition("<|message|>")
    return answer if mark else text[header.end() :]


def _unwrap_answer(text: str) -> str:
    """The part that is marked as the answer, or that stands behind a tag which begins the text."""
    if (opened := _ANSWER.search(text)) is not None:
        closed = _ANSWERED.search(text, opened.end())
        return text[opened.end() : closed.start() if closed else len(text)]
    if (unknown := _UNKNOWN.match(text)) is not None:
        return text.rpartition(f"</{unknown[1]}>")[2].strip() or text
    return text


def _strip_thinking_marks(text: str) -> str:
    """Removes the text between a mark and the next closing one, for the last such pair that begins in a line."""
    closings = [(match.start(), match.end()) for match in _CLOSING.finditer(text)]
    pieces, kept_until, line = list[str](), 0, 0
    while closings and line <= closings[-1][0]:
        clear = _CLEAR.match(text, line)
        opened = _OPENED.finditer(text, line, clear.end() if clear else line)
        before = [match for match in opened if match.end() <= closings[-1][0]]
        if before:
            end = closings[bisect_left(closings, (before[-1].end(),))][1]
            pieces.append(text[kept_until : before[-1].start()])
            kept_until = line = end
        newline = text.find("\n", line)
        line = newline + 1 if newline >= 0 else len(text) + 1
    return "".join([*pieces, text[kept_until:]])


def read_reply_text(reply: ModelReply, ends: re.Pattern[str]) -> str | Decision:
    """The readable text of a text reply, otherwise the decision for it."""
    if (decision := check_unusable_reply(reply)) is not None:
        return decision
    text = strip_thinking(reply.text, ends)
    if not text:
        return UNCLOSED if text is None else EMPTY
    return text


def cut_first_sentence(text: str) -> str:
    """The first sentence, on one line."""
    first = next((one for one in _END.split(text) if one.strip()), "")
    return " ".join(first.split())[:MAX_SENTENCE]


def rewrite_answer_message(message: str, write: Callable[[str], str]) -> str:
    """A message as JSON; an answer in the form that `write` gives it."""
    if not message.startswith(ANSWER_START):
        return message
    known = json.loads(message)
    return json.dumps({**known, "content": write(str(known["content"]))}, ensure_ascii=False)
