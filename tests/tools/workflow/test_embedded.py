"""The engine as its callers see it: what is not there, how ids may be written, what is repeated, and who is told."""

from datetime import timedelta
from typing import Any

import pytest

from tests.harness.corpus import corpus
from tests.harness.memory_store import MemoryStore
from tests.tools.office import LI, NOW, SICK, TAXI, WANG, ZHANG, decide, office, refused, withdraw
from tools.workflow.engine.commands import (
    CcCommand,
    CommentCommand,
    DecideCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.state import Decision, Delegation, Status
from tools.workflow.engine.store import RequestChange, StartContext, WriteConflictError

GONE = "L-9999" + "9" * 50
OF_REQUESTS = [
    WithdrawCommand(request=GONE, actor=ZHANG.id),
    CommentCommand(request=GONE, actor=ZHANG.id, text="?"),
    CcCommand(request=GONE, actor=ZHANG.id, people=(LI.id,)),
]
OF_TASKS = [
    DecideCommand(task=f"{GONE}-1", actor=LI.id, decision=Decision.APPROVE),
    TransferCommand(task=f"{GONE}-1", actor=LI.id, person=ZHANG.id),
    UrgeCommand(task=f"{GONE}-1", actor=ZHANG.id),
]


@corpus("command", [*OF_REQUESTS, *OF_TASKS])
async def test_a_command_for_what_is_not_there_says_so(command: Any) -> None:
    engine, code = office().engine, "no_request" if command in OF_REQUESTS else "no_task"
    for attempt in (engine.preview_command(command, NOW), engine.execute_command(command, "k", NOW)):
        error = await refused(attempt)
        assert (error.code, error.params) == (code, {code.removeprefix("no_"): GONE[:40]})
        assert GONE[:40] in error.text and GONE[:41] not in error.text


async def test_who_looks_for_what_is_not_there_is_told() -> None:
    engine = office().engine
    for look, code in (
        (engine.get_request(GONE), "no_request"),
        (engine.get_task(f"{GONE}-1"), "no_task"),
        (engine.list_task_deputies(f"{GONE}-1", NOW), "no_task"),
        (engine.end_delegation(ZHANG.id, GONE, NOW), "no_delegation"),
    ):
        assert (await refused(look)).code == code
    assert await engine.list_events(GONE) == () == await engine.list_own_requests(ZHANG.id)
    assert await engine.list_decided_tasks(LI.id) == () == await engine.list_cc_requests(LI.id)


async def test_an_id_is_read_in_any_case_and_with_blanks_around_it_and_a_command_without_a_key_is_a_mistake() -> None:
    engine = office().engine
    await engine.start_request("leave", SICK, ZHANG.id, "start", NOW)
    assert (await engine.get_request(" l-0001 ")).id == "L-0001"
    assert len(await engine.list_events(" l-0001 ")) == 1
    assert (await engine.get_task(" L-0001-1 ")).task.id == "L-0001-1"
    command = WithdrawCommand(request=" l-0001 ", actor=ZHANG.id)
    assert (await engine.preview_command(command, NOW)).status is Status.WITHDRAWN
    assert (await engine.get_request("L-0001")).status is Status.WAITING, "a look changes nothing"
    with pytest.raises(ValueError, match="idempotency key"):
        await engine.start_request("leave", SICK, ZHANG.id, "", NOW)
    with pytest.raises(ValueError, match="idempotency key"):
        await engine.execute_command(OF_REQUESTS[0], "", NOW)


class Busy(MemoryStore):
    """A store in which somebody else is always quicker."""

    async def save_change(self, change: RequestChange) -> str:
        raise WriteConflictError(change.after.id)


async def test_a_timer_of_what_has_ended_goes_and_one_that_somebody_else_holds_up_comes_again() -> None:
    store = MemoryStore()
    engine = office(store).engine
    await engine.start_request("leave", SICK, ZHANG.id, "start", NOW)
    timers = dict(await store.list_members("timers"))
    assert timers
    late = NOW + timedelta(weeks=14)
    busy = Busy(requests=store.requests, records=store.records, files=store.files, lists=store.lists)
    held_up = office(busy).engine
    assert await held_up.run_due_jobs(late) == len(timers)
    assert dict(await store.list_members("timers")) == timers
    assert (await refused(withdraw(held_up, "L-0001", ZHANG.id))).code == "busy"
    await withdraw(engine, "L-0001", ZHANG.id)
    store.lists["timers", ""] = {**timers, "L-0001-1|another": 1, f"{GONE}-1|x": 1}
    assert await engine.run_due_jobs(late) == len(timers) + 2
    assert await store.list_members("timers") == ()


class OvertakenStore(MemoryStore):
    """The first look at a start sees the requests that another process has just stored, and not yet the answer."""

    looks = 0

    async def load_start_context(self, key: str, person: str) -> StartContext:
        self.looks += 1
        found = await super().load_start_context(key, person)
        return found._replace(answer=None) if self.looks == 1 else found


@pytest.mark.parametrize(
    ("process", "form", "refusal"), [("leave", SICK, "overlap"), ("expense", TAXI, "started_already")]
)
async def test_a_start_that_another_process_has_made_gets_its_answer(
    process: str, form: dict[str, str], refusal: str
) -> None:
    """By now its own days are taken, or the same was started a moment ago: by this very command."""
    store = MemoryStore()
    first = await office(store).engine.start_request(process, form, ZHANG.id, "same", NOW, again="")
    overtaken = OvertakenStore(**vars(store))
    engine = office(overtaken).engine
    assert await engine.start_request(process, form, ZHANG.id, "same", NOW, again="") == first
    assert overtaken.looks == 2 and [r.id for r in await engine.list_own_requests(ZHANG.id)] == [first.request]
    error = await refused(engine.start_request(process, form, ZHANG.id, "another", NOW, again=""))
    assert error.code == refusal, "another command has no answer, and hears why"


async def test_who_is_told_is_told_the_names_of_who_did_it_and_for_whom() -> None:
    engine = office().engine
    await engine.start_request("leave", SICK, ZHANG.id, "start", NOW)
    away = Delegation(id="d", person=LI.id, deputy=WANG.id, start=NOW, end=NOW + timedelta(days=9))
    await engine.add_delegation(away, NOW)
    await decide(engine, "L-0001-1", WANG.id, Decision.APPROVE, "好")
    told = {one.kind: one.data for one in await engine.list_outbox(99)}
    assert {"by_name": WANG.name, "for_name": LI.name, "behalf": LI.id}.items() <= told["ended"].items()
    assert told["task_closed"]["by_name"] == WANG.name and "for_name" not in told["task_closed"]
    assert told["assigned"]["by_name"] == "", "nobody did it"
