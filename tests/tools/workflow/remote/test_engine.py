"""What people can do with a request that lives in a remote engine."""

from __future__ import annotations

import pytest

from tests.harness.memory_store import MemoryStore
from tests.tools.workflow.remote.company import (
    BOSS,
    DESK,
    LI,
    LONG,
    NOW,
    SHORT,
    SICK,
    SOFA,
    VERY_LONG,
    WANG,
    ZHANG,
    ZHAO,
    World,
    refused,
)
from tests.tools.workflow.remote.face import Fault
from tools.spec import AttachedFile, EffectUnknownError, ToolError
from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.commands import (
    AddSignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    SignPosition,
    TransferCommand,
    WithdrawCommand,
)
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.state import Decision, Delegation, Status
from tools.workflow.process.definition import load_shipped_processes

MOVE = {"flowable": "/change-state", "camunda": "/modification"}
ROUNDS = (
    (LI, "approve", ""),
    (WANG, "return", "first_level"),
    (LI, "approve", ""),
    (WANG, "approve", ""),
    (BOSS, "reject", ""),
    (ZHANG, "resubmit", ""),
    (LI, "approve", ""),
    (WANG, "approve", ""),
    (BOSS, "return", "second_level"),
    (WANG, "return", ""),
    (ZHANG, "resubmit", ""),
    (LI, "approve", ""),
    (WANG, "approve", ""),
    (BOSS, "approve", ""),
)
"""Who decides what in turn on a very long leave, and where a return leads."""


async def test_three_people_take_a_long_leave_through_both_levels(world: World) -> None:
    moved = await world.start(LONG)
    assert (moved.request, moved.status, moved.waits_for, moved.days) == ("L-0001", Status.WAITING, ("U2",), "5")
    moved = await world.decide(await world.task("L-0001"), LI, "approve", "好好休息")
    assert (moved.status, moved.waits_for) == (Status.WAITING, ("U3",))
    moved = await world.decide(await world.task("L-0001"), WANG, "approve")
    assert (moved.status, moved.waits_for) == (Status.APPROVED, ())
    request = await world.engine.get_request("l-0001")
    assert [(o.by, o.decision, o.text) for o in request.opinions] == [
        ("U2", "approve", "好好休息"),
        ("U3", "approve", ""),
    ]
    assert [(t.node, t.assignee, t.outcome, t.by) for t in request.tasks] == [
        ("first_level", "U2", "approve", "U2"),
        ("second_level", "U3", "approve", "U3"),
    ]


async def test_a_short_leave_passes_by_rule_because_we_do_the_service_task(world: World) -> None:
    moved = await world.start(SHORT)
    assert (moved.status, moved.rule) == (Status.APPROVED, "short_leave")
    assert (await world.engine.get_request(moved.request)).rule == "short_leave"


async def test_a_service_task_that_we_missed_is_done_at_the_next_tick(world: World) -> None:
    world.face.faults.append(("jobs" if world.kind == "flowable" else "fetchAndLock", world.fault("REFUSED")))
    moved = await world.start(SHORT)
    assert moved.status is Status.WAITING
    for _ in range(2):
        assert await world.engine.run_due_jobs(NOW) == 0, "no timer of ours"
    assert (await world.engine.get_request(moved.request)).status is Status.APPROVED


async def test_amounts_are_compared_as_numbers_and_shown_exactly(world: World) -> None:
    await world.start(SOFA, "spend")
    moved = await world.decide(await world.task("S-0001"), LI, "approve")
    assert moved.waits_for == (ZHAO.id,), "1200.50 is above the threshold of 1000, also as text below 9"
    request = await world.engine.get_request("S-0001")
    assert request.filled.values["amount"] == "1200.50"


async def test_rejected_means_back_to_the_author_who_changes_and_resubmits_it(world: World) -> None:
    await world.start(SICK)
    moved = await world.decide(await world.task("L-0001"), LI, "reject", "那几天要上线")
    assert (moved.status, moved.waits_for) == (Status.REVISE, ("U1",))
    moved = await world.decide(await world.task("L-0001"), ZHANG, "resubmit", form={"end_date": "2026-11-27"})
    assert (moved.status, moved.waits_for, moved.days) == (Status.WAITING, ("U2",), "5")
    request = await world.engine.get_request("L-0001")
    assert request.round == 2 and request.filled.values["end_date"] == "2026-11-27"
    await world.decide(await world.task("L-0001"), LI, "approve")
    assert (await world.engine.get_request("L-0001")).waits_for == ("U3",), "the new length decides who is asked"


