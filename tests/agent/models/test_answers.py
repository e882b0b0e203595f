"""What endpoints send, whatever it is called: `answers.toml`."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bot.agent.model import ModelReply
from bot.agent.models.openai_model import OpenAIModel
from bot.core.errors import ModelUnavailableError
from tests.harness.slow_model import HELLO, slow, whole

CASES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("answers.toml").read_text("utf-8"))["case"]
LABELS = ("application/json", "text/event-stream; charset=utf-8", "text/plain")


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
            for label in LABELS:
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
