"""A rolling restart under load: one process is asked to end, the others continue; no writer notices."""

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from bot.core.cancellation import cancel_and_wait
from bot.platforms.slack.web_api import LIMITED
from bot.queue.keys import Keys
from bot.storage.journal import Journal
from tests.harness.office import GENERAL, LI, PATIENCE_S, WANG, ZHANG, ZHAO, Office, read_message_key
from tests.harness.store_changes import wait_for_store

GRACE_S = 25.0
AS_IN_PRODUCTION = {"LEASE_SECONDS": "20"}
"""A lease so long that a living process never loses one; other stories have short ones and wait for them to run out."""
PEOPLE = (ZHANG, LI, WANG, ZHAO)
MOST_UNANSWERED = 16
"""Messages that wait for an answer at once. Without a bound a busy machine is given more than it can answer in time."""
LEAVE = "我想请假"


@contextlib.asynccontextmanager
async def watching(redis: Redis) -> AsyncIterator[Counter[str]]:
    """Look at every lane whenever anything changes in the store: count its tries, and the reasons for retries other
    than the workspace's rate limit."""
    seen = Counter[str]()

    async def look() -> bool:
        for lane in [key async for key in redis.scan_iter("cs:*:st:*", count=1000)]:
            tries, error = await redis.hmget(lane, ["tries", "error"])
            seen.update([f"{tries or 0} tries", *([error] if error and not error.endswith(LIMITED) else [])])
        return False

    looking = asyncio.create_task(wait_for_store(redis, look, timeout_s=600))
    try:
        yield seen
    finally:
        await cancel_and_wait([looking])


async def writes(office: Office, enough: asyncio.Event) -> int:
    """Let everybody write in their DM, and in their own thread in the channel, again and again, as long as few messages
    are unanswered; return the number of messages."""
    written = 0
    while not enough.is_set():
        for person in PEOPLE:
            await office.says(person, f"{LEAVE}（{written}）")
            await office.driver.mention_bot(person, GENERAL, LEAVE)
            written += 2
            await office.until(lambda n=written: n - answers(office) < MOST_UNANSWERED or enough.is_set(), 60)
    return written


def answers(office: Office) -> int:
    return sum(len(office.finals(channel)) for channel in [GENERAL, *map(office.dm, PEOPLE)])


async def finished(redis: Redis, count: int) -> list[str]:
    """Return the runs that have ended, once there are that many."""
    found = [one.run async for one in Journal(redis, Keys()).stream_records(kinds=["run.finished"])]
    return found if len(found) >= count else []


@pytest.mark.slow
async def test_a_rolling_restart_under_load_loses_nothing_and_redoes_nothing(empty: Office, redis: Redis) -> None:
    enough = asyncio.Event()
    async with (
        empty.spawned(**AS_IN_PRODUCTION) as leaving,
        empty.spawned(**AS_IN_PRODUCTION) as staying,
        watching(redis) as seen,
    ):
        await empty.driver.wait_for_sockets(2)
        writing = asyncio.create_task(writes(empty, enough))
        await empty.until(lambda: answers(empty) >= 4)
        leaving.child.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(leaving.child.wait(), PATIENCE_S + GRACE_S) == 0
        assert len(empty.driver.ws.sockets.list_live_links()) == 1
        enough.set()
        written = await writing
        await empty.until(lambda: answers(empty) == written, 60)
        runs = await wait_for_store(redis, lambda: finished(redis, written))
        assert staying.child.returncode is None
    assert "1 tries" in seen and {*seen} <= {"0 tries", "1 tries"}, "nothing was begun twice, nothing cut off"
    posted = Counter(read_message_key(post) for channel in empty.channels() for post in empty.posts(channel))
    assert [key for key, times in posted.items() if times > 1] == []
    assert len(runs) == len(set(runs)) == written
    assert empty.driver.ws.delivery.abandoned_events == []


@pytest.mark.slow
async def test_asked_twice_it_ends_at_once_and_the_work_is_handed_over_uncounted(empty: Office, redis: Redis) -> None:
    """It is asked while Zhang San's request has its first step, and gets nothing new any more."""
    here = empty.dm(ZHANG)
    async with empty.spawned(STEPS="replies", **AS_IN_PRODUCTION) as leaving:
        empty.once(lambda: empty.steps(here), empty.answering.clear)  # the model thinks from the first step on
        await empty.says(ZHANG, LEAVE)
        await empty.until(lambda: empty.steps(here))
        asked = time.monotonic()
        leaving.child.terminate()
        await empty.until(lambda: not empty.driver.ws.sockets.list_live_links())
        leaving.child.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(leaving.child.wait(), PATIENCE_S) == 0
        assert time.monotonic() - asked < GRACE_S, "not the grace"
    [lane] = [key async for key in redis.scan_iter("cs:*:st:*")]
    assert await redis.hmget(lane, ["tries", "error", "token"]) == ["0", "handed over", None]
    empty.answering.set()
    async with empty.opened():
        await empty.until(lambda: empty.finals(here))
        await empty.quiet()
    keys = [read_message_key(post) for post in empty.posts(here)]
    assert len(keys) == len(set(keys))
