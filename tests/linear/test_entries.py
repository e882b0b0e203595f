"""Nothing that reads foreign text is slow, through its real entry: loops around quick patterns can be slow, too.

Each entry reads texts of 10,000 and of 20,000 characters: twice the text may take about twice the time, not four times.
"""

import contextlib
import gc
import json
import time
from collections.abc import Callable, Sequence
from datetime import date
from itertools import chain

import pytest

from bot.agent import prompt
from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.model import ModelReply, RawToolCall
from bot.agent.prompt import build_cards_message
from bot.core import logs
from bot.core.errors import FileRefusedError
from bot.core.history_entries import PausedRun
from bot.dev.rehearsal.notes import WANTED, build_notes
from bot.dev.rehearsal.plan import plan_reply
from bot.dev.workspace import typed
from bot.features.agreements.feature import is_agreement
from bot.features.files import media
from bot.features.grounding import claims, records
from bot.features.grounding.names import index_names
from bot.features.summaries.summary import parse_summary_lines
from bot.ops.cli.definition_errors import translate_reason
from bot.platforms.slack import text as slack_text
from tests.harness.rehearsal import system, user
from tests.linear.pace import measure_pace
from tests.linear.seeds import COMMON, write
from tools.catalog import TOOLS
from tools.handbook import sections
from tools.mail import completeness
from tools.spec import ToolError

HALF, WHOLE = 10_000, 20_000
LIMIT_S, SMALL_S, GROWTH = 0.4, 0.05, 3.2
"""Seconds of the processor that an entry may take for `WHOLE` characters; what takes less than `SMALL_S` may grow as it
likes, since what it takes is mostly noise. `GROWTH`: how many times longer than half of it the whole may take."""
TODAY = date(2026, 11, 20)
PEOPLE = index_names([("张三", "Zhang San"), ("李四", "Li Si")])

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
    "<tool_call>\n", '<invoke name="x">', "<a>b</a>", "<a=b>c", "list_people(\n", "list_people {\n", "\nlist_people\n",
    "list_people<a>\n", "[TOOL_CALLS]", "<|channel|>final", "assistantfinal", "functions.a:0 ", "[THINK]",
    "<brainstorm>\n",
    "</message>", "<answer>\n", "张三 ", "例如 ", "{{a", "[你的", "xoxb-a ",
    "/EF", "/EF<<", "/EF<</F 9 0 R>>", "9 0 obj\n", "/ObjStm stream\n", "stream\n", "#41", "/XFA%",
    "password=a ", "a@b.c ", "Bearer abcdefgh ", "://a:b@", "Authorization: ",
)
# fmt: on


def decide(style: TextFormat | JsonFormat | NativeFormat) -> Callable[[str], object]:
    return lambda text: style.parse_reply(ModelReply(text), TOOLS, most=4)


def call(text: str) -> object:
    return NativeFormat().parse_reply(ModelReply("", (RawToolCall("1", "list_people", text),)), TOOLS, most=4)


def wrapped(head: str, tail: str, read: Callable[[str], object]) -> Callable[[str], object]:
    return lambda text: read(head + text + tail)


def find_wrong_states(text: str) -> object:
    known = records.RequestRecords()
    known.add_lines([text])
    known.add_result(text)
    return known.find_wrong_states(text)


