"""Camunda 7 and Operaton, by their REST API (`…/engine-rest`).

Behaviour recorded from 7.18. Completing answers 204. A missing task is 500 for every write and 404 for a read. User ids
are letters and digits only (any text may be an assignee, but not a user). Lists have no total."""

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

OLDEST = {"sortBy": "startTime", "sortOrder": "asc"}


class CamundaApi:
    """Implements `EngineApi`."""

    name = "Camunda"
    extension_name: EngineName = "camunda"
    read_extensions = frozenset({"camunda"})

    def __init__(self, rest: RestClient, page: int = PAGE_SIZE) -> None:
        self._rest, self._page = rest, page

    @reject_unreadable
    async def find_definition_id(self, process: str) -> str:
        found = await self._rest.read_json("process-definition", query={"key": process, "latestVersion": "true"})
        return str(found[0]["id"]) if found else ""

    @reject_unreadable
    async def load_definition_xml(self, definition: str) -> bytes:
        return str((await self._rest.read_json("process-definition", definition, "xml"))["bpmn20Xml"]).encode()

    async def deploy_file(self, name: str, content: bytes) -> None:
        fields = {"deployment-name": name, "deployment-source": WORKER}
        await self._rest.write_file("deployment", "create", file=name, content=content, fields=fields)

    @reject_unreadable
    async def list_instances(self, request: str) -> list[ProcessInstance]:
        query = {"processInstanceBusinessKey": request, **OLDEST}
        return [_parse_instance(r) for r in await self._fetch_all_rows("history", "process-instance", query=query)]

    @reject_unreadable
    async def find_instance(self, instance: str) -> ProcessInstance | None:
        try:
            return _parse_instance(await self._rest.read_json("history", "process-instance", instance))
        except EngineNotFoundError:
            return None

    @reject_unreadable
    async def list_instances_started_by(self, user: str) -> list[ProcessInstance]:
        wanted = {"name": "initiator", "operator": "eq", "value": user}
        body = {"variables": [wanted], "sorting": [OLDEST]}
        return [_parse_instance(r) for r in await self._fetch_all_rows("history", "process-instance", body=body)]

    @reject_unreadable
    async def load_variables(self, instance: str) -> dict[str, object]:
        query = {"processInstanceId": instance, "deserializeValues": "false"}
        rows = await self._fetch_all_rows("history", "variable-instance", query=query)
        return {r["name"]: r.get("value") for r in rows if not r.get("taskId")}

    @reject_unreadable
    async def list_tasks(self, instance: str) -> list[EngineTask]:
        rows = await self._fetch_all_rows("history", "task", query={"processInstanceId": instance, **OLDEST})
        return [_parse_task(r) for r in rows]

    @reject_unreadable
    async def list_open_tasks(self, *, user: str = "", process: str = "") -> list[EngineTask]:
        query = {"assignee": user} if user else {"processDefinitionKey": process}
        rows = await self._fetch_all_rows("task", query={**query, "sortBy": "created", "sortOrder": "asc"})
        return [_parse_task(r) for r in rows]

    @reject_unreadable
    async def list_closed_tasks(self, user: str) -> list[EngineTask]:
        query = {"taskAssignee": user, "finished": "true", "sortBy": "endTime", "sortOrder": "asc"}
        return [_parse_task(r) for r in await self._fetch_all_rows("history", "task", query=query)]

    @reject_unreadable
    async def list_activities(self, instance: str) -> list[ActivityInstance]:
        rows = await self._fetch_all_rows(
            "history", "activity-instance", query={"processInstanceId": instance, **OLDEST}
        )
        return [ActivityInstance(id=r["activityId"], at=_parse_time(r["startTime"])) for r in rows]

    async def start_instance(self, definition: str, request: str, variables: Mapping[str, VariableValue]) -> None:
        body = {"businessKey": request, "variables": _encode_variables(variables)}
        await self._rest.write("POST", "process-definition", definition, "start", body=body)

    async def complete_task(self, item: EngineTask, variables: Mapping[str, VariableValue]) -> None:
        await self._rest.write("POST", "task", item.id, "complete", body={"variables": _encode_variables(variables)})

    async def assign_task(self, item: EngineTask, user: str) -> None:
        await self._rest.write("POST", "task", item.id, "assignee", body={"userId": user})

    async def set_variables(self, instance: str, variables: Mapping[str, VariableValue]) -> None:
        body = {"modifications": _encode_variables(variables)}
        await self._rest.write("POST", "process-instance", instance, "variables", body=body)

    async def move_execution(self, item: EngineTask, to: str) -> None:
        instructions = [{"type": "startBeforeActivity", "activityId": to}, {"type": "cancel", "activityId": item.node}]
        body = {"instructions": instructions, "annotation": "return"}
        await self._rest.write("POST", "process-instance", item.instance, "modification", body=body)

    async def delete_instance(self, instance: str, reason: str) -> None:
        """Delete an instance. The API takes no reason; our record has it."""
        await self._rest.write("DELETE", "process-instance", instance)

    @reject_unreadable
    async def lock_external_tasks(self, topics: Sequence[str]) -> list[ExternalTask]:
        wanted = [{"topicName": topic, "lockDuration": LOCK_S * 1000, "variables": []} for topic in topics]
        body = {"workerId": WORKER, "maxTasks": PAGE_SIZE, "topics": wanted}
        rows = await self._rest.read_json("external-task", "fetchAndLock", body=body)
        return [
            ExternalTask(id=r["id"], instance=r["processInstanceId"], node=r["activityId"], topic=r["topicName"])
            for r in rows
        ]

    async def complete_external_task(self, job: ExternalTask) -> None:
        await self._rest.write("POST", "external-task", job.id, "complete", body={"workerId": WORKER})

    async def _fetch_all_rows(
        self, *path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """The rows of all pages; a short page is the last. Raises the errors of `RestClient.read_json`, and `ToolError`
        `engine_down` for a list that takes too long."""
        all_rows, allowance = list[dict[str, Any]](), ByteBudget()
        async with limit_list_time(self._rest):
            for _ in range(MAX_PAGES):
                page: dict[str, str | int] = {"firstResult": len(all_rows), "maxResults": self._page}
                asked = {**(query or {}), **page}
                answer = await self._rest.read_json(*path, query=asked, body=body, allowance=allowance)
                rows = parse_rows(answer, self._page, all_rows)
                all_rows += rows
                if len(rows) < self._page:
                    break
        return all_rows


class OperatonApi(CamundaApi):
    """Implements `EngineApi` for Camunda's successor, whose API is that of Camunda."""

    name = "Operaton"
    extension_name: EngineName = "operaton"
    read_extensions = frozenset({"camunda", "operaton"})


def _encode_variables(variables: Mapping[str, VariableValue]) -> dict[str, dict[str, Any]]:
    """Variables in the API's format; None has no type."""
    encoded: dict[str, dict[str, Any]] = {}
    for name, value in variables.items():
        kind = "String" if isinstance(value, str) else "Double"
        encoded[name] = {"value": value} if value is None else {"value": value, "type": kind}
    return encoded


def _parse_instance(row: Mapping[str, Any]) -> ProcessInstance:
    return ProcessInstance(
        id=row["id"],
        business_key=row.get("businessKey") or "",
        started=_parse_time(row["startTime"]),
        ended=_parse_time(row["endTime"]) if row.get("endTime") else None,
        is_deleted=row["state"] in ("EXTERNALLY_TERMINATED", "INTERNALLY_TERMINATED"),
    )


def _parse_task(row: Mapping[str, Any]) -> EngineTask:
    """Parse a task: an open task has `created`, a task of the history `startTime`."""
    return EngineTask(
        id=row["id"],
        instance=row["processInstanceId"],
        execution=row["executionId"] or "",
        node=row["taskDefinitionKey"],
        assignee=row.get("assignee") or "",
        since=_parse_time(row.get("created") or row["startTime"]),
        ended=_parse_time(row["endTime"]) if row.get("endTime") else None,
    )


def _parse_time(text: str) -> datetime:
    """Parse a time like `2026-11-20T20:06:52.371+0000`."""
    return datetime.fromisoformat(text)
