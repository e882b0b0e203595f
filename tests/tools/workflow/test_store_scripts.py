"""What each of the store's scripts writes, that one that refuses writes nothing, and what else the store keeps."""

from __future__ import annotations

import json
import zlib
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any

import pytest
from redis.asyncio import Redis

from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.engine.state import Delegation
from tools.workflow.engine.store import OutboxEvent, WriteConflictError

HOUR_MS, DAY = 3_600_000, timedelta(days=1)
NAMES = ("request", "answer", "events", "numbers", "outbox", "bodies", "forms", "left_out", "todo", "mine")


async def run(redis: Redis, script: str, names: tuple[str, ...], *args: str) -> Any:
    text = resources.files("tools.workflow.engine").joinpath(f"{script}.lua").read_text(encoding="utf-8")
    return await redis.eval(text, len(names), *(f"cs:{{wf}}:{name}" for name in names), *args)


async def read_everything(redis: Redis) -> dict[str, Any]:
    return {key.removeprefix("cs:{wf}:"): await read_value(redis, key) for key in await redis.keys()}


async def read_value(redis: Redis, key: str) -> Any:
    match await redis.type(key):
        case "string":
            return await redis.get(key)
        case "hash":
            return await redis.hgetall(key)
        case "list":
            return await redis.lrange(key, 0, -1)
        case _:
            return dict(await redis.zrange(key, 0, -1, withscores=True))


def build_rest(**more: Any) -> dict[str, Any]:
    added = {"key": 9, "member": "L-0002-1", "score": "7"}
    removed = {"key": 10, "member": "old"}
    return {"lists": [added, removed], "notices": [{"id": "n1", "body": "b1"}, {"id": "n2", "body": "b2"}], **more}


async def save(redis: Redis, rest: dict[str, Any], *, expected: int = 1, answer: str = "kept now") -> Any:
    return await run(redis, "save", NAMES, str(expected), "as it is", answer, str(HOUR_MS), "event 2", json.dumps(rest))


@pytest.fixture
async def stored(redis: Redis) -> dict[str, Any]:
    """A request with one event, and two notices sent so far."""
    await redis.rpush("cs:{wf}:events", "event 1")
    await redis.zadd("cs:{wf}:mine", {"old": 1, "older": 2})
    await redis.hset("cs:{wf}:numbers", mapping={"outbox": "2", "L": "1"})
    await redis.hset("cs:{wf}:forms", "U1", "4")
    return await read_everything(redis)


async def test_a_change_is_written_with_all_it_causes(redis: Redis, stored: dict[str, Any]) -> None:
    rest = build_rest(
        number={"prefix": "L", "last": "1", "next": "2"},
        forms={"author": "U1", "known": "4"},
    )
    assert await save(redis, rest) == ["kept", "kept now"]
    assert await read_everything(redis) == {
        "request": "as it is",
        "answer": "kept now",
        "events": ["event 1", "event 2"],
        "numbers": {"outbox": "4", "L": "2"},
        "outbox": {"n1": 3, "n2": 4},
        "bodies": {"n1": "b1", "n2": "b2"},
        "forms": {"U1": "5"},
        "todo": {"L-0002-1": 7},
        "mine": {"older": 2},
    }
    assert 0 < await redis.pttl("cs:{wf}:answer") <= HOUR_MS


async def test_the_first_number_and_the_first_form_come_after_none(redis: Redis) -> None:
    rest = build_rest(number={"prefix": "L", "last": "0", "next": "1"}, forms={"author": "U1", "known": "0"})
    assert await save(redis, rest, expected=0) == ["kept", "kept now"]
    found = await read_everything(redis)
    assert found["numbers"] == {"L": "1", "outbox": "2"} and found["forms"] == {"U1": "1"}


async def test_what_begins_no_request_and_hands_in_no_form_counts_neither(redis: Redis, stored: dict[str, Any]) -> None:
    assert await save(redis, {"lists": [], "notices": []}) == ["kept", "kept now"]
    found = await read_everything(redis)
    assert found == {**stored, "request": "as it is", "answer": "kept now", "events": ["event 1", "event 2"]}


