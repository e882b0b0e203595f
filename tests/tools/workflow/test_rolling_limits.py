"""Sums of what one person asked for lately: what is split to stay below a limit is seen, or sent to the next level."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

from bot.core.i18n import render_value
from tests.harness.crowd import Crowd
from tests.harness.memory_store import MemoryStore
from tests.tools.company import NOW, TAXI, ZHANG, ZHAO, filled
from tests.tools.office import Office, decide, office
from tools.cards.fields import build_form_card_fields
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.engine.audit_record import build_audit_lines
from tools.workflow.engine.commands import DecideCommand
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.state import Decision, FilledForm, Request, Status, Task, TaskKind
from tools.workflow.process.definition import Process, compile_process, load_shipped_processes

EXPENSE = load_shipped_processes()[1]
MEAL = {**TAXI, "category": "meals", "amount": "600"}
FORM = EXPENSE.toml.decode()
_numbers = count(1)


def another_meal() -> dict[str, str]:
    """Not the same as the one before: that would be asked about."""
    return {**MEAL, "reason": f"第 {next(_numbers)} 次请客户吃饭"}


def claim(form: dict[str, str], status: Status = Status.APPROVED, days: int = 0, **more: Any) -> Request:
    """An earlier claim of 张三's, handed in so many days ago."""
    at = NOW - timedelta(days=days)
    return Request(
        id=more.pop("id", "E-0001"),
        process="expense",
        definition=EXPENSE.definition.version,
        form=EXPENSE.form_version,
        initiator=ZHANG.id,
        status=status,
        filled=filled(EXPENSE, form),
        started=at,
        changed=at,
        **more,
    )


def asked(*earlier: Request, form: dict[str, str] = MEAL, process: Process = EXPENSE) -> FilledForm:
    return filled(process, form, more={"earlier_requests": earlier})


def sums(found: FilledForm) -> tuple[str, str, bool]:
    return f"{found.numbers['recent']:f}", f"{found.numbers['count_recent']:f}", "recent" in found.exceeded


def test_one_claim_is_never_splitting_and_two_that_reach_the_threshold_are() -> None:
    assert sums(asked()) == ("600.00", "1", False)
    assert sums(asked(form={**MEAL, "amount": "5000"})) == ("5000.00", "1", False), "goes to finance anyway"
    assert sums(asked(claim({**MEAL, "amount": "399.99"}))) == ("999.99", "2", False)
    assert sums(asked(claim({**MEAL, "amount": "400"}))) == ("1000.00", "2", True), "from the threshold on"
    assert sums(filled(EXPENSE, MEAL, more={"earlier_requests": [claim(MEAL)]}, threshold="5000"))[2] is False


def test_only_the_same_category_and_currency_are_put_together() -> None:
    assert sums(asked(claim({**MEAL, "category": "travel"}))) == ("600.00", "1", False)
    assert sums(asked(claim({**MEAL, "currency": "USD"}))) == ("600.00", "1", False)
    dollars = {**MEAL, "currency": "USD"}
    assert sums(asked(claim(dollars), form=dollars)) == ("0", "0", False), "the row is about CNY"
    any_currency = compile_process(EXPENSE.bpmn, FORM.replace("when = \"${currency == 'CNY'}\"\n", "").encode())
    assert sums(asked(claim(dollars), claim(MEAL), form=dollars, process=any_currency)) == ("1200.00", "2", True)


@pytest.mark.parametrize(("days", "counts"), [(0, True), (29, True), (30, False), (300, False)])
def test_only_the_last_days_count_by_the_authors_calendar(days: int, counts: bool) -> None:
    assert sums(asked(claim(MEAL, days=days)))[2] is counts


@pytest.mark.parametrize("status", Status)
def test_what_waits_or_was_approved_counts_and_what_came_back_does_not(status: Status) -> None:
    counts = status in (Status.WAITING, Status.APPROVED, Status.REVOKING)
    assert sums(asked(claim(MEAL, status)))[2] is counts


def test_what_was_handed_in_again_counts_from_then() -> None:
    """An old claim that was kept back, and resubmitted lately with another amount, does not hide in the past."""
    again = Task(id="E-0001-2", node="revise", kind=TaskKind.REVISE, seat=2, assignee="U1", since=NOW, closed=NOW,
                 outcome=Decision.RESUBMIT.value, by="U1")  # fmt: skip
    assert sums(asked(claim(MEAL, days=40)))[2] is False
    assert sums(asked(claim(MEAL, days=40, tasks=(again,))))[2] is True


