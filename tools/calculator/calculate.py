"""Exact arithmetic: the tool `calculate`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tools.calculator.formula import MAX_LENGTH, SHOWN_DIGITS, compute_expression
from tools.error_advice import select_advice
from tools.spec import Privacy, TextRef, ToolOutcome
from tools.tool import Tool, ToolArgs, ToolContext

SHOWN_LENGTH = 120
"""Most characters of a calculation shown to people."""


class CalculateArgs(ToolArgs):
    expression: str = Field(
        max_length=MAX_LENGTH,
        description="Numbers without thousands separators, + - * / ( ), `15%` for 15 of a hundred, amounts like "
        "`750 CNY`; also add, sub, mul, div, min, max of two values or more, round(value, decimals), "
        "percent(15, 200).",
    )


async def run_calculate(context: ToolContext, args: CalculateArgs) -> ToolOutcome:
    result = compute_expression(args.expression)
    rounding = {} if result.is_exact else {"rounding": f"half up, to {SHOWN_DIGITS} significant digits"}
    data: dict[str, Any] = {"result": result.text, "exact": result.is_exact, **rounding}
    said = format_expression(args.expression)
    params = {"sum": said if len(said) <= SHOWN_LENGTH else said[: SHOWN_LENGTH - 1] + "…", "result": result.text}
    return ToolOutcome(
        data=data, summary=TextRef(key="result.sum" if result.is_exact else "result.sum_rounded", params=params)
    )


def format_expression(expression: str) -> str:
    """A calculation for display: `×` replaces `*`, which Slack would take for formatting."""
    return " ".join(expression.split()).replace("*", "×")


CALCULATE = Tool(
    name="calculate",
    purpose="Compute exactly: several operations in one expression.",
    use_when="Anything has to be added, multiplied, shared or compared; never in your head.",
    avoid_when="Working days: working_days.",
    args=CalculateArgs,
    returns='{"result": text, "exact": false if it has no end and was rounded, "rounding"?}',
    errors=select_advice("bad_sum", "mixed_currencies", "zero_divisor", "sum_too_long"),
    example={"expression": "750*12 + 0.5*8*12*7"},
    run=run_calculate,
    privacy=Privacy.PUBLIC,
)
