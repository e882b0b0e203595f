"""The store on a real Redis: what each of its scripts writes, and that one that refuses writes nothing; a company whose
every look is the same in memory; and what two processes do at the same time."""

import json
import zlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from importlib import resources
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test
from redis.asyncio import Redis

from bot.redis.connect import connect_redis
from tests.harness.corpus import corpus
from tests.harness.memory_store import MemoryStore
from tests.tools.company import TAXI
from tests.tools.office import NOW, People, office, refused
from tests.tools.workflow.company import IDS, Company
from tools.workflow.engine.audit import Verification
from tools.workflow.engine.audit_record import list_numbered_requests
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.state import Delegation
from tools.workflow.engine.store import OutboxEvent, RedisStore, WriteConflictError, split_request_id
from tools.workflow.process.definition import load_shipped_processes

HOUR_MS, DAY = 3_600_000, timedelta(days=1)
NAMES = ("request", "answer", "events", "numbers", "outbox", "bodies", "forms", "left_out", "todo", "mine")


def read_script(name: str) -> str:
    return resources.files("tools.workflow.engine").joinpath(f"{name}.lua").read_text(encoding="utf-8")


async def run(redis: Redis, script: str, names: tuple[str, ...], *args: str) -> Any:
    return await redis.eval(read_script(script), len(names), *(f"cs:{{wf}}:{name}" for name in names), *args)


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
    rest = build_rest(number={"prefix": "L", "last": "1", "next": "2"}, forms={"author": "U1", "known": "4"})
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
    before = await read_everything(redis)
    for expected in (1, 2):
        again = await save(redis, build_rest(), expected=expected, answer="kept later")
        assert again == ["kept", "kept now"], "the same command again has its answer"
    assert await read_everything(redis) == before, "and no effect"


async def test_only_a_start_takes_a_number_and_only_a_form_is_counted(redis: Redis, stored: dict[str, Any]) -> None:
    assert await save(redis, {"lists": [], "notices": []}) == ["kept", "kept now"]
    found = await read_everything(redis)
    assert found == {**stored, "request": "as it is", "answer": "kept now", "events": ["event 1", "event 2"]}
    await redis.flushall()
    rest = build_rest(number={"prefix": "L", "last": "0", "next": "1"}, forms={"author": "U1", "known": "0"})
    assert await save(redis, rest, expected=0) == ["kept", "kept now"]
    found = await read_everything(redis)
    assert found["numbers"] == {"L": "1", "outbox": "2"} and found["forms"] == {"U1": "1"}


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
    counted = {"prefix": "L", "last": str(number - 1), "next": str(number)}
    rest = build_rest(number=counted, forms={"author": form[0], "known": form[1]})
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


@corpus("spelled", "", "L", "L-", "L-x", "L-12", "L-0012x", "L-+012", "L-0_12", "L-٠٠١٢", f"L-{'9' * 16}")
def test_another_spelling_is_no_request_number(spelled: str) -> None:
    with pytest.raises(ValueError, match="is no request number"):
        split_request_id(spelled)
    assert split_request_id("L-0012") == ("L", 12), "the control"


async def test_a_notice_that_waits_keeps_its_place_and_its_words(redis: Redis) -> None:
    await redis.hset("cs:{wf}:numbers", "outbox", "5")
    for id, body in (("n1", "first"), ("n2", "second"), ("n1", "again")):
        await run(redis, "announce", ("numbers", "outbox", "bodies"), id, body)
    queued, bodies = {"n1": 6, "n2": 7}, {"n1": "first", "n2": "second"}
    assert await read_everything(redis) == {"numbers": {"outbox": "7"}, "outbox": queued, "bodies": bodies}


@corpus(
    ("known", "is_kept"),
    (("a", "b"), True),
    (("b", "a"), True),
    (("a",), False),
    (("a", "b", "c"), False),
    (("a", "c"), False),
)
async def test_an_absence_is_kept_if_the_others_are_those_read(redis: Redis, known: list[str], is_kept: bool) -> None:
    await redis.hset("cs:{wf}:away", mapping={"a": "A", "b": "B"})
    before = await read_everything(redis)
    kept = await run(redis, "delegate", ("away", "deputy", "timers"), "d", "D", "away:d", "7", *known)
    written = {"away": {"a": "A", "b": "B", "d": "D"}, "deputy": {"d": "D"}, "timers": {"away:d": 7}}
    assert (kept, await read_everything(redis)) == ((1, written) if is_kept else (0, before))


