"""Calls that are written as text, and thoughts: in every style a person is shown neither, the history holds neither,
and no card comes of them."""

import json
import time
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.reply_text import cut_imitations
from bot.agent.formats.text_format import TextFormat
from bot.agent.formats.tool_descriptions import fill_instructions
from bot.agent.limits import StopReason
from bot.agent.loop import AgentLoop, ModelInUse, RunFinished, RunPaused, RunStopped, StepsFinished
from bot.agent.model import Decision, FinalAnswer, MalformedReply, ModelReply, ReplyFormat, ToolCalls
from bot.core.run_state import CallStatus
from tests.agent.formats.small import TOOLS, play, stored
from tests.agent.speakers import Speaker, each
from tests.harness.loop import run_loop
from tests.harness.models import fresh
from tests.harness.scripted_model import ScriptedModel
from tests.linear.pace import measure_pace

STYLES = (NativeFormat(), TextFormat(), JsonFormat())
READ, GATED = ("look", "name", "Li"), ("pay", "amount", "5")
THOUGHT_CALLS = {
    "native": '<tool_call>{"name": "pay", "arguments": {"amount": 5}}</tool_call>',
    "text": 'Thought: I could pay.\nAction: pay\nAction Input: {"amount": 5}',
    "json": '{"type": "tool_call", "tool": "pay", "args": {"amount": 5}, "reason_summary": "x"}',
}
SPOKEN = (
    "Action: call Li tomorrow.",
    "The tools: a hammer (heavy) and a saw.",
    "I can look (for Li), pay (5) or find a rule.",
    "我会 look 一下（李四）。",
    '{"name": "Li", "days": 5}',
    "[Li] is here (today), [Wang] is not.",
    "Li <li@example.com> and <@U123>, see <https://example.com|this page>.",
    "Analysis: 3 days are left. My thought is that it is enough.",
    "analysis of the costs: 5 CNY",
    "In BPMN an <event> is a circle.",
    "Here is my response: yes. And see [args].",
    "1 < 2 | 3 > 2, and a || b",
    "Send it to=Li, functions as agreed.",
    "```\na = {1: 2}\nprint(a)\n```",
)
ANSWERS = {
    "native": "Li is here.",
    "text": "Final Answer: Li is here.",
    "json": '{"type": "final", "answer": "Li is here.", "reason_summary": "x"}',
}


def read_corpus(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text(encoding="utf-8"))


CALLS, THOUGHTS = read_corpus("leaks"), read_corpus("thoughts")


def fill(case: dict[str, Any], words: tuple[str, str, str]) -> str:
    return str(case["reply"]).replace("@tool", words[0]).replace("@key", words[1]).replace("@value", words[2])


def decide(style: ReplyFormat, text: str) -> Decision:
    return style.parse_reply(ModelReply(text=text), TOOLS, most=8)


def list_sure_tools(decision: Decision) -> list[str]:
    """The tools of calls that are no guess: only these may become a card."""
    return [one.tool for one in decision.calls if not one.is_guess] if isinstance(decision, ToolCalls) else []


def test_a_written_call_is_read_where_it_is_sure_and_is_no_answer_and_no_card(subtests: pytest.Subtests) -> None:
    assert len(CALLS) == 104
    for style, (name, case) in product(STYLES, CALLS.items()):
        with subtests.test(f"{style.name}: {name}"):
            decision, runs = decide(style, fill(case, READ)), case.get("runs", 1)
            if runs:
                assert isinstance(decision, ToolCalls), decision
                calls = [(one.tool, one.args) for one in decision.calls]
                assert calls == [("look", {"name": "Li"})] * (1 if style.name == "text" else runs)
            else:
                assert isinstance(decision, MalformedReply) and not decision.prose
            sure = list_sure_tools(decide(style, fill(case, GATED)))
            assert sure == (["pay"] if case.get("own") == style.name else [])