async def test_what_was_decided_before_a_resubmission_is_forgotten_by_the_engine(world: World) -> None:
    await world.start(SICK)
    await world.decide(await world.task("L-0001"), LI, "reject", "改一下")
    await world.decide(await world.task("L-0001"), ZHANG, "resubmit")
    (run,) = world.face.runner.state.runs.values()
    assert run.variables["decision_first_level"] == ""


async def test_the_author_gives_up_a_rejected_request(world: World) -> None:
    await world.start(SICK)
    await world.decide(await world.task("L-0001"), LI, "reject", "不行")
    moved = await world.decide(await world.task("L-0001"), ZHANG, "withdraw")
    assert moved.status is Status.WITHDRAWN


async def test_a_running_request_is_withdrawn_by_its_author_and_nobody_else(world: World) -> None:
    await world.start(SICK)
    by_li = WithdrawCommand(request="L-0001", actor=LI.id, reason="不批")
    assert (await refused(world.engine.execute_command(by_li, "w1", NOW))).code == "not_yours"
    moved = await world.engine.execute_command(
        WithdrawCommand(request="L-0001", actor=ZHANG.id, reason="不去了"), "w2", NOW
    )
    assert moved.status is Status.WITHDRAWN
    assert (await world.engine.get_request("L-0001")).status is Status.WITHDRAWN
    again = WithdrawCommand(request="L-0001", actor=ZHANG.id)
    assert (await refused(world.engine.execute_command(again, "w3", NOW))).code == "not_running"


async def test_the_second_level_returns_it_to_the_author_or_to_the_first(world: World) -> None:
    await world.start(LONG)
    await world.decide(await world.task("L-0001"), LI, "approve")
    second = await world.task("L-0001")
    moved = await world.decide(second, WANG, "return", "请李四再看", to="first_level")
    assert moved.waits_for == ("U2",)
    task = (await world.engine.get_request("L-0001")).find_task(second)
    assert task and (task.outcome, task.by) == ("return", "U3")
    moved = await world.decide(await world.task("L-0001"), LI, "return", "写清楚原因")
    assert (moved.status, moved.waits_for) == (Status.REVISE, ("U1",))
    assert (await refused(world.decide(await world.task("L-0001"), ZHANG, "approve"))).code == "bad_decision"


async def test_the_same_decisions_count_as_in_the_embedded_engine(world: World) -> None:
    """Also through a rejection, a resubmission and returns; and nothing can be returned onwards."""
    world.people.known.append(BOSS)
    store = MemoryStore()
    embedded = EmbeddedEngine(store, load_shipped_processes(), world.people)
    await world.start(VERY_LONG)
    await embedded.start_request("leave", VERY_LONG, ZHANG.id, "s", NOW)
    for n, (actor, decision, to) in enumerate(ROUNDS):
        await world.decide(await world.task("L-0001"), actor, decision, "看过了", to=to)
        (task,) = (await embedded.get_request("L-0001")).open_tasks
        command = DecideCommand(task=task.id, actor=actor.id, decision=Decision(decision), opinion="看过了", to=to)
        await embedded.execute_command(command, f"e{n}", NOW)
        here, there = await world.engine.get_request("L-0001"), await embedded.get_request("L-0001")
        assert (here.decisions, here.waits_for, here.status) == (there.decisions, there.waits_for, there.status)
        if here.round == 2 and here.waits_for == (LI.id,):
            onwards = world.decide(await world.task("L-0001"), LI, "return", "直接给二级", to="second_level")
            assert (await refused(onwards)).code == "bad_target"
    assert here.status is Status.APPROVED


