"""Several processes, one Redis: what one has learned of people, all know."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from bot.core.errors import ChatUnavailableError
from bot.people import member_cache
from bot.people import redis_member_store as members
from bot.people.directory import PlatformDirectory
from bot.people.member_store import MemberRecord
from bot.people.redis_member_store import RedisMemberStore
from bot.queue.keys import Keys
from tests.platforms.slack.conftest import Desk
from tests.platforms.slack.doubles import ME, member

ZHANG, ZHAO = "U01ZHANG", "U04ZHAO"


def open_directory(desk: Desk, redis: Redis, **more: Any) -> PlatformDirectory:
    return desk.open_directory(store=RedisMemberStore(redis, Keys(), ME.team), **more)


async def name(directory: PlatformDirectory, person: str = ZHANG) -> str:
    found = await directory.find_person(person)
    return found.name if found else ""


async def test_one_reads_the_list_and_all_have_it_also_after_the_store_was_emptied(desk: Desk, redis: Redis) -> None:
    some = [open_directory(desk, redis) for _ in range(3)]
    everybody = await asyncio.gather(*(one.list_people() for one in some))
    assert [{person.id for person in people} for people in everybody] == [{ZHANG, ZHAO}] * 3
    assert len(desk.slack.called("users.list")) == 1
    later = open_directory(desk, redis)
    assert len(await later.list_people()) == 2 and len(desk.slack.called("users.list")) == 1
    await redis.flushall()
    desk.slack.faults["users.list"] = ["fatal_error"] * 3
    await later.catch_up()
    assert len(await later.list_people()) == 2
    assert await open_directory(desk, redis).list_people()


async def test_an_installation_that_moves_to_another_workspace_begins_with_nobody(desk: Desk, redis: Redis) -> None:
    before = RedisMemberStore(redis, Keys(), "T0DEMO")
    assert await before.claim_listing("demo", 1) == ""
    await before.save_records({"U0DEMO": MemberRecord(member={"id": "U0DEMO", "team_id": "T0DEMO"})})
    await before.finish_listing("demo")
    directory = open_directory(desk, redis)
    assert {one.id for one in await directory.list_people()} == {ZHANG, ZHAO}
    assert await directory.find_person("U0DEMO") is None and len(desk.slack.called("users.list")) == 1


async def test_on_a_cluster_too(desk: Desk, redis_cluster: Redis) -> None:
    some = [open_directory(desk, redis_cluster) for _ in range(2)]
    await asyncio.gather(*(one.list_people() for one in some))
    await rename_zhang(desk, *some)


async def rename_zhang(desk: Desk, here: PlatformDirectory, there: PlatformDirectory) -> None:
    """One process hears that he has changed, and both know."""
    assert [len(await one.list_people()) for one in (here, there)] == [2, 2]
    assert len(desk.slack.called("users.list")) == 1
    desk.slack.members[0]["profile"]["real_name"] = "Zhang Five"
    await there.catch_up()
    assert await name(there) == "Zhang San", "the control: nobody has said so"
    here.note_changed_person(ZHANG)
    await here.catch_up()
    await there.catch_up()
    assert [await name(one) for one in (here, there)] == ["Zhang Five"] * 2
    assert len(desk.slack.called("users.info")) == 1


async def test_whoever_has_changed_is_looked_up_by_one_and_known_by_all(desk: Desk, redis: Redis) -> None:
    await rename_zhang(desk, open_directory(desk, redis), open_directory(desk, redis))


async def test_who_has_left_or_is_on_the_list_no_more_is_nobody_for_all(desk: Desk, redis: Redis) -> None:
    here, there = open_directory(desk, redis, fresh_s=-1), open_directory(desk, redis)
    for one in (here, there):
        await one.list_people()
    desk.slack.members[0]["deleted"] = True
    await here.refresh_people([ZHANG])
    await there.catch_up()
    assert [await one.find_caller(ZHANG) for one in (here, there)] == [None, None]
    desk.slack.members[0]["deleted"] = False
    await here.refresh_people([ZHANG])
    assert len(await here.list_people()) == 2
    desk.slack.members.pop(0)
    later = open_directory(desk, redis, listed_s=-1)
    await later.catch_up()
    assert [one.id for one in await later.list_people()] == [ZHAO]


async def test_who_joins_while_the_list_is_read_stays(desk: Desk, redis: Redis) -> None:
    desk.slack.pages = 2
    reader, other = open_directory(desk, redis), open_directory(desk, redis)
    desk.slack.delays["users.list"] = 0.2
    reading = asyncio.create_task(reader.list_people())
    while not desk.slack.called("users.list"):
        await asyncio.sleep(0.01)
    desk.slack.members.append(member("U00LATE", "Lately Come"))
    found = await other.find_person("U00LATE")
    desk.slack.members.pop()  # they are on no page
    await reading
    await reader.catch_up()
    assert found and await name(reader, "U00LATE") == "Lately Come"


async def test_a_list_goes_on_where_another_process_has_ended(desk: Desk, redis: Redis) -> None:
    desk.slack.members += [member(f"U1{n:02d}", f"Person {n}") for n in range(10)]
    desk.slack.pages = 4
    desk.slack.faults["users.list"] = ["", "", *["fatal_error"] * 3]
    with pytest.raises(ChatUnavailableError):
        await open_directory(desk, redis).list_people()
    desk.slack.calls.clear()
    assert len(await open_directory(desk, redis).list_people()) == 12
    assert [call.get("cursor", "") for call in desk.slack.called("users.list")] == ["2", "3"]


async def test_a_list_is_held_by_who_lives(desk: Desk, redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process was killed while it read the list: another one goes on soon. A slow page is no sign of death."""
    monkeypatch.setattr(members, "LOCK_MS", 1_500)
    monkeypatch.setattr(member_cache, "EXTENDED_S", 0.05)
    assert await RedisMemberStore(redis, Keys(), ME.team).claim_listing("killed", 1) == ""
    desk.slack.delays["users.list"] = 2.2
    some = [open_directory(desk, redis) for _ in range(3)]
    assert [len(people) for people in await asyncio.gather(*(one.list_people() for one in some))] == [2, 2, 2]
    assert len(desk.slack.called("users.list")) == 1, "its page took longer than the lock"


