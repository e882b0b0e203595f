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
    MAX_PAGES,
    PAGE_SIZE,
    WORKER,
    ActivityInstance,
    EngineTask,
    ExternalTask,
    ProcessInstance,
    VariableValue,
)
from tools.workflow.remote.extension_names import EngineName
from tools.workflow.remote.rest_client import (
    ByteBudget,
    EngineNotFoundError,
    RestClient,
    limit_list_time,
    parse_id,
    parse_rows,
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

    name = "Flowable"
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
        return [_parse_instance(r) for r in rows]

    async def _list_past_tasks(self, body: Mapping[str, Any]) -> list[EngineTask]:
        return [_parse_task(r) for r in await self._fetch_all_rows("query", "historic-task-instances", body=body)]

    @reject_unreadable
    async def list_open_tasks(self, *, user: str = "", process: str = "") -> list[EngineTask]:
        query = {"assignee": user} if user else {"processDefinitionKey": process}
        query |= {"sort": "createTime", "order": "asc"}
        return [_parse_task(r) for r in await self._fetch_all_rows("runtime", "tasks", query=query)]

    @reject_unreadable
    async def list_closed_tasks(self, user: str) -> list[EngineTask]:
        return await self._list_past_tasks({"taskAssignee": user, "finished": True, "sort": "endTime", "order": "asc"})

    @reject_unreadable
    async def list_activities(self, instance: str) -> list[ActivityInstance]:
        query = {"processInstanceId": instance, "sort": "startTime", "order": "asc"}
        rows = await self._fetch_all_rows("history", "historic-activity-instances", query=query)
        return [
            ActivityInstance(id=r["activityId"], at=r["startTime"], task=_parse_task(r) if r.get("taskId") else None)
            for r in rows
        ]

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
        execution = await self._find_step_execution(item) if is_shared else item.execution
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

    @reject_unreadable
    async def _find_step_execution(self, item: EngineTask) -> str:
        """The execution above those of several people. Each of theirs stays until the step ends, whether they have
        voted or not."""
        try:
            return str((await self._rest.read_json("runtime", "executions", item.execution))["parentId"])
        except EngineNotFoundError:  # the step has ended, and so the write will be refused
            return item.execution

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
        """The rows of all pages. `page`: rows of a page, if they are longer than others. Raises the errors of
        `RestClient.read_json`, and `ToolError` `engine_down` for a list that takes too long."""
        rows, allowance = list[dict[str, Any]](), ByteBudget()
        async with limit_list_time(self._rest):
            for _ in range(MAX_PAGES):
                limits = {"start": len(rows), "size": page or self._page}
                answer = await self._rest.read_json(
                    *path,
                    query={**(query or {}), **limits} if body is None else None,
                    body=None if body is None else {**body, **limits},
                    is_sibling=is_sibling,
                    allowance=allowance,
                )
                rows += parse_rows(answer["data"], page or self._page, rows)
                if not answer["data"] or len(rows) >= answer["total"]:
                    break
        return rows


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


def _parse_instance(row: Mapping[str, Any]) -> ProcessInstance:
    return ProcessInstance(
        id=row["id"],
        business_key=row.get("businessKey") or "",
        started=row["startTime"],
        ended=row.get("endTime"),
        is_deleted=row.get("deleteReason") is not None,
        variables={v["name"]: v.get("value") for v in row["variables"]},
    )


def _parse_task(row: Mapping[str, Any]) -> EngineTask:
    """Parse a task: an open task has `createTime`, a task of the history `startTime`, a step of the history
    `taskId`."""
    is_step = "taskId" in row
    return EngineTask(
        id=row["taskId" if is_step else "id"],
        instance=row["processInstanceId"],
        execution=row["executionId"],
        node=row["activityId" if is_step else "taskDefinitionKey"],
        assignee=row.get("assignee") or "",
        since=row.get("createTime") or row["startTime"],
        ended=row.get("endTime"),
    )
