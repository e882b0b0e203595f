from collections.abc import Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from bot.core.history_entries import HistoryEntry, estimate_tokens
from bot.features.summaries.compaction import (
    MAX_COMPACTED_ENTRIES,
    MAX_COMPACTED_TOKENS,
    CompactionRange,
    build_compaction_write,
    choose_compaction_range,
)
from bot.queue.keys import Keys
from bot.queue.writes import Write, apply_writes
from bot.storage.history import RETENTION_MS, ConversationHistory, HistoryStore, HistorySummary

DM = "slack:T1:D1"


@pytest.fixture
def history(either: Redis, keys: Keys) -> HistoryStore:
    return HistoryStore(either, keys)


def bounded(history: HistoryStore, tokens: int) -> HistoryStore:
    return HistoryStore(history.redis, history.keys, max_tokens=tokens)


def key_of(history: HistoryStore) -> str:
    return history.keys.build_key(history.keys.get_partition(DM), "h", DM)


async def apply(history: HistoryStore, *writes: Write) -> str:
    return await apply_writes(history.redis, history.keys, history.keys.get_partition(DM), writes)


async def add(history: HistoryStore, *entries: tuple[str, str]) -> None:
    await apply(history, history.build_turn_write(DM, [HistoryEntry.from_content(*one) for one in entries]))


def sent(role: str, content: str) -> int:
    """Tokens of an entry as it is sent."""
    return estimate_tokens(HistoryEntry.from_content(role, content).message)


async def contents(history: HistoryStore) -> list[str]:
    return [entry.content for entry in (await history.load_history(DM)).entries]


def list_texts(history: ConversationHistory, without: str = "") -> list[str]:
    """List the messages as they are sent, with a line per call."""
    return [one.message for one in history.list_messages(without=without)]


def list_runs(entries: Iterable[HistoryEntry]) -> list[str]:
    """List the runs, of a question and an answer each."""
    return [one.run for one in entries][::2]


def test_the_estimate_counts_characters_of_wide_scripts_singly() -> None:
    estimates = {"": 1, "abcd": 1, "abcde": 2, "请假十天": 4, "请假 10 天": 4, "🙂": 1}
    assert {text: estimate_tokens(text) for text in estimates} == estimates


async def test_entries_come_back_oldest_first_as_they_were(history: HistoryStore) -> None:
    await add(history, ("user", '我要请假 | "10" 天'), ("assistant", "向谁申请？"))
    await add(history, ("user", "李四"), ("assistant", "好的 🙂"))
    assert await contents(history) == ['我要请假 | "10" 天', "向谁申请？", "李四", "好的 🙂"]
    assert 0 < await history.redis.pttl(key_of(history)) <= RETENTION_MS


async def test_it_never_begins_with_an_answer_whose_question_is_gone(history: HistoryStore) -> None:
    history = bounded(history, sent("user", "c" * 4) + 2 * sent("assistant", "d" * 4))
    await add(history, ("user", "a" * 8), ("assistant", "b" * 4))
    await add(history, ("user", "c" * 4), ("assistant", "d" * 4))
    assert await contents(history) == ["c" * 4, "d" * 4]
    assert await history.redis.llen(key_of(history)) == 3


async def test_what_is_sent_is_sent_as_it_is_kept_without_the_run_that_is_going_on(history: HistoryStore) -> None:
    mine, other = "R1", "R10"
    kept = [
        HistoryEntry.from_content("user", "tabs\tand | bars", run=other, said=f"|{mine}\t"),
        HistoryEntry.from_content("assistant", "好的", run=other),
        HistoryEntry.from_content("user", "now", run=mine, said="now"),
    ]
    await apply(history, history.build_turn_write(DM, kept))
    found = await history.load_history(DM)
    assert found.entries == kept
    assert list_texts(found) == [one.message for one in kept]
    assert list_texts(found, without=mine) == [one.message for one in kept[:2]]


