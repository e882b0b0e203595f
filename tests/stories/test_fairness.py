"""One person's flood keeps nobody else waiting. Told by the order in which messages are handled, not by the clock."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence

import pytest

from bot.agent.model import ModelReply
from bot.queue import lanes
from bot.queue.keys import Keys
from tests.harness.office import GENERAL, LI, WANG, ZHANG, Office

HANDS = 4
"""Conversations at once in the only process."""
THREADS, EACH = 40, 5
SLOWNESS = 10
"""So many times longer than in production may the flood take to write: credit and cost are as much larger. Who writes
more slowly than a lane costs is rightly no flood any more, and a busy machine makes this one slow."""


class Noted:
    """A model that notes whose message it was given, in order; all wait until it is let."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.go_on = asyncio.Event()

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        await self.go_on.wait()
        self.order.append(re.findall(r"(?:F|L|W)\d+", str(json.loads(messages[-1])["content"]))[-1])
        return ModelReply(text="好的。")


async def floods(desk: Office, numbers: range, threads: list[str | None]) -> None:
    """Zhang San writes everywhere: the first place is his DM, the others are threads of the channel."""
    for number in numbers:
        if number == THREADS:  # every thread has begun
            await _acknowledged(desk)
        place = number % THREADS
        if place == 0:
            await desk.says(ZHANG, f"F{number}")
        elif threads[place] is None:
            threads[place] = await desk.driver.mention_bot(ZHANG, GENERAL, f"F{number}")
        else:
            await desk.says(ZHANG, f"F{number}", channel=GENERAL, thread=threads[place])
    await _acknowledged(desk)


async def _acknowledged(desk: Office) -> None:
    await desk.until(lambda: not desk.driver.ws.delivery.waiting)


async def test_a_flood_from_one_person_cannot_starve_others(empty: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "CREDIT_MS", SLOWNESS * lanes.CREDIT_MS)
    monkeypatch.setattr(lanes, "COST_MS", SLOWNESS * lanes.COST_MS)
    model, threads, every = Noted(), [None] * THREADS, THREADS * EACH
    async with empty.opened(model=model, concurrency=HANDS, steps="quiet"):
        await floods(empty, range(every // 2), threads)
        await empty.says(LI, "L1")
        await _acknowledged(empty)
        await floods(empty, range(every // 2, every), threads)
        await empty.says(WANG, "W1")
        await _acknowledged(empty)
        assert model.order == []
        model.go_on.set()
        await empty.until(lambda: len(model.order) == every + 2, 60)
        await empty.quiet()
    assert sorted(model.order) == sorted([*(f"F{n}" for n in range(every)), "L1", "W1"]), "nothing lost, nothing twice"
    turns = (HANDS + Keys().partitions) * EACH
    for other in ("L1", "W1"):
        place = model.order.index(other)
        assert place <= turns, "what is in hand, and the first conversation of each partition, may come before"
    for place in range(THREADS):
        own = [int(one[1:]) for one in model.order if one[0] == "F" and int(one[1:]) % THREADS == place]
        assert own == sorted(own), "and each conversation keeps its order"


async def test_who_writes_alone_is_not_held_up(empty: Office) -> None:
    """The control: with nobody else there a person has all hands."""
    model, threads = Noted(), [None] * THREADS
    model.go_on.set()
    async with empty.opened(model=model, concurrency=HANDS, steps="quiet"):
        await floods(empty, range(THREADS // 2), threads)
        await empty.until(lambda: len(model.order) == THREADS // 2, 20)
