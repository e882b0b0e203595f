"""An administrator brings in a process, sees what a version changes, and moves requests to it."""

import pytest

from tests.harness.corpus import corpus
from tests.harness.memory_store import MemoryStore
from tests.harness.processes import FILES, TRIP
from tests.tools.company import LONG, NOW, SICK
from tests.tools.office import Office, decide, office, refused, withdraw
from tests.tools.workflow.history import LEAVE, NO, YES, lived, on, other
from tools.workflow.engine import administration
from tools.workflow.engine.administration import MigrationResult, ProcessDifference, compare_processes, migrate_requests
from tools.workflow.engine.audit import Verification
from tools.workflow.engine.commands import MigrateCommand, TransferCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.state import Decision, Status
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes

ROOT = "system:admin:root"
HARSH = """
    <bpmn:exclusiveGateway id="harsh" default="harsh_no">
      <bpmn:incoming>first_no</bpmn:incoming>
      <bpmn:outgoing>harsh_no</bpmn:outgoing>
      <bpmn:outgoing>harsh_yes</bpmn:outgoing>
    </bpmn:exclusiveGateway>
    <bpmn:sequenceFlow id="harsh_no" sourceRef="harsh" targetRef="revise" />
    <bpmn:sequenceFlow id="harsh_yes" sourceRef="harsh" targetRef="leave_rejected">
      <bpmn:conditionExpression>${days &gt; longest}</bpmn:conditionExpression>
    </bpmn:sequenceFlow>
    <bpmn:endEvent id="leave_rejected"><bpmn:incoming>harsh_yes</bpmn:incoming></bpmn:endEvent>
"""
"""What is rejected at the first level ends, or is revised, by a number that the form did not have."""


def rewritten(process: Process, old: str, new: str, *, form: bool = False) -> Process:
    bpmn, toml = (content.decode() for content in (process.bpmn, process.toml))
    assert old in (toml if form else bpmn)
    changed = (bpmn, toml.replace(old, new)) if form else (bpmn.replace(old, new), toml)
    return compile_process(*(text.encode() for text in changed))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def there(store: MemoryStore) -> Office:
    return office(store)


async def moved(store: MemoryStore, process: Process, *requests: str, dry: bool = False) -> list[MigrationResult]:
    return [one async for one in migrate_requests(store, process, requests, ROOT, NOW, dry=dry)]


async def outcome(store: MemoryStore, process: Process, *requests: str, dry: bool = False) -> list[str]:
    return [one.error.code if one.error else "moved" for one in await moved(store, process, *requests, dry=dry)]


async def test_a_process_of_ones_own_works_without_any_code(store: MemoryStore, there: Office) -> None:
    assert "trip" not in {p.key for p in await there.engine.list_processes()}
    trip = compile_process((FILES / "trip.bpmn").read_bytes(), (FILES / "trip.toml").read_bytes())
    await EmbeddedEngine(store, load_shipped_processes(), administration.NOBODY).deploy_process(trip)
    assert "trip" in {p.key for p in await there.engine.list_processes()}, "a bot that was running sees it at once"
    assert await there.start(TRIP, process="trip") == "T-0001"
    await decide(there.engine, "T-0001-1", "U2", YES)
    request = await there.engine.get_request("T-0001")
    assert set(request.waits_for) == {"U4", "U5"}, "finance and administration at once"
    await decide(there.engine, "T-0001-3", "U5", YES)
    assert (await there.engine.get_request("T-0001")).status is Status.WAITING
    await decide(there.engine, "T-0001-2", "U4", YES)
    request = await there.engine.get_request("T-0001")
    assert (request.status, request.cc) == (Status.APPROVED, ("U3",))
    versions = await administration.list_process_versions(store, load_shipped_processes())
    administration.reject_number_clash(
        other(LEAVE), [one.process for one in versions if one.is_current and one.process]
    )