async def test_the_same_command_again_has_its_answer_and_no_effect(redis: Redis, stored: dict[str, Any]) -> None:
    await save(redis, build_rest())
    before = await read_everything(redis)
    for expected in (1, 2):
        assert await save(redis, build_rest(), expected=expected, answer="kept later") == ["kept", "kept now"]
    assert await read_everything(redis) == before


@pytest.mark.parametrize(
    ("expected", "number", "form", "what"),
    [
        (0, 2, ("U1", "4"), "record"),
        (2, 2, ("U1", "4"), "record"),
        (1, 2, ("U1", "3"), "forms"),
        (1, 2, ("U2", "4"), "forms"),
        (1, 1, ("U1", "4"), "number"),
        (1, 0, ("U1", "4"), "number"),
    ],
)
async def test_what_is_not_as_it_was_read_is_a_conflict_and_nothing_is_written(
    redis: Redis, stored: dict[str, Any], expected: int, number: int, form: tuple[str, str], what: str
) -> None:
    rest = build_rest(
        number={"prefix": "L", "last": str(number - 1), "next": str(number)},
        forms={"author": form[0], "known": form[1]},
    )
    assert await save(redis, rest, expected=expected) == ["conflict", what]
    assert await read_everything(redis) == stored


async def test_numbers_that_are_left_out_are_recorded(redis: Redis, stored: dict[str, Any]) -> None:
    for prefix, number in (("L", 5_000), ("L", 5_001), ("E", 20_001)):
        rest = {"number": {"prefix": prefix, "last": str(number - 1), "next": str(number)}, "lists": [], "notices": []}
        await redis.delete("cs:{wf}:answer", "cs:{wf}:events")
        assert await save(redis, rest, expected=0) == ["kept", "kept now"]
    found = await read_everything(redis)
    assert found["numbers"] == {"outbox": "2", "L": "5001", "E": "20001"}
    assert found["left_out"] == {"L:2": "4999", "E:1": "20000"}
    assert await RedisStore(redis).load_omitted_numbers() == {"L": [range(2, 5_000)], "E": [range(1, 20_001)]}


async def test_a_notice_that_waits_keeps_its_place_and_its_words(redis: Redis) -> None:
    await redis.hset("cs:{wf}:numbers", "outbox", "5")
    for id, body in (("n1", "first"), ("n2", "second"), ("n1", "again")):
        await run(redis, "announce", ("numbers", "outbox", "bodies"), id, body)
    assert await read_everything(redis) == {
        "numbers": {"outbox": "7"},
        "outbox": {"n1": 6, "n2": 7},
        "bodies": {"n1": "first", "n2": "second"},
    }


@pytest.mark.parametrize(
    ("known", "is_kept"),
    [(("a", "b"), True), (("b", "a"), True), (("a",), False), (("a", "b", "c"), False), (("a", "c"), False)],
)
async def test_an_absence_is_kept_if_its_persons_others_are_those_that_were_read(
    redis: Redis, known: tuple[str, ...], is_kept: bool
) -> None:
    await redis.hset("cs:{wf}:away", mapping={"a": "A", "b": "B"})
    before = await read_everything(redis)
    kept = await run(redis, "delegate", ("away", "deputy", "timers"), "d", "D", "away:d", "7", *known)
    written = {"away": {"a": "A", "b": "B", "d": "D"}, "deputy": {"d": "D"}, "timers": {"away:d": 7}}
    assert (kept, await read_everything(redis)) == ((1, written) if is_kept else (0, before))


# Beside the scripts


async def test_timers_come_in_their_order_and_only_one_that_is_there_is_put_off(redis: Redis) -> None:
    store = RedisStore(redis)
    await redis.zadd("cs:{wf}:timers", {"c": 3, "a": 1, "b": 2})
    assert await store.list_due_timers(2, 9) == ("a", "b")
    assert await store.list_due_timers(3, 2) == ("a", "b")
    await store.postpone_timer("a", 9)
    await store.postpone_timer("gone", 1)
    await store.delete_timer("b")
    assert await read_everything(redis) == {"timers": {"a": 9, "c": 3}}
    assert await store.list_due_timers(2, 9) == ()


