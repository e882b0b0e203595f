"""The same start twice within a process's own time, on every store: one starts, the other asks."""

import asyncio
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from tests.tools.company import CHOICE
from tests.tools.office import NOW, SICK, TAXI, office, withdraw
from tools.spec import ToolError
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.port import CommandResult
from tools.workflow.engine.store import RedisStore
from tools.workflow.process.definition import compile_process, load_shipped_processes, parse_form

EXPENSE = next(one for one in load_shipped_processes() if one.key == "expense")


@pytest.fixture
def engine(redis: Redis) -> EmbeddedEngine:
    return office(RedisStore(redis), policy=CHOICE).engine


async def start(
    engine: EmbeddedEngine, key: str, again: str | None = "", minutes: float = 0, author: str = "U1", **change: str
) -> CommandResult:
    now = NOW + timedelta(minutes=minutes)
    return await engine.start_request("expense", {**TAXI, **change}, author, key, now, again=again)


async def asked(engine: EmbeddedEngine, key: str, again: str | None = "", **more: float) -> str:
    """The request that the author is asked about."""
    with pytest.raises(ToolError) as told:
        await start(engine, key, again, **more)
    assert told.value.code == "started_already"
    return str(told.value.params["request"])


async def test_the_same_is_asked_about_for_its_time_and_started_knowingly(engine: EmbeddedEngine) -> None:
    assert (await start(engine, "a")).request == "E-0001"
    assert await asked(engine, "b", minutes=2) == "E-0001"
    assert (await start(engine, "a")).request == "E-0001", "the same command is answered, not asked about"
    assert (await start(engine, "b", "E-0001", minutes=2)).request == "E-0002"
    assert await asked(engine, "c", "E-0001", minutes=3) == "E-0002", "what they know of is not all that there is"
    assert await asked(engine, "c", minutes=11.9) == "E-0002"
    assert (await start(engine, "c", minutes=12)).request == "E-0003"


async def test_what_differs_in_anything_or_is_somebody_elses_or_withdrawn_is_not_the_same(
    engine: EmbeddedEngine,
) -> None:
    await start(engine, "a")
    for n, change in enumerate(({"amount": "87"}, {"reason": "回公司"}, {"category": "meals"}, {"author": "U4"}), 2):
        assert (await start(engine, f"b{n}", **change)).request == f"E-{n:04d}"
    for n in range(25):
        await start(engine, f"k{n}", reason=f"去客户现场 {n}", minutes=1)
    assert await asked(engine, "c", minutes=2) == "E-0001", "many others since do not hide it"
    await withdraw(engine, "E-0001", "U1")
    assert (await start(engine, "c", minutes=2)).request == "E-0031"
    await engine.start_request("leave", SICK, "U1", "d", NOW, again="")
    with pytest.raises(ToolError) as told:
        await engine.start_request("leave", SICK, "U1", "e", NOW, again="")
    assert told.value.code == "overlap", "as ever"


async def test_of_many_at_once_one_starts(engine: EmbeddedEngine) -> None:
    done = await asyncio.gather(*(start(engine, f"k{n}") for n in range(8)), return_exceptions=True)
    assert len([one for one in done if isinstance(one, CommandResult)]) == 1
    assert {one.code for one in done if isinstance(one, ToolError)} == {"started_already"}
    assert len(await engine.list_own_requests("U1")) == 1


async def test_without_the_question_all_of_them_start_and_of_one_command_one(engine: EmbeddedEngine) -> None:
    """Negative control: `again` None is a start that nobody can be asked about."""
    done = await asyncio.gather(*(start(engine, f"k{n}", None) for n in range(8)))
    assert len({one.request for one in done}) == 8
    done = await asyncio.gather(*(start(engine, "same", amount="1") for _ in range(8)))
    assert {one.request for one in done} == {"E-0009"}


async def test_a_form_without_the_rows_has_the_window_and_a_window_of_nothing_never_asks(redis: Redis) -> None:
    free = compile_process(EXPENSE.bpmn, EXPENSE.toml.replace(b"again_minutes = 10", b"again_minutes = 0"))
    engine = office(RedisStore(redis)).engine
    await engine.deploy_process(free)
    assert [(await start(engine, key)).request for key in "ab"] == ["E-0001", "E-0002"]
    rows = [line for line in EXPENSE.toml.decode().splitlines() if not line.startswith(("again_minutes", "identical"))]
    form = parse_form("\n".join(rows).encode())
    assert (form.again_minutes, form.identical) == (10, ())
