"""The record of what was done, as an auditor reads it, and how far it has come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TypeVar

from pydantic import ValidationError

from tools.workflow.commands import AddSign, Cc, Decide, Event, Fire, Migrate, Transfer
from tools.workflow.state import RULE
from tools.workflow.store import Store, milliseconds

PAGE = 100
"""How many requests are read at once."""
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


def read_heads(text: Iterable[str]) -> tuple[Head, ...]:
    """From lines of `request n hash`. Raises ValueError with the number of a line that is none."""
    found: list[Head] = []
    for number, line in enumerate(text, 1):
        match line.split():
            case [request, n, sha] if n.isascii() and n.isdigit() and len(sha) == 64:
                found.append(Head(request, int(n), sha))
            case [_, *_]:
                raise ValueError(str(number))
    return tuple(found)


async def heads(store: Store, request: str = "") -> AsyncIterator[Head]:
    """How far each record has come."""
    wanted = (request,) if request else [one for one, _ in await store.listed("changed")]
    for page in pages(wanted):
        for one in await store.load_all(page):
            yield Head(one.id, one.events - 1, one.head)


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
