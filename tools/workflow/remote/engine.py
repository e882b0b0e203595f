"""Implements `Engine` over Flowable, Camunda 7 or Operaton. The engine stores the requests; we keep the rules.

These engines check none of our rules: everybody with access to their API may complete anybody's task. Every command is
therefore first executed on paper: the request is read again (`rebuild`), and `reducer.apply_command` says whether the
command is allowed, exactly as for the embedded engine. Only then does the engine get the command, and afterwards the
real result is read. A lock makes this one step among our own processes. The login must belong to this bot alone,
because nobody checks what others do to the engine directly.

A write that was refused or not answered is looked for (`request_writer`). If it stays unclear whether it was done,
`EffectUnknownError` is raised."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from datetime import datetime
from typing import NoReturn

from tools.ports import Directory
from tools.spec import EffectUnknownError, ToolError
from tools.workflow.engine.authority import can_be_asked, reject_unseen_form, require_task
from tools.workflow.engine.commands import (
    AboutTask,
    Act,
    AddSignCommand,
    AssignCommand,
    CcCommand,
    Command,
    CommentCommand,
    DecideCommand,
    RequestEvent,
    RequestNotice,
    TaskCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.duplicates import reject_repeated_start
from tools.workflow.engine.enrich import CommandEnricher, RequestLists
from tools.workflow.engine.port import (
    MAX_SAME_FILE,
    Ability,
    AssignedTask,
    CommandResult,
    Completion,
    Engine,
    RequestList,
    TodoList,
    build_command_result,
)
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import RULE, Decision, Delegation, Request, Status, TaskKind
from tools.workflow.engine.store import OutboxEvent
from tools.workflow.process.definition import Process, get_process_by_key
from tools.workflow.remote.api import EngineApi
from tools.workflow.remote.change_poller import ChangePoller
from tools.workflow.remote.command_records import CommandRecord
from tools.workflow.remote.engine_users import EngineUsers
from tools.workflow.remote.external_tasks import ExternalTaskWorker
from tools.workflow.remote.key_value_store import ANSWER_MS, KeyValueStore, hold_lock
from tools.workflow.remote.process_versions import RemoteVersions
from tools.workflow.remote.rebuild import (
    RemoteRequest,
    build_not_remote_error,
    build_request_events,
    is_command_executed,
)
from tools.workflow.remote.request_reader import RequestReader, split_task_id
from tools.workflow.remote.request_writer import RequestWriter, read_after_write

REST_PAUSES_S = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0)
"""Pauses in which the engine goes on by itself, after which a command ends all the same (s)."""
MAX_ROUNDS = 100
"""Most rounds of service tasks, which may be those of other requests, within one command."""
log = logging.getLogger(__name__)
UNSUPPORTED_ACTIONS: Mapping[type, Mapping[str, str]] = {
    AddSignCommand: {"zh": "加签", "en": "adding approvers"},
    DecideCommand: {"zh": "从并行审批中退回", "en": "returning a request from a parallel part"},
    WithdrawCommand: {"zh": "撤回已经通过的申请", "en": "withdrawing an approved request"},
    Delegation: {"zh": "设置代理人", "en": "letting somebody stand in"},
}


class RemoteEngine(Engine):
    """An engine over the API of another one. `users_by_name` maps persons to engine users (`engine_users.read_users`).
    `build_enricher` builds the enricher of commands from the lists that it needs. `clock` gives seconds, from any
    origin.

    Unlike the embedded engine, this one refuses deputies, add sign, withdrawal of approved requests and returns from a
    parallel part (`not_remote`). Timers are the engine's own, and only remind. Cards appear when the engine is next
    polled (`change_poller`). The record of a request has no hash chain, and lacks what was done in the engine without
    us."""

    abilities: frozenset[Ability] = frozenset()

    def __init__(
        self,
        api: EngineApi,
        store: KeyValueStore,
        processes: Sequence[Process],
        directory: Directory,
        users_by_name: Mapping[str, str],
        build_enricher: Callable[[RequestLists], CommandEnricher],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store, self._sleep = store, sleep
        self._users = EngineUsers(users_by_name, directory)
        self._versions = RemoteVersions(api, store, processes)
        self._reader = RequestReader(api, self._users, self._versions)
        self._writer = RequestWriter(api, store, self._users, self._versions, self._reader, sleep)
        self._poller = ChangePoller(api, store, directory, clock)
        self._task_worker = ExternalTaskWorker(api, self._reader, self._poller, self._versions, clock)
        self._enricher = build_enricher(self._reader)

    async def list_processes(self) -> tuple[Process, ...]:
        return await self._versions.list_processes()

    async def deploy_process(self, process: Process) -> bool:
        """Deploy a version, to the engine too: new requests use it, running ones keep theirs. Return whether it is new.
        Raises `ToolError`."""
        return await self._versions.deploy_process(process)

    async def list_requests_with_file(self, sha256: str) -> tuple[Request, ...]:
        started = await self._store.get_table(f"same_file:{sha256}")
        newest = sorted(started, key=lambda name: started[name])[-MAX_SAME_FILE:]
        return tuple(found.request for found in await self._reader.load_requests(newest))

    async def is_file_on_request(self, sha256: str) -> bool:
        return bool(await self._store.get_table(f"same_file:{sha256}"))

    async def start_request(
        self,
        process: str,
        form: Mapping[str, str],
        initiator: str,
        key: str,
        now: datetime,
        seen: str = "",
        *,
        again: str | None = None,
    ) -> CommandResult:
        async with AsyncExitStack() as stack:
            if earlier := await stack.enter_async_context(self._lock_command(f"start:{key}", key)):
                return earlier
            used = get_process_by_key(process, await self.list_processes())
            await stack.enter_async_context(self._lock_author_forms(used, initiator))
            begun = await self._writer.find_earlier_start(key)
            if begun is None:
                needs_own = used.form.needs_earlier_requests
                own = await self._reader.list_own_requests(initiator) if needs_own else []
                filled = await self._enricher.fill_form(used, form, initiator, now, own_requests=own)
                reject_unseen_form(filled.confirmed_hash, seen)
                reject_repeated_start(own, used, filled, now, again)
                begun = await self._writer.start_request(used, filled, initiator, key, now)
            started = await read_after_write(self._reader.reload_request(begun, {}))
            return await self._finish_command(key, started, started.start.command)

    async def _run_command(
        self, command: Command, key: str, now: datetime, complete: Completion | None = None
    ) -> CommandResult:
        name = split_task_id(command.task) if isinstance(command, AboutTask) else command.request.strip().upper()
        async with AsyncExitStack() as stack:
            if earlier := await stack.enter_async_context(self._lock_command(f"request:{name}", key)):
                return earlier
            found = await self._load_command_request(command)
            process, request = found.process, found.request
            if isinstance(command, DecideCommand) and command.decision is Decision.RESUBMIT:
                await stack.enter_async_context(self._lock_author_forms(process, request.initiator))
            if not is_command_executed(found, command, key):
                if complete:
                    command = await complete(process, request)
                elif isinstance(command, AssignCommand):  # the record names the holder before
                    gone = {require_task(request, command.task).assignee: (command.person,)}
                    command = command.model_copy(update={"gone": gone})
                result = apply_command(process.definition, request, command, now)
                record = CommandRecord(key=key, at=now, command=command, round=request.round)
                is_unseen = isinstance(command, UrgeCommand | CommentCommand | CcCommand)  # by polling tasks
                notices = result.notices if is_unseen else ()
                await self._poller.enqueue_notices(request.id, key, notices, when_recorded=True)
                found = await self._writer.write_command(found, record, result)
            return await self._finish_command(key, found, command)

    def _lock(self, name: str) -> AbstractAsyncContextManager[None]:
        return hold_lock(self._store, name, self._sleep)

    @asynccontextmanager
    async def _lock_command(self, name: str, key: str) -> AsyncIterator[CommandResult | None]:
        """A lock for a command, with the answer to an earlier try of it. An earlier try without an answer may have been
        done: nobody knows while the engine cannot be asked."""
        if not key:
            raise ValueError("a command needs an idempotency key")
        sent = await self._store.get(f"sent:{key}")
        try:
            async with self._lock(name):
                answer = await self._store.get(f"answer:{key}")
                yield CommandResult.model_validate_json(answer) if answer else None
        except ToolError as error:
            if sent and (error.code.startswith("engine_") or error.code == "busy"):
                raise EffectUnknownError(error.text) from None
            raise

    def _lock_author_forms(self, process: Process, author: str) -> AbstractAsyncContextManager[None]:
        """A lock on the author's forms if this form depends on their earlier requests: they are then handed in one
        after the other."""
        return self._lock(f"forms:{author}") if process.form.needs_earlier_requests else nullcontext()

    async def get_task(self, task_id: str) -> AssignedTask:
        found = await self._reader.load_request_of_task(task_id)
        return AssignedTask(require_task(found.request, task_id.strip()), found.request)

    async def list_todo_tasks(self, person: str, now: datetime, most: int | None = None) -> TodoList:
        tasks = sorted(await self._reader.list_todo_tasks(person), key=lambda a: a.task.since)
        return TodoList(tuple(tasks[:most]), len(tasks))

    async def list_decided_tasks(self, person: str) -> tuple[AssignedTask, ...]:
        return tuple(sorted(await self._reader.list_decided_tasks(person), key=lambda a: a.task.closed or a.task.since))

    async def list_recent_decisions(self, person: str, most: int, skip: int = 0) -> TodoList:
        decided = (await self.list_decided_tasks(person))[::-1]
        return TodoList(decided[skip : skip + most], len(decided))

    async def get_request(self, request_id: str) -> Request:
        return (await self._reader.load_request(request_id)).request

    async def list_own_requests(self, person: str) -> tuple[Request, ...]:
        return tuple(await self._reader.list_own_requests(person))

    async def list_recent_requests(self, person: str, most: int, skip: int = 0) -> RequestList:
        own = (await self.list_own_requests(person))[::-1]
        return RequestList(own[skip : skip + most], len(own))

    async def list_cc_requests(self, person: str) -> tuple[Request, ...]:
        found = await self._reader.load_requests(await self._store.get_table(f"told:{person}"))
        return tuple(f.request for f in found if person in f.request.cc)

    async def list_events(self, request_id: str) -> tuple[RequestEvent, ...]:
        """The commands that were done through us: actor, command and time. The request's path, and changes by others,
        are in the engine's own history."""
        return build_request_events(await self._reader.load_request(request_id))

    async def list_deputies(self, *_: object, **__: object) -> tuple[()]:
        """An empty tuple: only the embedded engine has deputies."""
        return ()

    list_task_deputies = list_delegations = list_delegations_to = list_deputies

    async def add_delegation(self, *_: object, **__: object) -> NoReturn:
        raise build_not_remote_error(UNSUPPORTED_ACTIONS[Delegation])

    end_delegation = add_delegation

    async def run_due_jobs(self, now: datetime) -> int:
        """Complete service tasks that wait for us, and return 0. Timers belong to the engine: none fires here."""
        await self._task_worker.run_due_tasks()
        return 0

    async def list_outbox(self, limit: int) -> list[OutboxEvent]:
        return await self._poller.list_outbox(limit, self._load_to_announce)

    async def _load_to_announce(self, request_id: str) -> RemoteRequest | None:
        """A request whose tasks are handed up from people who have left, as far as anybody can take them. The engine
        opens a task for the person whom the form named, whether or not they have left."""
        found = await self._reader.find_request(request_id)
        if found is None or await self._find_hand_up(found) is None:
            return found
        async with self._lock(f"request:{request_id}"):
            found = await self._reader.reload_request(found.instance)
            while hand_up := await self._find_hand_up(found):
                record, notice = hand_up
                await self._poller.enqueue_notices(found.request.id, record.key, (notice,), when_recorded=True)
                found = await self._writer.write_command(found, record)
            return found

    async def _find_hand_up(self, found: RemoteRequest) -> tuple[CommandRecord, RequestNotice] | None:
        """The record of the first task to hand up, and the notice to the author, who keeps their own task. If nobody
        above may decide or has a user of the engine, the task is announced as it is, and the author hears of that."""
        request = found.request
        gone = await self._enricher.find_gone_people(
            found.process, request.filled, request.initiator, request.changed, request.visits
        )
        for task in request.open_tasks:
            for person in gone.get(task.assignee, ()) if task.kind is not TaskKind.REVISE else ():
                able = can_be_asked(found.process.definition, request, task, person)
                if able and await self._users.find_engine_user(person):
                    command = AssignCommand(task=task.id, actor=RULE, person=person, gone={task.assignee: (person,)})
                    data = {"request": request.id, "task": task.id, "person": request.initiator}
                    # the leaver never had the task, so the person above has it since it was opened
                    key = f"handed_up:{task.id}"
                    return (
                        CommandRecord(key=key, at=task.since, command=command, round=request.round),
                        RequestNotice(kind="stepped_up", data={**data, "by": task.assignee, "to": person}),
                    )
        return None

    async def mark_sent(self, ids: Sequence[str]) -> None:
        await self._poller.mark_sent(ids)

    async def _load_request_of(self, command: Command | TaskCommand) -> Request:
        return (await self._load_command_request(command)).request

    async def _load_command_request(self, command: Command | TaskCommand) -> RemoteRequest:
        if isinstance(command, AboutTask):
            return await self._reader.load_request_of_task(command.task)
        return await self._reader.load_request(command.request)

    async def _complete_command(
        self, process: Process, request: Request, command: Act, now: datetime, form: Mapping[str, str] | None
    ) -> Act:
        """The completed command, unless this engine cannot do it."""
        is_refused = isinstance(command, AddSignCommand)
        if isinstance(command, WithdrawCommand):
            is_refused = request.status is Status.APPROVED
        if isinstance(command, DecideCommand) and command.decision is Decision.RETURN:
            task = request.find_task(command.task)
            # From a part where others are asked too: the engines would leave those tasks open.
            is_refused = task is not None and task.is_open and task.node not in process.definition.alone
        if is_refused:
            raise build_not_remote_error(UNSUPPORTED_ACTIONS[type(command)])
        return await super()._complete_command(process, request, command, now, form)

    async def _finish_command(self, key: str, found: RemoteRequest, command: Command) -> CommandResult:
        """Complete service tasks until somebody is asked or the request has ended. Nothing else of a process waits; but
        another process of ours may have its service task, and Flowable goes on by a job of its own."""
        pauses = iter(REST_PAUSES_S)
        for _ in range(MAX_ROUNDS):
            if is_at_rest(found.request):
                break
            written = await self._task_worker.run_external_tasks(found)
            if written is None:
                if (pause := next(pauses, None)) is None:
                    break
                await self._sleep(pause)
            found = await read_after_write(self._reader.reload_request(found.instance, written))
        request = found.request
        moved = build_command_result(request, command)
        for sha256 in {file.sha256 for file in request.filled.files if file.sha256}:  # the engine does not find them
            await self._store.set_row(f"same_file:{sha256}", request.id, request.started.isoformat())
        if not is_at_rest(request):
            log.warning("%s: the engine has not come to rest; its end will be announced", request.id)
        else:
            await self._store.put(f"answer:{key}", moved.model_dump_json(), ANSWER_MS)
        if not request.is_running and command.actor == request.initiator:
            await self._poller.note_told_end(request.id)
        self._poller.schedule_poll()
        return moved


def is_at_rest(request: Request) -> bool:
    """Whether a request goes on only if somebody decides."""
    return bool(request.open_tasks) or not request.is_running
