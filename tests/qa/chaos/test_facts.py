"""What is looked for at the end is where the work really stands: names of keys that nobody uses would prove nothing."""

from redis.asyncio import Redis

from bot.queue.lanes import Lanes
from bot.queue.writes import SetTimer, apply_writes
from tests.qa.chaos.facts import KEYS, left
from tests.qa.chaos.people import buttons_of


async def test_work_that_waits_or_is_held_is_seen_and_a_timer_is_none_yet(redis: Redis) -> None:
    lanes, schedule = Lanes(redis, KEYS), KEYS.build_key(KEYS.get_partition("a lane"), "z")
    assert await left(redis) == []
    await lanes.enqueue("a lane", "an item", "{}")
    assert [one.endswith(":z a lane") for one in await left(redis)] == [True]
    [lease] = await lanes.claim("somebody", KEYS.get_partition("a lane"), 1)
    assert await left(redis)
    await redis.delete(schedule)  # as no script of ours does
    stranded = await left(redis)
    assert any(":in:" in one for one in stranded) and any("held" in one for one in stranded)
    await lease.commit()
    await redis.delete(schedule)
    assert await left(redis) == []
    await apply_writes(
        redis, KEYS, KEYS.get_partition("a lane"), [SetTimer("a lane", "expire:A:1", 9_999_999_999_999, "{}")]
    )
    assert await left(redis) == []
    assert await redis.zrange(KEYS.build_key(KEYS.get_partition("a lane"), "t"), 0, -1) == ["expire:A:1"]


def test_buttons_of_others_are_none_of_ours() -> None:
    own = {"type": "button", "action_id": "cs:confirm", "value": "A03x.2"}
    foreign = {"type": "button", "action_id": "link", "value": "A03x.2"}
    [button] = buttons_of({"blocks": [{"type": "actions", "elements": [own, foreign]}]})
    assert (button.choice, button.approval, button.version) == ("confirm", "A03x", 2)
