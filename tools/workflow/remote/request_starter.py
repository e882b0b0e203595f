"""Starts a request exactly once, in an engine that starts another one for every call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from tools.spec import EffectUnknownError, ToolError
from tools.workflow.engine.commands import StartCommand
from tools.workflow.engine.reducer import apply_command
from tools.workflow.engine.state import FilledForm, Visit
from tools.workflow.process.definition import Process
from tools.workflow.remote.api import WRITE_PENDING_MS, EngineApi, ProcessInstance, VariableValue
from tools.workflow.remote.command_records import CommandRecord, build_record_variables
from tools.workflow.remote.engine_users import EngineUsers
from tools.workflow.remote.key_value_store import ANSWER_MS, KeyValueStore
from tools.workflow.remote.process_versions import RemoteVersions
from tools.workflow.remote.rebuild import build_seat_variables, build_variables, list_step_people
from tools.workflow.remote.request_reader import RequestReader
from tools.workflow.remote.rest_client import EngineNoAnswerError, EngineRefusedError, build_engine_failed_error

WRITE_CHECK_PAUSES_S = (0.0, 0.2, 1.0, 2.0)
"""Pauses before the checks of whether an unanswered write was done (s)."""
RUNNING_TABLE = "running"
"""Table: request → instance, for requests whose author has not been told the end."""


class RequestStarter:
    def __init__(
        self,
        api: EngineApi,
        marks: KeyValueStore,
        users: EngineUsers,
        versions: RemoteVersions,
        reader: RequestReader,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._api, self._store, self._users, self._versions = api, marks, users, versions
        self._reader, self._sleep = reader, sleep

    async def find_earlier_start(self, key: str) -> ProcessInstance | None:
        """The instance that an earlier try with this key created, if any. Raises `EffectUnknownError` while the try may
        still take effect."""
        if (number := await self._store.get(f"number:{key}")) is None:
            return None
        tried = await self._store.get(f"tried:{number}")
        found = await self._find_and_mark_running(number, key)
        if found is None and tried:
            raise _build_unknown_error()
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
        variables = await self.resolve_variables(process, filled, initiator)
        variables |= await self.resolve_seats(process, begun.visits)
        variables |= build_record_variables(CommandRecord(key=key, at=now, command=command))
        instance = await self._start_instance(definition, command.request, variables, key, now)
        return instance.model_copy(update={"variables": variables})

    async def resolve_variables(self, process: Process, filled: FilledForm, initiator: str) -> dict[str, VariableValue]:
        asked = [p for node in process.definition.nodes.values() for p in list_step_people(node, filled)]
        users = {person: await self._users.get_engine_user(person) for person in {initiator, *asked}}
        return build_variables(process, filled, users, initiator)

    async def resolve_seats(self, process: Process, visits: Sequence[Visit]) -> dict[str, VariableValue]:
        """The variables of the people asked at these visits. Where one of several decides, they have no other say."""
        seats = [seat for visit in visits for seat in visit.ballot.seats]
        users = {seat.person: await self._users.get_engine_user(seat.person) for seat in seats}
        return {**build_seat_variables(process, visits, users)}

    async def _start_instance(
        self, definition: str, request: str, variables: Mapping[str, VariableValue], key: str, now: datetime
    ) -> ProcessInstance:
        pending_mark = f"tried:{request}"
        await self._store.put(pending_mark, "1", WRITE_PENDING_MS)
        await self._store.set_row(RUNNING_TABLE, request, "")
        try:
            if instance := await self._api.start_instance(definition, request, variables):
                await self._store.set_row(RUNNING_TABLE, request, instance)
                return ProcessInstance(id=instance, business_key=request, started=now)
        except ToolError:  # the request was never accepted
            await self._store.delete_if_equal(pending_mark, "1")
            raise
        except EngineRefusedError as refused:
            if (found := await self._find_and_mark_running(request, key)) is not None:
                return found
            await self._store.delete_if_equal(pending_mark, "1")
            raise build_engine_failed_error(refused) from None
        except EngineNoAnswerError:
            pass
        try:
            for pause in WRITE_CHECK_PAUSES_S:
                await self._sleep(pause)
                if (found := await self._find_and_mark_running(request, key)) is not None:
                    return found
        except ToolError as away:
            raise EffectUnknownError(away.text) from None
        raise _build_unknown_error()

    async def _find_and_mark_running(self, request: str, key: str) -> ProcessInstance | None:
        found = await self._reader.find_started_instance(request, key)
        if found is not None:
            await self._store.set_row(RUNNING_TABLE, request, found.id)
        return found


def _build_unknown_error() -> EffectUnknownError:
    return EffectUnknownError("the workflow engine did not say whether the request was started")
