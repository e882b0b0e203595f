"""The tool that does nothing: what is thought with it is the model's own."""

import json

from redis.asyncio import Redis

from bot.agent.model import ModelReply
from tests.harness.memory_bot import Bot
from tests.stories.script import calls


async def test_a_thought_stays_in_the_run_and_is_not_shown(redis: Redis) -> None:
    thought = "五天要二级审批，还缺审批人。"
    bot = Bot(redis, [calls(("think", {"thought": thought})), ModelReply(text="请谁审批？")], think_tool="on")
    await bot.send("请五天假")
    *_, called, observed = bot.model.requests[1]
    assert thought in json.dumps(called, ensure_ascii=False).replace("\\", "")
    assert observed["role"] == "tool" and json.loads(observed["content"]) == {"noted": True}
    assert thought not in "\n".join(bot.chat.texts()) and not bot.chat.cards()