@given(st.lists(st.lists(st.integers(1, 120), min_size=1, max_size=4), max_size=12), st.integers(15, 200))
@example([[120], [120]], 15)
@settings(max_examples=30, deadline=None)
async def test_the_sum_is_right_and_within_the_limit(turns: list[list[int]], limit: int) -> None:
    from fakeredis import FakeAsyncRedis

    redis = FakeAsyncRedis(decode_responses=True, protocol=3, legacy_responses=False)
    history = HistoryStore(redis, Keys(), max_tokens=limit)
    for lengths in turns:
        await add(history, *(("user", "x" * length) for length in lengths))
    kept = [int(value.partition(":")[0]) for value in await redis.lrange(key_of(history), 0, -1)]
    given = [sent("user", "x" * length) for lengths in turns for length in lengths]
    assert kept == given[len(given) - len(kept) :], "the newest, none of them in between"
    assert kept or not given, "a single entry stays, however long"
    assert sum(kept) <= limit or len(kept) == 1
    assert len(given) == len(kept) or sum(given[len(given) - len(kept) - 1 :]) > limit, "not one goes too early"
    await redis.aclose()


# Folding


def turn(number: int, length: int = 40) -> list[HistoryEntry]:
    texts = (("user", f"u{number}" + "x" * length), ("assistant", f"a{number}"))
    return [HistoryEntry.from_content(role, text, run=f"R{number}", at_ms=number * 1000) for role, text in texts]


async def filled(history: HistoryStore, *numbers: int) -> ConversationHistory:
    for number in numbers:
        await apply(history, history.build_turn_write(DM, turn(number)))
    return await history.load_history(DM)


def noted(part: CompactionRange, *lines: str) -> HistorySummary:
    message = HistoryEntry.from_content("user", "<summary >" + "".join(lines)).message
    about = {"since_ms": part.since_ms, "until_ms": part.until_ms, "turns": part.turn_count, "has_gap": part.missed}
    return HistorySummary(message=message, lines=lines, **about)


async def fold(history: HistoryStore, part: CompactionRange, *lines: str) -> str:
    return await apply(history, build_compaction_write(history, DM, part, noted(part, *lines)))


def part_of(known: ConversationHistory, *waiting: str) -> CompactionRange:
    part = choose_compaction_range(known, waiting)
    assert part is not None
    return part


def assert_counted_once(known: ConversationHistory) -> None:
    assert known.tokens == sum(map(estimate_tokens, list_texts(known))), "each counts once, the summary too"


async def test_a_summary_stands_in_the_place_of_the_oldest_turns(history: HistoryStore) -> None:
    part = part_of(await filled(history, *range(6)))
    assert list_runs(part.entries) == ["R0", "R1", "R2"] and not part.missed
    assert await fold(history, part, "one\ttab", "行二") == "ok"
    after = await history.load_history(DM)
    assert after.summary == noted(part, "one\ttab", "行二") and after.summary.turns == 3
    assert (after.summary.since_ms, after.summary.until_ms) == (0, 2000)
    assert list_runs(after.entries) == ["R3", "R4", "R5"] and not after.has_gap
    assert list_texts(after, without="R5") == [after.summary.message, *[one.message for one in after.entries[:4]]]
    assert_counted_once(after)
    assert 0 < await history.redis.pttl(key_of(history)) <= RETENTION_MS
    assert [key async for key in history.redis.scan_iter("*h:*")] == [key_of(history)]
    await apply(history, *history.build_forget_writes(DM))
    assert not await history.load_history(DM) and [key async for key in history.redis.scan_iter("*h:*")] == []
    await add(history, ("user", "again"))
    assert await contents(history) == ["again"]


