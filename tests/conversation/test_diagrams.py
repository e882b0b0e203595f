"""Pictures: in the thread after the answer, or in the DM of who pressed; never for whom it does not concern."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from bot.core.errors import ChatUnavailableError
from bot.core.records import ApprovalState
from tests.harness.lab import Edges, Lab, every_edge
from tests.stories.script import DONE, calls
from tests.tools.office import SICK
from tools.workflow.engine.state import Status

SHOW = calls(("show_process", {"name": "L-0001"}))


async def looks(messages: Messages) -> ModelReply:
    return DONE if messages[-1]["role"] == "tool" else SHOW


async def asked(redis: Redis, *script: object) -> Lab:
    """A request that Li Si has a card for."""
    lab = Lab(redis, [*script])  # type: ignore[list-item]
    await lab.engine.start_request("leave", SICK, "U1", "start", lab.today())
    await lab.work()
    return lab


async def test_a_picture_that_is_asked_for_comes_to_the_thread_after_the_answer(redis: Redis) -> None:
    lab = await asked(redis, SHOW, DONE)
    await lab.says("看看 L-0001 的流程图")
    await lab.work()
    [shared] = lab.wall.shared
    assert shared.place.thread == "1.0" and shared.picture == b"zh: first_level"
    assert ("L-0001" in shared.title and "李四" in shared.alt) or "审批" in shared.alt


async def test_killed_anywhere_it_is_shown_once(redis: Redis) -> None:
    async def play(edges: Edges) -> None:
        await redis.flushall()
        lab = await asked(redis, *[looks] * 4)
        lab.wall.edge = lab.lanes.edge = edges
        await lab.says("看看 L-0001 的流程图")
        await lab.work()
        assert len(lab.wall.shared) == 1 and lab.wall.keys()[-1].endswith(":final")

    assert await every_edge(play) > 3


async def test_the_button_decides_nothing_and_answers_in_the_dm_of_who_pressed(redis: Redis) -> None:
    lab = await asked(redis)
    await lab.presses(lab.wall.cards("DU2")[0], "show", person="U2")
    await lab.work()
    [shared] = lab.wall.shared
    assert shared.place.channel == "DU2"
    assert (await lab.approval()).state is ApprovalState.OPEN and len(lab.wall.cards("DU2")) == 1
    assert (await lab.engine.get_request("L-0001")).status is Status.WAITING
    await lab.presses(lab.wall.cards("DU2")[0], "approve", person="U2")
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.APPROVED, "and the card works as before"


async def test_whom_it_does_not_concern_sees_nothing(redis: Redis) -> None:
    lab = await asked(redis, SHOW, DONE)
    await lab.presses(lab.wall.cards("DU2")[0], "show", person="U4")
    await lab.work()
    assert lab.wall.shared == [] and "This is for Li Si" in lab.wall.whispers[-1][1]
    await lab.says("show L-0001", person="U4")
    await lab.work()
    assert lab.wall.shared == [], "nor by asking"


async def test_a_platform_that_is_away_gets_it_later(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = await asked(redis)
    share, away = lab.wall.upload_picture, [ChatUnavailableError("unreachable", "files.upload")] * 2

    async def later(*args: object, **named: object) -> None:
        if away:
            raise away.pop()
        await share(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(lab.wall, "upload_picture", later)
    monkeypatch.setattr("bot.app.dispatch.WorkDispatcher.away_ms", 0, raising=False)
    await lab.presses(lab.wall.cards("DU2")[0], "show", person="U2")
    await lab.work()
    assert len(lab.wall.shared) == 1
