"""Attacks on the stored record in a real server, by somebody who can write to Redis: each is found, or stands on the
list of what cannot be found."""

import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from time import process_time
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.harness.corpus import corpus
from tests.tools.company import NOW, SHORT
from tests.tools.office import office
from tests.tools.workflow.history import LEAVE, YES, lived, other
from tests.tools.workflow.invariants import replay_events
from tools.workflow.engine import audit_record, reducer
from tools.workflow.engine.audit import Verification
from tools.workflow.engine.audit_record import RecordHead, format_closing_line, list_record_heads, parse_heads
from tools.workflow.engine.commands import CommentCommand, DecideCommand, RequestEvent
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import Request
from tools.workflow.engine.store import RedisStore, to_milliseconds

P = "cs:{wf}:"
LIVED: dict[str, bytes] = {}
DEFINITIONS = {one.definition.version: one.definition for one in (LEAVE, other(LEAVE))}


@dataclass(frozen=True, slots=True)
class Intruder:
    """Somebody with all of Redis, and our code: hashes are computed as the engine computes them."""

    redis: Any
    store: RedisStore

    async def events(self, request: str) -> list[str]:
        return list(await self.store.load_events(request))

    async def write_events(self, request: str, events: Sequence[str]) -> None:
        await self.redis.delete(f"{P}events:{request}")
        if events:
            await self.redis.rpush(f"{P}events:{request}", *(zlib.compress(one.encode()) for one in events))

    async def write_request(self, request: str, body: Request) -> None:
        await self.redis.set(f"{P}request:{request}", zlib.compress(body.model_dump_json().encode()))

    async def forget(self, request: str) -> None:
        await self.redis.delete(f"{P}request:{request}", f"{P}events:{request}")
        await self.redis.zrem(f"{P}changed", request)

    async def rewind(self, request: str, count: int) -> None:
        """So many of its events undone, and everything that tells of them."""
        kept = (await self.events(request))[:-count]
        await self.write_events(request, kept)
        before = replay_events(DEFINITIONS, [RequestEvent.model_validate_json(one) for one in kept])
        assert before is not None
        await self.write_request(request, before)
        await self.redis.zadd(f"{P}changed", {request: to_milliseconds(before.changed)})

    async def forge_event(self, request: str, n: int, **change: Any) -> None:
        """An event rewritten, and every hash after it computed again."""
        events = [RequestEvent.model_validate_json(one) for one in await self.events(request)]
        events[n] = events[n].model_copy(update=change)
        for at in range(n, len(events)):
            previous = events[at - 1].hash if at else ""
            events[at] = events[at].model_copy(update={"previous": previous}).add_hash()
        await self.write_events(request, [one.model_dump_json() for one in events])
        known = await self.store.load_request(request)
        await self.write_request(request, known.model_copy(update={"head": events[-1].hash}))

    async def add_decision(self, request: str, task: str, person: str) -> None:
        """A press that nobody made, exactly as the engine would have written it."""
        known = await self.store.load_request(request)
        assert known is not None
        command = DecideCommand(task=task, actor=person, decision=YES)
        applied = apply_command(DEFINITIONS[known.definition], known, command, NOW + timedelta(hours=9))
        await self.redis.rpush(f"{P}events:{request}", zlib.compress(applied.event.model_dump_json().encode()))
        await self.write_request(request, applied.request)
        await self.redis.zadd(f"{P}changed", {request: to_milliseconds(applied.request.changed)})


async def admit_intruder(redis: Redis) -> Intruder:
    """To a history that was lived once, and is there anew for each intruder."""
    await redis.flushall()
    if not LIVED:
        await lived(RedisStore(redis))
        LIVED.update({key: await redis.execute_command("DUMP", key, NEVER_DECODE=True) for key in await redis.keys()})
    for key, content in LIVED.items():
        await redis.restore(key, 0, content, replace=True)
    return Intruder(redis, RedisStore(redis))


@pytest.fixture
async def intruder(redis: Redis) -> Intruder:
    return await admit_intruder(redis)


async def verify(store: RedisStore, against: Sequence[RecordHead] = ()) -> set[str]:
    return {f"{one.request} {one.code}" async for one in Verification(store, against).verify_all()}


async def export(store: RedisStore) -> list[RecordHead]:
    return [one async for one in list_record_heads(store) if isinstance(one, RecordHead)]


Act = Callable[[Intruder], Awaitable[Any]]


def rewrite(request: str, change: Callable[[list[str]], list[str]]) -> Act:
    """The stored events of a request are others."""

    async def act(by: Intruder) -> None:
        await by.write_events(request, change(await by.events(request)))

    return act


