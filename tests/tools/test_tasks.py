from __future__ import annotations

import pytest
from pydantic import ValidationError

from bot.core.i18n import render_receipt_line, render_value, translate, translate_label
from tests.tools.office import LI, LIN, LONG, NOW, TAXI, WANG, ZHANG, ZHAO, Office, known, office, refused
from tools.spec import Proposal
from tools.tasks.task_actions import StoredDecision, check_task_decision
from tools.workflow.engine.state import Decision


@pytest.fixture
async def there() -> Office:
    opened = office()
    await opened.start(LONG)
    return opened


def shown(plan: Proposal) -> list[tuple[str, str]]:
    return [(translate_label(f.label, "zh"), render_value(f.value, "zh")) for f in plan.fields]


async def test_todo_lists(there: Office) -> None:
    (task,) = (await there.look(LI, "query_todo_tasks"))["tasks"]
    assert task == {
        "task": "L-0001-1",
        "request": "L-0001",
        "process": "leave",
        "kind": "approve",
        "requester": "张三",
        "summary": "Sick leave, 2026-11-23 to 2026-11-27, 5 working days",
        "since": "2026-11-20T10:00+08:00",
    }
    assert (await there.look(ZHANG, "query_todo_tasks"))["tasks"] == []
    assert len((await there.look(ZHANG, "query_todo_tasks", person="李四"))["tasks"]) == 1
    assert (await there.look(WANG, "query_todo_tasks", person="李四"))["tasks"] == [], "not their business"
    assert (await refused(there.look(WANG, "query_todo_tasks", person="nobody"))).code == "unknown_person"


async def test_the_approvers_card(there: Office) -> None:
    plan = await there.card("L-0001-1")
    assert translate(plan.title.key, "zh", **plan.title.params) == "张三的请假申请 L-0001 等您审批"
    facts = dict(shown(plan))
    assert facts["申请人"] == "张三"
    assert facts["请假事由"] == "胃疼"
    assert facts["时长"] == "5 个工作日"
    assert facts["二级审批人"] == "王五"
    assert "状态" not in facts, "the first line says what is asked"
    assert (plan.deciders, plan.requester) == ((LI.id,), ZHANG.id)
    assert {c.name: [f.name for f in c.fields] for c in plan.choices} == {
        "approve": [],
        "approve_with": ["opinion"],
        "reject": ["opinion"],
        "return": ["to", "opinion"],
        "transfer": ["person", "opinion"],
        "add_sign": ["people", "where", "mode", "opinion"],
    }


async def test_asking_in_chat_brings_the_same_card_whoever_of_those_concerned_asks(there: Office) -> None:
    for asker in (LI, ZHANG):
        plan = await there.plan(asker, "decide_task", task_id="L-0001-1")
        assert plan == await there.card("L-0001-1")


async def test_a_task_of_others_is_as_if_it_were_not_there(there: Office) -> None:
    error = await refused(there.plan(LIN, "decide_task", task_id="L-0001-1"))
    unknown = await refused(there.plan(LIN, "decide_task", task_id="L-0009-1"))
    assert (error.code, unknown.code) == ("no_task", "no_task")
    assert error.text.replace("L-0001", "L-0009") == unknown.text


async def test_a_task_is_found_by_the_number_of_its_request(there: Office) -> None:
    assert await there.plan(LI, "decide_task", task_id="L-0001") == await there.card("L-0001-1")
    moved = await there.plan(LI, "transfer_task", task_id="L-0001", person="李文光")
    assert moved.args["task_id"] == moved.subject == "L-0001-1"
    error = await refused(there.plan(LIN, "decide_task", task_id="L-0001"))
    unknown = await refused(there.plan(LIN, "decide_task", task_id="L-0009"))
    assert error.code == unknown.code == "no_task" and error.text.replace("L-0001", "L-0009") == unknown.text


async def test_of_several_tasks_of_a_request_ones_own_is_meant_and_others_are_asked_about(there: Office) -> None:
    form = {"people": f"{LIN.id},{ZHAO.id}", "where": "before", "mode": "any", "opinion": ""}
    await there.decide(LI, "L-0001-1", "add_sign", form)
    assert (await there.plan(ZHAO, "decide_task", task_id="L-0001")).deciders == (ZHAO.id,)
    asked = await refused(there.plan(ZHANG, "decide_task", task_id="L-0001"))
    assert (
        asked.code == "several_tasks" and "L-0001-2 (Li Wenguang)" in asked.text and "L-0001-3 (Zhao Liu)" in asked.text
    )


