"""`MemoryStore`: a `RedisStore` in memory, for tests."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tools.workflow.engine.state import Delegation, Request
from tools.workflow.engine.store import (
    ListUpdate,
    OutboxEvent,
    OwnRequests,
    RedisStore,
    RequestChange,
    StartContext,
    WriteConflictError,
    format_away_timer,
    select_requests_of_year,
    split_request_id,
    to_milliseconds,
)


@dataclass
class MemoryStore:
    requests: dict[str, str] = field(default_factory=dict)
    records: dict[str, list[str]] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    lists: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    last_numbers: dict[str, int] = field(default_factory=dict)
    omitted_numbers: dict[str, list[range]] = field(default_factory=dict)
    number_floor: int = 0
    outbox_events: dict[str, OutboxEvent] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    deployments: dict[str, tuple[str, str]] = field(default_factory=dict)
    form_counts: dict[str, int] = field(default_factory=dict)
    delegations: dict[str, Delegation] = field(default_factory=dict)

    async def load_start_context(self, key: str, person: str) -> StartContext:
        return StartContext(
            self.answers.get(key), dict(self.deployments), dict(self.last_numbers), self.number_floor,
            await self.load_own_requests(person),
        )  # fmt: skip

    async def load_own_requests(self, person: str) -> OwnRequests:
        return OwnRequests(
            self.form_counts.get(person, 0), tuple(member for member, _ in await self.list_members("mine", person))
        )

    async def load_command_context(self, key: str, request_id: str) -> tuple[str | None, Request | None]:
        return self.answers.get(key), await self.load_request(request_id)

    async def load_request(self, request_id: str) -> Request | None:
        body = self.requests.get(request_id)
        return Request.model_validate_json(body) if body else None

    async def load_requests(self, request_ids: Sequence[str]) -> tuple[Request, ...]:
        return tuple(Request.model_validate_json(self.requests[r]) for r in request_ids if r in self.requests)

    async def list_own_requests(self, person: str) -> tuple[Request, ...]:
        return await self.load_requests([request for request, _ in await self.list_members("mine", person)])

    async def load_requests_of_year(self, person: str, process: str, year: int) -> tuple[Request, ...]:
        return select_requests_of_year(await self.list_own_requests(person), process, year)

    async def save_change(self, change: RequestChange) -> str:
        if change.idempotency_key in self.answers:
            return self.answers[change.idempotency_key]
        if len(self.records.get(change.after.id, ())) != change.expected_events:
            raise WriteConflictError(change.after.id)
        author = change.after.initiator
        if change.form_count not in (None, self.form_counts.get(author, 0)):
            raise WriteConflictError(change.after.id)
        if change.before is None:
            self._claim_request_number(change.after.id)
        if change.form_count is not None:
            self.form_counts[author] = change.form_count + 1
        self.requests[change.after.id] = change.after.model_dump_json()
        self.records.setdefault(change.after.id, []).append(change.event.model_dump_json())
        for listing in change.list_updates:
            self._apply_list_update(listing)
        self.outbox_events |= {e.id: e for e in change.outbox_events}
        self.answers[change.idempotency_key] = change.answer
        return change.answer

    def _claim_request_number(self, request_id: str) -> None:
        prefix, number = split_request_id(request_id)
        last = self.last_numbers.get(prefix, 0)
        if last >= number:
            raise WriteConflictError(request_id)
        if last + 1 < number:
            self.omitted_numbers.setdefault(prefix, []).append(range(last + 1, number))
        self.last_numbers[prefix] = number

    def _apply_list_update(self, listing: ListUpdate) -> None:
        members = self.lists.setdefault((listing.list_name, listing.person), {})
        members.pop(listing.member, None)
        if listing.score is not None:
            members[listing.member] = listing.score

    async def load_events(self, request_id: str) -> tuple[str, ...]:
        return tuple(self.records.get(request_id, ()))

    async def list_members(
        self, name: str, person: str = "", most: int | None = None, *, newest: bool = False
    ) -> tuple[tuple[str, int], ...]:
        members = self.lists.get((name, person), {})
        return tuple(sorted(members.items(), key=lambda one: (one[1], one[0]), reverse=newest)[:most])

    async def count_members(self, name: str, person: str) -> int:
        return len(self.lists.get((name, person), {}))

    async def list_members_since(self, name: str, score: int) -> tuple[str, ...]:
        return tuple(member for member, at in await self.list_members(name) if at >= score)

    async def list_due_timers(self, now_ms: int, most: int) -> tuple[str, ...]:
        return tuple(member for member, at in await self.list_members("timers") if at <= now_ms)[:most]

    async def delete_timer(self, member: str) -> None:
        self.lists.get(("timers", ""), {}).pop(member, None)

    async def postpone_timer(self, member: str, until_ms: int) -> None:
        timers = self.lists.get(("timers", ""), {})
        if member in timers:
            timers[member] = until_ms

    async def load_last_numbers(self) -> Mapping[str, int]:
        return dict(self.last_numbers)

    async def load_omitted_numbers(self) -> Mapping[str, Sequence[range]]:
        return dict(self.omitted_numbers)

    async def save_file(self, version: str, content: bytes) -> None:
        self.files.setdefault(version, content)

    async def load_file(self, version: str) -> bytes | None:
        return self.files.get(version)

    async def save_deployment(self, process: str, bpmn: str, form: str) -> None:
        self.deployments[process] = (bpmn, form)

    async def load_deployments(self) -> Mapping[str, tuple[str, str]]:
        return dict(self.deployments)

    async def save_delegation(self, delegation: Delegation, known: Collection[Delegation]) -> None:
        if {d.id for d in known} != {d.id for d in await self.list_delegations_from(delegation.person)}:
            raise WriteConflictError(delegation.id)
        self.delegations[delegation.id] = delegation
        self._apply_list_update(
            ListUpdate("timers", "", format_away_timer(delegation), to_milliseconds(delegation.start))
        )

    async def delete_delegation(self, delegation: Delegation) -> None:
        self.delegations.pop(delegation.id, None)
        await self.delete_timer(format_away_timer(delegation))

    async def list_delegations_from(self, person: str) -> tuple[Delegation, ...]:
        found = [d for d in self.delegations.values() if d.person == person]
        return tuple(sorted(found, key=lambda d: (d.start, d.id)))

    async def list_delegations_to(self, person: str) -> tuple[Delegation, ...]:
        found = [d for d in self.delegations.values() if d.deputy == person]
        return tuple(sorted(found, key=lambda d: (d.start, d.id)))

    async def append_outbox(self, events: Sequence[OutboxEvent]) -> None:
        for event in events:
            self.outbox_events.setdefault(event.id, event)

    async def list_outbox(self, limit: int) -> list[OutboxEvent]:
        return list(self.outbox_events.values())[:limit]

    async def mark_sent(self, ids: Sequence[str]) -> None:
        for event in ids:
            self.outbox_events.pop(event, None)


Store: TypeAlias = RedisStore | MemoryStore