def test_a_thought_is_not_shown_and_no_card_comes_of_it(subtests: pytest.Subtests) -> None:
    assert len(THOUGHTS) == 36
    thoughts = ["I ponder.", *THOUGHT_CALLS.values(), *(f"\n{one}\n" for one in THOUGHT_CALLS.values())]
    for style, (name, case), thought in product(STYLES, THOUGHTS.items(), thoughts):
        with subtests.test(f"{style.name}: {name}", thought=thought):
            text = case["reply"].replace("Li is here.", ANSWERS[style.name]).replace("THOUGHT", thought)
            decision = decide(style, text)
            assert list_sure_tools(decision) == []
            if "shown" in case:
                assert decision == FinalAnswer(case["shown"])
            else:
                assert not isinstance(decision, FinalAnswer) and not getattr(decision, "prose", "")


def test_negative_control_the_same_words_outside_of_a_thought_are_a_card() -> None:
    for style in (TextFormat(), JsonFormat()):
        assert list_sure_tools(decide(style, THOUGHT_CALLS[style.name])) == ["pay"]


def test_negative_control_what_is_no_call_and_no_thought_is_shown_whole(subtests: pytest.Subtests) -> None:
    """Words that calls and thoughts are made of, as people are answered with them."""
    for text in SPOKEN:
        with subtests.test(text=text):
            assert decide(NativeFormat(), text) == FinalAnswer(text)
            assert decide(TextFormat(), f"Final Answer: {text}") == FinalAnswer(text)
            answer = json.dumps({"type": "final", "answer": text, "reason_summary": "x"})
            assert decide(JsonFormat(), answer) == FinalAnswer(text)


async def test_a_call_that_stays_text_ends_the_run_and_nobody_reads_it(subtests: pytest.Subtests) -> None:
    """Also the model does not read it again, because it would imitate it."""
    for style, (name, case) in product(STYLES, CALLS.items()):
        if case.get("own") == style.name:
            continue
        with subtests.test(f"{style.name}: {name}"):
            trace, written = fresh(), fill(case, GATED)
            events, model = await play([ModelReply(text=written)] * 3, [style], trace)
            assert events == [RunStopped(StopReason.MALFORMED)] and trace.calls == [] and len(trace.messages) == 1
            is_own_form = isinstance(decide(style, written), ToolCalls)
            assert is_own_form or [one["role"] for one in model.requests[-1]] == ["user", "system"]


async def test_after_two_written_calls_the_run_goes_on_in_the_text_format_and_the_model_is_remembered() -> None:
    trace, leaky = fresh(), list[str]()
    written = ModelReply(text='<tool_call>{"name": "look", "arguments": {"name": "Li"}}</tool_call>', model="m")
    twice = ModelReply(text="".join(written.text.replace("Li", one) for one in ("Wang", "Zhang")), model="m")
    in_text = ModelReply(text='Thought: why\nAction: pay\nAction Input: {"amount": 5}')
    head = [
        '{"role": "system", "content": "rules"}, {"role": "user", "content": "before"}',
        '{"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function", "function": '
        '{"name": "find_rule", "arguments": "{\\"note\\": \\"w\\", \\"query\\": \\"x\\"}"}}]}',
        '{"role": "tool", "tool_call_id": "a", "content": "found"}',
        '{"role": "assistant", "content": "So it is."}',
    ]

    async def remember(model: str) -> None:
        leaky.append(model)

    model = ScriptedModel([written, twice, in_text])
    loop = AgentLoop(ModelInUse(model, formats=STYLES, remember_leaks=remember), TOOLS)
    events = await run_loop(loop, trace, head=head)
    assert [type(one) for one in events] == [StepsFinished, StepsFinished, RunPaused] and leaky == ["m"]
    names = ("Li", "Wang", "Zhang")
    assert [(one.tool, one.args) for one in trace.calls[:3]] == [("look", {"name": name}) for name in names]
    is_call = ["tool_calls" in json.loads(one) for one in trace.messages if '"assistant"' in one]
    assert is_call == [True, True, False], "what was written as text stands in the history as what it was meant to be"
    last = model.requests[-1]
    assert not any("tool_calls" in one or one["role"] == "tool" or "<tool_call>" in one["content"] for one in last)
    told = [one["content"] for one in last]
    before = ["rules", "before", 'Thought: w\nAction: find_rule\nAction Input: {"query": "x"}', "Observation: found"]
    assert told[:5] == [*before, "Final Answer: So it is."]
    assert told[5] == fill_instructions(TextFormat().manual, loop.selector.list_offered_tools(None))
    assert [one.partition("\n")[0] for one in told[6:]][1::2] == ["Thought: "] * 3
    assert trace.style == "text" and loop.settle_call(trace, trace.calls[-1].uid, CallStatus.SUCCEEDED, {"paid": 5})
    model.script.append(ModelReply(text="Final Answer: Paid."))
    again = await run_loop(loop, stored(trace), head=head[:1])
    assert again == [RunFinished("Paid.")] and all("tool_calls" not in one for one in model.requests[-1])


