"""What each of the store's scripts writes, and that one that refuses writes nothing."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import pytest
from redis.asyncio import Redis

HOUR_MS = 3_600_000
NAMES = ("request", "answer", "events", "numbers", "outbox", "bodies", "forms", "todo", "mine")


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
    added = {"key": 8, "member": "L-0002-1", "score": "7"}
    removed = {"key": 9, "member": "old"}
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
        (0, ("L", "1"), ("U1", "4"), "record"),
        (2, ("L", "1"), ("U1", "4"), "record"),
        (1, ("L", "1"), ("U1", "3"), "forms"),
        (1, ("L", "1"), ("U2", "4"), "forms"),
        (1, ("L", "0"), ("U1", "4"), "number"),
        (1, ("M", "1"), ("U1", "4"), "number"),
    ],
)
async def test_what_is_not_as_it_was_read_is_a_conflict_and_nothing_is_written(
    redis: Redis, stored: dict[str, Any], expected: int, number: tuple[str, str], form: tuple[str, str], what: str
) -> None:
    rest = build_rest(
        number={"prefix": number[0], "last": number[1], "next": "9"},
        forms={"author": form[0], "known": form[1]},
    )
    assert await save(redis, rest, expected=expected) == ["conflict", what]
    assert await read_everything(redis) == stored


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
