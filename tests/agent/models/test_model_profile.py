"""How administrators hear of an endpoint, from `doctor` and from the log; and who shares what was learned of it, above
all whether it calls tools."""

import io
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from redis.asyncio import Redis
from structlog.testing import capture_logs

from bot.agent.formats.json_format import JsonFormat
from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import TextFormat
from bot.agent.loop import AgentLoop, ModelInUse, RunFinished
from bot.agent.model import ModelReply
from bot.agent.models.openai_model import open_model
from bot.agent.models.probe import FormatSetting, LeakRecorder, choose_formats, find_call_problem
from bot.app.services import ModelEndpoint, Services
from bot.core.errors import ModelUnavailableError
from bot.core.run_state import RunState
from bot.ops.doctor import NOTICE_DAYS, DoctorFinding, check_services
from bot.ops.log_output import configure_logging
from bot.queue.keys import Keys
from bot.storage.cache import TextCache
from tests.agent.models.standins import StandIn, served, standing_in
from tests.harness.loop import acts, call
from tests.harness.models import LEARNED, Notes, fresh, run
from tests.harness.scripted_model import ScriptedModel
from tests.harness.slow_model import HELLO, slow, whole
from tests.stories.endpoint import Raw, called, endpoint, said

ECHO, STEP = acts(call("echo", word="hello")), acts(call("look", name="Li"))


async def findings(serving: StandIn, redis_url: str = "") -> list[DoctorFinding]:
    outside = Services(
        redis_url=redis_url, slack_api_url="", bot_token="",
        model=ModelEndpoint(url=serving.url, key="k", name="m"), smtp_url="",
        standins=("workspace", "mail"),
    )  # fmt: skip
    return [one async for one in check_services(outside, "native") if one.subject == "model"]


async def test_doctor_tells_how_an_endpoint_is_asked(subtests: pytest.Subtests) -> None:
    for behaviour, words in (
        ("only_responses", ["two steps", "API: responses"]),
        ("no_include", ["API: responses", "left out: include"]),
        ("thinking", ["API: chat", "sent back: reasoning_content"]),
        ("wrapped", ["left out: temperature"]),
        ("stream_only", ["answers in a stream only"]),
        ("first_system", ["one system message"]),
        ("first_system_or_broken", ["one system message"]),
        ("message_order", ["one system message", "neighbouring messages merged"]),
        ("no_responses", ["API: chat", "reasoning effort: none", "not there: responses"]),
    ):
        with subtests.test(behaviour=behaviour):
            async with standing_in(behaviour, ScriptedModel([ECHO, ModelReply(text="hello")])) as serving:
                [one] = await findings(serving)
            assert one.level == "ok" and all(word in one.text for word in words), one


@pytest.mark.parametrize(
    ("days", "level"), [(NOTICE_DAYS + 1, "ok"), (NOTICE_DAYS, "warn"), (0, "warn"), (-3, "warn"), (None, "")]
)
async def test_doctor_warns_before_a_model_is_shut_down(days: int | None, level: str) -> None:
    day = None if days is None else str(datetime.now(UTC).date() + timedelta(days=days))

    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        message: dict[str, Any] = {"content": "hello"}
        if len(body["messages"]) == 1:
            message["tool_calls"] = [{"id": "c", "function": {"name": "echo", "arguments": "{}"}}]
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}]})

    async with slow(handle, listed=[{"id": "m", "shutdown_date": day}]) as (serving, _):
        first, *more = await findings(serving)  # type: ignore[arg-type]
    assert first.level == "ok" and [one.level for one in more] == ([level] if level else [])
    assert all(str(day) in one.text for one in more)


async def test_administrators_are_told_once_what_does_not_pass_by_itself(stream: io.StringIO) -> None:
    configure_logging("INFO", json=True, stream=stream)
    answers = [401, 401, 402, 200, 402]

    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        status = answers.pop(0)
        failed = web.json_response({"error": {"message": "sk-abcdefgh12345678"}}, status=status)
        return whole("hi") if status == 200 else failed

    async with slow(handle) as (_, model):
        for status in list(answers):
            with nullcontext() if status == 200 else pytest.raises(ModelUnavailableError):
                await model.request_reply(HELLO, "", timeout_s=5)
    told = [line for line in stream.getvalue().splitlines() if "model.needs_administrator" in line]
    assert ["quota" in one for one in told] == [False, True, True], "once for as long as it lasts"
    assert "abcdefgh12345678" not in stream.getvalue()


async def test_processes_share_what_they_learn_for_a_week_and_what_it_is_called_hides_the_address(redis: Redis) -> None:
    memory = TextCache(redis, Keys())
    steps = [STEP, ModelReply(text="done")]
    async with standing_in("thinking", ScriptedModel([*steps, *steps])) as serving:
        for asked in (3, 2):
            before = len(serving.asked)
            async with open_model(serving.url, "sk-secret", "m", retries=0, memory=memory) as model:
                await run(model, fresh())
                assert model.profile == LEARNED["thinking"] and len(serving.asked) - before == asked
        async with open_model(serving.url, "sk-secret", "other", retries=0, memory=memory) as model:
            await model.request_reply(HELLO, "", timeout_s=5)
            assert model.profile != LEARNED["thinking"], "of one model"
    [key] = [str(one) async for one in redis.scan_iter("*")]
    assert "127.0.0.1" not in key and 0 < await redis.pttl(key) <= 7 * 24 * 3_600_000
    assert "sk-secret" not in str(await redis.get(key))