async def test_what_a_return_forgets_the_engine_s_conditions_do_not_see(world: World) -> None:
    world.people.known.append(BOSS)
    await world.start(VERY_LONG)
    await world.decide(await world.task("L-0001"), LI, "approve")
    await world.decide(await world.task("L-0001"), WANG, "approve")
    await world.decide(await world.task("L-0001"), BOSS, "return", "从头再看", to="first_level")
    await world.decide(await world.task("L-0001"), LI, "approve")
    (run,) = world.face.runner.state.runs.values()
    assert (run.variables["decision_first_level"], run.variables["decision_second_level"]) == ("approve", "")


@pytest.mark.parametrize(("fault", "told"), [(Fault.REFUSED, ToolError), (Fault.SWALLOWED, EffectUnknownError)])
async def test_a_return_that_the_engine_does_not_make_changes_nothing(
    world: World, fault: Fault, told: type[Exception]
) -> None:
    await world.start(DESK, "turn")
    await world.decide(await world.task("T-0001"), LI, "approve")
    world.face.faults.append((MOVE[world.kind], fault))
    task = await world.task("T-0001")
    with pytest.raises(told):
        await world.decide(task, ZHAO, "return", "再看", to="one")
    assert (await world.engine.get_request("T-0001")).decisions == {"one": "approve"}
    world.seconds += 301 if told is EffectUnknownError else 0  # as long as it may still come true
    assert (await world.decide(task, ZHAO, "approve")).status is Status.APPROVED


async def test_a_return_that_was_refused_is_not_told_as_made_when_the_request_ends(world: World) -> None:
    await world.start(DESK, "turn")
    await world.decide(await world.task("T-0001"), LI, "approve")
    world.face.faults.append((MOVE[world.kind], Fault.REFUSED))
    task = await world.task("T-0001")
    await refused(world.decide(task, ZHAO, "return", "再看", to="one"))
    await world.engine.execute_command(WithdrawCommand(request="T-0001", actor=ZHANG.id), "w", NOW)
    request = await world.engine.get_request("T-0001")
    last = request.find_task(task)
    assert last and (last.outcome, last.by) == ("settled", "")
    assert [o.decision for o in request.opinions] == ["approve"]


async def test_a_transferred_task_is_closed_and_another_one_is_open(world: World) -> None:
    await world.start(SICK)
    task = await world.task("L-0001")
    moved = await world.engine.execute_command(
        TransferCommand(task=task, actor=LI.id, person=WANG.id, opinion="我出差"), "t1", NOW
    )
    assert moved.waits_for == ("U3",)
    first, second = (await world.engine.get_request("L-0001")).tasks
    assert (first.id, first.assignee, first.outcome) == (task, "U2", "transferred")
    assert (second.id, second.assignee, second.is_open) == (f"{task}.1", "U3", True)
    assert (await refused(world.decide(task, LI, "approve"))).code == "task_closed"
    assert (await refused(world.decide(second.id, LI, "approve"))).code == "not_assignee"
    assert (await world.decide(second.id, WANG, "approve")).status is Status.APPROVED


async def test_a_transfer_that_was_begun_and_not_made_counts_for_nothing(world: World) -> None:
    await world.start(SICK)
    task = await world.task("L-0001")
    end = f"/{task.rpartition('-')[2]}" if world.kind == "flowable" else "/assignee"
    world.face.faults.append((end, world.fault("REFUSED")))
    transfer = TransferCommand(task=task, actor=LI.id, person=WANG.id)
    assert (await refused(world.engine.execute_command(transfer, "t1", NOW))).code == "engine_failed"
    assert await world.task("L-0001") == task
    assert (await world.engine.execute_command(transfer, "t1", NOW)).waits_for == ("U3",), "the same press once more"


async def test_a_comment_is_kept_once_and_told_to_the_others(world: World) -> None:
    await world.start(SICK)
    comment = CommentCommand(request="L-0001", actor=ZHANG.id, text="病假条下午补")
    for _ in range(2):
        await world.engine.execute_command(comment, "c1", NOW)
    request = await world.engine.get_request("L-0001")
    assert [o.text for o in request.opinions] == ["病假条下午补"]
    assert [e.data["person"] for e in await world.engine.list_outbox(100) if e.kind == "commented"] == ["U2"]


async def test_who_is_told_may_read_it(world: World) -> None:
    await world.start(SICK)
    await world.engine.execute_command(CcCommand(request="L-0001", actor=ZHANG.id, people=(ZHAO.id,)), "c1", NOW)
    assert ZHAO.id in (await world.engine.get_request("L-0001")).participants


