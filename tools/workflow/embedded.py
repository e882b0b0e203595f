"""`EmbeddedEngine`: runs processes in this process, over a `Store`.

One command: what was answered before, else the request as it is; the command completed from outside (`completing`);
the machine's verdict; everything kept in one step, or, if somebody else was faster, all of it again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple, TypeVar

from tools.names import name_of
from tools.ports import Directory
from tools.spec import ToolError
from tools.workflow.authority import may_be_asked, refuse_delegation, refuse_unseen, task_of
from tools.workflow.balance import YearBalance
from tools.workflow.calendar import Calendar
from tools.workflow.commands import (
    Cc,
    Command,
    Comment,
    Decide,
    Event,
    Fire,
    Migrate,
    Notice,
    Start,
    TaskCommand,
    Withdraw,
)
from tools.workflow.completing import Completing
from tools.workflow.engine import Act, Assigned, Moved, Todo, where
from tools.workflow.graph import Definition, DefinitionRefused
from tools.workflow.machine import apply
from tools.workflow.migration import refuse_migration
from tools.workflow.moving import Applied
from tools.workflow.policy import Row
from tools.workflow.process import Process, pick_process
from tools.workflow.repeating import refuse_repeated
from tools.workflow.state import SYSTEM, Decision, Delegation, Filled, Kind, Request
from tools.workflow.store import Change, Conflict, Opening, OutboxEvent, Own, Store, milliseconds
from tools.workflow.versions import Versions

T = TypeVar("T")

TRIES = 100
"""How often a command is tried against other writers; each round at least one of them gets through."""
DUE = 100
"""Timers that go off in one round."""
LATER = timedelta(hours=1)
"""How long a timer is put off whose request cannot be read: it neither stands before the others nor is lost."""

log = logging.getLogger(__name__)


class Ready(NamedTuple):
    """A command with all that it needs from outside."""

    command: Command
    forms: int | None = None
    """As `Change.forms`."""


class EmbeddedEngine:
    """`processes`: those that are there without having been deployed."""

    def __init__(
        self,
        store: Store,
        processes: Sequence[Process],
        directory: Directory,
        *,
        calendar: Calendar | None = None,
        numbers: Mapping[str, Decimal] | None = None,
        policy: Sequence[Row] = (),
    ) -> None:
        self._store, self._directory = store, directory
        self._completing = Completing(store, directory, calendar or Calendar(), numbers or {}, policy)
        self._versions = Versions(store, processes)

    # Processes

    async def processes(self) -> tuple[Process, ...]:
        return await self._versions.current(await self._store.deployed())

    async def process_of(self, request: Request) -> Process:
        return await self._versions.of(request.id, (request.definition, request.form))

    async def deploy(self, process: Process) -> None:
        """Requests started from here on use this version; running ones keep theirs."""
        await self._versions.keep(process)
        await self._store.deploy(process.key, *process.version)

    async def fill(
        self, process: Process, form: Mapping[str, str], initiator: str, now: datetime, besides: str = ""
    ) -> Filled:
        return await self._completing.form(process, form, initiator, now, besides)

    async def balances(self, person: str, year: int) -> tuple[YearBalance, ...]:
        return await self._completing.balances(await self.processes(), person, year)

    # Commands

    async def start(
        self,
        process: str,
        form: Mapping[str, str],
        initiator: str,
        key: str,
        now: datetime,
        seen: str = "",
        *,
        again: str | None = None,
    ) -> Moved:
        async def attempt() -> Moved:
            found = await self._store.opening(_sure(key), initiator)
            if found.answer is not None:
                return Moved.model_validate_json(found.answer)
            used = pick_process(process, await self._versions.current(found.deployed))
            await self._versions.keep(used)
            try:
                filled = await self._completing.form(used, form, initiator, now, own=found.own.requests)
                await refuse_repeated(self._store, found.own.requests, used, filled, now, again)
                refuse_unseen(filled, seen)
            except ToolError:  # it may have been started meanwhile, by this very command
                if (answer := (await self._store.opening(key, initiator)).answer) is None:
                    raise
                return Moved.model_validate_json(answer)
            applied = apply(used.definition, None, _start(used, found, initiator, filled), now)
            forms = found.own.forms if used.form.is_compared else None
            return await self._kept_as(key, None, used.definition, applied, forms)

        return await self._again(attempt)

    async def act(
        self, command: Act, key: str, now: datetime, *, form: Mapping[str, str] | None = None, seen: str = ""
    ) -> Moved:
        async def complete(process: Process, request: Request) -> Ready:
            await self._completing.authorize(process, request, command, now)
            own = await self._own(process, request, command)
            complete = await self._completing.act(process, request, command, now, form, own.requests if own else None)
            resubmitted = complete.filled if isinstance(complete, Decide) else None
            refuse_unseen(resubmitted or request.filled, seen)
            return Ready(complete, own.forms if own else None)

        return await self._carried_out(_request_of(command), key, now, complete, _absent(command))

    async def check(self, command: Act, now: datetime, *, form: Mapping[str, str] | None = None) -> Moved:
        request = await self._store.load(_known(_request_of(command)))
        if request is None:
            raise _absent(command)
        process = await self.process_of(request)
        complete = await self._completing.act(process, request, command, now, form)
        return _moved(apply(process.definition, request, complete, now))

    async def authorize(self, command: TaskCommand, now: datetime) -> None:
        if (request := await self._store.load(_of_task(command.task))) is not None:
            await self._completing.authorize(await self.process_of(request), request, command, now)

    async def migrate(self, request_id: str, process: Process, actor: str, key: str, now: datetime) -> Moved:
        """A running request goes on in another version of its process. Raises `ToolError` `not_movable` or
        `not_ready`."""
        await self._versions.keep(process)

        async def complete(before: Process, request: Request) -> Ready:
            refuse_migration(before, process, request, await self.events(request.id))
            new = process.definition.version
            return Ready(Migrate(request=request.id, actor=actor, definition=new, form=process.form_version))

        return await self._carried_out(request_id, key, now, complete)

    async def tick(self, now: datetime) -> int:
        due = await self._store.due(milliseconds(now), DUE)
        for member in due:
            try:
                await self._goes_off(member, now)
            except (ValueError, LookupError) as error:  # a request, or its version, that cannot be read any more
                log.error("timer %s is put off: %s", member, error)
                await self._store.put_off(member, milliseconds(now + LATER))
        return len(due)

    async def _goes_off(self, member: str, now: datetime) -> None:
        what, _, rest = member.partition("|")
        if what == "away":
            await self._away_begins(member, *rest.split("|"))
        else:
            await self._fire(member, Fire(task=what, timer=rest), now)

    async def _fire(self, member: str, command: Fire, now: datetime) -> None:
        async def complete(process: Process, request: Request) -> Ready:
            return Ready(await self._completing.fire(process.definition, request, command))

        try:
            await self._carried_out(_request_of(command), f"timer:{member}", now, complete)
        except ToolError as error:
            if error.code != "busy":  # closed meanwhile, or gone off already
                await self._store.forget_timer(member)

    async def _carried_out(
        self,
        request_id: str,
        key: str,
        now: datetime,
        complete: Callable[[Process, Request], Awaitable[Ready]],
        absent: ToolError | None = None,
    ) -> Moved:
        """`absent`: what is raised when there is no such request."""

        async def attempt() -> Moved:
            answer, request = await self._store.recall(_sure(key), _known(request_id))
            if answer is not None:
                return Moved.model_validate_json(answer)
            if request is None:
                raise absent or _no_request(request_id)
            process = await self.process_of(request)
            ready = await complete(process, request)
            applied = apply(process.definition, request, ready.command, now)
            return await self._kept_as(key, request, process.definition, applied, ready.forms)

        return await self._again(attempt)

    async def _own(self, process: Process, request: Request, command: Act) -> Own | None:
        """The author's requests, where a form is handed in again that depends on them."""
        again = isinstance(command, Decide) and command.decision is Decision.RESUBMIT
        return await self._store.own(request.initiator) if again and process.form.is_compared else None

    async def _kept_as(
        self, key: str, before: Request | None, definition: Definition, applied: Applied, forms: int | None
    ) -> Moved:
        notices = tuple([await self._named_notice(n) for n in applied.notices])
        applied = Applied(applied.request, notices, applied.event)
        moved = _moved(applied)
        answer = moved.model_dump_json()
        kept = await self._store.save(Change(before, applied, definition, key, answer, forms))
        return moved if kept == answer else Moved.model_validate_json(kept)

    async def _named_notice(self, notice: Notice) -> Notice:
        """With the names of who did it, and for whom, as they were then; empty for the system."""
        names = {"by_name": await self._name(notice.data.get("by", ""))}
        if behalf := notice.data.get("behalf"):
            names["for_name"] = await self._name(behalf)
        return notice.model_copy(update={"data": {**notice.data, **names}})

    async def _name(self, person: str) -> str:
        return await name_of(self._directory, person) if person and not person.startswith(SYSTEM) else ""

    # Standing in

    async def deputies(self, person: str, now: datetime) -> tuple[str, ...]:
        return tuple(dict.fromkeys(d.deputy for d in await self._store.away(person) if d.covers(now)))

    async def stand_ins(self, task_id: str, now: datetime) -> tuple[str, ...]:
        assigned = await self.task(task_id)
        deputies = await self.deputies(assigned.task.assignee, now)
        return tuple([person for person in deputies if await self._may_stand_in(assigned, person)])

    async def _may_stand_in(self, assigned: Assigned, person: str) -> bool:
        task, request = assigned.task, assigned.request
        if not task.open or task.kind is Kind.REVISE:
            return False
        try:
            definition = (await self.process_of(request)).definition
        except DefinitionRefused:  # nobody can decide it
            return False
        return may_be_asked(definition, request, task, person)

    async def delegate(self, delegation: Delegation, now: datetime) -> None:
        async def attempt() -> None:
            known = await self._store.away(delegation.person)
            if delegation in known:
                return
            deputy = await self._directory.get(delegation.deputy)
            if deputy is None or not deputy.active:
                raise ToolError("bad_deputy", "somebody who is here has to stand in", field="deputy")
            refuse_delegation(delegation, known, now)
            await self._store.put_delegation(delegation, known)

        await self._again(attempt)

    async def undelegate(self, person: str, delegation_id: str, now: datetime) -> Delegation:
        found = next((d for d in await self.delegations(person, now) if d.id == delegation_id), None)
        if found is None:
            raise ToolError("no_delegation", f"there is no such delegation {delegation_id[:40]!r}")
        await self._store.end_delegation(found)
        return found

    async def delegations(self, person: str, now: datetime) -> tuple[Delegation, ...]:
        return tuple(d for d in await self._store.away(person) if d.end > now)

    async def _away_begins(self, member: str, person: str, delegation_id: str) -> None:
        """What waits for somebody is brought to who stands in as well."""
        for task_id, _ in await self._store.listed("todo", person):
            data = {"task": task_id, "person": person}
            await self._store.announce([OutboxEvent(id=f"{delegation_id}:{task_id}", kind="deputy", data=data)])
        await self._store.forget_timer(member)

    # Looking

    async def task(self, task_id: str) -> Assigned:
        return _assigned(await self._store.load(_of_task(task_id)), task_id)

    async def todo(self, person: str, now: datetime, most: int | None = None) -> Todo:
        people = [person, *(d.person for d in await self._store.deputising(person) if d.covers(now))]
        members, total = list[tuple[int, str]](), 0
        for one in dict.fromkeys(people):
            members += [(score, member) for member, score in await self._store.listed("todo", one, most)]
            total += await self._store.counted("todo", one)
        tasks = await self._assigned([member for _, member in sorted(members)[:most]])
        mine = [t for t in tasks if t.task.assignee == person or await self._may_stand_in(t, person)]
        return Todo(tuple(mine), total - (len(tasks) - len(mine)))

    async def done(self, person: str) -> tuple[Assigned, ...]:
        return await self._assigned([member for member, _ in await self._store.listed("done", person)])

    async def request(self, request_id: str) -> Request:
        found = await self._store.load(_known(request_id))
        if found is None:
            raise _no_request(request_id)
        return found

    async def mine(self, person: str) -> tuple[Request, ...]:
        return await self._store.load_all([member for member, _ in await self._store.listed("mine", person)])

    async def told(self, person: str) -> tuple[Request, ...]:
        return await self._store.load_all([member for member, _ in await self._store.listed("told", person)])

    async def events(self, request_id: str) -> tuple[Event, ...]:
        return tuple(map(Event.model_validate_json, await self._store.events(_known(request_id))))

    async def outbox(self, limit: int) -> list[OutboxEvent]:
        return await self._store.outbox(limit)

    async def sent(self, ids: Sequence[str]) -> None:
        await self._store.sent(ids)

    async def _assigned(self, ids: Sequence[str]) -> tuple[Assigned, ...]:
        requests = {r.id: r for r in await self._store.load_all(list(dict.fromkeys(map(_of_task, ids))))}
        return tuple(_assigned(requests[_of_task(i)], i) for i in ids if _of_task(i) in requests)

    async def _again(self, attempt: Callable[[], Awaitable[T]]) -> T:
        for _ in range(TRIES):
            try:
                return await attempt()
            except Conflict:
                await asyncio.sleep(random.uniform(0, 0.005))  # noqa: S311 (only spreads the retries)
        raise ToolError("busy", "too many people are changing this at once; try once more")


