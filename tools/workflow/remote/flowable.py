"""Flowable 7, by its REST API (`…/flowable-rest/service`, `…/process-api`).

Undocumented behaviour recorded from 7.1. Completing answers 200 with an empty body. A missing task is 404, or 500 if
somebody else was just completing it (the optimistic lock has no status of its own), a missing execution 500. A list has
10 rows unless `size` says otherwise. BigDecimal is missing. After a service task, an instance goes on by a job of the
engine. Consecutive tasks have one execution."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tools.workflow.remote.api import (
    LOCK_S,
    MARK,
    PAGE_SIZE,
    WORKER,
    ActivityInstance,
    EngineTask,
    ExternalTask,
    ProcessInstance,
    VariableValue,
    parse_activity,
    parse_instance,
    parse_task,
)
from tools.workflow.remote.extension_names import EngineName
from tools.workflow.remote.rest_client import (
    ByteBudget,
    RestClient,
    parse_id,
    read_all_pages,
    reject_unreadable,
)

OLDEST = {"sort": "startTime", "order": "asc"}
WHOLE_PAGE_SIZE = 50
"""Instances requested at once, with their variables: a long form and its record have some thirty thousand bytes."""
MAX_LOCKED = 10
"""Service tasks locked at once, so that several of our processes share them."""
JOBS = "external-job-api"
"""Path of a sibling of the process API."""


class FlowableApi:
    """Implements `EngineApi`."""

    extension_name: EngineName = "flowable"
    read_extensions = frozenset({"flowable", "activiti", "camunda"})

    def __init__(self, rest: RestClient, page: int = PAGE_SIZE) -> None:
        self._rest, self._page = rest, page

    @reject_unreadable
    async def find_definition_id(self, process: str) -> str:
        query = {"key": process, "latest": "true"}
        found = await self._rest.read_json("repository", "process-definitions", query=query)
        return str(found["data"][0]["id"]) if found["data"] else ""

    @reject_unreadable
    async def load_definition_xml(self, definition: str) -> bytes:
        return (await self._rest.read_text("repository", "process-definitions", definition, "resourcedata")).encode()

    async def deploy_file(self, name: str, content: bytes) -> None:
        await self._rest.write_file("repository", "deployments", file=name, content=content, fields={})

    @reject_unreadable
    async def list_instances(self, request: str) -> list[ProcessInstance]:
        return await self._list_past_instances({"processBusinessKey": request})

    @reject_unreadable
    async def find_instance(self, instance: str) -> ProcessInstance | None:
        return next(iter(await self._list_past_instances({"processInstanceId": instance})), None)

    @reject_unreadable
    async def list_instances_started_by(self, user: str) -> list[ProcessInstance]:
        return await self._list_past_instances({"variables": [_match_variable("initiator", user)]})

    async def load_variables(self, instances: Sequence[ProcessInstance]) -> dict[str, Mapping[str, object]]:
        """The variables that came with the instances."""
        return {instance.id: instance.variables or {} for instance in instances}

    @reject_unreadable
    async def list_tasks_started_by(self, user: str) -> list[EngineTask]:
        return await self._list_past_tasks({"processVariables": [_match_variable("initiator", user)], **OLDEST})

    async def _list_past_instances(self, body: Mapping[str, Any]) -> list[ProcessInstance]:
        wanted = {"includeProcessVariables": True, **OLDEST, **body}
        page = min(self._page, WHOLE_PAGE_SIZE)
        rows = await self._fetch_all_rows("query", "historic-process-instances", body=wanted, page=page)
        return [parse_instance(r) for r in rows]

    async def _list_past_tasks(self, body: Mapping[str, Any]) -> list[EngineTask]:
        return [parse_task(r) for r in await self._fetch_all_rows("query", "historic-task-instances", body=body)]

    @reject_unreadable
    async def list_open_tasks(self, *, user: str = "", process: str = "") -> list[EngineTask]:
        query = {"assignee": user} if user else {"processDefinitionKey": process}
        query |= {"sort": "createTime", "order": "asc"}
        return [parse_task(r) for r in await self._fetch_all_rows("runtime", "tasks", query=query)]

    @reject_unreadable
    async def list_closed_tasks(self, user: str) -> list[EngineTask]:
        return await self._list_past_tasks({"taskAssignee": user, "finished": True, "sort": "endTime", "order": "asc"})

    @reject_unreadable
    async def list_activities(self, instance: str) -> list[ActivityInstance]:
        query = {"processInstanceId": instance, "sort": "startTime", "order": "asc"}
        rows = await self._fetch_all_rows("history", "historic-activity-instances", query=query)
        return [parse_activity(r) for r in rows]

    async def start_instance(self, definition: str, request: str, variables: Mapping[str, VariableValue]) -> str:
        body = {"processDefinitionId": definition, "businessKey": request, "variables": _encode_variables(variables)}
        return parse_id(await self._rest.write("POST", "runtime", "process-instances", body=body))

    async def complete_task(self, item: EngineTask, variables: Mapping[str, VariableValue]) -> None:
        body = {"action": "complete", "variables": _encode_variables(variables)}
        await self._rest.write("POST", "runtime", "tasks", item.id, body=body)

    async def assign_task(self, item: EngineTask, user: str) -> None:
        await self._rest.write("PUT", "runtime", "tasks", item.id, body={"assignee": user})

    async def set_variables(self, instance: str, variables: Mapping[str, VariableValue]) -> None:
        await self._rest.write(
            "PUT", "runtime", "process-instances", instance, "variables", body=_encode_variables(variables)
        )

    async def return_task(
        self, item: EngineTask, to: str, record: Mapping[str, VariableValue], *, is_shared: bool
    ) -> None:
        execution, query = item.execution, {"processInstanceId": item.instance}
        for row in await self._fetch_all_rows("runtime", "executions", query=query) if is_shared else ():
            if row.get("id") == item.execution:  # it stays until its step ends, voted or not; the one above is the step
                execution = str(row.get("parentId"))
        await self.set_variables(item.instance, record)
        await self._move_execution(execution, item.node, to)

    async def renew_task(self, item: EngineTask) -> EngineTask:
        """Move the execution to its own node, which gives the node another execution and another task. The execution
        that the late return names is gone then."""
        await self._move_execution(item.execution, item.node, item.node)
        steps = await self.list_activities(item.instance)
        (task,) = (s.task for s in steps if s.task and s.id == item.node and not s.task.ended)
        if task.assignee != item.assignee:
            await self.assign_task(task, item.assignee)
        return task

    async def _move_execution(self, execution: str, node: str, to: str) -> None:
        body = {"cancelActivityIds": [node], "startActivityIds": [to]}
        await self._rest.write("POST", "runtime", "executions", execution, "change-state", body=body)

    async def delete_instance(self, instance: str, reason: str) -> None:
        await self._rest.write("DELETE", "runtime", "process-instances", instance, query={"deleteReason": reason})

    @reject_unreadable
    async def lock_external_tasks(
        self, topics: Sequence[str], instance: ProcessInstance | None = None
    ) -> list[ExternalTask]:
        """Tasks can be locked by topic only. None is locked while none of ours is waiting; then those of others are
        released at once, and those of our other instances are ours to complete, too."""
        query = {"unlocked": "true", **({"processInstanceId": instance.id} if instance else {})}
        rows = await self._fetch_all_rows(JOBS, "jobs", query=query, is_sibling=True)
        waiting = {row["processInstanceId"] for row in rows}
        if not instance:
            waiting = await self._select_marked(waiting)
        locked: list[ExternalTask] = []
        for topic in topics if waiting else ():
            wanted = {"topic": topic, "lockDuration": f"PT{LOCK_S}S", "numberOfTasks": MAX_LOCKED, "workerId": WORKER}
            rows = await self._rest.read_json(JOBS, "acquire", "jobs", body=wanted, is_sibling=True)
            locked += [
                ExternalTask(id=r["id"], instance=r["processInstanceId"], node=r["elementId"], topic=topic)
                for r in rows
            ]
        ours = await self._select_marked({task.instance for task in locked})
        for task in locked:
            if task.instance not in ours:
                path = (JOBS, "unacquire", "jobs", task.id)
                await self._rest.write("POST", *path, body={"workerId": WORKER}, is_sibling=True)
        return [task for task in locked if task.instance in ours]

    async def _select_marked(self, instances: Collection[str]) -> set[str]:
        """Those running instances that have our mark."""
        body = {"processInstanceIds": sorted(instances), "variables": [_match_variable(MARK, WORKER)]}
        rows = await self._fetch_all_rows("query", "process-instances", body=body) if instances else []
        return {row["id"] for row in rows}

    async def complete_external_task(self, job: ExternalTask) -> None:
        path = (JOBS, "acquire", "jobs", job.id, "complete")
        await self._rest.write("POST", *path, body={"workerId": WORKER}, is_sibling=True)

    async def _fetch_all_rows(
        self,
        *path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        is_sibling: bool = False,
        page: int = 0,
    ) -> list[dict[str, Any]]:
        """The rows of all pages. `page`: rows of a page, if they are longer than others."""

        async def read_page(first: int, budget: ByteBudget) -> Any:
            asked = {**(body or query or {}), "start": first, "size": page or self._page}
            words = {"query": asked} if body is None else {"body": asked}
            answer = await self._rest.read_json(*path, **words, is_sibling=is_sibling, allowance=budget)
            return answer["data"]

        return await read_all_pages(self._rest, read_page, page or self._page)


def _encode_variables(variables: Mapping[str, VariableValue]) -> list[dict[str, Any]]:
    """Variables with explicit types, because a bare `2.0` might be read as an integer; None has no type."""
    encoded: list[dict[str, Any]] = []
    for name, value in variables.items():
        kind = "string" if isinstance(value, str) else "double"
        encoded.append({"name": name, "value": value} | ({} if value is None else {"type": kind}))
    return encoded


def _match_variable(name: str, value: str) -> dict[str, str]:
    """The condition of a query that an instance has this variable."""
    return {"name": name, "operation": "equals", "type": "string", "value": value}
