"""The engine on a real Redis: its state machines again, in a short form, and what two processes do at the same time."""

from __future__ import annotations

import asyncio
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
from tests.harness.memory_store import MemoryStore
from tests.tools.office import NOW, People
from tests.tools.workflow.approvals import Approvals
from tests.tools.workflow.company import IDS, Company
from tools.spec import ToolError
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.redis_store import RedisStore
from tools.workflow.engine.state import Delegation
from tools.workflow.engine.store import RequestChange, Store, WriteConflictError
from tools.workflow.engine.transitions import TransitionResult
from tools.workflow.process.definition import load_shipped_processes

SHORT = settings(
    max_examples=8, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
CAUGHT = settings(SHORT, max_examples=500, phases=[Phase.generate], derandomize=True, report_multiple_bugs=False)
"""As many as it takes: the first failure ends it."""
DAY = timedelta(days=1)


async def open_empty(url: str) -> Redis:
    redis = await connect_redis(url)
    await redis.flushall()
    return redis


# One request


class StoredApprovals(Approvals):
    """What is known of the request is what Redis gives back after each command."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.redis = self.runner.run(open_empty(url))
        self.store = RedisStore(self.redis)

    def teardown(self) -> None:
        self.runner.run(self.redis.aclose())
        self.runner.close()

    def attempt(self, command: Any) -> TransitionResult | None:
        before = self.request
        applied = super().attempt(command)
        if applied is not None:
            self.runner.run(
                self.save(
                    RequestChange(
                        before=before,
                        result=applied,
                        definition=self.definition,
                        idempotency_key=f"k{len(self.events)}",
                        answer="first",
                    )
                )
            )
        return applied

    async def save(self, change: RequestChange) -> None:
        assert await self.store.save_change(change) == "first"
        again = RequestChange(
            before=change.before,
            result=change.result,
            definition=change.definition,
            idempotency_key=change.idempotency_key,
            answer="second",
        )
        assert await self.store.save_change(again) == "first", "S13: the same command has its answer, and no effect"
        late = RequestChange(
            before=change.before,
            result=change.result,
            definition=change.definition,
            idempotency_key="another key",
            answer="late",
        )
        with pytest.raises(WriteConflictError):
            await self.store.save_change(late)
        self.request = await self.store.load_request("L-0001")
        self.events = [RequestEvent.model_validate_json(text) for text in await self.store.load_events("L-0001")]


def test_one_request_keeps_its_promises_on_redis(server: str) -> None:
    run_state_machine_as_test(lambda: StoredApprovals(server), settings=SHORT)


# A whole company


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
for name in (one for one in vars(Store) if not one.startswith("_")):
    setattr(MirroredStore, name, mirror(name))


class StoredCompany(Company):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.client = self.wait(open_empty(url))
        self.store = MirroredStore()
        self.store.redis = RedisStore(self.client)

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
SCRIPTS = {
    "an absence that is over counts as read": (
        "delegate.lua",
        "== 0 then return 0 end",
        "== 2 then return 0 end",
        UNSEEN,
    ),
    "an absence that came meanwhile is not seen": ("delegate.lua", "~= #ARGV - 4 then", "< 0 then", UNSEEN),
    "a closed task stays on the list": (
        "save.lua",
        "redis.call('ZREM', KEYS[listed.key], listed.member)",
        "",
        "S12: list_",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("broken", SCRIPTS)
def test_negative_control_a_broken_script_is_caught(server: str, broken: str) -> None:
    file, whole, instead, caught = SCRIPTS[broken]
    script = resources.files("tools.workflow.engine").joinpath(file).read_text(encoding="utf-8")
    assert script.count(whole) == 1
    attribute = {"delegate.lua": "_delegation_script", "save.lua": "_save_script"}[file]

    def build() -> StoredCompany:
        company = StoredCompany(server)
        store = company.store.redis
        setattr(store, attribute, company.client.register_script(script.replace(whole, instead)))
        return company

    with pytest.raises(AssertionError, match=caught):
        run_state_machine_as_test(build, settings=CAUGHT)


# Two processes


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
    with pytest.raises(ToolError) as refused:
        await engine.add_delegation(stand_in("second", "U4"), NOW)
    assert refused.value.code == "overlapping"
    kept = [one.id for one in await engine.list_delegations("U1", NOW)]
    assert kept == (["meanwhile"] if is_ended else ["meanwhile", "first"])
