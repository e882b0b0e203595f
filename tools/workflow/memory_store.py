"""`MemoryStore`: the same as `RedisStore`, in memory, for tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tools.workflow.state import Delegation, Request
from tools.workflow.store import (
    Change,
    Conflict,
    Listing,
    Opening,
    OutboxEvent,
    Own,
    Recalled,
    away_timer,
    milliseconds,
    split_number,
)


@dataclass
class MemoryStore:
    requests: dict[str, str] = field(default_factory=dict)
    records: dict[str, list[str]] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    lists: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    announced: dict[str, OutboxEvent] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    versions: dict[str, tuple[str, str]] = field(default_factory=dict)
    forms: dict[str, int] = field(default_factory=dict)
    delegations: dict[str, Delegation] = field(default_factory=dict)

    async def opening(self, key: str, person: str) -> Opening:
        return Opening(self.answers.get(key), dict(self.versions), dict(self.last), await self.own(person))

    async def own(self, person: str) -> Own:
        return Own(self.forms.get(person, 0), tuple(member for member, _ in await self.listed("mine", person)))

    async def recall(self, key: str, request_id: str) -> Recalled:
        return Recalled(self.answers.get(key), await self.load(request_id))

    async def load(self, request_id: str) -> Request | None:
        body = self.requests.get(request_id)
        return Request.model_validate_json(body) if body else None

    async def load_all(self, request_ids: Sequence[str]) -> tuple[Request, ...]:
        return tuple(Request.model_validate_json(self.requests[r]) for r in request_ids if r in self.requests)

    async def save(self, change: Change) -> str:
        if change.key in self.answers:
            return self.answers[change.key]
        if len(self.records.get(change.after.id, ())) != change.known:
            raise Conflict(change.after.id)
        author = change.after.initiator
        if change.forms not in (None, self.forms.get(author, 0)):
            raise Conflict(change.after.id)
        if change.before is None:
            self._take_number(change.after.id)
        if change.forms is not None:
            self.forms[author] = change.forms + 1
        self.requests[change.after.id] = change.after.model_dump_json()
        self.records.setdefault(change.after.id, []).append(change.applied.event.model_dump_json())
        for listing in change.listings:
            self._list(listing)
        self.announced |= {e.id: e for e in change.events}
        self.answers[change.key] = change.answer
        return change.answer

    def _take_number(self, request_id: str) -> None:
        prefix, number = split_number(request_id)
        if self.last.get(prefix, 0) != number - 1:
            raise Conflict(request_id)
        self.last[prefix] = number

    def _list(self, listing: Listing) -> None:
        members = self.lists.setdefault((listing.name, listing.person), {})
        members.pop(listing.member, None)
        if listing.score is not None:
            members[listing.member] = listing.score

    async def events(self, request_id: str) -> tuple[str, ...]:
        return tuple(self.records.get(request_id, ()))

    async def listed(self, name: str, person: str = "", most: int | None = None) -> tuple[tuple[str, int], ...]:
        members = self.lists.get((name, person), {})
        return tuple(sorted(members.items(), key=lambda one: (one[1], one[0]))[:most])

    async def counted(self, name: str, person: str) -> int:
        return len(self.lists.get((name, person), {}))

    async def since(self, name: str, score: int) -> tuple[str, ...]:
        return tuple(member for member, at in await self.listed(name) if at >= score)

    async def due(self, now_ms: int, most: int) -> tuple[str, ...]:
        return tuple(member for member, at in await self.listed("timers") if at <= now_ms)[:most]

    async def forget_timer(self, member: str) -> None:
        self.lists.get(("timers", ""), {}).pop(member, None)

    async def put_off(self, member: str, until_ms: int) -> None:
        timers = self.lists.get(("timers", ""), {})
        if member in timers:
            timers[member] = until_ms

    async def numbers(self) -> Mapping[str, int]:
        return dict(self.last)

    async def keep_file(self, version: str, content: bytes) -> None:
        self.files.setdefault(version, content)

    async def file(self, version: str) -> bytes | None:
        return self.files.get(version)

    async def deploy(self, process: str, bpmn: str, form: str) -> None:
        self.versions[process] = (bpmn, form)

    async def deployed(self) -> Mapping[str, tuple[str, str]]:
        return dict(self.versions)

    async def put_delegation(self, delegation: Delegation, known: Collection[Delegation]) -> None:
        if {d.id for d in known} != {d.id for d in await self.away(delegation.person)}:
            raise Conflict(delegation.id)
        self.delegations[delegation.id] = delegation
        self._list(Listing("timers", "", away_timer(delegation), milliseconds(delegation.start)))

    async def end_delegation(self, delegation: Delegation) -> None:
        self.delegations.pop(delegation.id, None)
        await self.forget_timer(away_timer(delegation))

    async def away(self, person: str) -> tuple[Delegation, ...]:
        found = [d for d in self.delegations.values() if d.person == person]
        return tuple(sorted(found, key=lambda d: (d.start, d.id)))

    async def deputising(self, person: str) -> tuple[Delegation, ...]:
        found = [d for d in self.delegations.values() if d.deputy == person]
        return tuple(sorted(found, key=lambda d: (d.start, d.id)))

    async def announce(self, events: Sequence[OutboxEvent]) -> None:
        for event in events:
            self.announced.setdefault(event.id, event)

    async def outbox(self, limit: int) -> list[OutboxEvent]:
        return list(self.announced.values())[:limit]

    async def sent(self, ids: Sequence[str]) -> None:
        for event in ids:
            self.announced.pop(event, None)
