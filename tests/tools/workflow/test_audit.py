"""What was done is told in full, and whatever is altered is found; what is done on purpose: `test_audit_attacks`."""

import asyncio
import copy
import json
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.memory_store import MemoryStore, Store
from tests.tools.company import NOW, TAXI
from tests.tools.office import office, refused
from tests.tools.workflow.history import LEAVE, lived, other
from tests.tools.workflow.invariants import replay_events
from tools.workflow.engine import audit_record
from tools.workflow.engine.audit import AuditFinding, Verification
from tools.workflow.engine.audit_record import RecordHead, build_audit_lines, list_record_heads, list_recorded_events
from tools.workflow.engine.commands import CommentCommand, RequestEvent
from tools.workflow.engine.state import Request


@cache
def history() -> MemoryStore:
    store = MemoryStore()
    asyncio.run(lived(store))
    return store


@pytest.fixture
def store() -> MemoryStore:
    return copy.deepcopy(history())


async def verified(store: Store, against: tuple[RecordHead, ...] = ()) -> list[AuditFinding]:
    return [finding async for finding in Verification(store, against).verify_all()]


def found(store: Store, against: tuple[RecordHead, ...] = ()) -> list[tuple[str, str]]:
    return [(one.request, one.code) for one in asyncio.run(verified(store, against))]


async def told(store: Store, request: str = "", since: datetime = NOW) -> list[audit_record.AuditLine]:
    recorded = [one async for one in list_recorded_events(store, since, request)]
    return [line for name, _, event in recorded if event for line in build_audit_lines(name, event)]


async def test_a_line_for_every_flow_with_its_condition_and_who_and_why(store: MemoryStore) -> None:
    rows = [(line.n, line.actor, line.via, line.command, line.node, line.to) for line in await told(store, "L-0001")]
    assert rows == [
        (0, "U1", "button", "start", "submitted", "length"),
        (0, "U1", "button", "start", "length", "first_level"),
        (1, "U2", "button", "approve", "first_level", "first_answer"),
        (1, "U2", "button", "approve", "first_answer", "long_leave"),
        (1, "U2", "button", "approve", "long_leave", "second_level"),
        (2, "U3", "button", "approve", "second_level", "second_answer"),
        (2, "U3", "button", "approve", "second_answer", "very_long_leave"),
        (2, "U3", "button", "approve", "very_long_leave", "cc_approved"),
        (2, "system:rule", "rule", "approve", "cc_approved", ""),
        (2, "U3", "button", "approve", "cc_approved", "leave_approved"),
    ]
    taken = {line.flow: line.condition for line in await told(store, "L-0001")}
    assert taken["long"] == "${days > 3}" and taken["longer"] == "" and taken["first_yes"] == "${decision == 'approve'}"
    (line,) = [line for line in await told(store, "L-0002") if line.node == "short_leave" and not line.flow]
    assert (line.actor, line.via, line.status) == ("system:rule", "rule", "approved"), "a rule acts in its own name"
    approvals = [line for line in await told(store, "E-0001") if line.command == "approve"]
    assert {(line.actor, line.on_behalf_of) for line in approvals if line.task == "E-0001-2"} == {("U5", "U3")}
    still = [(line.command, line.about, line.node) for line in await told(store, "E-0001") if not line.node]
    assert still == [("comment", "", ""), ("cc", "U5", ""), ("transfer", "U3", "")], "what moves nothing has a line too"
    fired = [(line.actor, line.via, line.about) for line in await told(store, "L-0005") if line.command == "fire"]
    assert fired == [("system:timer", "timer", "first_remind"), ("system:timer", "timer", "first_escalate,U3")]
    (moved,) = [line for line in await told(store, "L-0004") if line.command == "migrate"]
    assert (moved.actor, moved.via, moved.about) == ("system:admin:root", "command", other(LEAVE).definition.version)
    for request in ("L-0001", "L-0003", "E-0001"):
        pairs = {line.n: (line.previous, line.hash) for line in await told(store, request)}
        assert pairs[0][0] == ""
        assert [pairs[n][0] for n in sorted(pairs)[1:]] == [pairs[n][1] for n in sorted(pairs)[:-1]], "a chain"


async def test_only_what_is_recent_is_told_and_requests_by_their_last_change(store: MemoryStore) -> None:
    engine = office(store).engine
    later = NOW + timedelta(days=8)
    await engine.execute_command(CommentCommand(request="L-0001", actor="U1", text="谢谢"), "later", later)
    everything = [line.request for line in await told(store)]
    assert everything[-1] == "L-0001" and set(everything) == set(REQUESTS)
    recent = await told(store, since=later - timedelta(hours=1))
    assert [(line.request, line.command) for line in recent] == [("L-0001", "comment")]


