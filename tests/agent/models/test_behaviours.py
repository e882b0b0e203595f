"""A run through the loop at every kind of endpoint: it comes to its answer, and what was learned is asked for once.
Some chat templates take no message of the system behind the first, or no two of one side in a row: later words of the
system are told all the same."""

import json
from collections.abc import Sequence

import pytest

from bot.agent.limits import StopReason
from bot.agent.loop import CALL_AGAIN_NOTE, AgentLoop, ModelInUse, RunFinished, RunPaused, RunStopped
from bot.agent.model import ModelReply
from bot.agent.models.fallback import FallbackModel
from bot.agent.models.model_profile import Api, ModelProfile
from bot.agent.models.openai_model import open_model
from bot.agent.models.probe import choose_format_name, find_call_problem
from bot.agent.models.transport import SYSTEM_MARK
from bot.core.errors import ModelFailureCause, ModelUnavailableError
from bot.core.run_state import CallStatus
from tests.agent.models.standins import MARK, TEMPLATES, StandIn, served, standing_in
from tests.harness.corpus import corpus
from tests.harness.loop import acts, call
from tests.harness.models import LEARNED, Deaf, Notes, fresh, run
from tests.harness.scripted_model import Scripted, ScriptedModel

STEPS: list[Scripted] = [
    acts(call("look", name="Li")),
    acts(call("look", "a", name="Wang"), call("now", "b", name="Zhao")),
    ModelReply(text="done"),
]
RAN = ["look Li", "look Wang", "look Zhao"]
CALL = {"id": "e1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
EARLIER = [
    {"role": "user", "content": "before"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "e1", "content": '{"seen": 1}'},
    {"role": "assistant", "content": "earlier"},
]
"""Calls are remembered in no endpoint's form: what it wants back with its own calls is not there any more."""
TALK = [
    {"role": "user", "content": "before"},
    *({"role": "assistant", "content": one} for one in ("waits", "answered")),
]
HEAD = [
    json.dumps({"role": "system", "content": "RULES"}),
    json.dumps({"role": "user", "content": "<facts x>"}),
    ",".join(map(json.dumps, TALK)),
    json.dumps({"role": "system", "content": "Today is 2026-11-22"}),
    json.dumps({"role": "user", "content": "<cards x>"}),
]
ACTION = ModelReply(text='Thought: x\nAction: look\nAction Input: {"name": "Li"}')
NOTED: dict[str, list[Scripted]] = {
    "native": [acts(call("look", name="Li")), acts(call("look", "b", name="Li")), ModelReply(), STEPS[-1]],
    "text": [ACTION, ACTION, ModelReply(), ModelReply(text="Final Answer: done")],
}
"""A call that is repeated, a reply that cannot be used, the answer; by style."""
LEARNED_OF_TEMPLATE = {
    "first_system": ModelProfile(one_system=True),
    "first_system_or_broken": ModelProfile(one_system=True),
    "alternating": ModelProfile(one_system=True, alternates=True),
    "message_order": ModelProfile(one_system=True, alternates=True),
    "no_system": ModelProfile(one_system=True, no_system=True, alternates=True),
}


async def run_twice(
    behaviour: str, script: list[Scripted], ran: list[str], head: Sequence[str], style: str = ""
) -> tuple[StandIn, ModelProfile]:
    """In two processes, the second of which learns nothing anew. Returns what was learned, too."""
    notes, asked = Notes(), list[int]()
    async with standing_in(behaviour, ScriptedModel([*script, *script])) as serving:
        for _ in range(2):
            trace = fresh()
            trace.style = style
            async with open_model(serving.url, "key", "m", retries=0, memory=notes) as model:
                events, bench = await run(model, trace, head)
            assert events[-1] == RunFinished("done") and sorted(bench.ran) == sorted(ran)
            asked.append(len(serving.asked))
    more = 2 if behaviour == "other_key" else 0  # what it does not take back is found out with each
    assert asked[1] - asked[0] == len(script) + more
    return serving, notes.lessons


@corpus(("behaviour", "head"), *((one, head) for one in LEARNED for head in ([], [",".join(map(json.dumps, EARLIER))])))
async def test_a_run_comes_to_its_answer_and_what_was_learned_is_shared(behaviour: str, head: list[str]) -> None:
    _, learned = await run_twice(behaviour, STEPS, RAN, head)
    assert learned == LEARNED[behaviour]


@corpus(
    ("template", "style"),
    *((one, style) for style in NOTED for one in LEARNED_OF_TEMPLATE if (one, style) != ("no_system", "native")),
)
async def test_where_a_template_takes_no_notes_all_of_them_arrive(template: str, style: str) -> None:
    """A note before the run, one about a repeated call, one about a reply that could not be used."""
    serving, learned = await run_twice(template, NOTED[style], ["look Li"], HEAD, style)
    # Results are the user's in text: none has a role of its own.
    is_mild = (template, style) == ("message_order", "text")
    assert learned == (ModelProfile(one_system=True) if is_mild else LEARNED_OF_TEMPLATE[template])
    told = json.dumps(serving.asked[-1][1]["messages"], ensure_ascii=False)
    for word in ("RULES", "<facts x>", "before", "waits", "answered", "<cards x>", "hello"):
        assert word in told
    for note in ("Today is 2026-11-22", CALL_AGAIN_NOTE, "Your last reply could not be used"):
        assert f"{SYSTEM_MARK} {note}" in told


async def test_where_all_is_taken_notes_stay_the_systems_and_nothing_is_merged() -> None:
    async with served("thinking", [*NOTED["native"]]) as (serving, model):
        await run(model, fresh(), HEAD)
    sent = serving.asked[-1][1]["messages"]
    notes = [one["content"] for one in sent if one["role"] == "system"]
    assert [one[:9] for one in notes] == ["RULES", "Today is ", CALL_AGAIN_NOTE[:9], "Your last"]
    assert SYSTEM_MARK not in json.dumps(sent)


async def test_negative_control_without_what_was_learned_each_refuses(subtests: pytest.Subtests) -> None:
    """The stand-ins are as strict as they say: a plain second step ends in an error."""
    for behaviour in ("only_responses", "thinking", "signed", "wrapped", "stream_only", *TEMPLATES):
        with subtests.test(behaviour=behaviour):
            async with served(behaviour, [*STEPS], api="chat") as (_, model):
                model = Deaf(client=model.client, name=model.name, retries=0, owner=model.owner)
                if behaviour == "first_system_or_broken":
                    with pytest.raises(ModelUnavailableError):
                        await run(model, fresh(), HEAD)
                    continue
                events, _ = await run(model, fresh(), HEAD if behaviour in TEMPLATES else ())
            assert isinstance(events[-1], RunStopped) and events[-1].reason is StopReason.REFUSED


async def test_output_items_go_back_word_for_word_and_in_their_order() -> None:
    async with served("paired", STEPS) as (serving, model):
        await run(model, fresh())
    last = serving.asked[-1][1]["input"]
    assert [one.get("type", one.get("role")) for one in last] == [
        *("user", "reasoning", "function_call", "function_call_output"),
        *("reasoning", "function_call", "function_call", "function_call_output", "function_call_output"),
    ]
    assert [one["id"] for one in last if "id" in one] == [id for pair in serving.pairs for id in pair]


@pytest.mark.parametrize("change", ["key", "name", "url"])
async def test_what_one_endpoint_put_out_goes_to_no_other(change: str) -> None:
    """Another key, another model, another address, as after a restart or at the fallback: the run goes on without."""
    trace = fresh()
    first = ScriptedModel([STEPS[0], acts(call("pay", amount=1))])
    async with standing_in("paired", first) as serving, open_model(serving.url, "key", "m", retries=0) as model:
        [*_, paused], bench = await run(model, trace)
        assert isinstance(paused, RunPaused) and trace.provider_details
    loop = AgentLoop(ModelInUse(ScriptedModel([])), bench.tools())
    loop.settle_call(trace, paused.call.uid, CallStatus.SUCCEEDED, {"done": True})
    async with standing_in("only_responses", ScriptedModel([ModelReply(text="done")])) as serving:
        url = serving.url if change != "url" else serving.url.replace("127.0.0.1", "localhost")
        about = {"key": ("other", "m"), "name": ("key", "n"), "url": ("key", "m")}[change]
        async with open_model(url, *about, retries=0, api="responses") as model:
            events, _ = await run(model, trace)
    assert events[-1] == RunFinished("done")
    sent = json.dumps(serving.asked)
    assert 'encrypted_content": "x' not in sent and "rs_" not in sent and "fc_" not in sent and "kept" not in sent


async def test_chat_completions_never_see_what_responses_kept() -> None:
    trace = fresh()
    async with served("paired", [STEPS[0]]) as (serving, model):
        await run(model, trace)  # ends in `done`, the script's past
    del trace.messages[-1:]
    async with served("thinking", [ModelReply(text="done")]) as (serving, model):
        assert (await run(model, trace))[0][-1] == RunFinished("done")
    filled = [one["reasoning_content"] for one in serving.asked[-1][1]["messages"] if one.get("tool_calls")]
    assert filled == [""], "where the true one is not known an empty one is taken"
    assert "kept" not in json.dumps(serving.asked)


async def test_an_error_inside_a_200_is_asked_again() -> None:
    async with standing_in("relay", ScriptedModel([*STEPS])) as serving:
        async with open_model(serving.url, "key", "m", retries=1) as model:
            model.draw_jitter = lambda least, most: 0.0
            events, bench = await run(model, fresh())
        assert events[-1] == RunFinished("done") and bench.ran == RAN
        assert len(serving.asked) == 6
        async with open_model(serving.url, "key", "m", retries=0) as model:
            with pytest.raises(ModelUnavailableError) as down:
                await run(model, fresh())
        assert down.value.cause is ModelFailureCause.BUSY


@pytest.mark.parametrize("behaviour", ["cut", "empty"])
async def test_what_is_cut_off_or_empty_is_never_done_and_asked_for_again(behaviour: str) -> None:
    async with served(behaviour, STEPS) as (_, model):
        trace = fresh()
        events, bench = await run(model, trace)
    assert events[-1] == RunFinished("done") and bench.ran == RAN and trace.malformed == 1


async def test_a_prompt_that_a_filter_keeps_back_is_withheld() -> None:
    async with served("filtered", [*STEPS], retries=3) as (serving, model):
        assert (await run(model, fresh(MARK)))[0] == [RunStopped(StopReason.FILTERED)]
        assert len(serving.asked) == 1
        assert (await run(model, fresh()))[0][-1] == RunFinished("done")


async def test_what_is_used_up_is_not_asked_again_and_the_second_model_goes_on() -> None:
    async with served("used_up", [], retries=3) as (serving, model):
        events, bench = await run(FallbackModel(first=model, second=ScriptedModel([*STEPS])), fresh())
        assert events[-1] == RunFinished("done") and bench.ran == RAN and len(serving.asked) == 1
        with pytest.raises(ModelUnavailableError) as down:
            await run(model, fresh())
        assert down.value.cause is ModelFailureCause.QUOTA and len(serving.asked) == 2


async def test_a_server_without_tools_is_spoken_to_in_text() -> None:
    said: list[Scripted] = [ModelReply(text="hello"), ACTION, ModelReply(text="Final Answer: done")]
    async with served("no_tools", said) as (_, model):
        assert choose_format_name("auto", await find_call_problem(model)) == "text"
        trace = fresh()
        trace.style = "text"
        events, bench = await run(model, trace)
    assert events[-1] == RunFinished("done") and bench.ran == ["look Li"]


@pytest.mark.parametrize("behaviour", ["thinking", "signed", "paired"])
async def test_the_probe_sees_what_has_to_come_back(behaviour: str) -> None:
    """One step would not: the first is taken everywhere."""
    echo = acts(call("echo", word="hello"))
    async with served(behaviour, [echo, ModelReply(text="hello")]) as (serving, model):
        assert not await find_call_problem(model) and model.profile == LEARNED[behaviour]
    assert serving.held == []


async def test_a_fixed_transport_is_not_left() -> None:
    async with standing_in("no_responses", ScriptedModel([*STEPS])) as serving:
        async with open_model(serving.url, "key", "m", retries=0, api="responses") as model:
            with pytest.raises(ModelUnavailableError) as down:
                await run(model, fresh())
        assert down.value.cause is ModelFailureCause.ADDRESS and [api for api, _ in serving.asked] == ["responses"]
        async with open_model(serving.url, "key", "m", retries=0, api="chat") as model:
            events, _ = await run(model, fresh())
            assert events[-1] == RunFinished("done") and model.profile.effort == "none"


async def test_the_effort_of_the_setting_is_sent_in_each_transports_words() -> None:
    apis: tuple[Api, ...] = ("chat", "responses")
    for api in apis:
        async with served("empty", [ModelReply(text="done")], retries=2, api=api, effort="low") as (serving, model):
            await model.request_reply(['{"role":"user","content":"hi"}'], "", timeout_s=5)
        body = serving.asked[0][1]
        assert body.get("reasoning_effort") == ("low" if api == "chat" else None)
        assert body.get("reasoning") == ({"effort": "low"} if api == "responses" else None)
