"""Camunda 7 and Operaton, by their REST API (`…/engine-rest`).

Behaviour recorded from Camunda 7.23 and Operaton 1.0. Completing answers 204. A missing task is 404 for a read and 500
for a write (400 for Operaton's `assignee`). Lists have no total."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from tools.workflow.remote.api import (
    LOCK_S,
    MARK,
    PAGE_SIZE,
    WORKER,
    EngineApi,
    EngineName,
    EngineTask,
    ExternalTask,
    Listing,
    ProcessInstance,
    VariableValue,
    encode_variables,
    parse_task,
)
from tools.workflow.remote.rebuild import PREFIX
from tools.workflow.remote.rest_client import ByteBudget, Query, parse_id, reject_unreadable


class CamundaApi(EngineApi):
    extension_name: EngineName = "camunda"
    read_extensions = frozenset({"camunda"})
    definitions = Listing(("process-definition",), is_post=False)
    open_tasks = Listing(("task",))
    past_tasks = Listing(("history", "task"))
    past_steps = Listing(("history", "activity-instance"), is_post=False)
    past_instances = Listing(("history", "process-instance"))
    past_variables = Listing(("history", "variable-instance"))
    latest_condition = "latestVersion"
    created_order = "created"
    variables_condition = "processVariables"
    request_condition = "processInstanceBusinessKey"
    equals: Mapping[str, str] = {"operator": "eq"}

    @reject_unreadable
    async def load_definition_xml(self, definition: str) -> bytes:
        return str((await self._rest.read_json("process-definition", definition, "xml"))["bpmn20Xml"]).encode()

    async def deploy_file(self, name: str, content: bytes) -> None:
        fields = {"deployment-name": name, "deployment-source": WORKER}
        await self._rest.write_file("deployment", "create", file=name, content=content, fields=fields)

    async def query_instances(
        self, wanted: Mapping[str, Any], known: Container[str] | None = None
    ) -> list[ProcessInstance]:
        found = await super().query_instances(wanted)
        variables: dict[str, dict[str, object]] = {one.id: {} for one in found if one.id not in (known or ())}
        of_these: dict[str, Any] = {"processInstanceIdIn": list(variables)}
        if known is not None:
            of_these["variableNameLike"] = f"{PREFIX}%"
        order = "instanceId,variableName"
        for row in await self._list(self.past_variables, of_these, dict, order) if variables else ():
            if not row.get("taskId"):
                variables.get(str(row.get("processInstanceId")), {})[str(row.get("name"))] = row.get("value")
        return [one.model_copy(update={"variables": variables.get(one.id, {})}) for one in found]

    async def list_tasks_of_instances(self, instances: Sequence[ProcessInstance]) -> list[EngineTask] | None:
        wanted = {"processInstanceBusinessKeyIn": sorted({one.business_key for one in instances})}
        return await self._list(self.past_tasks, wanted, parse_task, "startTime") if instances else []

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

    async def delete_instance(self, instance: str) -> None:
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

    async def complete_external_task(self, job: ExternalTask, variables: Mapping[str, VariableValue]) -> None:
        body = {"workerId": WORKER, "variables": _encode_variables(variables)}
        await self._rest.write("POST", "external-task", job.id, "complete", body=body)

    async def read_page(
        self, listing: Listing, wanted: Mapping[str, Any], sort: str, first: int, size: int, budget: ByteBudget
    ) -> tuple[Any, object]:
        query: Query = {"firstResult": first, "maxResults": size}
        orders = [{"sortBy": name, "sortOrder": "asc"} for name in sort.split(",") if name]
        if not listing.is_post:
            query = {**wanted, **query, **dict(*orders)}
            return await self._rest.read_json(*listing.path, query=query, allowance=budget), None
        query = {**query, "deserializeValues": "false"}  # of variables; other lists ignore it
        body = {**wanted, "sorting": orders}
        return await self._rest.read_json(*listing.path, query=query, body=body, allowance=budget), None


class OperatonApi(CamundaApi):
    """Camunda's successor, whose API is that of Camunda."""

    extension_name: EngineName = "operaton"
    read_extensions = frozenset({"camunda", "operaton"})


def _encode_variables(variables: Mapping[str, VariableValue]) -> dict[str, dict[str, Any]]:
    return {row.pop("name"): row for row in encode_variables(variables)}
