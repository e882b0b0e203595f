"""Think → act → observe. Knows no platform and no Redis.

`Loop.run` yields `Stepped` after every reply that acted, and ends with exactly one of `Final`, `Paused`, `Stopped`.
Whatever it needs to go on in another process is in the `Trace`, which the caller stores after each event.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from bot.cancel import Stop
from bot.errors import ModelDown, ModelRefused
from bot.react.decision import Act, Answer, Decision, Malformed, Proposed, Withheld
from bot.react.guards import Halt, Limits, Reason
from bot.react.model import Model
from bot.react.style import Style
from bot.react.styles.native import Native
from bot.records import Call, CallStatus, Trace, fingerprint, fit
from tools.spec import Gate, Note, Outcome, Plan, ToolError
from tools.tool import Tool, Use

OBSERVATION_MAX = 6_000
"""Characters of one observation in the prompt; tools page well below this."""
GUESSED = (
    "The call of {tool}, which has consequences, was not written as it should be. Write it again: "
    "the tool's exact name, its arguments as one valid JSON object, and nothing behind it."
)


@dataclass(frozen=True, slots=True)
class Step:
    """One finished or waiting call, for the people who follow."""

    call: Call
    note: Note
    title: Note | None = None
    """What a waiting call would do, in the words of its card."""


@dataclass(frozen=True, slots=True)
class Stepped:
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Final:
    text: str


@dataclass(frozen=True, slots=True)
class Paused:
    """A gated call waits for a person: what to bring to whom."""

    call: Call
    plan: Plan
    gate: Gate
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Stopped:
    reason: Reason


Event = Stepped | Final | Paused | Stopped


@dataclass(frozen=True, slots=True)
class Loop:
    model: Model
    tools: Sequence[Tool]
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = field(default=lambda: asyncio.get_running_loop().time())
    """Seconds, monotonic."""
    styles: Sequence[Style] = (Native(),)
    """The first is that of fresh runs; the others are known for runs that were begun in them."""
    extras: Mapping[str, str] = field(init=False, repr=False)
    """By style, what every request of every run has besides its messages."""
    manuals: Mapping[str, str] = field(init=False, repr=False)
    """By style, what the system message says about replies."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "extras", {style.name: style.body(self.tools) for style in self.styles})
        object.__setattr__(self, "manuals", {style.name: style.manual(self.tools) for style in self.styles})

    def style(self, trace: Trace) -> Style:
        """The style of a run: it ends in the one that it was begun in."""
        return next((style for style in self.styles if style.name == trace.style), self.styles[0])

    def manual(self, trace: Trace) -> str:
        """How a run's model is to reply."""
        return self.manuals[self.style(trace).name]

    async def run(
        self, run_id: str, head: Sequence[str], trace: Trace, use: Use, stopped: Stop
    ) -> AsyncGenerator[Event, None]:
        """Goes on from `trace`; `head` (rules, history: as JSON) precedes the run's own messages.
        `ModelDown` passes through."""
        try:
            while True:
                event = await self._step(run_id, head, trace, use, stopped)
                yield event
                if not isinstance(event, Stepped):
                    return
        except Halt as halt:
            yield Stopped(halt.reason)
        except ModelRefused:
            yield Stopped(Reason.REFUSED)

    async def _step(self, run_id: str, head: Sequence[str], trace: Trace, use: Use, stopped: Stop) -> Event:
        if stopped.is_set():
            raise Halt(Reason.USER)
        self.limits.check(trace)
        began, left = self.clock(), self.limits.left_s(trace)
        try:
            async with _unless(stopped, left):
                decision = await self._think(head, trace)
                if isinstance(decision, Act):
                    return await self._act(run_id, trace, decision, use)
            trace.add({"role": "assistant", "content": decision.text})
            return Final(decision.text)
        except ModelDown:
            began = self.clock()  # waiting for an endpoint that is away is not running time
            raise
        finally:
            trace.active_ms += int((self.clock() - began) * 1000)

    async def _think(self, head: Sequence[str], trace: Trace) -> Act | Answer:
        """One usable decision. What was wrong with a malformed reply is told in this request only, never stored."""
        wrong: list[str] = []
        for _ in range(self.limits.format_retries + 1):
            decision = await self._ask([*head, *trace.messages, *wrong], trace)
            if isinstance(decision, Withheld):
                raise Halt(Reason.FILTERED)
            if not isinstance(decision, Malformed):
                return decision
            if wrong and decision.prose:  # told once how to answer, and words again: they are the answer
                return Answer(decision.prose)
            trace.malformed += 1
            told = f"[system] Your last reply could not be used: {decision.problem}"
            wrong = [json.dumps({"role": "user", "content": told}, ensure_ascii=False)]
        raise Halt(Reason.MALFORMED)

    async def _ask(self, messages: Sequence[str], trace: Trace) -> Decision:
        left = min(self.limits.reply_s, self.limits.left_s(trace))
        style = self.style(trace)
        reply = await self.model.reply(messages, self.extras[style.name], timeout_s=max(left, 1.0))
        trace.tokens_in += reply.tokens_in
        trace.tokens_out += reply.tokens_out
        trace.style = style.name
        return self._sure(style.decide(reply, self.tools, most=self.limits.calls_per_reply))

    def _sure(self, decision: Decision) -> Decision:
        """What had to be guessed may look things up; nobody is asked to confirm it."""
        if isinstance(decision, Act):
            for call in decision.proposed:
                if call.repaired and self._gated(call.tool):
                    return Malformed(GUESSED.format(tool=call.tool))
        return decision

    async def _act(self, run_id: str, trace: Trace, act: Act, use: Use) -> Event:
        """Runs what only reads, all at once; holds the first gated call for its button; refuses further ones."""
        if trace.called + len(act.proposed) > self.limits.calls:
            raise Halt(Reason.CALLS)
        trace.steps += 1
        uids = [f"{run_id}:{trace.steps}:{index}" for index in range(len(act.proposed))]
        gated = next((i for i, one in enumerate(act.proposed) if self._gated(one.tool)), None)
        calls = [
            self._one(uid, one, use, held=gated is not None and i != gated)
            for i, (uid, one) in enumerate(zip(uids, act.proposed, strict=True))
        ]
        results = await asyncio.gather(*calls) if len(calls) > 1 else [await calls[0]]
        return self._observed(trace, act, results, use.caller.id)

    def _observed(
        self, trace: Trace, act: Act, results: Sequence[tuple[Call, Outcome | Plan | ToolError]], caller: str
    ) -> Event:
        """The reply and every result of it go into the trace together, also when one of them ends the run."""
        trace.add(self.style(trace).asked(act))
        steps = tuple(_step(call, one, caller) for call, one in results)
        paused, halt = list[Paused](), list[Halt]()
        for call, result in results:
            trace.called += 1
            trace.calls.append(call)
            tool = self._tool(call.tool)
            if isinstance(result, Plan) and tool is not None:
                paused.append(Paused(call, result, tool.gate, steps))
            elif not isinstance(result, Plan):
                halt += self._observe(trace, call, result)
        if halt:
            for one in paused:
                self.settle(trace, one.call.uid, CallStatus.DENIED, {"error": "stopped"})
            raise halt[0]
        return paused[0] if paused else Stepped(steps)

    def _gated(self, name: str) -> bool:
        tool = self._tool(name)
        return tool is not None and tool.gate is not Gate.NONE

    def _tool(self, name: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.name == name), None)

    async def _one(
        self, uid: str, proposed: Proposed, use: Use, *, held: bool
    ) -> tuple[Call, Outcome | Plan | ToolError]:
        """One call: run if it reads, planned if it is gated. Errors are results."""
        try:
            result = await self._run(proposed, use, held=held)
        except ToolError as error:
            result = error
        status = CallStatus.AWAITING if isinstance(result, Plan) else CallStatus.SUCCEEDED
        status = CallStatus.FAILED if isinstance(result, ToolError) else status
        args = result.args if isinstance(result, Plan) else proposed.args
        return Call(
            uid=uid,
            tool=proposed.tool,
            args=args,
            reason=proposed.reason,
            status=status,
            model_id=proposed.model_id,
        ), result

    async def _run(self, proposed: Proposed, use: Use, *, held: bool) -> Outcome | Plan | ToolError:
        tool = self._tool(proposed.tool)
        if tool is None:
            names = ", ".join(tool.name for tool in self.tools)
            raise ToolError("unknown_tool", f"There is no tool {proposed.tool[:60]!r}. Tools: {names}.")
        if not proposed.reason:
            raise ToolError("bad_arguments", "`reason` is missing: say in one short sentence why.")
        args = fit(tool.args, proposed.args)
        if tool.gate is Gate.NONE or tool.prepare is None:
            return await tool.run(use, args)
        if held:
            raise ToolError("one_at_a_time", "Only one call with consequences per reply; propose this one afterwards.")
        return await tool.prepare(use, args)

    def _observe(self, trace: Trace, call: Call, result: Outcome | ToolError) -> list[Halt]:
        """Writes the observation down and counts failures and repetition; what ends the run is given back."""
        observation = written(result)
        trace.failures = trace.failures + 1 if isinstance(result, ToolError) else 0
        again = fingerprint(call.tool, {"args": call.args, "result": observation})[:16]
        try:
            if self.limits.repeated(trace, again):
                observation += (
                    "\n[system] You made this same call before, with this same result. Do something else or answer."
                )
        except Halt as halt:
            return [halt]
        finally:
            trace.add(self.style(trace).observed(call.model_id, observation))
        return []

    def settle(self, trace: Trace, uid: str, status: CallStatus, observation: dict[str, Any]) -> bool:
        """Writes down how a gated call ended; False if it does not wait (any more)."""
        for index, call in enumerate(trace.calls):
            if call.uid == uid and call.status is CallStatus.AWAITING:
                trace.calls[index] = replace(call, status=status)
                trace.add(self.style(trace).observed(call.model_id, bounded(observation)))
                trace.failures = 0
                return True
        return False


