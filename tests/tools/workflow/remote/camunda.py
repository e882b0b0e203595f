"""A stand-in for Camunda 7.18: it answers as the real one was recorded to (status codes, empty bodies, error shapes,
dates, type names, the rule for user ids). What was not recorded but read in its documentation: variables of an
instance, the history's variables, the POST queries, the definition's XML and external tasks."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from aiohttp import web

from tests.tools.workflow.remote.face import Face, json_text
from tests.tools.workflow.remote.runner import Broken, Gone, Run, Work

USER = re.compile(r"[a-zA-Z0-9]+|camunda-admin")
TYPES = {"String": str, "Integer": int, "Double": float, "Boolean": bool}


class CamundaFace(Face):
    base = "/engine-rest"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post(f"{self.base}/deployment/create", self.deploy),
            web.get(f"{self.base}/process-definition", self.definitions),
            web.get(f"{self.base}/process-definition/{{id}}/xml", self.source),
            web.post(f"{self.base}/process-definition/{{id}}/start", self.start),
            web.post(f"{self.base}/process-definition/key/{{key}}/start", self.start),
            web.post(f"{self.base}/user/create", self.create_user),
            web.delete(f"{self.base}/process-instance/{{id}}", self.remove),
            web.post(f"{self.base}/process-instance/{{id}}/variables", self.put),
            web.post(f"{self.base}/process-instance/{{id}}/modification", self.move),
            web.get(f"{self.base}/task", self.tasks),
            web.get(f"{self.base}/task/{{id}}", self.task),
            web.post(f"{self.base}/task/{{id}}/complete", self.complete),
            web.post(f"{self.base}/task/{{id}}/assignee", self.assign),
            web.get(f"{self.base}/history/process-instance", self.instances),
            web.post(f"{self.base}/history/process-instance", self.queried),
            web.get(f"{self.base}/history/process-instance/{{id}}", self.instance),
            web.get(f"{self.base}/history/variable-instance", self.variables),
            web.get(f"{self.base}/history/task", self.past_tasks),
            web.get(f"{self.base}/history/activity-instance", self.activities),
            web.post(f"{self.base}/external-task/fetchAndLock", self.acquire),
            web.post(f"{self.base}/external-task/{{id}}/complete", self.finish),
        ]

    def unauthorised(self) -> web.Response:
        return web.Response(status=401)

    def gone(self, request: web.Request) -> web.Response:
        text = f"No matching task with id {request.match_info['id']}"
        return wrong(404, "InvalidRequestException", text, None)

    def broken(self, request: web.Request, what: Broken) -> web.Response:
        name = str(what).strip("${}")
        text = f"Unknown property used in expression: {what}. Cause: Cannot resolve identifier '{name}'"
        return wrong(500, "RestException", text)

    async def deploy(self, request: web.Request) -> web.Response:
        await self.take_file(request)
        return json_text({"id": "10", "name": "trip", "source": "countersign", "deployedProcessDefinitions": {}})

    async def definitions(self, request: web.Request) -> web.Response:
        found = self.runner.list_latest(request.query.get("key"))
        return listed(
            [
                {"id": d.id, "key": d.key, "name": d.name, "version": 1, "suspended": False, "tenantId": None,
                 "versionTag": None, "historyTimeToLive": 180, "startableInTasklist": True}
                for d in found
            ],
            request,
        )  # fmt: skip

    async def source(self, request: web.Request) -> web.Response:
        found = next(d for d in self.runner.deployed if d.id == request.match_info["id"])
        return json_text({"id": found.id, "bpmn20Xml": found.source.decode()})

    async def start(self, request: web.Request) -> web.Response:
        body = await request.json()
        key, name = request.match_info.get("key"), request.match_info.get("id")
        deployed = self.runner.latest(key) if key else next((d for d in self.runner.deployed if d.id == name), None)
        if deployed is None:
            return wrong(404, "RestException", f"No matching process definition with key: {key} and no tenant-id", None)
        run = self.runner.start(deployed, body.get("businessKey"), values(body.get("variables", {})), "user1")
        row = {"id": run.id, "definitionId": deployed.id, "businessKey": run.business_key,
               "ended": run.ended is not None, "suspended": False, "tenantId": None}  # fmt: skip
        shown = {n: typed(v) for n, v in run.variables.items()}
        return json_text({**row, "variables": shown} if body.get("withVariablesInReturn") else row)

    async def create_user(self, request: web.Request) -> web.Response:
        name = (await request.json())["profile"]["id"]
        if not USER.fullmatch(name):
            text = f"User has an invalid id: id {name!r} does not match [a-zA-Z0-9]+|camunda-admin"
            return wrong(500, "ProcessEngineException", text)
        return web.Response(status=204)

    async def remove(self, request: web.Request) -> web.Response:
        if (run := self.find_running(request)) is None:
            return no_instance(request)
        self.runner.remove(run, "deleted")
        return web.Response(status=204)

    async def put(self, request: web.Request) -> web.Response:
        if (run := self.find_running(request)) is None:
            text = f"Cannot set variables: execution {request.match_info['id']} doesn't exist: execution is null"
            return wrong(500, "RestException", text)
        run.variables |= values((await request.json())["modifications"])
        return web.Response(status=204)

    async def move(self, request: web.Request) -> web.Response:
        if (run := self.find_running(request)) is None:
            return wrong(500, "RestException", f"Process instance '{request.match_info['id']}' cannot be modified")
        body = (await request.json())["instructions"]
        starts = [i["activityId"] for i in body if i["type"] == "startBeforeActivity"]
        cancels = [i["activityId"] for i in body if i["type"] == "cancel"]
        self.runner.move(run, cancels, starts, "deleted")
        return web.Response(status=204)

    async def tasks(self, request: web.Request) -> web.Response:
        works = self.runner.list_works(request.query)
        return listed([task_row(w) for w in works], request)

    async def task(self, request: web.Request) -> web.Response:
        return json_text(task_row(self.runner.work(request.match_info["id"])))

    async def complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        name = request.match_info["id"]
        try:
            self.runner.work(name)
            await self.others_read()
            work = self.runner.complete(name, values(body.get("variables", {})))
        except Gone:
            text = f"Cannot complete task {name}: Cannot find task with id {name}: task is null"
            return wrong(500, "RestException", text)
        if body.get("withVariablesInReturn"):
            return json_text({n: typed(v) for n, v in work.run.variables.items()})
        return web.Response(status=204)

    async def assign(self, request: web.Request) -> web.Response:
        """Any text may be an assignee."""
        body = await request.json()
        try:
            self.runner.work(request.match_info["id"]).assignee = body["userId"]
        except Gone:
            text = f"Cannot find task with id {request.match_info['id']}: task is null"
            return wrong(500, "NullValueException", text)
        return web.Response(status=204)

    async def instances(self, request: web.Request) -> web.Response:
        key = request.query.get("processInstanceBusinessKey")
        runs = [r for r in self.runner.state.runs.values() if key in (None, r.business_key)]
        return listed([instance_row(r) for r in runs], request)

    async def queried(self, request: web.Request) -> web.Response:
        (wanted,) = (await request.json())["variables"]
        assert wanted["operator"] == "eq"
        runs = [r for r in self.runner.state.runs.values() if r.variables.get(wanted["name"]) == wanted["value"]]
        return listed([instance_row(r) for r in runs], request)

    async def instance(self, request: web.Request) -> web.Response:
        run = self.runner.state.runs.get(request.match_info["id"])
        return json_text(instance_row(run)) if run else no_instance(request)

    async def variables(self, request: web.Request) -> web.Response:
        run = self.runner.state.runs[request.query["processInstanceId"]]
        rows = [
            {"id": f"v{n}", "name": k, **typed(v), "processInstanceId": run.id, "taskId": None, "state": "CREATED"}
            for n, (k, v) in enumerate(run.variables.items())
        ]
        return listed(rows, request)

    async def past_tasks(self, request: web.Request) -> web.Response:
        works = self.runner.list_works(request.query, past=True)
        rows = []
        for work in works:
            row = task_row(work)
            del row["created"]
            reason = (work.reason or "completed") if work.ended else None
            rows.append(
                {**row, "startTime": moment(work.created), "endTime": moment(work.ended), "deleteReason": reason}
            )
        return listed(rows, request)

    async def activities(self, request: web.Request) -> web.Response:
        """No sequence flows, and an end event has a type of its own."""
        run = self.runner.state.runs[request.query["processInstanceId"]]
        types = {"endEvent": "noneEndEvent"}
        rows = [
            {"id": f"{t.what}:{t.id}", "activityId": t.what, "activityType": types.get(t.kind, t.kind),
             "processInstanceId": run.id, "startTime": moment(t.at), "canceled": False}
            for t in self.runner.state.traces
            if t.run is run and t.kind != "sequenceFlow"
        ]  # fmt: skip
        return listed(rows, request)

    async def acquire(self, request: web.Request) -> web.Response:
        body = await request.json()
        topics = [t["topicName"] for t in body["topics"] if isinstance(t["lockDuration"], int)]
        jobs = [j for j in self.runner.state.jobs.values() if j.node.topic in topics and not j.worker]
        for job in jobs[: body["maxTasks"]]:
            job.worker = body["workerId"]
        return json_text(
            [
                {"id": j.id, "processInstanceId": j.run.id, "activityId": j.node.id, "topicName": j.node.topic}
                for j in jobs
            ]
        )

    async def finish(self, request: web.Request) -> web.Response:
        job = self.runner.state.jobs.get(request.match_info["id"])
        if job is None:
            text = f"External task with id {request.match_info['id']} does not exist"
            return wrong(404, "RestException", text, None)
        self.runner.finish(job)
        return web.Response(status=204)


def values(variables: dict[str, dict[str, Any]]) -> dict[str, Any]:
    for named in variables.values():
        assert named["value"] is None or "type" not in named or isinstance(named["value"], TYPES[named["type"]] | int)
    return {name: named["value"] for name, named in variables.items()}


def typed(value: Any) -> dict[str, Any]:
    names = {bool: "Boolean", str: "String", int: "Integer", float: "Double", type(None): "Null"}
    return {"type": names[type(value)], "value": value, "valueInfo": {}}


def listed(rows: list[dict[str, Any]], request: web.Request) -> web.Response:
    """Everything, unless told otherwise; nothing says how many there are."""
    first = int(request.query.get("firstResult", 0))
    most = int(request.query.get("maxResults", len(rows)))
    return json_text(rows[first : first + most])


def task_row(work: Work) -> dict[str, Any]:
    return {
        "id": work.id,
        "name": work.node.name,
        "assignee": work.assignee,
        "created": moment(work.created),
        "due": None,
        "delegationState": None,
        "executionId": work.execution,
        "owner": None,
        "processDefinitionId": work.run.deployed.id,
        "processInstanceId": work.run.id,
        "taskDefinitionKey": work.node.id,
    }


def instance_row(run: Run) -> dict[str, Any]:
    state = "ACTIVE" if run.ended is None else "EXTERNALLY_TERMINATED" if run.reason else "COMPLETED"
    return {
        "id": run.id,
        "businessKey": run.business_key,
        "processDefinitionId": run.deployed.id,
        "processDefinitionKey": run.deployed.key,
        "startTime": moment(run.started),
        "endTime": moment(run.ended),
        "startUserId": run.user,
        "deleteReason": run.reason,
        "state": state,
    }


def moment(at: datetime | None) -> str | None:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "+0000") if at else None


def no_instance(request: web.Request) -> web.Response:
    text = f"Process instance with id {request.match_info['id']} does not exist"
    return wrong(404, "InvalidRequestException", text, None)


def wrong(status: int, kind: str, message: str, code: int | None = 0) -> web.Response:
    return json_text({"type": kind, "message": message, "code": code}, status)
