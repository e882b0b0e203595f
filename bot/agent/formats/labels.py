"""The labels of ReAct as text, in English and Chinese, as models decorate them: at the beginning of a line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

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
"""With a colon; or alone on its line, if it is a heading or emphasized."""
OBSERVED = re.compile(
    rf"{_BEGIN}(?:{WORDS['observation']}){_END}(?:[:：]|$|(?=[=→{{\[]|[-–—][ \t]))", re.MULTILINE | re.IGNORECASE
)
"""Where an observation begins that only the model can have made up: also without a colon, if a result follows at once.
A line that begins with the word and goes on as a sentence is none."""


PARTS = 200
"""Parts of a reply that are told apart; a model writes a handful. What follows belongs to the last one."""


@dataclass(frozen=True, slots=True)
class LabelledPart:
    """What stands between two labels. `label`, `start`: where in the reply label and text begin (characters)."""

    kind: str
    text: str
    label: int
    start: int


def split_by_labels(text: str, skip: Callable[[str, int], int]) -> list[LabelledPart]:
    """The reply by its labels; what stands before the first one is a thought. `skip`: how many characters from a
    place on, behind the label of an action or its input, are certainly its own, whatever their lines begin with."""
    marks, at = [("thought", 0, 0)], 0
    while len(marks) < PARTS and (label := LABEL.search(text, at)) is not None:
        kind = next(name for name in WORDS if label[name])
        marks.append((kind, label.start(), label.end()))
        at = label.end() + (skip(text, label.end()) if kind in ("input", "action") else 0)
    ends = [*(begin for _, begin, _ in marks[1:]), len(text)]
    found = [
        LabelledPart(kind, text[start:end].strip(), begin, start)
        for (kind, begin, start), end in zip(marks, ends, strict=True)
    ]
    return found if found[0].text else found[1:]
