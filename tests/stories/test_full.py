"""More messages than a conversation holds: said once, nothing that was taken is dropped, and the end is said too."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence

import pytest

from bot.agent.model import ModelReply
from tests.harness.office import LI, ZHANG, Office, read_message_key, read_message_text

FULL, CAUGHT_UP = "新消息暂时收不下", "之前排队的消息都处理完了"
CAP = 3


class Repeats:
    """A model that says what it was told, when it is let."""

    def __init__(self, office: Office) -> None:
        self.office = office

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        await self.office.answering.wait()
        return ModelReply(text="听到：" + str(json.loads(messages[-1])["content"]))


@pytest.fixture
async def small(empty: Office) -> AsyncIterator[Office]:
    async with empty.opened(model=Repeats(empty), tuned={"max_lane_items": CAP}):
        yield empty


async def flooded(desk: Office, first: int, last: int) -> None:
    """Zhang San writes while the model thinks; each is acknowledged before the next one is written."""
    for number in range(first, last + 1):
        acks = len(desk.driver.acks)
        await desk.says(ZHANG, f"第{number}句")
        await desk.until(lambda acks=acks: len(desk.driver.acks) > acks)  # type: ignore[misc]


def told(desk: Office, words: str) -> list[str]:
    return [text for one in desk.posts(desk.dm(ZHANG)) if words in (text := read_message_text(one))]


def heard(desk: Office) -> list[int]:
    """Which of his messages were answered, in order."""
    finals = desk.finals(desk.dm(ZHANG))
    return [number for text in finals for number in range(1, 20) if f"第{number}句" in text]


async def test_an_overflow_is_said_once_and_its_end_too_and_what_was_taken_is_answered(small: Office) -> None:
    small.answering.clear()
    await flooded(small, 1, CAP + 5)
    assert len(told(small, FULL)) == 1 and not told(small, CAUGHT_UP)
    small.answering.set()
    await small.until(lambda: told(small, CAUGHT_UP))
    await small.quiet()
    assert heard(small) == [1, 2, 3], "what was taken is answered, in order, nothing else"
    assert "lane.full" in await small.kinds() and "lane.caught_up" in await small.kinds()
    posts = small.posts(small.dm(ZHANG))
    assert CAUGHT_UP in read_message_text(posts[-1]), "said after the last answer"
    threads = {
        one.get("thread_ts") for one in posts if FULL in read_message_text(one) or CAUGHT_UP in read_message_text(one)
    }
    assert len(threads) == 1, "where it began"
    assert all(one["retry_attempt"] == 0 for one in small.driver.sent_envelopes if one["type"] == "events_api")


async def test_the_next_overflow_is_said_again(small: Office) -> None:
    for times in (1, 2):
        small.answering.clear()
        await flooded(small, 1, CAP + 2)
        assert len(told(small, FULL)) == times
        small.answering.set()
        await small.until(lambda times=times: len(told(small, CAUGHT_UP)) == times)  # type: ignore[misc]
        await small.quiet()
    assert heard(small) == [1, 2, 3] * 2


async def test_within_its_cap_nothing_is_said_and_others_have_room(small: Office) -> None:
    small.answering.clear()
    await flooded(small, 1, CAP)
    assert not told(small, FULL)
    await flooded(small, CAP + 1, CAP + 1)
    await small.says(LI, "help")
    await small.until(lambda: small.finals(small.dm(LI)))
    small.answering.set()
    await small.until(lambda: told(small, CAUGHT_UP))


async def test_a_notice_that_could_not_be_said_is_said_when_the_platform_asks_again(small: Office) -> None:
    small.answering.clear()
    await flooded(small, 1, CAP)
    small.driver.fail_next_call("chat.postMessage", "msg_too_long")
    await small.says(ZHANG, "第4句")
    await small.until(lambda: told(small, FULL))
    await flooded(small, 5, 6)
    small.answering.set()
    await small.until(lambda: told(small, CAUGHT_UP))
    await small.quiet()
    assert len(told(small, FULL)) == len(told(small, CAUGHT_UP)) == 1
    keys = [read_message_key(one) for one in small.posts(small.dm(ZHANG))]
    assert len(keys) == len(set(keys))