class SlowClient:
    """A client whose process stands still before one of its round trips, and `meanwhile` others go on."""

    def __init__(self, redis: Redis, trip: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self.redis, self.left, self.meanwhile = redis, trip, meanwhile

    async def stand_still(self) -> None:
        self.left -= 1
        if self.left == -1:
            await self.meanwhile()

    def pipeline(self, **options: Any) -> Any:
        pipe = self.redis.pipeline(**options)
        pipe.execute = self.slow_down(pipe.execute)
        return pipe

    def slow_down(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call_later(*args: Any, **options: Any) -> Any:
            await self.stand_still()
            return await call(*args, **options)

        return call_later

    def __getattr__(self, name: str) -> Any:
        return self.slow_down(getattr(self.redis, name))


@pytest.mark.parametrize("trip", range(4))
async def test_a_list_that_another_process_reads_anew_is_not_ended_by_the_one_that_has_stood_still(
    desk: Desk, redis: Redis, trip: int
) -> None:
    """It stood still for longer than its lock, anywhere between its last page and the end."""
    store, directory = RedisMemberStore(redis, Keys(), ME.team), open_directory(desk, redis)
    await directory.list_people()
    assert await store.claim_listing("still", 0) == "" and await store.save_page("still", [ZHANG, ZHAO], "")

    async def begin_anew() -> None:
        await redis.delete(*[key async for key in redis.scan_iter("*lock*")])
        assert await store.claim_listing("other", 0) == "" and await store.save_page("other", [ZHANG], "next")

    slow = SlowClient(redis, trip, begin_anew)
    await replace(store, redis=cast(Redis, slow)).finish_listing("still")
    if slow.left >= 0:
        await begin_anew()
    await directory.catch_up()
    assert {one.id for one in await directory.list_people()} == {ZHANG, ZHAO}
    assert await store.save_page("other", [ZHAO], "")
    await store.finish_listing("other")
    await directory.catch_up()
    assert {one.id for one in await directory.list_people()} == {ZHANG, ZHAO}


async def test_a_place_that_slack_has_forgotten_is_no_end(desk: Desk, redis: Redis) -> None:
    store = RedisMemberStore(redis, Keys(), ME.team)
    assert await store.claim_listing("somebody", 1) == ""
    await store.save_page("somebody", [], "gone")
    await store.release_listing("somebody")
    desk.slack.faults["users.list"] = ["invalid_cursor"]
    assert len(await open_directory(desk, redis).list_people()) == 2


async def test_nobody_waits_for_the_first_list_for_ever(
    desk: Desk, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process reads it, and does not come to an end: the message is tried again later."""
    monkeypatch.setattr(member_cache, "COMPLETE_S", 0.2)
    assert await RedisMemberStore(redis, Keys(), ME.team).claim_listing("another", 1) == ""
    with pytest.raises(ChatUnavailableError, match="people_incomplete"):
        await open_directory(desk, redis).list_people()


async def test_a_manager_is_found_while_the_list_is_not_there(desk: Desk, redis: Redis) -> None:
    """Whose address is the manager's is asked for alone: what a person may ask for depends on it."""
    desk.slack.fields = [{"id": "Xf1", "label": "Manager", "options": {"is_protected": True}}]
    desk.slack.members[1]["locale"] = "zh-CN"
    for named in ("ZhaoLiu@example.com", ZHAO):
        await redis.flushall()
        desk.slack.profiles = {ZHANG: {"Xf1": named}}
        directory = open_directory(desk, redis)
        found = await directory.find_caller(ZHANG)
        assert found and found.person.manager == ZHAO
        manager = directory.find_known_person(ZHAO) or await directory.find_person(ZHAO)
        assert manager and manager.language == "zh", "what Slack says of an address has no language in it"
    assert desk.slack.called("users.list") == []


async def test_grid_members_are_of_every_workspace_that_they_are_in(desk: Desk, redis: Redis) -> None:
    """`team_id` is only their first (bolt-js#1875)."""
    there = {"id": "E1", "enterprise_id": "E1", "teams": ["T9", ME.team]}
    desk.slack.members += [
        member("U20", "Grid Member", team_id="T9", enterprise_user=there),
        member("U21", "Of Another", team_id="T9", enterprise_user={**there, "teams": ["T9"]}),
    ]
    directory = open_directory(desk, redis)
    assert await directory.find_caller("U20") and await directory.find_caller("U21") is None
    assert "U20" in [one.id for one in await directory.list_people()]


async def test_who_is_far_behind_reads_everybody(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "CHANGES", 5)
    store = RedisMemberStore(redis, Keys(), ME.team)
    await store.save_records({"U1": MemberRecord(member={"id": "U1"})})
    behind = (await store.load_changes("")).position
    assert not (await store.load_changes(behind)).records
    for n in range(2, 400):
        await store.save_records({f"U{n}": MemberRecord(member={"id": f"U{n}"}), "U1": None})
    changes = await store.load_changes(behind)
    assert changes.is_whole and len(changes.records) == 398 and "U1" not in changes.records
    near = changes.position
    await store.save_records({"U2": None})
    assert (await store.load_changes(near)).records == {"U2": None}