async def test_a_file_is_kept_once_what_is_sent_is_gone_and_no_deleted_timer_comes_back(redis: Redis) -> None:
    store = RedisStore(redis)
    await redis.zadd("cs:{wf}:timers", {"b": 2, "a": 1})
    assert (await store.list_due_timers(2, 9), await store.list_due_timers(2, 1)) == (("a", "b"), ("a",))
    await store.postpone_timer("gone", 1)
    assert await store.list_due_timers(3, 9) == ("a", "b")
    await redis.zadd("cs:{wf}:all", {"z": 3, "x": 1, "y": 2})
    assert await store.list_members_since("all", 2) == ("y", "z"), "in their order"
    assert await store.list_members("all", most=2) == (("x", 1), ("y", 2))
    assert await store.list_members("all", most=2, newest=True) == (("z", 3), ("y", 2))
    events = [OutboxEvent(id=f"n{n}", kind="deputy", data={"n": str(n)}) for n in range(4)]
    assert await store.list_outbox(9) == []
    await store.append_outbox(events)
    assert await store.list_outbox(2) == events[:2]
    await store.mark_sent([])
    await store.mark_sent(["n0", "n2"])
    assert await store.list_outbox(9) == [events[1], events[3]]
    found = await read_everything(redis)
    assert set(found["bodies"]) == {"n1", "n3"} and set(found["outbox"]) == {"n1", "n3"}
    assert await store.load_file("v") is None
    for content in ("第一", "second"):
        await store.save_file("v", content.encode())
    assert await store.load_file("v") == "第一".encode()
    for bpmn in ("b1", "b2"):
        await store.save_deployment("leave", bpmn, "f")
    assert await store.load_deployments() == {"leave": ("b2", "f")}
    await redis.hset("cs:{wf}:numbers", mapping={"L": "7", "outbox": "9"})
    assert await store.load_last_numbers() == {"L": 7}


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


SHORT = settings(max_examples=6, stateful_step_count=25, suppress_health_check=list(HealthCheck))
CAUGHT = settings(SHORT, max_examples=500, phases=[Phase.generate], report_multiple_bugs=False)
"""As many as it takes: the first failure ends it."""


class MirroredStore(MemoryStore):
    """Keeps in Redis, too, what it keeps in memory; both have to answer alike."""

    redis: RedisStore