def swap_keys(*kinds: str) -> Act:
    async def act(by: Intruder) -> None:
        for kind in kinds:
            await by.redis.rename(f"{P}{kind}:L-0001", "aside")
            await by.redis.rename(f"{P}{kind}:L-0003", f"{P}{kind}:L-0001")
            await by.redis.rename("aside", f"{P}{kind}:L-0003")

    return act


async def put_event_of_another(by: Intruder) -> None:
    mine, theirs = await by.events("L-0001"), await by.events("L-0003")
    await by.write_events("L-0001", [mine[0], theirs[1], *mine[2:]])


def replace_approver(events: list[str]) -> list[str]:
    return [events[0], events[1].replace('"U2"', '"U9"', 1), *events[2:]]


def forge(**change: Any) -> Act:
    return lambda by: by.forge_event("L-0001", 1, **change)


async def cut_all(by: Intruder) -> None:
    for request in REQUESTS:
        await by.redis.rpop(f"{P}events:{request}")


async def forge_a_form(by: Intruder) -> None:
    start: Any = RequestEvent.model_validate_json((await by.events("L-0001"))[0]).command
    filled = start.filled.model_copy(update={"values": {**start.filled.values, "reason": "旅游"}})
    await by.forge_event("L-0001", 0, command=start.model_copy(update={"filled": filled}))


def hide_one(by: Intruder) -> Awaitable[Any]:
    return by.redis.zrem(f"{P}changed", "L-0002")


def delete_key(key: str) -> Act:
    return lambda by: by.redis.delete(f"{P}{key}")


def replace_key(key: str) -> Act:
    async def act(by: Intruder) -> None:
        await by.redis.delete(f"{P}{key}")
        await by.redis.set(f"{P}{key}", "\x1b[2J")

    return act


def put_field(key: str, field: str, value: str) -> Act:
    return lambda by: by.redis.hset(f"{P}{key}", field, value)


def write_event(content: bytes) -> Act:
    return lambda by: by.redis.lset(f"{P}events:L-0001", 1, content)


OWN_APPROVAL = DecideCommand(task="L-0001-1", actor="U1", decision=YES)
OTHER_RULES = LEAVE.bpmn.decode().replace("days &lt;= 1", "days &lt;= 9")
REQUESTS = ("L-0001", "L-0002", "L-0003", "L-0004", "L-0005", "E-0001")
LEAVES, LOST = [f"{one} no_process" for one in REQUESTS[:4]], [f"{one} unnumbered" for one in REQUESTS]
VERSION = LEAVE.definition.version
FOUND: dict[str, tuple[Act, list[str]]] = {
    # attack: (what is done, each request, or part of the store, and what is found of it)
    "the end of one record is cut": (rewrite("L-0001", lambda e: e[:-1]), ["L-0001 cut"]),
    "the end of every record is cut": (cut_all, [f"{request} cut" for request in REQUESTS]),
    "an event in the middle is removed": (rewrite("L-0003", lambda e: e[:1] + e[2:]), ["L-0003 unlinked"]),
    "two events change places": (rewrite("L-0003", lambda e: [e[0], e[2], e[1], *e[3:]]), ["L-0003 unlinked"]),
    "an event is doubled": (rewrite("L-0003", lambda e: e[:2] + e[1:]), ["L-0003 unlinked"]),
    "two requests change records": (swap_keys("events"), ["L-0001 cut", "L-0003 cut"]),
    "two requests change places": (swap_keys("events", "request"), ["L-0001 elsewhere", "L-0003 elsewhere"]),
    "an event comes from another request": (put_event_of_another, ["L-0001 unlinked"]),
    "a byte is rewritten": (rewrite("L-0001", replace_approver), ["L-0001 altered"]),
    "an approver is forged, with every hash": (forge(command=OWN_APPROVAL), ["L-0001 impossible"]),
    "a way is forged, with every hash": (forge(steps=()), ["L-0001 unlike"]),
    "a form is forged, with every hash": (forge_a_form, ["L-0001 request"]),
    "a time is forged, with every hash": (forge(at=(NOW - timedelta(days=1)).astimezone(UTC)), ["L-0001 request"]),
    "a request is deleted": (lambda by: by.forget("L-0002"), ["L-0002 gone"]),
    "the record of a request is deleted": (delete_key("events:L-0002"), ["L-0002 cut"]),
    "a request is hidden from the list by time": (hide_one, ["L-0002 unlisted"]),
    "a request is deleted, its record is not": (delete_key("request:L-0002"), ["L-0002 orphan"]),
    "a request is older in the list": (lambda by: by.redis.zadd(f"{P}changed", {"L-0002": 1}), ["L-0002 unlisted"]),
    "a number is taken back": (put_field("numbers", "L", "4"), ["L-0005 unnumbered"]),
    "a process file is lost": (lambda by: by.redis.hdel(f"{P}files", VERSION), LEAVES),
    "a deployed file is lost": (
        put_field("processes", "leave", f"{'0' * 64} {LEAVE.form_version}"),
        ["leave deployed"],
    ),
    "a number is raised": (put_field("numbers", "L", "6"), ["L-0006 gone"]),
    "a process file is exchanged": (put_field("files", VERSION, OTHER_RULES), LEAVES),
    "a record is no record": (replace_key("events:L-0001"), ["L-0001 unreadable"]),
    "a request is no request": (replace_key("request:L-0001"), ["L-0001 request_unreadable"]),
    "the numbers are none": (replace_key("numbers"), ["numbers broken", *LOST]),
    "a number is no number": (put_field("numbers", "L", "abc"), ["numbers broken", *LOST]),
    "the list by time is none": (replace_key("changed"), ["changed broken", *(f"{one} unlisted" for one in REQUESTS)]),
    "a version is none": (put_field("processes", "leave", "x"), ["processes broken"]),
    "an event is a bomb": (write_event(zlib.compress(b"{" * 50_000_000)), ["L-0001 unreadable"]),
    "an event is nested deeply": (write_event(zlib.compress(b"[" * 100_000)), ["L-0001 unreadable"]),
    "an event is no text": (write_event(b"\xff\x00\x1b[2J"), ["L-0001 unreadable"]),
}


