"""Cards that wait for a press, in the lab, and a press that dies at each place where its process can end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from redis.asyncio import Redis

from bot.agent.model import ModelReply
from tests.harness.lab import Edges, Lab, every_edge
from tests.stories.script import DONE, calls
from tests.tools.office import SICK

LEAVE = calls(("start_process", {"process": "leave", "form": SICK}))


async def opened(lab: Lab, text: str = "请假") -> Lab:
    """A message whose run waits for a card."""
    await lab.says(text)
    await lab.work()
    return lab


async def started(redis: Redis, *script: ModelReply) -> Lab:
    """A request that Li Si has a card for."""
    lab = await opened(Lab(redis, [LEAVE, DONE, *script]))
    await lab.presses(lab.wall.cards()[0], "confirm")
    await lab.work()
    assert lab.wall.cards("DU2")
    return lab


def edged(lab: Lab, edges: Edges) -> None:
    lab.wall.edge = lab.lanes.edge = edges


async def everywhere(redis: Redis, prepare: Callable[[], Awaitable[Lab]], act: Callable[[Lab], Awaitable[None]]) -> int:
    """Act once for each place at which the process can end; `act` itself asserts how it ended."""

    async def play(edges: Edges) -> None:
        await redis.flushall()
        lab = await prepare()
        edged(lab, edges)
        await act(lab)

    return await every_edge(play)
