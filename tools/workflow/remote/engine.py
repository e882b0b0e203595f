"""The `Engine` over somebody else's: Flowable, Camunda 7 or Operaton. They keep the requests; we keep the rules.

These engines check nothing of ours: whoever can reach their API may complete anybody's task. So every command is first
carried out on paper: the request is read afresh and `machine.apply` says whether it is allowed, exactly as for the
embedded engine. Only then is the engine told, and afterwards what really happened is read. Among our own processes a
lock makes this one step; the login must belong to this bot alone, for what others do to the engine directly is not
checked by anybody.

A write that was refused or not answered is never sent again blindly: the request is read, and our key in its records
says whether it was done. If nobody can say, that is `EffectUnknown`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TypeVar

from tools.ports import Directory
from tools.spec import EffectUnknown, ToolError
from tools.workflow.authority import refuse_unseen
from tools.workflow.balance import YearBalance
from tools.workflow.commands import AddSign, Cc, Comment, Decide, Event, Notice, TaskCommand, Transfer, Urge, Withdraw
from tools.workflow.completing import Completing, Lists
from tools.workflow.engine import Act, Assigned, Moved, Todo, where
from tools.workflow.machine import apply
from tools.workflow.moving import Applied
from tools.workflow.process import Process
from tools.workflow.remote.announce import EVERY_S, Announcer
from tools.workflow.remote.api import Api, Instance, Value
from tools.workflow.remote.common import Found, corrected, decision_at, events_of, happened, not_remote, returned_to
from tools.workflow.remote.marks import ANSWER_MS, Marks, alone
from tools.workflow.remote.reading import Reader, request_of
from tools.workflow.remote.records import Record, written
from tools.workflow.remote.rest import Refused, Unanswered, failed
from tools.workflow.remote.serving import Servant
from tools.workflow.remote.starting import LOOKS_S, Starter
from tools.workflow.remote.users import Users
from tools.workflow.remote.versions import Versions
from tools.workflow.repeating import refuse_repeated
from tools.workflow.state import Decision, Delegation, Filled, Request, Status
from tools.workflow.store import OutboxEvent

T = TypeVar("T")
CANNOT: Mapping[type, Mapping[str, str]] = {
    AddSign: {"zh": "加签", "en": "adding approvers"},
    Decide: {"zh": "从并行审批中退回", "en": "returning a request from a parallel part"},
    Withdraw: {"zh": "撤回已经通过的申请", "en": "withdrawing an approved request"},
    Delegation: {"zh": "请别人代为审批", "en": "letting somebody stand in"},
}


class RemoteEngine:
    """Implements `Engine`. `table`: person → engine user (`users.read_users`); `completing`: what fills commands in,
    over what it asks a store for; `clock`: seconds, from anywhere.

    Other than the embedded engine: standing in, adding approvers, withdrawing what is approved and returning from a
    parallel part are refused (`not_remote`), and so are processes in which several people decide one step; timers are
    the engine's own, and only remind; cards appear when the engine is next looked at (`announce`); the record of a
    request has no hash chain and knows nothing of what was done in the engine past us."""

    def __init__(
        self,
        api: Api,
        marks: Marks,
        processes: Sequence[Process],
        directory: Directory,
        table: Mapping[str, str],
        completing: Callable[[Lists], Completing],
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        every_s: float = EVERY_S,
    ) -> None:
        self._api, self._marks, self._directory, self._sleep = api, marks, directory, sleep
        self._users = Users(table, directory, api.users)
        self._versions = Versions(api, marks, processes)
        self._reader = Reader(api, self._users, self._versions)
        self._starter = Starter(api, marks, self._users, self._versions, self._reader, sleep)
        keys = [p.definition.key for p in self._versions.usable]
        self._announcer = Announcer(api, marks, directory, keys, clock, every_s)
        self._servant = Servant(api, self._reader, self._announcer, self._versions.topics)
        self._completing_over = completing

    async def processes(self) -> tuple[Process, ...]:
        """Those that the engine can run."""
        return self._versions.usable

    async def process_of(self, request: Request) -> Process:
        return await self._versions.of(request.definition, request.form)

    async def fill(
        self, process: Process, form: Mapping[str, str], initiator: str, now: datetime, besides: str = ""
    ) -> Filled:
        return await self._completing().form(process, form, initiator, now, besides)

    async def balances(self, person: str, year: int) -> tuple[YearBalance, ...]:
        return await self._completing().balances(await self.processes(), person, year)

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
        used = self._versions.named(process)
        async with alone(self._marks, f"start:{key}", self._sleep), self._compared(used, initiator):
            if (earlier := await self._earlier(key)) is not None:
                return earlier
            begun = await self._starter.begun(key)
            if begun is None:
                begun = await self._begin(used, form, initiator, key, now, seen, again)
            return await self._done(key, await self._settled(self._reader.again(begun)))

    async def _begin(
        self,
        used: Process,
        form: Mapping[str, str],
        initiator: str,
        key: str,
        now: datetime,
        seen: str,
        again: str | None,
    ) -> Instance:
        """One after the other for one author, where the same start twice is asked about."""
        filled = await self.fill(used, form, initiator, now)
        refuse_unseen(filled, seen)
        if again is None or not used.form.again_minutes:
            return await self._starter.begin(used, filled, initiator, key, now)
        async with alone(self._marks, f"starts:{initiator}", self._sleep):
            known = Known(self._reader)
            own = [request for request, _ in await known.listed("mine", initiator)]
            await refuse_repeated(known, own, used, filled, now, again)
            return await self._starter.begin(used, filled, initiator, key, now)

    async def act(
        self, command: Act, key: str, now: datetime, *, form: Mapping[str, str] | None = None, seen: str = ""
    ) -> Moved:
        name = _request_of(command)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(alone(self._marks, f"request:{name}", self._sleep))
            if (earlier := await self._earlier(key)) is not None:
                return earlier
            found = await self._concerned(command)
            if isinstance(command, Decide) and command.decision is Decision.RESUBMIT:
                await stack.enter_async_context(self._compared(found.process, found.request.initiator))
            if not happened(found, command, key):
                await self._completing().authorize(found.process, found.request, command, now)
                command, applied = await self._allowed(found, command, now, form)
                filled = command.filled if isinstance(command, Decide) else None
                refuse_unseen(filled or found.request.filled, seen)
                record = Record(key=key, at=now, command=command, round=found.request.round)
                await self._announcer.queue(found.request.id, key, _unseen(command, applied), when_recorded=True)
                await self._sure(self._told(found, command, record), found, record)
            return await self._done(key, await self._settled(self._reader.again(found.instance)), command)

    @asynccontextmanager
    async def _compared(self, process: Process, author: str) -> AsyncIterator[None]:
        """Where a form depends on what its author asked for before, one is handed in after the other."""
        if not process.form.is_compared:
            yield
            return
        async with alone(self._marks, f"forms:{author}", self._sleep):
            yield

    async def check(self, command: Act, now: datetime, *, form: Mapping[str, str] | None = None) -> Moved:
        command, applied = await self._allowed(await self._concerned(command), command, now, form)
        return where(applied.request, command)

    async def authorize(self, command: TaskCommand, now: datetime) -> None:
        found = await self._reader.of_task(command.task)
        await self._completing().authorize(found.process, found.request, command, now)

    async def task(self, task_id: str) -> Assigned:
        found = await self._reader.of_task(task_id)
        return next(Assigned(t, found.request) for t in found.request.tasks if t.id == task_id.strip())

    async def todo(self, person: str, now: datetime, most: int | None = None) -> Todo:
        tasks = sorted(await self._reader.todo(person), key=lambda a: a.task.since)
        return Todo(tuple(tasks[:most]), len(tasks))

    async def done(self, person: str) -> tuple[Assigned, ...]:
        return tuple(sorted(await self._reader.done(person), key=lambda a: a.task.closed or a.task.since))

    async def request(self, request_id: str) -> Request:
        return (await self._reader.of_request(request_id)).request

    async def mine(self, person: str) -> tuple[Request, ...]:
        return tuple(await self._reader.mine(person))

    async def told(self, person: str) -> tuple[Request, ...]:
        names = await self._marks.table(f"told:{person}")
        found = await self._reader.listed({name: partial(self._load, name) for name in names})
        return tuple(f.request for f in found if person in f.request.cc)

    async def events(self, request_id: str) -> tuple[Event, ...]:
        """What was done through us: who, what and when. Which way the request took, and what others did to it, is in
        the engine's own history."""
        return events_of(await self._reader.of_request(request_id))

    async def deputies(self, person: str, now: datetime) -> tuple[str, ...]:
        """Nobody: standing in is for the embedded engine only."""
        return ()

    async def stand_ins(self, task_id: str, now: datetime) -> tuple[str, ...]:
        return ()

    async def delegate(self, delegation: Delegation, now: datetime) -> None:
        raise not_remote(CANNOT[Delegation])

    async def undelegate(self, person: str, delegation_id: str, now: datetime) -> Delegation:
        raise not_remote(CANNOT[Delegation])

    async def delegations(self, person: str, now: datetime) -> tuple[Delegation, ...]:
        return ()

    async def tick(self, now: datetime) -> int:
        """Timers belong to the engine: none goes off here. Service tasks that wait for us are done."""
        await self._servant.serve()
        return 0

    async def outbox(self, limit: int) -> list[OutboxEvent]:
        return await self._announcer.waiting(limit, self._load)

    async def sent(self, ids: Sequence[str]) -> None:
        await self._announcer.sent(ids)

    def _completing(self) -> Completing:
        """For one command: what it has read is true for as long."""
        return self._completing_over(Known(self._reader))

    async def _concerned(self, command: Act) -> Found:
        if isinstance(command, Withdraw | Comment | Cc):
            return await self._reader.of_request(command.request)
        return await self._reader.of_task(command.task)

    async def _allowed(
        self, found: Found, command: Act, now: datetime, form: Mapping[str, str] | None
    ) -> tuple[Act, Applied]:
        """The command as it may be carried out, and on paper what comes of it."""
        if isinstance(command, AddSign):
            raise not_remote(CANNOT[AddSign])
        if isinstance(command, Withdraw) and found.request.status is Status.APPROVED:
            raise not_remote(CANNOT[Withdraw])
        if isinstance(command, Decide) and _from_parallel(found, command):
            raise not_remote(CANNOT[Decide])
        command = await self._completing().act(found.process, found.request, command, now, form)
        return command, apply(found.process.definition, found.request, command, now)

    async def _told(self, found: Found, command: Act, record: Record) -> None:
        """Tells the engine. Where that takes two calls, the record comes first and counts for nothing alone."""
        item = found.item(command.task) if isinstance(command, Decide | Transfer) else None
        match command:
            case Decide(decision=Decision.RETURN) if item:
                await self._api.put(found.instance.id, written(record, item.id))
                await self._api.move(item, returned_to(found.process.definition, command))
            case Decide() if item:
                decided = {**decision_at(item.node, command.decision), **written(record, item.id)}
                changed = {**corrected(found), **await self._resubmitted(found, command)}
                await self._api.complete(item, {**changed, **decided})
            case Transfer() if item:
                user = await self._users.user(command.person)
                await self._api.put(found.instance.id, written(record))
                await self._api.assign(item, user)
            case Withdraw():
                await self._api.put(found.instance.id, written(record))
                await self._api.remove(found.instance.id, "withdrawn")
            case Urge() | Comment() | Cc():
                await self._api.put(found.instance.id, written(record))

    async def _resubmitted(self, found: Found, command: Decide) -> dict[str, Value]:
        """The variables that change with the form; what was decided before is forgotten."""
        if command.filled is None:
            return {}
        return await self._starter.variables(found.process, command.filled, found.request.initiator)

    async def _sure(self, write: Awaitable[None], found: Found, record: Record) -> None:
        """Raises `ToolError` if it was not done, `EffectUnknown` if nobody can say."""
        try:
            await write
        except Refused as refused:
            if not await self._settled(self._seen(found, record, LOOKS_S[:1])):
                raise failed(refused) from None
        except Unanswered:
            if not await self._settled(self._seen(found, record, LOOKS_S)):
                raise EffectUnknown("the workflow engine did not say whether it was done") from None

    async def _seen(self, found: Found, record: Record, pauses: Iterable[float]) -> bool:
        """Raises `ToolError` when somebody else was first: what was allowed is not any more."""
        command = record.command
        assert isinstance(command, Act)
        for pause in pauses:
            await self._sleep(pause)
            fresh = await self._reader.again(found.instance)
            if happened(fresh, command, record.key):
                return True
            apply(fresh.process.definition, fresh.request, command, record.at)
        return False

    async def _settled(self, reading: Awaitable[T]) -> T:
        """Reading after a write: when the engine has gone meanwhile, nobody can say what became of it."""
        try:
            return await reading
        except ToolError as error:
            if error.code.startswith("engine_"):
                raise EffectUnknown(error.text) from None
            raise

    async def _done(self, key: str, found: Found, command: Act | None = None) -> Moved:
        while found.request.running and not found.request.open_tasks and await self._servant.serve():
            found = await self._settled(self._reader.again(found.instance))
        moved = where(found.request, command)
        await self._marks.put(f"answer:{key}", moved.model_dump_json(), ANSWER_MS)
        self._announcer.look()
        return moved

    async def _earlier(self, key: str) -> Moved | None:
        if not key:
            raise ValueError("a command needs an idempotency key")
        answer = await self._marks.get(f"answer:{key}")
        return Moved.model_validate_json(answer) if answer else None

    async def _load(self, request_id: str) -> Found | None:
        try:
            return await self._reader.of_request(request_id)
        except ToolError as error:
            if error.code != "no_request":
                raise
            return None


