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
_TAGS = "think|thinking|thought|reasoning"
_OPENED, _CLOSING = re.compile(rf"<({_TAGS})>", re.IGNORECASE), re.compile(rf"</(?:{_TAGS})>", re.IGNORECASE)
_CLEAR = re.compile(r"[^{\[\"\n]*+")
"""After a bracket or a quote, a tag may be part of a payload, which stays intact."""
_CHANNEL = re.compile(r"\s*+(?:<\|start\|>assistant)?<\|channel\|>")
_FINAL = "<|channel|>final<|message|>"
"""How gpt-oss marks thinking and answer; some servers leave it there."""
_LAST = re.compile(r"(?:\s*+(?:>\|[\w▁-]++\|<|>s/<))++\s*+")
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
    """The reply without thinking in tags; None if nobody can say where that ends. Nothing is read from `ends` on:
    whether that part is thinking is clear only if the tags are both opened and closed."""
    if _CHANNEL.match(text):
        _, final, text = text.rpartition(_FINAL)
        if not final:
            return None
    text = _strip_thinking_tags(text[: -len(ending[0])] if (ending := _LAST.match(text[::-1])) else text)
    if ends is not None and (end := ends.search(text)) is not None:
        text, after = text[: end.start()], text[end.start() :]
        if _CLOSING.search(after):
            return None
    *_, text = _CLOSING.split(text)
    return None if _OPENED.search(text) else text.strip()


def _strip_thinking_tags(text: str) -> str:
    """Removes the text between a tag and its closing tag, for the last such pair that begins in a line."""
    closings = [(match.start(), match.end(), match[0][2:-1].casefold()) for match in _CLOSING.finditer(text)]
    last = {tag: start for start, _, tag in closings}
    pieces, kept_until, line = list[str](), 0, 0
    while closings and line <= len(text):
        clear = _CLEAR.match(text, line)
        opened = _OPENED.finditer(text, line, clear.end() if clear else line)
        closed = [match for match in opened if last.get(match[1].casefold(), -1) >= match.end()]
        if closed:
            begin, tag = closed[-1], closed[-1][1].casefold()
            at = bisect_left(closings, (begin.end(),))
            end = next(closings[n][1] for n in range(at, len(closings)) if closings[n][2] == tag)
            pieces.append(text[kept_until : begin.start()])
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