async def test_a_tool_that_an_endpoint_refuses_is_left_out_and_told_of(redis: Redis, valkey: str) -> None:
    """At once and for everybody; the request is asked again without it, so the person notices nothing."""
    memory, told = TextCache(redis, Keys()), list[tuple[Sequence[str], str]]()
    script = [ModelReply(text="done"), ModelReply(text="done"), ECHO, ModelReply(text="hello")]

    async def report(tools: Sequence[str], why: str) -> None:
        told.append((tools, why))

    async with standing_in("bad_schema", ScriptedModel(script)) as serving:
        for _ in range(2):
            async with open_model(serving.url, "k", "m", memory=memory, report_refused_tools=report) as model:
                assert (await run(model, fresh()))[0] == [RunFinished("done")]
        assert [len(body["tools"]) for _, body in serving.asked] == [4, 3, 3]
        found = await findings(serving, valkey)
    assert [tools for tools, _ in told] == [["pay"]] and "Invalid schema" in told[0][1]
    assert [one.level for one in found] == ["ok", "warn"] and "pay" in found[1].text


async def test_a_store_that_is_away_stops_no_call() -> None:
    class Away:
        async def load_text(self, *about: object) -> None:
            raise ModelUnavailableError("not this kind, but ours")

        save_text = load_text

    async with served("thinking", [STEP, ModelReply(text="done")], memory=Away()) as (_, model):
        await run(model, fresh())
        assert model.profile == LEARNED["thinking"]


# Calls of tools: asked for once, over a real connection, and remembered


ECHOED, CHAT = called(("echo", '{"word": "hello"}')), said("Hello!")
REFUSED, AWAY = Raw(status=400), Raw(status=503)


async def found(wish: FormatSetting, answers: Sequence[Raw], notes: Notes) -> tuple[list[str], int]:
    """(styles, how often the model was asked)."""
    async with endpoint(answers, past_end=Raw(status=500)) as model:
        async with open_model(model.url, "k", "m", retries=0) as client:
            styles = await choose_formats(wish, client, notes, "endpoint m")
        return [one.name for one in styles], len(model.asked)


async def test_native_is_taken_if_it_works_and_asked_for_once(subtests: pytest.Subtests) -> None:
    for answers, first in [
        ([ECHOED, CHAT], "native"),
        ([ECHOED, REFUSED], "text"),
        ([CHAT], "text"),
        ([REFUSED], "text"),
        ([called(("shout", "{}"))], "text"),
    ]:
        with subtests.test(answers=answers):
            notes = Notes()
            names, asked = await found("auto", answers, notes)
            assert (names[0], asked) == (first, len(answers)) and sorted(names) == ["json", "native", "text"]
            assert await found("auto", [], notes) == (names, 0), "remembered"


@pytest.mark.parametrize("answers", [[AWAY], [ECHOED, AWAY]])
async def test_a_model_that_is_away_is_asked_again_at_the_next_start(answers: Sequence[Raw]) -> None:
    notes = Notes()
    assert (await found("auto", answers, notes))[0][0] == "native" and notes.known == {}
    assert (await found("auto", [CHAT], notes))[0][0] == "text"


@pytest.mark.parametrize("wish", ["native", "text", "json"])
async def test_a_style_that_is_wished_for_is_taken_whatever_works(wish: FormatSetting) -> None:
    names, times = await found(wish, [], Notes())
    assert (names[0], times) == (wish, 0)


async def test_a_model_that_writes_its_calls_as_text_is_asked_in_the_text_format_from_then_on() -> None:
    """And administrators are told once; a fallback model that does it changes nothing."""
    notes, formats = Notes(), [NativeFormat(), JsonFormat(), TextFormat()]
    recorder = LeakRecorder(formats, notes, "endpoint m", "m")
    loop = AgentLoop(ModelInUse(ScriptedModel([]), formats=formats), [])
    with capture_logs() as told:
        await recorder.record_leaks("fallback")
        assert loop.get_reply_format(RunState()).name == "native" and not notes.known
        for _ in range(2):
            await recorder.record_leaks("m")
    assert loop.get_reply_format(RunState()).name == "text" and len(notes.known) == 1
    assert loop.get_reply_format(RunState(style="native")).name == "native", "a run goes on as it began"
    assert [(one["event"], one["model"], one["cause"]) for one in told] == [("model.needs_administrator", "m", "leaks")]
    wishes: list[tuple[FormatSetting, list[Raw]]] = [("native", []), ("auto", [ECHOED, CHAT]), ("text", [])]
    for wish, answers in wishes:
        assert (await found(wish, answers, Notes(dict(notes.known))))[0][0] == "text", wish
    assert (await found("json", [], notes))[0][0] == "json", "what else was wished for stays"


async def test_what_came_back_instead_of_a_call_is_said() -> None:
    written = '<tool_call>\n{"name": "echo", "arguments": {"word": "hello"}}\n</tool_call>'
    for answers, problem in (
        ([ECHOED, CHAT], ""),
        ([ECHOED, REFUSED], "it refused the result of the call"),
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