async def test_lists_are_of_one_person_and_oldest_first(world: World) -> None:
    for _ in range(12):
        await world.start(DESK, "spend")
    todo = (await world.engine.list_todo_tasks(LI.id, NOW)).tasks
    assert [a.request.id for a in todo] == [f"S-{n:04d}" for n in range(1, 13)], "more than one page of ten"
    await world.decide(todo[3].task.id, LI, "approve")
    assert [a.request.id for a in await world.engine.list_decided_tasks(LI.id)] == ["S-0004"]
    shown = await world.engine.list_todo_tasks(LI.id, NOW, 5)
    assert (len(shown.tasks), shown.total_count) == (5, 11)
    assert len(await world.engine.list_own_requests(ZHANG.id)) == 12
    assert (
        not await world.engine.list_own_requests(LI.id)
        and not (await world.engine.list_todo_tasks(WANG.id, NOW)).total_count
    )


async def test_lists_longer_than_any_page_are_whole(world: World) -> None:
    for _ in range(12):
        await world.start(DESK, "spend")
    for page in (5, 12, 13):
        engine = world.another(world.marks, page=page)
        assert (
            len(await engine.list_own_requests(ZHANG.id))
            == (await engine.list_todo_tasks(LI.id, NOW)).total_count
            == 12
        )


async def test_a_request_that_cannot_be_read_hides_no_other_one(world: World) -> None:
    await world.start(SICK)
    await world.start(DESK, "spend")
    for name in ("L-0001", "S-0001"):
        await world.engine.execute_command(
            CcCommand(request=name, actor=ZHANG.id, people=(ZHAO.id,)), f"cc {name}", NOW
        )
    world.spoil("L-0001")
    assert [r.id for r in await world.engine.list_cc_requests(ZHAO.id)] == ["S-0001"]
    assert [a.request.id for a in (await world.engine.list_todo_tasks(LI.id, NOW)).tasks] == ["S-0001"]
    assert [r.id for r in await world.engine.list_own_requests(ZHANG.id)] == ["S-0001"]
    assert (await world.start({**SICK, "start_date": "2026-12-01", "end_date": "2026-12-02"})).request == "L-0002"


async def test_the_record_names_who_did_what(world: World) -> None:
    await world.start(SICK)
    await world.decide(await world.task("L-0001"), LI, "reject", "不行")
    await world.decide(await world.task("L-0001"), ZHANG, "resubmit")
    events = await world.engine.list_events("L-0001")
    assert [(e.n, e.by, e.command.kind, e.status) for e in events] == [
        (0, "U1", "start", Status.WAITING),
        (1, "U2", "decide", Status.REVISE),
        (2, "U1", "decide", Status.WAITING),
    ]


@pytest.mark.parametrize("form", [{**SICK, "approver": "U1"}, {**SICK, "approver": "U9"}])
async def test_a_form_that_cannot_be_filled_in_starts_nothing(world: World, form: dict[str, str]) -> None:
    assert (await refused(world.start(form))).code in ("own_approver", "unknown_person")
    assert not world.face.runner.state.runs


async def test_what_these_engines_cannot_do_is_said(world: World) -> None:
    await world.start(SICK)
    task = await world.task("L-0001")
    added = AddSignCommand(task=task, actor=LI.id, where=SignPosition.BEFORE, mode=VotingMode.ALL, people=(WANG.id,))
    away = Delegation(id="d1", person=LI.id, deputy=WANG.id, start=NOW, end=NOW)
    await world.decide(task, LI, "approve")
    for work in (
        world.engine.execute_command(added, "n1", NOW),
        world.engine.execute_command(WithdrawCommand(request="L-0001", actor=ZHANG.id), "n3", NOW),
        world.engine.add_delegation(away, NOW),
        world.engine.end_delegation(LI.id, "d1", NOW),
    ):
        error = await refused(work)
        assert error.code == "not_remote" and set(error.params["what"]) == {"zh", "en"}  # type: ignore[arg-type]
    assert await world.engine.list_deputies(LI.id, NOW) == () and await world.engine.list_delegations(LI.id, NOW) == ()


