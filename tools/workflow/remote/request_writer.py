"""Starts and changes requests, each time exactly once, in an engine that does whatever it is told each time.

A write that was refused or not answered is never simply repeated. The request is read, and our key in its records shows
whether the write was done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TypeVar

from tools.spec import EffectUnknownError, ToolError
from tools.workflow.bpmn.assignees import format_seat_variables
from tools.workflow.bpmn.graph import DECISION, INITIATOR, NodeKind, ProcessDefinition, format_decision_variable
from tools.workflow.engine.commands import (
    Act,
    AssignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    StartCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import Decision, FilledForm, Visit
from tools.workflow.engine.store import format_request_id
from tools.workflow.engine.transitions import TransitionResult
from tools.workflow.process.definition import Process
from tools.workflow.remote.api import MARK, WORKER, WRITE_PENDING_MS, EngineApi, ProcessInstance, VariableValue
from tools.workflow.remote.change_poller import RUNNING_TABLE
from tools.workflow.remote.command_records import CommandRecord, build_record_variables, find_decision_record
from tools.workflow.remote.engine_users import EngineUsers
from tools.workflow.remote.key_value_store import ANSWER_MS, KeyValueStore
from tools.workflow.remote.process_versions import RemoteVersions
from tools.workflow.remote.rebuild import (
    RemoteRequest,
    build_not_remote_error,
    get_return_target,
    is_command_executed,
    list_shared_steps,
)
from tools.workflow.remote.request_reader import RequestReader
from tools.workflow.remote.rest_client import EngineNoAnswerError, EngineRefusedError, build_engine_failed_error

T = TypeVar("T")
SEVERAL_DECIDERS = {"zh": "让几个人作为一步的同一个审批人", "en": "several people as the one assignee of a step"}
LONG_NUMBERS = {"zh": "超过 15 位有效数字的数", "en": "numbers of more than 15 digits"}
WRITE_CHECK_PAUSES_S = (0.0, 0.2, 1.0, 2.0)
"""Pauses before the checks of whether an unanswered write was done (s)."""


class RequestWriter:
    def __init__(
        self,
        api: EngineApi,
        store: KeyValueStore,
        users: EngineUsers,
        versions: RemoteVersions,
        reader: RequestReader,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._api, self._store, self._users, self._versions = api, store, users, versions
        self._reader, self._sleep = reader, sleep

    async def find_earlier_start(self, key: str) -> ProcessInstance | None:
        """The instance that an earlier try with this key created, if any. Raises `EffectUnknownError` while the try may
        still take effect."""
        if (number := await self._store.get(f"number:{key}")) is None:
            return None
        tried = await self._store.get(f"tried:{number}")
        found = await self._reader.find_started_instance(number, key)
        if found is not None:
            await self._store.set_row(RUNNING_TABLE, number, found.id)
        elif tried:
            raise EffectUnknownError("the workflow engine did not say whether the request was started")
        return found

    async def start_request(
        self, process: Process, filled: FilledForm, initiator: str, key: str, now: datetime
    ) -> ProcessInstance:
        """Start a request; the instance has its variables. Its number is the next one, or the one that belongs to this
        key. The caller has to exclude other processes meanwhile. Raises `ToolError`, and `EffectUnknownError`."""
        definition = await self._versions.require_deployed_definition(process)
        number, prefix = await self._store.get(f"number:{key}"), process.form.number
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
            found = await self._send_once(key, send, partial(self._reader.find_started_instance, number, key))
        except ToolError:  # the request was never accepted
            await self._store.delete_if_equal(f"tried:{number}", "1")
            raise
        await self._store.set_row(RUNNING_TABLE, number, found.id)
        return found.model_copy(update={"variables": variables})

    async def write_command(
        self, found: RemoteRequest, record: CommandRecord, result: TransitionResult | None = None
    ) -> RemoteRequest:
        """Send the record's command, and read the request again. `result`: of a decision, on paper. Raises `ToolError`
        if the command was not done, also because somebody else was first, so that it is no longer allowed, and
        `EffectUnknownError` if that is unclear."""

        async def send() -> RemoteRequest:
            written = await self._send_command(found, record, result)
            known = None if isinstance(record.command, WithdrawCommand) else written
            return await read_after_write(self._reader.reload_request(found.instance, known))

        async def find_done() -> RemoteRequest | None:
            fresh, command = await self._reader.reload_request(found.instance), record.command
            if is_command_executed(fresh, command, record.key):
                return fresh
            assert isinstance(command, Act | AssignCommand)
            apply_command(fresh.process.definition, fresh.request, command, record.at)
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
                await self._api.delete_instance(found.instance.id, "withdrawn")
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
        variables: dict[str, VariableValue] = {**filled.values, **build_initial_decisions(process.definition)}
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


def build_initial_decisions(definition: ProcessDefinition) -> dict[str, VariableValue]:
    """The variables `decision`, and `decision_<task>` for all tasks, without any decision."""
    tasks = [node for node in definition.nodes.values() if node.kind is NodeKind.USER]
    return {DECISION: "", **{format_decision_variable(task.id): "" for task in tasks}}


def build_decision_corrections(remote_request: RemoteRequest) -> dict[str, VariableValue]:
    """Variables of decisions that are out of date in the engine. The next decision corrects them. A return,
    which forgets some, thus needs no write that would remain if the return is refused. Correct values are left alone,
    because others may be deciding meanwhile."""
    counts = build_initial_decisions(remote_request.process.definition)
    counts |= {format_decision_variable(node): decision for node, decision in remote_request.request.decisions.items()}
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
