"""Flowable 6 and 7, by its REST API (`…/flowable-rest/service`, `…/process-api`).

Undocumented behaviour recorded from 6.8.1. Completing answers 200 with an empty body. A missing task is 404, or 500 if
somebody else was just completing it (the optimistic lock has no status of its own). A list has 10 rows unless `size`
says otherwise. BigDecimal is missing. Versions before 6.8 do not read attributes in the name of `camunda:`. No version
has the type `external` for a service task. Files are therefore deployed as `extension_names` writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tools.workflow.remote.api import (
    LOCK_S,
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
    parse_rows,
    reject_unreadable,
)

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
        query = {"businessKey": request, "sort": "startTime", "order": "asc"}
        return [
            _parse_instance(r) for r in await self._fetch_all_rows("history", "historic-process-instances", query=query)
        ]

    @reject_unreadable
    async def find_instance(self, instance: str) -> ProcessInstance | None:
        try:
            return _parse_instance(await self._rest.read_json("history", "historic-process-instances", instance))
        except EngineNotFoundError:
            return None

    @reject_unreadable
    async def list_instances_started_by(self, user: str) -> list[ProcessInstance]:
        wanted = {"name": "initiator", "operation": "equals", "type": "string", "value": user}
        body = {"variables": [wanted], "sort": "startTime", "order": "asc"}
        return [
            _parse_instance(r) for r in await self._fetch_all_rows("query", "historic-process-instances", body=body)
        ]

    @reject_unreadable
    async def load_variables(self, instance: str) -> dict[str, object]:
        rows = await self._fetch_all_rows(
            "history", "historic-variable-instances", query={"processInstanceId": instance}
        )
        return {r["variable"]["name"]: r["variable"].get("value") for r in rows if not r.get("taskId")}

    @reject_unreadable
    async def list_tasks(self, instance: str) -> list[EngineTask]:
        query = {"processInstanceId": instance, "sort": "startTime", "order": "asc"}
        return [_parse_task(r) for r in await self._fetch_all_rows("history", "historic-task-instances", query=query)]

    @reject_unreadable
    async def list_open_tasks(self, *, user: str = "", process: str = "") -> list[EngineTask]:
        query = {"assignee": user} if user else {"processDefinitionKey": process}
        query |= {"sort": "createTime", "order": "asc"}
        return [_parse_task(r) for r in await self._fetch_all_rows("runtime", "tasks", query=query)]

    @reject_unreadable
    async def list_closed_tasks(self, user: str) -> list[EngineTask]:
        query = {"taskAssignee": user, "finished": "true", "sort": "endTime", "order": "asc"}
        return [_parse_task(r) for r in await self._fetch_all_rows("history", "historic-task-instances", query=query)]

    @reject_unreadable
    async def list_activities(self, instance: str) -> list[ActivityInstance]:
        query = {"processInstanceId": instance, "sort": "startTime", "order": "asc"}
        rows = await self._fetch_all_rows("history", "historic-activity-instances", query=query)
        return [ActivityInstance(id=r["activityId"], at=_parse_time(r["startTime"])) for r in rows]

    async def start_instance(self, definition: str, request: str, variables: Mapping[str, VariableValue]) -> None:
        body = {"processDefinitionId": definition, "businessKey": request, "variables": _encode_variables(variables)}
        await self._rest.write("POST", "runtime", "process-instances", body=body)

    async def complete_task(self, item: EngineTask, variables: Mapping[str, VariableValue]) -> None:
        body = {"action": "complete", "variables": _encode_variables(variables)}
        await self._rest.write("POST", "runtime", "tasks", item.id, body=body)

    async def assign_task(self, item: EngineTask, user: str) -> None:
        await self._rest.write("PUT", "runtime", "tasks", item.id, body={"assignee": user})

    async def set_variables(self, instance: str, variables: Mapping[str, VariableValue]) -> None:
        await self._rest.write(
            "PUT", "runtime", "process-instances", instance, "variables", body=_encode_variables(variables)
        )

    async def move_execution(self, item: EngineTask, to: str) -> None:
        body = {"cancelActivityIds": [item.node], "startActivityIds": [to]}
        await self._rest.write("POST", "runtime", "executions", item.execution, "change-state", body=body)

    async def delete_instance(self, instance: str, reason: str) -> None:
        await self._rest.write("DELETE", "runtime", "process-instances", instance, query={"deleteReason": reason})

    @reject_unreadable
    async def lock_external_tasks(self, topics: Sequence[str]) -> list[ExternalTask]:
        tasks: list[ExternalTask] = []
        for topic in topics:
            body = {"topic": topic, "lockDuration": f"PT{LOCK_S}S", "numberOfTasks": PAGE_SIZE, "workerId": WORKER}
            rows = await self._rest.read_json(JOBS, "acquire", "jobs", body=body, is_sibling=True)
            tasks += [
                ExternalTask(id=r["id"], instance=r["processInstanceId"], node=r["elementId"], topic=topic)
                for r in rows
            ]
        return tasks

    async def complete_external_task(self, job: ExternalTask) -> None:
        path = (JOBS, "acquire", "jobs", job.id, "complete")
        await self._rest.write("POST", *path, body={"workerId": WORKER}, is_sibling=True)

    async def _fetch_all_rows(
        self, *path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The rows of all pages. Raises the errors of `RestClient.read_json`, and `ToolError` `engine_down` for a list
        that takes too long."""
        rows, allowance = list[dict[str, Any]](), ByteBudget()
        async with limit_list_time(self._rest):
            for _ in range(MAX_PAGES):
                page = {"start": len(rows), "size": self._page}
                if body is None:
                    answer = await self._rest.read_json(*path, query={**(query or {}), **page}, allowance=allowance)
                else:
                    answer = await self._rest.read_json(*path, body={**body, **page}, allowance=allowance)
                rows += parse_rows(answer["data"], self._page, rows)
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


def _parse_instance(row: Mapping[str, Any]) -> ProcessInstance:
    return ProcessInstance(
        id=row["id"],
        business_key=row.get("businessKey") or "",
        started=_parse_time(row["startTime"]),
        ended=_parse_time(row["endTime"]) if row.get("endTime") else None,
        is_deleted=row.get("deleteReason") is not None,
    )


def _parse_task(row: Mapping[str, Any]) -> EngineTask:
    """Parse a task: an open task has `createTime`, a task of the history `startTime`."""
    return EngineTask(
        id=row["id"],
        instance=row["processInstanceId"],
        execution=row["executionId"],
        node=row["taskDefinitionKey"],
        assignee=row.get("assignee") or "",
        since=_parse_time(row.get("createTime") or row["startTime"]),
        ended=_parse_time(row["endTime"]) if row.get("endTime") else None,
    )


def _parse_time(text: str) -> datetime:
    """Parse a time like `2026-11-20T19:56:04.394Z`."""
    return datetime.fromisoformat(text)
