"""Finds alterations and gaps in the record.

Verification rests on three facts. The hash of each event covers the event and the hash before it. Events and requests
are numbered without gaps. Replaying the commands of the record, by the process files it names, gives every event and
the request as stored.

The limit: somebody who can rewrite all of Redis can drop the newest events or requests, restore an older state of
everything, or invent a consistent history. Against that, heads (`RecordHead`) are exported: a later record must still
contain them. Even heads do not show additions in the engine's own form, or changes made after the export. To-do lists,
delegations, cards and the journal are not part of the record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import ValidationError
from redis.exceptions import ResponseError

from tools.spec import ToolError
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.engine.audit_record import (
    NumberGap,
    RecordHead,
    list_numbered_requests,
    parse_event,
    split_into_pages,
)
from tools.workflow.engine.authority import build_no_request_error
from tools.workflow.engine.commands import RequestEvent, StartCommand
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import Request
from tools.workflow.engine.store import RedisStore, split_request_id, to_milliseconds
from tools.workflow.engine.versions import ProcessVersions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A finding. Its sentence is `audit.<code>`."""

    code: str
    request: str
    params: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """Everything stored for one request."""

    request: Request | None
    record: tuple[str, ...] | None
    """The record, or None if the content is no record."""
    changed_ms: int | None
    """Time of the last change (ms), by the list that `list_recorded_events` uses."""
    is_readable: bool = True
    """Whether the content is a request."""


class Verification:
    """One verification of everything, or of one request. Bots may be working meanwhile."""

    def __init__(self, store: RedisStore, against: Iterable[RecordHead] = ()) -> None:
        self.requests = self.events = 0
        """Numbers of verified requests and events."""
        self._store, self._versions = store, ProcessVersions(store.load_file)
        self._heads_by_request: dict[str, list[RecordHead]] = {}
        for head in against:
            self._heads_by_request.setdefault(head.request, []).append(head)
        self._changed_ms: Mapping[str, int] = {}
        self._broken_lists: set[str] = set()

    async def verify_all(self) -> AsyncIterator[AuditFinding]:
        """Verify every process in use, every numbered request, and everything else that is stored."""
        await self._load_listing()
        listed_ids = tuple(self._changed_ms)
        numbers = await self._load_numbers()  # afterwards, so that every listed request has a number
        omitted = await self._read_content(self._store.load_omitted_numbers(), {}, "left_out")
        deployments = await self._read_content(self._store.load_deployments(), {}, "processes")
        for process, version in sorted(deployments.items()):
            try:
                await self._versions.load_process(version)
            except InvalidDefinitionError as refused:
                yield AuditFinding("deployed", process, {"reason": str(refused)})
        for what in sorted(self._broken_lists):
            yield AuditFinding("broken", what)
        for page in split_into_pages(list_numbered_requests(self._changed_ms.keys(), numbers, omitted)):
            for finding in await self._verify_requests([one for one in page if isinstance(one, str)]):
                yield finding
            for gap in page:
                if isinstance(gap, NumberGap):
                    yield AuditFinding("gone_all", gap.first, {"last": gap.last})
        for one in sorted({*listed_ids, *self._heads_by_request}):
            if _is_numbered(one, numbers):
                continue
            found, is_listed = await self._verify_requests([one]), one in listed_ids
            if is_listed:
                yield AuditFinding("unnumbered", one)
            for finding in found:  # for a request known only from a head, the missing event is the whole finding
                if is_listed or finding.code != "gone":
                    yield finding

    async def verify_request(self, request: str) -> tuple[AuditFinding, ...]:
        """Verify one request. Raises `ToolError` `no_request` if there is no trace of it."""
        await self._load_listing()
        traces = (
            await self._load_record(request) != (),
            request in self._changed_ms,
            request in self._heads_by_request,
        )
        if not any(traces) and not _is_numbered(request, await self._load_numbers()):
            raise build_no_request_error(request)
        return (
            *(AuditFinding("broken", what) for what in sorted(self._broken_lists)),
            *await self._verify_requests([request]),
        )

    async def _verify_requests(self, names: Sequence[str]) -> tuple[AuditFinding, ...]:
        """Findings about these requests. A request that changes meanwhile is read again."""
        earlier: dict[str, StoredRequest] = {}
        findings_by_id: dict[str, tuple[AuditFinding, ...]] = {}
        while waiting := [name for name in names if name not in findings_by_id]:
            for name, (stored_request, findings) in zip(
                waiting, await asyncio.gather(*map(self._load_and_check, waiting)), strict=True
            ):
                if not findings or stored_request == earlier.get(name):
                    findings_by_id[name] = findings
                    self.requests, self.events = self.requests + 1, self.events + len(stored_request.record or ())
                earlier[name] = stored_request
            if len(findings_by_id) < len(names):
                await self._load_listing()
        return tuple(finding for name in names for finding in findings_by_id[name])

    async def _load_and_check(self, name: str) -> tuple[StoredRequest, tuple[AuditFinding, ...]]:
        changed_ms, record = self._changed_ms.get(name), await self._load_record(name)
        try:
            request, is_readable = await self._store.load_request(name), True
        except ValidationError:
            request, is_readable = None, False
        stored = StoredRequest(request=request, record=record, changed_ms=changed_ms, is_readable=is_readable)
        if record is None:
            return stored, (AuditFinding("unreadable", name, {"n": 0}), *self._find_rewritten(name, ()))
        events, finding = _check_chain(name, record)
        finding = finding or _check_whole(name, stored, events) or await self._check_replay(name, request, events)
        return stored, (*filter(None, [finding]), *self._find_rewritten(name, events))

    async def _load_listing(self) -> None:
        self._changed_ms = dict(await self._read_content(self._store.list_members("changed"), (), "changed"))

    async def _load_numbers(self) -> Mapping[str, int]:
        return await self._read_content(self._store.load_last_numbers(), {}, "numbers")

    async def _read_content(self, reading: Awaitable[T], otherwise: T, list_name: str = "") -> T:
        """Content of the store; `otherwise` for content that no bot writes there. In a list, that becomes a finding."""
        try:
            return await reading
        except (ValueError, LookupError, OverflowError, ResponseError) as error:
            if isinstance(error, ResponseError) and not str(error).startswith("WRONGTYPE"):
                raise  # no access, still loading
            if list_name:
                self._broken_lists.add(list_name)
            return otherwise

    async def _load_record(self, name: str) -> tuple[str, ...] | None:
        """The events of a request, or None if the content is no record."""
        reading: Awaitable[tuple[str, ...] | None] = self._store.load_events(name)
        return await self._read_content(reading, None)

    def _find_rewritten(self, name: str, events: Sequence[RequestEvent]) -> Iterator[AuditFinding]:
        """Yield findings about exported heads that are no longer in this record."""
        for head in self._heads_by_request.get(name, ()):
            if head.n >= len(events) or events[head.n].hash != head.hash:
                yield AuditFinding("rewritten", name, {"n": head.n, "hash": head.hash[:12]})

    async def _check_replay(
        self, name: str, stored_request: Request | None, events: Sequence[RequestEvent]
    ) -> AuditFinding | None:
        """A finding about the first event that the engine would have written differently, or about a request that does
        not match its events."""
        request: Request | None = None
        for event in events:
            held = event.command if isinstance(event.command, StartCommand) else request
            try:
                process = await self._versions.load_process((held.definition, held.form) if held else ("", ""))
            except InvalidDefinitionError as refused:
                return AuditFinding("no_process", name, {"n": event.n, "reason": str(refused)})
            try:
                result = apply_command(process.definition, request, event.command, event.at)
            except ToolError as refused:
                return AuditFinding("impossible", name, {"n": event.n, "reason": refused.code})
            except (LookupError, ValueError, StopIteration, AssertionError) as wrong:  # no engine ever wrote it
                return AuditFinding("impossible", name, {"n": event.n, "reason": type(wrong).__name__})
            if result.event != event:
                return AuditFinding("unlike", name, {"n": event.n})
            request = result.request
        same = request and stored_request and request.model_dump_json() == stored_request.model_dump_json()
        return None if same else AuditFinding("request", name)


