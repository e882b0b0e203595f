"""The harness itself: what fails beside a run ends it, a struck Redis comes back, what is looked for at the end stands
where the work is, and what the scripted model says can be used."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from bot.core.history_entries import HistoryEntry
from bot.features.grounding.feature import UNCALLED, build_correction_request
from bot.features.summaries.summary import EarlierTurns, Summarizer
from bot.queue.lanes import Lanes
from bot.queue.writes import SetTimer, apply_writes
from bot.redis.connect import connect_redis
from tests.features.grounding.battery import nobody
from tests.harness.scripted_model import ScriptedModel
from tests.qa.chaos.facts import KEYS, left
from tests.qa.chaos.model import reply
from tests.qa.chaos.people import buttons_of
from tests.qa.chaos.plan import CALM, OWNED, PROXIED, REPLICATED, Wanted, planned
from tests.qa.chaos.run import alive
from tests.qa.chaos.store import Absent, Store, opened

SMALL = Wanted(1, 1, 1, 1, seconds=0.2, faults=("redis",), rates=CALM)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["embedded", "server"])
async def test_a_redis_that_is_away_already_comes_back_after_a_strike(tmp_path: Path, kind: str) -> None:
    try:
        async with opened(kind, tmp_path) as store:
            assert store.kill is not None
            await store.kill(0)
            await store.strike(0, 0.01)
            client = await connect_redis(store.url, retries=1)
            await client.aclose()
    except Absent as absent:
        pytest.skip(str(absent))


def test_nobody_breaks_somebody_elses_redis() -> None:
    assert Store("redis://elsewhere").impossible == (*PROXIED, *REPLICATED, *OWNED)


async def broken(_: int) -> None:
    raise ValueError("a mistake of the harness")


async def test_whatever_fails_beside_a_run_ends_it_at_once() -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="a mistake")):
        async with asyncio.timeout(30), alive(planned(SMALL), "embedded") as running:
            running.store = replace(running.store, kill=broken)
            running.crew.create_task(running.strikes())
            await asyncio.Event().wait()


async def test_work_that_waits_or_is_held_is_seen_and_a_timer_is_none_yet(redis: Redis) -> None:
    partition = KEYS.get_partition("a lane")
    lanes, schedule = Lanes(redis, KEYS), KEYS.build_key(partition, "z")
    assert await left(redis) == []
    await lanes.enqueue("a lane", "an item", "{}")
    assert [one.endswith(":z a lane") for one in await left(redis)] == [True]
    [lease] = await lanes.claim("somebody", partition, 1)
    assert await left(redis)
    await redis.delete(schedule)  # as no script of ours does
    stranded = await left(redis)
    assert any(":in:" in one for one in stranded) and any("held" in one for one in stranded)
    await lease.commit()
    await redis.delete(schedule)
    assert await left(redis) == []
    await apply_writes(redis, KEYS, partition, [SetTimer("a lane", "expire:A:1", 9_999_999_999_999, "{}")])
    assert await left(redis) == []
    assert await redis.zrange(KEYS.build_key(partition, "t"), 0, -1) == ["expire:A:1"]


def test_buttons_of_others_are_none_of_ours() -> None:
    own = {"type": "button", "action_id": "cs:confirm", "value": "A03x.2"}
    foreign = {"type": "button", "action_id": "link", "value": "A03x.2"}
    [button] = buttons_of({"blocks": [{"type": "actions", "elements": [own, foreign]}]})
    assert (button.choice, button.approval, button.version) == ("confirm", "A03x", 2)


async def test_the_model_sums_up_older_turns() -> None:
    async def answer(messages: Messages) -> ModelReply:
        return ModelReply(text=str(reply(messages)["content"]))

    turns = [HistoryEntry.from_content("user", "#c1-0 plain"), HistoryEntry.from_content("assistant", "answer #c1-0")]
    draft = await Summarizer(ScriptedModel([answer]), nobody).draft_summary(EarlierTurns(turns, UTC), 600)
    assert draft.lines and not draft.failure and not draft.dropped


def test_an_answer_without_a_call_stands() -> None:
    asked = build_correction_request("answer #c1-0", UNCALLED, ())
    assert reply(list(map(json.loads, asked)))["content"] == ""
