"""Chat templates that take no message of the system behind the first, or no two of one side in a row: it is learned
from the endpoint's own refusal, and what the system says later is told all the same."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from bot.agent.limits import StopReason
from bot.agent.loop import CALL_AGAIN_NOTE, RunFinished, RunStopped
from bot.agent.model import ModelReply
from bot.agent.models.client import ErrorResponse
from bot.agent.models.model_profile import (
    PROFILE_RECORD,
    ModelProfile,
    RefusedRequest,
    choose_initial_profile,
    learn_from_error,
)
from bot.agent.models.openai_model import open_model
from bot.agent.models.transport import SYSTEM_MARK
from bot.core.errors import ModelUnavailableError
from tests.agent.models.standins import TEMPLATES, served, standing_in
from tests.harness.loop import acts, call
from tests.harness.models import Deaf, Notes, fresh, run
from tests.harness.requests import written
from tests.harness.scripted_model import Scripted, ScriptedModel

HEAD = [
    json.dumps({"role": "system", "content": "RULES"}),
    json.dumps({"role": "user", "content": "<facts x>"}),
    ",".join(
        json.dumps({"role": role, "content": content})
        for role, content in (("user", "before"), ("assistant", "waits"), ("assistant", "answered"))
    ),
    json.dumps({"role": "system", "content": "Today is 2026-11-22"}),
    json.dumps({"role": "user", "content": "<cards x>"}),
]
NATIVE: list[Scripted] = [
    acts(call("look", name="Li")),
    acts(call("look", "b", name="Li")),
    ModelReply(),
    ModelReply(text="done"),
]
ACTION = 'Thought: x\nAction: look\nAction Input: {"name": "Li"}'
TEXT: list[Scripted] = [
    ModelReply(text=ACTION),
    ModelReply(text=ACTION),
    ModelReply(),
    ModelReply(text="Final Answer: done"),
]
LEARNED = {
    "first_system": ModelProfile(one_system=True),
    "first_system_or_broken": ModelProfile(one_system=True),
    "alternating": ModelProfile(one_system=True, alternates=True),
    "message_order": ModelProfile(one_system=True, alternates=True),
    "no_system": ModelProfile(one_system=True, no_system=True, alternates=True),
}
SENT = RefusedRequest(frozenset())
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CASES = [*((one, "native") for one in LEARNED if one != "no_system"), *((one, "text") for one in LEARNED)]


async def test_a_run_comes_to_its_answer_and_all_notes_arrive(subtests: pytest.Subtests) -> None:
    """A note before the run, one about a repeated call, one about a reply that could not be used."""
    for template, style in CASES:
        with subtests.test(template=template):
            notes, script = Notes(), NATIVE if style == "native" else TEXT
            async with standing_in(template, ScriptedModel([*script, *script])) as serving:
                for again in (False, True):
                    trace, before = fresh(), len(serving.asked)
                    trace.style = style
                    async with open_model(serving.url, "key", "m", retries=0, memory=notes) as model:
                        events, bench = await run(model, trace, HEAD)
                    assert events[-1] == RunFinished("done") and bench.ran == ["look Li"]
                    assert len(serving.asked) - before == len(script) or not again, (
                        "another process learns nothing anew"
                    )
            in_text = (
                template == "message_order" and style == "text"
            )  # results are the user's: none has a role of its own
            assert notes.lessons == (ModelProfile(one_system=True) if in_text else LEARNED[template])
            told = json.dumps(serving.asked[-1][1]["messages"], ensure_ascii=False)
            for word in ("RULES", "<facts x>", "before", "waits", "answered", "<cards x>", "hello"):
                assert word in told
            for note in ("Today is 2026-11-22", CALL_AGAIN_NOTE, "Your last reply could not be used"):
                assert f"{SYSTEM_MARK} {note}" in told


@pytest.mark.parametrize("template", TEMPLATES)
async def test_negative_control_without_the_lesson_each_refuses(template: str) -> None:
    async with served(template, [*TEXT], api="chat") as (_, model):
        model = Deaf(client=model.client, name=model.name, retries=0, owner=model.owner)
        trace = fresh()
        trace.style = "text"
        if template == "first_system_or_broken":
            with pytest.raises(ModelUnavailableError):
                await run(model, trace, HEAD)
            return
        events, _ = await run(model, trace, HEAD)
    assert isinstance(events[-1], RunStopped) and events[-1].reason is StopReason.REFUSED


async def test_where_all_is_taken_notes_stay_the_system_s_and_nothing_is_merged() -> None:
    async with served("thinking", [*NATIVE]) as (serving, model):
        await run(model, fresh(), HEAD)
    sent = serving.asked[-1][1]["messages"]
    notes = [one["content"] for one in sent if one["role"] == "system"]
    assert [one[:9] for one in notes] == ["RULES", "Today is ", CALL_AGAIN_NOTE[:9], "Your last"]
    assert SYSTEM_MARK not in json.dumps(sent)


@pytest.mark.parametrize(
    "words",
    [
        "Only user and assistant roles are supported, with the exception of an initial optional system message!",
        "Only user, assistant and tool roles are supported!",
        "litellm.BadRequestError: MistralException - Unexpected role 'system' after role 'assistant'",
    ],
)
def test_words_of_servers_that_are_known(words: str) -> None:
    new = learn_from_error(ModelProfile(), ErrorResponse(400, words), SENT)
    assert new is not None and new.one_system and not new.no_system
    worse = learn_from_error(new, ErrorResponse(400, words), SENT)
    assert worse is not None and worse.no_system, "refused in the same words once more: it takes none"
    assert PROFILE_RECORD.validate_json(PROFILE_RECORD.dump_json(worse, by_alias=True)) == worse
    assert any("system" in one for one in worse.summary_lines)


@pytest.mark.parametrize(
    "words", ["Invalid role 'system' at index 3.", "messages[4].role: expected 'user' or 'assistant', got 'system'"]
)
def test_of_words_that_nobody_knows_one_thing_is_tried_after_the_other(words: str) -> None:
    lessons, tried = ModelProfile(), list[str]()
    while (new := learn_from_error(lessons, ErrorResponse(400, words), SENT)) is not None:
        lessons = new
        tried.append("; ".join(lessons.summary_lines))
    merged = "neighbouring messages merged"
    assert tried == ["one system message", f"one system message; {merged}", f"no system message; {merged}"]
    other = ErrorResponse(400, "messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
    assert learn_from_error(ModelProfile(), other, SENT) is None, "the control: it is about something else"


@pytest.mark.parametrize("name", ["openai/gpt-oss-120b", "gpt-oss:20b", "GPT-OSS"])
def test_a_template_that_leaves_notes_out_without_a_word_is_known_by_its_model(name: str) -> None:
    assert choose_initial_profile("http://127.0.0.1:8080/v1", "auto", name) == ModelProfile(one_system=True)
    assert choose_initial_profile("https://api.openai.com/v1", "auto", "gpt-5.5") == ModelProfile("responses"), (
        "the control"
    )


def test_negative_control_a_moment_s_trouble_teaches_nothing(subtests: pytest.Subtests) -> None:
    for status in [401, 429, 500, 503]:
        with subtests.test(status=status):
            words = "the system is busy" if status == 500 else "System message must be at the beginning."
            assert learn_from_error(ModelProfile(), ErrorResponse(status, words), SENT) is None


def test_a_person_s_words_never_begin_like_a_note_and_calls_stay_as_they_came() -> None:
    talk: list[dict[str, Any]] = [
        {"role": "system", "content": "RULES"},
        {"role": "user", "content": [{"type": "text", "text": "one"}]},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"role": "system", "content": "go on"},
    ]
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    chat = written(ModelProfile(one_system=True, alternates=True), talk=talk)["messages"]
    assert chat == [
        talk[0],
        {"role": "user", "content": parts},
        talk[3],
        {**talk[4], "content": f"seen\n\n{SYSTEM_MARK} go on"},
    ]
    bare = written(ModelProfile("responses", one_system=True, no_system=True, alternates=True), talk=talk)
    assert "instructions" not in bare and roles(bare["input"]) == ["user", "function_call", "function_call_output"]
    assert bare["input"][0]["content"][0] == {"type": "input_text", "text": f"{SYSTEM_MARK} RULES"}


def roles(items: Sequence[dict[str, Any]]) -> list[str]:
    return [one.get("type", one.get("role", "")) for one in items]