async def test_the_summary_counts_and_stays_while_turns_go(history: HistoryStore) -> None:
    history = bounded(history, 300)
    assert await fold(history, part_of(await filled(history, *range(4))), "x" * 200) == "ok"
    known = await filled(history, *range(4, 12))
    assert known.summary is not None and known.summary.turns == 2 and known.has_gap
    assert 200 < known.tokens <= 300 and known.entries[-1].run == "R11"
    assert part_of(known).missed, "and the next one says so"


async def test_what_was_dropped_while_it_was_folded_is_in_the_summary_all_the_same(history: HistoryStore) -> None:
    history = bounded(history, 300)
    for start in (0, 20):
        part = part_of(await filled(history, *range(start, start + 10)))
        known = await filled(history, start + 10, start + 11)
        assert known.stored_entries[0] not in part.before[:2], "the oldest had to go"
        assert await fold(history, part, f"from {start}") == "ok"
        after = await history.load_history(DM)
        assert after.summary == noted(part, f"from {start}") and not after.has_gap
        assert after.entries[-1].run == f"R{start + 11}"


async def test_it_is_refused_where_these_turns_are_not_there_any_more(history: HistoryStore) -> None:
    history = bounded(history, 300)
    part = part_of(await filled(history, *range(6)))
    assert [await fold(history, part, "a"), await fold(history, part, "b")] == ["ok", "changed"]
    part = part_of(await filled(history, *range(6, 9)))
    await filled(history, *range(9, 20))
    assert await fold(history, part, "c") == "changed", "all of them had to go"
    part = part_of(await history.load_history(DM))
    await apply(history, *history.build_forget_writes(DM))
    assert await fold(history, part, "d") == "changed" and not await history.load_history(DM)
    known = await filled(history, 30, 31)
    assert await fold(history, part, "e") == "changed" and await history.load_history(DM) == known


async def test_turns_that_wait_stay_as_they_are_and_so_does_the_newest(history: HistoryStore) -> None:
    part = part_of(await filled(history, *range(6)), "R0", "R2")
    assert list_runs(part.entries) == ["R1", "R3", "R4"]
    assert await fold(history, part, "x") == "ok"
    after = await history.load_history(DM)
    assert list_runs(after.entries) == ["R0", "R2", "R5"] and not after.has_gap
    assert_counted_once(after)
    assert choose_compaction_range(after, {"R0", "R2"}) is None
    assert choose_compaction_range(ConversationHistory(stored_entries=()), ()) is None
    later = part_of(await filled(history, 6))
    assert later.entries[0].run == "R0", "its turn comes once it has ended"
    assert (later.since_ms, later.turn_count) == (0, 6)


async def test_never_half_a_turn(history: HistoryStore) -> None:
    asked, answered = turn(0, 400)
    waits = HistoryEntry.from_content("assistant", "waits", run="R0")
    await apply(history, history.build_turn_write(DM, [asked, waits]))
    await filled(history, 1, 2, 3)
    await apply(history, history.build_turn_write(DM, [answered]))
    part = part_of(await filled(history, 4))
    assert {one.run for one in part.entries} == {"R0"} and len(part.entries) == 3 and len(part.remaining) == 6
    assert await fold(history, part, "x") == "ok"
    after = await history.load_history(DM)
    assert list_runs(after.entries) == ["R1", "R2", "R3", "R4"]
    assert_counted_once(after)


async def test_a_long_history_is_folded_in_parts_that_one_script_can_take(redis: Redis, keys: Keys) -> None:
    history = HistoryStore(redis, keys, max_tokens=10_000_000)
    entries = [one for number in range(50_000) for one in turn(number)]
    for start in range(0, len(entries), 1_000):
        await apply(history, history.build_turn_write(DM, entries[start : start + 1_000]))
    known = await history.load_history(DM)
    part = part_of(known)
    assert len(known.stored_entries) == 100_000 and len(part.before) <= MAX_COMPACTED_ENTRIES
    assert sum(estimate_tokens(one.message) for one in part.entries) < MAX_COMPACTED_TOKENS + 200
    assert await fold(history, part, "x") == "ok"
