"""A number of a request is given out once, whatever becomes of the store."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.tools.company import NOW, TAXI
from tests.tools.office import office
from tools.workflow.engine.audit import Verification
from tools.workflow.engine.audit_record import list_numbered_requests
from tools.workflow.engine.redis_store import RedisStore


async def start_request(store: RedisStore, key: str) -> str:
    return str(
        (
            await office(store).engine.start_request("expense", TAXI | {"amount": str(ord(key[0]))}, "U1", key, NOW)
        ).request
    )


async def verify(store: RedisStore) -> set[str]:
    return {one.code async for one in Verification(store).verify_all()}


async def test_a_new_store_counts_from_where_no_earlier_one_can_have_come(redis: Redis) -> None:
    store = RedisStore(redis, compute_number_floor=lambda: 6_930_000)
    assert [await start_request(store, one) for one in "ab"] == ["E-6930001", "E-6930002"]
    later = RedisStore(redis, compute_number_floor=lambda: 6_940_000)
    assert await start_request(later, "c") == "E-6930003", "one that counts goes on counting"
    assert await verify(store) == set(), "nothing is missing before the first"


async def test_what_a_process_has_seen_is_not_given_out_again(redis: Redis) -> None:
    """The store lost its last writes, e.g. in a failover."""
    store = RedisStore(redis)
    first = [await start_request(store, one) for one in "abc"]
    await redis.flushall()
    assert await start_request(store, "d") == "E-0004" not in first
    assert await verify(store) == {"gone"}, "the lost ones are missing, and that is said"


async def test_a_process_that_has_seen_nothing_would_give_it_out_again(redis: Redis) -> None:
    """Negative control: why a new store does not count from one."""
    first = await start_request(RedisStore(redis), "a")
    await redis.flushall()
    assert await start_request(RedisStore(redis), "b") == first


@pytest.mark.parametrize("is_accepted", [True, False])
async def test_an_accepted_store_counts_beyond_what_was_given_out_in_the_same_moment(
    redis: Redis, is_accepted: bool
) -> None:
    """The first numbers are by time, and none has passed. Who is not accepted, by nobody who has seen one, is the
    negative control."""

    async def start_three(keys: str) -> list[str]:
        return [await start_request(RedisStore(redis, compute_number_floor=lambda: 6_930_000), one) for one in keys]

    given = await start_three("abc")
    await redis.flushall()
    if is_accepted:
        await RedisStore(redis).skip_numbers(6_930_000)
    assert set(given).isdisjoint(await start_three("def")) is is_accepted
    assert await verify(RedisStore(redis)) == set()


@pytest.mark.parametrize(
    ("listed", "omitted", "expected"),
    [
        ([], [], [1, 2, 3]),
        ([], [range(1, 3)], [1, 2, 3]),  # too few: they are missing
        (["L-2001", "L-2002"], [range(1, 2001)], [2001, 2002]),
        (["L-0001", "L-2003"], [range(2, 2002)], [1, 2002, 2003]),
        (["L-0005", "L-2001"], [range(1, 2001)], [5, 2001]),
    ],
)
def test_only_long_ranges_count_as_left_out(listed: list[str], omitted: list[range], expected: list[int]) -> None:
    last = max(expected)
    found = list_numbered_requests(listed, {"L": last}, {"L": omitted})
    assert list(found) == [f"L-{one:04d}" for one in expected]
