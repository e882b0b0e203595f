"""Asking again: what may work later is asked again, as the endpoint wishes, and never beyond the time of the call."""

import asyncio
import io
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.model import ModelReply
from bot.agent.models.client import parse_retry_after_s
from bot.agent.models.openai_model import MAX_RETRY_AFTER_S, OpenAIModel, open_model
from bot.core import logs, metrics
from bot.core.errors import ModelRejectedError, ModelUnavailableError
from tests.harness.corpus import corpus
from tests.stories.endpoint import Endpoint, Raw, endpoint, said

HELLO = ['{"role":"user","content":"hi"}']
BUSY = {"error": {"message": "slow down"}}


class Drawn:
    """The jitter, told: the least of every range."""

    def __init__(self) -> None:
        self.ranges: list[tuple[float, float]] = []

    def __call__(self, least: float, most: float) -> float:
        self.ranges.append((least, most))
        return least


@asynccontextmanager
async def asked(
    script: Sequence[Raw], *, retries: int = 1, now: float = 0.0
) -> AsyncIterator[tuple[Endpoint, OpenAIModel, Drawn]]:
    drawn = Drawn()
    async with endpoint(script) as serving, open_model(serving.url, "sk-first-secret", "m", retries=retries) as model:
        yield serving, replace(model, draw_jitter=drawn, now=lambda: now), drawn


def count_retries() -> float:
    return sum(
        sample.value
        for family in metrics.MODEL_RETRIES.collect()
        for sample in family.samples
        if sample.name.endswith("_total") and sample.labels["model"] == "m"
    )


async def ask(model: OpenAIModel, timeout_s: float = 20) -> ModelReply:
    return await model.request_reply(HELLO, "", timeout_s=timeout_s)


@corpus("trouble", [Raw(status=0), *(Raw(BUSY, status) for status in (408, 409, 429, 500, 503, 599))])
async def test_what_may_work_later_is_asked_again(trouble: Raw) -> None:
    async with asked([trouble, said("there"), said("there")]) as (serving, model, _):
        before = count_retries()
        reply = await ask(model)
        assert (reply.text, reply.model) == ("there", "m") and len(serving.asked) == 2
        assert count_retries() == before + 1, "what was made good is counted all the same"
        await ask(model)
        assert count_retries() == before + 1, "the control"
        assert serving.asked[0] == serving.asked[1]


@pytest.mark.parametrize("trouble", [Raw(BUSY, 429), Raw(b"x", 500), Raw(status=0)], ids=str)
async def test_after_the_last_try_it_is_down(trouble: Raw) -> None:
    for retries in (0, 1, 3):
        async with asked([trouble] * 9, retries=retries) as (serving, model, _):
            with pytest.raises(ModelUnavailableError):
                await ask(model)
            assert len(serving.asked) == retries + 1


async def test_an_endpoint_that_knows_better_is_believed() -> None:
    quota = Raw(BUSY, 429, {"x-should-retry": "false"})
    async with asked([quota, said("there")]) as (serving, model, _):
        with pytest.raises(ModelUnavailableError):
            await ask(model)
        assert len(serving.asked) == 1


async def test_the_wait_is_drawn_from_a_range_that_doubles_up_to_a_cap() -> None:
    async with asked([Raw(b"x", 500)] * 9, retries=6) as (_, model, drawn):
        with pytest.raises(ModelUnavailableError):
            await ask(model)
    assert [most for _, most in drawn.ranges][:6] == [0.5, 1, 2, 4, 8, 8], "full jitter: from nothing to all of it"
    assert {least for least, _ in drawn.ranges} == {0}


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "0.3"},
        {"retry-after-ms": "300", "Retry-After": "30"},
        {"Retry-After": "Thu, 01 Jan 1970 00:00:01 GMT"},
    ],
    ids=["seconds", "ms, which is more exact", "a date"],
)
async def test_it_is_left_alone_for_as_long_as_it_asks(headers: dict[str, str]) -> None:
    async with asked([Raw(BUSY, 429, headers), said("there")], now=0.7) as (serving, model, _):
        await ask(model)
        assert 0.28 <= serving.times[1] - serving.times[0] < 5


@pytest.mark.parametrize(
    ("after", "timeout_s"), [("30", 2.0), (str(MAX_RETRY_AFTER_S + 1), 600.0), ("Thu, 01 Jan 1970 00:05:00 GMT", 2.0)]
)
async def test_a_wait_beyond_the_time_left_is_told_at_once(after: str, timeout_s: float) -> None:
    async with asked([Raw(BUSY, 503, {"Retry-After": after}), said("there")], retries=3) as (serving, model, _):
        with pytest.raises(ModelUnavailableError) as down:
            await asyncio.wait_for(ask(model, timeout_s), 5)
        assert len(serving.asked) == 1, "not hammered"
        assert down.value.wait_s == {"30": 30, "61.0": 61}.get(after, 300)


async def test_all_tries_and_waits_share_one_time() -> None:
    async with asked([Raw(BUSY, 503, {"Retry-After": "0.2"}), said("there")]) as (serving, model, _):
        assert (await ask(model, 2.0)).text == "there" and len(serving.asked) == 2, "a wait that fits is waited for"
    slow = [Raw(b"x", 500, hold_s=0.4), *[Raw(hold_s=30)] * 5]
    async with asked(slow, retries=5) as (serving, model, _):
        began = asyncio.get_running_loop().time()
        with pytest.raises(ModelUnavailableError, match="no answer within"):
            await ask(model, 1.0)
        assert asyncio.get_running_loop().time() - began < 5 and len(serving.asked) == 2


async def test_somebody_who_stops_the_call_stops_its_waits() -> None:
    async with asked([Raw(BUSY, 503, {"Retry-After": "9"})] * 3) as (_, model, _drawn):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(model, 60), 0.3)


@given(st.one_of(st.text(), st.floats().map(str), st.integers().map(str)), st.text())
def test_whatever_the_header_says_the_wait_is_a_number(after: str, ms: str) -> None:
    found = parse_retry_after_s({"retry-after": after, "retry-after-ms": ms}, 0.0)
    assert 0 <= found < math.inf


@corpus("after", ["", "-1", "0", "nan", "inf", "1e999", "soon", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_what_cannot_be_meant_is_no_wish(after: str) -> None:
    assert parse_retry_after_s({"retry-after": after}, 5.0) == 0


async def test_the_key_is_in_no_log(stream: io.StringIO) -> None:
    logs.configure_logging("DEBUG", json=True, stream=stream)
    async with asked([Raw(b"x", 500), Raw(status=0), said("there")], retries=3) as (serving, model, _):
        await ask(model)
        assert serving.keys == ["Bearer sk-first-secret"] * 3
    assert "model.again" in stream.getvalue() and "first-secret" not in stream.getvalue()


async def test_why_a_request_is_refused_is_told_to_administrators_and_no_key_with_it() -> None:
    no = Raw({"error": {"message": "tools are not supported;\nyour key is sk-proj-abcdefgh12345678901234"}}, 400)
    async with asked([no]) as (_, model, _):
        with pytest.raises(ModelRejectedError, match=r"^HTTP 400 tools are not supported; your key is") as refused:
            await ask(model)
    assert "abcdefgh12345678" not in str(refused.value)
