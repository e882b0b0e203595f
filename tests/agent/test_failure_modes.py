"""The ways in which a ReAct agent goes wrong, each played by a scripted model in every style, and what stops it.

`MODES` is the table: what the model does, which guards stop it, and what its person is told. It is played through the
whole bot, with the real tools; below it each guard is tried alone, at its limits, with a negative control.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, cast

import pytest
from pydantic import BaseModel
from redis.asyncio import Redis

from bot.agent.limits import RunLimits, StopReason
from bot.agent.loop import (
    AgentLoop,
    AnswerSources,
    ModelInUse,
    RunEvent,
    RunFinished,
    RunPaused,
    RunStopped,
    StepsFinished,
)
from bot.agent.model import ModelReply, ReplyFormat
from bot.agent.tool_executor import OBSERVATION_MAX, ToolExecutor, format_bounded_json, propose_call
from bot.conversation.endings import render_receipt
from bot.core.errors import ModelRejectedError, StoreUnavailableError
from bot.core.history_entries import HistoryMessage
from bot.core.run_state import CallStatus, RunState
from bot.features.grounding.feature import UNVERIFIED_PREFIX, AnswerChecker
from tests.agent.speakers import DIALECTS, INVENTED, Speaker, each, each_dialect, seen, where_several
from tests.harness.loop import ZHANG, Bench, Look, own, run_loop
from tests.harness.loop import play as played
from tests.harness.memory_bot import Bot
from tests.harness.scripted_model import Scripted, ScriptedModel
from tests.harness.tools import build_tool
from tests.stories.script import MAIL
from tools.catalog import TOOLS
from tools.spec import Gate, Person, TextRef, ToolOutcome
from tools.tool import Tool, ToolContext

LI, WANG = Person(id="U2", name="李四", names=("Li Si",)), Person(id="U3", name="王五", names=("Wang Wu",))


# All of them, through the whole bot


@dataclass(frozen=True)
class Mode:
    """A way to go wrong."""

    name: str
    guards: tuple[Callable[..., object], ...]
    """What stops it, in the order in which it is met."""
    script: Callable[[Speaker], Sequence[Scripted]]
    told: str
    """What the person reads."""


def look(speaker: Speaker) -> ModelReply:
    return speaker.call("list_people", {"name": "李四"})


STEPS, PARSE = RunLimits.require_step_allowed, ReplyFormat.parse_reply
STOPPED = (
    Mode("endless loop: the same call", (RunLimits.count_repeated_call,),
         lambda one: [look(one)] * 9, "重复同样的步骤"),
    Mode("endless loop: calls that take turns", (RunLimits.count_reply_cycle,),
         lambda one: [look(one), one.call("list_processes", {})] * 9, "重复同样的步骤"),
    Mode("endless loop: always something new", (STEPS,),
         lambda one: [one.call("calculate", {"expression": f"{n} + 1"}) for n in range(30)], "允许的全部步骤"),
    Mode("wrong tool: there is none of that name", (ToolExecutor.execute_call, STEPS),
         lambda one: [one.call("fly", {"to": f"{n}"}) for n in range(9)], "连续几步都失败"),
    Mode("wrong tool: with wrong arguments", (ToolExecutor.execute_call, STEPS),
         lambda one: [one.call("calculate", {"sum": f"{n}"}) for n in range(9)], "连续几步都失败"),
    Mode("replies that cannot be used", (PARSE, AgentLoop._request_usable_decision),
         lambda one: [ModelReply(text="")] * 9, "回复多次无法使用"),
    Mode("a risky call that is cut off", (PARSE,),
         lambda one: [replace(one.call("send_email", MAIL), finish="length")] * 9, "回复多次无法使用"),
    Mode("a risky call that can only be guessed", (AgentLoop._request_decision,),
         lambda one: [one.guess("send_email", MAIL)] * 9, "回复多次无法使用"),
)  # fmt: skip
"""The run ends with a stop, which can be tried again."""
HELD_UP = (
    Mode("an observation without end", (format_bounded_json,),
         lambda one: [one.call("dump", {}), one.answer("有很多。")], "有很多。"),
    Mode("early final: an answer that rests on nothing", (AnswerChecker.check_answer,),
         lambda one: [one.answer("L-0099 由王五审批，800 元。")] * 2, "未经核实：L-0099 · 800 元 · 王五"),
    Mode("invented result: beside its own call", (PARSE, AnswerChecker.check_answer),
         lambda one: [look(one), *[one.answer("是 4711 元。")] * 2], "未经核实：4711 元"),
    Mode("an answer that claims an effect", (render_receipt,),
         lambda one: [one.answer("邮件已发送。")], "系统记录：没有做任何改动"),
    Mode("risky action: without a button", (propose_call,),
         lambda one: [one.call("send_email", MAIL)], "给李四发这封邮件？"),
)  # fmt: skip
"""It ends with an answer, or with a card."""
MODES = (*STOPPED, *HELD_UP)


class Nothing(BaseModel):
    pass


async def dump(use: ToolContext, args: Nothing) -> ToolOutcome:
    return ToolOutcome(data={"everything": "x" * 50_000}, summary=TextRef(key="result.people", params={"n": 1}))


DUMP = build_tool("dump", Nothing, dump)


async def lab_of(redis: Redis, speaker: Speaker, script: Sequence[Scripted]) -> Bot:
    bot = Bot(redis, script, tools=[*TOOLS, DUMP], formats=[speaker.style])
    await bot.send("帮我看看，再给李四发封邮件")
    return bot


def all_told(bot: Bot) -> str:
    posts = [one.post for one in bot.chat.posts]
    titles = [str(post.card.title) for post in posts if post.card]
    return "\n".join([*(f"{post.text}\n{post.receipt}" for post in posts), *titles])


async def play_mode(redis: Redis, mode: Mode, speaker: Speaker) -> None:
    await redis.flushall()
    bot = await lab_of(redis, speaker, mode.script(speaker))
    assert mode.told in all_told(bot), (mode.name, all_told(bot))
    assert bot.mailer.mails == [] and bool(bot.chat.buttons()) == (mode in STOPPED)
    assert INVENTED not in all_told(bot)
    for run in bot.ended_runs:
        assert "没有做任何改动" in all_told(bot) and INVENTED not in str(run.state.messages)
        assert all(len(message) < 2 * OBSERVATION_MAX for message in run.state.messages)


@pytest.mark.sample
async def test_a_failure_mode_is_stopped_and_its_person_is_told(redis: Redis, subtests: pytest.Subtests) -> None:
    """Each mode once, the ways of writing taken in turn."""
    assert len(MODES) == 13 >= len(DIALECTS)
    for mode, speaker in zip(MODES, cycle(DIALECTS), strict=False):
        with subtests.test(mode.name, speaker=speaker.name):
            await play_mode(redis, mode, speaker)


@pytest.mark.slow
@each_dialect
async def test_every_failure_mode_is_stopped_however_it_is_written(redis: Redis, speaker: Speaker) -> None:
    for mode in MODES:
        await play_mode(redis, mode, speaker)


@each_dialect
async def test_negative_control_with_its_button_the_risky_action_is_done_once(redis: Redis, speaker: Speaker) -> None:
    bot = await lab_of(redis, speaker, [speaker.call("send_email", MAIL), speaker.answer("邮件已发送。")])
    await bot.press(bot.chat.cards()[0], "send")
    assert len(bot.mailer.mails) == 1 and "没有做任何改动" not in all_told(bot)


# One guard after another


async def everyone() -> Sequence[Person]:
    return (ZHANG, LI, WANG)


async def waits_for_li(context: ToolContext, numbers: Sequence[str]) -> Sequence[dict[str, Any]]:
    """The engine's own words."""
    known = {"request": "L-0012", "status": "waiting", "waits_for": ["李四"], "summary": "500 CNY", "amount": 500}
    return [known for one in numbers if one == "L-0012"]