@pytest.mark.parametrize("name", ["L-0001-999", "L-0001-../../x", "L-0009-1", "nothing", "", "L-0001-" + "9" * 99])
async def test_a_task_that_is_not_there_is_said_to_be_missing(world: World, name: str) -> None:
    await world.start(SICK)
    assert (await refused(world.engine.get_task(name))).code == "no_task"
    assert not [path for _, path in world.face.calls if ".." in path]


@pytest.mark.parametrize("name", ["L-0009", "L-0001/../x", "", "?businessKey=L-0001"])
async def test_a_request_that_is_not_there_is_said_to_be_missing(world: World, name: str) -> None:
    await world.start(SICK)
    assert (await refused(world.engine.get_request(name))).code == "no_request"


async def test_two_decide_at_the_same_time_and_both_have_to_agree(world: World) -> None:
    await world.start(SOFA, "pair")
    one, two = (await world.engine.get_request("P-0001")).open_tasks
    assert (one.assignee, two.assignee) == (LI.id, ZHAO.id)
    moved = await world.decide(one.id, LI, "approve")
    assert (moved.status, moved.waits_for) == (Status.WAITING, (ZHAO.id,))
    assert (await refused(world.decide(two.id, ZHAO, "return", "改"))).code == "not_remote"
    moved = await world.decide(two.id, ZHAO, "reject", "太贵")
    assert (moved.status, moved.waits_for) == (Status.REVISE, (ZHANG.id,))
    moved = await world.decide(await world.task("P-0001"), ZHANG, "resubmit", form={"amount": "900"})
    assert sorted(moved.waits_for) == sorted((LI.id, ZHAO.id))
    one, two = (await world.engine.get_request("P-0001")).open_tasks
    await world.decide(two.id, ZHAO, "approve")
    assert (await world.decide(one.id, LI, "approve")).status is Status.APPROVED


NOTE, OTHER = "a" * 64, "b" * 64


async def test_requests_with_the_same_file_are_found_whatever_it_is_called(world: World) -> None:
    """Also by another process of ours, and by one that has lost the answer of its start."""
    for id, sha256 in (("F0NOTE1", NOTE), ("F0NOTE2", NOTE), ("F0OTHER", OTHER)):
        world.files.known[id] = AttachedFile(id=id, name=f"{id}.png", size=9, sha256=sha256)
    first = await world.start({**SICK, "attachment": "F0NOTE1"}, key="lost")
    for note, start, end in (("F0NOTE2", "2026-12-01", "2026-12-02"), ("F0OTHER", "2026-12-07", "2026-12-08")):
        await world.start({**SICK, "start_date": start, "end_date": end, "attachment": note})
    assert await world.start({**SICK, "attachment": "F0NOTE1"}, key="lost") == first, "the same start"
    engine = world.another(world.marks)
    assert [one.id for one in await engine.list_requests_with_file(NOTE)] == ["L-0001", "L-0002"]
    assert [one.id for one in await engine.list_requests_with_file(OTHER)] == ["L-0003"]
    assert await engine.list_requests_with_file("c" * 64) == () and not await engine.is_file_on_request("c" * 64)


async def test_a_file_that_came_when_it_was_handed_in_again_is_found(world: World) -> None:
    world.files.known["F0NOTE1"] = AttachedFile(id="F0NOTE1", name="n.png", size=9, sha256=NOTE)
    await world.start(SICK)
    await world.decide(await world.task("L-0001"), LI, "reject", "没有病假条")
    assert not await world.engine.is_file_on_request(NOTE)
    await world.decide(await world.task("L-0001"), ZHANG, "resubmit", form={"attachment": "F0NOTE1"})
    assert [one.id for one in await world.engine.list_requests_with_file(NOTE)] == ["L-0001"]


async def test_a_file_on_a_request_that_cannot_be_read_still_counts_as_used(world: World) -> None:
    """Otherwise it would be deleted with what is on no request."""
    world.files.known["F0NOTE1"] = AttachedFile(id="F0NOTE1", name="n.png", size=9, sha256=NOTE)
    await world.start({**SICK, "attachment": "F0NOTE1"})
    world.spoil("L-0001")
    assert await world.engine.list_requests_with_file(NOTE) == () and await world.engine.is_file_on_request(NOTE)
