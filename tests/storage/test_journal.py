import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.core.errors import StoreUnavailableError
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.storage.journal import Journal, JournalRecord, parse_age_ms
from tests.harness.lanes import pass_moment


async def lines(journal: Journal, **wanted: object) -> list[str]:
    return [record.text async for record in journal.stream_records(**wanted)]  # type: ignore[arg-type]


async def test_a_record_comes_back_as_it_was_written(either: Redis, keys: Keys) -> None:
    journal = Journal(either, keys)
    about, more = {"run": "R1", "person": "U1", "channel": "C1", "text": "查人"}, {"tool": "list_people", "ms": 12}
    await journal.append_record("D1", "step", **about, **more)
    [record] = [record async for record in journal.stream_records()]
    assert record == JournalRecord(at_ms=record.at_ms, id=record.id, kind="step", **about, more=more)
    assert record.id.startswith(str(record.at_ms))


async def test_an_entry_is_written_by_the_commit_of_its_lane_and_chosen_by_fields(either: Redis, keys: Keys) -> None:
    lanes, journal = Lanes(either, keys), Journal(either, keys)
    await lanes.enqueue("D1", "E1", "{}")
    [lease] = await lanes.claim("me", keys.get_partition("D1"), 1)
    await lease.commit(journal.build_record_write("D1", "final", text="done"))
    assert await lines(journal) == ["done"]
    await journal.append_record("D1", "step", run="R1", person="U1", channel="C1", text="1")
    await journal.append_record("D2", "final", run="R1", person="U2", channel="C1", text="2")
    await journal.append_record("D3", "step", run="R2", person="U1", channel="C2", text="3")
    assert sorted(await lines(journal, kinds=["step"])) == ["1", "3"]  # of one millisecond, maybe: they have no order
    assert sorted(await lines(journal, run="R1")) == ["1", "2"]
    assert await lines(journal, person="U1", channel="C2") == ["3"]


async def test_an_opinion_that_an_earlier_version_has_noted_is_not_read(either: Redis, keys: Keys) -> None:
    """It is private, and stands in the request's record."""
    journal = Journal(either, keys)
    await journal.append_record("A1", "effect.done", choice="reject", opinion="not this week")
    [record] = [record async for record in journal.stream_records()]
    assert record.more == {"choice": "reject"}