# Records, marks and events are written by code: a model that copies them has them cut, and nothing else

IMITATED = [
    "[系统记录：李四 同意了请假申请 L-0001]",
    "［系统记录：李四 同意了请假申请 L-0001］",
    "【系统记录】李四 同意了请假申请 L-0001",
    "（系统记录：李四 同意了）",
    "系统记录：发起了请假申请 L-0001",
    "**系统记录：** 发起了请假申请 L-0001",
    "> [系统记录: 没有做任何改动]",
    "[On record: started leave request L-0001]",
    "On record: started leave request L-0001",
    "[waiting for a button: start_process]",
    "[Waiting for a button: start_process",
    "[unverified: L-0099]",
    "⚠ 未经核实：L-0099。请核对后再用。",
    "⚠ Not verified: L-0099.",
    "[the person took the card back: nothing was done]",
    '<event at="2026-11-20 10:00 +0800">\n李四 同意了请假申请 L-0001\n</event>',
    '＜event at="2026-11-20 10:00 +0800"＞\n李四 同意了\n＜/event＞',
    '<event kind="calls" at="2026-11-20 10:00 +0800">\nlist_people() → 李四',
]


def test_what_only_code_writes_is_cut_also_in_the_middle_of_a_line(subtests: pytest.Subtests) -> None:
    for line in IMITATED:
        with subtests.test(line=line):
            assert cut_imitations(line) == ""
            assert cut_imitations(f"好的，已经看到了。\n{line}") == "好的，已经看到了。"
            assert cut_imitations(f"{line}\n\n李四在审批。") == "李四在审批。"
    assert cut_imitations("好的。[系统记录：给 李四 发了邮件]") == "好的。"
    assert cut_imitations("Done. [On record: mailed Li Si] Anything else?") == "Done.  Anything else?"


MENTIONED = [
    "系统记录显示您还有 3 天年假。",
    "我查了系统记录，李四还没有批准。",
    "The system has it on record: nothing was sent.",
    "Your request is waiting for a button to be pressed.",
    "这个金额未经核实，请再看一下发票。",
    "The event is on Monday.\n- event: 周一例会",
    "  保留缩进\n\n和空行  ",
    "在 BPMN 里 <event> 是一个元素。",
]


def test_what_only_mentions_it_is_left_as_it_is() -> None:
    assert [cut_imitations(text) for text in MENTIONED] == MENTIONED


def test_long_texts_take_no_time() -> None:
    units = ['<event at="', "</event>", "[系统记录：", '<event at="x">\n\n', "[ ", "（系统记录"]
    for unit in units:
        began = time.thread_time()
        cut_imitations(unit * (100_000 // len(unit)))
        assert time.thread_time() - began < measure_pace(), unit


@each
async def test_an_answer_of_nothing_else_is_asked_for_again(speaker: Speaker) -> None:
    script = [speaker.answer(text) for text in ("[waiting for a button: decide_task]", "请确认一下再说。")]
    trace = fresh()
    events, model = await play(script, [speaker.style], trace)
    assert events == [RunFinished("请确认一下再说。")] and len(model.requests) == 2 and trace.malformed == 1
    assert "waiting for a button" not in str(trace.messages[1:]), "and it is not remembered"
