"""The loop with a scripted model and small tools: a person, the tools, and one run from its message to its events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import BaseModel

from bot.agent.answer_check import AnswerCheck, AnswerSources
from bot.agent.decision import ReplyFormat
from bot.agent.events import RunEvent
from bot.agent.formats.native_format import NativeFormat
from bot.agent.limits import RunLimits
from bot.agent.loop import AgentLoop, RunContext
from bot.agent.model import ModelReply, RawToolCall
from bot.core.cancellation import StopEvent
from bot.core.errors import StoreUnavailableError
from bot.core.run_state import RunState
from tests.features.grounding.battery import BARE_CHECKER
from tests.harness.scripted_model import Scripted, ScriptedModel
from tools.spec import Caller, CardChoice, EffectPlace, Gate, Person, Proposal, TextRef, ToolError, ToolOutcome
from tools.tool import Tool, ToolContext, ToolServices

ZHANG = Person(id="U1", name="张三", locale="zh-CN")


class Look(BaseModel):
    name: str = ""


class Pay(BaseModel):
    amount: int


ADVICE = {"unknown_person": "Ask who is meant."}


class Bench:
    """Two reading tools (the results of one are not cached) and one gated tool, with a count of the calls that ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.together = self.most = 0

    async def look(self, use: ToolContext, args: Look) -> ToolOutcome:
        self.together += 1
        self.most = max(self.most, self.together)
        await asyncio.sleep(0)
        self.together -= 1
        self.ran.append(f"look {args.name}")
        if args.name == "nobody":
            raise ToolError("unknown_person", "There is nobody of that name.")
        if args.name == "broken":
            raise ZeroDivisionError
        if args.name == "lost":
            raise StoreUnavailableError("away")
        if args.name == "for ever":
            await asyncio.Event().wait()
        return ToolOutcome(data={"found": args.name}, summary=TextRef(key="result.people", params={"n": 1}))

    async def pay(self, use: ToolContext, args: Pay) -> ToolOutcome:
        self.ran.append(f"pay {args.amount}")
        return ToolOutcome(data={}, summary=TextRef(key="x"))

    async def plan(self, use: ToolContext, args: Pay) -> Proposal:
        choices = (CardChoice(name="confirm"),)
        return Proposal(args=args.model_dump(), title=TextRef(key="x"), fields=(), deciders=("U1",), choices=choices)

    def tools(self) -> Sequence[Tool]:
        card: dict[str, Any] = {"purpose": "p", "use_when": "u", "avoid_when": "a", "returns": "r", "errors": ADVICE}
        return (
            Tool(name="look", args=Look, run=self.look, example={}, **card),
            Tool(name="now", args=Look, run=self.look, is_cacheable=False, example={}, **card),
            Tool(
                name="pay",
                args=Pay,
                stored_args=Pay,
                run=self.pay,
                prepare=self.plan,
                gate=Gate.CONFIRM,
                effect_place=EffectPlace.OUTSIDE,
                example={},
                **card,
            ),
        )


def call(tool: str, identity: str = "call_0", /, **args: object) -> RawToolCall:
    return RawToolCall(identity, tool, json.dumps({"reason": "because", **args}))


def acts(*calls: RawToolCall) -> ModelReply:
    return ModelReply(calls=calls, finish="tool_calls")


def own(trace: RunState) -> list[dict[str, Any]]:
    """The run's own messages."""
    return [json.loads(message) for message in trace.messages]


async def play(
    script: Sequence[Scripted],
    *,
    trace: RunState | None = None,
    limits: RunLimits | None = None,
    sources: AnswerSources | None = None,
    check_answer: AnswerCheck = BARE_CHECKER.check_answer,
    styles: Sequence[ReplyFormat] = (NativeFormat(),),
) -> tuple[list[RunEvent], Bench, RunState, ScriptedModel]:
    bench, model = Bench(), ScriptedModel(list(script))
    trace = trace or RunState(messages=[json.dumps({"role": "user", "content": "hello"})])
    loop = AgentLoop(model, bench.tools(), limits=limits or RunLimits(), formats=styles, check_answer=check_answer)
    use = ToolContext(cast(ToolServices, None), Caller(ZHANG), datetime(2026, 11, 20, tzinfo=UTC))
    events = [
        event async for event in loop.run(RunContext("R00", [], trace, use, StopEvent(), sources or AnswerSources()))
    ]
    return events, bench, trace, model
