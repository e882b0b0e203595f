"""Camunda 7 and Operaton, by their REST API (`…/engine-rest`).

Behaviour recorded from Camunda 7.23 and Operaton 1.0. Completing answers 204. A missing task is 404 for a read and 500
for a write (400 for Operaton's `assignee`). Lists have no total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    EngineNotFoundError,
    Query,
    RestClient,
    parse_id,
    read_all_pages,
    reject_unreadable,
)

OLDEST = {"sortBy": "startTime", "sortOrder": "asc"}


class CamundaApi:
    """Implements `EngineApi`."""

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
        return [parse_instance(r) for r in await self._fetch_all_rows("history", "process-instance", query=query)]

    @reject_unreadable
    async def find_instance(self, instance: str) -> ProcessInstance | None:
        try:
            return parse_instance(await self._rest.read_json("history", "process-instance", instance))
        except EngineNotFoundError:
            return None

    @reject_unreadable
    async def list_instances_started_by(self, user: str) -> list[ProcessInstance]:
        wanted = {"name": "initiator", "operator": "eq", "value": user}
        body = {"variables": [wanted], "sorting": [OLDEST]}
        return [parse_instance(r) for r in await self._fetch_all_rows("history", "process-instance", body=body)]

    @reject_unreadable
    async def load_variables(self, instances: Sequence[ProcessInstance]) -> dict[str, Mapping[str, object]]:
        variables: dict[str, dict[str, object]] = {instance.id: {} for instance in instances}
        query, body = {"deserializeValues": "false"}, {"processInstanceIdIn": list(variables)}
        rows = await self._fetch_all_rows("history", "variable-instance", query=query, body=body) if instances else []
        for row in rows:
            if not row.get("taskId"):
                variables[row["processInstanceId"]][row["name"]] = row.get("value")
        return dict(variables)

    @reject_unreadable
    async def list_tasks_started_by(self, user: str) -> list[EngineTask]:
        wanted = {"name": "initiator", "operator": "eq", "value": user}
        return await self._list_past_tasks({"processVariables": [wanted], "sorting": [OLDEST]})

    async def _list_past_tasks(self, body: Mapping[str, Any]) -> list[EngineTask]:
        return [parse_task(r) for r in await self._fetch_all_rows("history", "task", body=body)]

    @reject_unreadable
    async def list_open_tasks(self, *, user: str = "", process: str = "") -> list[EngineTask]:
        query = {"assignee": user} if user else {"processDefinitionKey": process}
        rows = await self._fetch_all_rows("task", query={**query, "sortBy": "created", "sortOrder": "asc"})
        return [parse_task(r) for r in rows]

    @reject_unreadable
    async def list_closed_tasks(self, user: str) -> list[EngineTask]:
        sorting = [{"sortBy": "endTime", "sortOrder": "asc"}]
        return await self._list_past_tasks({"taskAssignee": user, "finished": True, "sorting": sorting})

    @reject_unreadable
    async def list_activities(self, instance: str) -> list[ActivityInstance]:
        rows = await self._fetch_all_rows(
            "history", "activity-instance", query={"processInstanceId": instance, **OLDEST}
        )
        return [parse_activity(r) for r in rows]

    async def start_instance(self, definition: str, request: str, variables: Mapping[str, VariableValue]) -> str:
        body = {"businessKey": request, "variables": _encode_variables(variables)}
        return parse_id(await self._rest.write("POST", "process-definition", definition, "start", body=body))

    async def complete_task(self, item: EngineTask, variables: Mapping[str, VariableValue]) -> None:
        await self._rest.write("POST", "task", item.id, "complete", body={"variables": _encode_variables(variables)})

    async def assign_task(self, item: EngineTask, user: str) -> None:
        await self._rest.write("POST", "task", item.id, "assignee", body={"userId": user})

    async def set_variables(self, instance: str, variables: Mapping[str, VariableValue]) -> None:
        body = {"modifications": _encode_variables(variables)}
        await self._rest.write("POST", "process-instance", instance, "variables", body=body)

    async def return_task(
        self, item: EngineTask, to: str, record: Mapping[str, VariableValue], *, is_shared: bool
    ) -> None:
        begin = {"type": "startBeforeActivity", "activityId": to, "variables": _encode_variables(record)}
        end = {"type": "cancel", "activityInstanceId": item.activity}
        others = [{"type": "cancel", "activityId": f"{item.node}#multiInstanceBody"}] if is_shared else []
        body = {"instructions": [begin, end, *others], "annotation": "return"}
        await self._rest.write("POST", "process-instance", item.instance, "modification", body=body)

    async def renew_task(self, item: EngineTask) -> EngineTask:
        """The task itself: a return names the activity instance, which ends with the task."""
        return item

    async def delete_instance(self, instance: str, reason: str) -> None:
        """Delete an instance. The API takes no reason; our record has it."""
        await self._rest.write("DELETE", "process-instance", instance)

    @reject_unreadable
    async def lock_external_tasks(
        self, topics: Sequence[str], instance: ProcessInstance | None = None
    ) -> list[ExternalTask]:
        wanted = {"lockDuration": LOCK_S * 1000, "variables": [], "processVariables": {MARK: WORKER}}
        if instance:  # there is no filter by instance
            wanted["businessKey"] = instance.business_key
        body = {"workerId": WORKER, "maxTasks": PAGE_SIZE, "topics": [{"topicName": t, **wanted} for t in topics]}
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
        async def read_page(first: int, budget: ByteBudget) -> Any:
            asked: Query = {**(query or {}), "firstResult": first, "maxResults": self._page}
            return await self._rest.read_json(*path, query=asked, body=body, allowance=budget)

        return await read_all_pages(self._rest, read_page, self._page)


class OperatonApi(CamundaApi):
    """Implements `EngineApi` for Camunda's successor, whose API is that of Camunda."""

    extension_name: EngineName = "operaton"
    read_extensions = frozenset({"camunda", "operaton"})


def _encode_variables(variables: Mapping[str, VariableValue]) -> dict[str, dict[str, Any]]:
    """Variables in the API's format; None has no type."""
    encoded: dict[str, dict[str, Any]] = {}
    for name, value in variables.items():
        kind = "String" if isinstance(value, str) else "Double"
        encoded[name] = {"value": value} if value is None else {"value": value, "type": kind}
    return encoded