async def test_partitions_are_merged_in_order_across_pages(
    either: Redis, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bot.storage.journal._PAGE", 3)
    for number in range(20):
        key = keys.build_key(number * 7 % 3 % keys.partitions, "j")
        await either.xadd(key, {"k": "x", "t": str(number)}, id=f"{1000 + number // 2}-{number}")
    assert await lines(Journal(either, keys)) == [str(number) for number in range(20)]


async def test_a_record_is_not_passed_by_a_later_one_of_another_partition(either: Redis, keys: Keys) -> None:
    """Who reads on from the moment of the last record would never see it."""
    journal, read = Journal(either, keys), list[str]()
    lanes = {keys.get_partition(f"D{n}"): f"D{n}" for n in range(50)}
    first, second = list(lanes.values())[:2]
    await journal.append_record(first, "step", text="1")
    async for record in journal.stream_records():
        read.append(record.text)
        if record.text == "1":  # the other partition was empty when this page was read
            for lane, text in ((second, "2"), (first, "3")):
                await pass_moment(either)
                await journal.append_record(lane, "step", text=text)
    assert read == ["1", "2", "3"]


async def test_since_is_a_moment_or_an_age(either: Redis, keys: Keys) -> None:
    seconds, _ = await either.time()
    journal, hour = Journal(either, keys), 3_600_000
    now = seconds * 1000
    for age in (3, 2, 1):
        await either.xadd(keys.build_key(0, "j"), {"k": "x", "t": f"{age}h"}, id=f"{now - age * hour}-0")
    assert await lines(journal, since="150m") == ["2h", "1h"]
    assert await lines(journal, since=now - 2 * hour) == ["2h", "1h"]
    assert await lines(journal, since="7d") == ["3h", "2h", "1h"]
    for odd in ("", "h", "1 h", "-1h", "1w", "1h2m", "9999999d"):
        with pytest.raises(ValueError, match="an age looks like"):
            parse_age_ms(odd)


@pytest.mark.parametrize("start", ["1h", None])
async def test_followed_it_goes_on_with_what_comes(redis: Redis, keys: Keys, start: str | None) -> None:
    journal = Journal(redis, keys)
    await journal.append_record("before", "x", text="before")
    await pass_moment(redis)
    told = journal.stream_records(since=start, follow=True)
    if start:
        assert (await anext(told)).text == "before"
    waiting = asyncio.ensure_future(anext(told))
    await wait_until_asked(redis)
    for number in range(6):
        await pass_moment(redis)  # within one, partitions have no order
        await journal.append_record(f"lane {number}", "x", text=str(number))
    seen = [(await waiting).text] + [(await anext(told)).text for _ in range(5)]
    assert seen == [str(number) for number in range(6)]


async def wait_until_asked(redis: Redis) -> None:
    """Return when somebody has looked for new records."""
    while not any(one["cmd"] == "exec" for one in await redis.client_list()):
        await asyncio.sleep(0)


async def test_followed_it_waits_for_a_store_that_is_away(
    redis: Redis, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, waited, away = Journal(redis, keys), list[str](), [StoreUnavailableError("gone")] * 2
    await journal.append_record("before", "x", text="before")
    load_pages = Journal._load_pages

    async def gone(self: Journal, positions: Any) -> Any:
        if away:
            raise away.pop()
        await journal.append_record("after", "x", text="after it came back")
        return await load_pages(self, positions)

    told = journal.stream_records(since="1h", follow=True, waits=lambda: waited.append("waits"))
    assert (await anext(told)).text == "before"
    monkeypatch.setattr(Journal, "_load_pages", gone)
    assert (await anext(told)).text == "after it came back" and waited == ["waits"], "said once"


async def test_old_entries_go(either: Redis, keys: Keys) -> None:
    journal = Journal(either, keys, kept_ms=1000)
    name = keys.build_key(keys.get_partition("D1"), "j")
    for number in range(300):
        await either.xadd(name, {"k": "x"}, id=f"{1 + number}-0")
    await journal.append_record("D1", "x", text="new")
    assert await either.xlen(name) <= 101


async def test_a_look_at_the_last_minutes_reads_nothing_of_the_months_before(redis: Redis) -> None:
    """Neither for what is there nor for what is not."""
    keys, entries = Keys(), 20_000
    now, month = int((await redis.time())[0]) * 1000, 30 * 86_400_000
    async with redis.pipeline(transaction=False) as pipe:
        for n in range(entries):
            fields = {"v": "1", "k": "step", "run": f"R{n}", "who": f"U{n % 200}", "t": "looks for Li Si"}
            pipe.xadd(keys.build_key(n % keys.partitions, "j"), fields, id=f"{now - month + month * n // entries}-{n}")
        await pipe.execute()
    journal, nobody = Journal(redis, keys), "U_NOBODY"
    await journal.append_record("a", "command", person="U1", text="now")

    async def count_bytes(work: Coroutine[Any, Any, object]) -> int:
        """What the server has sent for it, and its own account of that."""
        before = await redis.info("stats")
        await work
        return int((await redis.info("stats"))["total_net_output_bytes"] - before["total_net_output_bytes"])

    assert (await lines(journal, since="2m"))[-1] == "now"
    assert await count_bytes(lines(journal, since="2m")) < 20_000
    assert await count_bytes(journal.has_record("2m", person=nobody)) < 20_000
    whole = await count_bytes(journal.has_record("60d", person=nobody))
    assert whole > 1_000_000, "the control: all of it is another thing"


async def test_what_is_old_goes_also_where_nothing_is_written(either: Redis, keys: Keys) -> None:
    journal = Journal(either, keys, kept_ms=3_600_000)
    for key in [keys.build_key(partition, "j") for partition in range(keys.partitions)]:
        await either.xadd(key, {"v": "1", "k": "step"}, id="1000-1")
    await journal.append_record("A", "step")
    assert await Journal(either, keys).delete_old_records() == 0, "a command trims nothing"
    await journal.delete_old_records()
    assert [record.at_ms > 1000 async for record in journal.stream_records()] == [True]
