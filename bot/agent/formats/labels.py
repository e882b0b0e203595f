"""The labels of ReAct as text, in English and Chinese, at the beginning of a line, with the decorations that models
add."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bot.agent.formats.payload import measure_brackets

WORDS = {
    "input": r"action[ \t_-]*+(?:\d++[ \t_-]*+)?(?:inputs?|arguments?)"
    r"|(?:行动|动作|操作|工具|行動)的?(?:输入|参数|輸入)",
    "final": r"final[ \t_-]*+answer|answer|最[终后終](?:的)?(?:答案|回答|答复)|答案|回答",
    "observation": r"observations?|观察(?:结果)?|觀察",
    "thought": r"thoughts?|thinking|思考|思路|想法",
    "action": r"actions?|行动|动作|操作|行動",
    "question": r"question|human|user|问题|用户",
}
_NUMBER = r"(?:[ \t]*+(?:#?\d++|[(（\[]\d++[)）\]]))?+"
_MARKS = r"[*_`]*+"
_BEGIN, _END = rf"^[ \t]*+(?P<mark>#++[ \t]*+{_MARKS}|[*_`]++)?+", rf"{_NUMBER}[ \t]*+(?:[*_`]++[ \t]*+)?"
_WORD = "|".join(f"(?P<{kind}>{words})" for kind, words in WORDS.items())
LABEL = re.compile(rf"{_BEGIN}(?:{_WORD}){_END}(?:[:：]{_MARKS}|(?(mark)$|(?!)))", re.MULTILINE | re.IGNORECASE)
"""A label with a colon, or a label alone on its line as a heading or emphasized."""
OBSERVATION_START = re.compile(
    rf"{_BEGIN}(?:{WORDS['observation']}){_END}(?:[:：]|$|(?=[=→{{\[]|[-–—][ \t]))", re.MULTILINE | re.IGNORECASE
)
"""The start of an observation that the model invented. Without a colon it counts only if a result follows at once. A
line that begins with the word and continues as a sentence does not count."""
_BRACKETS = re.compile(r"\s*+(?:[*_]{1,3}+[ \t]++)?(?:(?:```|~~~)[\w-]*+\s*+)?(?=[{\[])")


MAX_PARTS = 200
"""Most parts of a reply. A model writes a handful. The last part takes the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPart:
    """The text between two labels. `label` and `start` are the offsets of the label and of the text in the reply
    (characters)."""

    kind: str
    text: str
    label: int
    start: int


def split_by_labels(text: str) -> list[LabelledPart]:
    """Split a reply by its labels. Text before the first label is a thought. Brackets that open after the label of an
    action or of its input belong to that part, whatever their lines begin with."""
    marks, at = [("thought", 0, 0)], 0
    while len(marks) < MAX_PARTS and (label := LABEL.search(text, at)) is not None:
        kind = next(name for name in WORDS if label[name])
        marks.append((kind, label.start(), label.end()))
        at = label.end()
        if kind in ("input", "action") and (opening := _BRACKETS.match(text, at)) is not None:
            at = opening.end() + (measure_brackets(text, opening.end()) or 0)
    ends = [*(begin for _, begin, _ in marks[1:]), len(text)]
    parts = [
        LabelledPart(kind=kind, text=text[start:end].strip(), label=begin, start=start)
        for (kind, begin, start), end in zip(marks, ends, strict=True)
    ]
    return parts if parts[0].text else parts[1:]
