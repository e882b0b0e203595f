"""A number of a request is given out once, whatever becomes of the store."""

import pytest
from redis.asyncio import Redis

from tests.harness.corpus import corpus
from tests.tools.company import NOW, TAXI
from tests.tools.office import office
from tools.workflow.engine.audit import Verification
from tools.workflow.engine.audit_record import list_numbered_requests
from tools.workflow.engine.store import RedisStore


async def start_request(store: RedisStore, key: str) -> str:
    form = {**TAXI, "amount": str(ord(key[0]))}
    return (await office(store).engine.start_request("expense", form, "U1", key, NOW)).request


async def verify(store: RedisStore) -> set[str]:
    return {one.code async for one in Verification(store).verify_all()}


async def test_a_new_store_counts_from_where_no_earlier_one_can_have_come(redis: Redis) -> None:
    store = RedisStore(redis, compute_number_floor=lambda: 6_930_000)
    assert [await start_request(store, one) for one in "ab"] == ["E-6930001", "E-6930002"]
    later = RedisStore(redis, compute_number_floor=lambda: 6_940_000)
    assert await start_request(later, "c") == "E-6930003", "one that counts goes on counting"
    assert await verify(store) == set(), "nothing is missing before the first"


async def test_a_store_that_somebody_says_is_the_first_counts_from_one_until_it_is_lost(redis: Redis) -> None:
    store = RedisStore(redis, compute_number_floor=lambda: 6_930_000)
    assert await store.number_from_one()
    assert [await start_request(store, one) for one in "ab"] == ["E-0001", "E-0002"]
    assert not await store.number_from_one(), "it is not the first use any more"
    await redis.flushall()
    later = RedisStore(redis, compute_number_floor=lambda: 6_930_000)
    assert await start_request(later, "c") == "E-6930001", "whoever has lost the store, has lost what was said of it"
    assert not await later.number_from_one()
    await redis.flushall()
    await RedisStore(redis).skip_numbers(6_930_000)
    assert not await later.number_from_one(), "nor where numbers were skipped"
    assert await verify(later) == set()


async def test_what_a_process_has_seen_is_not_given_out_again(redis: Redis) -> None:
    """The store lost its last writes, e.g. in a failover."""
    store = RedisStore(redis)
    first = [await start_request(store, one) for one in "abc"]
    await redis.flushall()
    assert await start_request(store, "d") == "E-0004" not in first
    assert await verify(store) == {"gone"}, "the lost ones are missing, and that is said"
    await redis.flushall()
    again = await start_request(RedisStore(redis), "b")
    assert again in first, "the negative control: one that has seen nothing gives it out again"


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


@corpus(
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
