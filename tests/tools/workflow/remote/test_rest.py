"""An engine that is away, that refuses us, or that is not an engine; and what never leaves this process."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import unused_port
from pydantic import SecretStr

from tests.harness.corpus import corpus
from tests.tools.workflow.remote.company import LI, NOW, SICK, World, refused
from tests.tools.workflow.remote.proxy import Fault, serving
from tools.workflow.engine.commands import DecideCommand
from tools.workflow.engine.state import Decision
from tools.workflow.remote.rest_client import (
    SIBLING,
    EngineNoAnswerError,
    EngineNotFoundError,
    EngineRefusedError,
    RestClient,
)


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


async def test_an_engine_that_is_away_or_does_not_answer_is_said_to_be_away_and_changed_nothing(world: World) -> None:
    await world.start(SICK)
    task = await world.task("L-0001")
    world.proxy.faults.append(("historic-process-instances" if world.is_flowable else "process-instance", Fault.LOST))
    assert (await refused(world.another(world.marks, timeout_s=5).list_own_requests("U1"))).code == "engine_down"
    world.url = f"http://127.0.0.1:{unused_port()}/x"
    away = world.another(world.marks)
    for work in (
        away.list_todo_tasks(LI.id, NOW),
        away.start_request("leave", SICK, "U1", "k", NOW),
        away.execute_command(DecideCommand(task=task, actor=LI.id, decision=Decision.APPROVE), "d", NOW),
    ):
        error = await refused(work)
        assert error.code == "engine_down" and "127.0.0.1" not in error.text


@asynccontextmanager
async def talking_to(answer: Callable[[web.Request], web.Response]) -> AsyncIterator[RestClient]:
    """Somebody else's server, which answers everything in one way."""

    async def serve(request: web.Request) -> web.Response:
        return answer(request)

    async with serving(serve) as server, ClientSession() as session:
        yield RestClient(session, str(server.make_url("/base/")), "u", SecretStr("p"), 5)


@corpus(
    ("text", "status", "read", "written"),
    [
        ("<html>hello</html>", 200, "engine_failed", None),
        ("", 403, "engine_refused", None),
        ("boom", 400, "engine_failed", None),
        ("boom", 500, "engine_down", None),
        ("boom", 503, "engine_down", None),
        ('{"message": "no"}', 400, "engine_failed", EngineRefusedError),
        ('{"message": "no"}', 404, "", EngineRefusedError),
        ('{"message": "no"}', 409, "engine_failed", EngineRefusedError),
        ('{"message": "no"}', 500, "engine_failed", EngineRefusedError),
        # What proxies answer in place of what is behind them (the last three: Cloudflare) is none of the engine's.
        *(("<html>boom</html>", status, "", EngineNoAnswerError) for status in (408, 502, 503, 504, 520, 522, 524)),
    ],
)
async def test_what_is_no_answer_of_an_engine_is_told_from_what_is_one(
    text: str, status: int, read: str, written: type[Exception] | None
) -> None:
    kind = "application/json" if text.startswith("{") else "text/html"
    async with talking_to(lambda _: web.Response(text=text, status=status, content_type=kind)) as rest:
        if read:
            error = await refused(rest.read_json("task"))
            assert error.code == read and "boom" not in error.text
        if written:
            with pytest.raises(written):
                await rest.write("POST", "task")


async def test_an_id_never_becomes_a_path() -> None:
    seen: list[str] = []

    def answer(request: web.Request) -> web.Response:
        seen.append(request.raw_path)
        return web.Response(status=404)

    async with talking_to(answer) as rest:
        with pytest.raises(EngineNotFoundError):
            await rest.read_json("task", "1/../../x?y#z 请")
        with pytest.raises(EngineNotFoundError):
            await rest.write("POST", SIBLING, "jobs", "a")
    assert seen == ["/base/task/1%2F..%2F..%2Fx%3Fy%23z%20%E8%AF%B7", "/jobs/a"]