def grounds(*history: str, facts: Sequence[str] = ()) -> dict[str, Any]:
    check = AnswerChecker(everyone, waits_for_li).check_answer
    return {"sources": AnswerSources(facts=facts, history=[*map(HistoryMessage, history)]), "check_answer": check}


def dump_message(role: str, text: str) -> str:
    return json.dumps({"role": role, "content": text}, ensure_ascii=False)


def asked(text: str) -> RunState:
    return RunState(messages=[dump_message("user", text)])


async def play(
    speaker: Speaker, script: Sequence[Scripted], **more: Any
) -> tuple[list[RunEvent], Bench, RunState, ScriptedModel]:
    return await played(script, styles=[speaker.style], **more)


def looks(speaker: Speaker, *names: str) -> list[ModelReply]:
    return [speaker.call("look", {"name": name}) for name in names]


def told(trace: RunState) -> list[dict[str, Any]]:
    """The observations."""
    return seen(own(trace))


# An endless loop


@each
@pytest.mark.parametrize(("names", "steps"), [("ab" * 9, 4), ("abc" * 9, 6), ("xabab", 5), ("aabab", 4), ("aaa", 3)])
async def test_a_model_that_goes_in_circles_is_stopped(speaker: Speaker, names: str, steps: int) -> None:
    """The same call is told at its second time; by the end of the second turn it is over."""
    events, bench, trace, _ = await play(speaker, looks(speaker, *names))
    assert events[-1] == RunStopped(StopReason.REPETITION)
    assert trace.steps == steps and "same call before" in json.dumps(own(trace))
    assert len(bench.ran) == len(set(names[: trace.steps])), "and nothing was looked up twice"


