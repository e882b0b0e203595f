"""The engine as its callers see it: what is not there, how ids may be written, what is repeated, and who is told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.harness.memory_store import MemoryStore
from tests.tools.office import LI, NOW, SICK, WANG, ZHANG, People
from tools.spec import ToolError
from tools.workflow.engine.commands import (
    CcCommand,
    CommentCommand,
    DecideCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.state import Decision, Delegation, Status
from tools.workflow.engine.store import RequestChange, WriteConflictError
from tools.workflow.process.definition import load_shipped_processes

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


def open_engine() -> EmbeddedEngine:
    return EmbeddedEngine(MemoryStore(), load_shipped_processes(), People())


@pytest.mark.parametrize("command", [*OF_REQUESTS, *OF_TASKS])
async def test_a_command_for_what_is_not_there_says_so(command: Any) -> None:
    engine, code = open_engine(), "no_request" if command in OF_REQUESTS else "no_task"
    for attempt in (engine.preview_command(command, NOW), engine.execute_command(command, "k", NOW)):
        with pytest.raises(ToolError) as error:
            await attempt
        assert error.value.code == code
        assert error.value.params == {code.removeprefix("no_"): GONE[:40]}
        assert GONE[:40] in error.value.text and GONE[:41] not in error.value.text


async def test_who_looks_for_what_is_not_there_is_told() -> None:
    engine = open_engine()
    for look, code in (
        (engine.get_request(GONE), "no_request"),
        (engine.get_task(f"{GONE}-1"), "no_task"),
        (engine.list_task_deputies(f"{GONE}-1", NOW), "no_task"),
        (engine.end_delegation(ZHANG.id, GONE, NOW), "no_delegation"),
    ):
        with pytest.raises(ToolError) as error:
            await look
        assert error.value.code == code
    assert await engine.list_events(GONE) == () == await engine.list_own_requests(ZHANG.id)
    assert await engine.list_decided_tasks(LI.id) == () == await engine.list_cc_requests(LI.id)


async def test_an_id_is_read_in_any_case_and_with_blanks_around_it() -> None:
    engine = open_engine()
    await engine.start_request("leave", SICK, ZHANG.id, "start", NOW)
    assert (await engine.get_request(" l-0001 ")).id == "L-0001"
    assert len(await engine.list_events(" l-0001 ")) == 1
    assert (await engine.get_task(" L-0001-1 ")).task.id == "L-0001-1"
    withdraw = WithdrawCommand(request=" l-0001 ", actor=ZHANG.id)
    assert (await engine.preview_command(withdraw, NOW)).status is Status.WITHDRAWN
    assert (await engine.get_request("L-0001")).status is Status.WAITING, "a look changes nothing"


async def test_a_command_without_a_key_is_a_mistake() -> None:
    engine = open_engine()
    with pytest.raises(ValueError, match="idempotency key"):
        await engine.start_request("leave", SICK, ZHANG.id, "", NOW)
    with pytest.raises(ValueError, match="idempotency key"):
        await engine.execute_command(OF_REQUESTS[0], "", NOW)


async def test_the_same_command_again_has_the_same_answer() -> None:
    engine = open_engine()
    first = await engine.start_request("leave", SICK, ZHANG.id, "start", NOW)
    assert await engine.start_request("leave", {}, ZHANG.id, "start", NOW) == first
    decide = DecideCommand(task="L-0001-1", actor=LI.id, decision=Decision.APPROVE)
    done = await engine.execute_command(decide, "decide", NOW)
    assert await engine.execute_command(decide, "decide", NOW) == done
    assert len(await engine.list_events("L-0001")) == 2
    assert [one.task.id for one in await engine.list_decided_tasks(LI.id)] == ["L-0001-1"]
    assert (await engine.list_todo_tasks(LI.id, NOW)).tasks == ()


class Busy(MemoryStore):
    """A store in which somebody else is always quicker."""

    async def save_change(self, change: RequestChange) -> str:
        raise WriteConflictError(change.after.id)


async def test_a_timer_of_what_has_ended_goes_and_one_that_somebody_else_holds_up_comes_again() -> None:
    store = MemoryStore()
    engine = EmbeddedEngine(store, load_shipped_processes(), People())
    await engine.start_request("leave", SICK, ZHANG.id, "start", NOW)
    timers = dict(await store.list_members("timers"))
    assert timers
    late = NOW + timedelta(days=99)
    busy = Busy(requests=store.requests, records=store.records, files=store.files, lists=store.lists)
    held_up = EmbeddedEngine(busy, load_shipped_processes(), People())
    assert await held_up.run_due_jobs(late) == len(timers)
    assert dict(await store.list_members("timers")) == timers
    with pytest.raises(ToolError) as error:
        await held_up.execute_command(WithdrawCommand(request="L-0001", actor=ZHANG.id), "k", NOW)
    assert error.value.code == "busy"
    await engine.execute_command(WithdrawCommand(request="L-0001", actor=ZHANG.id), "k", NOW)
    store.lists["timers", ""] = {**timers, "L-0001-1|another": 1, f"{GONE}-1|x": 1}
    assert await engine.run_due_jobs(late) == len(timers) + 2
    assert await store.list_members("timers") == ()


async def test_who_is_told_is_told_the_names_of_who_did_it_and_for_whom() -> None:
    engine = open_engine()
    await engine.start_request("leave", SICK, ZHANG.id, "start", NOW)
    away = Delegation(id="d", person=LI.id, deputy=WANG.id, start=NOW, end=NOW + timedelta(days=9))
    await engine.add_delegation(away, NOW)
    await engine.execute_command(
        DecideCommand(task="L-0001-1", actor=WANG.id, decision=Decision.APPROVE, opinion="好"), "k", NOW
    )
    told = {one.kind: one.data for one in await engine.list_outbox(99)}
    assert {"by_name": WANG.name, "for_name": LI.name, "behalf": LI.id}.items() <= told["ended"].items()
    assert told["task_closed"]["by_name"] == WANG.name and "for_name" not in told["task_closed"]
    assert told["assigned"]["by_name"] == "", "nobody did it"