@corpus("attack", *FOUND)
async def test_it_is_found_without_any_help(attack: str, redis: Redis) -> None:
    intruder = await admit_intruder(redis)
    known = await export(intruder.store)
    assert await verify(intruder.store, known) == set(), "the control: untouched it is whole"
    act, expected = FOUND[attack]
    await act(intruder)
    assert await verify(intruder.store) == {*expected}
    assert {*expected} <= await verify(intruder.store, known), "heads take nothing away"


async def test_a_number_beyond_all_costs_no_billion_looks(intruder: Intruder) -> None:
    await put_field("numbers", "L", "1000000000000")(intruder)
    found = [one async for one in Verification(intruder.store).verify_all()]
    assert found[-1].code == "gone_all" and found[-1].params == {"last": "L-1000000000000"} and len(found) == 1001


async def delete_the_newest(by: Intruder) -> None:
    await by.forget("E-0001")
    await by.redis.hdel(f"{P}numbers", "E")


async def restore_an_older_dump(by: Intruder) -> None:
    """As it was before anything else was done with L-0004: the same keys with the values of that time."""
    await by.rewind("L-0001", 2)
    await by.forget("L-0005")
    await by.redis.hset(f"{P}numbers", "L", "4")


async def write_another_history(by: Intruder) -> None:
    """The same request, confirmed with another reason."""
    events = [RequestEvent.model_validate_json(one) for one in await by.events("L-0002")]
    start: Any = events[0].command
    values = {**start.filled.values, "reason": "另一个理由"}
    command = start.model_copy(update={"filled": start.filled.model_copy(update={"values": values})})
    applied = apply_command(LEAVE.definition, None, command, events[0].at)
    await by.write_events("L-0002", [applied.event.model_dump_json()])
    await by.write_request("L-0002", applied.request)


WITH_HEADS: dict[str, tuple[Act, set[str]]] = {
    "the newest event is undone": (lambda by: by.rewind("L-0001", 1), {"L-0001 rewritten"}),
    "the newest request is deleted with its number": (delete_the_newest, {"E-0001 rewritten"}),
    "an older dump is restored": (restore_an_older_dump, {"L-0001 rewritten", "L-0005 rewritten"}),
    "another history is written": (write_another_history, {"L-0002 rewritten"}),
}


@corpus("attack", *WITH_HEADS)
async def test_heads_kept_elsewhere_show_it(attack: str, redis: Redis) -> None:
    intruder = await admit_intruder(redis)
    known = await export(intruder.store)
    act, expected = WITH_HEADS[attack]
    await act(intruder)
    assert await verify(intruder.store) == set(), "what the README names: nothing in Redis tells"
    assert await verify(intruder.store, known) == expected