def mirror(name: str) -> Callable[..., Awaitable[Any]]:
    async def answer(store: MirroredStore, *args: Any) -> Any:
        expected = await call(getattr(MemoryStore, name), store, *args)
        found = await call(getattr(store.redis, name), *args)
        assert found == expected, f"S12: {name} is the same wherever it is kept"
        if isinstance(found, WriteConflictError):
            raise found
        return found

    async def call(method: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        try:
            return await method(*args)
        except WriteConflictError:
            return CONFLICT

    return answer


CONFLICT = WriteConflictError("L-0001")
for name in vars(RedisStore).keys() - {"number_from_one", "skip_numbers"}:  # what only a restored store needs
    if not name.startswith("_"):
        setattr(MirroredStore, name, mirror(name))


class StoredCompany(Company):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.client = self.wait(connect_redis(url))
        self.wait(self.client.flushall())
        self.store = MirroredStore()
        self.store.redis = RedisStore(self.client)
        self.steps = 0

    def teardown(self) -> None:
        self.wait(self.client.aclose())
        super().teardown()

    @precondition(lambda self: self.store.delegations)
    @rule(which=st.integers(0, 100), deputy=st.sampled_from(IDS), seen=st.sampled_from(["fewer", "more", "others"]))
    def somebody_is_away_who_has_not_seen_the_latest(self, which: int, deputy: str, seen: str) -> None:
        """Two processes read the same, and each keeps an absence."""
        one = list(self.store.delegations.values())[which % len(self.store.delegations)]
        there = list(self.wait(self.store.list_delegations_from(one.person)))
        other = one.model_copy(update={"id": "ended meanwhile"})
        known = {"fewer": there[1:], "more": [*there, other], "others": [*there[1:], other]}[seen]
        away = one.model_copy(update={"id": f"late {which}", "deputy": deputy})
        with pytest.raises(WriteConflictError):
            self.wait(self.store.save_delegation(away, known))

    @invariant()
    def s12_redis_holds_what_memory_holds(self) -> None:
        """Whatever was read in between is compared at once; all there is, every few steps."""
        self.steps += 1
        if self.steps % 5 == 0:
            self.wait(self.compare())

    async def compare(self) -> None:
        for name, person in self.store.lists:
            await self.store.list_members(name, person)
        for request in self.store.requests:
            assert await self.store.load_request(request) and await self.store.load_events(request)
        for person in IDS:
            await self.store.list_delegations_from(person)
            await self.store.list_delegations_to(person)
            for year in (NOW.year, NOW.year + 1):
                await self.store.load_requests_of_year(person, "leave", year)
        await self.store.list_outbox(1_000)


def test_a_company_keeps_its_promises_on_redis(server: str) -> None:
    run_state_machine_as_test(lambda: StoredCompany(server), settings=SHORT)


UNSEEN = "S12: save_delegation"
REMOVAL = "redis.call('ZREM', KEYS[listed.key], listed.member)"
SCRIPTS = {
    "an absence that is over counts as read": ("delegate", "== 0 then return 0 end", "== 2 then return 0 end", UNSEEN),
    "an absence that came meanwhile is not seen": ("delegate", "~= #ARGV - 4 then", "< 0 then", UNSEEN),
    "a closed task stays on the list": ("save", REMOVAL, "", "S12: list_"),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@corpus("broken", *SCRIPTS)
def test_negative_control_a_broken_script_is_caught(server: str, broken: str) -> None:
    file, whole, instead, caught = SCRIPTS[broken]
    script = read_script(file)
    assert script.count(whole) == 1
    attribute = {"delegate": "_delegation_script", "save": "_save_script"}[file]

    def build() -> StoredCompany:
        company = StoredCompany(server)
        store = company.store.redis
        setattr(store, attribute, company.client.register_script(script.replace(whole, instead)))
        return company

    with pytest.raises(AssertionError, match=caught):
        run_state_machine_as_test(build, settings=CAUGHT)


def stand_in(id: str, deputy: str, start: int = 1) -> Delegation:
    return Delegation(id=id, person="U1", deputy=deputy, start=NOW + start * DAY, end=NOW + (start + 3) * DAY)


@pytest.mark.parametrize("is_ended", [False, True])
async def test_an_absence_that_came_between_the_look_and_the_write_is_seen(redis: Redis, is_ended: bool) -> None:
    """Whoever wrote it has ended another one, perhaps: then there are as many as before."""
    store = RedisStore(redis)
    engine = EmbeddedEngine(store, load_shipped_processes(), People())
    await engine.add_delegation(stand_in("first", "U2", start=10), NOW)
    save = store.save_delegation

    async def be_second(delegation: Delegation, known: Any) -> None:
        with patch.object(store, "save_delegation", save):
            if is_ended:
                await engine.end_delegation("U1", "first", NOW)
            await engine.add_delegation(stand_in("meanwhile", "U3"), NOW)
        store.save_delegation = save  # type: ignore[method-assign]
        await save(delegation, known)

    store.save_delegation = be_second  # type: ignore[method-assign]
    assert (await refused(engine.add_delegation(stand_in("second", "U4"), NOW))).code == "overlapping"
    kept = [one.id for one in await engine.list_delegations("U1", NOW)]
    assert kept == (["meanwhile"] if is_ended else ["meanwhile", "first"])


async def start_request(store: RedisStore, key: str) -> str:
    form = {**TAXI, "amount": str(ord(key))}
    return (await office(store).engine.start_request("expense", form, "U1", key, NOW)).request


def open_store(redis: Redis, floor: int = 6_930_000) -> RedisStore:
    """A store of one's own, whose numbers begin by time."""
    return RedisStore(redis, compute_number_floor=lambda: floor)


async def verify(store: RedisStore) -> set[str]:
    return {one.code async for one in Verification(store).verify_all()}


async def test_a_new_store_counts_from_where_no_earlier_one_can_have_come(redis: Redis) -> None:
    store = open_store(redis)
    assert [await start_request(store, one) for one in "ab"] == ["E-6930001", "E-6930002"]
    assert await start_request(open_store(redis, 6_940_000), "c") == "E-6930003", "one that counts goes on counting"
    assert await verify(store) == set(), "nothing is missing before the first"


async def test_a_store_that_somebody_says_is_the_first_counts_from_one_until_it_is_lost(redis: Redis) -> None:
    store = open_store(redis)
    assert await store.number_from_one()
    assert [await start_request(store, one) for one in "ab"] == ["E-0001", "E-0002"]
    assert not await store.number_from_one(), "it is not the first use any more"
    await redis.flushall()
    later = open_store(redis)
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
async def test_an_accepted_store_counts_beyond_what_was_given_out_just_now(redis: Redis, is_accepted: bool) -> None:
    """The first numbers are by time, and none has passed. Who is not accepted, by nobody who has seen one, is the
    negative control."""

    async def start_three(keys: str) -> list[str]:
        return [await start_request(open_store(redis), one) for one in keys]

    given = await start_three("abc")
    await redis.flushall()
    if is_accepted:
        await RedisStore(redis).skip_numbers(6_930_000)
    assert set(given).isdisjoint(await start_three("def")) is is_accepted
    assert await verify(RedisStore(redis)) == set()


@corpus(
    ("listed", "omitted", "expected"),
    ([], [], [1, 2, 3]),
    ([], [range(1, 3)], [1, 2, 3]),  # too few: they are missing
    (["L-2001", "L-2002"], [range(1, 2001)], [2001, 2002]),
    (["L-0001", "L-2003"], [range(2, 2002)], [1, 2002, 2003]),
    (["L-0005", "L-2001"], [range(1, 2001)], [5, 2001]),
)
def test_only_long_ranges_count_as_left_out(listed: list[str], omitted: list[range], expected: list[int]) -> None:
    found = list_numbered_requests(listed, {"L": max(expected)}, {"L": omitted})
    assert list(found) == [f"L-{one:04d}" for one in expected]