async def test_many_requests_are_told_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_record, "PAGE_SIZE", 5)
    store = MemoryStore()
    engine, count = office(store).engine, 11
    for n in range(count):
        await engine.start_request("expense", TAXI, "U1", f"{n}", NOW)
    assert len([name async for name, _, _ in list_recorded_events(store, NOW)]) == count
    assert len(await exported(store)) == count and await verified(store) == []


async def test_the_look_counts_what_it_looked_at_also_at_one_request_alone(store: MemoryStore) -> None:
    verification = Verification(store)
    assert [finding async for finding in verification.verify_all()] == []
    assert (verification.requests, verification.events) == (6, sum(map(len, store.records.values())))
    known = await exported(store)
    await office(store).engine.execute_command(CommentCommand(request="L-0004", actor="U1", text="谢谢"), "on", NOW)
    assert await verified(store, known) == [], "heads stay in a record that goes on"
    del store.requests["L-0002"]
    assert await Verification(store).verify_request("L-0001") == ()
    assert [one.code for one in await Verification(store).verify_request("L-0002")] == ["orphan"]
    assert (await refused(Verification(store).verify_request("L-0099"))).code == "no_request"


async def test_a_request_replays_by_the_version_of_each_event_while_bots_are_at_work(store: MemoryStore) -> None:
    events = [RequestEvent.model_validate_json(text) for text in store.records["L-0004"]]
    both = {p.definition.version: p.definition for p in (LEAVE, other(LEAVE))}
    assert replay_events(both, events) == await store.load_request("L-0004")
    assert "second_level" not in {line.to for line in await told(store, "L-0004")}
    moving = Moving(**vars(store))
    assert await verified(moving) == [] and moving.has_moved


class Moving(MemoryStore):
    """A store where somebody speaks right between the record and the request being read."""

    has_moved = False

    async def load_request(self, request_id: str) -> Request | None:
        if not self.has_moved:
            self.has_moved = True
            comment = CommentCommand(request=request_id, actor="U1", text="嗯")
            await office(self).engine.execute_command(comment, "meanwhile", NOW)
        return await super().load_request(request_id)


REQUESTS = ("L-0001", "L-0002", "L-0003", "L-0004", "L-0005", "E-0001")
many = settings(max_examples=150)


def records() -> st.SearchStrategy[tuple[str, int]]:
    return st.sampled_from([(request, n) for request in REQUESTS for n in range(len(history().records[request]))])


@pytest.mark.slow
@many
@given(which=records(), at=st.integers(0, 10_000), sign=st.characters(codec="utf-8"))
def test_any_changed_character_of_any_event_is_found(which: tuple[str, int], at: int, sign: str) -> None:
    (request, n), store = which, copy.deepcopy(history())
    text = store.records[request][n]
    at %= len(text)
    changed = text[:at] + sign + text[at + 1 :]
    store.records[request][n] = changed
    assert bool(found(store)) == (changed != text)


@pytest.mark.slow
@many
@given(request=st.sampled_from(REQUESTS), pick=st.integers(0, 1000))
def test_any_changed_field_of_a_request_is_found(request: str, pick: int) -> None:
    store = copy.deepcopy(history())
    body = store.requests[request]
    store.requests[request] = json.dumps(altered(json.loads(body), pick), ensure_ascii=False)
    assert [one for one, _ in found(store)] == [request]


def altered(value: Any, pick: int) -> Any:
    """The same data with one of its texts, numbers or lists changed."""
    places: list[tuple[Any, Any]] = []

    def walk(at: Any) -> None:
        for name, part in at.items() if isinstance(at, dict) else enumerate(at):
            if isinstance(part, dict | list) and part:
                walk(part)
            else:
                places.append((at, name))

    value = copy.deepcopy(value)
    walk(value)
    at, name = places[pick % len(places)]
    at[name] = at[name] + 1 if isinstance(at[name], int) else f"{at[name]}x" if isinstance(at[name], str) else ["x"]
    return value


async def exported(store: MemoryStore) -> tuple[RecordHead, ...]:
    return tuple([head async for head in list_record_heads(store) if isinstance(head, RecordHead)])


def test_heads_are_read_as_they_are_written() -> None:
    known = asyncio.run(exported(history()))
    assert audit_record.parse_heads([f"{head}\n" for head in known] + ["\n"]).heads == known
    for odd in ("L-0001", "L-0001 x " + "0" * 64, "L-0001 1 abc", "L-0001 ² " + "0" * 64):
        with pytest.raises(ValueError, match="2"):
            audit_record.parse_heads([str(known[0]), odd])
