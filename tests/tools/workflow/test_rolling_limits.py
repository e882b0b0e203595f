"""Sums of what one person asked for lately: what is split to stay below a limit is seen, or sent to the next level."""

import asyncio
from datetime import timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

from bot.core.i18n import render_value
from tests.harness.corpus import corpus
from tests.harness.crowd import Crowd
from tests.harness.memory_store import MemoryStore
from tests.tools.company import NOW, SHORT, TAXI, ZHANG, ZHAO, filled, request
from tests.tools.office import Office, decide, office
from tools.cards.fields import build_form_card_fields
from tools.spec import ConfirmAgainError, Identities, Proposal
from tools.workflow.engine.audit_record import build_audit_lines
from tools.workflow.engine.commands import DecideCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.state import Decision, FilledForm, Request, Status, Task, TaskKind, format_decimal
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes

LEAVE, EXPENSE = load_shipped_processes()
MEAL = {**TAXI, "category": "meals", "amount": "600"}
FORM = EXPENSE.toml.decode()
_numbers = count(1)


def another_meal() -> dict[str, str]:
    """Not the same as the one before: that would be asked about."""
    return {**MEAL, "reason": f"第 {next(_numbers)} 次请客户吃饭"}


def claim(form: dict[str, str], status: Status = Status.APPROVED, days: int = 0, **more: Any) -> Request:
    """An earlier claim of 张三's, handed in so many days ago."""
    at = NOW - timedelta(days=days)
    return request(EXPENSE, form, id="E-0001", status=status).model_copy(update={"started": at, "changed": at, **more})


def asked(*earlier: Request, form: dict[str, str] = MEAL, process: Process = EXPENSE) -> FilledForm:
    return filled(process, form, more={"earlier_requests": earlier})


def sums(found: FilledForm) -> tuple[str, str, bool]:
    return f"{found.numbers['recent']:f}", f"{found.numbers['count_recent']:f}", "recent" in found.exceeded


def list_flags(plan: Proposal, language: str = "zh") -> list[str]:
    return [render_value(f.value, language) for f in plan.fields if f.label == "notice"]


def test_two_that_reach_the_threshold_are_splitting_of_the_same_category_and_currency() -> None:
    assert sums(asked()) == ("600.00", "1", False)
    assert sums(asked(form={**MEAL, "amount": "5000"})) == ("5000.00", "1", False), "goes to finance anyway"
    assert sums(asked(claim({**MEAL, "amount": "399.99"}))) == ("999.99", "2", False)
    assert sums(asked(claim({**MEAL, "amount": "400"}))) == ("1000.00", "2", True), "from the threshold on"
    assert sums(filled(EXPENSE, MEAL, more={"earlier_requests": [claim(MEAL)]}, threshold="5000"))[2] is False
    assert sums(asked(claim({**MEAL, "category": "travel"}))) == ("600.00", "1", False)
    assert sums(asked(claim({**MEAL, "currency": "USD"}))) == ("600.00", "1", False)
    dollars = {**MEAL, "currency": "USD"}
    assert sums(asked(claim(dollars), form=dollars)) == ("0", "0", False), "the row is about CNY"
    any_currency = compile_process(EXPENSE.bpmn, FORM.replace("when = \"${currency == 'CNY'}\"\n", "").encode())
    assert sums(asked(claim(dollars), claim(MEAL), form=dollars, process=any_currency)) == ("1200.00", "2", True)


def test_what_waits_or_was_approved_in_the_last_days_by_the_authors_calendar_counts() -> None:
    for days, counts in ((0, True), (29, True), (30, False), (300, False)):
        assert sums(asked(claim(MEAL, days=days)))[2] is counts, days
    for status in Status:
        counts = status in (Status.WAITING, Status.APPROVED, Status.REVOKING)
        assert sums(asked(claim(MEAL, status)))[2] is counts, status
    again = Task(id="E-0001-2", node="revise", kind=TaskKind.REVISE, seat=2, assignee="U1", since=NOW, closed=NOW,
                 outcome=Decision.RESUBMIT.value, by="U1")  # fmt: skip
    assert sums(asked(claim(MEAL, days=40)))[2] is False
    assert sums(asked(claim(MEAL, days=40, tasks=(again,))))[2] is True, "handed in again, it counts from then"


async def test_the_shipped_default_is_a_flag_on_the_card_and_in_the_record() -> None:
    there = office()
    for _ in range(2):
        await there.start(another_meal(), "expense")
    form = {**MEAL, "amount": "1,200.00元", "receipt": ""}
    plan = await there.plan(ZHANG, "start_process", process="expense", form=form)
    assert list_flags(plan) == ["连同这个申请，30 天内共有 3 个报销申请（餐饮），合计 2400.00 CNY"]
    assert list_flags(plan, "en") == ["With this, 3 expense requests (Meals) in 30 days: 2400.00 CNY"]
    second = await there.card("E-0002-1")
    assert list_flags(second) == ["连同这个申请，30 天内共有 2 个报销申请（餐饮），合计 1200.00 CNY"]
    assert not list_flags(await there.card("E-0001-1")), "there was only one then"
    (event,) = await there.engine.list_events("E-0002")
    assert {line.flags for line in build_audit_lines("E-0002", event)} == {"bound recent"}
    assert (await there.engine.get_request("E-0002")).waits_for == ("U2",)
    moved = await decide(there.engine, "E-0002-1", "U2", Decision.APPROVE)
    assert moved.status is Status.APPROVED, "nothing else changes"


