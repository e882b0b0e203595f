"""The record for auditors, and its heads."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from pydantic import ValidationError

from tools.workflow.engine.commands import (
    AddSignCommand,
    CcCommand,
    DecideCommand,
    FireTimerCommand,
    MigrateCommand,
    RequestEvent,
    StartCommand,
    TransferCommand,
)
from tools.workflow.engine.state import RULE
from tools.workflow.engine.store import RedisStore, format_request_id, split_request_id, to_milliseconds

PAGE_SIZE = 100
"""Requests read at once."""
MAX_UNLISTED = 1000
"""Most consecutive numbers that are looked up one by one if no list has them."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """One transition for an auditor: a flow that was taken, a node that acted by itself or, if nothing moved, the
    command alone."""

    at: datetime
    request: str
    n: int
    actor: str
    """Person id, or `system:…`."""
    on_behalf_of: str
    via: str
    """The cause: `button`, `timer`, `command`, or `rule` for the process itself."""
    command: str
    """A decision, or the kind of the command."""
    task: str
    about: str
    """Further subjects of the command: person ids, a timer, a version."""
    flags: str
    """Unusual facts about the form that was handed in, separated by `;`. With `exception approver=U5 rules=U2`, the
    author chose U5, and the rules name U2. With `bound recent`, several requests together reach this bound."""
    node: str
    """The node that was left, or that acted."""
    flow: str
    condition: str
    to: str
    status: str
    """The request's status after the command."""
    arguments: str
    """Hash of the command."""
    previous: str
    hash: str


def build_audit_lines(request: str, event: RequestEvent) -> Iterator[AuditLine]:
    """Yield the transitions of one event."""
    filled = event.command.filled if isinstance(event.command, StartCommand | DecideCommand) else None
    flags: list[str] = []
    if filled:
        for field, named in (filled.exceptions or {}).items():
            flags.append(f"exception {field}={','.join(filled.resolve_people(field))} rules={','.join(named)}")
        flags += [f"bound {bound}" for bound in filled.exceeded]
    whole = AuditLine(
        at=event.at,
        request=request,
        n=event.n,
        actor=event.by,
        on_behalf_of=event.on_behalf,
        via=event.via,
        command=event.command.decision.value if isinstance(event.command, DecideCommand) else event.command.kind,
        task=getattr(event.command, "task", ""),
        about=_describe_subject(event),
        flags=";".join(flags),
        node="",
        flow="",
        condition="",
        to="",
        status=event.status.value,
        arguments=event.command_hash,
        previous=event.previous,
        hash=event.hash,
    )
    for step in event.steps:
        acted: dict[str, Any] = {} if step.flow else {"actor": RULE, "on_behalf_of": "", "via": "rule"}
        moved: dict[str, Any] = {"node": step.node, "flow": step.flow, "condition": step.condition, "to": step.to}
        yield replace(whole, **moved, **acted)
    if not event.steps:
        yield whole


def _describe_subject(event: RequestEvent) -> str:
    match event.command:
        case TransferCommand(person=person):
            return person
        case AddSignCommand(people=people) | CcCommand(people=people):
            return ",".join(people)
        case FireTimerCommand(timer=timer, manager=manager):
            return f"{timer},{manager}" if event.opened else timer
        case MigrateCommand(definition=definition):
            return definition
        case DecideCommand(to=to):
            return to
    return ""


async def list_recorded_events(
    store: RedisStore, since: datetime, request: str = ""
) -> AsyncIterator[tuple[str, int, RequestEvent | None]]:
    """Yield request, number and event for all events since a time, request by request, oldest last change first. An
    unreadable event is None."""
    wanted = (request,) if request else await store.list_members_since("changed", to_milliseconds(since))
    for page in split_into_pages(wanted):
        records = await asyncio.gather(*(store.load_events(one) for one in page))
        for one, record in zip(page, records, strict=True):
            for n, text in enumerate(record):
                event = parse_event(text)
                if event is None or event.at >= since:
                    yield one, n, event


@dataclass(frozen=True, slots=True)
class RecordHead:
    """The head of a request's record: number and hash of its last event."""

    request: str
    n: int
    hash: str

    def __str__(self) -> str:
        return f"{self.request} {self.n} {self.hash}"


@dataclass(frozen=True, slots=True)
class HeadExport:
    """The content of a file of heads."""

    heads: tuple[RecordHead, ...]
    is_closed: bool
    """Whether the file ends with its closing line. Otherwise an older version wrote it, or its end is missing."""


class ExportAlteredError(ValueError):
    """The content of a file of heads does not match its closing line: something was changed, or is missing."""


