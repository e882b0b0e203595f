"""A request's record has an end: whatever is saved can be read back, and a step costs about the same all along."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.harness.memory_store import MemoryStore
from tests.tools.office import LI, NOW, SICK, ZHANG, People
from tools.spec import Person, ToolError
from tools.workflow.engine import embedded, limits
from tools.workflow.engine.commands import (
    AddSignCommand,
    CommentCommand,
    DecideCommand,
    SignPosition,
    TransferCommand,
    WithdrawCommand,
)
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.limits import MAX_HISTORY, MAX_SIGN_DEPTH
from tools.workflow.engine.port import Act
from tools.workflow.engine.state import Decision, Status
from tools.workflow.engine.transitions import TransitionResult
from tools.workflow.process.definition import load_shipped_processes

CROWD = tuple(Person(id=f"C{n}", name=f"同事{n}") for n in range(80))


class Desk:
    """One request in an engine."""

    def __init__(self) -> None:
        people = People()
        people.known += CROWD
        self.store, self.keys = MemoryStore(), 0
        self.engine = EmbeddedEngine(self.store, load_shipped_processes(), people)

    async def start(self) -> None:
        await self.engine.start_request("leave", SICK, ZHANG.id, "start", NOW)

    async def do(self, command: Act) -> None:
        self.keys += 1
        await self.engine.execute_command(command, f"k{self.keys}", NOW)

    async def task(self) -> tuple[str, str]:
        """The task that waits first, and whose it is."""
        task = (await self.engine.get_request("L-0001")).open_tasks[0]
        return task.id, task.assignee

    async def add_sign(self, person: Person, where: SignPosition) -> None:
        task, actor = await self.task()
        await self.do(AddSignCommand(task=task, actor=actor, where=where, people=(person.id,)))

    async def decide(self, decision: Decision, **more: Any) -> None:
        task, actor = await self.task()
        await self.do(DecideCommand(task=task, actor=actor, decision=decision, **more))


async def nest(desk: Desk, where: SignPosition, levels: int = len(CROWD)) -> int:
    """How often those who were asked can have others asked."""
    for n in range(levels):
        try:
            await desk.add_sign(CROWD[n], where)
        except ToolError as full:
            assert full.code == "record_full"
            return n
    return levels


@pytest.mark.parametrize("where", [SignPosition.BEFORE, SignPosition.AFTER])
async def test_who_was_asked_has_others_asked_only_so_often_and_it_goes_on(where: SignPosition) -> None:
    desk = Desk()
    await desk.start()
    assert await nest(desk, where) == MAX_SIGN_DEPTH
    while (await desk.engine.get_request("L-0001")).is_running:
        await desk.decide(Decision.APPROVE)
    assert (await desk.engine.get_request("L-0001")).status is Status.APPROVED


async def test_without_the_limit_nothing_is_saved_that_cannot_be_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_SIGN_DEPTH", 1000)
    desk = Desk()
    await desk.start()
    reached = await nest(desk, SignPosition.BEFORE)
    assert 50 < reached < len(CROWD), "the reader of JSON has an end of its own"
    events = (await desk.engine.get_request("L-0001")).events
    await desk.decide(Decision.APPROVE)
    assert (await desk.engine.get_request("L-0001")).events == events + 1
    monkeypatch.setattr(embedded, "require_readable", lambda result, previous: None)
    desk = Desk()
    await desk.start()
    with pytest.raises(ValueError, match="recursion"):  # the negative control saves what nobody can read
        await nest(desk, SignPosition.BEFORE)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
async def test_what_is_new_is_read_back_and_what_was_read_just_now_is_not_again() -> None:
    desk = Desk()
    await desk.start()
    await desk.decide(Decision.REJECT, opinion="请写明理由")
    request = await desk.engine.get_request("L-0001")
    (event, *_) = await desk.engine.list_events("L-0001")
    odd = request.tasks[0].model_copy(update={"round": "x"})
    spoiled = request.model_copy(update={"tasks": (odd, *request.tasks[1:])})
    with pytest.raises(ToolError) as unreadable:
        limits.require_readable(TransitionResult(spoiled, (), event), request)
    assert unreadable.value.code == "record_full"
    limits.require_readable(TransitionResult(spoiled, (), event), spoiled)


async def test_a_request_goes_round_only_so_often_and_can_always_be_ended() -> None:
    desk = Desk()
    await desk.start()
    rounds = 0
    with pytest.raises(ToolError) as error:
        while True:
            await desk.decide(Decision.REJECT, opinion="请写明理由")
            await desk.decide(Decision.RESUBMIT)
            rounds += 1
    assert error.value.code == "record_full" and 80 < rounds < MAX_HISTORY
    with pytest.raises(ToolError) as error:
        await desk.do(CommentCommand(request="L-0001", actor=ZHANG.id, text="?"))
    assert error.value.code == "record_full"
    await desk.do(WithdrawCommand(request="L-0001", actor=ZHANG.id))
    assert (await desk.engine.get_request("L-0001")).status is Status.WITHDRAWN


async def test_who_is_asked_at_the_end_can_still_decide() -> None:
    desk = Desk()
    await desk.start()
    said = 0
    with pytest.raises(ToolError):
        while True:
            await desk.do(CommentCommand(request="L-0001", actor=ZHANG.id, text="？"))
            said += 1
    assert said > 300
    task, actor = await desk.task()
    for refused in (
        TransferCommand(task=task, actor=actor, person=CROWD[0].id),
        DecideCommand(task=task, actor=actor, decision=Decision.RETURN, opinion="退回"),
    ):
        for attempt in (desk.engine.preview_command(refused, NOW), desk.do(refused)):
            with pytest.raises(ToolError) as full:
                await attempt
            assert full.value.code == "record_full"
    await desk.decide(Decision.APPROVE)
    assert (await desk.engine.get_request("L-0001")).status is Status.APPROVED and actor == LI.id


async def test_a_step_costs_about_the_same_to_the_last() -> None:
    """Counted in calls, which no other program on the machine changes."""

    async def count_calls_of_a_round() -> int:
        count = 0

        def see(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(see)
        try:
            await desk.decide(Decision.REJECT, opinion="请写明理由")
            await desk.decide(Decision.RESUBMIT)
        finally:
            sys.setprofile(None)
        return count

    desk = Desk()
    await desk.start()
    counts = list[int]()
    with pytest.raises(ToolError):
        while True:
            counts.append(await count_calls_of_a_round())
    assert len(counts) > 80 and counts[-1] < 4 * counts[0], (counts[0], counts[-1])
