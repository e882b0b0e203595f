"""The tool `leave_balance`: the caller's remaining yearly allowances (年假还剩几天). Nobody sees anybody else's."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tools.error_advice import select_advice
from tools.languages import choose_words
from tools.people.names import choose_name, list_names_by_language, resolve_person
from tools.spec import Offer, TextRef, ToolError, ToolOutcome
from tools.tool import Tool, ToolArgs, ToolContext
from tools.workflow.engine.state import format_decimal
from tools.working_days.tool import require_supported_year


class LeaveBalanceArgs(ToolArgs):
    person: str = Field("", max_length=100, description="Whose: name or id; empty: the caller's own.")
    year: int = Field(0, description="0: this one.")


async def run_leave_balance(context: ToolContext, args: LeaveBalanceArgs) -> ToolOutcome:
    if args.person.strip():
        person = resolve_person(await context.services.directory.list_people(), args.person, field="person")
        if person.id != context.caller.id:
            name, names = choose_name(person, context.caller.person.language), list_names_by_language(person)
            raise ToolError("own_balance_only", f"only {name} can see that; tell the caller so", name=names)
    year = args.year or context.now.year
    require_supported_year(year, "year")
    balances, lines = list[dict[str, Any]](), list[TextRef]()
    for balance in await context.services.engine.list_balances(context.caller.id, year):
        left = format_decimal(balance.remaining)
        params: dict[str, Any] = {"label": balance.label, "left": left, "year": str(year)}
        lines.append(TextRef(key="result.balance", params=params))
        balances.append(
            {
                "kind": choose_words(balance.label, context.caller.person.language),
                "days_a_year": format_decimal(balance.allowance),
                "approved": format_decimal(balance.approved),
                "waiting": format_decimal(balance.pending),
                "left": left,
            }
        )
    render, signs = context.services.render_text, {"zh": "；", "en": "; "}
    told = {language: sign.join(render(line, language) for line in lines) for language, sign in signs.items()}
    note = TextRef(key="result.balances", params={"balances": told}) if lines else TextRef(key="result.no_balances")
    name = choose_name(context.caller.person, context.caller.person.language)
    data = {"of": name, "year": year, "balances": balances, "unit": "working days"}
    return ToolOutcome(data=data, summary=note)


LEAVE_BALANCE = Tool(
    name="leave_balance",
    purpose="How many days of leave somebody has left; everybody sees their own only.",
    use_when="They ask for a balance.",
    avoid_when="They ask for days off.",
    args=LeaveBalanceArgs,
    returns='{"of": whose, "year", "balances": [{"kind", "days_a_year", "approved", "waiting": not decided, "left"}]}; '
    "kinds that are not listed have no limit that is kept here",
    errors=select_advice("no_calendar", "own_balance_only"),
    also=frozenset({"unknown_person", "ambiguous_person"}),
    example={"year": 2026},
    run=run_leave_balance,
    offer=Offer.COMMON,
)
