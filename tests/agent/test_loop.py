"""The loop alone: a scripted model, small tools, no platform and no Redis."""

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.formats.written_calls import REPLY_MAX
from bot.agent.limits import RunLimits, StopReason
from bot.agent.loop import AgentLoop, ModelInUse, RunFinished, RunPaused, RunStopped
from bot.agent.model import ModelReply, RawToolCall
from bot.agent.recall import list_call_results
from bot.core.cancellation import StopEvent
from bot.core.errors import ModelRejectedError, ModelUnavailableError
from bot.core.run_state import CallStatus, RunState
from tests.harness.loop import Bench, Pay, acts, call, own, play, run_loop
from tests.harness.scripted_model import ScriptedModel
from tools.spec import ReceiptLine, TextRef


async def test_independent_reads_run_together() -> None:
    _, bench, _, _ = await play([acts(call("look", "a", name="1"), call("look", "b", name="2")), ModelReply(text="ok")])
    assert bench.most == 2


async def test_a_malformed_reply_is_told_twice_then_ends_the_run_and_nothing_ran(subtests: pytest.Subtests) -> None:
    for reply in [
        ModelReply(text="  "),
        ModelReply(finish="empty"),
        ModelReply(calls=(RawToolCall("1", "pay", '{"reason": "x", "amount": 5'),), finish="tool_calls"),
        ModelReply(calls=(RawToolCall("1", "pay", '["amount"]'),), finish="tool_calls"),
        ModelReply(calls=(call("pay", amount=5),), finish="length"),
        acts(*(call("look", str(i), name=str(i)) for i in range(100))),
    ]:
        with subtests.test(reply=reply):
            events, bench, trace, model = await play([reply, reply, reply])
            assert events == [RunStopped(StopReason.MALFORMED)]
            assert bench.ran == [] and trace.calls == []
            assert "could not be used" in model.requests[1][-1]["content"]
            assert len(trace.messages) == 1, "what was wrong is never stored"


async def test_a_refused_reply_stands_before_what_was_wrong_with_it_and_is_not_kept() -> None:
    wrong = ModelReply(text="I pay.", calls=(RawToolCall("1", "pay", '{"amount": 5, "amount": 50}'),))
    events, _, trace, model = await play([wrong, ModelReply(text="Which amount?")])
    assert events == [RunFinished("Which amount?")]
    refused, note = model.requests[1][-2:]
    assert refused == {"role": "assistant", "content": "I pay."}, "no call as text, which it would imitate"
    assert "'pay'" in note["content"] and "'amount' is in it twice" in note["content"]
    assert not any("I pay." in message for message in trace.messages)
    wrong = ModelReply("I pay." + "x" * 90_000, calls=(RawToolCall("1", "pay", "{"),))
    _, _, _, model = await play([wrong, ModelReply(text="Well.")])
    assert len(model.requests[1][-2]["content"]) == REPLY_MAX


async def test_what_only_reads_needs_no_note_and_what_has_consequences_does() -> None:
    silent = [RawToolCall("1", "look", '{"name": "Li"}'), RawToolCall("1", "pay", '{"amount": 5}')]
    events, bench, trace, _ = await play([acts(silent[0]), acts(silent[1]), ModelReply(text="Well.")])
    assert bench.ran == ["look Li"] and not any(isinstance(event, RunPaused) for event in events)
    assert "`note` is missing" in trace.messages[-2]
    former = RawToolCall("1", "look", '{"name": "Li", "reason": "why"}')
    _, _, trace, _ = await play([acts(former), ModelReply(text="Well.")])
    assert trace.calls[0].reason == "why" and trace.calls[0].args == {"name": "Li"}


async def test_what_was_not_run_is_said_last_and_plainly() -> None:
    """Of two calls with consequences the second is not run: the model reads that behind the first one's result."""
    wanted = (call("pay", "a", amount=1), call("pay", "b", amount=2), call("look", "c", name="Li"))
    events, bench, trace, model = await play([acts(*wanted)])
    assert isinstance(events[-1], RunPaused) and bench.ran == ["look Li"]
    assert [one.uid[-1] for one in trace.calls] == ["2", "0", "1"], "what reads, what waits, what was not run"
    loop = AgentLoop(ModelInUse(model), bench.tools())
    assert loop.settle_call(trace, events[-1].call.uid, CallStatus.SUCCEEDED, {"paid": 1})
    assert [one["tool_call_id"] for one in own(trace)[2:]] == ["c", "a", "b"]
    assert list_call_results(trace)[1:] == ['{"paid": 1}', own(trace)[-1]["content"]], "each with its own"
    last = json.loads(own(trace)[-1]["content"])
    assert last["error"] == "one_at_a_time" and last["message"].startswith("Not run: ")
    alone = (await play([acts(wanted[0]), ModelReply(text="ok")]))[2]
    assert [one.tool for one in alone.calls] == ["pay"] and "Not run" not in str(alone.messages), "the control"