async def test_a_head_that_was_altered_or_is_another_stores_is_found(intruder: Intruder) -> None:
    first, *rest = await export(intruder.store)
    raised = RecordHead(first.request, first.n + 1, first.hash)
    other_hash = RecordHead(first.request, first.n, "0" * 64)
    for one in (raised, other_hash, RecordHead("L-0077", 0, first.hash)):
        assert await verify(intruder.store, [one, *rest]) == {f"{one.request} rewritten"}
    await intruder.redis.flushall()
    await office(RedisStore(intruder.redis)).engine.start_request("leave", SHORT, "U1", "in another company", NOW)
    assert await verify(intruder.store, [first, *rest]) == {f"{one.request} rewritten" for one in (first, *rest)}


async def test_a_file_that_was_cut_changed_or_emptied_is_no_file_of_heads(intruder: Intruder) -> None:
    heads = await export(intruder.store)
    whole = [*map(str, heads), format_closing_line(heads)]
    export_ = parse_heads(whole)
    assert export_.is_closed and len(export_.heads) == len(REQUESTS)
    assert parse_heads([*whole, *whole]).heads == (*export_.heads, *export_.heads), "two exports in one file"
    changed = whole[0][:-1] + ("0" if whole[0][-1] != "0" else "1")
    for odd in (whole[1:], whole[:2] + whole[3:], [whole[1], whole[0], *whole[2:]], [changed, *whole[1:]]):
        with pytest.raises(audit_record.ExportAlteredError):
            parse_heads(odd)
    assert not parse_heads(whole[:-1]).is_closed, "an older version's, or cut at the end: read, and said"
    assert not parse_heads([]).is_closed and not parse_heads([]).heads
    assert parse_heads([format_closing_line([])]).is_closed, "a store that held nothing"


async def test_heads_are_of_every_request_also_of_one_that_no_list_shows(intruder: Intruder) -> None:
    """Hidden when the heads are exported, rewritten later, and shown again: its head was there all the same."""
    await hide_one(intruder)
    assert {one.request for one in await export(intruder.store)} == {*REQUESTS}
    await intruder.forget("L-0002")
    assert [one async for one in list_record_heads(intruder.store) if isinstance(one, str)] == ["L-0002"]


async def test_what_was_added_as_the_engine_would_have_written_it_cannot_be_found(intruder: Intruder) -> None:
    """The limit that the README and `audit verify --help` name: who can write to Redis can press for others."""
    known = await export(intruder.store)
    before = await intruder.store.load_request("L-0005")
    (task,) = (one for one in before.tasks if one.is_open)
    await intruder.add_decision("L-0005", task.id, task.assignee)
    assert await verify(intruder.store, known) == set()
    assert {(one.request, one.n) for one in await export(intruder.store)} != {(one.request, one.n) for one in known}


async def test_what_was_changed_after_the_export_is_not_in_it(intruder: Intruder) -> None:
    known = await export(intruder.store)
    comment = CommentCommand(request="L-0001", actor="U1", text="谢谢")
    await office(intruder.store).engine.execute_command(comment, "later", NOW)
    later = await export(intruder.store)
    await intruder.rewind("L-0001", 1)
    assert await verify(intruder.store, known) == set()
    assert await verify(intruder.store, later) == {"L-0001 rewritten"}, "the control: newer heads show it"


async def test_what_is_no_part_of_the_record_is_not_verified(intruder: Intruder) -> None:
    for key in await intruder.redis.keys(f"{P}*"):
        if key.split(":")[2] in ("tasks", "todo", "mine", "away", "deputy", "outbox", "bodies", "answer", "timers"):
            await intruder.redis.delete(key)
    assert await verify(intruder.store) == set()


@pytest.mark.slow
async def test_the_cost_grows_with_the_record_alone(intruder: Intruder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight times as many events of one request may take sixteen times as long at most. Records of earlier versions had
    no end."""
    monkeypatch.setattr(reducer, "MAX_HISTORY", 1_000)
    engine, took, count = office(intruder.store).engine, list[float](), 0
    for many in (100, 800):
        while count < many:
            await engine.execute_command(CommentCommand(request="L-0001", actor="U1", text="x" * 50), f"c{count}", NOW)
            count += 1
        tries = list[float]()
        for _ in range(3):  # the least of them is what it costs: a busy machine only adds to it
            began = process_time()
            assert await Verification(intruder.store).verify_request("L-0001") == ()
            tries.append(process_time() - began)
        took.append(min(tries))
    assert took[1] < 16 * max(took[0], 0.02), took
