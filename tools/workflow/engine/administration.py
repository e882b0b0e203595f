"""Administers processes: lists versions, compares them, and migrates requests to another version."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tools.spec import Person, ToolError
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.engine.audit_record import split_into_pages
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.migration import build_not_ready_error
from tools.workflow.engine.state import SYSTEM, Request
from tools.workflow.engine.store import RedisStore
from tools.workflow.engine.versions import FileHashes, ProcessVersions
from tools.workflow.process.definition import Process

ADMIN = f"{SYSTEM}admin:"
"""Prefix of the actor of an administrator's command; the name of the system user follows."""
IDENTIFYING_KEYS = ("id", "name", "flow", "value", "level", "node", "field")
"""Keys that identify the rows of a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessVersion:
    key: str
    version: FileHashes
    is_shipped: bool
    is_deployed: bool
    is_current: bool
    """Whether new requests start with this version."""
    running_requests: int
    process: Process | None
    error: str = ""
    """The reason why the process cannot be loaded: its files are missing, or no longer supported."""


async def list_process_versions(store: RedisStore, shipped: Sequence[Process]) -> tuple[ProcessVersion, ...]:
    """All shipped, deployed or running versions, by process, the current one first."""
    shipped_versions, deployments = {p.key: p.version for p in shipped}, await store.load_deployments()
    running = Counter([(r.process, (r.definition, r.form)) async for r in list_running_requests(store)])
    known_versions = ProcessVersions(store.load_file, shipped)
    versions: list[ProcessVersion] = []
    for key, version in {*shipped_versions.items(), *deployments.items(), *running}:
        process, error = None, ""
        try:
            process = await known_versions.load_process(version)
        except InvalidDefinitionError as refused:
            error = str(refused)
        versions.append(
            ProcessVersion(
                key=key,
                version=version,
                is_shipped=shipped_versions.get(key) == version,
                is_deployed=deployments.get(key) == version,
                is_current=deployments.get(key, shipped_versions.get(key)) == version,
                running_requests=running[key, version],
                process=process,
                error=error,
            )
        )
    return tuple(sorted(versions, key=lambda k: (k.key, not k.is_current, k.version)))


async def list_running_requests(store: RedisStore, process: str = "") -> AsyncIterator[Request]:
    """Yield the requests that have not ended, of one process or of all."""
    for page in split_into_pages([request for request, _ in await store.list_members("changed")]):
        for request in await store.load_requests(page):
            if request.is_running and process in ("", request.process):
                yield request


# Deploying


def reject_number_clash(process: Process, others: Iterable[Process]) -> None:
    """Refuse a second process with the same prefix of request numbers, because their requests could not be told apart.
    Raises `InvalidDefinitionError`."""
    for other in others:
        if other.key != process.key and other.form.number == process.form.number:
            raise InvalidDefinitionError("form", f"number {process.form.number!r} is that of {other.key!r} already")


@dataclass(frozen=True, slots=True)
class ProcessDifference:
    """One difference between two versions of a process; empty for a side without the value."""

    where: str
    """The place of the difference: `long_leave.routes[long].condition`, `field[reason].max_length` …"""
    before: str
    after: str


def compare_processes(before: Process, after: Process) -> tuple[ProcessDifference, ...]:
    """The differences that the engine and people will notice; positions in the diagram do not count."""
    old, new = dict(_list_facts(before)), dict(_list_facts(after))
    every = dict.fromkeys([*old, *new])
    return tuple(
        ProcessDifference(w, old.get(w, ""), new.get(w, "")) for w in every if old.get(w, "") != new.get(w, "")
    )


def _list_facts(process: Process) -> Iterator[tuple[str, str]]:
    nodes = process.definition.model_dump(mode="json")["nodes"]
    for name, node in nodes.items():
        yield from _flatten_facts(name, {k: v for k, v in node.items() if k not in ("id", "incoming")})
    yield from _flatten_facts("", tomllib.loads(process.toml.decode("utf-8")))


def _flatten_facts(where: str, value: Any) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for name, part in value.items():
                yield from _flatten_facts(f"{where}.{name}" if where else name, part)
        case [dict(), *_]:
            names = [
                (next((str(row[n]) for n in IDENTIFYING_KEYS if n in row), str(at)), row)
                for at, row in enumerate(value)
            ]
            yield where, ", ".join(name for name, _ in names)
            for name, row in names:
                yield from _flatten_facts(f"{where}[{name}]", row)
        case list():
            yield where, ", ".join(map(str, value))
        case _:
            yield where, "" if value is None else str(value)


# Migrating


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """The result of a migration for one request."""

    request: str
    version: FileHashes
    error: ToolError | None
    """The reason for a refusal, or None if the request continues in the other version."""


async def migrate_requests(
    store: RedisStore, process: Process, requests: Iterable[str], actor: str, now: datetime, *, dry: bool = False
) -> AsyncIterator[MigrationResult]:
    """Migrate requests to this version of their process, each on its own. With `dry`, only find out the results."""
    engine = EmbeddedEngine(store, (), NOBODY)
    for name in requests:
        request = await engine.get_request(name)
        refusal: ToolError | None = None
        try:
            if dry:
                await engine.preview_migration(request, process, actor, now)
            else:
                key = f"migrate:{request.head}:{':'.join(process.version)}"  # once per move and state
                await engine.migrate_request(name, process, actor, key, now)
        except ToolError as error:
            refusal = error
        except InvalidDefinitionError as error:  # the request's present version is no longer supported
            refusal = build_not_ready_error(request, str(error))
        yield MigrationResult(name, (request.definition, request.form), refusal)


class EmptyDirectory:
    """A directory without people, for callers who need none."""

    async def find_person(self, person: str) -> Person | None:
        return None

    async def list_people(self) -> tuple[Person, ...]:
        return ()

    async def refresh_people(self, people: Iterable[str]) -> None:
        """Do nothing: nothing is cached here."""


NOBODY = EmptyDirectory()
