"""Expenses, told as people live them: as complete as leave, with finance where it is about more money."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.harness.office import ADMIN, ANN, LI, WANG, ZHANG, ZHAO, Office, read_message_text
from tests.stories.behind import DECISION, choices_of, facts_of, forged, request_of, told_privately
from tools.workflow.engine.state import Status

LARGE = "报销 1500 元差旅费，去上海开会，审批人李四"
SMALL = "报销 999.99 元差旅费，去上海开会，审批人李四"


async def test_i_an_expense_over_the_threshold_goes_to_finance_after_the_approver(desk: Office) -> None:
    here, first, finance = desk.dm(ZHANG), desk.dm(LI), desk.dm(ZHAO)
    await desk.says(ZHANG, LARGE)
    preview = await desk.card(here)
    assert facts_of(preview) == {
        "金额": "1500.00 CNY",
        "费用类别": "差旅",
        "事由": "去上海开会",
        "审批人": "李四",
        "财务会签": "赵六、管理员",
    }
    before = facts_of(preview)
    await desk.press(ZHANG, preview, "confirm")
    card = await desk.card(first, "E-0001")
    assert before.items() - {("审批人", "李四")} <= facts_of(card).items() and choices_of(card) == DECISION
    assert not desk.cards(finance), "finance comes after the approver"
    await desk.press(LI, card, "approve")

    card = await desk.card(finance, "E-0001")
    assert facts_of(card)["Amount"] == "1500.00 CNY" and facts_of(card)["Opinion"] == "Li Si approved"
    assert "已通过" not in desk.said(here)
    await forged(desk, LI, card, "approve")
    await told_privately(desk, LI, "赵六")
    await desk.press(ZHAO, card, "approve")
    await desk.quiet()
    assert "已通过" not in desk.said(here), "everybody of finance signs"
    await desk.press(ADMIN, await desk.card(desk.dm(ADMIN), "E-0001"), "approve")
    await desk.until(lambda: "您的报销申请 E-0001 已通过" in desk.said(here))
    await desk.quiet()
    request = await request_of(desk, "E-0001")
    assert [one.by for one in request.opinions] == [LI, ZHAO, ADMIN]
    assert (request.status, request.filled.numbers["amount"]) == (Status.APPROVED, Decimal("1500"))
    assert not any(desk.cards(desk.dm(one)) for one in (ZHANG, LI, WANG, ZHAO))


async def test_i_under_the_threshold_finance_is_not_asked(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, SMALL)
    preview = await desk.card(here)
    assert facts_of(preview)["金额"] == "999.99 CNY"
    await desk.press(ZHANG, preview, "confirm")
    await desk.press(LI, await desk.card(desk.dm(LI), "E-0001"), "approve")
    await desk.until(lambda: "您的报销申请 E-0001 已通过" in desk.said(here))
    await desk.quiet()
    request = await request_of(desk, "E-0001")
    assert [one.by for one in request.opinions] == [LI] and request.status is Status.APPROVED
    assert not desk.posts(desk.dm(ZHAO)), "finance has heard nothing"


@pytest.mark.parametrize(("amount", "asked"), [("1000", True), ("999.99", False)])
async def test_i_the_threshold_itself_belongs_to_finance(desk: Office, amount: str, asked: bool) -> None:
    await desk.request_leave(ZHANG, f"报销 {amount} 元餐费，部门聚餐，审批人李四")
    await desk.press(LI, await desk.card(desk.dm(LI), "E-0001"), "approve")
    await desk.until(lambda: desk.cards(desk.dm(ZHAO)) or "您的报销申请 E-0001 已通过" in desk.said(desk.dm(ZHANG)))
    assert bool(desk.cards(desk.dm(ZHAO))) is asked


async def test_i_the_same_in_english_with_a_foreign_currency(desk: Office) -> None:
    """A small sum in another currency is for finance too."""
    here = desk.dm(ANN.id)
    await desk.says(ANN.id, "expense 80 USD for travel, taxi to the airport, approver Li Si")
    preview = await desk.card(here)
    expected = {"Amount": "80.00 USD", "Approver": "Li Si", "Finance": "Zhao Liu, Admin"}
    assert facts_of(preview).items() >= expected.items()
    await desk.press(ANN.id, preview, "confirm")
    await desk.press(LI, await desk.card(desk.dm(LI), "E-0001"), "approve")
    for one in (ZHAO, ADMIN):
        await desk.press(one, await desk.card(desk.dm(one), "E-0001"), "approve")
    await desk.until(lambda: "Your expense request E-0001 is approved" in desk.said(here))


async def test_i_one_veto_of_finance_sends_it_back_and_everybody_signs_again(desk: Office) -> None:
    here, first, finance = desk.dm(ZHANG), desk.dm(LI), desk.dm(ZHAO)
    await desk.request_leave(ZHANG, LARGE)
    await desk.press(LI, await desk.card(first), "approve")
    await desk.press(ZHAO, await desk.card(finance), "reject")
    view = await desk.until(lambda: desk.driver.find_top_view(ZHAO))
    refused = await desk.driver.submit_view(ZHAO, view["id"], {"opinion": " "}, force=True)
    assert refused.errors == {"opinion": "Please say why when you reject or return"}
    await desk.fill(ZHAO, opinion="the invoice says 1300")
    revise = await desk.card(here, "被驳回")
    await desk.until(lambda: not desk.cards(desk.dm(ADMIN)))
    assert "其他审批人的决定已经够了" in desk.said(desk.dm(ADMIN)), "one veto is enough"
    assert choices_of(revise) == {"resubmit", "withdraw", "show"}
    assert facts_of(revise)["事由"] == "去上海开会" and "the invoice says 1300" in read_message_text(revise)

    await desk.press(ZHANG, revise, "resubmit")
    refused = await desk.fill(ZHANG, field_amount="12.345")
    assert list(refused.errors) == ["field_amount"] and "小数" in refused.errors["field_amount"]
    assert (await desk.fill(ZHANG, field_amount="1300")).ok
    again = await desk.card(first, "E-0001")
    assert facts_of(again)["金额"] == "1300.00 CNY" and "the invoice says 1300" in read_message_text(again)
    await desk.press(LI, again, "approve")
    await desk.press(ZHAO, await desk.card(finance, "1300.00 CNY"), "approve")
    await desk.press(ADMIN, await desk.card(desk.dm(ADMIN), "1300.00 CNY"), "approve")
    await desk.until(lambda: "您的报销申请 E-0001 已通过" in desk.said(here))
    request = await request_of(desk, "E-0001")
    assert (request.round, request.filled.values["reason"]) == (2, "去上海开会")
    assert [one.by for one in request.opinions] == [LI, ZHAO, LI, ZHAO, ADMIN]


async def test_i_one_veto_of_finance_in_english(desk: Office) -> None:
    here = desk.dm(ANN.id)
    await desk.request_leave(ANN.id, "expense 80 USD for travel, taxi to the airport, approver Li Si")
    await desk.press(LI, await desk.card(desk.dm(LI), "E-0001"), "approve")
    await desk.card(desk.dm(ZHAO), "E-0001")
    await desk.press(ADMIN, await desk.card(desk.dm(ADMIN), "E-0001"), "reject")
    await desk.fill(ADMIN, opinion="no receipt")
    revise = await desk.card(here, "was rejected")
    await desk.until(lambda: not desk.cards(desk.dm(ZHAO)))
    assert "Settled by another vote" in desk.said(desk.dm(ZHAO)) and "no receipt" in read_message_text(revise)
    await desk.press(ANN.id, revise, "withdraw")
    await desk.quiet()
    assert (await request_of(desk, "E-0001")).status == "withdrawn"


async def test_i_rejected_revised_below_the_threshold_needs_no_finance(desk: Office) -> None:
    here, first = desk.dm(ZHANG), desk.dm(LI)
    await desk.press(ZHANG, await desk.sent_back(ZHANG, LARGE, LI, "只报 900"), "resubmit")
    await desk.fill(ZHANG, field_amount="900")
    again = await desk.card(first, "900.00 CNY")
    await desk.press(LI, again, "approve")
    await desk.until(lambda: "您的报销申请 E-0001 已通过" in desk.said(here))
    await desk.quiet()
    assert not desk.posts(desk.dm(ZHAO))


async def test_i_rejected_and_withdrawn_like_leave(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.press(ZHANG, await desk.sent_back(ZHANG, SMALL, LI, "没有发票"), "withdraw")
    await desk.until(lambda: not desk.cards(here))
    await desk.quiet()
    assert (await request_of(desk, "E-0001")).status is Status.WITHDRAWN
    assert "撤回了申请 E-0001" in desk.said(here)


async def test_i_finance_does_not_decide_on_its_own_expense(desk: Office) -> None:
    """A large expense of Zhao Liu's, who is finance for everybody else, goes to another one in finance."""
    await desk.request_leave(ZHAO, "expense 1500 CNY for travel, conference, approver Wang Wu")
    await desk.press(WANG, await desk.card(desk.dm(WANG)), "approve")
    card = await desk.card(desk.dm(ADMIN), "1500")
    assert not desk.cards(desk.dm(ZHAO))
    await forged(desk, ZHAO, card, "approve")
    await told_privately(desk, ZHAO, "cannot decide it")
    await desk.press(ADMIN, card, "approve")
    await desk.until(lambda: not desk.cards(desk.dm(ADMIN)))
    await desk.quiet()
    assert (await request_of(desk, "E-0001")).status is Status.APPROVED
