"""The stand-ins answer as the real engines were recorded to: Flowable 6.8.1 and Camunda 7.18, on one leave process."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession, encode_basic_auth

from tests.tools.workflow.remote.company import World, world_of
from tests.tools.workflow.remote.face import LOGIN, PASSWORD

VARIABLES = {"initiator": "user_1", "days": 2, "approver": "user_2", "second_approver": "user_3", "decision": None}
FLOWABLE = [{"name": name, "value": value} for name, value in VARIABLES.items()]
CAMUNDA = {name: {"value": value} for name, value in VARIABLES.items()}


class Caller:
    """Somebody with the engine's login and no idea of our rules."""

    def __init__(self, world: World, session: ClientSession) -> None:
        self.world, self._session = world, session

    async def __call__(self, method: str, path: str, body: Any = None, login: str = LOGIN) -> tuple[int, Any]:
        headers = {"Authorization": encode_basic_auth(login, PASSWORD)}
        async with self._session.request(method, self.world.url + path, json=body, headers=headers) as answer:
            text = await answer.text()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text


@asynccontextmanager
async def calling(kind: str) -> AsyncIterator[Caller]:
    async with world_of(kind) as world:
        yield Caller(world, world.session)


async def flowable_task(call: Caller) -> str:
    body = {"processDefinitionKey": "leave", "businessKey": "WF-1", "variables": FLOWABLE, "returnVariables": True}
    status, started = await call("POST", "/runtime/process-instances", body)
    assert status == 201 and started["businessKey"] == "WF-1" and started["startUserId"] == LOGIN
    assert {"name": "days", "type": "integer", "value": 2, "scope": "local"} in started["variables"]
    assert {"name": "decision", "value": None, "scope": "local"} in started["variables"]
    _, tasks = await call("GET", f"/runtime/tasks?processInstanceId={started['id']}")
    return str(tasks["data"][0]["id"])


async def camunda_task(call: Caller) -> str:
    body = {"businessKey": "WF-1", "withVariablesInReturn": True, "variables": CAMUNDA}
    status, started = await call("POST", "/process-definition/key/leave/start", body)
    assert status == 200 and not started["ended"]
    assert started["variables"]["days"] == {"type": "Integer", "value": 2, "valueInfo": {}}
    assert started["variables"]["decision"] == {"type": "Null", "value": None, "valueInfo": {}}
    _, tasks = await call("GET", f"/task?processInstanceId={started['id']}")
    return str(tasks[0]["id"])


