"""The reads of a remote engine: requests by number, task or person. Only requests that have ended are cached, because
they never change again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial

from tools.ports import Directory
from tools.spec import ToolError
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.engine.authority import build_no_request_error, build_no_task_error, require_task
from tools.workflow.engine.commands import AboutTask, Command, RequestEvent, TaskCommand
from tools.workflow.engine.port import MAX_SAME_FILE, AssignedTask, Engine, RequestList, TodoList
from tools.workflow.engine.state import APPROVAL_DECISIONS, Request
from tools.workflow.engine.store import select_requests_of_year
from tools.workflow.process.definition import Process
from tools.workflow.remote.api import EngineApi, EngineTask, ProcessInstance
from tools.workflow.remote.engine_users import EngineUsers
from tools.workflow.remote.key_value_store import KeyValueStore
from tools.workflow.remote.process_versions import RemoteVersions
from tools.workflow.remote.rebuild import TASK_ID, RemoteRequest, build_request_events, find_start_record
from tools.workflow.remote.rest_client import UNEXPECTED_SHAPE_ERRORS, build_engine_error

MAX_CONCURRENT_READS = 8
LIST_TIMEOUT_S = 60.0
"""Time limit for reading all requests of a list (s)."""
MAX_ENDED = 1_000
"""Most ended requests that are cached."""
log = logging.getLogger(__name__)


class RequestReader(Engine):
    """The part of `RemoteEngine` that changes nothing in the engine."""

    _versions: RemoteVersions

    def __init__(
        self,
        api: EngineApi,
        store: KeyValueStore,
        processes: Sequence[Process],
        directory: Directory,
        users_by_name: Mapping[str, str],
    ) -> None:
        self._api, self._store = api, store
        self._users, self._versions = EngineUsers(users_by_name, directory), RemoteVersions(api, store, processes)
        self._ended: dict[str, RemoteRequest] = {}
        """Id of an instance → its request."""

    async def find_request(self, request_id: str) -> RemoteRequest | None:
        """The request with this number; the oldest of ours if several instances have it."""
        wanted = request_id.strip().upper()
        for instance in await self._api.list_instances(wanted) if wanted else []:
            if (found := await self._rebuild(instance)) and found.request.id == wanted:
                return found
        return None

    async def load_request(self, request_id: str) -> RemoteRequest:
        """`find_request`. Raises `ToolError` `no_request`."""
        if (found := await self.find_request(request_id)) is None:
            raise build_no_request_error(request_id)
        return found

    async def load_request_of_task(self, task_id: str) -> RemoteRequest:
        """The request of a task. Raises `ToolError` `no_task`."""
        if (found := await self.find_request(split_task_id(task_id))) is None:
            raise build_no_task_error(task_id)
        require_task(found.request, task_id.strip())
        return found

    async def find_request_of_instance(self, instance: str) -> RemoteRequest | None:
        """The request of an instance; None for an instance that is not ours, or is gone."""
        if (ended := self._ended.get(instance)) is not None:
            return ended
        fresh = await self._api.find_instance(instance)
        return await self._rebuild(fresh) if fresh else None

    async def reload_request(
        self, instance: ProcessInstance, written: Mapping[str, object] | None = None
    ) -> RemoteRequest:
        """Read a request again; its steps alone if it is known which variables we have `written` since: a deletion, and
        variables by others, are then not seen. Raises `ToolError` `no_request` if its instance is gone."""
        if written is None:
            found = await self.find_request_of_instance(instance.id)
        else:
            known = instance.model_copy(update={"variables": {**instance.variables, **written}})
            found = await self._rebuild(known, is_kept=False)
        if found is None:
            raise build_no_request_error(instance.business_key)
        return found

    async def find_started_instance(self, request: str, key: str) -> ProcessInstance | None:
        """The instance that the start with this key created, if any."""
        for instance in await self._api.list_instances(request):
            if (record := find_start_record(instance.variables)) and record.key == key:
                return instance
        return None

    async def list_processes(self) -> tuple[Process, ...]:
        return await self._versions.list_processes()

    async def get_request(self, request_id: str) -> Request:
        return (await self.load_request(request_id)).request

    async def get_task(self, task_id: str) -> AssignedTask:
        found = await self.load_request_of_task(task_id)
        return AssignedTask(require_task(found.request, task_id.strip()), found.request)

    async def list_todo_tasks(self, person: str, now: datetime, most: int | None = None) -> TodoList:
        user = await self._users.find_engine_user(person)
        assigned = await self._load_assigned_tasks(await self._api.list_open_tasks(user) if user else [])
        tasks = [one for one in assigned if one.task.is_open and one.task.assignee == person]
        return TodoList(tuple(sorted(tasks, key=lambda one: one.task.since)[:most]), len(tasks))

    async def list_decided_tasks(self, person: str) -> tuple[AssignedTask, ...]:
        user = await self._users.find_engine_user(person)
        assigned = await self._load_assigned_tasks(await self._api.list_closed_tasks(user) if user else [])
        tasks = [one for one in assigned if one.task.by == person and one.task.outcome in APPROVAL_DECISIONS]
        return tuple(sorted(tasks, key=lambda one: one.task.closed or one.task.since))

    async def list_recent_decisions(self, person: str, most: int, skip: int = 0) -> TodoList:
        decided = (await self.list_decided_tasks(person))[::-1]
        return TodoList(decided[skip : skip + most], len(decided))

    async def list_own_requests(self, person: str) -> tuple[Request, ...]:
        user = await self._users.find_engine_user(person)
        instances = await self._api.list_instances_started_by(user, self._ended) if user else []
        is_known = all(instance.id in self._ended for instance in instances)
        found = await self._rebuild_all(instances, [] if is_known else await self._api.list_tasks_started_by(user))
        return tuple(f.request for f in found if f.request.initiator == person)

    async def list_recent_requests(self, person: str, most: int, skip: int = 0) -> RequestList:
        own = (await self.list_own_requests(person))[::-1]
        return RequestList(own[skip : skip + most], len(own))

    async def load_requests_of_year(self, person: str, process: str, year: int) -> tuple[Request, ...]:
        return select_requests_of_year(await self.list_own_requests(person), process, year)

    async def list_cc_requests(self, person: str) -> tuple[Request, ...]:
        told = await self._load_requests(await self._store.get_table(f"told:{person}"))
        return tuple(request for request in told if person in request.cc)

    async def list_requests_with_file(self, sha256: str) -> tuple[Request, ...]:
        started = await self._store.get_table(f"same_file:{sha256}")
        return await self._load_requests(sorted(started, key=lambda name: started[name])[-MAX_SAME_FILE:])

    async def is_file_on_request(self, sha256: str) -> bool:
        return bool(await self._store.get_table(f"same_file:{sha256}"))

    async def list_events(self, request_id: str) -> tuple[RequestEvent, ...]:
        """The commands that were done through us: actor, command and time. The request's path, and changes by others,
        are in the engine's own history."""
        return build_request_events(await self.load_request(request_id))

    async def list_deputies(self, *_: object, **__: object) -> tuple[()]:
        """An empty tuple: only the embedded engine has deputies."""
        return ()

    list_task_deputies = list_delegations = list_delegations_to = list_delegations_from = list_deputies

    async def _load_request_of(self, command: Command | TaskCommand) -> Request:
        return (await self.load_command_request(command)).request

    async def load_command_request(self, command: Command | TaskCommand) -> RemoteRequest:
        if isinstance(command, AboutTask):
            return await self.load_request_of_task(command.task)
        return await self.load_request(command.request)

    async def _rebuild(
        self, instance: ProcessInstance, tasks: Sequence[EngineTask] | None = None, *, is_kept: bool = True
    ) -> RemoteRequest | None:
        """Rebuild a request; None for an instance that was not started by us. `tasks`: if they are known. An ended one
        `is_kept`. Raises `InvalidDefinitionError`, and `ToolError` `engine_unreadable` for a record that makes no
        sense."""
        if (ended := self._ended.get(instance.id)) is not None:
            return ended
        record = find_start_record(instance.variables)
        if record is None:
            return None
        process = await self._versions.load_process((record.command.definition, record.command.form))
        passed = await self._api.list_activities(instance.id) if instance.ended or tasks is None else []
        items = [step.task for step in passed if step.task] if tasks is None else tasks
        asked = record.command.filled.list_people(n for node in process.definition.nodes.values() for n in node.who)
        people = {i.assignee: await self._users.resolve_person_id(i.assignee, asked) for i in items if i.assignee}
        try:
            found = RemoteRequest(process, instance, items, people, passed)
        except UNEXPECTED_SHAPE_ERRORS as odd:
            raise build_engine_error("engine_unreadable") from odd
        if found.instance.ended and is_kept:
            if not instance.ended:  # it ended after its variables were read, which may lack the last ones
                fresh = await self._api.find_instance(instance.id) or instance
                return await self._rebuild(fresh, is_kept=bool(fresh.ended))
            self._ended[instance.id] = found
            if len(self._ended) > MAX_ENDED:
                del self._ended[next(iter(self._ended))]
        return found

    async def _load_requests(self, request_ids: Iterable[str]) -> tuple[Request, ...]:
        """The requests with these numbers that can be read, oldest first."""
        found = await self._load_all_readable({name: partial(self.find_request, name) for name in request_ids})
        return tuple(one.request for one in found)

    async def _load_all_readable(
        self, readings: Mapping[str, Callable[[], Awaitable[RemoteRequest | None]]]
    ) -> list[RemoteRequest]:
        """Our requests, oldest first. `readings` maps requests or instances to reads. An unreadable request is logged
        and left out, so that it hides no others. The first `ToolError` ends all reads and is raised. Raises
        `engine_down` if all reads together take longer than `LIST_TIMEOUT_S`."""
        semaphore = asyncio.Semaphore(MAX_CONCURRENT_READS)

        async def load_or_skip(
            name: str, reading: Callable[[], Awaitable[RemoteRequest | None]]
        ) -> RemoteRequest | None:
            async with semaphore:
                try:
                    return await reading()
                except (ToolError, InvalidDefinitionError) as wrong:
                    if isinstance(wrong, ToolError) and wrong.code != "engine_unreadable":
                        raise
                    log.warning("%s cannot be read, and is not listed: %r", name, wrong)
                    return None

        tasks = [asyncio.create_task(load_or_skip(*item)) for item in readings.items()]
        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                requests = [f for f in await asyncio.gather(*tasks) if f]
        except TimeoutError:
            raise build_engine_error("engine_down") from None
        finally:
            for task in tasks:
                task.cancel()
        return sorted(requests, key=lambda f: (f.request.started, f.request.id))

    async def _load_assigned_tasks(self, items: Iterable[EngineTask]) -> list[AssignedTask]:
        names = {item.instance for item in items}
        fresh = await self._api.list_instances_with_ids(names - self._ended.keys())
        ended = [self._ended[name].instance for name in names & self._ended.keys()]
        found = await self._rebuild_all([*fresh, *ended], await self._api.list_tasks_of_instances(fresh))
        return [AssignedTask(task, f.request) for f in found for task in f.request.tasks]

    async def _rebuild_all(
        self, instances: Iterable[ProcessInstance], tasks: Iterable[EngineTask] | None
    ) -> list[RemoteRequest]:
        """`tasks`: of all of them, if they are known."""
        own: dict[str, list[EngineTask]] = {}
        for task in tasks or ():
            own.setdefault(task.instance, []).append(task)
        return await self._load_all_readable(
            {i.id: partial(self._rebuild, i, None if tasks is None else own.get(i.id, [])) for i in instances}
        )


def split_task_id(task_id: str) -> str:
    """The request number in a task id: `L-0012-28` gives `L-0012`. Raises `ToolError` `no_task`."""
    match = TASK_ID.fullmatch(task_id.strip())
    if match is None:
        raise build_no_task_error(task_id)
    return match["request"]
