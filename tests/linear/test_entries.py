"""Nothing that reads foreign text is slow, through its real entry: loops around quick patterns can be slow, too.

Each entry reads texts of 20,000 and of 40,000 characters: twice the text may take about twice the time, not four times.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable
from datetime import date

import pytest

from bot import logs
from bot.chat.slack import text as slack_text
from bot.local.rehearsal.notes import WANTED, notes
from bot.local.rehearsal.plan import plan
from bot.local.workspace import typed
from bot.react import prompt
from bot.react.grounding import actions, claims
from bot.react.model import RawCall, Reply
from bot.react.styles.native import Native
from bot.react.styles.objects import Json
from bot.react.styles.text import Text
from bot.react.summary import read
from tests.linear.seeds import COMMON, write
from tests.linear.test_patterns import measure_pace
from tests.local.test_rehearsal import system, user
from tools import drafts
from tools.catalog import TOOLS
from tools.library import sections
from tools.spec import ToolError

pytestmark = pytest.mark.skipif(
    not os.environ.get("LINEAR_ENTRIES"), reason="minutes of measuring, not yet steady: set LINEAR_ENTRIES=1"
)

HALF, WHOLE = 20_000, 40_000
LIMIT_S, SMALL_S, GROWTH = 0.6, 0.1, 3.2
"""Seconds of the processor that an entry may take for 40,000 characters; what takes less than `SMALL_S` may grow as it
likes, since what it takes is mostly noise. `GROWTH`: how many times longer than half of it the whole may take."""
TODAY = date(2026, 11, 20)
PEOPLE = [("张三", "Zhang San"), ("李四", "Li Si")]

# fmt: off
UNITS = (
    *COMMON, "Action: {\n", "Action: x[\n", "Action: x(\n",
    'Action: {"\n', "Action: {'\n", "Action: {/*\n", "Action: []\n",
    "Action Input: {\n", "Thought: a\n", "Final Answer: ", "Question: x\n",
    '{"a":1}\n', "{a}\n", "{}\n", '["a"],', "{'a':'b'},",
    "```\n", "``` \n{", "'a' ", '"\\"', "/*", "//\n", "a=1, ",
    'a="b", ', "<|a|>", "</s>", "<think>", "<think>\n", "</think>\n",
    "<think></think>", "<think>\n</think>\n", "2026-11-20 ", "3 天，",
    "一二三", "请假，", "因为", "给张三发", "a and b, ", "[a](b)", "- a\n",
    "# a\n", "a\n===\n", "已提交。", "sent. ", "明天", "<message>\n",
    "</message>", "<answer>\n", "张三 ", "例如 ", "{{a", "[你的", "xoxb-a ",
    "password=a ", "a@b.c ", "Bearer abcdefgh ", "://a:b@", "Authorization: ",
)
# fmt: on


def decide(style: Text | Json | Native) -> Callable[[str], object]:
    return lambda text: style.decide(Reply(text), TOOLS, most=4)


def call(text: str) -> object:
    return Native().decide(Reply("", (RawCall("1", "list_people", text),)), TOOLS, most=4)


def wrapped(head: str, tail: str, read: Callable[[str], object]) -> Callable[[str], object]:
    return lambda text: read(head + text + tail)


ENTRIES: dict[str, Callable[[str], object]] = {
    "readable": lambda text: slack_text.readable(text, "U0BOT"),
    "fenced": slack_text.fenced,
    "prose": slack_text.prose,
    "formats": slack_text.formats,
    "redact": logs.redact,
    "text style": decide(Text()),
    "text style, an action": wrapped("Action: list_people\nAction Input: ", "", decide(Text())),
    "text style, brackets": wrapped("Action: list_people[", "]", decide(Text())),
    "json style": decide(Json()),
    "json style, an object": wrapped('{"type": "tool_call", "tool": "list_people", "args": {', "}}", decide(Json())),
    "native style": decide(Native()),
    "native arguments": call,
    "native arguments, an object": wrapped("{'a': [", "]}", call),
    "claims": lambda text: claims.check(text, [claims.Source(text)], TODAY, PEOPLE),
    "actions": lambda text: actions.false_deeds(text, actions.Record(told=[text], people=PEOPLE)),
    "template": drafts.is_template,
    "a mail": lambda text: drafts.checked_draft(text[:200], text, 200, WHOLE),
    "sections": lambda text: sections.split("a.md", text),
    "quoted": prompt.quoted,
    "fenced for the model": prompt.fenced,
    "summary": lambda text: read(Reply(json.dumps({"lines": [text]}))),
    "typed": lambda text: typed.rich_text(typed.marked_up(text, (), ()), "b"),
    "rehearsal": lambda text: plan([system(), user(text)], []),
    "rehearsal notes": lambda text: notes([{"role": "system", "content": WANTED}, {"role": "user", "content": text}]),
}


def measure(read: Callable[[str], object], text: str, tries: int = 1) -> float:
    """Seconds of the processor; of several tries the least, each in the pace of that moment."""
    least = math.inf
    for _ in range(tries):
        began = time.thread_time()
        with contextlib.suppress(ValueError, ToolError):
            read(text)
        took_s = time.thread_time() - began
        least = min(least, took_s if tries == 1 else took_s / measure_pace())
    return least


def find_slow(read: Callable[[str], object]) -> list[str]:
    slow = []
    for unit in UNITS:
        half, whole = write("", unit, "", HALF), write("", unit, "", WHOLE)
        took_s = measure(read, half)
        if took_s > 10 * LIMIT_S:
            slow.append(f"{took_s:.2f} s for {HALF} characters of {unit!r}")
        elif took_s > SMALL_S / 4 and (problem := is_slow(read, half, whole)):
            slow.append(f"{problem} of {unit!r}")
    return slow


def is_slow(read: Callable[[str], object], half: str, whole: str) -> str:
    took_s, before_s = measure(read, whole, 3), measure(read, half, 3)
    if took_s > LIMIT_S:
        return f"{took_s:.2f} s for {WHOLE} characters"
    if took_s > SMALL_S and took_s > GROWTH * before_s:
        return f"{before_s:.3f} s → {took_s:.3f} s for twice the text"
    return ""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ENTRIES)
def test_twice_the_text_takes_twice_the_time(name: str) -> None:
    assert find_slow(ENTRIES[name]) == []


def test_a_loop_that_slices_is_found() -> None:
    """The negative control: every pattern in it is quick."""

    def strip_one_by_one(text: str) -> None:
        while text:
            text = text[1:] if len(text) % 2 else text[:-1]
            text.count("x")

    assert find_slow(strip_one_by_one)
