"""What an endpoint wants back lives with its run and nowhere else: a restart goes on with it, its end takes it away."""

import base64
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from bot.core.records import Run, RunStatus
from bot.queue.writes import RPush, Set
from tests.agent.models.standins import StandIn, served
from tests.harness.answers import answers, by_results
from tests.harness.memory_bot import Bot, every_edge
from tests.harness.memory_platform import Edges
from tests.harness.scripted_model import Scripted
from tests.stories.script import DONE, calls, mail

SECRET = "x" * 20
"""What the stand-in encrypts."""


@asynccontextmanager
async def opened(bot: Bot) -> AsyncIterator[StandIn]:
    """The bot's model is at an endpoint that wants items back."""
    script: list[Scripted] = [by_results(calls(("list_people", {})), mail(), DONE)] * 99
    async with served("paired", script, api="responses") as (serving, model):
        bot.use_model(model)
        yield serving


async def load_paused_run(bot: Bot) -> Run:
    [waiting] = await bot.list_paused_runs()
    return await bot.runs.load_run(waiting.run)


async def values(redis: Redis) -> str:
    """All that Redis holds, unpacked."""
    found = list[str]()
    async for key in redis.scan_iter("*"):
        match await redis.type(key):
            case "string":
                found.append(str(await redis.get(key)))
            case "list":
                found += map(str, await redis.lrange(key, 0, -1))
            case "hash":
                found += map(str, (await redis.hgetall(key)).values())
            case "stream":
                found.append(str(await redis.xrange(key)))
    packed = [zlib.decompress(base64.b64decode(one[2:])).decode() for one in found if one.startswith("z:")]
    return "\n".join([*found, *packed])


@pytest.mark.slow
async def test_killed_anywhere_a_run_goes_on_with_what_its_endpoint_wants_back(redis: Redis) -> None:
    """The endpoint refuses whatever does not come back word for word, and what is refused would show."""
    async for edges in every_edge(redis, more_than=8):
        bot = Bot(redis)
        async with opened(bot) as serving:
            bot.end_at(edges)
            await bot.send("给李四发邮件")
            assert SECRET in await values(redis)
            await bot.press(bot.chat.cards()[0], "send")
            bot.chat.edge = bot.lanes.edge = Edges()
            assert answers(bot) == ["好的。"] and len(bot.mailer.mails) <= 1
            sent = [one["id"] for one in serving.asked[-1][1]["input"] if "id" in one]
            assert [pair for pair in serving.pairs if pair[0] in sent], "it came back"
            assert set(sent) <= {id for pair in serving.pairs for id in pair}
        assert SECRET not in await values(redis) and "rs_" not in await values(redis), "with the run it is gone"


async def test_neither_the_conversation_nor_an_export_nor_another_run_ever_has_it(redis: Redis) -> None:
    bot = Bot(redis)
    async with opened(bot) as serving:
        await bot.send("给李四发邮件")
        run = await load_paused_run(bot)
        assert run.state.provider_details and SECRET in str(run.state.provider_details)
        assert SECRET not in str(run.state.messages) + run.model_dump_json()
        assert SECRET not in str(await bot.list_history())
        before = len(serving.asked)
        await bot.send("在吗", id="Ev2")
        assert SECRET not in json.dumps(serving.asked[before][1]), "the next run begins without it"


@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.PAUSED])
async def test_an_earlier_version_reads_the_record_and_this_one_reads_its(redis: Redis, status: RunStatus) -> None:
    """The earlier one refuses any member of a record that it does not know, and looks at nothing beside it."""
    bot = Bot(redis)
    async with opened(bot):
        await bot.send("给李四发邮件")
    run = await load_paused_run(bot)
    run.status, run.stored_messages = status, 0
    writes = bot.runs.build_save_writes(run)
    text = next(one.value for one in writes if isinstance(one, Set))
    if status is RunStatus.PAUSED:
        whole = json.loads(zlib.decompress(base64.b64decode(text[2:])))
        told, messages = whole["record"], whole["messages"]
    else:
        told, lists = json.loads(text), [one for one in writes if isinstance(one, RPush)]
        messages = [json.loads(one) for one in lists[0].values]
        assert len(lists) == 2, "beside it"
    assert "provider_details" not in told["state"] and not any("provider_details" in one for one in messages)
    assert Run.model_validate(told).state.provider_details == {}
