"""Small tools for replies to call, and what a reply should be read as."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from bot.agent.decision import (
    ContentFiltered,
    Decision,
    FinalAnswer,
    MalformedReply,
    ReplyFormat,
    ToolCallRequest,
    ToolCalls,
)
from bot.agent.events import RunEvent
from bot.agent.loop import AgentLoop, RunContext
from bot.core.cancellation import StopEvent
from bot.core.run_state import RunState
from tests.harness.scripted_model import Scripted, ScriptedModel
from tools.spec import Caller, CardChoice, EffectPlace, Gate, Person, Proposal, TextRef, ToolOutcome
from tools.tool import Tool, ToolContext, ToolServices


class Args(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Look(Args):
    name: str


class Find(Args):
    query: str
    page: int = 1


class All(Args):
    page: int = 1


class Nothing(Args):
    pass


class Tag(Args):
    people: list[str]


class Remark(Args):
    text: str
    reason: str = ""


class Pay(Args):
    amount: int


class Mail(Args):
    to: str
    body: str


async def ran(use: ToolContext, args: BaseModel) -> ToolOutcome:
    return ToolOutcome(data={"done": args.model_dump()}, summary=TextRef(key="result.people", params={"n": 1}))


async def planned(use: ToolContext, args: BaseModel) -> Proposal:
    choices = (CardChoice(name="confirm"),)
    return Proposal(args=args.model_dump(), title=TextRef(key="x"), fields=(), deciders=("U1",), choices=choices)


def tool(name: str, args: type[BaseModel], gated: bool = False, /, **example: Any) -> Tool:
    return Tool(
        name=name,
        purpose=f"To {name}.",
        use_when="It is asked for.",
        avoid_when="It is not.",
        args=args,
        returns="{}",
        errors={},
        example=example,
        run=ran,
        gate=Gate.CONFIRM if gated else Gate.NONE,
        effect_place=EffectPlace.OUTSIDE if gated else None,
        prepare=planned if gated else None,
        stored_args=args if gated else None,
    )


TOOLS: Sequence[Tool] = (
    tool("look", Look, name="Li"),
    tool("find_rule", Find, query="leave"),
    tool("list_all", All),
    tool("now", Nothing),
    tool("tag", Tag, people=["Li"]),
    tool("remark", Remark, text="x"),
    tool("pay", Pay, True, amount=5),
    tool("mail", Mail, True, to="Li", body="x"),
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


USE = ToolContext(cast(ToolServices, None), Caller(Person(id="U1", name="张三")), datetime(2026, 11, 20, tzinfo=UTC))


async def play(
    script: Sequence[Scripted], styles: Sequence[ReplyFormat], trace: RunState, most: int = 99
) -> tuple[list[RunEvent], ScriptedModel]:
    """At most so many events, as if the process ended then. The trace goes through its stored form."""
    model, events = ScriptedModel(list(script)), list[RunEvent]()
    async for event in AgentLoop(model, TOOLS, formats=styles).run(RunContext("R1", [], trace, USE, StopEvent())):
        events.append(event)
        if len(events) == most:
            break
    return events, model


def stored(trace: RunState) -> RunState:
    return RunState.model_validate_json(trace.model_dump_json())


def asked() -> RunState:
    return RunState(messages=[json.dumps({"role": "user", "content": "Who is Li?"})])
