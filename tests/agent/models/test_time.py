"""What is slow: a reply that keeps coming is waited for, one that does not come is asked for three times. What is too
long is cut once."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from bot.agent.limits import RunLimits, StopReason
from bot.agent.loop import RunFinished, RunStopped
from bot.agent.model import ModelReply
from bot.agent.models import client
from bot.agent.models.catalog import find_shutdown_date
from bot.core.errors import ModelFailureCause, ModelUnavailableError
from tests.harness.loop import acts, call, play
from tests.harness.models import fresh, run
from tests.harness.scripted_model import Scripted
from tests.harness.slow_model import HELLO, slow, whole

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


async def test_after_a_time_out_a_slow_reply_is_streamed_and_waited_for() -> None:
    """Six pieces of 0.15 s each: more than one call may take, and none of them late."""

    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        if not body.get("stream"):
            await asyncio.sleep(9)
        pieces = [piece(one) for one in "slowly"]
        return await stream(request, *pieces, piece("", "stop"), b"data: [DONE]\n\n", pause_s=0.15)

    async with slow(handle) as (serving, model):
        with pytest.raises(ModelUnavailableError) as down:
            await model.request_reply(HELLO, "", timeout_s=0.4)
        assert down.value.cause is ModelFailureCause.TIMEOUT and down.value.wait_s == 0.4, "not at once"
        assert (await model.request_reply(HELLO, "", timeout_s=0.4)).text == "slowly"
        assert [one.get("stream") for one in serving.asked] == [None, True]


@pytest.mark.parametrize("sign", [b": keep-alive\n\n", b"\n\n", b"event: ping\n\n"])
async def test_negative_control_a_sign_of_life_without_a_word_keeps_nothing_alive(sign: bytes) -> None:
    async with slow(streams(*[sign] * 50, pause_s=0.1)) as (_, model):
        model.slow = True
        began = asyncio.get_running_loop().time()
        with pytest.raises(ModelUnavailableError) as down:
            await model.request_reply(HELLO, "", timeout_s=0.4)
        assert down.value.cause is ModelFailureCause.TIMEOUT and asyncio.get_running_loop().time() - began < 2


async def test_a_reply_without_an_end_ends_and_a_stream_that_breaks_off_is_none() -> None:
    async with slow(streams(*[piece("x")] * 500, pause_s=0.02)) as (_, model):
        model.slow = True
        began = asyncio.get_running_loop().time()
        with pytest.raises(ModelUnavailableError):
            await model.request_reply(HELLO, "", timeout_s=0.1)
        assert asyncio.get_running_loop().time() - began < 3

    async with slow(streams(piece("half of"))) as (_, model):
        model.slow = True
        with pytest.raises(ModelUnavailableError, match="ended before"):
            await model.request_reply(HELLO, "", timeout_s=5)


async def test_a_stream_of_responses_is_read_by_its_items_and_its_end() -> None:
    call_ = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"}
    events = [
        {"type": "response.created", "response": {"status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "item": {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}},
        {"type": "response.function_call_arguments.delta", "delta": "{"},
        {"type": "response.output_item.done", "item": call_},
        {"type": "response.completed", "response": {"status": "completed", "output": [], "usage": {"input_tokens": 3}}},
    ]

    async with slow(
        streams(*(f"event: x\r\ndata: {json.dumps(one)}\r\n\r\n".encode() for one in events)), api="responses"
    ) as (_, model):
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
        text, packed = b'{"error": "' + b"x" * 50_000, {"Content-Encoding": "gzip"}
        body_ = gzip.compress(text) if how == "packed" else text
        return web.Response(body=body_, status=status, headers=packed if how == "packed" else {})

    async with slow(handle) as (_, model):
        with pytest.raises(ModelUnavailableError, match="too long"):
            await model.request_reply(HELLO, "", timeout_s=5)


async def test_a_stream_that_has_said_its_end_is_left() -> None:
    async with slow(streams(piece("Seven days.") + b"data: [DONE]\n\n", pause_s=9)) as (_, model):
        assert (await model.request_reply(HELLO, "", timeout_s=5)).text == "Seven days."


async def test_a_model_that_is_always_too_slow_is_asked_three_times() -> None:
    late: list[Scripted] = [ModelUnavailableError("no answer within 60 s", 60, ModelFailureCause.TIMEOUT)] * 9
    trace = fresh()
    for _ in range(2):
        with pytest.raises(ModelUnavailableError):
            await play(late, trace=trace)
    events, *_ = await play(late, trace=trace)
    assert events == [RunStopped(StopReason.TIME)]


async def test_negative_control_one_that_answers_in_between_is_asked_on() -> None:
    trace, late = fresh(), ModelUnavailableError("late", 60, ModelFailureCause.TIMEOUT)
    for n in range(5):
        with pytest.raises(ModelUnavailableError):
            await play([acts(call("look", name=str(n))), late], trace=trace, limits=RunLimits())
    assert (await play([ModelReply(text="done")], trace=trace))[0] == [RunFinished("done")]


def turns(count: int) -> list[str]:
    head = [{"role": "system", "content": "RULES"}, {"role": "user", "content": '<facts from="directory">…</facts>'}]
    said = [[{"role": "user", "content": f"question {n} " * 50}, {"role": "assistant", "content": f"answer {n} " * 50}]
            for n in range(count)]  # fmt: skip
    history = ",".join(json.dumps(one) for pair in said for one in pair)
    return [*map(json.dumps, head), *([history] if history else [])]


async def test_a_conversation_that_is_too_long_is_cut_once_and_stays_cut() -> None:
    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        if len(json.dumps(body["messages"])) > 9_000:
            return web.json_response(TOO_LONG, status=400)
        return whole("done")

    async with slow(handle) as (serving, model):
        assert (await run(model, fresh(), turns(20)))[0][-1] == RunFinished("done")
    first, second = (one["messages"] for one in serving.asked)
    assert len(first) == 43 and 4 < len(second) < 15
    assert [one["content"][:6] for one in second[:2]] == ["RULES", "<facts"] and second[2]["role"] == "user"
    assert second[-3:] == first[-3:], "the newest stay"


async def test_negative_control_what_is_too_long_even_so_is_refused() -> None:
    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        return web.json_response(TOO_LONG, status=400)

    for count, asked in ((20, 2), (0, 1)):
        async with slow(handle) as (serving, model):
            events, _ = await run(model, fresh(), turns(count))
        assert (
            isinstance(events[-1], RunStopped)
            and events[-1].reason is StopReason.REFUSED
            and len(serving.asked) == asked
        )


async def test_an_unknown_model_is_told_with_the_names_that_exist() -> None:
    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no", "code": "model_not_found"}}, status=404)

    async with slow(handle, MODELS) as (_, model):
        with pytest.raises(ModelUnavailableError, match=r"there are gpt-6-sol, gpt-6-luna$") as down:
            await model.request_reply(HELLO, "", timeout_s=5)
        assert down.value.cause is ModelFailureCause.UNKNOWN_MODEL
        assert str(await find_shutdown_date(model.client, "gpt-6-sol")) == "2027-05-01"
        assert (
            await find_shutdown_date(model.client, "gpt-6-luna") is None
            and await find_shutdown_date(model.client, "x") is None
        )


async def test_what_a_server_could_not_read_as_a_call_is_asked_for_again() -> None:
    failed = {"error": {"message": "Failed to call a function", "code": "tool_use_failed", "failed_generation": "<f"}}
    answers = [web.json_response(failed, status=400), whole("done")]

    async def handle(body: dict[str, Any], request: web.Request) -> web.StreamResponse:
        return answers.pop(0)

    async with slow(handle) as (serving, model):
        assert (await run(model, fresh()))[0][-1] == RunFinished("done")
    assert "could not be read" in serving.asked[1]["messages"][-1]["content"]
