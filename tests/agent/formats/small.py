"""Small tools for replies to call, and what a reply should be read as."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from bot.agent.loop import AgentLoop, ModelInUse, RunEvent
from bot.agent.model import (
    ContentFiltered,
    Decision,
    FinalAnswer,
    MalformedReply,
    ReplyFormat,
    ToolCallRequest,
    ToolCalls,
)
from bot.core.run_state import RunState
from tests.harness.loop import run_loop
from tests.harness.scripted_model import Scripted, ScriptedModel
from tests.harness.tools import build_gated_tool, build_tool
from tools.spec import TextRef, ToolOutcome
from tools.tool import Tool, ToolContext


def build_args(**fields: Any) -> type[BaseModel]:
    return create_model("Args", __config__=ConfigDict(extra="forbid"), **fields)


async def ran(use: ToolContext, args: BaseModel) -> ToolOutcome:
    return ToolOutcome(data={"done": args.model_dump()}, summary=TextRef(key="result.people", params={"n": 1}))


TOOLS: Sequence[Tool] = (
    build_tool("look", build_args(name=(str, ...)), ran, example={"name": "Li"}),
    build_tool("find_rule", build_args(query=(str, ...), page=(int, 1)), ran, example={"query": "leave"}),
    build_tool("list_all", build_args(page=(int, 1)), ran),
    build_tool("now", build_args(), ran),
    build_tool("tag", build_args(people=(list[str], ...)), ran, example={"people": ["Li"]}),
    build_tool("remark", build_args(text=(str, ...), reason=(str, "")), ran, example={"text": "x"}),
    build_gated_tool("pay", build_args(amount=(int, ...)), ran, example={"amount": 5}),
    build_gated_tool("mail", build_args(to=(str, ...), body=(str, ...)), ran, example={"to": "Li", "body": "x"}),
)


@dataclass(frozen=True)
class Expected:
    """A decision, without what does not matter: the words of a problem, the ids of calls."""

    kind: str
    calls: tuple[tuple[str, dict[str, Any], bool], ...] = ()
    text: str = ""
    reason: str | None = None


def act(name: str, reason: str | None = None, /, repaired: bool = False, **args: Any) -> Expected:
    return Expected("act", ((name, args, repaired),), reason=reason)


def guess(name: str, reason: str | None = None, /, **args: Any) -> Expected:
    return act(name, reason, repaired=True, **args)


def acts(*several: Expected) -> Expected:
    return Expected("act", tuple(call for one in several for call in one.calls))


def answer(text: str) -> Expected:
    return Expected("answer", text=text)


MALFORMED, WITHHELD = Expected("malformed"), Expected("withheld")


def prose(text: str) -> Expected:
    """Malformed, and the answer if it comes again."""
    return Expected("malformed", text=text)


def seen(decision: Decision, like: Expected) -> Expected:
    match decision:
        case ToolCalls(proposed):
            reason = proposed[0].reason if like.reason is not None else None
            return Expected("act", tuple(map(_call, proposed)), reason=reason)
        case FinalAnswer(text):
            return answer(text)
        case MalformedReply(problem, words):
            assert problem
            return prose(words)
        case ContentFiltered():
            return WITHHELD


def _call(one: ToolCallRequest) -> tuple[str, dict[str, Any], bool]:
    return one.tool, one.args, one.is_guess


def read_replies(name: str) -> dict[str, tuple[str, Expected]]:
    """A corpus of replies, with what each should be read as."""
    table = tomllib.loads((Path(__file__).parent / f"{name}_replies.toml").read_text(encoding="utf-8"))
    return {case: (one["reply"], _read_expected(one)) for case, one in table.items()}


def _read_expected(case: dict[str, Any]) -> Expected:
    if "is" in case:
        return {"malformed": MALFORMED, "withheld": WITHHELD}[case["is"]]
    if "prose" in case:
        return prose(case["prose"])
    if "answer" in case:
        return answer(case["answer"])
    calls = [(one.get("guess") or one["call"], json.loads(one["args"]), "guess" in one) for one in case["calls"]]
    return Expected("act", tuple(calls), reason=case.get("reason"))


async def play(
    script: Sequence[Scripted], styles: Sequence[ReplyFormat], trace: RunState, most: int = 99
) -> tuple[list[RunEvent], ScriptedModel]:
    """At most so many events, as if the process ended then. The trace goes through its stored form."""
    model = ScriptedModel(list(script))
    return await run_loop(AgentLoop(ModelInUse(model, formats=styles), TOOLS), trace, most=most), model


def stored(trace: RunState) -> RunState:
    return RunState.model_validate_json(trace.model_dump_json())
