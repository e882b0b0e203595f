"""An engine that is away, that refuses us, or that is not an engine; and what never leaves this process."""

from __future__ import annotations

import logging

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer, unused_port
from pydantic import SecretStr

from tests.tools.workflow.remote.company import LI, NOW, SICK, World, refused
from tests.tools.workflow.remote.face import PASSWORD, Fault
from tools.workflow.engine.commands import DecideCommand
from tools.workflow.engine.state import Decision
from tools.workflow.remote.rest_client import EngineNoAnswerError, EngineNotFoundError, EngineRefusedError, RestClient


async def test_a_wrong_login_is_said_to_be_one_and_never_shown(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = world.another(world.marks, password="not-the-pässword")
    for work in (
        wrong.list_todo_tasks(LI.id, NOW),
        wrong.start_request("leave", SICK, "U1", "k", NOW),
        wrong.get_request("L-0001"),
    ):
        error = await refused(work)
        assert error.code == "engine_refused"
        assert "ssword" not in repr((error, error.__cause__, error.__context__, caplog.text))


async def test_an_engine_that_is_away_changed_nothing(world: World) -> None:
    await world.start(SICK)
    task = await world.task("L-0001")
    world.url = f"http://127.0.0.1:{unused_port()}/x"
    away = world.another(world.marks)
    for work in (
        away.list_todo_tasks(LI.id, NOW),
        away.start_request("leave", SICK, "U1", "k", NOW),
        away.execute_command(DecideCommand(task=task, actor=LI.id, decision=Decision.APPROVE), "d", NOW),
    ):
        error = await refused(work)
        assert error.code == "engine_down" and "127.0.0.1" not in error.text


async def test_a_reading_that_nobody_answers_is_an_engine_that_is_away(world: World) -> None:
    world.face.faults.append(
        ("historic-process-instances" if world.kind == "flowable" else "process-instance", Fault.LOST)
    )
    hurried = world.another(world.marks, timeout_s=5)
    assert (await refused(hurried.list_own_requests("U1"))).code == "engine_down"


async def plain(text: str = "", status: int = 200, **more: str) -> TestServer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=text, status=status, headers=more)

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    server = TestServer(app)
    await server.start_server()
    return server


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [
        ("<html>hello</html>", 200, "engine_failed"),
        ("boom", 400, "engine_failed"),
        ("boom", 500, "engine_down"),
        ("boom", 503, "engine_down"),
        ("", 403, "engine_refused"),
    ],
)
async def test_what_is_no_answer_of_an_engine_is_an_error(text: str, status: int, code: str) -> None:
    server = await plain(text, status)
    async with ClientSession() as session:
        rest = RestClient(session, str(server.make_url("/base")), "u", SecretStr("p"), 5)
        error = await refused(rest.read_json("task"))
        assert error.code == code and "boom" not in error.text
    await server.close()


async def test_the_login_does_not_follow_a_redirect() -> None:
    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    seen: list[str] = []
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    async with TestServer(app) as server, ClientSession() as session:
        rest = RestClient(session, str(server.make_url("/base")), "u", SecretStr(PASSWORD), 5)
        assert (await refused(rest.read_json("task"))).code == "engine_failed"
    assert seen == ["/base/task"]


async def test_an_id_never_becomes_a_path() -> None:
    async def answer(request: web.Request) -> web.Response:
        seen.append(request.raw_path)
        return web.Response(status=404)

    seen: list[str] = []
    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    async with TestServer(app) as server, ClientSession() as session:
        rest = RestClient(session, str(server.make_url("/base/")), "", SecretStr(""), 5)
        with pytest.raises(EngineNotFoundError):
            await rest.read_json("task", "1/../../x?y#z 请")
        with pytest.raises(EngineNotFoundError):
            await rest.write("POST", "jobs", "a", is_sibling=True)
    assert seen == ["/base/task/1%2F..%2F..%2Fx%3Fy%23z%20%E8%AF%B7", "/jobs/a"]


async def test_silence_is_not_an_answer() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.transport
        request.transport.close()
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{any:.*}", answer)
    async with TestServer(app) as server, ClientSession() as session:
        rest = RestClient(session, str(server.make_url("/base")), "", SecretStr(""), 5)
        with pytest.raises(EngineNoAnswerError):
            await rest.write("POST", "task")


GATEWAYS = (408, 502, 503, 504, 520, 522, 524)
"""What proxies answer in place of what is behind them (the last three: Cloudflare)."""


@pytest.mark.parametrize("status", GATEWAYS)
async def test_an_answer_of_something_in_between_is_none_of_the_engine(status: int) -> None:
    server = await plain("<html>gateway</html>", status)
    async with ClientSession() as session:
        rest = RestClient(session, str(server.make_url("/base")), "u", SecretStr("p"), 5)
        with pytest.raises(EngineNoAnswerError):
            await rest.write("POST", "task")
    await server.close()


@pytest.mark.parametrize("status", [400, 404, 409, 500])
async def test_a_refusal_of_the_engine_itself_is_one(status: int) -> None:
    """The control: not everything is unknown."""
    server = await plain('{"message": "no"}', status, **{"Content-Type": "application/json"})
    async with ClientSession() as session:
        rest = RestClient(session, str(server.make_url("/base")), "u", SecretStr("p"), 5)
        with pytest.raises(EngineRefusedError):
            await rest.write("POST", "task")
    await server.close()