async def test_five_failures_in_a_row_stop_and_a_success_forgives() -> None:
    wrong = [acts(call("fly", where=str(i))) for i in range(5)]
    events, _, _, _ = await play(wrong)
    assert events[-1] == RunStopped(StopReason.FAILURES)
    events, _, _, _ = await play([*wrong[:4], acts(call("look", name="Li")), *wrong[:4], ModelReply(text="done")])
    assert events[-1] == RunFinished("done")


async def test_steps_calls_and_time_are_limited() -> None:
    endless = [acts(call("look", name=str(i))) for i in range(30)]
    assert (await play(endless))[0][-1] == RunStopped(StopReason.STEPS)
    many = [acts(*(call("look", f"{i}{j}", name=f"{i}{j}") for j in range(7))) for i in range(9)]
    assert (await play(many))[0][-1] == RunStopped(StopReason.CALLS)


@pytest.mark.parametrize("stop", [True, False])
async def test_an_interruption_that_somebody_swallows_comes_again(stop: bool) -> None:
    """Else the loop goes on as if nobody had said *stop*."""
    stopped, began, swallowed = StopEvent(), asyncio.Event(), []

    async def thinks(_: object) -> ModelReply:
        began.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            swallowed.append("once")
            await asyncio.sleep(30)
        return ModelReply(text="late")

    limits = RunLimits(active_s=180 if stop else 0.5)
    loop = AgentLoop(ModelInUse(ScriptedModel([thinks])), Bench().tools(), limits=limits)
    task = asyncio.create_task(run_loop(loop, RunState(), stopped=stopped))
    await began.wait()
    if stop:
        stopped.set()
    assert await asyncio.wait_for(task, 5) == [RunStopped(StopReason.USER if stop else StopReason.TIME)]
    assert swallowed == ["once"] and not task.cancelling()


@pytest.mark.parametrize("name", ["for ever", "Li"])
async def test_what_was_called_outside_before_the_time_was_up_or_in_a_repetition_is_told(name: str) -> None:
    called, other = (ReceiptLine(text=TextRef(key=key)) for key in "xy")
    look, now, *_ = Bench().tools()
    script = [acts(call("look", name="Li")) for _ in range(2)]
    script.append(acts(call("look", "1", name="Li"), call("now", "2", name=name), call("fly", "3")))
    tools = [look, replace(now, called_line=called), replace(now, name="fly", args=Pay, called_line=other)]
    loop = AgentLoop(ModelInUse(ScriptedModel(script)), tools, limits=RunLimits(active_s=1))
    *_, stopped = await asyncio.wait_for(run_loop(loop, RunState()), 30)
    reason = StopReason.REPETITION if name == "Li" else StopReason.TIME
    assert stopped == RunStopped(reason, called_lines=(called,)), "a call that could not be made is none"


async def test_a_model_that_is_down_is_not_an_answer_and_one_that_refuses_is_an_end() -> None:
    with pytest.raises(ModelUnavailableError):
        await play([ModelUnavailableError("gone")])
    assert (await play([ModelRejectedError("HTTP 400")]))[0] == [RunStopped(StopReason.REFUSED, "HTTP 400")]


texts, names = st.text(max_size=40), st.sampled_from(["look", "pay", "fly", ""])
raw_calls = st.builds(RawToolCall, texts, names, texts | st.just('{"reason":"x"}'))
several, finishes = st.lists(raw_calls, max_size=4).map(tuple), st.sampled_from(["stop", "length"])
replies = st.builds(ModelReply, text=texts, calls=several, finish=finishes)


@given(st.lists(replies, max_size=12))
def test_whatever_a_model_says_nothing_gated_runs_and_every_call_has_its_result(script: list[ModelReply]) -> None:
    events, bench, trace, _ = asyncio.run(play(script))
    assert not any(ran.startswith("pay") for ran in bench.ran)
    assert isinstance(events[-1], RunFinished | RunPaused | RunStopped)
    asked = [one["id"] for m in own(trace) for one in m.get("tool_calls", [])]
    told = [m["tool_call_id"] for m in own(trace) if m["role"] == "tool"]
    waiting = 1 if isinstance(events[-1], RunPaused) else 0
    halted = isinstance(events[-1], RunStopped)
    assert halted or len(asked) == len(told) + waiting


async def test_a_run_that_ends_for_repetition_leaves_no_call_without_its_result() -> None:
    again = acts(call("look", "a", name="Li"), call("look", "b", name="Wang"), call("pay", "c", amount=5))
    events, _, trace, _ = await play([acts(call("look", "a", name="Li"))] * 2 + [again])
    assert events[-1] == RunStopped(StopReason.REPETITION)
    asked = [one["id"] for message in own(trace) for one in message.get("tool_calls") or ()]
    assert sorted(asked) == sorted(m["tool_call_id"] for m in own(trace) if m["role"] == "tool")
    assert not [one for one in trace.calls if one.status is CallStatus.AWAITING]
