"""Whether anything in the record of what was done was altered, or is missing.

What verifying rests on: the hash of each event covers the event and the hash before it; the events are numbered
without gaps, and so are the requests; and replaying the commands of the record, by the process files it names, gives
every event and the request as they are kept.

What it cannot see: somebody who can rewrite all of Redis can drop the newest events or requests, bring back an older
state of everything, or make up a history that is right in itself. Against that, heads (`Head`) are kept elsewhere: a
record holds what it held then. Not even they show what was added as the engine would have written it, nor what was
changed after they were exported; and to-do lists, deputyships, cards and the journal are no part of the record.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import ValidationError
from redis.exceptions import ResponseError

from tools.spec import ToolError
from tools.workflow.commands import Event, Start
from tools.workflow.graph import Definition, DefinitionRefused
from tools.workflow.machine import apply
from tools.workflow.moving import Applied
from tools.workflow.process import Process, compile_process
from tools.workflow.record import Gap, Head, event_of, list_numbered, pages
from tools.workflow.state import Request
from tools.workflow.store import Store, milliseconds, split_number

BROKEN = (ValueError, LookupError, OverflowError, ResponseError)
"""What reading raises where something else stands than what is looked for."""
T = TypeVar("T")
Version = tuple[str, str]
"""SHA-256 of a process file and of its form."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it must be. `code` names the sentence `audit.<code>`."""

    code: str
    request: str
    params: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kept:
    """All that is kept of one request."""

    request: Request | None
    record: tuple[str, ...] | None
    """None: what stands there is no record."""
    listed: int | None
    """When it changed last (ms), by the list that `recorded` goes by."""
    readable: bool = True
    """False: what stands there is no request."""


class Verification:
    """One look through everything, or through one request. Bots may be at work meanwhile."""

    def __init__(self, store: Store, against: Iterable[Head] = ()) -> None:
        self.requests = self.events = 0
        """How many were looked at."""
        self._store, self._files = store, Files(store)
        self._against: dict[str, list[Head]] = {}
        for head in against:
            self._against.setdefault(head.request, []).append(head)
        self._listed: Mapping[str, int] = {}
        self._broken: set[str] = set()

    async def everything(self) -> AsyncIterator[Finding]:
        """Every process in use, every request that has a number, and whatever else there is."""
        await self._list()
        listed, numbers = tuple(self._listed), await self._numbers()  # in this order: whoever is listed has one
        for process, version in sorted((await self._read("processes", self._store.deployed(), {})).items()):
            if reason := (await self._files.read(version)).reason:
                yield Finding("deployed", process, {"reason": reason})
        for what in sorted(self._broken):
            yield Finding("broken", what)
        for page in pages(list_numbered(self._listed.keys(), numbers)):
            for finding in await self._look_at([one for one in page if isinstance(one, str)]):
                yield finding
            for gap in page:
                if isinstance(gap, Gap):
                    yield Finding("gone_all", gap.first, {"last": gap.last})
        for one in sorted({*listed, *self._against}):
            if not _numbered(one, numbers):
                for finding in await self._unnumbered(one, one in listed):
                    yield finding

    async def _unnumbered(self, name: str, listed: bool) -> tuple[Finding, ...]:
        """Of what is only known by a head, that its event is missing is all there is to say."""
        found = await self._look_at([name])
        if listed:
            return (Finding("unnumbered", name), *found)
        return tuple(finding for finding in found if finding.code != "gone")

    async def only(self, request: str) -> tuple[Finding, ...]:
        """One request. Raises `ToolError` when there is no trace of it."""
        await self._list()
        traces = (await self._events(request) != (), request in self._listed, request in self._against)
        if not any(traces) and not _numbered(request, await self._numbers()):
            raise ToolError("no_request", f"there is no request {request[:40]!r}", request=request[:40])
        return (*(Finding("broken", what) for what in sorted(self._broken)), *await self._look_at([request]))

    async def _look_at(self, names: Sequence[str]) -> tuple[Finding, ...]:
        """What is wrong with these requests. What changes between two looks is looked at again."""
        seen: dict[str, Kept] = {}
        found: dict[str, tuple[Finding, ...]] = {}
        while waiting := [name for name in names if name not in found]:
            for name, (kept, findings) in zip(waiting, await asyncio.gather(*map(self._judge, waiting)), strict=True):
                if not findings or kept == seen.get(name):
                    found[name] = findings
                    self.requests, self.events = self.requests + 1, self.events + len(kept.record or ())
                seen[name] = kept
            if len(found) < len(names):
                await self._list()
        return tuple(finding for name in names for finding in found[name])

    async def _judge(self, name: str) -> tuple[Kept, tuple[Finding, ...]]:
        kept = await self._kept(name)
        return kept, await self._judged(name, kept)

    async def _list(self) -> None:
        self._listed = dict(await self._read("changed", self._store.listed("changed"), ()))

    async def _numbers(self) -> Mapping[str, int]:
        return await self._read("numbers", self._store.numbers(), {})

    async def _read(self, what: str, reading: Awaitable[T], otherwise: T) -> T:
        """A list of the store; where it holds what no bot ever puts there, that is a finding and no crash."""
        try:
            return await reading
        except BROKEN as error:
            if not _is_content(error):
                raise
            self._broken.add(what)
            return otherwise

    async def _events(self, name: str) -> tuple[str, ...] | None:
        """None: what stands there is no record."""
        try:
            return await self._store.events(name)
        except BROKEN as error:
            if not _is_content(error):
                raise
            return None

    async def _kept(self, name: str) -> Kept:
        listed, record = self._listed.get(name), await self._events(name)
        try:
            return Kept(await self._store.load(name), record, listed)
        except ValidationError:
            return Kept(None, record, listed, readable=False)

    async def _judged(self, name: str, kept: Kept) -> tuple[Finding, ...]:
        if kept.record is None:
            return (Finding("unreadable", name, {"n": 0}), *self._rewritten(name, ()))
        events, finding = _chain(name, kept.record)
        finding = finding or _whole(name, kept, events) or await self._replayed(name, kept.request, events)
        return (*filter(None, [finding]), *self._rewritten(name, events))

    def _rewritten(self, name: str, events: Sequence[Event]) -> Iterator[Finding]:
        """Heads that were kept elsewhere and are in this record no longer."""
        for head in self._against.get(name, ()):
            if head.n >= len(events) or events[head.n].hash != head.hash:
                yield Finding("rewritten", name, {"n": head.n, "hash": head.hash[:12]})

    async def _replayed(self, name: str, kept: Request | None, events: Sequence[Event]) -> Finding | None:
        """The first event that the engine would not have written so, or the request if it is not what they give."""
        request: Request | None = None
        for event in events:
            held = event.command if isinstance(event.command, Start) else request
            file = await self._files.read((held.definition, held.form) if held else ("", ""))
            if file.process is None:
                return Finding("no_process", name, {"n": event.n, "reason": file.reason})
            applied = _applied(file.process.definition, request, event)
            if isinstance(applied, str):
                return Finding("impossible", name, {"n": event.n, "reason": applied})
            if applied.event != event:
                return Finding("unlike", name, {"n": event.n})
            request = applied.request
        same = request and kept and request.model_dump_json() == kept.model_dump_json()
        return None if same else Finding("request", name)


