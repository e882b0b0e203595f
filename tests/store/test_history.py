from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from bot.store.history import KEPT_MS, Entry, History, estimate
from bot.store.keys import Keys
from bot.store.writes import apply

DM = "slack:T1:D1"


async def add(history: History, *entries: tuple[str, str]) -> None:
    turn = [Entry.of(role, content) for role, content in entries]
    await apply(history.redis, history.keys, history.keys.partition(DM), [history.turn(DM, turn)])


def sent(role: str, content: str) -> int:
    """Tokens of an entry as it is sent."""
    return estimate(Entry.of(role, content).message)


async def contents(history: History) -> list[str]:
    return [entry.content for entry in (await history.load(DM)).entries]


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 1), ("abcd", 1), ("abcde", 2), ("请假十天", 4), ("请假 10 天", 4), ("🙂", 1)]
)
def test_the_estimate_counts_characters_of_wide_scripts_singly(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


async def test_entries_come_back_oldest_first_as_they_were(either: Redis, keys: Keys) -> None:
    history = History(either, keys)
    await add(history, ("user", '我要请假 | "10" 天'), ("assistant", "向谁申请？"))
    await add(history, ("user", "李四"), ("assistant", "好的 🙂"))
    assert await contents(history) == ['我要请假 | "10" 天', "向谁申请？", "李四", "好的 🙂"]
    assert 0 < await either.pttl(keys.key(keys.partition(DM), "h", DM)) <= KEPT_MS


async def test_the_oldest_go_when_there_are_too_many_tokens(either: Redis, keys: Keys) -> None:
    history = History(either, keys, max_tokens=2 * (sent("user", "u0xxxxxx") + sent("assistant", "a0xxxxxx")))
    for number in range(6):
        await add(history, ("user", f"u{number}" + "x" * 6), ("assistant", f"a{number}" + "x" * 6))
    kept = await contents(history)
    assert kept == ["u4xxxxxx", "a4xxxxxx", "u5xxxxxx", "a5xxxxxx"]
    found = [key async for key in either.scan_iter("*h:*")]
    assert found == [keys.key(keys.partition(DM), "h", DM)], "one key tells everything"


async def test_it_never_begins_with_an_answer_whose_question_is_gone(either: Redis, keys: Keys) -> None:
    history = History(either, keys, max_tokens=sent("user", "c" * 4) + 2 * sent("assistant", "d" * 4))
    await add(history, ("user", "a" * 8), ("assistant", "b" * 4))
    await add(history, ("user", "c" * 4), ("assistant", "d" * 4))
    assert await contents(history) == ["c" * 4, "d" * 4]
    raw = await either.lrange(keys.key(keys.partition(DM), "h", DM), 0, -1)
    assert len(raw) == 3


async def test_a_single_entry_over_the_limit_stays(either: Redis, keys: Keys) -> None:
    history = History(either, keys, max_tokens=5)
    await add(history, ("user", "x" * 400))
    assert len(await contents(history)) == 1


async def test_what_is_sent_is_sent_as_it_is_kept_without_the_run_that_is_going_on(either: Redis, keys: Keys) -> None:
    history = History(either, keys)
    mine, other = "R1", "R10"
    kept = [
        Entry.of("user", "tabs\tand | bars", run=other, said=f"|{mine}\t"),
        Entry.of("assistant", "好的", run=other),
        Entry.of("user", "now", run=mine, said="now"),
    ]
    await apply(either, keys, keys.partition(DM), [history.turn(DM, kept)])
    found = await history.load(DM)
    assert found.entries == kept
    assert found.sent(without="") == [one.message for one in kept]
    assert found.sent(without=mine) == [one.message for one in kept[:2]]


async def test_forgotten_is_forgotten(either: Redis, keys: Keys) -> None:
    history = History(either, keys)
    await add(history, ("user", "hello"))
    await apply(either, keys, keys.partition(DM), history.forget(DM))
    assert not await history.load(DM)
    assert [key async for key in either.scan_iter("*h:*")] == []
    await add(history, ("user", "again"))
    assert await contents(history) == ["again"]


@given(st.lists(st.lists(st.integers(1, 120), min_size=1, max_size=4), max_size=12), st.integers(15, 200))
@settings(max_examples=30, deadline=None)
async def test_the_sum_is_right_and_within_the_limit(turns: list[list[int]], limit: int) -> None:
    from fakeredis import FakeAsyncRedis

    redis, keys = FakeAsyncRedis(decode_responses=True, protocol=3, legacy_responses=False), Keys()
    history, key = History(redis, keys, max_tokens=limit), keys.key(keys.partition(DM), "h", DM)
    for lengths in turns:
        await add(history, *(("user", "x" * length) for length in lengths))
    values = await redis.lrange(key, 0, -1)
    kept = [int(value.partition(":")[0]) for value in values]
    given = [sent("user", "x" * length) for lengths in turns for length in lengths]
    assert kept == given[len(given) - len(kept) :], "the newest, none of them in between"
    more = len(given) > len(kept)
    assert sum(kept) <= limit or len(kept) == 1
    assert not more or sum(given[len(given) - len(kept) - 1 :]) > limit, "not one goes too early"
    await redis.aclose()