async def test_a_version_that_is_gone_hides_no_other_and_each_says_how_many_are_under_way(store: MemoryStore) -> None:
    engine = await lived(store)
    await engine.start_request("leave", on(SICK, "21", "22"), "U1", "x", NOW)
    del store.files[other(LEAVE).definition.version]
    known = {
        v.version: v
        for v in await administration.list_process_versions(store, load_shipped_processes())
        if v.key == "leave"
    }
    gone, kept = known[other(LEAVE).version], known[LEAVE.version]
    for v, told in ((gone, (False, True, True, 2)), (kept, (True, False, False, 0))):
        assert (v.is_shipped, v.is_deployed, v.is_current, v.running_requests) == told
    assert gone.process is None and "missing" in gone.error and kept.process is not None


def test_what_another_version_changes_is_told_exactly_and_how_a_file_is_laid_out_is_no_change() -> None:
    (found,) = compare_processes(LEAVE, other(LEAVE))
    assert found == ProcessDifference("long_leave.routes[long].condition", "${days > 3}", "${days > 30}")
    longer = rewritten(LEAVE, "max_length = 500", "max_length = 900", form=True)
    assert compare_processes(LEAVE, longer) == (ProcessDifference("field[reason].max_length", "500", "900"),)
    assert compare_processes(LEAVE, LEAVE) == ()
    flows = ("      <bpmn:outgoing>long</bpmn:outgoing>\n", "      <bpmn:outgoing>not_long</bpmn:outgoing>\n")
    assert compare_processes(LEAVE, rewritten(LEAVE, flows[0] + flows[1], flows[1] + flows[0])) == ()


async def test_requests_move_with_an_event_also_there_and_back_again(store: MemoryStore, there: Office) -> None:
    await there.engine.start_request("leave", LONG, "U1", "a", NOW)
    await there.engine.deploy_process(other(LEAVE))
    for process in (other(LEAVE), LEAVE, other(LEAVE)):
        assert await outcome(store, process, "L-0001") == ["moved"]
        assert (await there.engine.get_request("L-0001")).definition == process.definition.version
        event = (await there.engine.list_events("L-0001"))[-1]
        assert isinstance(event.command, MigrateCommand) and (event.by, event.via) == (ROOT, "command")
    assert (await decide(there.engine, "L-0001-1", "U2", YES)).status is Status.APPROVED, "one level is enough there"
    assert [finding async for finding in Verification(store).verify_all()] == []


async def test_a_rehearsal_tells_the_same_and_changes_nothing(store: MemoryStore, there: Office) -> None:
    await there.engine.start_request("leave", LONG, "U1", "a", NOW)
    await there.engine.start_request("leave", on(SICK, "01", "02"), "U1", "b", NOW)
    await decide(there.engine, "L-0002-1", "U2", YES)
    before = (dict(store.requests), {k: list(v) for k, v in store.records.items()}, dict(store.files))
    assert await outcome(store, other(LEAVE), "L-0001", "L-0002", dry=True) == ["moved", "not_movable"]
    assert (store.requests, store.records, store.files) == before
    assert await outcome(store, other(LEAVE), "L-0001", "L-0002") == ["moved", "not_movable"]


HARSHER = compile_process(
    LEAVE.bpmn.decode()
    .replace("<bpmn:incoming>first_no</bpmn:incoming>", "<bpmn:incoming>harsh_no</bpmn:incoming>")
    .replace('sourceRef="first_answer" targetRef="revise" />', f'sourceRef="first_answer" targetRef="harsh" />{HARSH}')
    .encode(),
    LEAVE.toml.replace(b"[numbers]", b'[numbers]\nlongest = "30"'),
)
NUMBERED = rewritten(LEAVE, 'name = "reason"\nkind = "text"', 'name = "reason"\nkind = "number"', form=True)


