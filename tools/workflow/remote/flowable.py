"""Flowable 6 and 7, by its REST API (`…/flowable-rest/service`, `…/process-api`).

Ways of it that are not in its documentation, as recorded from 6.8.1: completing answers 200 with an empty body; a task
that is gone is 404, or 500 when somebody else was completing it (the optimistic lock has no status of its own); a list
holds 10 rows unless `size` says otherwise; there is no BigDecimal. It reads the names of `camunda:`, but knows no type
`external` of a service task and refuses to deploy it (its `ServiceTaskValidator`): `deployable` writes it as it does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tools.workflow.remote.api import ENOUGH, LOCK_S, PAGE, WORKER, Instance, Item, Job, Passed, Value
from tools.workflow.remote.rest import Allowance, Missing, Rest, checked, in_time, rows_of

JOBS = "external-job-api"
"""Stands beside the process API."""


CAMUNDA = re.compile(rb'xmlns:(\w+)="http://camunda\.org/schema/1\.0/bpmn"')


def deployable(source: bytes) -> bytes:
    """The process file with its service tasks in Flowable's own words; it compiles to the same definition."""
    found = CAMUNDA.search(source)
    if found is None:
        return source
    declared = found[0] if b"xmlns:flowable=" in source else b'xmlns:flowable="http://flowable.org/bpmn" ' + found[0]
    source = source.replace(found[0], declared, 1)
    source = source.replace(found[1] + b':type="external"', b'flowable:type="external-worker"')
    return source.replace(found[1] + b":topic=", b"flowable:topic=")


