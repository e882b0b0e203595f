"""Starting a request exactly once in an engine that starts another one every time it is told to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from tools.spec import EffectUnknown, ToolError
from tools.workflow.commands import Start
from tools.workflow.machine import apply
from tools.workflow.process import Process
from tools.workflow.remote.api import Api, Instance, Value
from tools.workflow.remote.common import people_of, variables_of
from tools.workflow.remote.marks import ANSWER_MS, Marks
from tools.workflow.remote.reading import Reader
from tools.workflow.remote.records import Record, written
from tools.workflow.remote.rest import Refused, Unanswered, failed
from tools.workflow.remote.users import Users
from tools.workflow.remote.versions import Versions
from tools.workflow.state import Filled

TRIED_MS = 300_000
"""For how long a write that nobody answered may still come true in the engine. The mark `tried:<request>` stands as
long for its start, `tried:<key>` for any other command."""
LOOKS_S = (0.0, 0.2, 1.0, 2.0)
"""When to look whether a write that was not answered was done."""
RUNNING = "running"
"""Table: request → instance, of those whose author has not been told the end."""


class Starter:
    def __init__(
        self,
        api: Api,
        marks: Marks,
        users: Users,
        versions: Versions,
        reader: Reader,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._api, self._marks, self._users, self._versions = api, marks, users, versions
        self._reader, self._sleep = reader, sleep

    async def begun(self, key: str) -> Instance | None:
        """What an earlier try with this key made. Raises `EffectUnknown` while that may still come true."""
        if (number := await self._marks.get(f"number:{key}")) is None:
            return None
        tried = await self._marks.get(f"tried:{number}")
        found = await self._begun(number, key)
        if found is None and tried:
            raise _unknown()
        return found

    async def begin(self, process: Process, filled: Filled, initiator: str, key: str, now: datetime) -> Instance:
        """Nobody else may do the same meanwhile. Raises `ToolError`, and `EffectUnknown`."""
        definition = await self._versions.deployed(process)
        command = Start(
            request=await self._number(process, key),
            process=process.key,
            definition=process.definition.version,
            form=process.form_version,
            initiator=initiator,
            filled=filled,
        )
        apply(process.definition, None, command, now)
        variables = await self.variables(process, filled, initiator)
        variables |= written(Record(key=key, at=now, command=command))
        return await self._begin(definition, command.request, variables, key)

    async def variables(self, process: Process, filled: Filled, initiator: str) -> dict[str, Value]:
        people = people_of(process, filled) | {initiator}
        users = {person: await self._users.user(person) for person in people}
        return variables_of(process, filled, users, initiator)

    async def _begin(self, definition: str, request: str, variables: Mapping[str, Value], key: str) -> Instance:
        tried = f"tried:{request}"
        await self._marks.put(tried, "1", TRIED_MS)
        await self._marks.enter(RUNNING, request, "")
        try:
            await self._api.start(definition, request, variables)
        except ToolError:  # it was never taken
            await self._marks.drop(tried, "1")
            raise
        except Refused as refused:
            if (found := await self._begun(request, key)) is not None:
                return found
            await self._marks.drop(tried, "1")
            raise failed(refused) from None
        except Unanswered:
            pass
        return await self._looked_for(request, key)

    async def _looked_for(self, request: str, key: str) -> Instance:
        try:
            for pause in LOOKS_S:
                await self._sleep(pause)
                if (found := await self._begun(request, key)) is not None:
                    return found
        except ToolError as away:
            raise EffectUnknown(away.text) from None
        raise _unknown()

    async def _begun(self, request: str, key: str) -> Instance | None:
        found = await self._reader.begun(request, key)
        if found is not None:
            await self._marks.enter(RUNNING, request, found.id)
        return found

    async def _number(self, process: Process, key: str) -> str:
        """The next one, or the one that belongs to this key. Numbers that the engine knows already are passed over:
        our store may have been emptied."""
        if (number := await self._marks.get(f"number:{key}")) is not None:
            return number
        while True:
            number = f"{process.form.number}-{await self._marks.next(process.form.number):04d}"
            if not await self._api.instances(number):
                await self._marks.put(f"number:{key}", number, ANSWER_MS)
                return number


def _unknown() -> EffectUnknown:
    return EffectUnknown("the workflow engine did not say whether the request was started")