def written(result: Outcome | ToolError) -> str:
    """An observation as the model reads it: JSON, bounded."""
    if isinstance(result, ToolError):
        return bounded(
            {"error": result.code, "message": result.text, **({"ask_the_person": True} if result.ask else {})}
        )
    return bounded(result.data)


def bounded(data: dict[str, Any]) -> str:
    text = json.dumps(data, ensure_ascii=False)
    return text if len(text) <= OBSERVATION_MAX else text[:OBSERVATION_MAX] + "… [cut: ask for less, or the next page]"


def _step(call: Call, result: Outcome | Plan | ToolError, caller: str) -> Step:
    """A call in the words of its card or its result. Who does not decide reads what the card is called for them."""
    if not isinstance(result, Plan):
        return Step(call, result.note)
    if caller in result.deciders:
        return Step(call, Note(key="steps.waiting"), result.title)
    own = result.own_title if caller == result.requester else None
    return Step(call, Note(key="steps.brought"), own or result.title)


@asynccontextmanager
async def _unless(stopped: Stop, left_s: float) -> AsyncIterator[None]:
    """Raises `Halt` within as soon as somebody says stop or the time is up."""

    def now() -> None:
        if not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time())

    try:
        async with asyncio.timeout(left_s) as limit:
            with stopped.watched(now):
                yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise Halt(Reason.USER if stopped.is_set() else Reason.TIME) from None