class Flowable:
    """Implements `Api`."""

    name = "Flowable"
    users = re.compile(r"[A-Za-z0-9_.@-]{1,100}")

    def __init__(self, rest: Rest, page: int = PAGE) -> None:
        self._rest, self._page = rest, page

    @checked
    async def definition(self, process: str) -> str:
        query = {"key": process, "latest": "true"}
        found = await self._rest.read("repository", "process-definitions", query=query)
        return str(found["data"][0]["id"]) if found["data"] else ""

    @checked
    async def source(self, definition: str) -> bytes:
        return (await self._rest.text("repository", "process-definitions", definition, "resourcedata")).encode()

    @checked
    async def instances(self, request: str) -> list[Instance]:
        query = {"businessKey": request, "sort": "startTime", "order": "asc"}
        return [_instance(r) for r in await self._rows("history", "historic-process-instances", query=query)]

    @checked
    async def instance(self, instance: str) -> Instance | None:
        try:
            return _instance(await self._rest.read("history", "historic-process-instances", instance))
        except Missing:
            return None

    @checked
    async def begun_by(self, user: str) -> list[Instance]:
        wanted = {"name": "initiator", "operation": "equals", "type": "string", "value": user}
        body = {"variables": [wanted], "sort": "startTime", "order": "asc"}
        return [_instance(r) for r in await self._rows("query", "historic-process-instances", body=body)]

    @checked
    async def variables(self, instance: str) -> dict[str, object]:
        rows = await self._rows("history", "historic-variable-instances", query={"processInstanceId": instance})
        return {r["variable"]["name"]: r["variable"].get("value") for r in rows if not r.get("taskId")}

    @checked
    async def items(self, instance: str) -> list[Item]:
        query = {"processInstanceId": instance, "sort": "startTime", "order": "asc"}
        return [_item(r) for r in await self._rows("history", "historic-task-instances", query=query)]

    @checked
    async def open_items(self, *, user: str = "", process: str = "") -> list[Item]:
        query = {"assignee": user} if user else {"processDefinitionKey": process}
        query |= {"sort": "createTime", "order": "asc"}
        return [_item(r) for r in await self._rows("runtime", "tasks", query=query)]

    @checked
    async def closed_items(self, user: str) -> list[Item]:
        query = {"taskAssignee": user, "finished": "true", "sort": "endTime", "order": "asc"}
        return [_item(r) for r in await self._rows("history", "historic-task-instances", query=query)]

    @checked
    async def passed(self, instance: str) -> list[Passed]:
        query = {"processInstanceId": instance, "sort": "startTime", "order": "asc"}
        rows = await self._rows("history", "historic-activity-instances", query=query)
        return [Passed(id=r["activityId"], at=_moment(r["startTime"])) for r in rows]

    async def start(self, definition: str, request: str, variables: Mapping[str, Value]) -> None:
        body = {"processDefinitionId": definition, "businessKey": request, "variables": _variables(variables)}
        await self._rest.write("POST", "runtime", "process-instances", body=body)

    async def complete(self, item: Item, variables: Mapping[str, Value]) -> None:
        body = {"action": "complete", "variables": _variables(variables)}
        await self._rest.write("POST", "runtime", "tasks", item.id, body=body)

    async def assign(self, item: Item, user: str) -> None:
        await self._rest.write("PUT", "runtime", "tasks", item.id, body={"assignee": user})

    async def put(self, instance: str, variables: Mapping[str, Value]) -> None:
        await self._rest.write("PUT", "runtime", "process-instances", instance, "variables", body=_variables(variables))

    async def move(self, item: Item, to: str) -> None:
        body = {"cancelActivityIds": [item.node], "startActivityIds": [to]}
        await self._rest.write("POST", "runtime", "executions", item.execution, "change-state", body=body)

    async def remove(self, instance: str, reason: str) -> None:
        await self._rest.write("DELETE", "runtime", "process-instances", instance, query={"deleteReason": reason})

    @checked
    async def jobs(self, topics: Sequence[str]) -> list[Job]:
        found: list[Job] = []
        for topic in topics:
            body = {"topic": topic, "lockDuration": f"PT{LOCK_S}S", "numberOfTasks": PAGE, "workerId": WORKER}
            rows = await self._rest.read(JOBS, "acquire", "jobs", body=body, beside=True)
            found += [Job(id=r["id"], instance=r["processInstanceId"], node=r["elementId"], topic=topic) for r in rows]
        return found

    async def finish(self, job: Job) -> None:
        path = (JOBS, "acquire", "jobs", job.id, "complete")
        await self._rest.write("POST", *path, body={"workerId": WORKER}, beside=True)

    async def _rows(
        self, *path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Every page. Raises `ToolError`: as `Rest.read`, and `engine_down` for a list that takes too long."""
        found, allowance = list[dict[str, Any]](), Allowance()
        async with in_time(self._rest):
            for _ in range(ENOUGH):
                page = {"start": len(found), "size": self._page}
                if body is None:
                    answer = await self._rest.read(*path, query={**(query or {}), **page}, allowance=allowance)
                else:
                    answer = await self._rest.read(*path, body={**body, **page}, allowance=allowance)
                found += rows_of(answer["data"], self._page, found)
                if not answer["data"] or len(found) >= answer["total"]:
                    break
        return found


def _variables(variables: Mapping[str, Value]) -> list[dict[str, Any]]:
    """Types are said: a bare `2.0` might be taken for an integer. None has no type."""
    return [{"name": name, "value": value, **_type(value)} for name, value in variables.items()]


def _type(value: Value) -> dict[str, str]:
    return {} if value is None else {"type": "string" if isinstance(value, str) else "double"}


def _instance(row: Mapping[str, Any]) -> Instance:
    return Instance(
        id=row["id"],
        request=row.get("businessKey") or "",
        started=_moment(row["startTime"]),
        ended=_moment(row["endTime"]) if row.get("endTime") else None,
        removed=row.get("deleteReason") is not None,
    )


def _item(row: Mapping[str, Any]) -> Item:
    """An open task says `createTime`, one of the history `startTime`."""
    return Item(
        id=row["id"],
        instance=row["processInstanceId"],
        execution=row["executionId"],
        node=row["taskDefinitionKey"],
        user=row.get("assignee") or "",
        since=_moment(row.get("createTime") or row["startTime"]),
        ended=_moment(row["endTime"]) if row.get("endTime") else None,
    )


def _moment(text: str) -> datetime:
    """`2026-11-20T19:56:04.394Z`"""
    return datetime.fromisoformat(text)
