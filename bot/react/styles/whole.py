"""What every style does with a reply before it reads it: is it all there, and what of it was meant for others?"""

from __future__ import annotations

import re

from bot.react.decision import Answer, Decision, Malformed, Withheld
from bot.react.model import Reply

SENTENCE = 280
"""Characters of a reason, at most."""
_TAGS = "think|thinking|thought|reasoning"
_CLOSED = re.compile(rf"^([^{{\[\"\n]*)<({_TAGS})>.*?</\2>", re.DOTALL | re.IGNORECASE | re.MULTILINE)
"""Behind a bracket or a quote it may be part of a payload, and nothing is taken out of these."""
_OPENED, _CLOSING = re.compile(rf"<(?:{_TAGS})>", re.IGNORECASE), re.compile(rf"</(?:{_TAGS})>", re.IGNORECASE)
_LAST = re.compile(r"(?:\s*(?:<\|[\w▁-]+\|>|</s>))+\s*$")
"""What ends a model's turn, if its server leaves it there."""
_END = re.compile(r"(?<=[。！？!?])|(?<=\.)\s|\n")
EMPTY = Malformed("Your reply was empty.")
UNCLOSED = Malformed("Your thinking was not closed. Answer again, without it.")


def unusable(reply: Reply) -> Decision | None:
    """What becomes of a reply that need not be read: it was kept back, refused, or cut off. Nothing in it is done."""
    if reply.finish == "content_filter":
        return Withheld()
    if reply.refusal.strip():
        return Answer(reply.refusal.strip())
    if reply.finish == "length":
        return Malformed("Your reply was cut off by its length. Answer again, shorter.")
    return None


def unthought(text: str, ends: re.Pattern[str] | None = None) -> str | None:
    """A reply without what its model thought in tags of its own; None if nobody can say where that ends. From `ends`
    on nothing is read; whether it belongs to thinking is clear only if this is both opened and closed."""
    text = _CLOSED.sub(r"\1", _LAST.sub("", text))
    if ends is not None and (end := ends.search(text)) is not None:
        text, after = text[: end.start()], text[end.start() :]
        if _CLOSING.search(after):
            return None
    *_, text = _CLOSING.split(text)
    return None if _OPENED.search(text) else text.strip()


def written(reply: Reply, ends: re.Pattern[str]) -> str | Decision:
    """What there is to read in a reply that says everything in words, else what becomes of it."""
    if (decision := unusable(reply)) is not None:
        return decision
    text = unthought(reply.text, ends)
    if not text:
        return UNCLOSED if text is None else EMPTY
    return text


def sentence(text: str) -> str:
    """The first sentence, on one line."""
    first = next((one for one in _END.split(text) if one.strip()), "")
    return " ".join(first.split())[:SENTENCE]
