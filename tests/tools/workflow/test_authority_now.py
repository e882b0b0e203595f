"""Whether who was asked may still decide is asked again at the press, of people as they are then."""

from datetime import timedelta
from typing import Any

import pytest

from bot.core.i18n import render_value
from tests.harness.memory_store import MemoryStore
from tests.tools.company import CHOICE, LI, LIN, LONG, NOW, PEOPLE, SICK, TAXI, WANG, ZHANG, ZHAO
from tests.tools.office import Office, decide, office, refused
from tools.spec import Person
from tools.workflow.engine.commands import AddSignCommand, DecideCommand, SignPosition, TransferCommand
from tools.workflow.engine.enrich import CommandEnricher
from tools.workflow.engine.state import Decision, Delegation, Status

OTHER = Person(id="U7", name="孙七", names=("Sun Qi",), roles=frozenset({"finance"}))


def approve(task: str, actor: str) -> DecideCommand:
    return DecideCommand(task=task, actor=actor, decision=Decision.APPROVE)


async def at_finance(*more: Person) -> Office:
    there = office()
    there.people.known += more
    await there.start({**TAXI, "amount": "5000"}, "expense")
    await decide(there.engine, "E-0001-1", LI.id, Decision.APPROVE)
    return there


async def test_who_lost_the_role_decides_no_longer_and_hears_who_does() -> None:
    there = await at_finance()
    await there.engine.authorize_command(approve("E-0001-2", ZHAO.id), NOW)  # as long as he has it
    there.people.change(ZHAO, roles=frozenset())
    there.people.known.append(OTHER)
    error = await refused(decide(there.engine, "E-0001-2", ZHAO.id, Decision.APPROVE))
    assert error.code == "not_named"
    assert render_value(error.note, "zh") == "按现在的规则，这一步由孙七审批，不再由赵六审批。可以把它转交给孙七"
    assert render_value(error.note, "en").startswith("The rules now name Sun Qi for this step, not Zhao Liu.")
    assert (await there.engine.get_request("E-0001")).waits_for == (ZHAO.id,), "and nothing was done"
    about = {"task": "E-0001-2", "actor": ZHAO.id}
    add = AddSignCommand(**about, where=SignPosition.AFTER, people=(LIN.id,))
    no = DecideCommand(**about, decision=Decision.REJECT, opinion="不行")
    for forbidden in (TransferCommand(**about, person=LIN.id), add, no):
        assert (await refused(there.engine.execute_command(forbidden, f"{forbidden.kind}", NOW))).code == "not_named"
    on = TransferCommand(task="E-0001-2", actor=ZHAO.id, person=OTHER.id)
    moved = await there.engine.execute_command(on, "on", NOW)
    assert moved.waits_for == (OTHER.id,), "on to who is named now: nothing else"
    assert (await decide(there.engine, "E-0001-3", OTHER.id, Decision.APPROVE)).status is Status.APPROVED


async def test_with_nobody_named_any_more_an_administrator_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    there = await at_finance()
    there.people.change(ZHAO, roles=frozenset())
    error = await refused(there.engine.authorize_command(approve("E-0001-2", ZHAO.id), NOW))
    assert error.code == "nobody_named" and "请联系管理员" in render_value(error.note, "zh")

    async def blind(self: CommandEnricher, *args: Any) -> None: ...

    monkeypatch.setattr(CommandEnricher, "authorize_command", blind)
    pressed = await decide(there.engine, "E-0001-2", ZHAO.id, Decision.APPROVE)
    assert pressed.status is Status.APPROVED, "the negative control: without the look it would have counted"


async def test_a_manager_of_before_decides_no_longer_nor_does_who_stands_in_for_them() -> None:
    there = office()
    await there.start(SICK)
    away = Delegation(id="d", person=LI.id, deputy=LIN.id, start=NOW, end=NOW + timedelta(days=2))
    await there.engine.add_delegation(away, NOW)
    await there.engine.authorize_command(approve("L-0001-1", LIN.id), NOW)
    there.people.change(ZHANG, manager=WANG.id)
    assert (await refused(decide(there.engine, "L-0001-1", LIN.id, Decision.APPROVE))).code == "not_named"
    error = await refused(decide(there.engine, "L-0001-1", LI.id, Decision.APPROVE))
    assert (error.code, error.params["names"]) == ("not_named", {"zh": "王五", "en": "Wang Wu"})
    assert (await refused(decide(there.engine, "L-0001-1", ZHAO.id, Decision.APPROVE))).code == "not_assignee"
    assert (await refused(decide(there.engine, "L-0001-1", ZHANG.id, Decision.APPROVE))).code == "own_request"
    moved = await there.engine.execute_command(TransferCommand(task="L-0001-1", actor=LI.id, person=WANG.id), "on", NOW)
    assert moved.waits_for == (WANG.id,)


