"""Looking after processes: which versions there are, what another version changes, and moving requests to it."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from tools.spec import Person, ToolError
from tools.workflow.audit import Files, Version
from tools.workflow.embedded import EmbeddedEngine
from tools.workflow.graph import DefinitionRefused
from tools.workflow.migration import not_ready
from tools.workflow.process import Process
from tools.workflow.record import pages
from tools.workflow.state import SYSTEM, Request
from tools.workflow.store import Change, Store

ADMIN = f"{SYSTEM}admin:"
"""What the actor of an administrator's command begins with; the name of the system's user follows."""
NAMES = ("id", "name", "flow", "value", "level", "node", "field")
"""What tells the rows of a list apart."""
READS = frozenset({"recall", "load", "load_all", "events", "listed", "numbers", "file", "deployed"})


@dataclass(frozen=True, slots=True)
class Known:
    """One version of a process."""

    key: str
    version: Version
    shipped: bool
    deployed: bool
    current: bool
    """True: whatever starts, starts with this one."""
    running: int
    """How many requests are under way in it."""
    process: Process | None
    reason: str = ""
    """Why there is no process: its files are gone, or not understood any more."""


async def versions(store: Store, shipped: Sequence[Process]) -> tuple[Known, ...]:
    """All that are shipped, deployed or under way; by process, the current one first."""
    ours, deployed = {p.key: p.version for p in shipped}, await store.deployed()
    running = Counter([(r.process, (r.definition, r.form)) async for r in under_way(store)])
    files = Files(store, shipped)
    found: list[Known] = []
    for key, version in {*ours.items(), *deployed.items(), *running}:
        file = await files.read(version)
        is_ours, is_deployed = ours.get(key) == version, deployed.get(key) == version
        current = deployed.get(key, ours.get(key)) == version
        count = running[key, version]
        found.append(Known(key, version, is_ours, is_deployed, current, count, file.process, file.reason))
    return tuple(sorted(found, key=lambda k: (k.key, not k.current, k.version)))


async def under_way(store: Store, process: str = "") -> AsyncIterator[Request]:
    """Requests that have not ended: of one process, or of all."""
    for page in pages([request for request, _ in await store.listed("changed")]):
        for request in await store.load_all(page):
            if request.running and process in ("", request.process):
                yield request


# Deploying


def refuse_clash(process: Process, others: Iterable[Known]) -> None:
    """Two processes whose requests are numbered alike could not be told apart. Raises `DefinitionRefused`."""
    for known in others:
        other = known.process
        if known.current and known.key != process.key and other and other.form.number == process.form.number:
            raise DefinitionRefused("form", f"number {process.form.number!r} is that of {known.key!r} already")


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact of a process that is another in the other version; empty where there is none."""

    where: str
    """`long_leave.routes[long].condition`, `field[reason].max_length` …"""
    before: str
    after: str


def differences(before: Process, after: Process) -> tuple[Difference, ...]:
    """What the engine and people will notice; positions in the picture are nobody's business."""
    old, new = dict(_facts(before)), dict(_facts(after))
    every = dict.fromkeys([*old, *new])
    return tuple(Difference(w, old.get(w, ""), new.get(w, "")) for w in every if old.get(w, "") != new.get(w, ""))


def _facts(process: Process) -> Iterator[tuple[str, str]]:
    nodes = process.definition.model_dump(mode="json")["nodes"]
    for name, node in nodes.items():
        yield from _flat(name, {k: v for k, v in node.items() if k not in ("id", "incoming")})
    yield from _flat("", tomllib.loads(process.toml.decode("utf-8")))


def _flat(where: str, value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for name, part in value.items():
                yield from _flat(f"{where}.{name}" if where else name, part)
        case [dict(), *_]:
            named = [(next((str(row[n]) for n in NAMES if n in row), str(at)), row) for at, row in enumerate(value)]
            yield where, ", ".join(name for name, _ in named)
            for name, row in named:
                yield from _flat(f"{where}[{name}]", row)
        case list():
            yield where, ", ".join(map(str, value))
        case _:
            yield where, "" if value is None else str(value)


# Migrating


@dataclass(frozen=True, slots=True)
class Moving:
    """What became of one request."""

    request: str
    before: Version
    refused: ToolError | None
    """None: it goes on in the other version."""


async def migrate(
    store: Store, process: Process, requests: Iterable[str], actor: str, now: datetime, *, dry: bool = False
) -> AsyncIterator[Moving]:
    """Moves requests to this version of their process, each on its own. `dry`: finds out what would become of them,
    and changes nothing."""
    engine = EmbeddedEngine(cast("Store", Rehearsal(store)) if dry else store, (), NOBODY)
    for name in requests:
        request = await engine.request(name)
        refused: ToolError | None = None
        try:
            key = f"migrate:{request.head}:{':'.join(process.version)}"  # the same move from the same state, once
            await engine.migrate(name, process, actor, key, now)
        except ToolError as error:
            refused = error
        except DefinitionRefused as error:  # the version it is in is not understood any more
            refused = not_ready(request, str(error))
        yield Moving(name, (request.definition, request.form), refused)


class Rehearsal:
    """A store that is read, and never written to."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name not in READS:
            raise AttributeError(name)
        return getattr(self._store, name)

    async def keep_file(self, version: str, content: bytes) -> None:
        """Is not kept."""

    async def save(self, change: Change) -> str:
        return change.answer


class Nobody:
    """The directory where nobody has to be looked up."""

    async def get(self, person: str) -> Person | None:
        return None

    async def everyone(self) -> tuple[Person, ...]:
        return ()

    async def refresh(self, people: Iterable[str]) -> None:
        """Nothing is remembered here: it is as fresh as can be."""


NOBODY = Nobody()
