"""The ways in which a ReAct agent goes wrong, each played by a scripted model, and where each of them ends: an endless
loop, a wrong tool, an observation without end, an answer before its time, an invented result, a risky action."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from bot.cancel import Stop
from bot.errors import ModelRefused, StoreDown
from bot.react.grounds import UNVERIFIED, Grounds
from bot.react.guards import Limits, Reason
from bot.react.hands import OBSERVATION_MAX
from bot.react.loop import Event, Final, Loop, Paused, Stepped, Stopped
from bot.react.model import RawCall, Reply, ScriptedModel
from bot.trace import CallStatus, Trace
from tests.react.test_loop import ZHANG, Bench, Look, acts, call, own, play
from tools.spec import Caller, Gate, Note, Outcome, Person
from tools.tool import Desk, Tool, Use

LI, WANG = Person(id="U2", name="李四", names=("Li Si",)), Person(id="U3", name="王五", names=("Wang Wu",))


async def everyone() -> Sequence[Person]:
    return (ZHANG, LI, WANG)


def grounds(*history: str, facts: Sequence[str] = ()) -> Grounds:
    return Grounds(facts, history, everyone)


def asked(text: str) -> Trace:
    return Trace(messages=[json.dumps({"role": "user", "content": text}, ensure_ascii=False)])


def looks(*names: str) -> list[Reply]:
    return [acts(call("look", name=name)) for name in names]


# An endless loop


@pytest.mark.parametrize(("names", "steps"), [("ab" * 9, 4), ("abc" * 9, 6), ("xabab", 5), ("aabab", 4), ("aaa", 3)])
async def test_a_model_that_goes_in_circles_is_stopped(names: str, steps: int) -> None:
    """The same call is told at its second time; by the end of the second turn it is over."""
    events, bench, trace, _ = await play(looks(*names))
    assert events[-1] == Stopped(Reason.REPETITION)
    assert trace.steps == steps and "same call before" in json.dumps(own(trace))
    assert len(bench.ran) == len(set(names[: trace.steps])), "and nothing was looked up twice"


@pytest.mark.parametrize("names", ["abcd", "abac", "abca", "abcdabx", "aab"])
async def test_negative_control_what_does_not_go_in_circles_is_let_be(names: str) -> None:
    events, _, _, _ = await play([*looks(*names), Reply(text="fine")])
    assert events[-1] == Final("fine")


async def test_turns_with_other_results_are_no_circle() -> None:
    """Waiting for something that moves: the same calls, and every time there is something new."""
    seen = iter(range(99))

    async def count(use: Use, args: Look) -> Outcome:
        return Outcome(data={"n": next(seen)}, note=Note(key="x"))

    tools = [replace(one, run=count) if one.name == "now" else one for one in Bench().tools()]
    loop = Loop(ScriptedModel([acts(call("now", name=n)) for n in "ababab"] + [Reply(text="fine")]), tools)
    use = Use(cast(Desk, None), Caller(ZHANG), datetime(2026, 11, 20, tzinfo=UTC))
    events = [event async for event in loop.run("R00", [], asked("x"), use, Stop())]
    assert events[-1] == Final("fine")


async def test_a_run_may_cost_so_many_tokens_and_no_more() -> None:
    dear = [replace(reply, tokens_in=400, tokens_out=100, tokens_cached=300) for reply in looks("a", "b", "c", "d")]
    events, bench, trace, model = await play(dear, limits=Limits(tokens=1_000))
    assert events[-1] == Stopped(Reason.TOKENS) and bench.ran == ["look a", "look b"] and len(model.asked) == 2
    assert (trace.tokens_in, trace.tokens_cached, trace.tokens_out) == (800, 600, 200)
    events, _, _, model = await play([Reply(text="", tokens_in=2_000)] * 3, limits=Limits(tokens=1_000))
    assert events == [Stopped(Reason.TOKENS)] and len(model.asked) == 1, "nor is it spent on mending"


async def test_an_answer_that_took_the_last_token_is_still_given() -> None:
    events, _, _, _ = await play([Reply(text="here", tokens_in=9_999)], limits=Limits(tokens=1_000))
    assert events == [Final("here")]


# A wrong tool, a broken one, one that hangs


async def test_a_failing_a_broken_and_a_good_read_each_give_one_observation() -> None:
    reply = acts(*(call("look", name, name=name) for name in ("nobody", "broken", "Li")), call("fly", "x"))
    events, _, trace, _ = await play([reply, Reply(text="one of them worked")])
    assert [type(one) for one in events] == [Stepped, Final]
    told = {one["tool_call_id"]: json.loads(one["content"]) for one in own(trace) if one["role"] == "tool"}
    assert told["Li"] == {"found": "Li"}
    assert [told[n]["error"] for n in ("nobody", "broken", "x")] == ["unknown_person", "tool_failed", "unknown_tool"]
    assert [one.status.value for one in trace.calls] == ["failed", "failed", "succeeded", "failed"]


async def test_an_outage_is_no_observation() -> None:
    """The message waits for Redis, as it always did."""
    with pytest.raises(StoreDown):
        await play(looks("lost"))


async def test_a_tool_that_hangs_takes_the_time_of_the_run_and_no_more() -> None:
    reply = acts(call("look", "a", name="for ever"), call("look", "b", name="Li"))
    events, _, trace, _ = await asyncio.wait_for(play([reply], limits=Limits(active_s=0.05)), 5)
    assert events == [Stopped(Reason.TIME)] and trace.calls == []


# Reading what is known


async def test_the_same_read_runs_once_and_its_result_is_told_again() -> None:
    twice = acts(call("look", "a", name="Li"), call("look", "b", name="Li"))
    _, bench, trace, _ = await play([twice, Reply(text="ok")])
    assert bench.ran == ["look Li"], "also in one reply"
    told = [one["content"] for one in own(trace) if one["role"] == "tool"]
    assert "found" in told[0] and "found" in told[1] and "same call before" in told[1]


async def test_a_failure_is_not_kept() -> None:
    _, bench, _, _ = await play([*looks("nobody", "nobody"), Reply(text="ok")])
    assert bench.ran == ["look nobody"] * 2


async def test_what_says_so_on_its_card_is_not_kept_and_empties_what_is() -> None:
    script = [*looks("Li"), acts(call("now", name="x")), acts(call("now", name="x")), *looks("Li"), Reply(text="ok")]
    _, bench, _, _ = await play(script)
    assert bench.ran == ["look Li", "look x", "look x", "look Li"]


async def test_an_effect_in_between_empties_what_is_known() -> None:
    _, before, trace, _ = await play([*looks("Li"), acts(call("pay", "p", amount=5))])
    loop = Loop(ScriptedModel([]), before.tools())
    assert loop.settle(trace, trace.calls[-1].uid, CallStatus.SUCCEEDED, {"paid": 5})
    _, after, _, _ = await play([*looks("Li"), Reply(text="ok")], trace=trace)
    assert before.ran == ["look Li"] and after.ran == ["look Li"]


# An observation without end


async def test_an_observation_without_end_is_cut_and_said_to_be() -> None:
    _, _, trace, _ = await play([*looks("x" * 50_000), Reply(text="ok")])
    [told] = [one["content"] for one in own(trace) if one["role"] == "tool"]
    assert len(told) < OBSERVATION_MAX + 100 and told.endswith("[cut: ask for less, or the next page]")


# An answer before its time, an invented result

INVENTED = Reply(text="L-0099 已提交，金额 800 元，由王五审批，从 2026-12-24 开始。")


async def test_an_invented_result_is_told_once_and_looked_up() -> None:
    script = [INVENTED, acts(call("look", name="L-0012, 500, 李四")), Reply(text="L-0012：500 元，李四审批。")]
    events, _, trace, model = await play(script, trace=asked("我的报销呢？"), grounds=grounds())
    assert events[-1] == Final("L-0012：500 元，李四审批。")
    doubt = model.asked[1][-1]["content"]
    assert all(one in doubt for one in ("L-0099", "800 元", "王五", "2026-12-24")) and "Not supported" in doubt
    assert len(model.asked) == 3 and "Not supported" not in json.dumps(own(trace)), "told, and never stored"
    assert (trace.claimed, trace.supported, trace.evidence) == (3, 3, 1.0)


async def test_what_is_said_all_the_same_goes_out_marked() -> None:
    still = Reply(text="就是 L-0099，500 元。")
    events, _, trace, model = await play([INVENTED, still], trace=asked("报销 500 元"), grounds=grounds())
    assert events == [Final("就是 L-0099，500 元。", unverified=("L-0099",))] and len(model.asked) == 2
    assert (trace.claimed, trace.supported, trace.evidence) == (2, 1, 0.5)


async def test_the_model_is_doubted_once_a_run() -> None:
    script = [INVENTED, *looks("nothing"), INVENTED, Reply(text="never asked for")]
    events, _, _, model = await play(script, trace=asked("hi"), grounds=grounds())
    last = events[-1]
    assert isinstance(last, Final) and len(last.unverified) == 4 and len(model.asked) == 3


@pytest.mark.parametrize("then", [ModelRefused("no"), Reply(text=""), Reply(text="x", finish="length")])
async def test_if_it_can_say_no_more_its_first_answer_goes_out_marked(then: Any) -> None:
    events, _, _, _ = await play([INVENTED, *[then] * 3], trace=asked("hi"), grounds=grounds())
    assert isinstance(events[-1], Final) and "L-0099" in events[-1].unverified


async def test_negative_control_without_any_ground_to_look_at_names_pass() -> None:
    """What finds them is the directory."""
    events, _, _, _ = await play([Reply(text="由王五审批")], trace=asked("hi"), grounds=Grounds())
    assert events == [Final("由王五审批")]


@pytest.mark.parametrize(
    "ground",
    [
        grounds('{"role": "user", "content": "L-0099，800 元，王五，2026-12-24"}'),
        grounds('{"role": "assistant", "content": "L-0099，800 元，王五，12月24日\\n[On record: …]"}'),
        grounds(facts=["L-0099 ¥800 Wang Wu 2026/12/24"]),
    ],
    ids=["the person", "an earlier answer", "the system"],
)
async def test_history_and_facts_support_an_answer(ground: Grounds) -> None:
    events, _, _, _ = await play([INVENTED], trace=asked("?"), grounds=ground)
    assert isinstance(events[-1], Final) and events[-1].unverified == ()


async def test_an_answer_that_was_marked_supports_no_later_one() -> None:
    marked = json.dumps({"role": "assistant", "content": f"L-0099，800 元，王五，2026-12-24\n{UNVERIFIED}L-0099]"})
    events, _, _, _ = await play([INVENTED, INVENTED], trace=asked("?"), grounds=grounds(marked))
    assert isinstance(events[-1], Final) and len(events[-1].unverified) == 4


async def test_what_the_model_wrote_into_a_call_supports_nothing_until_a_card_has_shown_it() -> None:
    script = [acts(call("fly", to="L-0099, 800 CNY, Wang Wu, 2026-12-24")), INVENTED, INVENTED]
    events, _, _, _ = await play(script, trace=asked("?"), grounds=grounds())
    assert isinstance(events[-1], Final) and len(events[-1].unverified) == 4
    _, bench, trace, _ = await play([acts(call("pay", "p", amount=800))], trace=asked("?"))
    trace.calls[-1] = replace(trace.calls[-1], approval="A00")
    Loop(ScriptedModel([]), bench.tools()).settle(trace, trace.calls[-1].uid, CallStatus.SUCCEEDED, {})
    events, _, _, _ = await play([Reply(text="800 元")], trace=trace, grounds=grounds())
    assert events == [Final("800 元")]


async def test_an_effect_that_never_was_is_noticed() -> None:
    events, _, _, _ = await play([Reply(text="邮件已发送。")], trace=asked("发邮件"), grounds=grounds())
    assert events == [Final("邮件已发送。", overclaims=True)]
    events, _, _, _ = await play([Reply(text="邮件还没有发送。")], trace=asked("发邮件"), grounds=grounds())
    assert events == [Final("邮件还没有发送。")]


# A risky action


async def test_whatever_is_gated_waits_for_its_button() -> None:
    events, bench, _, _ = await play([acts(call("pay", amount=5, confirmed=True, approved_by="U2"))])
    assert isinstance(events[-1], Paused) and bench.ran == []


async def test_negative_control_without_its_gate_it_would_run() -> None:
    bench = Bench()
    ungated = [replace(one, gate=Gate.NONE, prepare=None) for one in bench.tools()]
    loop = Loop(ScriptedModel([acts(call("pay", amount=5)), Reply(text="paid")]), cast(Sequence[Tool], ungated))
    use = Use(cast(Desk, None), Caller(ZHANG), datetime(2026, 11, 20, tzinfo=UTC))
    events: list[Event] = [one async for one in loop.run("R00", [], asked("x"), use, Stop())]
    assert isinstance(events[-1], Final) and bench.ran == ["pay 5"]


async def test_a_call_that_was_cut_off_is_never_made() -> None:
    cut = Reply(calls=(RawCall("1", "pay", '{"reason": "x", "amount": 5'),), finish="length")
    events, bench, _, _ = await play([cut] * 3)
    assert events == [Stopped(Reason.MALFORMED)] and bench.ran == []
