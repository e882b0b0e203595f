"""The stand-ins answer as the real engines were recorded to: Flowable 6.8.1 and Camunda 7.18, on one leave process."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
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


@pytest.fixture
async def flowable() -> AsyncIterator[Caller]:
    async with world_of("flowable") as world:
        yield Caller(world, world.session)


@pytest.fixture
async def camunda() -> AsyncIterator[Caller]:
    async with world_of("camunda") as world:
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


async def test_flowable_completes_with_an_empty_body_and_then_the_task_is_missing(flowable: Caller) -> None:
    task = await flowable_task(flowable)
    done = {"action": "complete", "variables": [{"name": "decision", "value": "approve"}]}
    assert await flowable("POST", f"/runtime/tasks/{task}", done) == (200, "")
    gone = {"message": "Not found", "exception": f"Could not find a task with id '{task}'."}
    assert await flowable("POST", f"/runtime/tasks/{task}", done) == (404, gone)
    assert await flowable("GET", f"/runtime/tasks/{task}") == (404, gone)


async def test_flowable_s_errors(flowable: Caller) -> None:
    task = await flowable_task(flowable)
    assert await flowable("POST", f"/runtime/tasks/{task}", {"action": "frobnicate"}) == (
        400,
        {"message": "Bad request", "exception": "Invalid action: 'frobnicate'."},
    )
    assert await flowable("POST", "/runtime/process-instances", {"processDefinitionKey": "nope"}) == (
        400,
        {"message": "Bad request", "exception": "No process definition found for key 'nope'"},
    )
    missing = {"processDefinitionKey": "leave", "variables": [{"name": "days", "value": 5}]}
    assert await flowable("POST", "/runtime/process-instances", missing) == (
        500,
        {"message": "Internal server error", "exception": "Unknown property used in expression: ${approver}"},
    )
    status, page = await flowable("GET", "/runtime/tasks", login="bad")
    assert status == 401 and page.startswith("<html>")
    assert await flowable("POST", f"/runtime/tasks/{task}", {"action": "delegate", "assignee": "x"}) == (200, "")
    status, wrong = await flowable("POST", f"/runtime/tasks/{task}", {"action": "complete"})
    assert status == 500 and "should be resolved instead" in wrong["exception"]


async def test_flowable_gives_ten_rows_and_says_how_many_there_are(flowable: Caller) -> None:
    for _ in range(12):
        await flowable_task(flowable)
    _, page = await flowable("GET", "/runtime/tasks?assignee=user_2")
    assert (len(page["data"]), page["total"], page["start"], page["size"]) == (10, 12, 0, 10)
    _, rest = await flowable("GET", "/runtime/tasks?assignee=user_2&start=10&size=100")
    assert len(rest["data"]) == 2


async def test_flowable_s_dates_and_names(flowable: Caller) -> None:
    await flowable_task(flowable)
    _, page = await flowable("GET", "/runtime/tasks")
    row = page["data"][0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["createTime"])
    assert row["name"].startswith("审批") and row["delegationState"] is None and row["dueDate"] is None
    _, past = await flowable("GET", "/history/historic-process-instances?businessKey=WF-1")
    assert past["data"][0]["endTime"] is None and past["data"][0]["deleteReason"] is None


async def test_camunda_completes_with_nothing_and_then_answers_500(camunda: Caller) -> None:
    task = await camunda_task(camunda)
    body = {"variables": {"decision": {"value": "approve"}}}
    assert await camunda("POST", f"/task/{task}/complete", body) == (204, "")
    text = f"Cannot complete task {task}: Cannot find task with id {task}: task is null"
    gone = {"type": "RestException", "message": text, "code": 0}
    assert await camunda("POST", f"/task/{task}/complete", body) == (500, gone)
    text = f"Cannot find task with id {task}: task is null"
    moved = await camunda("POST", f"/task/{task}/assignee", {"userId": "x"})
    assert moved == (500, {"type": "NullValueException", "message": text, "code": 0})
    missing = {"type": "InvalidRequestException", "message": "No matching task with id nope", "code": None}
    assert await camunda("GET", "/task/nope") == (404, missing)


async def test_camunda_s_errors(camunda: Caller) -> None:
    status, wrong = await camunda("POST", "/process-definition/key/nope/start", {})
    assert status == 404 and wrong["message"] == "No matching process definition with key: nope and no tenant-id"
    status, wrong = await camunda("POST", "/process-definition/key/leave/start", {"variables": {"days": {"value": 5}}})
    assert status == 500 and "Unknown property used in expression: ${approver}" in wrong["message"]
    assert await camunda("GET", "/task", login="bad") == (401, "")
    status, wrong = await camunda("GET", "/history/process-instance/999")
    assert status == 404 and wrong["code"] is None


@pytest.mark.parametrize(("name", "status"), [("user1", 204), ("camunda-admin", 204), ("user_1", 500), ("ou_abc", 500)])
async def test_camunda_s_users_are_letters_and_digits(camunda: Caller, name: str, status: int) -> None:
    assert (await camunda("POST", "/user/create", {"profile": {"id": name}}))[0] == status


async def test_camunda_gives_everything_and_writes_dates_in_its_own_way(camunda: Caller) -> None:
    for _ in range(12):
        await camunda_task(camunda)
    _, rows = await camunda("GET", "/task?assignee=user_2")
    assert len(rows) == 12 and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+0000", rows[0]["created"])


async def test_of_twenty_who_complete_at_once_one_succeeds_and_the_losers_hear_different_things(
    flowable: Caller, camunda: Caller
) -> None:
    task, other = await flowable_task(flowable), await camunda_task(camunda)
    flowable.world.face.crowded = camunda.world.face.crowded = True
    done = {"action": "complete", "variables": [{"name": "decision", "value": "approve"}]}
    answers = await asyncio.gather(*(flowable("POST", f"/runtime/tasks/{task}", done) for _ in range(20)))
    assert [s for s, _ in answers].count(200) == 1 and {s for s, _ in answers} <= {200, 404, 500}
    answers = await asyncio.gather(*(camunda("POST", f"/task/{other}/complete", {}) for _ in range(20)))
    assert sorted(s for s, _ in answers) == [204] + [500] * 19


async def test_neither_checks_who_completes_or_removes(flowable: Caller, camunda: Caller) -> None:
    task = await flowable_task(flowable)
    (run,) = flowable.world.face.runner.state.runs
    assert (await flowable("DELETE", f"/runtime/process-instances/{run}?deleteReason=withdraw"))[0] == 204
    assert (await flowable("GET", f"/runtime/tasks/{task}"))[0] == 404
    await camunda_task(camunda)
    (run,) = camunda.world.face.runner.state.runs
    assert (await camunda("DELETE", f"/process-instance/{run}"))[0] == 204
    _, past = await camunda("GET", f"/history/process-instance/{run}")
    assert past["state"] == "EXTERNALLY_TERMINATED"
