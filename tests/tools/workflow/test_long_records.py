"""A request's record has an end: whatever is saved can be read back, and a step costs about the same all along."""

import cProfile
import pstats

import pytest

from tests.tools.office import LI, NOW, SICK, ZHANG, Office, office, refused
from tools.spec import Person, ToolError
from tools.workflow.engine import commands, embedded, reducer
from tools.workflow.engine.commands import Act, CommentCommand, DecideCommand, SignPosition, WithdrawCommand
from tools.workflow.engine.reducer import MAX_HISTORY, MAX_SIGN_DEPTH
from tools.workflow.engine.state import Decision, Status
from tools.workflow.engine.transitions import TransitionResult

CROWD = tuple(Person(id=f"C{n}", name=f"同事{n}") for n in range(80))


async def open_desk() -> Office:
    there = office()
    there.people.known += CROWD
    await there.start(SICK)
    return there


async def do(there: Office, command: Act) -> None:
    await there.engine.execute_command(command, f"k{next(there.keys)}", NOW)


async def find_task(there: Office) -> tuple[str, str]:
    """The task that waits first, and whose it is."""
    task = (await there.engine.get_request("L-0001")).open_tasks[0]
    return task.id, task.assignee


async def press(there: Office, decision: Decision, opinion: str = "") -> None:
    task, actor = await find_task(there)
    await do(there, DecideCommand(task=task, actor=actor, decision=decision, opinion=opinion))


async def nest(desk: Office, where: SignPosition, levels: int = len(CROWD)) -> int:
    """How often those who were asked can have others asked."""
    for n in range(levels):
        try:
            task, actor = await find_task(desk)
            await do(desk, commands.AddSignCommand(task=task, actor=actor, where=where, people=(CROWD[n].id,)))
        except ToolError as full:
            assert full.code == "record_full"
            return n
    return levels


@pytest.mark.parametrize("where", [SignPosition.BEFORE, SignPosition.AFTER])
async def test_who_was_asked_has_others_asked_only_so_often_and_it_goes_on(where: SignPosition) -> None:
    desk = await open_desk()
    assert await nest(desk, where) == MAX_SIGN_DEPTH
    while (await desk.engine.get_request("L-0001")).is_running:
        await press(desk, Decision.APPROVE)
    assert (await desk.engine.get_request("L-0001")).status is Status.APPROVED


async def test_without_the_limit_nothing_is_saved_that_cannot_be_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reducer, "MAX_SIGN_DEPTH", 1000)
    desk = await open_desk()
    assert 50 < await nest(desk, SignPosition.BEFORE) < len(CROWD), "the reader of JSON has an end of its own"
    events = (await desk.engine.get_request("L-0001")).events
    await press(desk, Decision.APPROVE)
    assert (await desk.engine.get_request("L-0001")).events == events + 1
    monkeypatch.setattr(embedded, "require_readable", lambda result, previous: None)
    desk = await open_desk()
    with pytest.raises(ValueError, match="recursion"):  # the negative control saves what nobody can read
        await nest(desk, SignPosition.BEFORE)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
async def test_what_is_new_is_read_back_and_what_was_read_just_now_is_not_again() -> None:
    desk = await open_desk()
    await press(desk, Decision.REJECT, opinion="请写明理由")
    request = await desk.engine.get_request("L-0001")
    (event, *_) = await desk.engine.list_events("L-0001")
    odd = request.tasks[0].model_copy(update={"round": "x"})
    spoiled = request.model_copy(update={"tasks": (odd, *request.tasks[1:])})
    with pytest.raises(ToolError) as unreadable:
        reducer.require_readable(TransitionResult(spoiled, (), event), request)
    assert unreadable.value.code == "record_full"
    reducer.require_readable(TransitionResult(spoiled, (), event), spoiled)


async def test_a_request_goes_round_only_so_often_and_can_always_be_ended() -> None:
    desk = await open_desk()
    rounds = 0
    with pytest.raises(ToolError) as error:
        while True:
            await press(desk, Decision.REJECT, opinion="请写明理由")
            await press(desk, Decision.RESUBMIT)
            rounds += 1
    assert error.value.code == "record_full" and 80 < rounds < MAX_HISTORY
    full = await refused(do(desk, CommentCommand(request="L-0001", actor=ZHANG.id, text="?")))
    assert full.code == "record_full"
    await do(desk, WithdrawCommand(request="L-0001", actor=ZHANG.id))
    assert (await desk.engine.get_request("L-0001")).status is Status.WITHDRAWN


async def test_who_is_asked_at_the_end_can_still_decide() -> None:
    desk = await open_desk()
    said = 0
    with pytest.raises(ToolError):
        while True:
            await do(desk, CommentCommand(request="L-0001", actor=ZHANG.id, text="？"))
            said += 1
    assert said > 300
    task, actor = await find_task(desk)
    for command in (
        commands.TransferCommand(task=task, actor=actor, person=CROWD[0].id),
        DecideCommand(task=task, actor=actor, decision=Decision.RETURN, opinion="退回"),
    ):
        for attempt in (desk.engine.preview_command(command, NOW), do(desk, command)):
            assert (await refused(attempt)).code == "record_full"
    await press(desk, Decision.APPROVE)
    assert (await desk.engine.get_request("L-0001")).status is Status.APPROVED and actor == LI.id


async def test_a_step_costs_about_the_same_to_the_last() -> None:
    """Counted in calls, which no other program on the machine changes."""

    async def count_calls_of_a_round() -> int:
        with cProfile.Profile() as profile:
            await press(desk, Decision.REJECT, opinion="请写明理由")
            await press(desk, Decision.RESUBMIT)
        return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]

    desk = await open_desk()
    counts = list[int]()
    with pytest.raises(ToolError):
        while True:
            counts.append(await count_calls_of_a_round())
    assert len(counts) > 80 and counts[-1] < 4 * counts[0], (counts[0], counts[-1])
