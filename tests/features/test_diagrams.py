"""Pictures: in the thread after the answer, or in the DM of who pressed; never for whom it does not concern."""

import pytest
from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from bot.core.errors import ChatRefusedError, ChatUnavailableError
from bot.core.records import ApprovalState
from tests.harness.memory_bot import Bot
from tests.harness.presses import everywhere
from tests.stories.script import DONE, calls
from tests.tools.office import SICK
from tools.workflow.engine.state import Status

SHOW = calls(("show_process", {"name": "L-0001"}))


async def looks(messages: Messages) -> ModelReply:
    return DONE if messages[-1]["role"] == "tool" else SHOW


async def asked(redis: Redis, *script: object) -> Bot:
    """A request that Li Si has a card for."""
    bot = Bot(redis, [*script])  # type: ignore[list-item]
    await bot.start_request("leave", SICK, "U1", "start")
    return bot


async def test_a_picture_that_is_asked_for_comes_to_the_thread_and_to_whom_it_concerns(redis: Redis) -> None:
    bot = await asked(redis, SHOW, DONE)
    await bot.send("看看 L-0001 的流程图")
    [shared] = bot.chat.pictures
    assert shared.place.thread == "1.0" and shared.picture == b"zh: first_level"
    assert (shared.title, shared.alt) == ("请假申请 L-0001 的流程", "请假申请 L-0001 的流程，现在在：审批")
    await bot.press(bot.chat.cards("DU2")[0], "show", person="U4")
    assert bot.chat.pictures == [shared] and "Only Li Si can decide" in bot.chat.ephemerals[-1][1]
    bot.model.script += [SHOW, DONE]
    await bot.send("show L-0001", person="U4", id="Ev2")
    assert bot.chat.pictures == [shared], "nor by asking"


async def test_killed_anywhere_it_is_shown_once(redis: Redis) -> None:
    async for bot in everywhere(redis, lambda: asked(redis, *[looks] * 4), more_than=3):
        await bot.send("看看 L-0001 的流程图")
        assert len(bot.chat.pictures) == 1 and bot.chat.keys()[-1].endswith(":final")


async def test_the_button_decides_nothing_and_answers_in_the_dm_of_who_pressed(redis: Redis) -> None:
    bot = await asked(redis)
    await bot.press(bot.chat.cards("DU2")[0], "show", person="U2")
    [shared] = bot.chat.pictures
    assert shared.place.channel == "DU2"
    assert (await bot.load_approval()).state is ApprovalState.OPEN and len(bot.chat.cards("DU2")) == 1
    assert (await bot.engine.get_request("L-0001")).status is Status.WAITING
    await bot.press(bot.chat.cards("DU2")[0], "approve", person="U2")
    assert (await bot.engine.get_request("L-0001")).status is Status.APPROVED, "and the card works as before"


async def test_a_platform_that_is_away_gets_it_later(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = await asked(redis)
    share, away = bot.chat.upload_picture, [ChatUnavailableError("unreachable", "files.upload")] * 2

    async def later(*args: object, **named: object) -> None:
        if away:
            raise away.pop()
        await share(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(bot.chat, "upload_picture", later)
    await bot.press(bot.chat.cards("DU2")[0], "show", person="U2")
    assert len(bot.chat.pictures) == 1


async def test_who_asked_for_a_picture_that_the_platform_refuses_is_told(redis: Redis) -> None:
    bot = await asked(redis)
    bot.chat.fails["upload DU2"] = [ChatRefusedError("missing_scope", "files.upload")] * 9
    await bot.press(bot.chat.cards("DU2")[0], "show", person="U2")
    assert not bot.chat.pictures and "试了几次都没能处理" in bot.chat.texts("DU2")[-1]
