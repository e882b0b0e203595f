"""What an endpoint says of its own figures."""

from typing import Any

import pytest

from bot.agent.model import ModelReply
from bot.agent.models.openai_model import open_model
from tests.stories.endpoint import Raw, endpoint


async def answered(usage: Any) -> ModelReply:
    body = {"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}], "usage": usage}
    async with endpoint([Raw(body)]) as serving, open_model(serving.url, "key", "any") as model:
        return await model.request_reply(['{"role":"user","content":"hi"}'], "", timeout_s=5)


async def test_tokens_and_those_it_knew_already_are_read_and_a_reply_without_a_message_has_been_paid_for_too() -> None:
    details = {"cached_tokens": 1_024, "audio_tokens": 0}
    reply = await answered({"prompt_tokens": 1_200, "completion_tokens": 9, "prompt_tokens_details": details})
    assert (reply.tokens_in, reply.tokens_cached, reply.tokens_out) == (1_200, 1_024, 9)
    body = {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}}
    async with endpoint([Raw(body)]) as serving, open_model(serving.url, "key", "any") as model:
        reply = await model.request_reply(['{"role":"user","content":"hi"}'], "", timeout_s=5)
    assert (reply.finish, reply.tokens_in, reply.tokens_out, reply.model) == ("empty", 12, 3, "any")


async def test_figures_that_cannot_be_true_spoil_no_counter(subtests: pytest.Subtests) -> None:
    for figure, counted in [(-5, 0), (True, 0), (10**30, 100_000_000), (7.5, 0), ("9", 0)]:
        with subtests.test(figure=figure):
            assert (await answered({"prompt_tokens": figure})).tokens_in == counted


async def test_an_endpoint_that_does_not_say_has_kept_nothing(subtests: pytest.Subtests) -> None:
    for usage in [
        None,
        {},
        {"prompt_tokens_details": None},
        {"prompt_tokens_details": []},
        {"prompt_tokens_details": {"cached_tokens": None}},
        {"prompt_tokens_details": {"cached_tokens": "many"}},
    ]:
        with subtests.test(usage=usage):
            assert (await answered(usage)).tokens_cached == 0
