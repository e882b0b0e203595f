"""Camunda 7 and Operaton, by their REST API (`…/engine-rest`).

Ways of it, as recorded from 7.18: completing answers 204; a task that is gone is 500 for every write and 404 for a
read; user ids are letters and digits only (any text may be an assignee, but not a user); lists have no total.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tools.workflow.remote.api import ENOUGH, LOCK_S, PAGE, WORKER, Instance, Item, Job, Passed, Value
from tools.workflow.remote.rest import Allowance, Missing, Rest, checked, in_time, rows_of

OLDEST = {"sortBy": "startTime", "sortOrder": "asc"}


class Camunda:
    """Implements `Api`."""

    name = "Camunda"
    users = re.compile(r"[a-zA-Z0-9]+|camunda-admin")

    def __init__(self, rest: Rest, page: int = PAGE) -> None:
        self._rest, self._page = rest, page

    @checked
    async def definition(self, process: str) -> str:
        found = await self._rest.read("process-definition", query={"key": process, "latestVersion": "true"})
        return str(found[0]["id"]) if found else ""

    @checked
    async def source(self, definition: str) -> bytes:
        return str((await self._rest.read("process-definition", definition, "xml"))["bpmn20Xml"]).encode()

    @checked
    async def instances(self, request: str) -> list[Instance]:
        query = {"processInstanceBusinessKey": request, **OLDEST}
        return [_instance(r) for r in await self._rows("history", "process-instance", query=query)]

    @checked
    async def instance(self, instance: str) -> Instance | None:
        try:
            return _instance(await self._rest.read("history", "process-instance", instance))
        except Missing:
            return None

    @checked
    async def begun_by(self, user: str) -> list[Instance]:
        wanted = {"name": "initiator", "operator": "eq", "value": user}
        body = {"variables": [wanted], "sorting": [OLDEST]}
        return [_instance(r) for r in await self._rows("history", "process-instance", body=body)]

    @checked
    async def variables(self, instance: str) -> dict[str, object]:
        query = {"processInstanceId": instance, "deserializeValues": "false"}
        rows = await self._rows("history", "variable-instance", query=query)
        return {r["name"]: r.get("value") for r in rows if not r.get("taskId")}

    @checked
    async def items(self, instance: str) -> list[Item]:
        rows = await self._rows("history", "task", query={"processInstanceId": instance, **OLDEST})
        return [_item(r) for r in rows]

    @checked
    async def open_items(self, *, user: str = "", process: str = "") -> list[Item]:
        query = {"assignee": user} if user else {"processDefinitionKey": process}
        rows = await self._rows("task", query={**query, "sortBy": "created", "sortOrder": "asc"})
        return [_item(r) for r in rows]

    @checked
    async def closed_items(self, user: str) -> list[Item]:
        query = {"taskAssignee": user, "finished": "true", "sortBy": "endTime", "sortOrder": "asc"}
        return [_item(r) for r in await self._rows("history", "task", query=query)]

    @checked
    async def passed(self, instance: str) -> list[Passed]:
        rows = await self._rows("history", "activity-instance", query={"processInstanceId": instance, **OLDEST})
        return [Passed(id=r["activityId"], at=_moment(r["startTime"])) for r in rows]

    async def start(self, definition: str, request: str, variables: Mapping[str, Value]) -> None:
        body = {"businessKey": request, "variables": _variables(variables)}
        await self._rest.write("POST", "process-definition", definition, "start", body=body)

    async def complete(self, item: Item, variables: Mapping[str, Value]) -> None:
        await self._rest.write("POST", "task", item.id, "complete", body={"variables": _variables(variables)})

    async def assign(self, item: Item, user: str) -> None:
        await self._rest.write("POST", "task", item.id, "assignee", body={"userId": user})

    async def put(self, instance: str, variables: Mapping[str, Value]) -> None:
        body = {"modifications": _variables(variables)}
        await self._rest.write("POST", "process-instance", instance, "variables", body=body)

    async def move(self, item: Item, to: str) -> None:
        instructions = [
            {"type": "startBeforeActivity", "activityId": to},
            {"type": "cancel", "activityId": item.node},
        ]
        body = {"instructions": instructions, "annotation": "return"}
        await self._rest.write("POST", "process-instance", item.instance, "modification", body=body)

    async def remove(self, instance: str, reason: str) -> None:
        """It has no place for a reason; our record says it."""
        await self._rest.write("DELETE", "process-instance", instance)

    @checked
    async def jobs(self, topics: Sequence[str]) -> list[Job]:
        wanted = [{"topicName": topic, "lockDuration": LOCK_S * 1000, "variables": []} for topic in topics]
        body = {"workerId": WORKER, "maxTasks": PAGE, "topics": wanted}
        rows = await self._rest.read("external-task", "fetchAndLock", body=body)
        return [
            Job(id=r["id"], instance=r["processInstanceId"], node=r["activityId"], topic=r["topicName"]) for r in rows
        ]

    async def finish(self, job: Job) -> None:
        await self._rest.write("POST", "external-task", job.id, "complete", body={"workerId": WORKER})

    async def _rows(
        self, *path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Every page: a short one is the last. Raises `ToolError`: as `Rest.read`, and `engine_down` for a list that
        takes too long."""
        found, allowance = list[dict[str, Any]](), Allowance()
        async with in_time(self._rest):
            for _ in range(ENOUGH):
                page: dict[str, str | int] = {"firstResult": len(found), "maxResults": self._page}
                asked = {**(query or {}), **page}
                answer = await self._rest.read(*path, query=asked, body=body, allowance=allowance)
                rows = rows_of(answer, self._page, found)
                found += rows
                if len(rows) < self._page:
                    break
        return found


def _variables(variables: Mapping[str, Value]) -> dict[str, dict[str, Any]]:
    """None has no type."""
    return {name: {"value": value, **_type(value)} for name, value in variables.items()}


def _type(value: Value) -> dict[str, str]:
    return {} if value is None else {"type": "String" if isinstance(value, str) else "Double"}


def _instance(row: Mapping[str, Any]) -> Instance:
    return Instance(
        id=row["id"],
        request=row.get("businessKey") or "",
        started=_moment(row["startTime"]),
        ended=_moment(row["endTime"]) if row.get("endTime") else None,
        removed=row["state"] in ("EXTERNALLY_TERMINATED", "INTERNALLY_TERMINATED"),
    )


def _item(row: Mapping[str, Any]) -> Item:
    """An open task says `created`, one of the history `startTime`."""
    return Item(
        id=row["id"],
        instance=row["processInstanceId"],
        execution=row["executionId"] or "",
        node=row["taskDefinitionKey"],
        user=row.get("assignee") or "",
        since=_moment(row.get("created") or row["startTime"]),
        ended=_moment(row["endTime"]) if row.get("endTime") else None,
    )


def _moment(text: str) -> datetime:
    """`2026-11-20T20:06:52.371+0000`"""
    return datetime.fromisoformat(text)