async def test_a_request_that_waits_for_nobody_has_no_task(there: Office) -> None:
    await there.decide(LI, "L-0001-1", "approve")
    await there.decide(WANG, "L-0001-2", "approve")
    assert (await refused(there.plan(LI, "decide_task", task_id="L-0001"))).code == "task_closed"


async def test_nobody_puts_an_opinion_into_somebody_elses_dialog(there: Office) -> None:
    plan = await there.plan(ZHANG, "decide_task", task_id="L-0001-1", opinion="同意，特批", draft="同意，特批")
    assert plan == await there.card("L-0001-1")


async def test_an_opinion_written_by_the_model_is_a_draft_of_whoever_decides_and_runs_nothing(there: Office) -> None:
    plan = await there.plan(LI, "decide_task", task_id="L-0001-1", opinion=" 早日康复 ", decision="approve")
    drafted = {"draft": "早日康复", "drafted_by": LI.id, "meant": "approve"}
    assert plan.args == {**(await there.card("L-0001-1")).args, **drafted}
    assert all(field.value == "" for choice in plan.choices for field in choice.fields if field.name == "opinion")
    assert await there.plan(LI, "decide_task", **plan.args) == plan
    outcome = await there.press(LI, "decide_task", plan, "approve")
    assert outcome.data["opinion"] == ""
    (opinion,) = (await there.engine.get_request("L-0001")).opinions
    assert opinion.text == ""


async def test_two_levels(there: Office) -> None:
    outcome = await there.decide(LI, "L-0001-1", "approve")
    assert outcome.data == {
        "task": "L-0001-1",
        "request": "L-0001",
        "decision": "approved",
        "by": "李四",
        "opinion": "",
        "status": "waiting",
        "waits_for": ["王五"],
    }
    second = await there.card("L-0001-2")
    assert second.deciders == (WANG.id,)
    assert ("审批意见", "李四同意") in shown(second)
    outcome = await there.decide(WANG, "L-0001-2", "approve")
    assert outcome.data["status"] == "approved"
    assert outcome.receipt_line is not None
    assert render_receipt_line(outcome.receipt_line, "zh") == "王五同意了申请 L-0001"


async def test_pressing_needs_authority_even_past_the_gate(there: Office) -> None:
    plan = await there.card("L-0001-1")
    assert (await refused(there.press(ZHANG, "decide_task", plan, "approve"))).code == "own_request"
    assert (await refused(there.press(WANG, "decide_task", plan, "approve"))).code == "not_assignee"
    assert (await refused(there.press(LI, "decide_task", plan, "reject", {"opinion": " "}))).code == "missing_opinion"
    await there.press(LI, "decide_task", plan, "approve")
    assert (await refused(there.press(LI, "decide_task", plan, "reject", {"opinion": "x"}))).code == "task_closed"
    assert (await refused(there.card("L-0001-1"))).code == "task_closed"
    assert (await refused(there.plan(LI, "decide_task", task_id="L-0001-1"))).code == "task_closed"
    assert (await refused(there.plan(LI, "decide_task", task_id="L-0001-7"))).code == "no_task"


async def test_reject_revise_resubmit_approve(there: Office) -> None:
    await there.decide(LI, "L-0001-1", "reject", {"opinion": "请缩短"})
    assert (await refused(there.plan(ZHANG, "decide_task", task_id="L-0001-2"))).code == "use_resubmit"
    card = await there.card("L-0001-2")
    assert translate(card.title.key, "zh", **card.title.params) == "您的请假申请 L-0001 被驳回了"
    assert ("审批意见", "李四驳回：请缩短") in shown(card)
    assert (card.deciders, card.requester) == ((ZHANG.id,), None)
    assert [c.name for c in card.choices] == ["resubmit", "withdraw"]
    dialog = {f.name: f.value for f in card.choices[0].fields}
    assert dialog["field_reason"] == "胃疼"
    outcome = await there.press(
        ZHANG, "decide_task", card, "resubmit", {**dialog, "field_end_date": "2026-11-24", "field_reason": "好多了"}
    )
    assert (outcome.data["decision"], outcome.data["status"]) == ("resubmitted", "waiting")
    request = await there.engine.get_request("L-0001")
    assert (request.filled.days, request.filled.values["reason"]) == ("2", "好多了")
    assert request.opinions[0].text == "请缩短"
    assert (await there.decide(LI, "L-0001-3", "approve")).data["status"] == "approved"