@each
@pytest.mark.parametrize("names", ["abcd", "abac", "abca", "abcdabx", "aab"])
async def test_negative_control_what_does_not_go_in_circles_is_let_be(speaker: Speaker, names: str) -> None:
    events, _, _, _ = await play(speaker, [*looks(speaker, *names), speaker.answer("fine")])
    assert events[-1] == RunFinished("fine")


@each
async def test_turns_with_other_results_are_no_circle(speaker: Speaker) -> None:
    """Waiting for something that moves: the same calls, and every time there is something new."""
    numbers = iter(range(99))

    async def count(use: ToolContext, args: Look) -> ToolOutcome:
        return ToolOutcome(data={"n": next(numbers)}, summary=TextRef(key="x"))

    tools = [replace(one, run=count) if one.name == "now" else one for one in Bench().tools()]
    script: list[Scripted] = [*(speaker.call("now", {"name": n}) for n in "ababab"), speaker.answer("fine")]
    loop = AgentLoop(ModelInUse(ScriptedModel(script), formats=[speaker.style]), tools)
    assert (await run_loop(loop, asked("x")))[-1] == RunFinished("fine")


@each
async def test_a_run_may_cost_so_many_tokens_and_no_more(speaker: Speaker) -> None:
    limits = RunLimits(tokens=1_000)
    dear = [replace(one, tokens_in=400, tokens_out=100, tokens_cached=300) for one in looks(speaker, *"abcd")]
    events, bench, trace, model = await play(speaker, dear, limits=limits)
    assert events[-1] == RunStopped(StopReason.TOKENS) and bench.ran == ["look a", "look b"]
    assert (trace.tokens_in, trace.tokens_cached, trace.tokens_out, len(model.requests)) == (800, 600, 200, 2)
    events, _, _, model = await play(speaker, [ModelReply(text="", tokens_in=2_000)] * 3, limits=limits)
    assert events == [RunStopped(StopReason.TOKENS)] and len(model.requests) == 1, "nor is it spent on mending"
    events, _, _, _ = await play(speaker, [replace(speaker.answer("here"), tokens_in=9_999)], limits=limits)
    assert events == [RunFinished("here")], "an answer that took the last token is still given"


