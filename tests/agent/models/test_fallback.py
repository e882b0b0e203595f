"""An endpoint that is away: what may work later is asked again, as it wishes, and never beyond the time of the call.
Then a second model is asked, but not when the first refuses; and no key goes where it does not belong."""

import asyncio
import io
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.model import ModelReply
from bot.agent.models.client import parse_retry_after_s
from bot.agent.models.fallback import DOWN_MAX_S, DOWN_S, FallbackModel
from bot.agent.models.openai_model import MAX_RETRY_AFTER_S, OpenAIModel, open_model
from bot.app.services import Services, open_services
from bot.app.settings import Settings
from bot.core import metrics
from bot.core.errors import ModelRejectedError, ModelUnavailableError
from bot.ops.cli.run import format_banner
from bot.ops.log_output import configure_logging
from tests.harness.corpus import corpus
from tests.harness.scripted_model import ScriptedModel
from tests.stories.endpoint import Endpoint, Raw, endpoint, said

HELLO = ['{"role":"user","content":"hi"}']


@dataclass
class Two:
    """Both endpoints, and a clock that is set by hand."""

    first: Endpoint
    second: Endpoint
    model: FallbackModel
    now: float = 0.0

    async def ask(self, timeout_s: float = 10) -> ModelReply:
        return await self.model.request_reply(HELLO, "", timeout_s=timeout_s)

    @property
    def asked(self) -> tuple[int, int]:
        return len(self.first.asked), len(self.second.asked)


@asynccontextmanager
async def two(*troubles: Raw, retries: int = 0) -> AsyncIterator[Two]:
    async with (
        endpoint(troubles, past_end=said("first")) as one,
        endpoint(past_end=said("second")) as other,
        open_model(one.url, "key-one", "a", retries=retries) as first,
        open_model(other.url, "key-two", "b", retries=retries) as second,
    ):
        both = Two(one, other, FallbackModel(first=first, second=second))
        both.model.clock = lambda: both.now
        yield both


async def test_what_the_first_cannot_answer_the_second_does(subtests: pytest.Subtests) -> None:
    for trouble in [Raw(b"x", 500), Raw({}, 429), Raw({}, 404), Raw({}, 401), Raw(b"<html>"), Raw(status=0)]:
        with subtests.test(trouble=trouble):
            async with two(trouble) as both:
                reply = await both.ask()
                assert (reply.text, reply.model) == ("second", "b") and both.asked == (1, 1)
                assert both.second.asked[0] == {**both.first.asked[0], "model": "b"}
                assert both.first.keys == ["Bearer key-one"] and both.second.keys == ["Bearer key-two"]


async def test_before_its_last_try_and_for_what_the_first_refuses_nobody_else_is_asked() -> None:
    async with two(Raw(b"x", 500), retries=1) as both:
        assert (await both.ask()).model == "a" and both.asked == (2, 0)
    async with two(Raw({}, 400)) as both:
        with pytest.raises(ModelRejectedError):
            await both.ask()
        assert both.asked == (1, 0)
        assert (await both.ask()).model == "a", "a refusal is no outage"


@corpus(
    ("trouble", "until"),
    (Raw(b"x", 500), DOWN_S),
    (Raw({}, 429, {"Retry-After": "100"}), 100.0),
    (Raw({}, 429, {"Retry-After": "9000"}), DOWN_MAX_S),
    (Raw({}, 429, {"Retry-After": "0.1"}), DOWN_S),
)
async def test_while_the_first_is_known_to_be_down_it_is_left_alone_as_long_as_it_asks_within_bounds(
    trouble: Raw, until: float
) -> None:
    async with two(trouble) as both:
        await both.ask()
        both.now = until - 0.1
        assert (await both.ask()).model == "b" and both.asked == (1, 2)
        both.now = until
        assert (await both.ask()).model == "a" and both.asked == (2, 2), "and then it is found to be back"
        assert (await both.ask()).model == "a"


async def test_one_call_finds_out_for_all() -> None:
    async with two(Raw(b"x", 500), Raw({}, 500, hold_s=1.0)) as both:
        await both.ask()
        both.now = DOWN_S
        looking = asyncio.create_task(both.ask())
        while both.asked[0] < 2:
            await asyncio.sleep(0.01)
        assert (await both.ask()).model == "b" and both.asked[0] == 2, "others do not wait for it"
        assert (await looking).model == "b"


async def test_a_first_that_hangs_leaves_time_for_the_second() -> None:
    async with two(Raw(hold_s=30)) as both:
        both.model.clock = asyncio.get_running_loop().time
        assert (await both.ask(3.0)).model == "b"


async def test_both_down_is_down_and_what_the_second_refuses_is_refused() -> None:
    async with two(Raw({}, 429, {"Retry-After": "200"})) as both:
        both.second.past_end = Raw({}, 429, {"Retry-After": "90"})
        with pytest.raises(ModelUnavailableError) as down:
            await both.ask()
        assert down.value.wait_s == 90, "no longer than either asks for"
    away, no = ScriptedModel([ModelUnavailableError("away")]), ScriptedModel([ModelRejectedError("no")])
    model = FallbackModel(first=away, second=no)
    with pytest.raises(ModelRejectedError):
        await model.request_reply(HELLO, "", timeout_s=5)


# By settings


async def outside(tmp_path: Path, **given: Any) -> Services:
    known = {"redis_url": "redis://h", "data_dir": tmp_path, "slack_bot_token": "x", "smtp_url": "smtp://h"}
    async with open_services(Settings(_env_file=None, **known, **given), start=False) as found:
        return found


