"""What is left of the caller's yearly allowances: 年假还剩几天."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tools.advice import advice
from tools.days import FIRST, LAST
from tools.spec import Frozen, Note, Outcome, Privacy, ToolError
from tools.tool import Tool, Use
from tools.workflow.state import plain


class LeaveBalance(Frozen):
    year: int = Field(0, description="0: this one.")


async def run_leave_balance(use: Use, args: LeaveBalance) -> Outcome:
    year = args.year or use.now.year
    if not FIRST <= year <= LAST:
        message = f"the calendar is for the years {FIRST} to {LAST}"
        raise ToolError("no_calendar", message, field="year", first=FIRST, last=LAST)
    kept = await use.desk.engine.balances(use.caller.id, year)
    balances: list[dict[str, Any]] = [
        {
            "kind": one.label[use.caller.person.language],
            "days_a_year": plain(one.allowance),
            "approved": plain(one.approved),
            "waiting": plain(one.waiting),
            "left": plain(one.left),
        }
        for one in kept
    ]
    lines = [
        Note(key="result.balance", params={"label": one.label, "left": plain(one.left), "year": str(year)})
        for one in kept
    ]
    told = {each: "; ".join(use.desk.words(line, each) for line in lines) for each in ("zh", "en")}
    note = Note(key="result.balances", params={"balances": told}) if lines else Note(key="result.no_balances")
    return Outcome(data={"year": year, "balances": balances, "unit": "working days"}, note=note)


LEAVE_BALANCE = Tool(
    name="leave_balance",
    purpose="How many days of leave the caller has left.",
    use_when="They ask for their balance.",
    avoid_when="It is a colleague's.",
    args=LeaveBalance,
    returns='{"year", "balances": [{"kind", "days_a_year", "approved", "waiting": not decided yet, "left"}]}; kinds '
    "that are not listed have no limit that is kept here",
    errors=advice("no_calendar"),
    also=frozenset({"unknown_person"}),
    example={"year": 2026},
    run=run_leave_balance,
    privacy=Privacy.OWN,
)
