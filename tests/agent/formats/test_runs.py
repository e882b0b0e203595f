"""A whole run in each style: questions and observations, a gated call, a restart in the middle, a change of style."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.formats.tool_descriptions import fill_instructions
from bot.agent.limits import StopReason
from bot.agent.loop import AgentLoop, ModelInUse, RunFinished, RunPaused, RunStopped, StepsFinished
from bot.agent.model import ModelReply, ReplyFormat
from bot.core.run_state import CallStatus, RunState
from tests.agent.formats.small import TOOLS, play, stored
from tests.agent.speakers import SPEAKERS, Speaker, each
from tests.harness.models import fresh
from tests.harness.scripted_model import ScriptedModel

SEEN = re.compile(r"^\W*(observation|观察)", re.IGNORECASE | re.MULTILINE)


def own(trace: RunState) -> list[dict[str, Any]]:
    """What the model is sent back of its own."""
    return [one for one in map(json.loads, trace.messages) if one["role"] == "assistant"]


@each
async def test_a_gated_call_waits_and_is_settled_in_another_process(speaker: Speaker) -> None:
    trace = fresh()
    script = [speaker.call("look", {"name": "Li"}), speaker.call("pay", {"amount": 5})]
    events, _ = await play(script, [speaker.style], trace)
    assert isinstance(events[-1], RunPaused) and events[-1].proposal.args == {"amount": 5}
    trace = stored(trace)
    loop = AgentLoop(ModelInUse(ScriptedModel([]), formats=[speaker.style]), TOOLS)
    assert loop.settle_call(trace, trace.calls[-1].uid, CallStatus.SUCCEEDED, {"paid": 5})
    assert not loop.settle_call(trace, trace.calls[-1].uid, CallStatus.SUCCEEDED, {"paid": 5})
    events, model = await play([speaker.answer("Paid.")], [speaker.style], trace)
    assert events == [RunFinished("Paid.")] and '{"paid": 5}' in model.requests[0][-1]["content"]


@each
@pytest.mark.parametrize("after", [1, 2])
async def test_a_run_that_is_taken_over_ends_as_the_one_that_was_not(speaker: Speaker, after: int) -> None:
    script = [speaker.call("look", {"name": "Li"}), speaker.call("now", {}), speaker.answer("So.")]
    whole, broken = fresh(), fresh()
    _, first = await play(script, [speaker.style], whole)
    await play(script, [speaker.style], broken, most=after)
    broken = stored(broken)
    events, second = await play(script[after:], [speaker.style], broken)
    assert events[-1] == RunFinished("So.") and second.requests[-1] == first.requests[-1]
    assert broken.messages == whole.messages and broken.calls == whole.calls


@each
async def test_a_run_ends_in_the_style_it_was_begun_in(speaker: Speaker) -> None:
    trace = fresh()
    await play([speaker.call("look", {"name": "Li"})], [speaker.style], trace, most=1)
    others = [one.style for one in SPEAKERS if one is not speaker]
    events, _ = await play([speaker.call("now", {}), speaker.answer("So.")], [*others, speaker.style], trace)
    assert events[-1] == RunFinished("So.") and trace.style == speaker.style.name and trace.malformed == 0


@each
async def test_a_gated_call_that_has_to_be_guessed_is_asked_for_again(speaker: Speaker) -> None:
    trace, wrong = fresh(), speaker.guess("pay", {"amount": 5})
    events, model = await play([wrong, speaker.call("pay", {"amount": 5})], [speaker.style], trace)
    assert [type(one) for one in events] == [RunPaused] and trace.malformed == 1
    assert "could not be used" in model.requests[1][-1]["content"] and "pay" in model.requests[1][-1]["content"]
    assert (await play([wrong] * 3, [speaker.style], fresh()))[0] == [RunStopped(StopReason.MALFORMED)]


async def test_a_read_that_has_to_be_guessed_is_served() -> None:
    guessed = ModelReply(text="Thought: t\nAction: Look\nAction Input: {'name': 'Li',}")
    events, _ = await play([guessed], [TextFormat()], fresh(), most=1)
    assert isinstance(events[0], StepsFinished) and events[0].steps[0].call.args == {"name": "Li"}


@pytest.mark.parametrize("style", [TextFormat(), JsonFormat()], ids=lambda style: style.name)
async def test_words_alone_are_told_once_and_then_the_answer(style: ReplyFormat) -> None:
    trace = fresh()
    events, model = await play([ModelReply(text="Li is here."), ModelReply(text="I said Li is here.")], [style], trace)
    assert events == [RunFinished("I said Li is here.")] and trace.malformed == 1 and len(model.requests) == 2


@each
async def test_what_was_filtered_or_cut_off_does_nothing_and_a_refusal_is_told(speaker: Speaker) -> None:
    for tool, args in (("pay", {"amount": 5}), ("look", {"name": "Li"})):
        trace, reply = fresh(), speaker.call(tool, args)
        events, model = await play([replace(reply, finish="content_filter")], [speaker.style], trace)
        assert events == [RunStopped(StopReason.FILTERED)] and len(model.requests) == 1
        events, _ = await play([replace(reply, finish="length")] * 3, [speaker.style], trace)
        assert events == [RunStopped(StopReason.MALFORMED)] and trace.calls == []
    events, _ = await play([ModelReply(refusal="I cannot help with that.")], [speaker.style], fresh())
    assert events == [RunFinished("I cannot help with that.")]


async def test_reads_of_an_array_run_together_and_the_gated_call_waits() -> None:
    calls = [
        {"type": "tool_call", "tool": tool, "args": args, "reason_summary": "why"}
        for tool, args in (("look", {"name": "Li"}), ("pay", {"amount": 5}), ("pay", {"amount": 6}))
    ]
    trace = fresh()
    events, _ = await play([ModelReply(text=json.dumps(calls))], [JsonFormat()], trace)
    assert isinstance(events[-1], RunPaused) and events[-1].proposal.args == {"amount": 5}
    told = [json.loads(one)["content"] for one in trace.messages[2:]]
    assert "done" in told[0] and "one_at_a_time" in told[1], "which observation is which is numbered"
    assert [one.split(":")[0] for one in told] == ["Observation 1", "Observation 3"]


@pytest.mark.parametrize("style", [TextFormat(), JsonFormat()], ids=lambda style: style.name)
def test_the_manual_shows_every_tool_and_how_to_call_it(style: ReplyFormat) -> None:
    manual = fill_instructions(style.manual, TOOLS)
    for tool in TOOLS:
        assert f"- {tool.name} {tool.effect_tag} {tool.purpose}" in manual
        assert all(f"{name}: " in manual or f"{name}?: " in manual for name in tool.args.model_fields)
    assert "people: list of string" in manual and "page?: integer" in manual, "what may be left out says so"
    assert manual.endswith("\n"), "what follows stands apart from the last tool"
    assert style.build_extra_body(()) == "" or json.loads(f"{{{style.build_extra_body(())}}}")
    assert len(json.loads(f"{{{TextFormat().build_extra_body(())}}}")["stop"]) <= 4
    assert "json_object" in JsonFormat().build_extra_body(())
