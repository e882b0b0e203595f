"""Replies as models write them, in text and as JSON, and tool calls as endpoints send them, from the body of an answer
to a decision: each is read as what it says, or not at all."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import ID_MAX, NAME, NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.formats.tool_descriptions import fill_instructions
from bot.agent.model import FinalAnswer, MalformedReply, ModelReply, RawToolCall, ToolCalls
from bot.agent.models.chat import ChatCompletionsTransport
from tests.agent.formats.small import MALFORMED, TOOLS, WITHHELD, Expected, act, acts, answer, guess, read_replies, seen
from tools.catalog import TOOLS as CATALOG

LI = {"name": "Li", "reason": "why"}


def call(name: Any = "look", arguments: Any = LI, /, **more: Any) -> dict[str, Any]:
    return {"id": "a", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def message(finish: Any = "stop", /, **parts: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", **parts}, "finish_reason": finish}]}


def called(*calls: Any, finish: Any = "tool_calls", content: Any = None) -> dict[str, Any]:
    return message(finish, content=content, tool_calls=list(calls))


PAY = json.dumps({"amount": 5, "reason": "why"})
CASES: dict[str, tuple[Any, Expected]] = {
    "arguments as text": (called(call("look", json.dumps(LI))), act("look", "why", name="Li")),
    "arguments as an object": (called(call("look", LI)), act("look", "why", name="Li")),
    "arguments in a text in a text": (called(call("look", json.dumps(json.dumps(LI)))), act("look", "why", name="Li")),
    "arguments empty": (called(call("now", "")), act("now", "")),
    "arguments null": (called(call("now", None)), act("now", "")),
    "arguments blank": (called(call("now", " \n")), act("now", "")),
    "arguments a list": (called(call("look", [1])), MALFORMED),
    "arguments a number": (called(call("look", 5)), MALFORMED),
    "arguments null as text": (called(call("look", "null")), MALFORMED),
    "arguments cut off": (called(call("pay", '{"amount": 5')), MALFORMED),
    "arguments cut off in a text": (called(call("look", '{"name": "Li')), MALFORMED),
    "arguments in single quotes": (called(call("look", "{'name': 'Li'}")), guess("look", name="Li")),
    "arguments with a trailing comma": (called(call("pay", '{"amount": 5,}')), guess("pay", amount=5)),
    "a line break in the arguments": (called(call("look", '{"name": "Li\nSi"}')), act("look", name="Li\nSi")),
    "a name twice": (called(call("pay", '{"amount": 5, "amount": 50}')), MALFORMED),
    "not a number": (called(call("pay", '{"amount": NaN}')), MALFORMED),
    "half a pair": (called(call("look", '{"name": "\\ud83d"}')), act("look", name="\ufffd")),
    "deep": (called(call("look", '{"name":' * 999 + "1" + "}" * 999)), MALFORMED),
    "id empty": (called(call(id="")), act("look", name="Li")),
    "id missing": (called({"function": {"name": "look", "arguments": LI}}), act("look", name="Li")),
    "id a number": (called(call(id=5)), act("look", name="Li")),
    "reason no text": (called(call("look", {"name": "Li", "reason": 5})), act("look", "5", name="Li")),
    "unknown tool": (called(call("fly", "{}")), act("fly")),
    "name of spaces": (called(call("look up", "{}")), MALFORMED),
    "name empty": (called(call("", "{}")), MALFORMED),
    "name null": (called(call(None, "{}")), MALFORMED),
    "no function": (called({"id": "a"}), MALFORMED),
    "a call that is no object": (called("look"), MALFORMED),
    "two reads": (
        called(call(), call("look", {"name": "Wang"})),
        acts(act("look", name="Li"), act("look", name="Wang")),
    ),
    "one of them gated": (called(call(), call("pay", PAY)), acts(act("look", name="Li"), act("pay", amount=5))),
    "one of them broken": (called(call(), call("pay", "{")), MALFORMED),
    "too many": (called(*[call()] * 9), MALFORMED),
    "a call and words": (called(call(), content="I look."), act("look", name="Li")),
    "a call, finish stop": (called(call(), finish="stop"), act("look", name="Li")),
    "a call, no finish": (called(call(), finish=None), act("look", name="Li")),
    "a call, cut off": (called(call(), finish="length"), MALFORMED),
    "a call, filtered": (called(call("pay", PAY), finish="content_filter"), WITHHELD),
    "an answer": (message(content="Li is here."), answer("Li is here.")),
    "an answer, cut off": (message("length", content="Li is"), MALFORMED),
    "an answer, cut off, in other words": (message("MAX_TOKENS", content="Li is"), MALFORMED),
    "the same in small letters": (message("max_tokens", content="Li is"), MALFORMED),
    "an answer, filtered, in other words": (message("SAFETY", content="Li is"), WITHHELD),
    "an answer, filtered": (message("content_filter", content="Li is"), WITHHELD),
    "filtered, nothing left": (message("content_filter", content=None), WITHHELD),
    "a refusal": (message(content=None, refusal="I cannot help with that."), answer("I cannot help with that.")),
    "a refusal beside a call": (message(refusal="No.", tool_calls=[call("pay", PAY)]), answer("No.")),
    "a refusal that is none": (message(content="yes", refusal=None), answer("yes")),
    "a refusal of another type": (message(content="yes", refusal={"a": 1}), answer("yes")),
    "empty": (message(content=""), MALFORMED),
    "nothing": (message(), MALFORMED),
    "no choices": ({"choices": []}, MALFORMED),
    "a call written as text": (message(content='<tool_call>{"name": "pay"}</tool_call>'), MALFORMED),
    "a call in another style": (message(content="Action: pay\nAction Input: 5"), MALFORMED),
    "an action without an input": (message(content="Thought: t\nAction: look"), MALFORMED),
    "an action in Chinese": (message(content="行动：look\n行动输入：Li"), MALFORMED),
    "a call with an object in a line": (message(content='look {"name": "Li"}'), guess("look", name="Li")),
    "an object that calls as endpoints write it": (
        message(content='[{"type": "function", "function": {"name": "look", "arguments": "{}"}}]'),
        MALFORMED,
    ),
    "an object that calls, cut off": (message(content='{"tool": "look", "args": {"name": "Li"'), MALFORMED),
    "an object that answers": (message(content='{"type": "final", "answer": "Li is here."}'), answer("Li is here.")),
    "an answer that speaks of actions": (message(content="Next action: call Li."), answer("Next action: call Li.")),
}


def test_an_answer_of_an_endpoint_is_read_as_what_it_says(subtests: pytest.Subtests) -> None:
    for body, expected in CASES.values():
        with subtests.test(body=body):
            reply = ChatCompletionsTransport().parse_response(body, "m", "")
            assert isinstance(reply, ModelReply)
            assert seen(NativeFormat().parse_reply(reply, TOOLS, most=8), expected) == expected


names = st.sampled_from(["look", "pay", "fly", ""]) | st.text(max_size=8)
arguments = st.text(max_size=30) | st.sampled_from(['{"amount": 5}', '{"amount": 5', "{'amount': 5}", "{}", ""])
raw = st.builds(RawToolCall, st.text(max_size=80) | st.just("call_0"), names, arguments)


@given(
    st.lists(raw, max_size=10).map(tuple), st.text(max_size=40), st.sampled_from(["stop", "length", "tool_calls", "x"])
)
def test_whatever_calls_there_are_they_are_taken_as_written_or_not(
    calls: tuple[RawToolCall, ...], text: str, finish: str
) -> None:
    decision = NativeFormat().parse_reply(ModelReply(text=text, calls=calls, finish=finish), TOOLS, most=8)
    if not isinstance(decision, ToolCalls):
        return
    assert finish != "length" and [one.tool for one in decision.calls] == [one.name for one in calls]
    ids = [one.model_id for one in decision.calls]
    assert len(set(ids)) == len(ids) and all(0 < len(one) <= ID_MAX for one in ids)
    assert all(NAME.fullmatch(one.tool) for one in decision.calls)
    json.dumps(NativeFormat().build_assistant_message(decision), ensure_ascii=False).encode()


def test_a_problem_does_not_repeat_what_was_written_at_length() -> None:
    reply = ModelReply(calls=(RawToolCall("a", "x" * 9_000, "{}"),))
    decision = NativeFormat().parse_reply(reply, TOOLS, most=8)
    assert isinstance(decision, MalformedReply) and len(decision.problem) < 200


def test_who_names_a_tool_to_a_person_means_to_call_it(subtests: pytest.Subtests) -> None:
    for said, is_answer in [
        ("接下来应该调用工具start_process。", False),
        ("I need to call end_absence for this.", False),
        ("The next step: `query_todo_tasks`", False),
        ("The mail is out.", True),
        ("The file is called start_process_of_2026.md", True),
        ("我会用 calculate 算一下", True),
    ]:
        with subtests.test(said=said):
            decision = NativeFormat().parse_reply(ModelReply(text=said), CATALOG, most=8)
            assert isinstance(decision, FinalAnswer) is is_answer
            assert is_answer or (isinstance(decision, MalformedReply) and not decision.prose), "however often"


CALL = '{"type": "tool_call", "tool": "look", "args": {"name": "Li"}, "reason_summary": "why"}'
LONG: dict[str, dict[str, tuple[str, Expected]]] = {
    "text": {
        "deep": (f"Action: look\nAction Input: {'[' * 500}{']' * 500}", MALFORMED),
        "long": (f"Thought: {'x' * 500}\nAction: look[Li]", act("look", "x" * 280, name="Li")),
    },
    "json": {
        "array of too many": (f"[{', '.join([CALL] * 9)}]", MALFORMED),
        "deep": ('{"a":' * 300 + "1" + "}" * 300, MALFORMED),
    },
}
"""What is too long for the files `text_replies.toml` and `json_replies.toml`."""


def test_a_reply_is_read_as_what_it_says(subtests: pytest.Subtests) -> None:
    for style, count in ((TextFormat(), 229), (JsonFormat(), 80)):
        cases = read_replies(style.name) | LONG[style.name]
        assert len(cases) == count
        for name, (reply, expected) in cases.items():
            with subtests.test(f"{style.name}: {name}"):
                assert seen(style.parse_reply(ModelReply(text=reply), TOOLS, most=8), expected) == expected


def test_the_json_manual_asks_for_no_array_because_the_endpoint_allows_none() -> None:
    assert "array" not in fill_instructions(JsonFormat().manual, TOOLS)
    assert '"response_format":{"type":"json_object"}' in JsonFormat().build_extra_body(TOOLS)
