"""Implements `Engine` over Flowable, Camunda 7 or Operaton. The engine stores the requests; we keep the rules.

These engines check none of our rules: everybody with access to their API may complete anybody's task. Every command is
therefore first executed on paper: the request is read again (`rebuild`), and `reducer.apply_command` says whether the
command is allowed, exactly as for the embedded engine. Only then does the engine get the command, and afterwards the
real result is read. A lock makes this one step among our own processes. The login must belong to this bot alone,
because nobody checks what others do to the engine directly.

The engine does whatever it is told each time, and every command shall happen once. So a write that was refused or not
answered is never simply repeated. The request is read, and our key in its records shows whether the write was done. If
that stays unclear, `EffectUnknownError` is raised."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import NoReturn, TypeVar

from tools.ports import Directory
from tools.spec import EffectUnknownError, ToolError
from tools.workflow.bpmn.assignees import format_seat_variables
from tools.workflow.bpmn.graph import DECISION, INITIATOR, format_decision_variable
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
    RequestNotice,
    StartCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.enrich import CommandEnricher, RequestLists
from tools.workflow.engine.port import Ability, CommandResult, Completion, build_command_result, reject_repeated_start
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import RULE, Decision, Delegation, FilledForm, Request, Status, TaskKind, Visit
from tools.workflow.engine.store import OutboxEvent, format_request_id
from tools.workflow.engine.transitions import TransitionResult
from tools.workflow.process.definition import Process, get_process_by_key
from tools.workflow.remote.api import MARK, WORKER, WRITE_PENDING_MS, EngineApi, ProcessInstance, VariableValue
from tools.workflow.remote.change_poller import RUNNING_TABLE, ChangePoller
from tools.workflow.remote.key_value_store import ANSWER_MS, KeyValueStore
from tools.workflow.remote.rebuild import (
    CommandRecord,
    RemoteRequest,
    build_not_remote_error,
    build_record_variables,
    find_decision_record,
    get_return_target,
    is_command_executed,
    list_shared_steps,
)
from tools.workflow.remote.request_reader import RequestReader, split_task_id
from tools.workflow.remote.rest_client import EngineNoAnswerError, EngineRefusedError, build_engine_failed_error

T = TypeVar("T")
LOCK_MS = 120_000
"""Milliseconds after which the holder of a lock counts as dead. If the holder is only slow, the engine still lets a
task be completed only once."""
WAIT_S, WAITS = 0.05, 400
REST_PAUSES_S = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0)
"""Pauses in which the engine goes on by itself, after which a command ends all the same (s)."""
MAX_ROUNDS = 100
"""Most rounds of service tasks, which may be those of other requests, within one command."""
SEVERAL_DECIDERS = {"zh": "让几个人作为一步的同一个审批人", "en": "several people as the one assignee of a step"}
LONG_NUMBERS = {"zh": "超过 15 位有效数字的数", "en": "numbers of more than 15 digits"}
WRITE_CHECK_PAUSES_S = (0.0, 0.2, 1.0, 2.0)
"""Pauses before the checks of whether an unanswered write was done (s)."""
UNSUPPORTED_ACTIONS: Mapping[type, Mapping[str, str]] = {
    AddSignCommand: {"zh": "加签", "en": "adding approvers"},
    DecideCommand: {"zh": "从并行审批中退回", "en": "returning a request from a parallel part"},
    WithdrawCommand: {"zh": "撤回已经通过的申请", "en": "withdrawing an approved request"},
    Delegation: {"zh": "设置代理人", "en": "letting somebody stand in"},
}
log = logging.getLogger(__name__)


class RemoteEngine(RequestReader):
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
        super().__init__(api, store, processes, directory, users_by_name)
        self._sleep, self._poller = sleep, ChangePoller(api, store, directory, self, clock)
        self._enricher = build_enricher(self)

    async def deploy_process(self, process: Process) -> bool:
        """Deploy a version, to the engine too: new requests use it, running ones keep theirs. Return whether it is new.
        Raises `ToolError`."""
        return await self._versions.deploy_process(process)

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
            number = await self._store.get(f"number:{key}")
            tried = await self._store.get(f"tried:{number}") if number else None
            begun = await self.find_started_instance(number, key) if number else None
            if begun:
                await self._store.set_row(RUNNING_TABLE, begun.business_key, begun.id)
            elif tried:  # an earlier try may still take effect
                raise EffectUnknownError("the workflow engine did not say whether the request was started")
            else:
                own = await self.list_own_requests(initiator) if used.form.needs_earlier_requests else ()
                filled = await self._enricher.fill_form(used, form, initiator, now, own_requests=own)
                reject_unseen_form(filled.confirmed_hash, seen)
                reject_repeated_start(own, used, filled, now, again)
                begun = await self._start_instance(used, filled, initiator, key, now, number)
            started = await read_after_write(self.reload_request(begun, {}))
            return await self._finish_command(key, started, started.start.command)

    async def _run_command(
        self, command: Command, key: str, now: datetime, complete: Completion | None = None
    ) -> CommandResult:
        name = split_task_id(command.task) if isinstance(command, AboutTask) else command.request.strip().upper()
        async with AsyncExitStack() as stack:
            if earlier := await stack.enter_async_context(self._lock_command(f"request:{name}", key)):
                return earlier
            found = await self.load_command_request(command)
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
                found = await self._write_command(found, record, result)
            return await self._finish_command(key, found, command)

    @asynccontextmanager
    async def _lock(self, name: str) -> AsyncIterator[None]:
        """Hold a lock that excludes our other processes. Raises `ToolError` `busy`."""
        token = secrets.token_hex(8)
        for _ in range(WAITS):
            if await self._store.put_if_absent(f"alone:{name}", token, LOCK_MS):
                break
            await self._sleep(WAIT_S)
        else:
            raise ToolError("busy", "too many people are changing this at once; try once more")
        try:
            yield
        finally:
            await self._store.delete_if_equal(f"alone:{name}", token)

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

    async def add_delegation(self, *_: object, **__: object) -> NoReturn:
        raise build_not_remote_error(UNSUPPORTED_ACTIONS[Delegation])

    end_delegation = add_delegation

    async def run_due_jobs(self, now: datetime) -> int:
        """Complete service tasks that wait for us, and return 0. Timers belong to the engine: none fires here."""
        await self._poller.run_due_tasks()
        return 0

    async def list_outbox(self, limit: int) -> list[OutboxEvent]:
        return await self._poller.list_outbox(limit, self._load_to_announce)

    async def _load_to_announce(self, request_id: str) -> RemoteRequest | None:
        """A request whose tasks are handed up from people who have left, as far as anybody can take them. The engine
        opens a task for the person whom the form named, whether or not they have left."""
        found = await self.find_request(request_id)
        if found is None or await self._find_hand_up(found) is None:
            return found
        async with self._lock(f"request:{request_id}"):
            found = await self.reload_request(found.instance)
            while hand_up := await self._find_hand_up(found):
                record, notice = hand_up
                await self._poller.enqueue_notices(found.request.id, record.key, (notice,), when_recorded=True)
                found = await self._write_command(found, record)
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
            written = await self._poller.run_external_tasks(found)
            if written is None:
                if (pause := next(pauses, None)) is None:
                    break
                await self._sleep(pause)
            found = await read_after_write(self.reload_request(found.instance, written))
        request = found.request
        moved = build_command_result(request, command)
        for sha256 in {file.sha256 for file in request.filled.files if file.sha256}:  # the engine does not find them
            await self._store.set_row(f"same_file:{sha256}", request.id, request.started.isoformat())
        if not is_at_rest(request):
            log.warning("%s: the engine has not come to rest; its end will be announced", request.id)
        else:
            await self._store.put(f"answer:{key}", moved.model_dump_json(), ANSWER_MS)
        is_ending = isinstance(command, StartCommand | DecideCommand | WithdrawCommand)
        if not request.is_running and is_ending and command.actor == request.initiator:
            await self._store.put(f"told_end:{request.id}", "1", ANSWER_MS)  # their answer says so
        self._poller.schedule_poll()
        return moved

    async def _start_instance(
        self, process: Process, filled: FilledForm, initiator: str, key: str, now: datetime, number: str | None
    ) -> ProcessInstance:
        """Start a request; the instance has its variables. Its `number` is the one that belongs to this key, or the
        next one. The caller has to exclude other processes meanwhile. Raises `ToolError`, and `EffectUnknownError`."""
        definition, prefix = await self._versions.require_deployed_definition(process), process.form.number
        while number is None:
            number = format_request_id(prefix, await self._store.increment_counter(prefix))
            if await self._api.list_instances(number):  # our store may have been emptied
                number = None
            else:
                await self._store.put(f"number:{key}", number, ANSWER_MS)
        command = StartCommand(
            request=number,
            process=process.key,
            definition=process.definition.version,
            form=process.form_version,
            initiator=initiator,
            filled=filled,
        )
        variables = await self._resolve_variables(process, filled, initiator)
        variables |= await self._resolve_seats(process, apply_command(process.definition, None, command, now))
        variables |= build_record_variables(CommandRecord(key=key, at=now, command=command))

        async def send() -> ProcessInstance:
            if not (instance := await self._api.start_instance(definition, number, variables)):
                raise EngineNoAnswerError
            return ProcessInstance(id=instance, business_key=number, started=now)

        await self._store.put(f"tried:{number}", "1", WRITE_PENDING_MS)
        await self._store.set_row(RUNNING_TABLE, number, "")
        try:
            found = await self._send_once(key, send, partial(self.find_started_instance, number, key))
        except ToolError:  # the request was never accepted
            await self._store.delete_if_equal(f"tried:{number}", "1")
            raise
        await self._store.set_row(RUNNING_TABLE, number, found.id)
        return found.model_copy(update={"variables": variables})

    async def _write_command(
        self, found: RemoteRequest, record: CommandRecord, result: TransitionResult | None = None
    ) -> RemoteRequest:
        """Send the record's command, and read the request again. `result`: of a decision, on paper. Raises `ToolError`
        if the command was not done, also because somebody else was first, so that it is no longer allowed, and
        `EffectUnknownError` if that is unclear."""

        async def send() -> RemoteRequest:
            written = await self._send_command(found, record, result)
            known = None if isinstance(record.command, WithdrawCommand) else written
            return await read_after_write(self.reload_request(found.instance, known))

        async def find_done(*, is_last: bool = False) -> RemoteRequest | None:
            fresh, command = await self.reload_request(found.instance), record.command
            if is_command_executed(fresh, command, record.key):
                return fresh
            assert isinstance(command, Act | AssignCommand)
            try:
                apply_command(fresh.process.definition, fresh.request, command, record.at)
            except ToolError:  # perhaps it was done after the variables were read, and before the steps were
                if is_last:
                    raise
                return await find_done(is_last=True)
            return None

        return await self._send_once(record.key, send, find_done)

    async def _send_once(
        self, key: str, send: Callable[[], Awaitable[T]], find_done: Callable[[], Awaitable[T | None]]
    ) -> T:
        """Send a write; if it was refused or not answered, find out whether it was done. A key with the mark
        `sent:<key>` may have been done."""
        is_first = await self._store.put_if_absent(f"sent:{key}", "1", ANSWER_MS)
        error: Exception
        pauses: Sequence[float] = WRITE_CHECK_PAUSES_S
        try:
            try:
                return await send()
            except EngineRefusedError as refused:
                error, pauses = build_engine_failed_error(refused), WRITE_CHECK_PAUSES_S[:1]
            except EngineNoAnswerError:
                error = EffectUnknownError("the workflow engine did not say whether it was done")
            for pause in pauses:
                await self._sleep(pause)
                if (done := await read_after_write(find_done())) is not None:
                    return done
            raise error
        except ToolError:  # this try was not done
            if is_first:
                await self._store.delete_if_equal(f"sent:{key}", "1")
            raise

    async def _send_command(
        self, found: RemoteRequest, record: CommandRecord, result: TransitionResult | None
    ) -> Mapping[str, VariableValue]:
        """Send the record's command to the engine; return the variables that were written. If that takes two
        calls, the record comes first and does not count alone."""
        command, written = record.command, dict[str, VariableValue](build_record_variables(record))
        item = found.find_engine_task(getattr(command, "task", ""))
        is_shared = item is not None and item.node in list_shared_steps(found.process.bpmn)
        match command:
            case DecideCommand(decision=Decision.RETURN) if item and result:
                written = await self._resolve_seats(found.process, result, found.request.visits)
                written |= build_record_variables(record, item.id)
                target = get_return_target(found.process.definition, command)
                await self._api.return_task(item, target, written, is_shared=is_shared)
            case DecideCommand() if item and result:
                changed = build_decision_corrections(found)
                if command.filled is not None:
                    changed |= await self._resolve_variables(found.process, command.filled, found.request.initiator)
                changed |= await self._resolve_seats(found.process, result, found.request.visits)
                returned = find_decision_record(found.instance.variables, item.id)
                if returned and not is_shared:  # which may still come true
                    item = await self._api.renew_task(item)
                elif returned and record.at - returned.at < timedelta(milliseconds=WRITE_PENDING_MS):
                    raise EffectUnknownError("the return of this task may still come true within five minutes")
                changed |= {DECISION: command.decision.value, MARK: WORKER}
                if result.event.steps:  # it was the last vote of its step
                    changed[format_decision_variable(item.node)] = command.decision.value
                written = {**changed, **build_record_variables(record, item.id)}
                await self._api.complete_task(item, written)
            case TransferCommand() | AssignCommand() if item:
                user = await self._users.get_engine_user(command.person)
                await self._api.set_variables(found.instance.id, written)
                await self._api.assign_task(item, user)
            case WithdrawCommand():
                await self._api.set_variables(found.instance.id, written)
                await self._api.delete_instance(found.instance.id)
            case UrgeCommand() | CommentCommand() | CcCommand():
                await self._api.set_variables(found.instance.id, written)
        return written

    async def _resolve_variables(
        self, process: Process, filled: FilledForm, initiator: str
    ) -> dict[str, VariableValue]:
        """Every variable that an expression of the process may use; engines fail on a missing one.

        Fields are text. Values for conditions (`days`, amounts, thresholds) are doubles under their own names, because
        JUEL compares text letter by letter. A double keeps the order of decimals of up to 15 digits; longer ones are
        refused. The record has the exact text of everything, which is what people see. Raises `ToolError`
        `not_remote`, and `no_engine_user`."""
        variables: dict[str, VariableValue] = {**filled.values, **process.definition.initial_decisions}
        for name, number in filled.numbers.items():
            variables[name] = float(number)
            if Decimal(repr(float(number))) != number:
                raise build_not_remote_error(LONG_NUMBERS)
        for node in process.definition.nodes.values():
            users = [await self._users.get_engine_user(person) for person in filled.list_people(node.who)]
            if node.id in list_shared_steps(process.bpmn):
                variables |= format_seat_variables(node.id, node.who, users)
            elif node.who and not node.is_revision:
                if len(users) > 1:
                    raise build_not_remote_error(SEVERAL_DECIDERS)
                variables[node.who[0]] = users[0] if users else None
        return {**variables, INITIATOR: await self._users.get_engine_user(initiator), MARK: WORKER}

    async def _resolve_seats(
        self, process: Process, result: TransitionResult, earlier: Iterable[Visit] = ()
    ) -> dict[str, VariableValue]:
        """The variables that say who is asked at the steps that a command opens, if several people may decide there.
        `earlier` steps were open before. Where one of several decides, whoever has decided before has no other say."""
        variables = dict[str, VariableValue]()
        before = {visit.node for visit in earlier} if not result.event.steps else ()
        for visit in result.request.visits:
            if visit.node not in before and visit.node in list_shared_steps(process.bpmn):
                users = [await self._users.get_engine_user(seat.person) for seat in visit.ballot.seats]
                variables |= format_seat_variables(visit.node, process.definition.nodes[visit.node].who, users)
        return variables


def is_at_rest(request: Request) -> bool:
    """Whether a request goes on only if somebody decides."""
    return bool(request.open_tasks) or not request.is_running


def build_decision_corrections(remote_request: RemoteRequest) -> dict[str, VariableValue]:
    """Variables of decisions that are out of date in the engine. The next decision corrects them. A return,
    which forgets some, thus needs no write that would remain if the return is refused. Correct values are left alone,
    because others may be deciding meanwhile."""
    decided = {format_decision_variable(node): made for node, made in remote_request.request.decisions.items()}
    counts = {**remote_request.process.definition.initial_decisions, **decided}
    variables = remote_request.instance.variables
    return {name: value for name, value in counts.items() if (variables.get(name) or "") != value}


async def read_after_write(reading: Awaitable[T]) -> T:
    """Read after a write. Raises `EffectUnknownError` if the engine has gone meanwhile, because the result is
    unclear."""
    try:
        return await reading
    except ToolError as error:
        if error.code.startswith("engine_"):
            raise EffectUnknownError(error.text) from None
        raise
