"""The one tiny tool that every program offers, and the texts around it, in the shape in which ours sends them."""

import json
from datetime import UTC, datetime
from typing import Any

from bot.agent import prompt
from bot.agent.formats import native_format
from tests.qa.bench.job import observation
from tools.spec import Caller, FrozenModel, Person, TextRef, ToolOutcome
from tools.tool import Tool, ToolContext

QUESTION = "Who of Person 1 to Person 6 is at work today? I need somebody who can look at my expense request."
NOW = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)


class LookUp(FrozenModel):
    name: str


async def _look_up(use: ToolContext, args: LookUp) -> ToolOutcome:
    return ToolOutcome(data=observation(args.name), summary=TextRef(key="result.people", params={"n": 1}))


LOOK_UP = Tool(
    name="look_up",
    purpose="Looks a person up.",
    use_when="A name is mentioned and you need to know who that is.",
    avoid_when="You know the person already.",
    args=LookUp,
    returns='{"name", "title", "team", "here"}',
    errors={},
    example={"name": "Person 1"},
    run=_look_up,
)


def texts() -> dict[str, Any]:
    """What goes into every `Job`."""
    caller = Caller(Person(id="U0000000", name="Ann Example"))
    return {
        "system": json.loads(prompt.dump_system_message())["content"],
        "question": QUESTION,
        "quoted": prompt.build_user_message(caller, QUESTION)["content"],
        "tool": native_format.build_function_schema(LOOK_UP),
    }