async def test_lists_are_read_from_the_beginning_or_from_a_score(redis: Redis) -> None:
    store = RedisStore(redis)
    await redis.zadd("cs:{wf}:todo:U1", {"c": 3, "a": 1, "b": 2})
    await redis.zadd("cs:{wf}:all", {"x": 1, "y": 2, "z": 3})
    assert await store.list_members("todo", "U1") == (("a", 1), ("b", 2), ("c", 3))
    assert await store.list_members("todo", "U1", 2) == (("a", 1), ("b", 2))
    assert (await store.count_members("todo", "U1"), await store.count_members("todo", "U2")) == (3, 0)
    assert await store.list_members_since("all", 2) == ("y", "z")
    assert await store.list_members("todo", "U2") == ()


async def test_a_version_of_a_file_is_kept_once_and_a_process_has_the_latest(redis: Redis) -> None:
    store = RedisStore(redis)
    assert await store.load_file("v") is None
    for content in ("第一", "second"):
        await store.save_file("v", content.encode())
    assert await store.load_file("v") == "第一".encode()
    for bpmn in ("b1", "b2"):
        await store.save_deployment("leave", bpmn, "f")
    assert await store.load_deployments() == {"leave": ("b2", "f")}
    await redis.hset("cs:{wf}:numbers", mapping={"L": "7", "outbox": "9"})
    assert await store.load_last_numbers() == {"L": 7}


async def test_what_is_sent_is_gone_and_the_rest_comes_in_its_order(redis: Redis) -> None:
    store = RedisStore(redis)
    events = [OutboxEvent(id=f"n{n}", kind="deputy", data={"n": str(n)}) for n in range(4)]
    assert await store.list_outbox(9) == []
    await store.append_outbox(events)
    assert await store.list_outbox(2) == events[:2]
    await store.mark_sent([])
    await store.mark_sent(["n0", "n2"])
    assert await store.list_outbox(9) == [events[1], events[3]]
    found = await read_everything(redis)
    assert set(found["bodies"]) == {"n1", "n3"} and set(found["outbox"]) == {"n1", "n3"}


async def test_an_absence_is_found_from_both_sides_and_gone_from_both(redis: Redis) -> None:
    store = RedisStore(redis)
    now = datetime(2026, 11, 20, tzinfo=UTC)
    later, first = (
        Delegation(id=id, person="U1", deputy="U2", start=now + n * DAY, end=now + (n + 1) * DAY)
        for id, n in (("a", 5), ("b", 1))
    )
    await store.save_delegation(later, [])
    with pytest.raises(WriteConflictError):
        await store.save_delegation(first, [])
    await store.save_delegation(first, [later])
    assert await store.list_delegations_from("U1") == await store.list_delegations_to("U2") == (first, later)
    assert await store.list_delegations_to("U1") == ()
    assert set((await read_everything(redis))["timers"].values()) == {
        (now + n * DAY).timestamp() * 1000 for n in (1, 5)
    }
    await store.delete_delegation(later)
    assert await store.list_delegations_from("U1") == await store.list_delegations_to("U2") == (first,)
    await store.delete_delegation(first)
    assert await read_everything(redis) == {}


async def test_a_request_that_is_not_there_is_none_and_one_that_somebody_spoilt_is_given_as_it_is(redis: Redis) -> None:
    store = RedisStore(redis)
    assert await store.load_request("L-0001") is None and await store.load_requests([]) == ()
    assert await store.load_requests(["L-0001", "L-0002"]) == () and await store.load_events("L-0001") == ()
    await redis.rpush("cs:{wf}:events:L-0001", "no zlib", zlib.compress(b"\xff"), zlib.compress("好".encode()))
    spoilt, odd, whole = await store.load_events("L-0001")
    assert (spoilt, whole) == ("no zlib", "好") and odd
    assert (await store.load_command_context("k", "L-0001")) == (None, None)
    await redis.set("cs:{wf}:answer:k", "好")
    assert (await store.load_command_context("k", "L-0001")) == ("好", None)
    assert (await store.load_start_context("k", "U1")).answer == "好"
    await redis.hset("cs:{wf}:forms", "U1", "3")
    await redis.zadd("cs:{wf}:mine:U1", {"L-0002": 2, "L-0001": 1})
    own = await store.load_own_requests("U1")
    assert own == (await store.load_start_context("k", "U1")).own_requests == (3, ("L-0001", "L-0002"))
    assert await store.load_own_requests("U2") == (0, ())
