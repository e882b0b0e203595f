"""The interface that all remote engines share; `flowable` and `camunda` translate it to the API of each engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Protocol, TypeAlias

from pydantic import Field

from tools.spec import FrozenModel
from tools.workflow.remote.extension_names import EngineName

VariableValue: TypeAlias = str | float | None
PAGE_SIZE = 500
"""Rows requested at once. By default Flowable returns 10, Camunda everything."""
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
    variables: Mapping[str, object] | None = None
    """None if the engine lists instances without them (`EngineApi.load_variables`)."""


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
        variables={v["name"]: v.get("value") for v in row["variables"]} if "variables" in row else None,
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


class EngineApi(Protocol):
    """The API of an engine. Reads raise `ToolError`; writes raise the errors of `RestClient.write`. Lists are complete,
    whatever the page size."""

    extension_name: EngineName
    """The engine in whose namespace process files for it have their attributes."""
    read_extensions: frozenset[str]
    """The engines in whose namespaces this one reads attributes (`extension_names`). All others are ignored."""

    async def find_definition_id(self, process: str) -> str:
        """Id of the newest definition with this key, or empty."""

    async def load_definition_xml(self, definition: str) -> bytes:
        """The file that was deployed."""

    async def deploy_file(self, name: str, content: bytes) -> None:
        """Deploy a process file under this name; the newest file with its key counts from then on."""

    async def list_instances(self, request: str) -> list[ProcessInstance]:
        """Instances with this business key, oldest first. Neither engine enforces uniqueness."""

    async def find_instance(self, instance: str) -> ProcessInstance | None: ...

    async def list_instances_started_by(self, user: str) -> list[ProcessInstance]:
        """Instances whose variable `initiator` is this user. (The engine's own start user is our service account.)"""

    async def load_variables(self, instances: Sequence[ProcessInstance]) -> dict[str, Mapping[str, object]]:
        """Id of an instance → its variables."""

    async def list_tasks_started_by(self, user: str) -> list[EngineTask]:
        """Open and closed tasks of all instances whose variable `initiator` is this user, oldest first."""

    async def list_open_tasks(self, *, user: str = "", process: str = "") -> list[EngineTask]: ...

    async def list_closed_tasks(self, user: str) -> list[EngineTask]: ...

    async def list_activities(self, instance: str) -> list[ActivityInstance]:
        """Steps of the instance with their tasks, open and closed, oldest first."""

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
        refuses that return. Not for a shared step, which would lose its votes."""

    async def delete_instance(self, instance: str, reason: str) -> None: ...

    async def lock_external_tasks(
        self, topics: Sequence[str], instance: ProcessInstance | None = None
    ) -> list[ExternalTask]:
        """Lock waiting tasks of this instance, or of all instances that have our `MARK`, for `LOCK_S`. Tasks of others
        are left alone."""

    async def complete_external_task(self, job: ExternalTask) -> None: ...
