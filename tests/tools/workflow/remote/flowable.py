"""A stand-in for Flowable 6.8.1: it answers as the real one was recorded to (status codes, empty bodies, error shapes,
10-row pages, dates, type names). What was not recorded but read in its source and documentation: variables of an
instance, the history's variables, the query resource, resource data and the external worker API."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aiohttp import web

from tests.tools.workflow.remote.face import Face, json_text
from tests.tools.workflow.remote.runner import Broken, Gone, Run, Work

TYPES = {"string": str, "integer": int, "double": float, "boolean": bool, "long": int, "short": int}
HTML = (
    "<html>\n<head>\n<title>Error 401 Unauthorized</title>\n</head>\n<body><h2>HTTP ERROR 401 Unauthorized</h2></body>"
)


@dataclass
class FlowableFace(Face):
    version: str = "6.8.1.0"

    base = "/flowable-rest/service"
    jobs = "/flowable-rest/external-job-api"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(f"{self.base}/management/engine", self.about),
            web.post(f"{self.base}/repository/deployments", self.deploy),
            web.get(f"{self.base}/repository/process-definitions", self.definitions),
            web.get(f"{self.base}/repository/process-definitions/{{id}}/resourcedata", self.source),
            web.post(f"{self.base}/runtime/process-instances", self.start),
            web.delete(f"{self.base}/runtime/process-instances/{{id}}", self.remove),
            web.put(f"{self.base}/runtime/process-instances/{{id}}/variables", self.put),
            web.post(f"{self.base}/runtime/executions/{{id}}/change-state", self.move),
            web.get(f"{self.base}/runtime/tasks", self.tasks),
            web.get(f"{self.base}/runtime/tasks/{{id}}", self.task),
            web.post(f"{self.base}/runtime/tasks/{{id}}", self.action),
            web.put(f"{self.base}/runtime/tasks/{{id}}", self.update),
            web.get(f"{self.base}/history/historic-process-instances", self.instances),
            web.get(f"{self.base}/history/historic-process-instances/{{id}}", self.instance),
            web.post(f"{self.base}/query/historic-process-instances", self.queried),
            web.get(f"{self.base}/history/historic-variable-instances", self.variables),
            web.get(f"{self.base}/history/historic-task-instances", self.past_tasks),
            web.get(f"{self.base}/history/historic-activity-instances", self.activities),
            web.post(f"{self.jobs}/acquire/jobs", self.acquire),
            web.post(f"{self.jobs}/acquire/jobs/{{id}}/complete", self.finish),
        ]

    def unauthorised(self) -> web.Response:
        return web.Response(status=401, text=HTML, content_type="text/html")

    def gone(self, request: web.Request) -> web.Response:
        return wrong(404, f"Could not find a task with id '{request.match_info['id']}'.")

    def broken(self, request: web.Request, what: Broken) -> web.Response:
        return wrong(500, f"Unknown property used in expression: {what}")

    async def about(self, request: web.Request) -> web.Response:
        return json_text({"name": "default", "resourceUrl": None, "exception": None, "version": self.version})

    async def deploy(self, request: web.Request) -> web.Response:
        await self.take_file(request)
        return json_text({"id": "10", "name": "trip", "category": None, "tenantId": ""}, 201)

    async def definitions(self, request: web.Request) -> web.Response:
        found = self.runner.list_latest(request.query.get("key"))
        rows = [
            {"id": d.id, "key": d.key, "version": 1, "name": d.name, "suspended": False, "startFormDefined": False}
            for d in found
        ]
        return page(rows, request.query, "name")

    async def source(self, request: web.Request) -> web.Response:
        found = next(d for d in self.runner.deployed if d.id == request.match_info["id"])
        return web.Response(body=found.source, content_type="application/xml")

    async def start(self, request: web.Request) -> web.Response:
        body = await request.json()
        if "processDefinitionId" in body:
            deployed = next((d for d in self.runner.deployed if d.id == body["processDefinitionId"]), None)
        else:
            deployed = self.runner.latest(body["processDefinitionKey"])
        if deployed is None:
            return wrong(400, f"No process definition found for key '{body.get('processDefinitionKey')}'")
        variables = values(body.get("variables", []))
        run = self.runner.start(deployed, body.get("businessKey"), variables, "rest-admin")
        rows = [{"name": n, **typed(v), "scope": "local"} for n, v in run.variables.items()]
        shown = rows if body.get("returnVariables") else []
        return json_text({**instance_row(run), "ended": run.ended is not None, "completed": run.ended is not None,
                          "variables": shown}, 201)  # fmt: skip

    async def remove(self, request: web.Request) -> web.Response:
        if (run := self.find_running(request)) is None:
            return no_instance(request)
        self.runner.remove(run, request.query.get("deleteReason", "DELETED"))
        return web.Response(status=204)

    async def put(self, request: web.Request) -> web.Response:
        if (run := self.find_running(request)) is None:
            return no_instance(request)
        run.variables |= values(await request.json())
        return json_text([], 201)

    async def move(self, request: web.Request) -> web.Response:
        """As recorded, the execution decides what is left; `cancelActivityIds` is not looked at."""
        body = await request.json()
        open_works = [w for w in self.runner.state.works.values() if not w.ended]
        work = next((w for w in open_works if w.execution == request.match_info["id"]), None)
        if work is None:
            return wrong(404, f"Could not find an execution with id '{request.match_info['id']}'.")
        targets = body["startActivityIds"]
        self.runner.move(work.run, [work.node.id], targets, f"Change activity to {targets[0]}")
        return web.Response(status=200)

    async def tasks(self, request: web.Request) -> web.Response:
        works = self.runner.list_works(request.query)
        return page([task_row(w) for w in works], request.query, "id")

    async def task(self, request: web.Request) -> web.Response:
        return json_text(task_row(self.runner.work(request.match_info["id"])))

    async def action(self, request: web.Request) -> web.Response:
        body = await request.json()
        work = self.runner.work(request.match_info["id"])
        if body["action"] not in ("complete", "claim", "delegate", "resolve"):
            return wrong(400, f"Invalid action: '{body['action']}'.", "Bad request")
        if body["action"] == "delegate":
            work.delegated, work.assignee = True, body["assignee"]
            return web.Response(status=200)
        if work.delegated:
            return wrong(500, "A delegated task cannot be completed, but should be resolved instead.")
        await self.others_read()
        try:
            self.runner.complete(work.id, values(body.get("variables", [])))
        except Gone:
            return wrong(500, f"TaskEntity[{work.id}] was updated by another transaction concurrently")
        return web.Response(status=200)

    async def update(self, request: web.Request) -> web.Response:
        body = await request.json()
        work = self.runner.work(request.match_info["id"])
        work.assignee = body["assignee"]
        return json_text(task_row(work))

    async def instances(self, request: web.Request) -> web.Response:
        key = request.query.get("businessKey")
        runs = [r for r in self.runner.state.runs.values() if key in (None, r.business_key)]
        return page([instance_row(r) for r in runs], request.query, "processInstanceId")

    async def instance(self, request: web.Request) -> web.Response:
        run = self.runner.state.runs.get(request.match_info["id"])
        return json_text(instance_row(run)) if run else no_instance(request)

    async def queried(self, request: web.Request) -> web.Response:
        body = await request.json()
        (wanted,) = body["variables"]
        assert wanted["operation"] == "equals"
        runs = [r for r in self.runner.state.runs.values() if r.variables.get(wanted["name"]) == wanted["value"]]
        return page([instance_row(r) for r in runs], body, "processInstanceId")

    async def variables(self, request: web.Request) -> web.Response:
        run = self.runner.state.runs[request.query["processInstanceId"]]
        rows = [
            {
                "id": f"v{n}",
                "processInstanceId": run.id,
                "taskId": None,
                "variable": {"name": k, **typed(v), "scope": None},
            }
            for n, (k, v) in enumerate(run.variables.items())
        ]
        return page(rows, request.query, "variableName")

    async def past_tasks(self, request: web.Request) -> web.Response:
        works = self.runner.list_works(request.query, past=True)
        rows = [{**task_row(w), "startTime": moment(w.created), "endTime": moment(w.ended), "deleteReason": w.reason}
                for w in works]  # fmt: skip
        for row in rows:
            del row["createTime"]
        return page(rows, request.query, "taskInstanceId")

    async def activities(self, request: web.Request) -> web.Response:
        run = self.runner.state.runs[request.query["processInstanceId"]]
        rows = [
            {
                "id": t.id,
                "activityId": t.what,
                "activityType": t.kind,
                "processInstanceId": run.id,
                "startTime": moment(t.at),
            }
            for t in self.runner.state.traces
            if t.run is run
        ]
        return page(rows, request.query, "startTime")

    async def acquire(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert re.fullmatch(r"PT\d+S", body["lockDuration"])
        jobs = [j for j in self.runner.state.jobs.values() if j.node.topic == body["topic"] and not j.worker]
        for job in jobs[: body.get("numberOfTasks", 1)]:
            job.worker = body["workerId"]
        return json_text([{"id": j.id, "processInstanceId": j.run.id, "elementId": j.node.id} for j in jobs])

    async def finish(self, request: web.Request) -> web.Response:
        job = self.runner.state.jobs.get(request.match_info["id"])
        if job is None:
            return wrong(404, "Could not find external worker job")
        self.runner.finish(job)
        return web.Response(status=204)


def values(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """There is no BigDecimal."""
    for row in rows:
        if "type" in row and row["type"] not in TYPES:
            raise web.HTTPBadRequest(text=f"Unsupported type {row['type']}")
        assert row["value"] is None or "type" not in row or isinstance(row["value"], TYPES[row["type"]] | int)
    return {row["name"]: row["value"] for row in rows}


def typed(value: Any) -> dict[str, Any]:
    names = {bool: "boolean", str: "string", int: "integer", float: "double"}
    return {"value": None} if value is None else {"type": names[type(value)], "value": value}


def page(rows: list[dict[str, Any]], query: Any, sort: str) -> web.Response:
    """Ten rows unless told otherwise; `total` says how many there are."""
    start, size = int(query.get("start", 0)), int(query.get("size", 10))
    shown = rows[start : start + size]
    return json_text(
        {"data": shown, "total": len(rows), "start": start, "sort": query.get("sort", sort), "order": "asc",
         "size": len(shown)}
    )  # fmt: skip


def task_row(work: Work) -> dict[str, Any]:
    return {
        "id": work.id,
        "owner": None,
        "assignee": work.assignee,
        "delegationState": "pending" if work.delegated else None,
        "name": work.node.name,
        "createTime": moment(work.created),
        "dueDate": None,
        "taskDefinitionKey": work.node.id,
        "executionId": work.execution,
        "processInstanceId": work.run.id,
        "processDefinitionId": work.run.deployed.id,
        "variables": [],
    }


def instance_row(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "businessKey": run.business_key,
        "processDefinitionId": run.deployed.id,
        "startTime": moment(run.started),
        "endTime": moment(run.ended),
        "startUserId": run.user,
        "deleteReason": run.reason,
        "variables": [],
    }


def moment(at: datetime | None) -> str | None:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else None


def no_instance(request: web.Request) -> web.Response:
    return wrong(404, f"Could not find a process instance with id '{request.match_info['id']}'.")


def wrong(status: int, exception: str, message: str = "") -> web.Response:
    messages = {400: "Bad request", 404: "Not found", 500: "Internal server error"}
    return json_text({"message": message or messages[status], "exception": exception}, status)
