"""An engine that is away, that refuses us, or that is not an engine; what never leaves this process; and who a person
is in the engine: by table, or by their own id where the engine accepts it, never somebody else."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import unused_port
from pydantic import SecretStr

from tests.harness.corpus import corpus
from tests.tools.office import NOW, SICK, People, refused
from tests.tools.workflow.remote.company import LI, PEOPLE, SOFA, TABLE, WANG, ZHANG, ZHAO, PresentPeople, World
from tests.tools.workflow.remote.proxy import Fault, serving
from tools.workflow.engine.commands import DecideCommand
from tools.workflow.engine.state import Decision
from tools.workflow.remote import rest_client
from tools.workflow.remote.engine_users import EngineUsers, InvalidUsersError, read_users
from tools.workflow.remote.rest_client import EngineNoAnswerError, EngineNotFoundError, EngineRefusedError, RestClient


async def test_a_wrong_login_is_said_to_be_one_and_never_shown(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = world.another(world.marks, password="not-the-pässword")
    start = wrong.start_request("leave", SICK, "U1", "k", NOW)
    for work in (wrong.list_todo_tasks(LI.id, NOW), start, wrong.get_request("L-0001")):
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
    start = away.start_request("leave", SICK, "U1", "k", NOW)
    approve = DecideCommand(task=task, actor=LI.id, decision=Decision.APPROVE)
    for work in (away.list_todo_tasks(LI.id, NOW), start, away.execute_command(approve, "d", NOW)):
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
            await rest.write("POST", rest_client.SIBLING, "jobs", "a")
    assert seen == ["/base/task/1%2F..%2F..%2Fx%3Fy%23z%20%E8%AF%B7", "/jobs/a"]


def users(table: dict[str, str]) -> EngineUsers:
    return EngineUsers(table, People(list(PEOPLE)))


async def test_everybody_is_found_there_and_back_and_nobody_is_somebody_else_s_user() -> None:
    known = users(TABLE)
    names = {p.id: await known.get_engine_user(p.id) for p in PEOPLE}
    assert names == {"U1": "U1", "U2": "lisi", "U3": "U3", "ou_4": "zhaoliu"}
    assert [await known.resolve_person_id(u) for u in names.values()] == [p.id for p in PEOPLE]
    assert await known.resolve_person_id("demo") == "demo", "a user that nobody stands for"
    taken = users({"U2": "U3"})  # as 王五 would be called without the table
    assert await taken.get_engine_user(LI.id) == "U3" and not await taken.find_engine_user(WANG.id)
    assert (await refused(taken.get_engine_user(WANG.id))).code == "no_engine_user"
    assert await users({}).get_engine_user(ZHAO.id) == "ou_4", "any text may be an assignee"


async def test_who_has_left_keeps_their_user() -> None:
    left = LI.model_copy(update={"active": False})
    known = EngineUsers(TABLE, PresentPeople([ZHANG, left, WANG]))
    assert await known.get_engine_user(LI.id) == "lisi" and await known.resolve_person_id("lisi") == LI.id
    heir = ZHANG.model_copy(update={"email": LI.email})
    taken = EngineUsers(TABLE, PresentPeople([heir, left]))
    assert not await taken.find_engine_user(LI.id), "their address is somebody else's now"
    assert await taken.resolve_person_id("lisi") == heir.id


async def test_the_engine_knows_people_by_its_own_names_and_who_has_none_is_not_asked(world: World) -> None:
    world.people.known = [p.model_copy(update={"id": "lisi"}) if p is ZHAO else p for p in PEOPLE]
    assert (await refused(world.start(SOFA, "spend"))).code == "no_engine_user" and not await world.count_instances()
    await world.start(SICK)
    variables = await world.load_variables("L-0001")
    assert (variables["initiator"], variables["approver"]) == (ZHANG.id, "lisi")
    assert (await world.engine.get_request("L-0001")).waits_for == (LI.id,)


@corpus(
    "text",
    '[users]\n"lisi@example.com" = "lisi"\n"ou_4" = "zhaoliu"\n', "[users", "[users]\nU1 = 1",
    '[users]\nU1 = "a"\nU2 = "a"', 'users = "x"', "\xff",
)  # fmt: skip
def test_the_table_is_read_from_a_file_and_refused_where_it_cannot_be_meant(tmp_path: Path, text: str) -> None:
    file = tmp_path / "users.toml"
    file.write_bytes(text.encode("latin-1"))
    if "ou_4" in text:
        assert (read_users(file), read_users(None)) == (TABLE, {})
    else:
        with pytest.raises(InvalidUsersError, match=r"users\.toml"):
            read_users(file)
    with pytest.raises(InvalidUsersError):
        read_users(tmp_path / "none.toml")
