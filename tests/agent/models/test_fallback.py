"""The second model: asked when the first is away, not when it refuses; and no key goes where it does not belong."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bot.agent.model import ModelReply
from bot.agent.models.fallback import DOWN_MAX_S, DOWN_S, FallbackModel
from bot.agent.models.openai_model import open_model
from bot.app.services import Services, open_services
from bot.app.settings import Settings
from bot.core.errors import ModelRejectedError, ModelUnavailableError
from bot.ops.cli.run import format_banner
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
                assert (
                    both.second.asked[0]["model"] == "b"
                    and both.second.asked[0]["messages"] == both.first.asked[0]["messages"]
                )
                assert both.first.keys == ["Bearer key-one"] and both.second.keys == ["Bearer key-two"]


async def test_before_its_last_try_and_for_what_the_first_refuses_nobody_else_is_asked() -> None:
    async with two(Raw(b"x", 500), retries=1) as both:
        assert (await both.ask()).model == "a" and both.asked == (2, 0)
    async with two(Raw({}, 400)) as both:
        with pytest.raises(ModelRejectedError):
            await both.ask()
        assert both.asked == (1, 0)
        assert (await both.ask()).model == "a", "a refusal is no outage"


async def test_while_the_first_is_known_to_be_down_it_is_left_alone() -> None:
    async with two(Raw(b"x", 500)) as both:
        await both.ask()
        both.now = DOWN_S - 0.1
        assert (await both.ask()).model == "b" and both.asked == (1, 2)
        both.now = DOWN_S
        assert (await both.ask()).model == "a" and both.asked == (2, 2), "and then it is found to be back"
        assert (await both.ask()).model == "a"


@pytest.mark.parametrize(("after", "until"), [("100", 100.0), ("9000", DOWN_MAX_S), ("0.1", DOWN_S)])
async def test_for_as_long_as_it_asks_within_bounds(after: str, until: float) -> None:
    async with two(Raw({}, 429, {"Retry-After": after})) as both:
        await both.ask()
        both.now = until - 0.1
        assert (await both.ask()).model == "b"
        both.now = until
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
    model = FallbackModel(
        first=ScriptedModel([ModelUnavailableError("away")]), second=ScriptedModel([ModelRejectedError("no")])
    )
    with pytest.raises(ModelRejectedError):
        await model.request_reply(HELLO, "", timeout_s=5)


# By settings


async def outside(tmp_path: Path, **given: Any) -> Services:
    known = {"redis_url": "redis://h", "data_dir": tmp_path, "slack_bot_token": "x", "smtp_url": "smtp://h"}
    async with open_services(Settings(_env_file=None, **known, **given), start=False) as found:
        return found


FIRST = {"openai_base_url": "https://one.example/v1", "openai_api_key": "key-one", "openai_fallback_model": "b"}


@pytest.mark.parametrize(
    ("given", "url", "key"),
    [
        ({}, "https://one.example/v1", "key-one"),
        ({"openai_fallback_base_url": "https://one.example/v1"}, "https://one.example/v1", "key-one"),
        ({"openai_fallback_base_url": "https://two.example/v1"}, "https://two.example/v1", "none"),
        ({"openai_fallback_base_url": "http://one.example/v1"}, "http://one.example/v1", "none"),
        ({"openai_fallback_api_key": "key-two"}, "https://one.example/v1", "key-two"),
        (
            {"openai_fallback_base_url": "https://two.example/v1", "openai_fallback_api_key": "key-two"},
            "https://two.example/v1",
            "key-two",
        ),
    ],
)
async def test_the_firsts_key_goes_to_its_own_address_only(
    tmp_path: Path, given: dict[str, str], url: str, key: str
) -> None:
    found = await outside(tmp_path, **FIRST, **given)
    assert found.fallback is not None
    assert (found.model.key, found.fallback.url, found.fallback.key) == ("key-one", url, key)


async def test_the_banner_names_both_and_no_key(tmp_path: Path) -> None:
    told = format_banner(await outside(tmp_path, **FIRST, openai_fallback_base_url="https://u:pw@two.example/v1"))
    assert "gpt-6.1-terra at https://one.example/v1; while it is down b at https://" in told and "two.example" in told
    assert "key-one" not in told and "pw@" not in told
    assert "while it is down" not in format_banner(await outside(tmp_path, **{**FIRST, "openai_fallback_model": ""}))