@dataclass(frozen=True, slots=True)
class File:
    """A process as it is kept, or why it cannot be used."""

    process: Process | None
    reason: str = ""


class Files:
    """The process files of a store, each read once. `known`: processes that need not have been kept."""

    def __init__(self, store: Store, known: Iterable[Process] = ()) -> None:
        self._store = store
        self._known = {process.version: File(process) for process in known}

    async def read(self, version: Version) -> File:
        if version not in self._known:
            self._known[version] = await self._read(version)
        return self._known[version]

    async def _read(self, version: Version) -> File:
        bpmn, toml = [await self._store.file(name) for name in version]
        for name, content in zip(version, (bpmn, toml), strict=True):
            if content is None or hashlib.sha256(content).hexdigest() != name:
                return File(None, f"{name[:12] or '-'}: {'missing' if content is None else 'altered'}")
        try:
            return File(compile_process(bpmn or b"", toml or b""))
        except DefinitionRefused as refused:  # by a compiler that has become stricter
            return File(None, str(refused))


def _chain(name: str, record: Sequence[str]) -> tuple[tuple[Event, ...], Finding | None]:
    """The events up to the first that was altered, or does not follow on the one before it."""
    events: list[Event] = []
    previous = ""
    for n, text in enumerate(record):
        event = event_of(text)
        if event is None:
            return tuple(events), Finding("unreadable", name, {"n": n})
        if event.model_dump_json() != text or event.sealed().hash != event.hash:
            return tuple(events), Finding("altered", name, {"n": n})
        if event.n != n or event.previous != previous:
            return tuple(events), Finding("unlinked", name, {"n": n, "found": event.n})
        events.append(event)
        previous = event.hash
    return tuple(events), None


def _whole(name: str, kept: Kept, events: Sequence[Event]) -> Finding | None:
    """Whether the request and its record, right in itself, are both there and belong together."""
    request = kept.request
    if not kept.readable:
        return Finding("request_unreadable", name)
    if request is None:
        return Finding("orphan", name, {"events": len(events)}) if events else Finding("gone", name)
    if request.id != name:
        return Finding("elsewhere", name, {"id": request.id})
    if not events or (request.events, request.head) != (len(events), events[-1].hash):
        return Finding("cut", name, {"found": len(events), "events": request.events})
    if kept.listed != milliseconds(request.changed):
        return Finding("unlisted", name)
    return None


def _applied(definition: Definition, request: Request | None, event: Event) -> Applied | str:
    """What the engine makes of the event's command, or why it refuses it."""
    try:
        return apply(definition, request, event.command, event.at)
    except ToolError as refused:
        return refused.code
    except (LookupError, ValueError, StopIteration, AssertionError) as wrong:  # no engine ever wrote such a command
        return type(wrong).__name__


def _is_content(error: Exception) -> bool:
    """Whether it is about what is kept. Other refusals of a server (no access, still loading) are no finding."""
    return not isinstance(error, ResponseError) or str(error).startswith("WRONGTYPE")


def _numbered(request: str, numbers: Mapping[str, int]) -> bool:
    """Whether it is one of the numbers that were given out."""
    try:
        prefix, number = split_number(request)
    except ValueError:
        return False
    return 1 <= number <= numbers.get(prefix, 0) and request == f"{prefix}-{number:04d}"
