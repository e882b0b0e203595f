"""A tool to write a thought down. The only effect is that the thought stays in the run's record."""

from __future__ import annotations

from pydantic import Field

from tools.spec import Privacy, TextRef, ToolOutcome
from tools.tool import Tool, ToolArgs, ToolContext


class ThinkArgs(ToolArgs):
    thought: str = Field(max_length=2_000, description="What is known, which rules apply, what is still missing.")


async def run_think(context: ToolContext, args: ThinkArgs) -> ToolOutcome:
    return ToolOutcome(data={"noted": True}, summary=TextRef(key="result.thought"))


THINK = Tool(
    name="think",
    purpose="Write a thought down before going on; it changes nothing.",
    use_when="Several results have to be weighed, or a chain of calls planned.",
    avoid_when="The next step is clear, or a tool can find it out.",
    args=ThinkArgs,
    returns='{"noted": true}',
    errors={},
    example={"thought": "Five days need a second approver; the approver is still missing, so ask."},
    run=run_think,
    privacy=Privacy.PUBLIC,
    needs="think",
)
