"""Checks that a reply is complete and removes what is not for the reader, before any reply format parses it."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable

from bot.agent.model import ContentFiltered, Decision, FinalAnswer, MalformedReply, ModelReply

MAX_SENTENCE = 280
"""Longest reason of a call, in characters."""
MAX_REPLY_LENGTH = 100_000
"""Longest reply that is read, in characters: several times the longest answer or email."""
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
"""The marks by which models begin and end their thinking. Any end closes any beginning, because models mix them up."""
ANSWER_MARKS = (
    r"^<(?:final_)?answer>|^<response>|<\|START_RESPONSE\|>|<\|begin_of_solution\|>|<\|open\|>response<\|sep\|>",
    r"</(?:final_)?answer>|</response>|<\|END_RESPONSE\|>|<\|end_of_solution\|>|<\|close\|>response\b",
)
"""The marks by which models begin and end the answer after their thinking."""
_OPENED, _CLOSING = (re.compile("|".join(marks), re.IGNORECASE) for marks in zip(*THINKING_MARKS, strict=True))
_ANSWER, _ANSWERED = re.compile(ANSWER_MARKS[0], re.MULTILINE), re.compile(ANSWER_MARKS[1])
_UNKNOWN = re.compile(
    r"\s*+<(?!\w*(?:call|tool|func|invoke)|(?:p|b|i|em|strong|span|div|[uo]l|li|table|pre|h\d|html|body|details)>)"
    r"([A-Za-z]\w*+)>[ \t]*+\n",
    re.IGNORECASE,
)
"""A tag on a line of its own at the beginning of a reply that is neither a call nor HTML. Such a tag marks a thought of
an unknown model family."""
_CLEAR = re.compile(r"(?:[^{\[\"\n]|\[THINK\])*+")
"""Text at the start of a line before any bracket or quote. After these, a tag may be part of a payload, which stays
intact."""
_CHANNEL = re.compile(
    r"\s*+(?:<\|start\|>\s*+)?(?:assistant)?[^<\n]{0,80}<\|channel\|>|(?:analysis|commentary)(?=[^\W_a-z]| to=|[{<\n])"
    r"|\s*+Here(?: is|'s) my thought process:"
)
_HEADER = re.compile(
    r"(?:<\|start\|>assistant[^<\n]{0,80})?<\|channel\|>\s*+(?P<marked>\w*+)"
    r"|assistant(?P<joined>analysis|commentary|final)|\A(?P<first>analysis|commentary)"
    r"|Here(?: is|'s) my (?P<spoken>thought process|response):"
)
"""Headers of the parts of a reply. gpt-oss writes them as tokens, or joined to the words before if a server has removed
the tokens. Granite writes them as words."""
MAX_HEADER = 200
"""Characters of a header in which the recipient of a call is looked for."""
_LAST = re.compile(r"(?:\s*+(?:>[|｜][\w▁-]++[|｜]<|>s/<|>(?:nrut_fo_dne|soe)<))++\s*+")
"""End-of-turn tokens that a server left in the reply, matched in the reversed text."""
_END = re.compile(r"(?<=[。！？!?])|(?<=\.)\s|\n")
EMPTY = MalformedReply("Your reply was empty.")
UNCLOSED = MalformedReply("Your thinking was not closed. Answer again, without it.")


def check_unusable_reply(reply: ModelReply) -> Decision | None:
    """Return the decision for a reply that need not be read: filtered, refused or cut off. Nothing in such a reply is
    executed. Return None for any other reply."""
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
    """Return the reply without its thinking, or None if the end of the thinking cannot be found. Text from `ends` on is
    dropped. A closing mark after `ends` leaves unclear what is thinking, so that gives None too."""
    if _CHANNEL.match(text):  # the last channel is a call, which keeps its header, or the answer, or thinking
        *_, header = _HEADER.finditer(text)
        begun, mark, answer = text[header.end() :].partition("<|message|>")
        if not {"final", "response"}.isdisjoint(header.groups()):
            text = answer if mark else begun
        elif " to=" in text[header.start() :].partition("<|message|>")[0][:MAX_HEADER]:
            text = text[header.start() :]
        else:
            return None
    if (ending := _LAST.match(text[::-1])) is not None:
        text = text[: -len(ending[0])]
    text = _strip_thinking_marks(text)
    if ends is not None and (end := ends.search(text)) is not None:
        text, after = text[: end.start()], text[end.start() :]
        if _CLOSING.search(after):
            return None
    *_, text = _CLOSING.split(text)
    if _OPENED.search(text):
        return None
    if (opened := _ANSWER.search(text)) is not None:
        closed = _ANSWERED.search(text, opened.end())
        text = text[opened.end() : closed.start() if closed else len(text)]
    elif (unknown := _UNKNOWN.match(text)) is not None:
        text = text.rpartition(f"</{unknown[1]}>")[2].strip() or text
    return text.strip()


def _strip_thinking_marks(text: str) -> str:
    """Remove the text between an opening mark and the next closing mark. In each line, only the last such pair that
    begins there counts."""
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
    """Return the readable text of a text reply, or the decision if there is none."""
    if (decision := check_unusable_reply(reply)) is not None:
        return decision
    text = strip_thinking(reply.text, ends)
    if not text:
        return UNCLOSED if text is None else EMPTY
    return text


def cut_out_object(reply: ModelReply) -> str:
    """Cut the JSON object out of a reply to a question for one. Return an empty text if the reply was cut off or
    withheld, or calls a tool. The thinking may have objects too, so it is left out."""
    if reply.calls or reply.refusal or reply.finish in ("length", "content_filter"):
        return ""
    text = strip_thinking(reply.text) or ""
    return text[text.find("{") : text.rfind("}") + 1]


def cut_first_sentence(text: str) -> str:
    """Return the first sentence, on one line."""
    first = next((one for one in _END.split(text) if one.strip()), "")
    return " ".join(first.split())[:MAX_SENTENCE]


def rewrite_answer_message(message: str, write: Callable[[str], str]) -> str:
    """Return a message (JSON) with an answer rewritten by `write`. Other messages are returned unchanged."""
    if not message.startswith(ANSWER_START):
        return message
    known = json.loads(message)
    return json.dumps({**known, "content": write(str(known["content"]))}, ensure_ascii=False)


# A model may copy lines that only code writes (receipts, marks, events).

_BEFORE = r"[ \t　>*_`\-•]{0,12}+"
_NAMED = (
    r"(?:系统记录|on record|waiting for a button|unverified|not verified|未经核实"
    r"|the person (?:took|has taken) the card back)"
)
_OPEN = r"[\[［【〔(（]"
_LINE = re.compile(
    rf"^{_BEFORE}(?:{_OPEN}[ \t]{{0,4}}+[*_]{{0,3}}+{_NAMED}\b"  # an opened mark, whatever follows
    rf"|⚠️?[ \t]{{0,4}}+(?:未经核实|not verified)|(?:系统记录|on record|waiting for a button)[*_ \t]{{0,4}}+[:：])",
    re.IGNORECASE,
)
_INLINE = re.compile(
    rf"[\[［【〔][ \t]{{0,4}}+{_NAMED}[ \t]{{0,4}}+[:：][^\[\]［］【】〔〕\n]{{0,600}}+[\]］】〕]", re.IGNORECASE
)
_EVENT = re.compile(r"[<＜][ \t]{0,4}+event(?=[ \t]++(?:at|kind)[ \t]*+=)[^>＞\n]{0,200}+[>＞]?", re.IGNORECASE)
_EVENT_END = re.compile(r"[<＜][ \t]{0,4}+[/／][ \t]{0,4}+event[ \t]{0,4}+[>＞]", re.IGNORECASE)


def cut_imitations(text: str) -> str:
    """Return the text without lines and marks that look like ours. Return the text unchanged if there are none."""
    # An imitated event ends at the next closing tag. Without one, it ends with its paragraph or with the text.
    pieces, at, ends = list[str](), 0, [found.end() for found in _EVENT_END.finditer(text)][::-1]
    while (opening := _EVENT.search(text, at)) is not None:
        pieces.append(text[at : opening.start()])
        while ends and ends[-1] < opening.end():
            ends.pop()
        paragraph = text.find("\n\n", opening.end())
        if not ends and paragraph < 0:
            at = len(text)
            break
        at = ends[-1] if ends else paragraph
    without_events = _EVENT_END.sub("", "".join([*pieces, text[at:]]))
    cut = "\n".join(_INLINE.sub("", line) for line in without_events.split("\n") if not _LINE.match(line))
    return text if cut == text else cut.strip()
