"""What an administrator is told of an engine, at the start and by `countersign doctor`; and what they deploy to it."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import ClientSession
from pydantic import SecretStr
from yarl import URL

from tests.engines.launch import NoEngineError, read_class_path, running_engine
from tests.harness.memory_key_value_store import MemoryKeyValueStore
from tests.tools.office import NOW, SICK, refused
from tests.tools.workflow.remote.company import GHOST, LI, SPEND, ZHANG, World, build_alike
from tests.tools.workflow.remote.proxy import LOGIN, PASSWORD, Fault
from tools.workflow.engine.state import Status
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes
from tools.workflow.remote.api import EngineName
from tools.workflow.remote.open_engine import APIS, CAMUNDA_PATH, EngineAddress, check_engine
from tools.workflow.remote.process_versions import convert_to_engine
from tools.workflow.remote.rest_client import RestClient

LEAVE = load_shipped_processes()[0]
STRICTER = compile_process(LEAVE.bpmn.replace(b"${days &lt;= 1}", b"${days &lt;= 0.5}"), LEAVE.toml)
BRIEF = LEAVE.bpmn.replace(b'historyTimeToLive="P365D"', b'historyTimeToLive="P30D"')
VERSIONS = {"operaton": "Operaton 1.0.3", "camunda": "Camunda 7.23.0", "flowable": "Flowable 7.1.0"}

HISTORY = "it keeps no variables of ended requests: set its history level to audit or full"
GIVEN_UP = "jobs that it has given up: 1. Their requests stand still until they are retried on its own pages"


async def look(kind: EngineName, url: str, *processes: Process, password: str = PASSWORD) -> list[tuple[str, str]]:
    address = EngineAddress(kind=kind, url=url, user=LOGIN, password=SecretStr(password), timeout_s=10)
    return [tuple(one) for one in await check_engine(address, processes)]  # type: ignore[misc]


async def test_an_engine_that_can_be_used_is_told_with_its_version_and_what_is_deployed(world: World) -> None:
    first, leave, spend = await look(world.kind, world.url, LEAVE, SPEND)
    assert first == ("ok", f"{VERSIONS[world.kind]} answers and takes the login")
    kept = {"leave": "; its ended requests stay 365 days (historyTimeToLive)", "spend": "; its ended requests stay 365"}
    for name, (level, text) in (("leave", leave), ("spend", spend)):
        assert level == "ok" and text.startswith(f"{name} is deployed, and means what ours means"), text
        assert world.is_flowable or kept[name] in text
    assert not [call for call in world.proxy.calls if call[0] != "GET"], "nothing is changed there"


async def test_what_is_missing_or_means_something_else_is_told_with_the_command_that_mends_it(world: World) -> None:
    await world.deploy(convert_to_engine(STRICTER.bpmn, world.kind))
    _, leave, ghost = await look(world.kind, world.url, LEAVE, GHOST)
    assert leave == ("fail", "the engine has another process called 'leave': countersign processes deploy leave")
    cure = "countersign processes deploy ghost.bpmn"
    assert ghost == ("fail", f"process 'ghost' is not deployed to the engine: {cure}")
    if not world.is_flowable:
        await world.deploy(convert_to_engine(BRIEF, world.kind))
        (level, text) = (await look(world.kind, world.url, LEAVE))[1]
        assert level == "warn" and "stay 30 days (historyTimeToLive), too few" in text


async def test_an_engine_that_cannot_be_used_is_told_with_the_setting_to_mend(world: World) -> None:
    url = URL(world.url)
    other = "camunda" if world.is_flowable else "flowable"
    cases = {
        "refuses the login: check ENGINE_USER": look(world.kind, world.url, LEAVE, password="other"),
        "cannot be reached: check ENGINE_URL": look(world.kind, "http://127.0.0.1:1/engine-rest", LEAVE),
        "something answers, but not this engine": look(world.kind, str(url.with_path("/other")), LEAVE),
        "": look(other, world.url, LEAVE),
    }
    for said, looking in cases.items():
        ((level, text),) = await looking
        assert level == "fail" and said in text and "127.0.0.1" not in text and PASSWORD not in text
        if "not this engine" in said:
            assert (CAMUNDA_PATH in text) != world.is_flowable


async def test_requests_that_stand_still_because_the_engine_has_given_up_are_told(world: World) -> None:
    if world.is_flowable:
        pytest.skip("see the next test: nobody can tell Flowable to give up")
    await world.start(SICK)
    assert len(await look(world.kind, world.url, LEAVE)) == 2, "the control: its timers are waiting"
    (timer, *_) = await world.rest.read_json("job")
    await world.rest.write("PUT", "job", timer["id"], "retries", body={"retries": 0})
    assert ("fail", GIVEN_UP) in await look(world.kind, world.url, LEAVE)
    assert len(await look(world.kind, world.url, SPEND)) == 2, "those of other processes are others' matter"


@pytest.mark.slow
async def test_what_a_killed_flowable_leaves_locked_is_told_and_that_it_keeps_no_history(tmp_path: Path) -> None:
    """The rows are written here: a kill seldom hits the moment."""
    database = f"file:{tmp_path}/engine;AUTO_SERVER=TRUE"
    made, until = datetime.now(UTC) - timedelta(minutes=5), datetime.now(UTC) + timedelta(minutes=55)
    rows = [("JOB", "j1", "killed"), ("DEADLETTER_JOB", "j2", "")]
    try:
        jars = read_class_path("flowable")
        with (
            (tmp_path / "log").open("w") as log,
            running_engine("flowable", log, database=database, more={"flowable.history-level": "none"}) as url,
        ):
            async with ClientSession() as session:
                rest = RestClient(session, url, "", SecretStr(""), 60)
                api = APIS["flowable"](rest)
                await api.deploy_file("leave.bpmn", convert_to_engine(LEAVE.bpmn, "flowable"))
                definition = await api.find_definition_id("leave")
                await api.start_instance(definition, "L-0001", {"days": 3.0, "approver": "U2"})
                instance = (await rest.read_json("runtime", "process-instances"))["data"][0]["id"]
                assert [text for level, text in await look("flowable", url, LEAVE) if level != "ok"] == [HISTORY]
                shell = ["java", "-cp", jars, "org.h2.tools.Shell", "-url", f"jdbc:h2:{database}", "-user", ""]
                for table, name, owner in rows:
                    values = {"ID_": name, "REV_": 1, "TYPE_": "message", "EXCLUSIVE_": True, "CREATE_TIME_": made}
                    values |= {"PROC_DEF_ID_": definition, "PROCESS_INSTANCE_ID_": instance, "TENANT_ID_": ""}
                    values |= {"LOCK_OWNER_": owner, "LOCK_EXP_TIME_": until, "RETRIES_": 3} if owner else {}
                    texts = [f"'{one:%F %T}'" if isinstance(one, datetime) else repr(one) for one in values.values()]
                    sql = f"INSERT INTO ACT_RU_{table} ({', '.join(values)}) VALUES ({', '.join(texts)})"
                    done = subprocess.run([*shell, "-password", "", "-sql", sql], capture_output=True, text=True)
                    assert "Update count: 1" in done.stdout, done.stdout + done.stderr
                found = [text for level, text in await look("flowable", url, LEAVE) if level != "ok"]
                assert found[:2] == [HISTORY, GIVEN_UP]
                assert f"a job of {instance} is locked until {until:%H:%M} UTC" in found[2], found
                assert 'POST management/jobs/j1 {"action": "execute"}' in found[2]
                assert len([one for one in await look("flowable", url, SPEND) if one[0] == "fail"]) == 2, "not its own"
    except NoEngineError as missing:
        pytest.skip(str(missing))


OWN = build_alike("spend", "desk", "D")
DAY = {**SICK, "start_date": "2026-12-01", "end_date": "2026-12-01", "leave_type": "personal"}


async def test_a_process_of_one_s_own_is_deployed_and_runs_in_every_bot(world: World) -> None:
    other = world.another(world.marks)
    assert (await refused(world.start({"amount": "20", "approver": LI.id}, "desk"))).code == "unknown_process"
    await world.engine.deploy_process(OWN)
    started = await other.start_request("desk", {"amount": "20", "approver": LI.id}, ZHANG.id, "k", NOW)
    assert (started.request, started.waits_for) == ("D-0001", (LI.id,))
    assert OWN.key in [process.key for process in await other.list_processes()]
    assert ("assigned", LI.id) in [(e.kind, e.data["person"]) for e in await other.list_outbox(10)], "it is polled"
    assert (await world.decide(await world.task("D-0001"), LI, "approve")).status is Status.APPROVED


async def test_a_changed_process_counts_for_new_requests_and_running_ones_keep_theirs(world: World) -> None:
    await world.start(SICK)
    world.fail("deploy", Fault.REFUSED)
    assert (await refused(world.engine.deploy_process(STRICTER))).code == "not_deployed"
    assert (await world.start(DAY)).status is Status.APPROVED, "nothing is changed: a day passes by rule"
    await world.engine.deploy_process(STRICTER)
    assert (await world.start({**DAY, "start_date": "2026-12-02", "end_date": "2026-12-02"})).waits_for == (LI.id,)
    assert (await world.decide(await world.task("L-0001"), LI, "approve")).status is Status.APPROVED


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.TOO_SLOW])
async def test_a_deployment_that_nobody_answered_is_looked_up(world: World, fault: Fault) -> None:
    world.fail("deploy", fault)
    await world.engine.deploy_process(OWN)
    assert (await world.start({"amount": "20", "approver": LI.id}, "desk")).request == "D-0001"


async def test_what_is_not_deployed_here_is_not_used(world: World) -> None:
    await world.deploy(convert_to_engine(STRICTER.bpmn, world.kind))
    assert (await refused(world.start(DAY))).code == "not_deployed"
    assert OWN.key not in [process.key for process in await world.another(MemoryKeyValueStore()).list_processes()]