# A wrong tool, a broken one, one that hangs


@where_several
async def test_a_failing_a_broken_and_a_good_read_each_give_one_observation(speaker: Speaker) -> None:
    looks_up = [("look", {"name": name}) for name in ("nobody", "broken", "Li")]
    reply = speaker.calls([*looks_up, ("fly", {"to": "x"}), ("pay", {"amount": "five"})])
    events, _, trace, model = await play(speaker, [reply, speaker.answer("one of them worked")])
    assert [type(one) for one in events] == [StepsFinished, RunFinished], "and no person is asked"
    nobody, broken, li, fly, pay = told(trace)
    assert li == {"found": "Li"} and nobody["do"] == "Ask who is meant."
    assert "Ask who is meant" not in json.dumps(model.requests[0]), "advice comes with its error"
    errors = ["unknown_person", "tool_failed", "unknown_tool", "bad_arguments"]
    assert [one["error"] for one in (nobody, broken, fly, pay)] == errors
    assert [one.status.value for one in trace.calls] == ["failed", "failed", "succeeded", "failed", "failed"]


@each
async def test_what_fails_can_be_mended_and_an_outage_is_no_observation(speaker: Speaker) -> None:
    events, _, trace, _ = await play(speaker, [*looks(speaker, "nobody", "broken", "Li"), speaker.answer("found")])
    assert events[-1] == RunFinished("found") and trace.failures == 0
    assert ["error" in one for one in told(trace)] == [True, True, False]
    with pytest.raises(StoreUnavailableError):  # the message waits for Redis
        await play(speaker, looks(speaker, "lost"))


@each
async def test_a_tool_that_hangs_takes_the_time_of_the_run_and_no_more(speaker: Speaker) -> None:
    beside = [("look", {"name": "Li"})] if speaker.several else []
    reply = speaker.calls([("look", {"name": "for ever"}), *beside])
    events, _, trace, _ = await asyncio.wait_for(play(speaker, [reply], limits=RunLimits(active_s=0.05)), 5)
    assert events == [RunStopped(StopReason.TIME)] and trace.calls == []


# Reading what is known


@where_several
async def test_the_same_read_runs_once_and_its_result_is_told_again(speaker: Speaker) -> None:
    twice = speaker.calls([("look", {"name": "Li"})] * 2)
    _, bench, trace, _ = await play(speaker, [twice, speaker.answer("ok")])
    assert bench.ran == ["look Li"], "also in one reply"
    assert told(trace) == [{"found": "Li"}] * 2 and "same call before" in trace.messages[-2]


@each
async def test_a_failure_and_what_says_so_are_not_kept_and_an_effect_empties_what_is_known(speaker: Speaker) -> None:
    _, bench, _, _ = await play(speaker, [*looks(speaker, "nobody", "nobody"), speaker.answer("ok")])
    assert bench.ran == ["look nobody"] * 2
    now = speaker.call("now", {"name": "x"})
    script = [*looks(speaker, "Li"), now, now, *looks(speaker, "Li"), speaker.answer("ok")]
    _, bench, _, _ = await play(speaker, script)
    assert bench.ran == ["look Li", "look x", "look x", "look Li"]
    _, before, trace, _ = await play(speaker, [*looks(speaker, "Li"), speaker.call("pay", {"amount": 5})])
    loop = AgentLoop(ModelInUse(ScriptedModel([]), formats=[speaker.style]), before.tools())
    assert loop.settle_call(trace, trace.calls[-1].uid, CallStatus.SUCCEEDED, {"paid": 5})
    _, after, _, _ = await play(speaker, [*looks(speaker, "Li"), speaker.answer("ok")], trace=trace)
    assert before.ran == ["look Li"] and after.ran == ["look Li"]


# An observation without end