AMOUNT = b"${amount &gt;= threshold ||"
TO_FINANCE = compile_process(EXPENSE.bpmn.replace(AMOUNT, AMOUNT + b" recent &gt;= threshold ||"), EXPENSE.toml)
"""What the README says: the sum sends a claim to finance."""


async def test_by_a_word_in_the_process_the_sum_sends_it_to_the_next_level_also_of_two_at_the_same_moment() -> None:
    there = office(processes=[TO_FINANCE])
    await there.start(another_meal(), "expense")
    assert "finance_approvers" not in (await there.engine.get_request("E-0001")).filled.people
    await there.start(another_meal(), "expense")
    assert (await there.engine.get_request("E-0002")).filled.people["finance_approvers"] == (ZHAO.id,)
    moved = await decide(there.engine, "E-0002-1", "U2", Decision.APPROVE)
    assert (moved.status, moved.waits_for) == (Status.WAITING, (ZHAO.id,))
    there = office(Crowd(MemoryStore(), "load_start_context", 2), processes=[TO_FINANCE])
    await asyncio.gather(*(there.engine.start_request("expense", MEAL, ZHANG.id, f"k{n}", NOW) for n in range(2)))
    mine = await there.engine.list_own_requests(ZHANG.id)
    assert sorted("finance_approvers" in r.filled.people for r in mine) == [False, True]


async def two_resubmitted_at_once() -> int:
    """How many of two that were handed in again at the same moment are flagged."""
    store = MemoryStore()
    there = office(store)
    for n in (1, 2):
        await there.start(another_meal(), "expense")
        await decide(there.engine, f"E-000{n}-1", "U2", Decision.REJECT, "发票呢")
    together = office(Crowd(store, "list_own_requests", 2)).engine
    again = [DecideCommand(task=f"E-000{n}-2", actor=ZHANG.id, decision=Decision.RESUBMIT) for n in (1, 2)]
    await asyncio.gather(*(together.execute_command(one, one.task, NOW) for one in again))
    return sum("recent" in r.filled.exceeded for r in await there.engine.list_own_requests(ZHANG.id))


async def test_two_that_are_handed_in_again_at_the_same_moment_are_seen_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await two_resubmitted_at_once() == 1
    keep = EmbeddedEngine._save_result

    async def without(self: EmbeddedEngine, *args: Any) -> Any:
        return await keep(self, *args[:-1], None)

    monkeypatch.setattr(EmbeddedEngine, "_save_result", without)
    assert await two_resubmitted_at_once() == 0, "the control: without the comparison neither sees the other"


async def test_a_resubmission_counts_the_others_and_not_itself() -> None:
    there: Office = office()
    await there.start(another_meal(), "expense")
    await decide(there.engine, "E-0001-1", "U2", Decision.REJECT, "发票呢")
    await decide(there.engine, "E-0001-2", ZHANG.id, Decision.RESUBMIT)
    assert sums((await there.engine.get_request("E-0001")).filled) == ("600.00", "1", False)
    await there.start(another_meal(), "expense")
    await decide(there.engine, "E-0001-3", "U2", Decision.REJECT, "再看看")
    await decide(there.engine, "E-0001-4", ZHANG.id, Decision.RESUBMIT, form={"amount": "500"})
    assert sums((await there.engine.get_request("E-0001")).filled) == ("1100.00", "2", True)


def leave(first: str, last: str = "", start_half: str = "am", end_half: str = "pm") -> dict[str, str]:
    return {**SHORT, "start_date": first, "start_half": start_half, "end_date": last or first, "end_half": end_half}


WEEK = [leave(f"2026-12-{day:02}") for day in range(7, 12)]
"""Five single days, Monday to Friday."""


def length(form: dict[str, str], *earlier: Request) -> tuple[str, str]:
    """By which rules go, and of the request alone."""
    found = filled(LEAVE, {"approver": "U2", **form}, more={"earlier_requests": earlier})
    return format_decimal(found.numbers["days"]), found.days


async def test_five_single_days_in_a_row_are_one_leave_of_five_days_for_every_rule() -> None:
    there = office()
    assert (await there.do(ZHANG, "start_process", process="leave", form=WEEK[0])).data["status"] == "approved"
    for form in WEEK[1:]:
        await there.start(form)
    requests = await there.engine.list_own_requests(ZHANG.id)
    assert [r.waits_for for r in requests] == [(), *[("U2",)] * 4]
    assert ["second_approver" in r.filled.people for r in requests] == [False, False, False, True, True]
    card = await there.card("L-0005-1")
    assert list_flags(card) == ["连同前后相邻的 4 个申请，共 5 个工作日，审批规则按这个天数算"]
    assert list_flags(card, "en")[0].startswith("5 working days together with the 4 requests next to it")
    assert [r.filled.days for r in requests] == ["1"] * 5, "each card says its own length"


