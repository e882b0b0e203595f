from __future__ import annotations

import pytest

from bot.core.i18n import render_value, translate, translate_label
from tests.tools.office import LI, LIN, LONG, SHORT, SICK, TAXI, WANG, ZHANG, known, office, refused
from tools.spec import Proposal


def shown(plan: Proposal, language: str = "zh") -> dict[str, str]:
    return {translate_label(f.label, language): render_value(f.value, language) for f in plan.fields}


async def test_what_can_be_asked_for() -> None:
    processes = (await office().look(ZHANG, "list_processes"))["processes"]
    assert [(p["key"], p["name"]) for p in processes] == [("leave", "Leave / 请假"), ("expense", "Expense / 报销")]
    fields = {f["name"]: f for f in processes[0]["fields"]}
    assert fields["leave_type"]["choices"][:2] == ["annual", "sick"]
    assert fields["approver"]["required"] and not fields["start_half"]["required"]
    assert "days" not in fields


async def test_the_card_shows_everything_before_anything_happens() -> None:
    there = office()
    form = {**LONG, "leave_type": "病假", "approver": "Li Si", "start_half": "下午"}
    plan = await there.plan(ZHANG, "start_process", process="请假", form=form)
    assert translate(plan.title.key, "zh", **plan.title.params) == "发起请假申请？"
    assert shown(plan) == {
        "请假类型": "病假",
        "开始日期": "2026年11月23日 周一下午",
        "结束日期": "2026年11月27日 周五下午",
        "请假事由": "胃疼",
        "审批人": "李四",
        "时长": "4.5 个工作日",
        "二级审批人": "王五",
    }
    assert shown(plan, "en")["Type of leave"] == "Sick leave"
    assert plan.deciders == (ZHANG.id,)
    assert [c.name for c in plan.choices] == ["confirm", "edit", "cancel"]
    assert await there.engine.list_own_requests(ZHANG.id) == ()


async def test_confirming_starts_exactly_that() -> None:
    there = office()
    outcome = await there.do(ZHANG, "start_process", process="leave", form=LONG)
    assert outcome.data == {
        "request": "L-0001",
        "status": "waiting",
        "waits_for": ["李四"],
        "then": {"Second approver": ["王五"]},
        "days": 5,
    }
    assert outcome.receipt_line is not None
    assert translate(outcome.receipt_line.text.key, "zh", **outcome.receipt_line.text.params) == "发起了请假申请 L-0001"


async def test_a_short_leave_passes_by_rule_and_says_so() -> None:
    there = office()
    plan = await there.plan(ZHANG, "start_process", process="leave", form=SHORT)
    assert shown(plan)["规则"] == "不超过 1 个工作日的请假按规则自动通过"
    outcome = await there.press(ZHANG, "start_process", plan, "confirm")
    assert outcome.data["status"] == "approved"
    assert "passes by rule" in outcome.data["rule"]
    assert outcome.receipt_line is not None and outcome.receipt_line.text.key == "effect.passed"
    assert "按规则" in translate(outcome.receipt_line.text.key, "zh", **outcome.receipt_line.text.params)


async def test_an_expense_card() -> None:
    form = {**TAXI, "amount": "$1,200.5", "approver": "李四"}
    plan = await office().plan(ZHANG, "start_process", process="expense", form=form)
    assert shown(plan)["金额"] == "1200.50 USD"
    assert shown(plan)["财务会签"] == "赵六"


async def test_an_estimated_length_says_so() -> None:
    form = {**SICK, "start_date": "2026-12-30", "end_date": "2027-01-05"}
    plan = await office().plan(ZHANG, "start_process", process="leave", form=form)
    assert "预估" in shown(plan)["时长"]


@pytest.mark.parametrize(("process", "form"), [("leave", LONG), ("leave", SHORT), ("expense", TAXI)])
async def test_a_plan_accepts_its_own_arguments(process: str, form: dict[str, str]) -> None:
    there = office()
    plan = await there.plan(ZHANG, "start_process", process=process, form=form)
    assert await there.plan(ZHANG, "start_process", **plan.args) == plan


async def test_who_is_asked_changed_between_card_and_press() -> None:
    there = office()
    plan = await there.plan(ZHANG, "start_process", process="leave", form=LONG)
    there.people.known[1] = LI.model_copy(update={"manager": "U5"})
    assert (await refused(there.press(ZHANG, "start_process", plan, "confirm"))).code == "request_changed"
    assert await there.engine.list_own_requests(ZHANG.id) == ()