ENTRIES: dict[str, Callable[[str], object]] = {
    "readable": lambda text: slack_text.parse_message_text(text, "U0BOT"),
    "fenced": slack_text.quote_block,
    "prose": slack_text.escape_markdown,
    "formats": slack_text.has_formatting,
    "redact": logs.redact_text,
    "text style": decide(TextFormat()),
    "text style, an action": wrapped("Action: list_people\nAction Input: ", "", decide(TextFormat())),
    "text style, brackets": wrapped("Action: list_people[", "]", decide(TextFormat())),
    "json style": decide(JsonFormat()),
    "json style, an object": wrapped(
        '{"type": "tool_call", "tool": "list_people", "args": {', "}}", decide(JsonFormat())
    ),
    "native style": decide(NativeFormat()),
    "native arguments": call,
    "native arguments, an object": wrapped("{'a': [", "]}", call),
    "claims": lambda text: claims.check_claims(text, [claims.ClaimSource(text)], TODAY, PEOPLE),
    "states": lambda text: find_wrong_states(text),
    "agreement": is_agreement,
    "template": completeness.is_template,
    "a mail": lambda text: completeness.require_complete_draft(text[:200], text, 200, WHOLE),
    "sections": lambda text: sections.split_sections("a.md", text),
    "quoted": prompt.quote_name,
    "fenced for the model": prompt.escape_tags,
    "an open card": lambda text: build_cards_message([PausedRun("R1", "A1", "send_email", "U1", 1, text)], 2),
    "summary": lambda text: parse_summary_lines(ModelReply(json.dumps({"lines": [text]}))),
    "a PDF": lambda text: media.judge_file(b"%PDF-" + text.encode(errors="replace")),
    "a reason of the compiler": lambda text: translate_reason(text, "zh"),
    "typed": lambda text: typed.mark_up_text(text, (), ()),
    "rehearsal": lambda text: plan_reply([system(), user(text[: len(text) // 8])], []),  # slow, and reads no 20,000
    "rehearsal notes": lambda text: build_notes(
        [{"role": "system", "content": WANTED}, {"role": "user", "content": text}]
    ),
}


def measure(read: Callable[[str], object], text: str) -> float:
    """Seconds of the processor, without collecting the garbage of all the tests before."""
    gc.disable()
    try:
        began = time.thread_time()
        with contextlib.suppress(ValueError, ToolError, FileRefusedError):
            read(text)
        return time.thread_time() - began
    finally:
        gc.enable()


def find_slow(read: Callable[[str], object], units: Sequence[str] = UNITS) -> list[str]:
    slow = []
    for unit in units:
        half, whole = write("", unit, "", HALF), write("", unit, "", WHOLE)
        if (whole_s := measure(read, whole)) > SMALL_S and is_slow(measure(read, half), whole_s):
            took = confirm(read, half, whole)
            if is_slow(*took):
                slow.append(f"{took[0]:.3f} s, and {took[1]:.3f} s for twice the text, of {unit!r}")
    return slow


def confirm(read: Callable[[str], object], half: str, whole: str) -> tuple[float, float]:
    """Both once more, three times in turn, the least of each, in the pace of the machine at that moment."""
    pairs = [(measure(read, half), measure(read, whole), measure_pace()) for _ in range(3)]
    return min(one[0] / one[2] for one in pairs), min(one[1] / one[2] for one in pairs)


def is_slow(half_s: float, whole_s: float) -> bool:
    return whole_s > LIMIT_S or (whole_s > SMALL_S and whole_s > GROWTH * half_s)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_twice_the_text_takes_twice_the_time() -> None:
    assert len(ENTRIES) == 28
    assert {name: slow for name, read in ENTRIES.items() if (slow := find_slow(read))} == {}


@pytest.mark.sample
def test_of_each_entry_it_is_tried_with_a_few_texts() -> None:
    """Others for each: all of them are among those that are tried."""
    few = {name: UNITS[number :: len(ENTRIES)] for number, name in enumerate(ENTRIES)}
    assert set(chain(*few.values())) == set(UNITS)
    assert {name: slow for name, units in few.items() if (slow := find_slow(ENTRIES[name], units))} == {}


def test_a_loop_that_slices_is_found() -> None:
    """The negative control: every pattern in it is quick. It is slow by itself and by its growth, so that a busy
    machine, on which one of both is measured badly, does not hide it."""

    def strip_one_by_one(text: str) -> None:
        while text:
            text = text[1:] if len(text) % 2 else text[:-1]
            text.upper()

    assert any(find_slow(strip_one_by_one, ["请假，"]) for _ in range(3))
