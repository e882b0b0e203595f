"""The record of what was done, as an auditor reads it, and how far it has come."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TypeVar

from pydantic import ValidationError

from tools.workflow.commands import AddSign, Cc, Decide, Event, Fire, Migrate, Start, Transfer
from tools.workflow.state import RULE
from tools.workflow.store import Store, milliseconds

PAGE = 100
"""How many requests are read at once."""
BEYOND = 1000
"""How many numbers in a row, of which nothing is listed, are looked at one by one."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Line:
    """One transition, as an auditor reads it: a flow that was taken, a node that acted by itself, or, where nothing
    moved, the command alone."""

    at: datetime
    request: str
    n: int
    actor: str
    """Person id, or `system:…`."""
    on_behalf_of: str
    via: str
    """`button`, `timer`, `command`, or `rule`: what the process did by itself."""
    command: str
    """A decision, or the kind of the command."""
    task: str
    about: str
    """Who or what it names besides: person ids, a timer, a version."""
    flags: str
    """What was out of the ordinary in the form that was handed in, with `;` between: `exception approver=U5 rules=U2`
    (the author chose U5, the rules name U2), `bound recent` (several requests reach this bound together)."""
    node: str
    """The node that was left, or that acted."""
    flow: str
    condition: str
    to: str
    status: str
    """Of the request, after the command."""
    arguments: str
    """Hash of the command."""
    previous: str
    hash: str


def lines(request: str, event: Event) -> Iterator[Line]:
    """The transitions of one event."""
    whole = Line(
        at=event.at,
        request=request,
        n=event.n,
        actor=event.by,
        on_behalf_of=event.on_behalf,
        via=event.via,
        command=event.command.decision.value if isinstance(event.command, Decide) else event.command.kind,
        task=getattr(event.command, "task", ""),
        about=_about(event),
        flags=";".join(_flags(event)),
        node="",
        flow="",
        condition="",
        to="",
        status=event.status.value,
        arguments=event.arguments,
        previous=event.previous,
        hash=event.hash,
    )
    for step in event.steps:
        acted = {} if step.flow else {"actor": RULE, "on_behalf_of": "", "via": "rule"}
        moved = {"node": step.node, "flow": step.flow, "condition": step.condition, "to": step.to}
        yield _replaced(whole, **moved, **acted)
    if not event.steps:
        yield whole


def _replaced(line: Line, **fields: str) -> Line:
    return Line(**{name: fields.get(name, getattr(line, name)) for name in Line.__slots__})


def _about(event: Event) -> str:
    match event.command:
        case Transfer(person=person):
            return person
        case AddSign(people=people) | Cc(people=people):
            return ",".join(people)
        case Fire(timer=timer, manager=manager):
            return f"{timer},{manager}" if event.opened else timer
        case Migrate(definition=definition):
            return definition
        case Decide(to=to):
            return to
    return ""


def _flags(event: Event) -> Iterator[str]:
    filled = event.command.filled if isinstance(event.command, Start | Decide) else None
    for field, named in ((filled.exceptions or {}) if filled else {}).items():
        yield f"exception {field}={','.join(filled.holders(field) if filled else ())} rules={','.join(named)}"
    for bound in filled.exceeded if filled else ():
        yield f"bound {bound}"


async def recorded(store: Store, since: datetime, request: str = "") -> AsyncIterator[tuple[str, int, Event | None]]:
    """Request, number and event of everything since then; one request after the other, the one changed longest ago
    first. None stands for an event that cannot be read."""
    wanted = (request,) if request else await store.since("changed", milliseconds(since))
    for page in pages(wanted):
        records = await asyncio.gather(*(store.events(one) for one in page))
        for one, record in zip(page, records, strict=True):
            for n, text in enumerate(record):
                event = event_of(text)
                if event is None or event.at >= since:
                    yield one, n, event


@dataclass(frozen=True, slots=True)
class Head:
    """How far the record of a request had come: the number and the hash of its last event."""

    request: str
    n: int
    hash: str

    def __str__(self) -> str:
        return f"{self.request} {self.n} {self.hash}"


