"""What endpoints send, whatever it is called: `answers.toml`. A reply that keeps coming is waited for, one that does
not come is asked for three times; a conversation that is too long is cut once."""

import asyncio
import gzip
import json
import tomllib
from collections.abc import Awaitable, Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bot.agent.limits import StopReason
from bot.agent.loop import RunFinished, RunStopped
from bot.agent.model import ModelReply
from bot.agent.models import client
from bot.agent.models.catalog import find_shutdown_date
from bot.agent.models.chat import ChatCompletionsTransport
from bot.agent.models.openai_model import OpenAIModel
from bot.core.errors import ModelFailureCause, ModelUnavailableError
from tests.harness.loop import acts, call, play
from tests.harness.models import fresh, run
from tests.harness.slow_model import HELLO, slow, whole

CASES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("answers.toml").read_text("utf-8"))["case"]


def build_body(case: dict[str, Any]) -> str:
    """The body of an answer."""
    if "body" in case:
        return str(case["body"])
    pieces = [f'{{"choices":[{{"delta":{{"tool_calls":{one}}}}}]}}' for one in case.get("calls", ())]
    return "".join(f"data: {one}\n\n" for one in (*case.get("events", ()), *pieces, "[DONE]"))


async def ask(model: OpenAIModel) -> ModelReply | None:
    """The reply; None without one."""
    try:
        return await model.request_reply(HELLO, "", timeout_s=5)
    except ModelUnavailableError:
        return None


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_the_body_of_an_answer_tells_what_it_is(api: str, subtests: pytest.Subtests) -> None:
    body, label = "", ""

    async def handle(request: dict[str, Any], raw: web.Request) -> web.Response:
        return web.Response(body=body.encode(), headers={"Content-Type": label})

    async with slow(handle, api=api) as (_, model):
        for case in [one for one in CASES if one.get("api", "chat") == api]:
            for label in ("application/json", "text/event-stream; charset=utf-8", "text/plain"):
                body = build_body(case)
                with subtests.test(case["about"], label=label):
                    reply, calls = await ask(model), case.get("reads", [])
                    if case.get("fails"):
                        assert reply is None
                        continue
                    assert reply is not None and [[one.name, one.arguments] for one in reply.calls] == calls
                    assert reply.text == case.get("text", "")
                    known = {"stop", "tool_calls"} if calls else {"stop"}
                    assert reply.finish in ({case["is"]} if "is" in case else known)


async def test_a_stream_that_fails_is_asked_for_whole_again() -> None:
    """A reply that came too late is asked for as a stream; this endpoint's streams break off."""

    async def handle(request: dict[str, Any], raw: web.Request) -> web.Response:
        if request.get("stream"):
            return web.Response(body=b'data: {"choices":[{"delta":{"content":"Seven"}}]}\n\n')
        return whole("Seven days.")

    async with slow(handle, retries=1) as (serving, model):
        model.slow, model.draw_jitter = True, lambda least, most: 0.0
        assert [reply and reply.text for reply in (await ask(model), await ask(model))] == ["Seven days."] * 2
    assert [one.get("stream") for one in serving.asked] == [True, None, None]


def read(answer: dict[str, Any]) -> ModelReply:
    reply = ChatCompletionsTransport().parse_response(answer, "any", "")
    assert isinstance(reply, ModelReply)
    return reply


def test_tokens_and_those_it_knew_already_are_read_and_figures_that_cannot_be_true_spoil_no_counter() -> None:
    """A reply without a message has been paid for, too."""
    choice = {"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    details = {"cached_tokens": 1_024, "audio_tokens": 0}
    usage = {"prompt_tokens": 1_200, "completion_tokens": 9, "prompt_tokens_details": details}
    reply = read({"choices": [choice], "usage": usage})
    assert (reply.tokens_in, reply.tokens_cached, reply.tokens_out) == (1_200, 1_024, 9)
    reply = read({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}})
    assert (reply.finish, reply.tokens_in, reply.tokens_out, reply.model) == ("empty", 12, 3, "any")
    for figure, counted in ((-5, 0), (True, 0), (10**30, 100_000_000), (7.5, 0), ("9", 0)):
        assert read({"choices": [choice], "usage": {"prompt_tokens": figure}}).tokens_in == counted, figure
    for cached in (None, [], {"cached_tokens": None}, {"cached_tokens": "many"}):
        usage = {"prompt_tokens_details": cached}
        assert read({"choices": [choice], "usage": usage}).tokens_cached == 0, "an endpoint that does not say"
    assert [read({"choices": [choice], "usage": usage}).tokens_cached for usage in (None, {})] == [0, 0]


