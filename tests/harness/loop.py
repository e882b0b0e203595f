"""The loop with a scripted model and small tools: a person, the tools, and one run from its message to its events."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import BaseModel

from bot.agent.formats.native_format import NativeFormat
from bot.agent.limits import RunLimits
from bot.agent.loop import AgentLoop, AnswerCheck, AnswerSources, ModelInUse, RunContext, RunEvent
from bot.agent.model import ModelReply, RawToolCall, ReplyFormat
from bot.core.cancellation import StopEvent
from bot.core.errors import StoreUnavailableError
from bot.core.run_state import RunState
from tests.features.grounding.battery import BARE_CHECKER
from tests.harness.scripted_model import Scripted, ScriptedModel
from tests.harness.tools import build_gated_tool, build_tool
from tools.spec import Caller, Person, TextRef, ToolError, ToolOutcome
from tools.tool import Tool, ToolContext, ToolServices

ZHANG = Person(id="U1", name="张三", locale="zh-CN")
USE = ToolContext(cast(ToolServices, None), Caller(ZHANG), datetime(2026, 11, 20, tzinfo=UTC))


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

    def tools(self) -> Sequence[Tool]:
        return (
            build_tool("look", Look, self.look, errors=ADVICE),
            build_tool("now", Look, self.look, errors=ADVICE, is_cacheable=False),
            build_gated_tool("pay", Pay, self.pay, errors=ADVICE),
        )


def call(tool: str, identity: str = "call_0", /, **args: object) -> RawToolCall:
    return RawToolCall(identity, tool, json.dumps({"reason": "because", **args}))


def acts(*calls: RawToolCall) -> ModelReply:
    return ModelReply(calls=calls, finish="tool_calls")


def own(trace: RunState) -> list[dict[str, Any]]:
    """The run's own messages."""
    return [json.loads(message) for message in trace.messages]


async def run_loop(
    loop: AgentLoop, trace: RunState, *, head: Sequence[str] = (), stopped: StopEvent | None = None,
    sources: AnswerSources | None = None, most: int = 99,
) -> list[RunEvent]:  # fmt: skip
    """Run the loop up to at most so many events, as if the process ended then."""
    events = list[RunEvent]()
    context = RunContext("R00", list(head), trace, USE, stopped or StopEvent(), sources or AnswerSources())
    async for event in loop.run(context):
        events.append(event)
        if len(events) == most:
            break
    return events


async def play(
    script: Sequence[Scripted], *, trace: RunState | None = None, limits: RunLimits | None = None,
    sources: AnswerSources | None = None, check_answer: AnswerCheck = BARE_CHECKER.check_answer,
    styles: Sequence[ReplyFormat] = (NativeFormat(),),
) -> tuple[list[RunEvent], Bench, RunState, ScriptedModel]:  # fmt: skip
    bench, model = Bench(), ScriptedModel(list(script))
    trace = trace or RunState(messages=[json.dumps({"role": "user", "content": "hello"})])
    asked, limits = ModelInUse(model, formats=styles), limits or RunLimits()
    loop = AgentLoop(asked, bench.tools(), limits=limits, check_answer=check_answer)
    return await run_loop(loop, trace, sources=sources), bench, trace, model