class Known:
    """The lists that `Completing` looks at, answered by the engine."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._mine: dict[str, Request] = {}

    async def listed(self, name: str, person: str = "") -> tuple[tuple[str, int], ...]:
        self._mine = {r.id: r for r in await self._reader.mine(person)}
        return tuple((request, 0) for request in self._mine)

    async def load_all(self, request_ids: Sequence[str]) -> tuple[Request, ...]:
        return tuple(self._mine[r] for r in request_ids)

    async def away(self, person: str) -> tuple[Delegation, ...]:
        """Standing in is for the embedded engine only."""
        return ()


def _unseen(command: Act, applied: Applied) -> tuple[Notice, ...]:
    """What people are told that no look at tasks would find."""
    return applied.notices if isinstance(command, Urge | Comment | Cc) else ()


def _request_of(command: Act) -> str:
    """Raises `ToolError` `no_task`."""
    if isinstance(command, Withdraw | Comment | Cc):
        return command.request.strip().upper()
    return request_of(command.task)


def _from_parallel(found: Found, command: Decide) -> bool:
    """True for a return out of a part where others are asked too: the engines would leave those where they are."""
    task = found.request.task(command.task)
    if command.decision is not Decision.RETURN or task is None or not task.open:
        return False
    return task.node not in found.process.definition.alone