def format_closing_line(heads: Iterable[RecordHead]) -> str:
    """The last line of an export: the number of heads before it, and the SHA-256 of their lines. The line reveals
    accidents only: somebody who can rewrite the file can rewrite this line too."""
    lines = [f"{head}\n" for head in heads]
    return f"# {len(lines)} heads, sha256 {hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def parse_heads(text: Iterable[str]) -> HeadExport:
    """Parse lines of `request n hash`, with a closing line per export; several exports may follow each other. Raises
    `ValueError` with the number of an invalid line, and `ExportAlteredError`."""
    heads: list[RecordHead] = []
    since_closed: list[RecordHead] = []
    is_closed = False
    for number, line in enumerate(text, 1):
        match line.split():
            case [request, n, sha] if n.isascii() and n.isdigit() and len(n) < 10 and len(sha) == 64:
                since_closed.append(RecordHead(request, int(n), sha))
                is_closed = False
            case ["#", _, "heads,", "sha256", _]:
                if line.strip() != format_closing_line(since_closed):
                    raise ExportAlteredError(str(number))
                heads, since_closed, is_closed = [*heads, *since_closed], [], True
            case [_, *_]:
                raise ValueError(str(number))
    return HeadExport((*heads, *since_closed), is_closed)


MIN_OMITTED = 1_000
"""Fewest consecutive numbers that count as left out on purpose, at the first start or after a restore; fewer count as
missing."""


@dataclass(frozen=True, slots=True)
class NumberGap:
    """Numbers from `first` to `last` that were given out and are in no list, too many to look up one by one."""

    first: str
    last: str


def list_numbered_requests(
    listed_ids: Collection[str], numbers: Mapping[str, int], omitted: Mapping[str, Sequence[range]]
) -> Iterator[str | NumberGap]:
    """Yield every numbered request, in order: the listed ones, and the first `MAX_UNLISTED` of each unlisted range. A
    number that was set to a billion therefore does not cost a billion look-ups. `omitted` has numbers never given
    out."""
    listed_numbers = defaultdict[str, set[int]](set)
    for request in listed_ids:
        with suppress(ValueError):
            prefix, number = split_request_id(request)
            listed_numbers[prefix].add(number)
    for prefix in sorted(numbers):
        known = {n for n in listed_numbers[prefix] if 0 < n <= numbers[prefix]}
        starts = {one.start: one.stop for one in omitted.get(prefix, ()) if len(one) >= MIN_OMITTED}
        last_number = 0
        for n in sorted({*known, *starts, numbers[prefix] + 1}):
            for missing in range(last_number + 1, min(n, last_number + 1 + MAX_UNLISTED)):
                yield format_request_id(prefix, missing)
            if n - last_number - 1 > MAX_UNLISTED:
                yield NumberGap(
                    format_request_id(prefix, last_number + 1 + MAX_UNLISTED), format_request_id(prefix, n - 1)
                )
            if n <= numbers[prefix] and (n in known or n not in starts):
                yield format_request_id(prefix, n)
            last_number = max(last_number, starts.get(n, n + 1) - 1)


async def list_record_heads(store: RedisStore, request: str = "") -> AsyncIterator[RecordHead | str]:
    """Yield the head of each record, listed or not; only the number for a record that should exist and does not."""
    if request:
        names_or_gaps: list[str | NumberGap] = [request]
    else:
        listed = [one for one, _ in await store.list_members("changed")]
        known, numbers, omitted = frozenset(listed), await store.load_last_numbers(), await store.load_omitted_numbers()
        names_or_gaps = [*listed, *(one for one in list_numbered_requests(known, numbers, omitted) if one not in known)]
    for page in split_into_pages(names_or_gaps):
        names = [one for one in page if isinstance(one, str)]
        requests_by_id = {one.id: one for one in await store.load_requests(names)}
        for one in page:
            if isinstance(one, NumberGap):
                yield f"{one.first} … {one.last}"
            elif one in requests_by_id:
                yield RecordHead(one, requests_by_id[one].events - 1, requests_by_id[one].head)
            else:
                yield one


def parse_event(text: str) -> RequestEvent | None:
    """Parse a line of the store; return None if it is no event."""
    try:
        return RequestEvent.model_validate_json(text)
    except ValidationError:
        return None


def split_into_pages(all_: Iterable[T]) -> Iterator[list[T]]:
    """Yield lists of `PAGE_SIZE` items."""
    rest = iter(all_)
    while page := list(islice(rest, PAGE_SIZE)):
        yield page