# Slow replies, and long ones


TOO_LONG = {
    "error": {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"}
}
MODELS = [{"id": "gpt-6-sol", "shutdown_date": "2027-05-01"}, {"id": "gpt-6-luna"}, {"id": "whisper"}, {"id": None}, 7]


def piece(text: str, finish: str | None = None) -> bytes:
    event = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}
    return f"data: {json.dumps(event)}\n\n".encode()


async def stream(request: web.Request, *pieces: bytes, pause_s: float = 0.0, status: int = 200) -> web.StreamResponse:
    response = web.StreamResponse(status=status, headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for one in pieces:
        await response.write(one)
        await asyncio.sleep(pause_s)
    return response


def streams(*pieces: bytes, pause_s: float = 0.0) -> Callable[[Any, web.Request], Awaitable[web.StreamResponse]]:
    """An endpoint that streams this whatever it is asked."""
    return lambda body, request: stream(request, *pieces, pause_s=pause_s)


async def fail(
    model: OpenAIModel, timeout_s: float, within_s: float = 5, match: str | None = None
) -> ModelUnavailableError:
    """Ask for what does not come, and see that it is given up in time."""
    began = asyncio.get_running_loop().time()
    with pytest.raises(ModelUnavailableError, match=match) as down:
        await model.request_reply(HELLO, "", timeout_s=timeout_s)
    assert asyncio.get_running_loop().time() - began < within_s
    return down.value


async def test_after_a_time_out_a_slow_reply_is_streamed_and_waited_for() -> None:
    """Six pieces of 0.3 s each: more than one call may take, and none of them late."""

    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        if not body.get("stream"):
            await asyncio.sleep(9)
        pieces = [piece(one) for one in "slowly"]
        return await stream(request, *pieces, piece("", "stop"), b"data: [DONE]\n\n", pause_s=0.3)

    async with slow(handle) as (serving, model):
        down = await fail(model, 1.0)
        assert down.cause is ModelFailureCause.TIMEOUT and down.wait_s == 1.0, "not at once"
        assert (await model.request_reply(HELLO, "", timeout_s=1.0)).text == "slowly"
        assert [one.get("stream") for one in serving.asked] == [None, True]


@pytest.mark.parametrize("sign", [b": keep-alive\n\n", b"\n\n", b"event: ping\n\n"])
async def test_negative_control_a_sign_of_life_without_a_word_keeps_nothing_alive(sign: bytes) -> None:
    async with slow(streams(*[sign] * 50, pause_s=0.1)) as (_, model):
        model.slow = True
        assert (await fail(model, 0.4, within_s=4.5)).cause is ModelFailureCause.TIMEOUT


async def test_a_reply_without_an_end_ends_and_a_stream_that_breaks_off_is_none() -> None:
    async with slow(streams(*[piece("x")] * 500, pause_s=0.02)) as (_, model):
        model.slow = True
        await fail(model, 0.1, within_s=8)
    async with slow(streams(piece("half of"))) as (_, model):
        model.slow = True
        await fail(model, 5, match="ended before")


async def test_a_stream_of_responses_is_read_by_its_items_and_its_end() -> None:
    call_ = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"}
    events = [
        {"type": "response.created", "response": {"status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "item": {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}},
        {"type": "response.function_call_arguments.delta", "delta": "{"},
        {"type": "response.output_item.done", "item": call_},
        {"type": "response.completed", "response": {"status": "completed", "output": [], "usage": {"input_tokens": 3}}},
    ]
    written = [f"event: x\r\ndata: {json.dumps(one)}\r\n\r\n".encode() for one in events]
    async with slow(streams(*written), api="responses") as (_, model):
        model.slow = True
        reply = await model.request_reply(HELLO, "", timeout_s=5)
    assert [one.name for one in reply.calls] == ["look"] and reply.tokens_in == 3 and "rs_1" in reply.provider_details


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("how", ["streamed", "whole", "packed"])
async def test_an_answer_without_an_end_is_left(how: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_BYTES", 10_000)

    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        if how == "streamed":
            return await stream(request, *[piece("x" * 1_000)] * 50, status=status)
        text = b'{"error": "' + b"x" * 50_000
        if how == "whole":
            return web.Response(body=text, status=status)
        return web.Response(body=gzip.compress(text), status=status, headers={"Content-Encoding": "gzip"})

    async with slow(handle) as (_, model):
        await fail(model, 5, match="too long")


async def test_a_stream_that_has_said_its_end_is_left() -> None:
    async with slow(streams(piece("Seven days.") + b"data: [DONE]\n\n", pause_s=9)) as (_, model):
        assert (await model.request_reply(HELLO, "", timeout_s=5)).text == "Seven days."


async def test_a_model_that_is_always_too_slow_is_asked_three_times_and_one_that_answers_in_between_on() -> None:
    late = ModelUnavailableError("no answer within 60 s", 60, ModelFailureCause.TIMEOUT)
    trace = fresh()
    for _ in range(2):
        with pytest.raises(ModelUnavailableError):
            await play([late], trace=trace)
    assert (await play([late], trace=trace))[0] == [RunStopped(StopReason.TIME)]
    trace = fresh()
    for n in range(5):
        with pytest.raises(ModelUnavailableError):
            await play([acts(call("look", name=str(n))), late], trace=trace)
    assert (await play([ModelReply(text="done")], trace=trace))[0] == [RunFinished("done")], "the negative control"


def turns(count: int) -> list[str]:
    """The head of a run's messages with so many turns."""

    def told(*texts: str) -> list[str]:
        return [json.dumps({"role": "user" if "<" in one else "system", "content": one}) for one in texts]

    roles = {"user": "question", "assistant": "answer"}
    said = [{"role": role, "content": f"{word} {n} " * 50} for n in range(count) for role, word in roles.items()]
    history = [",".join(map(json.dumps, said))] if said else []
    return [*told("RULES", "<tools x>", '<facts from="directory">'), *history, *told("Today is", "<cards x>")]


async def test_a_conversation_that_is_too_long_is_cut_once_and_stays_cut() -> None:
    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        if len(json.dumps(body["messages"])) > 9_000:
            return web.json_response(TOO_LONG, status=400)
        return whole("done")

    async with slow(handle) as (serving, model):
        assert (await run(model, fresh(), turns(20)))[0][-1] == RunFinished("done")
    first, second = (one["messages"] for one in serving.asked)
    assert len(first) == 46 and 7 < len(second) < 18
    assert second[:3] == first[:3] and second[3]["role"] == "user", "an answer has its question"
    assert second[3:] == first[3 - len(second) :], "the newest stay, and all that stands behind them"


async def test_negative_control_what_is_too_long_even_so_is_refused() -> None:
    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        return web.json_response(TOO_LONG, status=400)

    for count, asked in ((20, 2), (0, 1)):
        async with slow(handle) as (serving, model):
            events, _ = await run(model, fresh(), turns(count))
        assert isinstance(events[-1], RunStopped) and events[-1].reason is StopReason.REFUSED
        assert len(serving.asked) == asked


async def test_an_unknown_model_is_told_with_the_names_that_exist() -> None:
    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no", "code": "model_not_found"}}, status=404)

    async with slow(handle, MODELS) as (_, model):
        down = await fail(model, 5, match=r"there are gpt-6-sol, gpt-6-luna$")
        assert down.cause is ModelFailureCause.UNKNOWN_MODEL
        days = [await find_shutdown_date(model.client, name) for name in ("gpt-6-sol", "gpt-6-luna", "x")]
    assert days == [date(2027, 5, 1), None, None]


async def test_what_a_server_could_not_read_as_a_call_is_asked_for_again() -> None:
    failed = {"error": {"message": "Failed to call a function", "code": "tool_use_failed", "failed_generation": "<f"}}
    answers = [web.json_response(failed, status=400), whole("done")]

    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        return answers.pop(0)

    async with slow(handle) as (serving, model):
        assert (await run(model, fresh()))[0][-1] == RunFinished("done")
    assert "could not be read" in serving.asked[1]["messages"][-1]["content"]
