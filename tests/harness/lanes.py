"""One lane, and a worker's actions on it."""

from redis.asyncio import Redis

from bot.queue.lanes import EnqueueResult, Lanes, Lease

LANE = "slack:T1:D1"


async def take(lanes: Lanes, lane: str = LANE) -> Lease:
    """Claim the one lane that is due."""
    [lease] = await lanes.claim("me", lanes.keys.get_partition(lane), 10)
    assert lease.lane == lane
    return lease


async def hold(lanes: Lanes, *ids: str) -> Lease:
    """Fill the lane with these items, and return its lease."""
    for id in ids or ("E1",):
        assert await lanes.enqueue(LANE, id, "{}") is EnqueueResult.NEW
    return await take(lanes)


def build_key(lanes: Lanes, *names: str) -> str:
    """Build a key in the lane's partition."""
    return lanes.keys.build_key(lanes.keys.get_partition(LANE), *names)


async def expire(lanes: Lanes, lane: str = LANE) -> None:
    """Make a lane due: its lease, or its wait, is over now."""
    await lanes.redis.zadd(lanes.keys.build_key(lanes.keys.get_partition(lane), "z"), {lane: 1})


async def now_ms(redis: Redis) -> int:
    seconds, micros = await redis.time()
    return int(seconds) * 1000 + int(micros) // 1000


async def pass_moment(redis: Redis) -> None:
    """Return in a later millisecond of the server's clock."""
    before = await now_ms(redis)
    while await now_ms(redis) == before:
        pass
