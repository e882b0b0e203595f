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
    WORKER,
    EngineApi,
    EngineName,
    EngineTask,
    ExternalTask,
    Listing,
    ProcessInstance,
    VariableValue,
    encode_variables,
)
from tools.workflow.remote.rest_client import SIBLING, ByteBudget, parse_id, reject_unreadable

MAX_LOCKED = 10
"""Service tasks locked at once, so that several of our processes share them."""
JOBS = (SIBLING, "external-job-api")


class FlowableApi(EngineApi):
    extension_name: EngineName = "flowable"
    read_extensions = frozenset({"flowable", "activiti", "camunda"})
    definitions = Listing(("repository", "process-definitions"), is_post=False)
    open_tasks = Listing(("query", "tasks"))
    past_tasks = Listing(("query", "historic-task-instances"))
    past_steps = Listing(("history", "historic-activity-instances"), is_post=False)
    past_instances = Listing(("query", "historic-process-instances"), page=100)
    """They come with their variables: a long form and its record have some thirty thousand bytes."""
    instances = Listing(("query", "process-instances"))
    executions = Listing(("runtime", "executions"), is_post=False)
    waiting_jobs = Listing((*JOBS, "jobs"), is_post=False)
    latest_condition = "latest"
    created_order = "createTime"
    variables_condition = "processInstanceVariables"
    request_condition = "processBusinessKey"
    equals: Mapping[str, str] = {"operation": "equals", "type": "string"}

    @reject_unreadable
    async def load_definition_xml(self, definition: str) -> bytes:
        path = ("repository", "process-definitions", definition, "resourcedata")
        return bytes(await self._rest.read_json(*path, parse=str.encode))

    async def deploy_file(self, name: str, content: bytes) -> None:
        await self._rest.write_file("repository", "deployments", file=name, content=content, fields={})

    async def start_instance(self, definition: str, request: str, variables: Mapping[str, VariableValue]) -> str:
        body = {"processDefinitionId": definition, "businessKey": request, "variables": encode_variables(variables)}
        return parse_id(await self._rest.write("POST", "runtime", "process-instances", body=body))

    async def complete_task(self, item: EngineTask, variables: Mapping[str, VariableValue]) -> None:
        body = {"action": "complete", "variables": encode_variables(variables)}
        await self._rest.write("POST", "runtime", "tasks", item.id, body=body)

    async def assign_task(self, item: EngineTask, user: str) -> None:
        await self._rest.write("PUT", "runtime", "tasks", item.id, body={"assignee": user})

    async def set_variables(self, instance: str, variables: Mapping[str, VariableValue]) -> None:
        path = ("runtime", "process-instances", instance, "variables")
        await self._rest.write("PUT", *path, body=encode_variables(variables))

    async def return_task(
        self, item: EngineTask, to: str, record: Mapping[str, VariableValue], *, is_shared: bool
    ) -> None:
        execution = item.execution
        if is_shared:  # it stays until its step ends, voted or not; the one above is the step
            rows = await self._list(self.executions, {"processInstanceId": item.instance}, dict)
            execution = next((str(row.get("parentId")) for row in rows if row.get("id") == execution), execution)
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

    async def delete_instance(self, instance: str) -> None:
        await self._rest.write("DELETE", "runtime", "process-instances", instance, query={"deleteReason": "withdrawn"})

    @reject_unreadable
    async def lock_external_tasks(
        self, topics: Sequence[str], instance: ProcessInstance | None = None
    ) -> list[ExternalTask]:
        """Tasks can be locked by topic only. None is locked while none of ours is waiting; then those of others are
        released at once, and those of our other instances are ours to complete, too."""
        query = {"unlocked": "true", **({"processInstanceId": instance.id} if instance else {})}
        waiting = set(await self._list(self.waiting_jobs, query, lambda row: str(row["processInstanceId"])))
        if not instance:
            waiting = await self._select_marked(waiting)
        locked: list[ExternalTask] = []
        for topic in topics if waiting else ():
            wanted = {"topic": topic, "lockDuration": f"PT{LOCK_S}S", "numberOfTasks": MAX_LOCKED, "workerId": WORKER}
            for r in await self._rest.read_json(*JOBS, "acquire", "jobs", body=wanted):
                locked.append(
                    ExternalTask(id=r["id"], instance=r["processInstanceId"], node=r["elementId"], topic=topic)
                )
        known = {instance.id} if instance else set[str]()
        ours = known | await self._select_marked({task.instance for task in locked} - known)
        for task in locked:
            if task.instance not in ours:
                await self._rest.write("POST", *JOBS, "unacquire", "jobs", task.id, body={"workerId": WORKER})
        return [task for task in locked if task.instance in ours]

    async def _select_marked(self, instances: Collection[str]) -> set[str]:
        """Those running instances that have our mark."""
        if not instances:
            return set()
        wanted = {"processInstanceIds": sorted(instances), "variables": [self._match_variable(MARK, WORKER)]}
        return set(await self._list(self.instances, wanted, lambda row: str(row["id"])))

    async def complete_external_task(self, job: ExternalTask, variables: Mapping[str, VariableValue]) -> None:
        body = {"workerId": WORKER, "variables": encode_variables(variables)}
        await self._rest.write("POST", *JOBS, "acquire", "jobs", job.id, "complete", body=body)

    async def read_page(
        self, listing: Listing, wanted: Mapping[str, Any], sort: str, first: int, size: int, budget: ByteBudget
    ) -> tuple[Any, object]:
        asked = {**wanted, **({"sort": sort, "order": "asc"} if sort else {}), "start": first, "size": size}
        if listing is self.past_instances:
            asked["includeProcessVariables"] = True
        words: dict[str, Any] = {"body" if listing.is_post else "query": asked}
        answer = await self._rest.read_json(*listing.path, **words, allowance=budget)
        return answer["data"], answer.get("total")
