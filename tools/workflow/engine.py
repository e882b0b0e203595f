"""The engine as the tools see it, and the one that runs in this process over a `Store`.

Whoever calls, authority is checked again here (`machine`), against the state that is then compared-and-set.
Every command carries an idempotency key: repeated, it has no second effect and gets the same answer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol, TypeVar

from tools.names import name_of
from tools.ports import Directory
from tools.spec import Frozen, Person, ToolError
from tools.workflow.calendar import Calendar
from tools.workflow.graph import DefinitionRefused
from tools.workflow.machine import apply, check_decision
from tools.workflow.process import Process, compile_process, fill
from tools.workflow.state import RULE, Decide, Decision, Filled, Notice, Request, Start, Status, Task, Withdraw
from tools.workflow.store import Change, Conflict, OutboxEvent, Store

T = TypeVar("T")

TRIES = 100
"""How often a command is tried against other writers; each round at least one of them gets through."""


class Moved(Frozen):
    """Where a request stands after a command."""

    request: str
    status: Status
    waits_for: tuple[str, ...]
    """Person ids."""
    rule: str = ""
    """Node of the rule that passed it, if one did."""


class Started(Moved):
    days: str


class Decided(Moved):
    task: str
    decision: Decision
    by: str
    """Person id."""
    opinion: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """A task and the request it belongs to."""

    task: Task
    request: Request


class Engine(Protocol):
    """What tools need of a workflow engine. Every command may raise `ToolError`."""

    async def processes(self) -> tuple[Process, ...]: ...

    async def process_of(self, request: Request) -> Process:
        """The process in the version the request was started with."""

    async def fill(self, process: Process, form: Mapping[str, str], initiator: str, now: datetime) -> Filled:
        """The form checked and completed, without any effect."""

    async def start(
        self, process: str, form: Mapping[str, str], initiator: str, key: str, now: datetime, seen: str = ""
    ) -> Started:
        """`seen`: `Filled.sha` of what was confirmed; anything else is refused with `request_changed`."""

    async def task(self, task_id: str) -> Assigned: ...

    async def todo(self, person: str) -> tuple[Assigned, ...]: ...

    async def done(self, person: str) -> tuple[Assigned, ...]: ...

    async def check_decision(
        self, task_id: str, actor: str, decision: Decision, opinion: str, form: Mapping[str, str] | None, now: datetime
    ) -> None:
        """What `decide` would refuse is refused, without any effect."""

    async def decide(
        self,
        task_id: str,
        actor: str,
        decision: Decision,
        opinion: str,
        form: Mapping[str, str] | None,
        key: str,
        now: datetime,
        seen: str = "",
    ) -> Decided:
        """`form`: for a resubmission, the fields that change; `seen`: as for `start`."""

    async def withdraw(self, request_id: str, actor: str, reason: str, key: str, now: datetime) -> Moved: ...

    async def request(self, request_id: str) -> Request: ...

    async def mine(self, person: str) -> tuple[Request, ...]: ...

    async def outbox(self, limit: int) -> list[OutboxEvent]: ...

    async def sent(self, ids: Sequence[str]) -> None: ...


class EmbeddedEngine:
    """The engine over a `Store`. `numbers` replace thresholds of the forms, e.g. `{"threshold": Decimal(5000)}`."""

    def __init__(
        self,
        store: Store,
        processes: Sequence[Process],
        directory: Directory,
        *,
        calendar: Calendar | None = None,
        numbers: Mapping[str, Decimal] | None = None,
    ) -> None:
        self._store, self._directory = store, directory
        self._processes = {p.key: p for p in processes}
        self._calendar, self._numbers = calendar or Calendar(), numbers or {}
        self._versions = {(p.definition.version, p.form_version): p for p in processes}
        self._kept: set[str] = set()

    async def processes(self) -> tuple[Process, ...]:
        return tuple(self._processes.values())

    async def process_of(self, request: Request) -> Process:
        version = (request.definition, request.form)
        if version not in self._versions:
            bpmn, toml = await self._store.file(request.definition), await self._store.file(request.form)
            if bpmn is None or toml is None:
                raise DefinitionRefused(request.id, f"the files of its version {request.definition[:12]} are gone")
            self._versions[version] = compile_process(bpmn, toml)
        return self._versions[version]

    async def fill(self, process: Process, form: Mapping[str, str], initiator: str, now: datetime) -> Filled:
        people = await self._directory.everyone()
        return fill(
            process,
            form,
            initiator=_author(people, initiator),
            people=people,
            today=now.date(),
            calendar=self._calendar,
            numbers=self._numbers,
        )

    async def start(
        self, process: str, form: Mapping[str, str], initiator: str, key: str, now: datetime, seen: str = ""
    ) -> Started:
        async def attempt() -> Started:
            if (earlier := await self._earlier(key)) is not None:
                return Started.model_validate_json(earlier)
            used = self._named(process)
            filled = await self.fill(used, form, initiator, now)
            _refuse_unseen(filled, seen)
            await self._keep(used)
            command = await self._start_command(used, initiator, filled)
            after, notices = apply(used.definition, None, command, now)
            answer = Started(**_moved(after), days=filled.days)
            change = Change(None, after, 0, notices, key, answer.model_dump_json())
            return Started.model_validate_json(await self._store.save(change))

        return await self._again(attempt)

    async def task(self, task_id: str) -> Assigned:
        return (await self._of_task(task_id))[1]

    async def todo(self, person: str) -> tuple[Assigned, ...]:
        return await self._listed_tasks("todo", person)

    async def done(self, person: str) -> tuple[Assigned, ...]:
        return await self._listed_tasks("done", person)

    async def check_decision(
        self, task_id: str, actor: str, decision: Decision, opinion: str, form: Mapping[str, str] | None, now: datetime
    ) -> None:
        _, assigned = await self._of_task(task_id)
        await self._decision(assigned.request, task_id, actor, decision, opinion, form, now)

    async def decide(
        self,
        task_id: str,
        actor: str,
        decision: Decision,
        opinion: str,
        form: Mapping[str, str] | None,
        key: str,
        now: datetime,
        seen: str = "",
    ) -> Decided:
        async def attempt() -> Decided:
            if (earlier := await self._earlier(key)) is not None:
                return Decided.model_validate_json(earlier)
            revision, assigned = await self._of_task(task_id)
            request = assigned.request
            command = await self._decision(request, task_id, actor, decision, opinion, form, now)
            _refuse_unseen(command.filled or request.filled, seen)
            after, notices = apply((await self.process_of(request)).definition, request, command, now)
            answer = Decided(**_moved(after), task=task_id, decision=decision, by=actor, opinion=opinion.strip())
            return Decided.model_validate_json(await self._save(request, after, revision, notices, key, answer))

        return await self._again(attempt)

    async def withdraw(self, request_id: str, actor: str, reason: str, key: str, now: datetime) -> Moved:
        async def attempt() -> Moved:
            if (earlier := await self._earlier(key)) is not None:
                return Moved.model_validate_json(earlier)
            revision, request = await self._load(request_id)
            definition = (await self.process_of(request)).definition
            after, notices = apply(definition, request, Withdraw(actor=actor, reason=reason.strip()), now)
            answer = Moved(**_moved(after))
            return Moved.model_validate_json(await self._save(request, after, revision, notices, key, answer))

        return await self._again(attempt)

    async def request(self, request_id: str) -> Request:
        return (await self._load(request_id))[1]

    async def mine(self, person: str) -> tuple[Request, ...]:
        return await self._store.load_all(await self._store.listed("mine", person))

    async def outbox(self, limit: int) -> list[OutboxEvent]:
        return await self._store.outbox(limit)

    async def sent(self, ids: Sequence[str]) -> None:
        await self._store.sent(ids)

    def _named(self, key: str) -> Process:
        if key not in self._processes:
            known = ", ".join(self._processes)
            raise ToolError("unknown_process", f"there is no process {key!r}; there are: {known}", name=key[:60])
        return self._processes[key]

    async def _start_command(self, process: Process, initiator: str, filled: Filled) -> Start:
        """With the next free number; whoever else takes it first causes a `Conflict`."""
        number = await self._store.last_number(process.form.number) + 1
        return Start(
            request=f"{process.form.number}-{number:04d}",
            process=process.key,
            definition=process.definition.version,
            form=process.form_version,
            initiator=initiator,
            filled=filled,
        )

    async def _decision(
        self,
        request: Request,
        task_id: str,
        actor: str,
        decision: Decision,
        opinion: str,
        form: Mapping[str, str] | None,
        now: datetime,
    ) -> Decide:
        """The command, allowed and with its form filled in."""
        command = Decide(task=task_id, actor=actor, decision=decision, opinion=opinion)
        check_decision(request, command)
        if decision is Decision.RESUBMIT:
            process = await self.process_of(request)
            filled = await self.fill(process, {**request.filled.values, **(form or {})}, request.initiator, now)
            return command.model_copy(update={"filled": filled})
        return command

    async def _save(
        self, before: Request, after: Request, revision: int, notices: tuple[Notice, ...], key: str, answer: Moved
    ) -> str:
        named = tuple([await self._named_notice(n) for n in notices])
        return await self._store.save(Change(before, after, revision, named, key, answer.model_dump_json()))

    async def _named_notice(self, notice: Notice) -> Notice:
        """With the name of who did it, as it was then; empty for a rule."""
        by = notice.data.get("by", "")
        name = await name_of(self._directory, by) if by and by != RULE else ""
        return notice.model_copy(update={"data": {**notice.data, "by_name": name}})

    async def _earlier(self, key: str) -> str | None:
        if not key:
            raise ValueError("a command needs an idempotency key")
        return await self._store.answer(key)

    async def _keep(self, process: Process) -> None:
        """The process files, so that requests started now keep them when the files change."""
        files = ((process.definition.version, process.bpmn), (process.form_version, process.toml))
        for version, content in files:
            if version not in self._kept:
                await self._store.keep_file(version, content)
                self._kept.add(version)

    async def _load(self, request_id: str) -> tuple[int, Request]:
        found = await self._store.load(request_id.strip().upper())
        if found is None:
            raise ToolError("no_request", f"there is no request {request_id[:40]!r}", request=request_id[:40])
        return found

    async def _of_task(self, task_id: str) -> tuple[int, Assigned]:
        """The task, and the revision its request was read with."""
        revision, request = await self._store.load(_request_of(task_id)) or (0, None)
        return revision, _assigned(request, task_id)

    async def _listed_tasks(self, name: str, person: str) -> tuple[Assigned, ...]:
        ids = await self._store.listed(name, person)
        requests = {r.id: r for r in await self._store.load_all(list(dict.fromkeys(map(_request_of, ids))))}
        return tuple(_assigned(requests[_request_of(i)], i) for i in ids if _request_of(i) in requests)

    async def _again(self, attempt: Callable[[], Awaitable[T]]) -> T:
        for _ in range(TRIES):
            try:
                return await attempt()
            except Conflict:
                await asyncio.sleep(random.uniform(0, 0.005))  # noqa: S311 (only spreads the retries)
        raise ToolError("busy", "too many people are changing this at once; try once more")


def _author(people: Sequence[Person], initiator: str) -> Person:
    found = next((p for p in people if p.id == initiator and p.active), None)
    if found is None:
        raise ToolError("unknown_person", f"the author {initiator!r} is not in the directory", name=initiator)
    return found


def _refuse_unseen(filled: Filled, seen: str) -> None:
    if seen and filled.sha != seen:
        raise ToolError("request_changed", "the form, its days or its approvers are not what was shown; show it again")


def _request_of(task_id: str) -> str:
    return task_id.strip().rpartition("-")[0]


def _assigned(request: Request | None, task_id: str) -> Assigned:
    task = request.task(task_id.strip()) if request else None
    if request is None or task is None:
        raise ToolError("no_task", f"there is no task {task_id[:40]!r}", task=task_id[:40])
    return Assigned(task, request)


def _moved(request: Request) -> dict[str, object]:
    return {
        "request": request.id,
        "status": request.status,
        "waits_for": request.waits_for,
        "rule": request.rule,
    }