@corpus(
    ("version", "code", "key", "what"),
    (rewritten(LEAVE, 'name="审批 Approval"', 'name="一级审批 First"'), "not_movable", "node", "first_level"),
    (rewritten(LEAVE, "days &lt;= 1", "days &lt;= 2"), "not_movable", "node", "length"),
    (HARSHER, "not_ready", "what", "longest"),  # else whoever rejects it could not
    (rewritten(NUMBERED, "days &gt; 3}", "reason &gt; 3}"), "not_ready", "what",
     "${reason > 3}: > needs number, not text"),
    (rewritten(LEAVE, "${second_approver}", "${approver}"), "not_ready", "what", "approver"),
    (rewritten(LEAVE, "${second_approver}", "${handover}"), "not_ready", "what", "handover"),
)  # fmt: skip
async def test_only_what_fits_the_way_of_a_request_takes_it(version: Process, code: str, key: str, what: str) -> None:
    """What was come through must be the same, and what may come must be there: nobody decides two levels of the
    version, nor is asked again in it."""
    store = MemoryStore()
    there = office(store)
    await there.engine.start_request("leave", {**LONG, "handover": "U5"}, "U1", "a", NOW)
    if what == "handover":
        await there.engine.execute_command(TransferCommand(task="L-0001-1", actor="U2", person="U5"), "b", NOW)
    error = await refused(raising(await moved(store, version, "L-0001")))
    assert (error.code, error.params[key]) == (code, what)
    assert (await there.engine.get_request("L-0001")).definition == LEAVE.definition.version


async def test_a_form_that_lacks_something_keeps_the_request_back(store: MemoryStore, there: Office) -> None:
    earlier = rewritten(LEAVE, "days &gt; 3}", "days &gt; 30}")
    await there.engine.deploy_process(earlier)
    await there.engine.start_request("leave", LONG, "U1", "a", NOW)
    error = await refused(raising(await moved(store, LEAVE, "L-0001")))
    assert (error.code, error.params["what"]) == ("not_ready", "second_approver")
    fewer = rewritten(earlier, 'name = "reason"', 'name = "why"', form=True)
    error = await refused(raising(await moved(store, fewer, "L-0001")))
    assert (error.code, error.params["what"]) == ("not_ready", "reason"), "it could not be resubmitted"


async def test_whoever_agrees_to_a_withdrawal_keeps_no_request_back_and_one_of_a_version_that_is_gone_stays(
    store: MemoryStore, there: Office
) -> None:
    await there.engine.start_request("leave", SICK, "U1", "a", NOW)
    await decide(there.engine, "L-0001-1", "U2", YES)
    await withdraw(there.engine, "L-0001", "U1")
    assert await outcome(store, rewritten(LEAVE, 'name="二级审批', 'name="第二级审批'), "L-0001") == ["moved"]
    assert (await decide(there.engine, "L-0001-2", "U2", YES)).status is Status.WITHDRAWN
    await there.engine.start_request("leave", LONG, "U1", "b", NOW)
    del store.files[LEAVE.definition.version]
    assert await outcome(store, other(LEAVE), "L-0002") == ["not_ready"]


async def test_a_way_that_only_a_resubmission_takes_has_its_people(store: MemoryStore, there: Office) -> None:
    """They are chosen and shown when the form is filled in; else whoever resubmits it could not."""
    bpmn, flow = LEAVE.bpmn.decode(), "<bpmn:incoming>resubmitted</bpmn:incoming>"
    bpmn = bpmn.replace('sourceRef="again" targetRef="length"', 'sourceRef="again" targetRef="second_level"')
    bpmn = bpmn.replace(flow, "")
    element = bpmn.index("<bpmn:incoming>", bpmn.index('<bpmn:userTask id="second_level"'))
    detour = compile_process(f"{bpmn[:element]}{flow}{bpmn[element:]}".encode(), LEAVE.toml)
    await there.engine.deploy_process(detour)
    await there.engine.start_request("leave", SICK, "U1", "a", NOW)
    assert (await there.engine.get_request("L-0001")).filled.people["second_approver"] == ("U3",)
    await decide(there.engine, "L-0001-1", "U2", NO, "太忙")
    assert (await decide(there.engine, "L-0001-2", "U1", Decision.RESUBMIT)).waits_for == ("U3",)


async def raising(moving: list[MigrationResult]) -> None:
    for one in moving:
        if one.error:
            raise one.error
