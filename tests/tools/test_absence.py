"""Being away: who stands in, what they may do, and what never."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.core.i18n import render_value
from tests.tools.company import CHOICE
from tests.tools.office import (  # fmt: skip
    LI,
    LIN,
    LONG,
    NOW,
    TAXI,
    WANG,
    ZHANG,
    ZHAO,
    Office,
    facts,
    office,
    receipt,
    refused,
    title,
)
from tools.spec import Person

AWAY = {"first_day": "2026-11-20", "last_day": "2026-11-22", "deputy": "李文光"}


@pytest.fixture
async def there() -> Office:
    opened = office(policy=CHOICE)
    await opened.start(LONG)
    return opened


async def away(there: Office, person: Person = LI, **more: str) -> str:
    outcome = await there.do(person, "set_absence", **{**AWAY, **more})
    return str(outcome.data["absence"])


async def test_an_absence_is_shown_then_set_then_listed_then_ended(there: Office) -> None:
    plan = await there.plan(LI, "set_absence", **AWAY)
    assert (title(plan), title(plan, "en")) == (
        "外出期间由李文光代您审批？",
        "Have Li Wenguang decide for you while you are away?",
    )
    assert facts(plan) == [
        ("第一天", "2026年11月20日 周五"),
        ("最后一天", "2026年11月22日 周日"),
        ("代理人", "李文光"),
    ]
    assert [c.name for c in plan.choices] == ["confirm", "edit", "cancel"]
    outcome = await there.press(LI, "set_absence", plan, "confirm", key="same")
    assert outcome == await there.press(LI, "set_absence", plan, "confirm", key="same")
    assert receipt(outcome) == "委托李文光在 2026年11月20日 周五至 2026年11月22日 周日代理"
    (absence,) = await there.engine.list_delegations(LI.id, NOW)
    assert (absence.start, absence.end) == (NOW.replace(hour=0), NOW.replace(hour=0) + timedelta(days=3))
    (listed,) = (await there.look(LI, "list_absences"))["absences"]
    assert listed == {"absence": absence.id, **AWAY}
    ending = await there.plan(LI, "end_absence")
    assert title(ending) == "结束对李文光的委托？"
    assert receipt(await there.press(LI, "end_absence", ending, "confirm")) == "结束了委托"
    assert receipt(await there.press(LI, "end_absence", ending, "confirm")) == "结束了委托", "ended stays ended"
    assert (await there.look(LI, "list_absences"))["absences"] == []


async def test_edit_before_confirming(there: Office) -> None:
    plan = await there.plan(LI, "set_absence", **AWAY)
    edited = await there.edit(LI, "set_absence", plan, {"last_day": "2026-11-25", "deputy": WANG.id})
    assert dict(facts(edited))["代理人"] == "王五"
    error = await refused(there.edit(LI, "set_absence", plan, {"last_day": "2026-11-01"}))
    assert (error.code, error.field) == ("end_before_start", "last_day")


@pytest.mark.parametrize(
    ("more", "code", "field"),
    [
        ({"deputy": "李四"}, "bad_deputy", "deputy"),
        ({"deputy": "钱七"}, "unknown_person", "deputy"),
        ({"first_day": "2026-11-01", "last_day": "2026-11-19"}, "bad_period", "last_day"),
        ({"last_day": "next week"}, "bad_date", "last_day"),
        ({"last_day": "2028-11-22"}, "span_too_long", "last_day"),
    ],
)
async def test_what_is_refused_before_a_card(there: Office, more: dict[str, str], code: str, field: str) -> None:
    error = await refused(there.plan(LI, "set_absence", **{**AWAY, **more}))
    assert (error.code, error.field) == (code, field)
    assert all(render_value(error.note, language) for language in ("zh", "en"))


async def test_two_absences_do_not_overlap(there: Office) -> None:
    await away(there)
    error = await refused(
        there.plan(LI, "set_absence", **{**AWAY, "first_day": "2026-11-22", "last_day": "2026-11-29"})
    )
    assert error.code == "overlapping"
    await away(there, first_day="2026-11-23", last_day="2026-11-24")
    assert (await refused(there.plan(LI, "end_absence"))).code == "no_delegation", "which of them?"
    assert (await refused(there.plan(WANG, "end_absence"))).code == "no_delegation"


async def test_the_deputy_decides_and_both_names_are_told(there: Office) -> None:
    await away(there)
    (task,) = (await there.look(LIN, "query_todo_tasks"))["tasks"]
    assert (task["task"], task["for"]) == ("L-0001-1", "Li Si")
    card = await there.card("L-0001-1")
    assert ("代理人", "李四外出，李文光也可以处理") in facts(card)
    assert card.deciders == (LI.id,)
    outcome = await there.press(LIN, "decide_task", card, "approve")
    assert (outcome.data["by"], outcome.data["for"]) == ("Li Wenguang", "Li Si")
    second = await there.card("L-0001-2")
    assert ("审批意见", "李文光（代李四）同意") in facts(second)
    assert ("Opinion", "Li Wenguang for Li Si approved") in facts(second, "en")
    told = (await there.look(ZHANG, "request_status", request_id="L-0001"))["timeline"]
    assert "✅ 李文光（代李四）同意 11-20 10:00" in told


async def test_the_deputy_reads_what_waits_for_who_is_away_and_hands_it_on(there: Office) -> None:
    assert (await refused(there.look(LIN, "request_status", request_id="L-0001"))).code == "no_request"
    await away(there)
    await there.look(LIN, "request_status", request_id="L-0001")
    await there.do(LIN, "transfer_task", task_id="L-0001-1", person="赵六")
    assert (await there.engine.get_request("L-0001")).waits_for == (ZHAO.id,)


async def test_what_is_the_authors_own_is_not_their_deputys(there: Office) -> None:
    await away(there, ZHANG)
    assert (await refused(there.look(LIN, "request_status", request_id="L-0001"))).code == "no_request"
    await there.decide(LI, "L-0001-1", "reject", {"opinion": "请先补病历"})
    assert (await refused(there.look(LIN, "request_status", request_id="L-0001"))).code == "no_request"
    assert (await refused(there.look(LIN, "show_process", name="L-0001"))).code == "no_request"


async def test_nobody_decides_their_own_request_as_a_deputy(there: Office) -> None:
    await away(there, deputy="张三")
    card = await there.card("L-0001-1")
    assert "代理人" not in dict(facts(card)), "not offered"
    assert (await there.look(ZHANG, "query_todo_tasks"))["tasks"] == []
    assert (await refused(there.press(ZHANG, "decide_task", card, "approve"))).code == "own_request"
    args = {"task_id": "L-0001-1", "person": "李文光"}
    assert (await refused(there.plan(ZHANG, "transfer_task", **args))).code == "own_request"


async def test_standing_in_does_not_cascade_and_ends(there: Office) -> None:
    await away(there)
    await away(there, LIN, deputy="赵六")
    card = await there.card("L-0001-1")
    assert (await refused(there.press(ZHAO, "decide_task", card, "approve"))).code == "not_assignee"
    there.now = NOW + timedelta(days=3)
    assert (await refused(there.press(LIN, "decide_task", card, "approve"))).code == "not_assignee"
    assert (await there.look(LIN, "query_todo_tasks"))["tasks"] == []


async def test_tasks_of_both_are_paged_together(there: Office) -> None:
    await away(there)
    for n in range(20):
        approver = LIN.id if n % 2 else LI.id
        await there.engine.start_request("expense", {**TAXI, "approver": approver}, ZHANG.id, f"k-{n}", NOW)
    first = await there.look(LIN, "query_todo_tasks")
    second = await there.look(LIN, "query_todo_tasks", page=2)
    assert (len(first["tasks"]), first["more"], len(second["tasks"]), second["more"]) == (20, 2, 1, None)