async def test_five_single_days_asked_for_at_the_same_moment_count_together_too() -> None:
    there = office(Crowd(MemoryStore(), "load_start_context", 5))
    forms = [{**form, "approver": "U2"} for form in WEEK]
    starts = [there.engine.start_request("leave", form, ZHANG.id, f"k{n}", NOW) for n, form in enumerate(forms)]
    passed = [r for r in await asyncio.gather(*starts) if r.status is Status.APPROVED]
    assert 1 <= len(passed) <= 2, "two of them, if the days between were not asked for yet"
    assert max(r.filled.numbers["days"] for r in await there.engine.list_own_requests(ZHANG.id)) == 5


async def test_the_card_of_a_single_day_is_shown_again_with_its_approver_once_the_day_before_was_started() -> None:
    there = office()
    monday, tuesday = [await there.plan(ZHANG, "start_process", process="leave", form=form) for form in WEEK[:2]]
    await there.press(ZHANG, "start_process", monday, "confirm")
    with pytest.raises(ConfirmAgainError) as asked:
        await there.press(ZHANG, "start_process", tuesday, "confirm")
    labels = [f.label for f in asked.value.plan.fields]
    assert {"审批人", "notice"} <= {one if isinstance(one, str) else one["zh"] for one in labels}
    await there.press(ZHANG, "start_process", asked.value.plan, "confirm")
    assert (await there.engine.get_request("L-0002")).waits_for == ("U2",)


@corpus(
    ("form", "days"),
    (leave("2026-11-30"), "2"),  # the Friday before
    (leave("2026-12-01"), "2"),  # one working day between
    (leave("2026-12-02"), "1"),
    (leave("2026-11-25"), "2"),
    (leave("2026-11-24", end_half="am"), "0.5"),
    (leave("2026-11-26", end_half="am"), "1.5"),
    (leave("2026-11-30", "2026-12-04"), "6"),
)
def test_what_adjoins_counts_together_over_a_weekend_and_over_one_working_day(form: dict[str, str], days: str) -> None:
    assert length(form, request(LEAVE, leave("2026-11-27")))[0] == days
    assert length(form)[0] == length(form)[1], "alone, it is as long as it is"


def test_what_adjoins_counts_together_over_holidays_and_through_others_in_both_directions() -> None:
    new_year = [request(LEAVE, leave("2026-12-31")), request(LEAVE, leave("2027-01-05"))]
    assert length(leave("2027-01-04"), *new_year) == ("3", "1")
    week = [request(LEAVE, form) for form in WEEK]
    assert [length(form, *week[:n], *week[n + 1 :]) for n, form in enumerate(WEEK)] == [("5", "1")] * 5
    assert length(WEEK[0], *week[2:]) == ("4", "1"), "over a working day"
    assert length(WEEK[0], *week[3:]) == ("1", "1"), "not over two"
    only_adjoining = compile_process(LEAVE.bpmn, LEAVE.toml.replace(b"[days]\n", b"[days]\ngap = 0\n"))
    found = filled(only_adjoining, WEEK[0], more={"earlier_requests": week[2:]})
    assert format_decimal(found.numbers["days"]) == "1"


@corpus("status", *Status)
def test_only_what_waits_or_was_approved_lengthens_another_leave(status: Status) -> None:
    counts = status in (Status.WAITING, Status.APPROVED, Status.REVOKING)
    assert length(WEEK[1], request(LEAVE, WEEK[0], status=status)) == ("2" if counts else "1", "1")


async def test_the_manager_hears_of_what_passed_by_rule_and_the_author_sees_that_beforehand() -> None:
    there = office()
    plan = await there.plan(ZHANG, "start_process", process="leave", form=SHORT)
    (copied,) = [f for f in plan.fields if f.label == "cc"]
    assert isinstance(copied.value, Identities) and [p.id for p in copied.value.people] == ["U2"]
    await there.press(ZHANG, "start_process", plan, "confirm")
    assert [e.data["person"] for e in await there.engine.list_outbox(9) if e.kind == "told"] == ["U2"]
    assert "U2" in (await there.engine.get_request("L-0001")).participants


async def test_a_limit_is_a_number_or_the_name_of_one_and_only_the_sum_is_told_of_other_claims() -> None:
    for limit in ('"800"', "800", "800.5", '"threshold"'):
        process = compile_process(EXPENSE.bpmn, FORM.replace('limit = "threshold"', f"limit = {limit}").encode())
        assert sums(asked(claim(MEAL), process=process))[2] is True, limit
        assert Decimal(asked(process=process).numbers["recent"]) == 600
    found = asked(claim({**MEAL, "reason": "secret dinner"}))
    assert "secret" not in str(await build_form_card_fields(office().people, EXPENSE, found))
