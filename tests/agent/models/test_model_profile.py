"""What administrators are told of an endpoint: by `doctor`, by the log, and in settings."""

import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr
from redis.asyncio import Redis

from bot.agent.loop import RunFinished
from bot.agent.model import ModelReply
from bot.agent.models.openai_model import open_model
from bot.app.services import ModelEndpoint, Services, open_services
from bot.app.settings import Settings
from bot.core import logs
from bot.core.errors import ModelUnavailableError
from bot.ops.doctor import NOTICE_DAYS, DoctorFinding, check_services
from bot.queue.keys import Keys
from bot.storage.cache import TextCache
from tests.agent.models.standins import StandIn, standing_in
from tests.harness.loop import acts, call
from tests.harness.models import LEARNED, fresh, run
from tests.harness.scripted_model import ScriptedModel
from tests.harness.slow_model import HELLO, slow, whole

ECHO = acts(call("echo", word="hello"))


async def findings(serving: StandIn, redis_url: str = "") -> list[DoctorFinding]:
    outside = Services(
        redis_url=redis_url, slack_api_url="", bot_token="",
        model=ModelEndpoint(url=serving.url, key="k", name="m"), smtp_url="",
        standins=("workspace", "mail"),
    )  # fmt: skip
    return [one async for one in check_services(outside, "native") if one.subject == "model"]


async def test_doctor_tells_how_an_endpoint_is_asked(subtests: pytest.Subtests) -> None:
    for behaviour, words in [
        ("only_responses", ["two steps", "API: responses"]),
        ("no_include", ["API: responses", "left out: include"]),
        ("thinking", ["API: chat", "sent back: reasoning_content"]),
        ("wrapped", ["left out: temperature"]),
        ("stream_only", ["answers in a stream only"]),
        ("first_system", ["one system message"]),
        ("first_system_or_broken", ["one system message"]),
        ("message_order", ["one system message", "neighbouring messages merged"]),
        ("no_responses", ["API: chat", "reasoning effort: none", "not there: responses"]),
    ]:
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
    logs.configure_logging("INFO", json=True, stream=stream)
    answers = [401, 401, 402, 200, 402]

    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        status = answers.pop(0)
        return (
            whole("hi")
            if status == 200
            else web.json_response({"error": {"message": "sk-abcdefgh12345678"}}, status=status)
        )

    async with slow(handle) as (_, model):
        for status in list(answers):
            if status == 200:
                await model.request_reply(HELLO, "", timeout_s=5)
                continue
            with pytest.raises(ModelUnavailableError):
                await model.request_reply(HELLO, "", timeout_s=5)
    told = [line for line in stream.getvalue().splitlines() if "model.needs_administrator" in line]
    assert ["quota" in one for one in told] == [False, True, True], "once for as long as it lasts"
    assert "abcdefgh12345678" not in stream.getvalue()


async def test_processes_share_what_they_learn_for_a_week_and_what_it_is_called_hides_the_address(redis: Redis) -> None:
    memory = TextCache(redis, Keys())
    steps = [acts(call("look", name="Li")), ModelReply(text="done")]
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


async def test_a_tool_that_an_endpoint_refuses_is_left_out_and_told_to_administrators(
    redis: Redis, valkey: str
) -> None:
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
        async def load_text(self, name: str) -> str | None:
            raise ModelUnavailableError("not this kind, but ours")

        async def save_text(self, name: str, text: str, ms: int) -> None:
            raise ModelUnavailableError("not this kind, but ours")

    steps = [acts(call("look", name="Li")), ModelReply(text="done")]
    async with (
        standing_in("thinking", ScriptedModel([*steps])) as serving,
        open_model(serving.url, "k", "m", retries=0, memory=Away()) as model,
    ):
        await run(model, fresh())
        assert model.profile == LEARNED["thinking"]


async def test_how_one_address_is_asked_is_not_true_of_another() -> None:
    about: dict[str, Any] = {
        "openai_base_url": "https://one.example/v1",
        "openai_api_key": SecretStr("k"),
        "openai_api": "chat",
        "openai_reasoning": "low",
        "openai_fallback_model": "second",
        "redis_url": "redis://127.0.0.1:1",
    }
    for url, expected in (("", ("chat", "low")), ("https://two.example/v1", ("auto", "auto"))):
        async with open_services(Settings(**about, openai_fallback_base_url=url), start=False) as outside:
            assert (outside.model.api, outside.model.effort) == ("chat", "low")
            assert (outside.fallback.api, outside.fallback.effort) == expected
            assert "SecretStr" not in repr(outside.model) and "'k'" not in repr(outside.model)
