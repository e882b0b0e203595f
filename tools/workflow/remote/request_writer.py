"""Starts and changes requests, each time exactly once, in an engine that does whatever it is told each time.

A write that was refused or not answered is never simply repeated. The request is read, and our key in its records shows
whether the write was done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from tools.spec import EffectUnknownError, ToolError
from tools.workflow.engine.commands import (
    AssignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    StartCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.port import Act
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import Decision, FilledForm, Visit
from tools.workflow.engine.transitions import TransitionResult
from tools.workflow.process.definition import Process
from tools.workflow.remote.api import WRITE_PENDING_MS, EngineApi, ProcessInstance, VariableValue
from tools.workflow.remote.change_poller import RUNNING_TABLE
from tools.workflow.remote.command_records import CommandRecord, build_record_variables, find_decision_record
from tools.workflow.remote.engine_users import EngineUsers
from tools.workflow.remote.key_value_store import ANSWER_MS, KeyValueStore
from tools.workflow.remote.process_versions import RemoteVersions
from tools.workflow.remote.rebuild import (
    RemoteRequest,
    build_decision_corrections,
    build_decision_variables,
    build_seat_variables,
    build_variables,
    get_return_target,
    is_command_executed,
    list_shared_steps,
    list_step_people,
)
from tools.workflow.remote.request_reader import RequestReader
from tools.workflow.remote.rest_client import EngineNoAnswerError, EngineRefusedError, build_engine_failed_error

T = TypeVar("T")
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
            number = f"{prefix}-{await self._store.increment_counter(prefix):04d}"
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
        begun = apply_command(process.definition, None, command, now).request
        variables = await self._resolve_variables(process, filled, initiator)
        variables |= await self._resolve_seats(process, begun.visits)
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
                written = await self._resolve_new_seats(found, result)
                written |= build_record_variables(record, item.id)
                target = get_return_target(found.process.definition, command)
                await self._api.return_task(item, target, written, is_shared=is_shared)
            case DecideCommand() if item and result:
                changed = build_decision_corrections(found)
                if command.filled is not None:
                    changed |= await self._resolve_variables(found.process, command.filled, found.request.initiator)
                changed |= await self._resolve_new_seats(found, result)
                returned = find_decision_record(found.instance.variables, item.id)
                if returned and not is_shared:  # which may still come true
                    item = await self._api.renew_task(item)
                elif returned and record.at - returned.at < timedelta(milliseconds=WRITE_PENDING_MS):
                    raise EffectUnknownError("the return of this task may still come true within five minutes")
                decided = build_decision_variables(item.node, command.decision, is_last=bool(result.event.steps))
                written = {**changed, **decided, **build_record_variables(record, item.id)}
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

    async def _resolve_new_seats(self, found: RemoteRequest, result: TransitionResult) -> dict[str, VariableValue]:
        """The variables of the people asked at the steps that a decision opens."""
        before = {visit.node for visit in found.request.visits} if not result.event.steps else ()
        visits = [visit for visit in result.request.visits if visit.node not in before]
        return await self._resolve_seats(found.process, visits)

    async def _resolve_variables(
        self, process: Process, filled: FilledForm, initiator: str
    ) -> dict[str, VariableValue]:
        asked = [p for node in process.definition.nodes.values() for p in list_step_people(node, filled)]
        users = {person: await self._users.get_engine_user(person) for person in {initiator, *asked}}
        return build_variables(process, filled, users, initiator)

    async def _resolve_seats(self, process: Process, visits: Sequence[Visit]) -> dict[str, VariableValue]:
        """The variables of the people asked at these visits. Where one of several decides, they have no other say."""
        seats = [seat for visit in visits for seat in visit.ballot.seats]
        users = {seat.person: await self._users.get_engine_user(seat.person) for seat in seats}
        return {**build_seat_variables(process, visits, users)}


async def read_after_write(reading: Awaitable[T]) -> T:
    """Read after a write. Raises `EffectUnknownError` if the engine has gone meanwhile, because the result is
    unclear."""
    try:
        return await reading
    except ToolError as error:
        if error.code.startswith("engine_"):
            raise EffectUnknownError(error.text) from None
        raise
