"""Whether a model calls tools is asked once, over a real connection, and remembered."""

from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.loop import AgentLoop, ModelInUse
from bot.agent.models.openai_model import open_model
from bot.agent.models.probe import FormatSetting, LeakRecorder, choose_formats, find_call_problem
from bot.core.run_state import RunState
from tests.harness.models import Notes
from tests.harness.scripted_model import ScriptedModel
from tests.stories.endpoint import Raw, called, endpoint, said

ECHO, OBJECT, CHAT = called(("echo", '{"word": "hello"}')), said('{"word": "hello"}'), said("Hello!")
REFUSED, AWAY = Raw(status=400), Raw(status=503)


async def found(wish: FormatSetting, answers: Sequence[Raw], notes: Notes) -> tuple[list[str], int]:
    """(styles, how often the model was asked)."""
    async with endpoint(answers, past_end=Raw(status=500)) as model:
        async with open_model(model.url, "k", "m", retries=0) as client:
            styles = await choose_formats(wish, client, notes, "endpoint m")
        return [one.name for one in styles], len(model.asked)


async def test_native_is_taken_if_it_works_and_asked_for_once(subtests: pytest.Subtests) -> None:
    for answers, first in [
        ([ECHO, CHAT], "native"),
        ([ECHO, REFUSED], "text"),
        ([CHAT], "text"),
        ([REFUSED], "text"),
        ([called(("shout", "{}"))], "text"),
    ]:
        with subtests.test(answers=answers):
            notes = Notes()
            names, asked = await found("auto", answers, notes)
            assert (names[0], asked) == (first, len(answers)) and sorted(names) == ["json", "native", "text"]
            assert await found("auto", [], notes) == (names, 0), "remembered"


@pytest.mark.parametrize("answers", [[AWAY], [ECHO, AWAY]])
async def test_a_model_that_is_away_is_asked_again_at_the_next_start(answers: Sequence[Raw]) -> None:
    notes = Notes()
    assert (await found("auto", answers, notes))[0][0] == "native" and notes.known == {}
    assert (await found("auto", [CHAT], notes))[0][0] == "text"


@pytest.mark.parametrize("wish", ["native", "text", "json"])
async def test_a_style_that_is_wished_for_is_taken_whatever_works(wish: FormatSetting) -> None:
    names, times = await found(wish, [], Notes())
    assert (names[0], times) == (wish, 0)


async def test_a_model_that_writes_its_calls_as_text_is_asked_in_the_text_format_from_then_on(
    subtests: pytest.Subtests,
) -> None:
    """And administrators are told once; a fallback model that does it changes nothing."""
    notes = Notes()
    formats = [NativeFormat(), JsonFormat(), TextFormat()]
    recorder, loop = (
        LeakRecorder(formats, notes, "endpoint m", "m"),
        AgentLoop(ModelInUse(ScriptedModel([]), formats=formats), []),
    )
    with capture_logs() as told:
        await recorder.record_leaks("fallback")
        assert loop.get_reply_format(RunState()).name == "native" and not notes.known
        for _ in range(2):
            await recorder.record_leaks("m")
    assert loop.get_reply_format(RunState()).name == "text" and len(notes.known) == 1
    assert loop.get_reply_format(RunState(style="native")).name == "native", "a run goes on as it began"
    assert [(one["event"], one["model"], one["cause"]) for one in told] == [("model.needs_administrator", "m", "leaks")]
    for wish, answers, first in (("native", [], "text"), ("auto", [ECHO, CHAT], "text"), ("text", [], "text")):
        with subtests.test(wish=wish):
            assert (await found(wish, answers, Notes(dict(notes.known))))[0][0] == first
    assert (await found("json", [], notes))[0][0] == "json", "what else was wished for stays"


async def test_what_came_back_instead_of_a_call_is_said() -> None:
    written = '<tool_call>\n{"name": "echo", "arguments": {"word": "hello"}}\n</tool_call>'
    for answers, problem in (
        ([ECHO, CHAT], ""),
        ([ECHO, REFUSED], "it refused the result of the call"),
        ([REFUSED], "it refused the request"),
        ([said("")], "its answer was empty"),
        ([CHAT], "it answered: Hello!"),
        ([said(written)], f"it wrote the call as text: {' '.join(written.split())}"),
        ([said('echo(word="hello")')], 'it wrote the call as text: echo(word="hello")'),
    ):
        async with (
            endpoint(answers, past_end=Raw(status=500)) as model,
            open_model(model.url, "k", "m", retries=0) as client,
        ):
            assert await find_call_problem(client) == problem