async def test_flowable_answers_as_it_was_recorded() -> None:
    async with calling("flowable") as call:
        task = await flowable_task(call)
        _, page = await call("GET", "/runtime/tasks")
        row = page["data"][0]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["createTime"])
        assert row["name"].startswith("审批") and row["delegationState"] is None and row["dueDate"] is None
        _, past = await call("GET", "/history/historic-process-instances?businessKey=WF-1")
        assert past["data"][0]["endTime"] is None and past["data"][0]["deleteReason"] is None
        missing = {"processDefinitionKey": "leave", "variables": [{"name": "days", "value": 5}]}
        for path, body, status, message, exception in (
            (f"/runtime/tasks/{task}", {"action": "frobnicate"}, 400, "Bad request", "Invalid action: 'frobnicate'."),
            ("/runtime/process-instances", {"processDefinitionKey": "nope"}, 400, "Bad request",
             "No process definition found for key 'nope'"),
            ("/runtime/process-instances", missing, 500, "Internal server error",
             "Unknown property used in expression: ${approver}"),
        ):  # fmt: skip
            assert await call("POST", path, body) == (status, {"message": message, "exception": exception})
        status, said = await call("GET", "/runtime/tasks", login="bad")
        assert status == 401 and said.startswith("<html>")
        done = {"action": "complete", "variables": [{"name": "decision", "value": "approve"}]}
        assert await call("POST", f"/runtime/tasks/{task}", done) == (200, "")
        gone = {"message": "Not found", "exception": f"Could not find a task with id '{task}'."}
        assert await call("POST", f"/runtime/tasks/{task}", done) == (404, gone)
        assert await call("GET", f"/runtime/tasks/{task}") == (404, gone)
        tasks = [await flowable_task(call) for _ in range(12)]
        _, page = await call("GET", "/runtime/tasks?assignee=user_2")
        assert (len(page["data"]), page["total"], page["start"], page["size"]) == (10, 12, 0, 10)
        assert len((await call("GET", "/runtime/tasks?assignee=user_2&start=10&size=100"))[1]["data"]) == 2
        assert await call("POST", f"/runtime/tasks/{tasks[0]}", {"action": "delegate", "assignee": "x"}) == (200, "")
        status, wrong = await call("POST", f"/runtime/tasks/{tasks[0]}", {"action": "complete"})
        assert status == 500 and "should be resolved instead" in wrong["exception"]
        call.world.face.crowded = True
        answers = await asyncio.gather(*(call("POST", f"/runtime/tasks/{tasks[1]}", done) for _ in range(20)))
        assert [s for s, _ in answers].count(200) == 1 and {s for s, _ in answers} <= {200, 404, 500}
        run = call.world.runs[-1].id
        assert (await call("DELETE", f"/runtime/process-instances/{run}?deleteReason=withdraw"))[0] == 204
        assert (await call("GET", f"/runtime/tasks/{tasks[-1]}"))[0] == 404, "nobody checks who removes or completes"


async def test_camunda_answers_as_it_was_recorded() -> None:
    async with calling("camunda") as call:
        task = await camunda_task(call)
        for path, body, status, said in (
            ("/process-definition/key/nope/start", {}, 404,
             "No matching process definition with key: nope and no tenant-id"),
            ("/process-definition/key/leave/start", {"variables": {"days": {"value": 5}}}, 500,
             "Unknown property used in expression: ${approver}"),
        ):  # fmt: skip
            code, wrong = await call("POST", path, body)
            assert code == status and said in wrong["message"]
        assert await call("GET", "/task", login="bad") == (401, "")
        status, wrong = await call("GET", "/history/process-instance/999")
        assert status == 404 and wrong["code"] is None
        for name, status in (("user1", 204), ("camunda-admin", 204), ("user_1", 500), ("ou_abc", 500)):
            assert (await call("POST", "/user/create", {"profile": {"id": name}}))[0] == status
        done = {"variables": {"decision": {"value": "approve"}}}
        assert await call("POST", f"/task/{task}/complete", done) == (204, "")
        text = f"Cannot complete task {task}: Cannot find task with id {task}: task is null"
        gone = {"type": "RestException", "message": text, "code": 0}
        assert await call("POST", f"/task/{task}/complete", done) == (500, gone)
        text = f"Cannot find task with id {task}: task is null"
        moved = await call("POST", f"/task/{task}/assignee", {"userId": "x"})
        assert moved == (500, {"type": "NullValueException", "message": text, "code": 0})
        missing = {"type": "InvalidRequestException", "message": "No matching task with id nope", "code": None}
        assert await call("GET", "/task/nope") == (404, missing)
        tasks = [await camunda_task(call) for _ in range(12)]
        _, rows = await call("GET", "/task?assignee=user_2")
        assert len(rows) == 12 and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+0000", rows[0]["created"])
        call.world.face.crowded = True
        answers = await asyncio.gather(*(call("POST", f"/task/{tasks[0]}/complete", {}) for _ in range(20)))
        assert sorted(s for s, _ in answers) == [204] + [500] * 19
        run = call.world.runs[-1].id
        assert (await call("DELETE", f"/process-instance/{run}"))[0] == 204
        _, past = await call("GET", f"/history/process-instance/{run}")
        assert past["state"] == "EXTERNALLY_TERMINATED", "nobody checks who removes or completes"