def _check_chain(name: str, record: Sequence[str]) -> tuple[tuple[RequestEvent, ...], AuditFinding | None]:
    """The events up to the first one that was altered, or does not follow the event before it."""
    events: list[RequestEvent] = []
    previous = ""
    for n, text in enumerate(record):
        event = parse_event(text)
        if event is None:
            return tuple(events), AuditFinding("unreadable", name, {"n": n})
        if event.model_dump_json() != text or event.add_hash().hash != event.hash:
            return tuple(events), AuditFinding("altered", name, {"n": n})
        if event.n != n or event.previous != previous:
            return tuple(events), AuditFinding("unlinked", name, {"n": n, "found": event.n})
        events.append(event)
        previous = event.hash
    return tuple(events), None


def _check_whole(name: str, stored: StoredRequest, events: Sequence[RequestEvent]) -> AuditFinding | None:
    """Check that the request and its record both exist and belong together."""
    request = stored.request
    if not stored.is_readable:
        return AuditFinding("request_unreadable", name)
    if request is None:
        return AuditFinding("orphan", name, {"events": len(events)}) if events else AuditFinding("gone", name)
    if request.id != name:
        return AuditFinding("elsewhere", name, {"id": request.id})
    if not events or (request.events, request.head) != (len(events), events[-1].hash):
        return AuditFinding("cut", name, {"found": len(events), "events": request.events})
    if stored.changed_ms != to_milliseconds(request.changed):
        return AuditFinding("unlisted", name)
    return None


def _is_numbered(request: str, numbers: Mapping[str, int]) -> bool:
    """Whether the id is one of the numbers given out."""
    try:
        prefix, number = split_request_id(request)
    except ValueError:
        return False
    return 1 <= number <= numbers.get(prefix, 0)