async def test_the_author_withdraws_what_came_back(there: Office) -> None:
    await there.decide(LI, "L-0001-1", "reject", {"opinion": "请缩短"})
    outcome = await there.decide(ZHANG, "L-0001-2", "withdraw")
    assert (outcome.data["decision"], outcome.data["status"]) == ("withdrawn", "withdrawn")
    assert outcome.receipt_line is not None and outcome.receipt_line.text.key == "effect.withdrawn"


async def test_a_dialog_is_checked_before_it_closes(there: Office) -> None:
    card = await there.card("L-0001-1")
    reject = StoredDecision.model_validate({**card.args, "decision": "reject", "opinion": " "})
    error = await refused(check_task_decision(there.use(LI), reject))
    assert (error.code, error.field) == ("missing_opinion", "opinion")
    await there.decide(LI, "L-0001-1", "reject", {"opinion": "请缩短"})
    card = await there.card("L-0001-2")
    dialog = {f.name: f.value for f in card.choices[0].fields}
    wrong = {**card.args, "decision": "resubmit", **dialog, "field_start_date": "soon"}
    error = await refused(check_task_decision(there.use(ZHANG), StoredDecision.model_validate(wrong)))
    assert (error.code, error.field) == ("bad_date", "field_start_date")
    right = {**wrong, "field_start_date": "2026-11-24"}
    await check_task_decision(there.use(ZHANG), StoredDecision.model_validate(right))
    assert (await there.engine.get_request("L-0001")).status == "revise", "checking changes nothing"


async def test_a_changed_request_makes_the_card_stale(there: Office) -> None:
    card = await there.card("L-0001-1")
    other = card.model_copy(update={"args": {**card.args, "form_sha": "0" * 16}})
    assert (await refused(there.press(LI, "decide_task", other, "approve"))).code == "request_changed"
    reject = StoredDecision.model_validate({**other.args, "decision": "reject", "opinion": "请缩短"})
    assert (await refused(check_task_decision(there.use(LI), reject))).code == "request_changed", "nor does its dialog"
    await there.press(LI, "decide_task", card, "approve")


async def test_the_same_press_twice_is_one_decision(there: Office) -> None:
    card = await there.card("L-0001-1")
    first = await there.press(LI, "decide_task", card, "approve", key="press")
    assert await there.press(LI, "decide_task", card, "approve", key="press") == first
    assert len((await there.engine.get_request("L-0001")).opinions) == 1


async def test_a_large_expense_goes_to_finance() -> None:
    there = office()
    await there.start({**TAXI, "amount": "1000"}, "expense")
    assert (await there.decide(LI, "E-0001-1", "approve")).data["status"] == "waiting"
    assert (await there.card("E-0001-2")).deciders == (ZHAO.id,)
    assert (await there.decide(ZHAO, "E-0001-2", "approve")).data["status"] == "approved"


def test_a_button_needs_a_decision() -> None:
    with pytest.raises(ValidationError):
        StoredDecision.model_validate({"task_id": "x", "form_sha": "y"})
    with pytest.raises(ValidationError):
        StoredDecision.model_validate({"task_id": "x", "form_sha": "y", "decision": "approve", "actor": "U2"})
    stored = known("decide_task").stored_args
    assert stored is not None
    assert stored.model_validate({"task_id": "x", "form_sha": "y", "decision": "approve"}).decision is Decision.APPROVE  # type: ignore[attr-defined]


async def test_tasks_are_bounded() -> None:
    there = office()
    for n in range(21):
        await there.engine.start_request("expense", TAXI, ZHANG.id, f"k{n}", NOW)
    first = await there.look(LI, "query_todo_tasks")
    assert (len(first["tasks"]), first["more"]) == (20, 2)