ONE, OTHER = "https://one.example/v1", "https://two.example/v1"
FIRST = {
    "openai_base_url": ONE, "openai_api_key": "key-one", "openai_api": "chat", "openai_reasoning": "low",
    "openai_fallback_model": "b",
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "url", "key", "how"),
    [
        ({}, ONE, "key-one", ("chat", "low")),
        ({"base_url": ONE}, ONE, "key-one", ("chat", "low")),
        ({"base_url": OTHER}, OTHER, "none", ("auto", "auto")),
        ({"base_url": "http://one.example/v1"}, "http://one.example/v1", "none", ("auto", "auto")),
        ({"api_key": "key-two"}, ONE, "key-two", ("chat", "low")),
        ({"base_url": OTHER, "api_key": "key-two"}, OTHER, "key-two", ("auto", "auto")),
    ],
)
async def test_what_is_set_for_the_firsts_address_its_key_above_all_goes_to_no_other(
    tmp_path: Path, given: dict[str, str], url: str, key: str, how: tuple[str, str]
) -> None:
    found = await outside(tmp_path, **FIRST, **{f"openai_fallback_{name}": value for name, value in given.items()})
    first, second = found.model, found.fallback
    assert second is not None and (first.key, first.api, first.effort) == ("key-one", "chat", "low")
    assert (second.url, second.key, (second.api, second.effort)) == (url, key, how)
    assert not [one for one in ("SecretStr", "key-one", "key-two") if one in f"{first!r} {second!r}"]


async def test_the_banner_names_both_and_no_key(tmp_path: Path) -> None:
    told = format_banner(await outside(tmp_path, **FIRST, openai_fallback_base_url="https://u:pw@two.example/v1"))
    assert "gpt-6.1-terra at https://one.example/v1; while it is down b at https://" in told and "two.example" in told
    assert "key-one" not in told and "pw@" not in told
    assert "while it is down" not in format_banner(await outside(tmp_path, **{**FIRST, "openai_fallback_model": ""}))


# Asking again


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
    samples = [one for family in metrics.MODEL_RETRIES.collect() for one in family.samples]
    return sum(one.value for one in samples if one.name.endswith("_total") and one.labels["model"] == "m")


async def ask(model: OpenAIModel, timeout_s: float = 20) -> ModelReply:
    return await model.request_reply(HELLO, "", timeout_s=timeout_s)


@corpus("trouble", Raw(status=0), *(Raw(BUSY, status) for status in (408, 409, 429, 500, 503, 599)))
async def test_what_may_work_later_is_asked_again(trouble: Raw) -> None:
    async with asked([trouble, said("there"), said("there")]) as (serving, model, _):
        before = count_retries()
        reply = await ask(model)
        assert (reply.text, reply.model) == ("there", "m") and len(serving.asked) == 2
        assert count_retries() == before + 1, "what was made good is counted all the same"
        await ask(model)
        assert count_retries() == before + 1, "the control"
        assert serving.asked[0] == serving.asked[1]


@corpus(("trouble", "retries", "times"),
    *((trouble, n, n + 1) for trouble in (Raw(BUSY, 429), Raw(b"x", 500), Raw(status=0)) for n in (0, 1, 3)),
    (Raw(b"x", 500), 6, 7),
    (Raw(BUSY, 429, {"x-should-retry": "false"}), 1, 1),  # an endpoint that knows better is believed
)  # fmt: skip
async def test_after_the_last_try_it_is_down(trouble: Raw, retries: int, times: int) -> None:
    """The wait is drawn from a range that doubles up to a cap: full jitter, from nothing to all of it."""
    async with asked([trouble] * 9, retries=retries) as (serving, model, drawn):
        with pytest.raises(ModelUnavailableError):
            await ask(model)
        assert len(serving.asked) == times
    assert drawn.ranges[: times - 1] == [(0, most) for most in (0.5, 1, 2, 4, 8, 8)][: times - 1]


@corpus("headers",
    {"Retry-After": "0.3"},
    {"retry-after-ms": "300", "Retry-After": "30"},  # which is more exact
    {"Retry-After": "Thu, 01 Jan 1970 00:00:01 GMT"},
)  # fmt: skip
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
    slow = [Raw(b"x", 500, hold_s=0.4), *[Raw(hold_s=30)] * 5]
    async with asked(slow, retries=5) as (serving, model, _):
        began = asyncio.get_running_loop().time()
        with pytest.raises(ModelUnavailableError, match="no answer within"):
            await ask(model, 2.0)
        assert asyncio.get_running_loop().time() - began < 20 and len(serving.asked) == 2


async def test_somebody_who_stops_the_call_stops_its_waits() -> None:
    async with asked([Raw(BUSY, 503, {"Retry-After": "9"})] * 3) as (_, model, _drawn):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(model, 60), 0.3)


@given(st.one_of(st.text(), st.floats().map(str), st.integers().map(str)), st.text())
def test_whatever_the_header_says_the_wait_is_a_number(after: str, ms: str) -> None:
    found = parse_retry_after_s({"retry-after": after, "retry-after-ms": ms}, 0.0)
    assert 0 <= found < math.inf


@corpus("after", "", "-1", "0", "nan", "inf", "1e999", "soon", "Thu, 01 Jan 1970 00:00:00 GMT")
def test_what_cannot_be_meant_is_no_wish(after: str) -> None:
    assert parse_retry_after_s({"retry-after": after}, 5.0) == 0


async def test_the_key_is_in_no_log(stream: io.StringIO) -> None:
    configure_logging("DEBUG", json=True, stream=stream)
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