async def test_the_shipped_default_is_a_flag_on_the_card_and_in_the_record() -> None:
    there = office()
    for _ in range(2):
        await there.start(another_meal(), "expense")
    plan = await there.plan(
        ZHANG, "start_process", process="expense", form={**MEAL, "amount": "1,200.00元", "receipt": ""}
    )
    flags = {
        language: [render_value(f.value, language) for f in plan.fields if f.label == "notice"]
        for language in ("zh", "en")
    }
    assert flags == {
        "zh": ["连同这一笔，30 天内共有 3 笔报销（餐饮），合计 2400.00 CNY"],
        "en": ["With this, 3 expense requests (Meals) in 30 days: 2400.00 CNY"],
    }
    second = await there.card("E-0002-1")
    assert "连同这一笔，30 天内共有 2 笔报销（餐饮），合计 1200.00 CNY" in [
        render_value(f.value, "zh") for f in second.fields
    ]
    first = await there.card("E-0001-1")
    assert not [f for f in first.fields if f.label == "notice"], "there was only one then"
    (event,) = await there.engine.list_events("E-0002")
    assert {line.flags for line in build_audit_lines("E-0002", event)} == {"bound recent"}
    assert (await there.engine.get_request("E-0002")).waits_for == ("U2",)
    moved = await decide(there.engine, "E-0002-1", "U2", Decision.APPROVE)
    assert moved.status is Status.APPROVED, "nothing else changes"


TO_FINANCE = compile_process(
    EXPENSE.bpmn.replace(b"${amount &gt;= threshold ||", b"${amount &gt;= threshold || recent &gt;= threshold ||"),
    EXPENSE.toml,
)
"""What the README says: the sum sends a claim to finance."""


async def test_by_a_word_in_the_process_the_sum_sends_it_to_the_next_level() -> None:
    there = office(processes=[TO_FINANCE])
    await there.start(another_meal(), "expense")
    assert "finance_approvers" not in (await there.engine.get_request("E-0001")).filled.people
    await there.start(another_meal(), "expense")
    assert (await there.engine.get_request("E-0002")).filled.people["finance_approvers"] == (ZHAO.id,)
    moved = await decide(there.engine, "E-0002-1", "U2", Decision.APPROVE)
    assert (moved.status, moved.waits_for) == (Status.WAITING, (ZHAO.id,))


async def two_at_once(process: Process) -> tuple[int, int]:
    """(claims that were sent to finance, claims) of two that were handed in at the same moment."""
    store = Crowd(MemoryStore(), "load_start_context", 2)
    there = office(store, processes=[process])
    await asyncio.gather(*(there.engine.start_request("expense", MEAL, ZHANG.id, f"k{n}", NOW) for n in range(2)))
    mine = await there.engine.list_own_requests(ZHANG.id)
    return sum("finance_approvers" in r.filled.people for r in mine), len(mine)


async def test_two_at_the_same_moment_are_seen_together() -> None:
    assert await two_at_once(TO_FINANCE) == (1, 2)


async def two_resubmitted_at_once() -> int:
    """How many of two that were handed in again at the same moment are flagged."""
    store = MemoryStore()
    there = office(store)
    for n in (1, 2):
        await there.start(another_meal(), "expense")
        await decide(there.engine, f"E-000{n}-1", "U2", Decision.REJECT, "发票呢")
    together = office(Crowd(store, "load_requests", 2)).engine
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


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('field = "amount"', 'field = "reason"', "bound row 1: 'reason' is no field with an amount or a number"),
        ('per = ["category"]', 'per = ["colour"]', "bound row 1: 'colour' is no field"),
        ('limit = "threshold"', 'limit = "much"', "bound row 1: limit: 'much' is neither"),
        ('limit = "threshold"', "limit = 0", "bound row 1: limit: '0' is neither"),
        ('limit = "threshold"', "limit = -5", "bound row 1: limit: '-5' is neither"),
        ("days = 30", "days = 0", "bound row 1, days"),
        ("currency == 'CNY'", "recent > 5", "bound row 1: when: unknown variable 'recent'"),
        ('name = "recent"', 'name = "threshold"', "'threshold' is the name of two fields, levels, numbers or bounds"),
    ],
)
def test_a_row_that_cannot_be_meant_is_refused(before: str, after: str, reason: str) -> None:
    assert before in FORM
    with pytest.raises(InvalidDefinitionError) as wrong:
        compile_process(EXPENSE.bpmn, FORM.replace(before, after).encode())
    assert reason in str(wrong.value)


@pytest.mark.parametrize("limit", ['"800"', "800", "800.5", '"threshold"'])
def test_a_limit_is_a_number_or_the_name_of_one(limit: str) -> None:
    process = compile_process(EXPENSE.bpmn, FORM.replace('limit = "threshold"', f"limit = {limit}").encode())
    assert sums(asked(claim(MEAL), process=process))[2] is True
    assert Decimal(asked(process=process).numbers["recent"]) == 600


async def test_only_the_sum_is_told_of_other_claims() -> None:
    found = asked(claim({**MEAL, "reason": "secret dinner"}))
    assert "secret" not in str(await build_form_card_fields(office().people, EXPENSE, found))
