"""Operations beside the graph, as the card of a task and the tools of chat offer them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bot.core.i18n import render_value
from tests.tools.company import CHOICE
from tests.tools.office import (  # fmt: skip
    LI,
    LIN,
    LONG,
    SHORT,
    SICK,
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
from tools.spec import Proposal

OPINION = {"opinion": "缺发票"}


@pytest.fixture
async def there() -> Office:
    opened = office()
    await opened.start(LONG)
    return opened


def dialog(plan: Proposal, choice: str) -> dict[str, tuple[str, ...]]:
    """Field → what can be chosen, in Chinese."""
    (button,) = [c for c in plan.choices if c.name == choice]
    return {f.name: tuple(words["zh"] for _, words in f.choices) for f in button.fields}


# Return


async def test_return_to_the_author_who_revises_and_resubmits(there: Office) -> None:
    plan = await there.card("L-0001-1")
    assert dialog(plan, "return")["to"] == ("修改（张三）",)
    outcome = await there.press(LI, "decide_task", plan, "return", {"to": "revise", **OPINION})
    assert (outcome.data["decision"], outcome.data["status"]) == ("returned", "revise")
    assert (receipt(outcome), receipt(outcome, "en")) == ("李四退回了申请 L-0001", "Li Si returned request L-0001")
    card = await there.card("L-0001-2")
    assert ("审批意见", "李四退回：缺发票") in facts(card)
    assert ("Opinion", "Li Si returned it: 缺发票") in facts(card, "en")
    await there.press(ZHANG, "decide_task", card, "resubmit", {})
    assert (await there.engine.get_request("L-0001")).waits_for == (LI.id,)


async def test_return_to_an_earlier_step(there: Office) -> None:
    await there.decide(LI, "L-0001-1", "approve")
    plan = await there.card("L-0001-2")
    assert dialog(plan, "return")["to"] == ("修改（张三）", "审批（李四）")
    (button,) = [c for c in plan.choices if c.name == "return"]
    assert button.fields[0].choices[1] == ("first_level", {"zh": "审批（李四）", "en": "Approval (Li Si)"})
    await there.press(WANG, "decide_task", plan, "return", {"to": "first_level", **OPINION})
    assert (await there.card("L-0001-3")).deciders == (LI.id,)


async def test_a_return_needs_an_opinion_and_a_step_that_was_there(there: Office) -> None:
    plan = await there.card("L-0001-1")
    error = await refused(there.check(LI, plan, "return", {"to": "revise", "opinion": " "}))
    assert (error.code, error.field) == ("missing_opinion", "opinion")
    error = await refused(there.check(LI, plan, "return", {"to": "second_level", **OPINION}))
    assert (error.code, error.field) == ("bad_target", "to")
    assert (await refused(there.press(ZHANG, "decide_task", plan, "return", OPINION))).code == "own_request"


# Transfer


async def test_transfer_by_the_card(there: Office) -> None:
    plan = await there.card("L-0001-1")
    outcome = await there.press(LI, "decide_task", plan, "transfer", {"person": LIN.id, "opinion": "我在出差"})
    assert (outcome.data["decision"], outcome.data["waits_for"]) == ("transferred", ["李文光"])
    assert receipt(outcome) == "李四把申请 L-0001 转交给了李文光"
    assert receipt(outcome, "en") == "Li Si transferred request L-0001 to Li Wenguang"
    card = await there.card("L-0001-2")
    assert card.deciders == (LIN.id,)
    assert ("说明", "李四转交：我在出差") in facts(card)
    assert (await refused(there.press(LI, "decide_task", plan, "approve"))).code == "task_closed"
    assert (await there.decide(LIN, "L-0001-2", "approve")).data["status"] == "waiting"


async def test_transfer_in_chat_shows_what_will_happen_and_then_does_it(there: Office) -> None:
    plan = await there.plan(LI, "transfer_task", task_id="L-0001-1", person="李文光", opinion="我在出差")
    assert title(plan) == "把张三的请假申请 L-0001 转交给李文光审批？"
    assert title(plan, "en") == "Transfer Zhang San’s leave request L-0001 to Li Wenguang, who decides instead?"
    assert ("说明", "我在出差") in facts(plan) and ("请假事由", "胃疼") in facts(plan)
    assert (plan.deciders, [c.name for c in plan.choices]) == ((LI.id,), ["confirm", "cancel"])
    assert (await there.engine.get_request("L-0001")).waits_for == (LI.id,), "nothing has happened"
    first = await there.press(LI, "transfer_task", plan, "confirm", key="same")
    assert first == await there.press(LI, "transfer_task", plan, "confirm", key="same")
    assert (await there.engine.get_request("L-0001")).waits_for == (LIN.id,)


@pytest.mark.parametrize(
    ("person", "code"),
    [(ZHANG, "own_request"), (LI, "asked_already"), (WANG, "own_level"), ("nobody", "unknown_person")],
)
async def test_a_task_is_never_transferred_to(there: Office, person: object, code: str) -> None:
    name = getattr(person, "id", person)
    error = await refused(there.plan(LI, "transfer_task", task_id="L-0001-1", person=name))
    assert (error.code, error.field) == (code, "person")
    error = await refused(there.check(LI, await there.card("L-0001-1"), "transfer", {"person": str(name)}))
    assert (error.code, error.field) == (code, "person")


async def test_nobody_hands_on_the_task_of_somebody_else(there: Office) -> None:
    for person, code in ((ZHANG, "own_request"), (WANG, "not_assignee"), (ZHAO, "not_assignee")):
        args = {"task_id": "L-0001-1", "person": "李文光"}
        assert (await refused(there.plan(person, "transfer_task", **args))).code == code
        args = {"task_id": "L-0001-1", "people": "李文光", "where": "before"}
        assert (await refused(there.plan(person, "add_sign", **args))).code == code


# Add sign


async def test_add_sign_before_by_the_card(there: Office) -> None:
    plan = await there.card("L-0001-1")
    assert dialog(plan, "add_sign")["mode"] == ("会签（都要同意）", "或签（一人即可）", "依次审批")
    form = {"people": f"{LIN.id},{ZHAO.id}", "where": "before", "mode": "any", "opinion": ""}
    await there.check(LI, plan, "add_sign", form)
    outcome = await there.press(LI, "decide_task", plan, "add_sign", form)
    assert outcome.data["waits_for"] == ["李文光", "赵六"]
    assert receipt(outcome) == "李四请李文光、赵六也审批申请 L-0001"
    assert receipt(outcome, "en") == "Li Si asked Li Wenguang, Zhao Liu to decide request L-0001 as well"
    await there.decide(ZHAO, "L-0001-3", "approve")
    assert (await there.engine.get_request("L-0001")).waits_for == (LI.id,), "any one was enough; then it is their turn"


async def test_add_sign_after_in_chat(there: Office) -> None:
    plan = await there.plan(LI, "add_sign", task_id="L-0001-1", people=["李文光", "赵六"], where="after", mode="order")
    assert title(plan) == "张三的请假申请 L-0001：您同意，再请李文光、赵六审批？"
    assert ("方式（多人时）", "依次审批") in facts(plan)
    await there.press(LI, "add_sign", plan, "confirm")
    request = await there.engine.get_request("L-0001")
    assert (request.waits_for, request.tasks[0].outcome) == ((LIN.id,), "approve")


async def test_a_rejection_beside_is_a_rejection(there: Office) -> None:
    await there.do(LI, "add_sign", task_id="L-0001-1", people="李文光", where="beside")
    assert (await there.decide(LIN, "L-0001-2", "reject", OPINION)).data["status"] == "revise"
    assert (await refused(there.card("L-0001-1"))).code == "task_closed"


async def test_the_author_is_never_asked_to_sign(there: Office) -> None:
    form = {"people": f"{LIN.id},{ZHANG.id}", "where": "beside", "mode": "any"}
    error = await refused(there.check(LI, await there.card("L-0001-1"), "add_sign", form))
    assert (error.code, error.field) == ("own_request", "people")
    assert (await refused(there.press(LI, "decide_task", await there.card("L-0001-1"), "add_sign", form))).code


async def test_a_task_that_came_back_is_not_handed_on(there: Office) -> None:
    await there.decide(LI, "L-0001-1", "reject", OPINION)
    error = await refused(there.plan(ZHANG, "transfer_task", task_id="L-0001-2", person="李文光"))
    assert error.code == "bad_decision"
    assert [c.name for c in (await there.card("L-0001-2")).choices] == ["resubmit", "withdraw"]


# Withdraw


async def test_withdrawing_what_is_approved_needs_agreement(there: Office) -> None:
    await there.decide(LI, "L-0001-1", "approve")
    await there.decide(WANG, "L-0001-2", "approve")
    plan = await there.plan(ZHANG, "withdraw_request", request_id="L-0001", because="不去了")
    assert ("需要同意", "申请已经通过，要王五同意才能撤回") in facts(plan)
    assert ("Agreement", "The request is approved: withdrawing it needs the agreement of Wang Wu") in facts(plan, "en")
    outcome = await there.press(ZHANG, "withdraw_request", plan, "confirm")
    assert outcome.data == {"request": "L-0001", "status": "revoking", "waits_for": ["王五"]}
    assert receipt(outcome) == "申请撤回 L-0001，等王五同意"
    card = await there.card("L-0001-3")
    assert title(card) == "张三的请假申请 L-0001 已经通过，同意撤回吗？"
    assert title(card, "en").startswith(
        "Agree that Zhang San’s leave request L-0001, which was approved, is withdrawn?"
    )
    assert ("撤回原因", "不去了") in facts(card)
    assert [c.name for c in card.choices] == ["approve", "approve_with", "reject"]
    assert (card.deciders, card.requester) == ((WANG.id,), ZHANG.id)
    assert (await refused(there.plan(ZHANG, "withdraw_request", request_id="L-0001"))).code == "withdrawing"
    outcome = await there.press(WANG, "decide_task", card, "approve")
    assert (outcome.data["status"], receipt(outcome)) == ("withdrawn", "王五同意撤回申请 L-0001")


async def test_whoever_does_not_agree_keeps_it_approved(there: Office) -> None:
    await there.start(TAXI, "expense")
    await there.decide(LI, "E-0001-1", "approve")
    await there.do(ZHANG, "withdraw_request", request_id="E-0001")
    assert (await refused(there.decide(ZHANG, "E-0001-2", "approve"))).code == "own_request"
    outcome = await there.decide(LI, "E-0001-2", "reject", {"opinion": "已经付款"})
    assert (outcome.data["status"], receipt(outcome)) == ("approved", "李四没有同意撤回申请 E-0001")


async def test_asking_again_after_a_refusal_is_limited(there: Office) -> None:
    await there.start(TAXI, "expense")
    await there.decide(LI, "E-0001-1", "approve")
    for n in range(2, 7):
        await there.do(ZHANG, "withdraw_request", request_id="E-0001")
        await there.decide(LI, f"E-0001-{n}", "reject", {"opinion": "已经付款"})
        if n == 2:
            error = await refused(there.plan(ZHANG, "withdraw_request", request_id="E-0001"))
            assert error.code == "kept_lately"
            assert render_value(error.note, "zh") == "撤回刚刚没有得到同意，2026-11-20 14:00 以后可以再申请"
        there.now += timedelta(hours=4)
    error = await refused(there.plan(ZHANG, "withdraw_request", request_id="E-0001"))
    assert (error.code, render_value(error.note, "zh")) == ("kept_enough", "撤回已经有 5 次没有得到同意，不能再申请了")
    assert (await there.engine.get_request("E-0001")).status == "approved"


async def test_when_who_has_to_agree_has_left_somebody_else_is_asked() -> None:
    there = office()
    request = await there.start(SICK)
    await there.decide(LI, f"{request}-1", "approve")
    await there.do(ZHANG, "withdraw_request", request_id=request)
    assert (await refused(there.plan(ZHANG, "withdraw_request", request_id=request))).code == "withdrawing"
    there.people.known[1] = LI.model_copy(update={"active": False})
    outcome = await there.do(ZHANG, "withdraw_request", request_id=request)
    assert (outcome.data["status"], outcome.data["waits_for"]) == ("revoking", ["王五"]), "who is above"
    assert (await refused(there.card(f"{request}-2"))).code == "task_closed"
    await there.decide(WANG, f"{request}-3", "approve")
    assert (await there.engine.get_request(request)).status == "withdrawn"


async def test_who_agreed_to_another_form_does_not_have_to_agree() -> None:
    there = office(policy=CHOICE)
    await there.start(LONG)
    await there.decide(LI, "L-0001-1", "approve")
    await there.decide(WANG, "L-0001-2", "reject", OPINION)
    await there.decide(ZHANG, "L-0001-3", "resubmit", {"field_end_date": "2026-11-24", "field_approver": LIN.id})
    await there.decide(LIN, "L-0001-4", "approve")
    plan = await there.plan(ZHANG, "withdraw_request", request_id="L-0001")
    assert ("需要同意", "申请已经通过，要李文光同意才能撤回") in facts(plan), "of this round"


async def test_who_agreed_before_a_step_was_taken_again_does_not_have_to_agree(there: Office) -> None:
    await there.decide(LI, "L-0001-1", "approve")
    await there.do(WANG, "add_sign", task_id="L-0001-2", people="李文光", where="after")
    await there.decide(LIN, "L-0001-3", "return", {"to": "first_level", **OPINION})
    await there.decide(LI, "L-0001-4", "approve")
    await there.do(WANG, "transfer_task", task_id="L-0001-5", person="赵六")
    await there.decide(ZHAO, "L-0001-6", "approve")
    plan = await there.plan(ZHANG, "withdraw_request", request_id="L-0001")
    assert ("需要同意", "申请已经通过，要赵六同意才能撤回") in facts(plan), "since it was returned"


async def test_what_a_rule_approved_is_withdrawn_by_the_manager() -> None:
    there = office()
    request = await there.start(SHORT)
    plan = await there.plan(ZHANG, "withdraw_request", request_id=request)
    assert ("需要同意", "申请已经通过，要李四同意才能撤回") in facts(plan)
    assert (await there.press(ZHANG, "withdraw_request", plan, "confirm")).data["waits_for"] == ["李四"]


# Edit


async def test_edit_shows_the_changed_form_anew_before_anything_happens() -> None:
    there = office()
    plan = await there.plan(ZHANG, "start_process", process="leave", form=SICK)
    (button,) = [c for c in plan.choices if c.edits]
    dialog = {f.name: f.value for f in button.fields}
    assert (dialog["field_reason"], dialog["field_end_date"], button.executes) == ("胃疼", "2026-11-24", False)
    edited = await there.edit(ZHANG, "start_process", plan, {**dialog, "field_end_date": "2026-11-27"})
    assert ("时长", "5 个工作日") in facts(edited)
    assert edited.args["seen"] != plan.args["seen"]
    assert await there.engine.list_own_requests(ZHANG.id) == ()
    await there.press(ZHANG, "start_process", edited, "confirm")
    assert (await there.engine.get_request("L-0001")).filled.days == "5"


async def test_a_wrong_field_is_named_as_the_dialog_does() -> None:
    there = office()
    plan = await there.plan(ZHANG, "start_process", process="expense", form=TAXI)
    error = await refused(there.edit(ZHANG, "start_process", plan, {"field_amount": "viel"}))
    assert (error.code, error.field) == ("bad_amount", "field_amount")


async def test_edit_of_a_resubmission(there: Office) -> None:
    await there.decide(LI, "L-0001-1", "return", OPINION)
    plan = await there.plan(ZHANG, "resubmit_request", request_id="L-0001")
    edited = await there.edit(ZHANG, "resubmit_request", plan, {"field_reason": "好多了", "field_end_half": "am"})
    await there.press(ZHANG, "resubmit_request", edited, "confirm")
    request = await there.engine.get_request("L-0001")
    assert (request.filled.values["reason"], request.filled.days) == ("好多了", "4.5")