@each
async def test_an_observation_without_end_is_cut_and_said_to_be(speaker: Speaker) -> None:
    _, _, trace, _ = await play(speaker, [*looks(speaker, "x" * 50_000), speaker.answer("ok")])
    observation = str(own(trace)[-2]["content"])
    assert len(observation) < OBSERVATION_MAX + 100
    assert observation.endswith("[cut: ask for less, or the next page]")


# An answer before its time, an invented result

MADE_UP = "L-0099 已提交，金额 800 元，由王五审批，从 2026-12-24 开始。"


@each
async def test_an_invented_result_is_told_once_and_looked_up(speaker: Speaker) -> None:
    found = "L-0012：500 元，李四审批。"
    script = [speaker.answer(MADE_UP), ModelReply("CALL"), *looks(speaker, "L-0012, 500, 李四"), speaker.answer(found)]
    events, _, trace, model = await play(speaker, script, trace=asked("我的报销呢？"), **grounds())
    assert events[-1] == RunFinished(found)
    for asked_again in model.requests[1:3]:
        doubt = asked_again[-1]["content"]
        assert all(one in doubt for one in ("L-0099", "800 元", "王五", "2026-12-24")) and "Not supported" in doubt
    assert len(model.requests) == 4 and "Not supported" not in json.dumps(own(trace)), "told, and never stored"
    assert (trace.claims, trace.supported_claims) == (3, 3)


@each
async def test_what_is_said_all_the_same_goes_out_marked_after_one_doubt(speaker: Speaker) -> None:
    script = [speaker.answer(MADE_UP), speaker.answer("就是 L-0099，500 元。")]
    events, _, trace, model = await play(speaker, script, trace=asked("报销 500 元"), **grounds())
    assert events == [RunFinished("就是 L-0099，500 元。", unverified=("L-0099",))] and len(model.requests) == 2
    assert (trace.claims, trace.supported_claims) == (2, 1)
    made_up = speaker.answer(MADE_UP)
    script = [made_up, ModelReply("CALL"), *looks(speaker, "nothing"), made_up, speaker.answer("never asked for")]
    events, _, _, model = await play(speaker, script, trace=asked("hi"), **grounds())
    assert isinstance(events[-1], RunFinished) and len(events[-1].unverified) == 4 and len(model.requests) == 4


WRONG = ("L-0012 已通过。", "L-0012 has been rejected.", "L-0012 是 900 元。", "L-0012: 500 USD.")
"""L-0012 waits, and is about 500 CNY."""


@each
async def test_what_the_engine_knows_better_is_held_up_once_and_the_request_is_short(speaker: Speaker) -> None:
    long_ago, true = dump_message("user", "900 元 " * 5_000), "L-0012（500 元）还在等李四。"
    for wrong in WRONG:
        script = [speaker.answer(wrong), ModelReply(true)]
        events, _, trace, model = await play(speaker, script, trace=asked("L-0012 呢？"), **grounds(long_ago))
        assert events == [RunFinished(true)], "negative control: what is true is not"
        system, user = model.requests[1]
        assert [system["role"], user["role"]] == ["system", "user"], "neither rules nor history nor tools"
        assert len(json.dumps(model.requests[1], ensure_ascii=False)) < 2_000
        known = "status waiting; waits_for 李四; summary 500 CNY; amount 500"
        assert wrong in user["content"] and known in user["content"]
        assert [one.outcome for one in trace.model_calls] == ["answer", "correction"]
        script = [speaker.answer(wrong), ModelReply(wrong), speaker.answer("never asked for")]
        events, _, _, model = await play(speaker, script, trace=asked("L-0012 呢？"), **grounds())
        assert isinstance(events[-1], RunFinished) and len(model.requests) == 2
        assert events[-1].text == wrong and len(events[-1].unverified) == 1


@each
@pytest.mark.parametrize("then", [ModelRejectedError("no"), ModelReply(text=""), ModelReply(text="x", finish="length")])
async def test_if_it_can_say_no_more_its_first_answer_goes_out_marked(speaker: Speaker, then: Any) -> None:
    script = [speaker.answer(MADE_UP), *[then] * 3]
    events, _, _, _ = await play(speaker, script, trace=asked("hi"), **grounds())
    assert isinstance(events[-1], RunFinished) and "L-0099" in events[-1].unverified


