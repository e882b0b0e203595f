"""The API of an engine, as far as all engines agree; `flowable` and `camunda` have the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from pydantic import Field

from tools.spec import FrozenModel
from tools.workflow.remote.rest_client import ByteBudget, RestClient, build_engine_error, reject_unreadable

T = TypeVar("T")
Path: TypeAlias = tuple[str, ...]
EngineName: TypeAlias = Literal["camunda", "operaton", "flowable"]
VariableValue: TypeAlias = str | float | None
PAGE_SIZE = 500
"""Rows requested at once. By default Flowable returns 10, Camunda everything."""
MAX_PAGES = 200
"""Most pages of one list."""
DELETED = ("EXTERNALLY_TERMINATED", "INTERNALLY_TERMINATED")
"""States of an instance on Camunda that was ended from outside."""
WORKER = "countersign"
MARK = "countersign"
"""A variable of every instance that we have started, always with the value of `WORKER`: other programs on this engine
have service tasks of these topics, too."""
WRITE_PENDING_MS = 300_000
"""Milliseconds within which an unanswered write may still take effect in the engine. A mark is kept this long:
`tried:<request>` for a start, `tried:<key>` for any other command."""
LOCK_S = 20
"""Seconds for which a service task is locked for us."""


EngineId: TypeAlias = Annotated[str, Field(max_length=255)]
"""An id or a key: both engines store it in a column of at most 255 characters."""


class ProcessInstance(FrozenModel):
    """A process instance, running or ended."""

    id: EngineId
    business_key: EngineId
    """The business key, which is our request number."""
    started: datetime
    ended: datetime | None = None
    is_deleted: bool = False
    """Whether the instance was ended from outside, not by an end event."""
    variables: Mapping[str, object] = {}


class EngineTask(FrozenModel):
    """A user task of the engine, open or closed."""

    id: EngineId
    instance: EngineId
    execution: EngineId
    activity: EngineId = ""
    """The activity instance, which is the task's alone (Camunda only)."""
    node: EngineId
    assignee: EngineId
    """The engine's user, or empty for an unassigned task."""
    since: datetime
    ended: datetime | None = None


class ActivityInstance(FrozenModel):
    """A step of the instance: a node, or (Flowable only) a flow."""

    id: EngineId
    at: datetime
    task: EngineTask | None = None


class ExternalTask(FrozenModel):
    """A service task that waits for us."""

    id: EngineId
    instance: EngineId
    node: EngineId
    topic: EngineId


def parse_instance(row: Mapping[str, Any]) -> ProcessInstance:
    """Parse an instance of the history, which has its variables on Flowable."""
    return ProcessInstance(
        id=row["id"],
        business_key=row.get("businessKey") or "",
        started=row["startTime"],
        ended=row.get("endTime"),
        is_deleted=row["state"] in DELETED if "state" in row else row.get("deleteReason") is not None,
        variables={v["name"]: v.get("value") for v in row.get("variables", ())},
    )


def parse_task(row: Mapping[str, Any]) -> EngineTask:
    """Parse an open task, one of the history, or a step of the history, which has a `taskId`."""
    is_step = "taskId" in row
    return EngineTask(
        id=row["taskId" if is_step else "id"],
        instance=row["processInstanceId"],
        execution=row["executionId"] or "",
        activity=row.get("id" if is_step else "activityInstanceId") or "",
        node=row["activityId" if is_step else "taskDefinitionKey"],
        assignee=row.get("assignee") or "",
        since=row.get("created") or row.get("createTime") or row["startTime"],
        ended=row.get("endTime"),
    )


def parse_activity(row: Mapping[str, Any]) -> ActivityInstance:
    """Parse a step of the history."""
    return ActivityInstance(
        id=row["activityId"], at=row["startTime"], task=parse_task(row) if row.get("taskId") else None
    )


def encode_variables(variables: Mapping[str, VariableValue]) -> list[dict[str, Any]]:
    """Variables with explicit types, because a bare `2.0` might be read as an integer; None has no type."""
    encoded: list[dict[str, Any]] = []
    for name, value in variables.items():
        kind = "string" if isinstance(value, str) else "double"
        encoded.append({"name": name, "value": value} | ({} if value is None else {"type": kind}))
    return encoded


class Listing(NamedTuple):
    """One of the engine's lists."""

    path: Path
    is_post: bool = True
    """Whether the conditions are sent as a body."""
    page: int = PAGE_SIZE
    """Most rows of a page."""