def _start(process: Process, found: Opening, initiator: str, filled: Filled) -> Start:
    return Start(
        request=f"{process.form.number}-{found.last.get(process.form.number, 0) + 1:04d}",
        process=process.key,
        definition=process.definition.version,
        form=process.form_version,
        initiator=initiator,
        filled=filled,
    )


def _sure(key: str) -> str:
    if not key:
        raise ValueError("a command needs an idempotency key")
    return key


def _request_of(command: Act | Fire) -> str:
    if isinstance(command, Withdraw | Comment | Cc):
        return command.request
    return _of_task(command.task)


def _absent(command: Act) -> ToolError:
    if isinstance(command, Withdraw | Comment | Cc):
        return _no_request(command.request)
    return ToolError("no_task", f"there is no task {command.task[:40]!r}", task=command.task[:40])


def _known(request_id: str) -> str:
    return request_id.strip().upper()


def _of_task(task_id: str) -> str:
    return task_id.strip().rpartition("-")[0]


def _no_request(request_id: str) -> ToolError:
    return ToolError("no_request", f"there is no request {request_id[:40]!r}", request=request_id[:40])


def _assigned(request: Request | None, task_id: str) -> Assigned:
    if request is None:
        raise ToolError("no_task", f"there is no task {task_id[:40]!r}", task=task_id[:40])
    return Assigned(task_of(request, task_id.strip()), request)


def _moved(applied: Applied) -> Moved:
    command = applied.event.command
    return where(applied.request, command, applied.event.on_behalf if isinstance(command, TaskCommand) else "")