@each
async def test_negative_control_without_any_ground_to_look_at_names_pass(speaker: Speaker) -> None:
    """What finds them is the directory."""
    events, _, _, _ = await play(speaker, [speaker.answer("由王五审批")], trace=asked("hi"))
    assert events == [RunFinished("由王五审批")]


ALL = "L-0099，800 元，王五，2026-12-24"
GROUNDS = {
    "the person": (grounds(dump_message("user", ALL)), 0),
    "an earlier answer": (grounds(dump_message("assistant", "L-0099，800 元，王五，12月24日\n[On record: …]")), 0),
    "the system": (grounds(facts=["L-0099 ¥800 Wang Wu 2026/12/24"]), 0),
    "an answer that was marked": (grounds(dump_message("assistant", f"{ALL}\n{UNVERIFIED_PREFIX}L-0099]")), 4),
    "nothing": (grounds(), 4),
}


@each
@pytest.mark.parametrize("ground", GROUNDS)
async def test_history_and_facts_support_an_answer_unless_it_was_marked(speaker: Speaker, ground: str) -> None:
    more, unsupported = GROUNDS[ground]
    events, _, _, model = await play(speaker, [speaker.answer(MADE_UP)] * 2, trace=asked("?"), **more)
    assert isinstance(events[-1], RunFinished) and len(events[-1].unverified) == unsupported
    assert len(model.requests) == (2 if unsupported else 1), "what is supported is not asked about"


@each
async def test_what_the_model_wrote_into_a_call_supports_nothing_until_a_card_has_shown_it(speaker: Speaker) -> None:
    made_up = speaker.answer(MADE_UP)
    script = [speaker.call("fly", {"to": "L-0099, 800 CNY, Wang Wu, 2026-12-24"}), made_up, made_up]
    events, _, _, _ = await play(speaker, script, trace=asked("?"), **grounds())
    assert isinstance(events[-1], RunFinished) and len(events[-1].unverified) == 4
    _, bench, trace, _ = await play(speaker, [speaker.call("pay", {"amount": 800})], trace=asked("?"))
    trace.calls[-1] = replace(trace.calls[-1], approval="A00")
    loop = AgentLoop(ModelInUse(ScriptedModel([]), formats=[speaker.style]), bench.tools())
    loop.settle_call(trace, trace.calls[-1].uid, CallStatus.SUCCEEDED, {})
    events, _, _, _ = await play(speaker, [speaker.answer("800 元")], trace=trace, **grounds())
    assert events == [RunFinished("800 元")]


@each
async def test_it_may_call_a_tool_instead(speaker: Speaker) -> None:
    script = [speaker.answer("L-0099 is paid: 800 CNY."), ModelReply("`CALL`."), speaker.call("pay", {"amount": 5})]
    events, bench, _, model = await play(speaker, script, trace=asked("pay 5 CNY"), **grounds())
    assert isinstance(events[-1], RunPaused) and bench.ran == [] and len(model.requests) == 3
    assert "Not supported" in model.requests[2][-1]["content"], "a whole step, and it knows what was wrong"


# A risky action


@each
async def test_negative_control_without_its_gate_it_would_run(speaker: Speaker) -> None:
    bench = Bench()
    ungated = [replace(one, gate=Gate.NONE, effect_place=None, prepare=None) for one in bench.tools()]
    model = ScriptedModel([speaker.call("pay", {"amount": 5}), speaker.answer("paid")])
    loop = AgentLoop(ModelInUse(model, formats=[speaker.style]), cast(Sequence[Tool], ungated))
    events = await run_loop(loop, asked("x"))
    assert isinstance(events[-1], RunFinished) and bench.ran == ["pay 5"]