@dataclass(frozen=True, slots=True)
class Export:
    """What a file of heads holds."""

    heads: tuple[Head, ...]
    is_closed: bool
    """It ends with the line that says how much it holds. False: an older version wrote it, or its end is missing."""


class ExportAltered(ValueError):
    """A file of heads does not hold what its closing line says: something in it was changed, or is missing."""


def close_heads(heads: Iterable[Head]) -> str:
    """The last line of an export: how many heads stand before it, and the SHA-256 of their lines. It shows an accident;
    whoever can rewrite the file can rewrite this line too."""
    lines = [f"{head}\n" for head in heads]
    return f"# {len(lines)} heads, sha256 {hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def read_heads(text: Iterable[str]) -> Export:
    """From lines of `request n hash`, each export with its closing line; several may stand one after the other. Raises
    ValueError with the number of a line that is none of these, and ExportAltered."""
    found: list[Head] = []
    since_closed: list[Head] = []
    is_closed = False
    for number, line in enumerate(text, 1):
        match line.split():
            case [request, n, sha] if n.isascii() and n.isdigit() and len(n) < 10 and len(sha) == 64:
                since_closed.append(Head(request, int(n), sha))
                is_closed = False
            case ["#", _, "heads,", "sha256", _]:
                if line.strip() != close_heads(since_closed):
                    raise ExportAltered(str(number))
                found, since_closed, is_closed = [*found, *since_closed], [], True
            case [_, *_]:
                raise ValueError(str(number))
    return Export((*found, *since_closed), is_closed)


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers that were given out and of which nothing is listed, from `first` to `last`, too many to look at each."""

    first: str
    last: str


def list_numbered(listed: Collection[str], numbers: Mapping[str, int]) -> Iterator[str | Gap]:
    """Every request that has a number, in order: what is listed, and the first `BEYOND` of each row of numbers that is
    not. So a number that was set to a billion costs no billion looks."""
    for prefix in sorted(numbers):
        known = sorted(n for n in map(partial(_number, prefix), listed) if 0 < n <= numbers[prefix])
        before = 0
        for n in (*known, numbers[prefix] + 1):
            for missing in range(before + 1, min(n, before + 1 + BEYOND)):
                yield _name(prefix, missing)
            if n - before - 1 > BEYOND:
                yield Gap(_name(prefix, before + 1 + BEYOND), _name(prefix, n - 1))
            if n <= numbers[prefix]:
                yield _name(prefix, n)
            before = n


def _name(prefix: str, number: int) -> str:
    return f"{prefix}-{number:04d}"


def _number(prefix: str, request: str) -> int:
    """0 for what is no number of this prefix as it is written."""
    digits = request.removeprefix(f"{prefix}-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 16):
        return 0
    return int(digits) if request == _name(prefix, int(digits)) else 0


async def heads(store: Store, request: str = "") -> AsyncIterator[Head | str]:
    """How far each record has come, whether a list shows it or not; the bare number of what should be there and is
    not."""
    if request:
        wanted: list[str | Gap] = [request]
    else:
        listed = [one for one, _ in await store.listed("changed")]
        known = frozenset(listed)
        wanted = [*listed, *(one for one in list_numbered(known, await store.numbers()) if one not in known)]
    for page in pages(wanted):
        names = [one for one in page if isinstance(one, str)]
        found = {one.id: one for one in await store.load_all(names)}
        for one in page:
            if isinstance(one, Gap):
                yield f"{one.first} … {one.last}"
            elif one in found:
                yield Head(one, found[one].events - 1, found[one].head)
            else:
                yield one


def event_of(text: str) -> Event | None:
    """From its line in the store; None if it is none."""
    try:
        return Event.model_validate_json(text)
    except ValidationError:
        return None


def pages(all_: Iterable[T]) -> Iterator[list[T]]:
    """In lists of `PAGE`."""
    rest = iter(all_)
    while page := list(islice(rest, PAGE)):
        yield page