class EngineApi(Protocol):
    """The API of an engine. Reads raise `ToolError`; writes raise the errors of `RestClient.write`. Lists are complete,
    whatever the page size."""

    _rest: RestClient
    _page: int
    definitions: Listing
    open_tasks: Listing
    past_tasks: Listing
    past_steps: Listing
    past_instances: Listing
    latest_condition: str
    created_order: str
    """The sorting of open tasks by their age."""
    variables_condition: str
    """The condition on variables of the instance of an open task."""
    request_condition: str
    equals: Mapping[str, str]
    """The part of a condition on a variable that says how it is compared."""
    extension_name: EngineName
    """The engine in whose namespace process files for it have their attributes."""
    read_extensions: frozenset[str]
    """The engines in whose namespaces this one reads attributes (`process_versions`). All others are ignored."""

    def __init__(self, rest: RestClient, page: int = PAGE_SIZE) -> None:
        self._rest, self._page = rest, page

    async def find_definition_id(self, process: str) -> str:
        """Id of the newest definition with this key, or empty."""
        wanted = {"key": process, self.latest_condition: "true"}
        return next(iter(await self._list(self.definitions, wanted, lambda row: str(row["id"]))), "")

    async def load_definition_xml(self, definition: str) -> bytes:
        """The file that was deployed."""

    async def deploy_file(self, name: str, content: bytes) -> None:
        """Deploy a process file under this name; the newest file with its key counts from then on."""

    async def list_instances(self, request: str) -> list[ProcessInstance]:
        """Instances with this business key, oldest first. Neither engine enforces uniqueness."""
        return await self.query_instances({self.request_condition: request})

    async def find_instance(self, instance: str) -> ProcessInstance | None:
        return next(iter(await self.query_instances({"processInstanceId": instance})), None)

    async def list_instances_started_by(self, user: str, known: Container[str] = ()) -> list[ProcessInstance]:
        """Instances whose variable `initiator` is this user. (The engine's own start user is our service account.)"""
        return await self.query_instances({"variables": [self._match_variable("initiator", user)]}, known)

    async def query_instances(
        self, wanted: Mapping[str, Any], known: Container[str] | None = None
    ) -> list[ProcessInstance]:
        """Past and running instances, oldest first. For a list, `known` says which may come without variables; all
        others may come with the variables of our records only."""
        return await self._list(self.past_instances, wanted, parse_instance, "startTime")

    async def list_instances_with_ids(self, ids: Collection[str]) -> list[ProcessInstance]:
        """Those of these instances that exist; they may come with the variables of our records only."""
        return await self.query_instances({"processInstanceIds": sorted(ids)}, ()) if ids else []

    async def list_tasks_of_instances(self, instances: Sequence[ProcessInstance]) -> list[EngineTask] | None:
        """Open and closed tasks of these instances, and perhaps of others, oldest first. None if the engine can only be
        asked for those of one instance."""
        return None

    async def list_tasks_started_by(self, user: str) -> list[EngineTask]:
        """Open and closed tasks of all instances whose variable `initiator` is this user, oldest first."""
        wanted = {"processVariables": [self._match_variable("initiator", user)]}
        return await self._list(self.past_tasks, wanted, parse_task, "startTime")

    async def list_open_tasks(self, user: str = "") -> list[EngineTask]:
        """Open tasks of a user, or of all instances that have our `MARK`, oldest first."""
        marked = {self.variables_condition: [self._match_variable(MARK, WORKER)]}
        return await self._list(self.open_tasks, {"assignee": user} if user else marked, parse_task, self.created_order)

    async def list_closed_tasks(self, user: str) -> list[EngineTask]:
        return await self._list(self.past_tasks, {"taskAssignee": user, "finished": True}, parse_task, "endTime")

    async def list_activities(self, instance: str) -> list[ActivityInstance]:
        """Steps of the instance with their tasks, open and closed, oldest first."""
        return await self._list(self.past_steps, {"processInstanceId": instance}, parse_activity, "startTime")

    async def start_instance(self, definition: str, request: str, variables: Mapping[str, VariableValue]) -> str:
        """Start an instance; return its id, or empty if the answer cannot be read."""

    async def complete_task(self, item: EngineTask, variables: Mapping[str, VariableValue]) -> None: ...

    async def assign_task(self, item: EngineTask, user: str) -> None: ...

    async def set_variables(self, instance: str, variables: Mapping[str, VariableValue]) -> None: ...

    async def return_task(
        self, item: EngineTask, to: str, record: Mapping[str, VariableValue], *, is_shared: bool
    ) -> None:
        """Close the task, with all of its step if several people share it, and open the node `to`, with the record of
        it. A late return does nothing to another step, and on Camunda to another task. On Flowable it is refused only
        if `renew_task` is called before the task is completed."""

    async def renew_task(self, item: EngineTask) -> EngineTask:
        """The task to complete in place of this one, whose return was sent and may still come true. The engine then
        refuses that return: on Camunda by itself, because a return names the activity instance, which ends with the
        task. Not for a shared step, which would lose its votes."""
        return item

    async def delete_instance(self, instance: str) -> None: ...

    async def lock_external_tasks(
        self, topics: Sequence[str], instance: ProcessInstance | None = None
    ) -> list[ExternalTask]:
        """Lock waiting tasks of this instance, or of all instances that have our `MARK`, for `LOCK_S`. Tasks of others
        are left alone."""

    async def complete_external_task(self, job: ExternalTask, variables: Mapping[str, VariableValue]) -> None: ...

    def _match_variable(self, name: str, value: str) -> dict[str, str]:
        """The condition of a query that an instance has this variable."""
        return {"name": name, "value": value, **self.equals}

    @reject_unreadable
    async def _list(
        self, listing: Listing, wanted: Mapping[str, Any], parse: Callable[[dict[str, Any]], T], sort: str = ""
    ) -> list[T]:
        """The rows of up to `MAX_PAGES`, parsed, smallest first if they are sorted; a short page is the last, and a
        repeated one unreadable. Raises `ToolError` `engine_down` if all take too long."""
        rows, budget, size = list[dict[str, Any]](), ByteBudget(), min(listing.page, self._page)
        try:
            async with asyncio.timeout(self._rest.list_timeout_s):
                for _ in range(MAX_PAGES):
                    page, total = await self.read_page(listing, wanted, sort, len(rows), size, budget)
                    if not isinstance(page, list) or len(page) > size or not all(isinstance(row, dict) for row in page):
                        raise ValueError("no page of rows")
                    if page and page == rows[-len(page) :]:
                        raise ValueError("the same page again")
                    rows += page
                    if len(page) < size or len(rows) == total:
                        break
        except TimeoutError:
            raise build_engine_error("engine_down") from None
        return [parse(row) for row in rows]

    async def read_page(
        self, listing: Listing, wanted: Mapping[str, Any], sort: str, first: int, size: int, budget: ByteBudget
    ) -> tuple[Any, object]:
        """Up to `size` rows after the `first` ones, or anything else that was answered; and the number of all rows, if
        the engine says it."""