async def test_numbers_and_nulls_of_models_are_understood() -> None:
    args = known("start_process").args.model_validate(
        {"process": "expense", "form": {**TAXI, "amount": 86.5, "currency": None}}
    )
    assert args.model_dump()["form"]["amount"] == "86.5"
    assert "currency" not in args.model_dump()["form"]


async def test_an_unknown_process() -> None:
    assert (await refused(office().plan(ZHANG, "start_process", process="coup", form={}))).code == "unknown_process"


async def test_my_requests() -> None:
    there = office()
    await there.start(LONG)
    await there.start(SHORT)
    await there.start({**TAXI, "approver": WANG.id}, "expense", LIN)
    found = (await there.look(ZHANG, "my_requests"))["requests"]
    assert [(r["request"], r["status"], r["waits_for"]) for r in found] == [
        ("L-0002", "approved", []),
        ("L-0001", "waiting", ["李四"]),
    ]
    assert found[1]["summary"] == "Sick leave, 2026-11-23 to 2026-11-27, 5 working days"
    assert found[1]["since"] == "2026-11-20T10:00+08:00"
    assert [r["request"] for r in (await there.look(ZHANG, "my_requests", status="waiting"))["requests"]] == ["L-0001"]
    assert (await refused(there.look(ZHANG, "my_requests", status="lost"))).code == "bad_choice"


async def test_my_requests_are_bounded() -> None:
    there = office()
    for n in range(21):
        await there.start({**TAXI, "reason": f"去客户现场 {n}"}, "expense")
    first = await there.look(ZHANG, "my_requests")
    assert (len(first["requests"]), first["more"]) == (20, 2)
    assert (await there.look(ZHANG, "my_requests", page=99))["requests"] == []


async def test_withdrawing() -> None:
    there = office()
    request = await there.start(SICK)
    outcome = await there.do(ZHANG, "withdraw_request", request_id=request.lower(), because="不去了")
    assert outcome.data == {"request": request, "status": "withdrawn"}
    assert (await refused(there.plan(ZHANG, "withdraw_request", request_id=request))).code == "not_running"
    assert (await refused(there.plan(LI, "withdraw_request", request_id=request))).code == "not_yours"
    assert (await refused(there.plan(LI, "withdraw_request", request_id="L-9"))).code == "no_request"
    assert (await refused(there.plan(ZHANG, "withdraw_request", request_id=request, because="x" * 501))).code


async def test_what_passes_by_rule_when_it_is_handed_in_again_says_so() -> None:
    there = office()
    request = await there.start(SICK)
    await there.decide(LI, f"{request}-1", "reject", {"opinion": "太长"})
    plan = await there.plan(ZHANG, "resubmit_request", request_id=request, form=SHORT)
    outcome = await there.press(ZHANG, "resubmit_request", plan, "confirm")
    assert (outcome.data["status"], outcome.summary.key) == ("approved", "result.passed")


async def test_from_its_card_too_it_says_that_it_passed_by_rule() -> None:
    there = office()
    request = await there.start(SICK)
    await there.decide(LI, f"{request}-1", "reject", {"opinion": "太长"})
    form = {f"field_{name}": text for name, text in {**SICK, **SHORT}.items()}
    outcome = await there.decide(ZHANG, f"{request}-2", "resubmit", form)
    assert (outcome.data["status"], outcome.summary.key) == ("approved", "result.passed")


async def test_a_strangers_request_is_as_if_it_were_not_there() -> None:
    there = office()
    request = await there.start(SICK)
    for tool in ("withdraw_request", "resubmit_request"):
        assert (await refused(there.plan(LIN, tool, request_id=request))).code == "no_request"


async def test_resubmitting_what_came_back() -> None:
    there = office()
    request = await there.start(SICK)
    assert (await refused(there.plan(ZHANG, "resubmit_request", request_id=request))).code == "not_revise"
    await there.decide(LI, f"{request}-1", "reject", {"opinion": "太长"})
    assert (await refused(there.plan(LI, "resubmit_request", request_id=request))).code == "not_yours"
    plan = await there.plan(ZHANG, "resubmit_request", request_id=request, form={"end_half": "上午"})
    assert await there.plan(ZHANG, "resubmit_request", **plan.args) == plan
    assert shown(plan)["时长"] == "1.5 个工作日"
    outcome = await there.press(ZHANG, "resubmit_request", plan, "confirm", key="same")
    again = await there.press(ZHANG, "resubmit_request", plan, "confirm", key="same")
    assert outcome == again
    assert outcome.data == {"request": request, "status": "waiting", "waits_for": ["李四"], "days": 1.5}
    assert (await refused(there.press(ZHANG, "resubmit_request", plan, "confirm"))).code == "task_closed"