async def test_the_second_level_follows_the_chain_as_it_is_at_the_press() -> None:
    there = office()
    there.people.known.append(Person(id="U9", name="钱总", roles=frozenset({"director"})))
    await there.start(LONG)
    await decide(there.engine, "L-0001-1", LI.id, Decision.APPROVE)
    assert (await there.engine.get_request("L-0001")).waits_for == (WANG.id,)
    there.people.change(LI, manager="U9")
    error = await refused(there.engine.authorize_command(approve("L-0001-2", WANG.id), NOW))
    assert (error.code, error.params["names"]) == ("not_named", {"zh": "钱总", "en": "钱总"})


async def test_who_decides_since_somebody_before_them_was_taken_still_may() -> None:
    """王五 is 张三's manager's manager and was chosen as approver, so a director took the second level. That 王五
    would be named there first is no reason to refuse the director."""
    there = office(policy=CHOICE)
    there.people.known.append(Person(id="U9", name="钱总", roles=frozenset({"director"})))
    await there.start({**LONG, "approver": WANG.id})
    await decide(there.engine, "L-0001-1", WANG.id, Decision.APPROVE)
    assert (await decide(there.engine, "L-0001-2", "U9", Decision.APPROVE)).status is Status.APPROVED


@pytest.mark.parametrize("by", ["the author's choice", "a transfer", "a timer"])
async def test_who_was_given_the_task_keeps_it(by: str) -> None:
    there = office(policy=CHOICE if by == "the author's choice" else ())
    await there.start({**SICK, "approver": LIN.id if by == "the author's choice" else LI.id})
    if by == "a transfer":
        await there.engine.execute_command(TransferCommand(task="L-0001-1", actor=LI.id, person=LIN.id), "on", NOW)
    if by == "a timer":
        await there.engine.run_due_jobs(NOW + timedelta(days=5))
    (task,) = (await there.engine.get_request("L-0001")).open_tasks
    assert task.assignee == (WANG.id if by == "a timer" else LIN.id)
    there.people.change(ZHANG, manager=ZHAO.id)
    assert (await decide(there.engine, task.id, task.assignee, Decision.APPROVE)).status is Status.APPROVED


async def test_of_a_request_whose_author_has_left_the_chain_is_not_asked() -> None:
    """Slack knows no manager of somebody who has left. Roles are asked all the same."""
    there = office()
    await there.start(SICK)
    gone = ZHANG.model_copy(update={"active": False, "manager": None})
    there.people.known = [gone, *there.people.known[1:]]
    assert (await decide(there.engine, "L-0001-1", LI.id, Decision.APPROVE)).status is Status.APPROVED
    there = await at_finance()
    there.people.known = [gone, *(p.model_copy(update={"roles": frozenset()}) for p in there.people.known[1:])]
    assert (await refused(decide(there.engine, "E-0001-2", ZHAO.id, Decision.APPROVE))).code == "nobody_named"


async def test_a_request_of_the_version_before_is_decided_by_whom_its_author_named() -> None:
    """Its approver was never asked of the rules."""
    store = MemoryStore()
    there = office(store, policy=CHOICE)
    await there.start({**SICK, "approver": LIN.id})
    (name,) = store.requests
    kept = await there.engine.get_request(name)
    old = kept.model_copy(update={"filled": kept.filled.model_copy(update={"exceptions": None})})
    store.requests[name] = old.model_dump_json()
    strict = office(store)
    await strict.engine.authorize_command(approve("L-0001-1", LIN.id), NOW)


async def test_everybody_whose_facts_count_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    there = office()
    await there.start(LONG)
    await decide(there.engine, "L-0001-1", LI.id, Decision.APPROVE)
    looked_up: list[str] = []

    async def refresh(people: Any) -> None:
        looked_up.extend(people)
        if LI.id in people:  # what only a fresh look shows
            there.people.change(LI, manager=LIN.id)

    monkeypatch.setattr(there.people, "refresh_people", refresh)
    error = await refused(decide(there.engine, "L-0001-2", WANG.id, Decision.APPROVE))
    assert (error.code, error.params["names"]) == ("not_named", {"zh": "李文光", "en": "Li Wenguang"})
    assert {WANG.id, ZHANG.id, LI.id} <= set(looked_up) and len(looked_up) < len(PEOPLE) * 2

    async def fail(people: Any) -> None:
        raise ConnectionError("the platform is away")

    monkeypatch.setattr(there.people, "refresh_people", fail)
    with pytest.raises(ConnectionError):
        await decide(there.engine, "L-0001-2", WANG.id, Decision.APPROVE)
    assert (await there.engine.get_request("L-0001")).waits_for == (WANG.id,), "meanwhile nobody decides"
