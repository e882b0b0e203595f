"""Requests as the engine has them, found by number, task or person. Nothing is remembered: every reading is fresh."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from tools.spec import ToolError
from tools.workflow.commands import Start
from tools.workflow.engine import Assigned
from tools.workflow.graph import DefinitionRefused
from tools.workflow.remote.api import Api, Instance, Item
from tools.workflow.remote.common import TASK, Found, rebuilt
from tools.workflow.remote.records import started
from tools.workflow.remote.rest import ODD, down, unreadable
from tools.workflow.remote.users import Users
from tools.workflow.remote.versions import Versions
from tools.workflow.state import SPEAKING, Request

AT_ONCE = 8
"""Requests that are read at the same time."""
LISTED_S = 60.0
"""Seconds that reading all requests of a list may take."""
log = logging.getLogger(__name__)


class Reader:
    def __init__(self, api: Api, users: Users, versions: Versions) -> None:
        self._api, self._users, self._versions = api, users, versions

    async def of_request(self, request_id: str) -> Found:
        """Raises `ToolError` `no_request`. A number that several instances have means the oldest of ours."""
        wanted = request_id.strip().upper()
        for instance in await self._api.instances(wanted) if wanted else []:
            if (found := await self._checked(instance)) and found.request.id == wanted:
                return found
        raise ToolError("no_request", f"there is no request {request_id[:40]!r}", request=request_id[:40])

    async def of_task(self, task_id: str) -> Found:
        """Raises `ToolError` `no_task`."""
        try:
            found = await self.of_request(request_of(task_id))
        except ToolError as error:
            raise (no_task(task_id) if error.code == "no_request" else error) from None
        if found.request.task(task_id.strip()) is None:
            raise no_task(task_id)
        return found

    async def of_instance(self, instance: str) -> Found | None:
        """None for what is not ours, or gone."""
        fresh = await self._api.instance(instance)
        return await self._checked(fresh) if fresh else None

    async def again(self, instance: Instance) -> Found:
        """The same request as it is by now."""
        found = await self.of_instance(instance.id)
        if found is None:
            raise ToolError("no_request", f"{instance.request} is gone from the engine", request=instance.request)
        return found

    async def begun(self, request: str, key: str) -> Instance | None:
        """The instance that the start with this key made, if it did."""
        for instance in await self._api.instances(request):
            record = started(await self._api.variables(instance.id))
            if record is not None and record.key == key:
                return instance
        return None

    async def todo(self, person: str) -> list[Assigned]:
        user = await self._users.known(person)
        items = await self._api.open_items(user=user) if user else []
        return [a for a in await self._assigned(items) if a.task.open and a.task.assignee == person]

    async def done(self, person: str) -> list[Assigned]:
        user = await self._users.known(person)
        items = await self._api.closed_items(user) if user else []
        return [a for a in await self._assigned(items) if a.task.by == person and a.task.outcome in SPEAKING]

    async def mine(self, person: str) -> list[Request]:
        user = await self._users.known(person)
        instances = await self._api.begun_by(user) if user else []
        found = await self.listed({i.id: partial(self._ours, i) for i in instances})
        return [f.request for f in found if f.request.initiator == person]

    async def _checked(self, instance: Instance) -> Found | None:
        """As `_ours`. Raises `ToolError` `engine_unreadable` for one whose record makes no sense."""
        try:
            return await self._ours(instance)
        except DefinitionRefused:
            raise
        except ODD as odd:
            raise unreadable() from odd

    async def _ours(self, instance: Instance) -> Found | None:
        """None for an instance that was not started by us."""
        variables = await self._api.variables(instance.id)
        record = started(variables)
        if record is None or not isinstance(record.command, Start):
            return None
        process = await self._versions.of(record.command.definition, record.command.form)
        items = await self._api.items(instance.id)
        passed = await self._api.passed(instance.id) if instance.ended else []
        people = {user: await self._users.person(user) for user in {i.user for i in items if i.user}}
        return rebuilt(process, instance, variables, items, people, passed)

    async def listed(self, readings: Mapping[str, Callable[[], Awaitable[Found | None]]]) -> list[Found]:
        """Those that are ours, oldest first. `readings`: by request or instance. One that cannot be read is logged and
        left out: it must not hide the others. Raises `ToolError`, and ends all readings with the first that does:
        also `engine_down`, when together they take longer than `LISTED_S`."""
        few = asyncio.Semaphore(AT_ONCE)

        async def one(name: str, reading: Callable[[], Awaitable[Found | None]]) -> Found | None:
            async with few:
                try:
                    return await reading()
                except ToolError as wrong:
                    if wrong.code != "engine_unreadable":
                        raise
                    log.warning("%s cannot be read, and is not listed: %r", name, wrong)
                    return None
                except ODD as wrong:  # DefinitionRefused, or what pydantic says
                    log.warning("%s cannot be read, and is not listed: %r", name, wrong)
                    return None

        tasks = [asyncio.create_task(one(*item)) for item in readings.items()]
        try:
            async with asyncio.timeout(LISTED_S):
                found = [f for f in await asyncio.gather(*tasks) if f]
        except TimeoutError:
            raise down() from None
        finally:
            for task in tasks:
                task.cancel()
        return sorted(found, key=lambda f: (f.request.started, f.request.id))

    async def _assigned(self, items: Iterable[Item]) -> list[Assigned]:
        found = await self.listed({name: partial(self.of_instance, name) for name in {i.instance for i in items}})
        return [Assigned(task, f.request) for f in found for task in f.request.tasks]


def request_of(task_id: str) -> str:
    """`L-0012-28` → `L-0012`. Raises `ToolError` `no_task`."""
    match = TASK.fullmatch(task_id.strip())
    if match is None:
        raise no_task(task_id)
    return match["request"]


def no_task(task_id: str) -> ToolError:
    return ToolError("no_task", f"there is no task {task_id[:40]!r}", task=task_id[:40])
