"""Whatever a model writes: no exception, and no call that was not asked for.

What may be called is found out here in another way than the styles read: the letters of the tool's name and of every
argument stand in the reply, behind a label or in an object, before any observation.

A hundred replies each with every run of the suite. For long, and with how many there were at the end:

    HYPOTHESIS_PROFILE=long FUZZ_EXAMPLES=100000 pytest tests/agent/formats --timeout 0 --hypothesis-show-statistics
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.model import Decision, FinalAnswer, ModelReply, ReplyFormat, ToolCalls
from tests.agent.formats.small import TOOLS
from tools.spec import Gate

FRAGMENTS = [
    *("Thought:", "Action:", "Action Input:", "Observation:", "Final Answer:", "Question:", "Answer:"),
    *("**Action:**", "Action 2:", "### Action", "action :", "`Action`:", "Action Input 2:", "**Observation 1:**"),
    *("思考：", "行动：", "行动输入：", "观察：", "最终答案：", "Observation", "### Observation", "Observation - "),
    *("pay", "look", "tag", "fly", "None", "`pay`", "Finish[yes]", "finish[", "the tool", "Li Si", "中文"),
    *("pay[5]", "look[Li]", "pay(amount=5)", "look(name='Li'", "pay[", "]", ")", "look[Li] pay[5]"),
    *('{"amount": 5}', '{"name": "Li"}', '{"name": "Li', "{'name': 'Li',}", '["Li"]', "{", "}", '"', "'", "5"),
    *('{"action": "pay", "action_input": "5"}', '{"type": "tool_call", "tool": "pay", "args": {"amount": 5}}'),
    *('{"type": "final", "answer": "yes"}', '{"tool": "look", "args": "Li"}', "[", ",", '"args":', '"tool": "pay"'),
    *('<tool_call>{"name": "pay", "arguments": {"amount": 5}}</tool_call>', "pay(amount=5)", 'pay {"amount": 5}'),
    *("<tool_call>", "</tool_call>", "[TOOL_CALLS]", '<invoke name="look">', "<name>Li</name>", "</invoke>"),
    *("<|channel|>", "<|channel|>final<|message|>", "assistantfinal", " to=functions.look ", "functions.look:0"),
    *("<brainstorm>", "</brainstorm>"),
    *("```", "```json", "<think>", "</think>", "\n", "\n", "\n", "\n\n", " ", "# ", "- ", "> ", "// no", "\\"),
]
written = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=24).map("".join)
lines = st.lists(st.sampled_from(FRAGMENTS), max_size=16).map("\n".join)
replies = written | lines | st.text(max_size=80)
THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
SEEN = re.compile(
    r"^[ \t]*[#*_` \t]*(?:observations?|观察)[ \t\d]*[*_`]*[ \t]*(?:[:：=→{\[]|[-–—] |$)", re.MULTILINE | re.IGNORECASE
)
"""The word alone on its line, or with a result behind it; in a sentence it is a word like any other."""
READS = {tool.name for tool in TOOLS if tool.gate is Gate.NONE}
ASKED = re.compile(r"^[ \t]*[#*_` \t]*(?:action|行动)", re.MULTILINE | re.IGNORECASE)


def letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    elif value is not None:
        yield str(value)


def before_observations(text: str) -> str:
    """At most this may be acted on."""
    plain = THOUGHT.sub("", text)
    end = SEEN.search(plain)
    return plain[: end.start()] if end else plain


def check(style: ReplyFormat, decision: Decision, text: str) -> None:
    before = before_observations(text)
    if isinstance(decision, FinalAnswer):
        assert letters(decision.text) in letters(before)
        return
    if not isinstance(decision, ToolCalls):
        return
    asked = ASKED.search(before)
    begins = asked.start() if asked and style.name == "text" else 0
    for one in decision.calls:
        assert letters(one.tool) in letters(before[begins:])
        for leaf in leaves(one.args):
            assert letters(leaf) in letters(before), (leaf, before)
    is_read = all(one.is_guess and one.tool in READS for one in decision.calls)
    assert asked is not None or "{" in before or is_read, "somebody asked for it"
    told = style.build_assistant_message(decision)
    assert SEEN.search(told["content"]) is None, "no history holds an observation that nobody made"
    json.dumps(told, ensure_ascii=False).encode()


@given(replies)
def test_text_and_json_never_call_what_was_not_asked_for(text: str) -> None:
    for style in (TextFormat(), JsonFormat()):
        check(style, style.parse_reply(ModelReply(text=text), TOOLS, most=8), text)


@given(replies)
def test_native_makes_no_more_than_a_guess_of_a_read_from_what_is_only_written(text: str) -> None:
    decision = NativeFormat().parse_reply(ModelReply(text=text), TOOLS, most=8)
    if isinstance(decision, ToolCalls):
        assert all(one.is_guess and one.tool in READS for one in decision.calls)
        assert all(letters(leaf) in letters(text) for one in decision.calls for leaf in (one.tool, *leaves(one.args)))
    if isinstance(decision, FinalAnswer):
        rest = iter(letters(text))
        assert all(letter in rest for letter in letters(decision.text)), "what it thought aloud is left out"


@given(replies)
def test_what_stands_behind_an_observation_changes_nothing(text: str) -> None:
    """Whatever is made up after it: the same decision, or none."""
    for style in (TextFormat(), JsonFormat()):
        alone = style.parse_reply(ModelReply(text=text), TOOLS, most=8)
        pays = '{"type": "tool_call", "tool": "pay", "args": {"amount": 70707}}'
        for more in ("he is here", "x\nAction: pay[70707]", f"x\n{pays}"):
            followed = style.parse_reply(ModelReply(text=f"{text}\nObservation: {more}"), TOOLS, most=8)
            assert followed == alone or not isinstance(followed, ToolCalls)
            assert "70707" not in str(followed) or "70707" in text


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
TAG = re.compile(r"</?(think|thinking|thought|reasoning)>", re.IGNORECASE)


arguments = st.dictionaries(st.sampled_from(["name", "a", "页"]), values, max_size=3)


@given(st.sampled_from(TOOLS), arguments, st.text(max_size=300))
def test_a_call_told_back_is_read_as_the_same_call(tool: Any, args: dict[str, Any], reason: str) -> None:
    if TAG.search(reason) or TAG.search(str(args)):
        return
    for style in (TextFormat(), JsonFormat()):
        content = json.dumps({"type": "tool_call", "tool": tool.name, "args": args, "reason_summary": reason})
        act = JsonFormat().parse_reply(ModelReply(text=content), TOOLS, most=8)
        assert isinstance(act, ToolCalls)
        again = style.parse_reply(ModelReply(text=style.build_assistant_message(act)["content"]), TOOLS, most=8)
        assert isinstance(again, ToolCalls)
        [first], [second] = act.calls, again.calls
        assert (first.tool, first.args, first.is_guess) == (second.tool, second.args, second.is_guess)
        assert " ".join(first.reason.split()).strip("*_ ").startswith(second.reason.strip("*_ "))
