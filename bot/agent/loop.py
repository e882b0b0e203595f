"""The loop of thinking, acting and observing. The loop knows no platform and no Redis.

`AgentLoop.run` yields `StepsFinished` after every reply that acted, and ends with exactly one of `RunFinished`,
`RunPaused` and `RunStopped`. The `RunState` holds everything needed to continue in another process. The caller stores
it after each event."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from bot.agent.formats.native_format import NativeFormat
from bot.agent.formats.text_format import rewrite_native_messages
from bot.agent.formats.written_calls import read_decision
from bot.agent.limits import Budget, PriceTable, RunHalted, RunLimits, StopReason
from bot.agent.model import (
    ContentFiltered,
    Decision,
    FinalAnswer,
    MalformedReply,
    Model,
    ModelReply,
    ReplyFormat,
    ToolCalls,
    attach_details,
)
from bot.agent.prompt import build_tools_message, cut_older_turns, dump_message, dump_messages
from bot.agent.tool_executor import (
    ProposalCheck,
    ReadCache,
    RunStep,
    ToolExecutor,
    ToolResult,
    build_step,
    format_bounded_json,
    format_observation,
)
from bot.agent.tool_search import FIND, ToolPrompt, ToolSelector
from bot.core import logs
from bot.core.cancellation import StopEvent, WorkInterruptedError, interrupt_work
from bot.core.clock import Clock
from bot.core.errors import CountersignError, ModelFailureCause, ModelRejectedError, ModelUnavailableError
from bot.core.history_entries import HistoryMessage
from bot.core.run_state import LEAKS, CallRecord, CallStatus, RunState, fingerprint_call
from tools.characters import show_invisible
from tools.privacy import classify_result
from tools.requests.start_tools import StartTools
from tools.spec import Gate, Privacy, Proposal, ReceiptLine, ToolError, ToolOutcome, choose_most_private
from tools.tool import Tool, ToolContext

log = logs.get_logger(__name__)

CALL_AGAIN_NOTE = "You made this same call before, with this same result. Do something else or answer."
_CALL = re.compile(r"\W*call\b\W*", re.IGNORECASE)
"""The one word by which a model that corrects its answer asks for its tools."""
MAX_CALL = 40
"""Characters that such a reply does not reach."""
MAX_LEAKS = 2
"""Calls written as text after which a run changes to the text format."""


@dataclass(frozen=True, slots=True)
class StepsFinished:
    steps: tuple[RunStep, ...]


@dataclass(frozen=True, slots=True)
class RunFinished:
    text: str
    unverified: tuple[str, ...] = ()
    """Parts of the answer that are still unsupported after the model was told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPaused:
    """A gated call waits for a person. The proposal says which card goes to whom."""

    call: CallRecord
    proposal: Proposal
    gate: Gate
    steps: tuple[RunStep, ...]


@dataclass(frozen=True, slots=True)
class RunStopped:
    reason: StopReason
    endpoint_message: str = ""
    """The error message of the model's endpoint, for administrators."""
    called_lines: tuple[ReceiptLine, ...] = ()
    """The receipt lines of calls whose step was not finished."""


RunEvent = StepsFinished | RunFinished | RunPaused | RunStopped


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSources:
    """The texts before a run's own messages that may support its answer."""

    facts: Sequence[str] = ()
    """Texts that the system told the model: the person, open cards, the company's rules."""
    history: Sequence[HistoryMessage] = ()
    """Messages of earlier runs, with their calls."""
    days: str = ""
    """The days off by name in the prompt's calendar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFindings:
    """The result of a check."""

    unverified: Sequence[str] = ()
    """Parts that nothing supports, in the answer's words, bounded in number and length."""
    claims: int = 0
    supported_claims: int = 0
    correction: Sequence[str] = ()
    """Messages (JSON) that ask the model for a better answer, without history and tools. Empty for a good answer."""
    doubt: str = ""
    """The faults of the answer, for a model that wants to call a tool instead."""


AnswerCheck = Callable[[str, RunState, ToolContext, AnswerSources], Awaitable[AnswerFindings]]
"""Checks an answer of a run."""


async def accept_answer(answer: str, state: RunState, context: ToolContext, sources: AnswerSources) -> AnswerFindings:
    """Accept every answer: for a bot without a feature that checks."""
    return AnswerFindings()


@dataclass(frozen=True, slots=True)
class RunContext:
    """Everything that a run takes through the loop."""

    run_id: str
    head: list[str]
    """Rules and history, as JSON, before the run's own messages."""
    state: RunState
    tool_context: ToolContext
    stop: StopEvent
    sources: AnswerSources = field(default_factory=AnswerSources)
    """Further texts that may support an answer."""
    remaining_budget: Budget = field(default_factory=Budget)
    check_proposal: ProposalCheck | None = None
    """Checks proposals before they become cards."""
    read_cache: ReadCache = field(default_factory=ReadCache)


@dataclass(frozen=True, slots=True)
class ModelInUse:
    """The model that the bot asks, with what it can do, what it costs, and how much it may be used."""

    endpoint: Model
    name: str = ""
    has_vision: bool = False
    """Whether it may be shown pictures."""
    formats: Sequence[ReplyFormat] = (NativeFormat(),)
    """Known reply formats. New runs use the first. The others are for runs that began in them."""
    remember_leaks: Callable[[str], Awaitable[None]] | None = None
    """Called with the name of a model that has written several calls of one run as text."""
    prices: PriceTable = field(default_factory=PriceTable)
    daily_budget: Budget = field(default_factory=Budget)
    """The limit of one person's use each day."""


@dataclass(slots=True, eq=False)
class AgentLoop:
    model: ModelInUse
    tools: Sequence[Tool]
    """Our own tools."""
    _: KW_ONLY
    limits: RunLimits = field(default_factory=RunLimits)
    clock: Clock = field(default_factory=Clock)
    """Clock that stamps replies and results."""
    reraised: tuple[type[Exception], ...] = (CountersignError,)
    """Exceptions of a tool that end the delivery instead of the call: Redis cannot be reached, or the lane is lost."""
    server_tools: Mapping[str, Tool] = field(default_factory=dict)
    """Further tools by name, of servers, which come and go while the bot runs."""
    start_tools: StartTools = field(default_factory=StartTools)
    """The start tools of the processes. The caller that starts a run refreshes them."""
    check_answer: AnswerCheck = accept_answer
    executor: ToolExecutor = field(init=False, repr=False)
    selector: ToolSelector = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.selector = ToolSelector(self.tools, self.server_tools, self.limits.offered_tools, self.start_tools)
        self.executor = ToolExecutor(self.selector, self.reraised, self.clock)

    def get_reply_format(self, state: RunState) -> ReplyFormat:
        """Return the reply format of a run, which keeps the format that it began with."""
        return next((style for style in self.model.formats if style.name == state.style), self.model.formats[0])

    def get_tool_prompt(self, state: RunState) -> ToolPrompt:
        """Return the prompt of a run's tools in its reply format."""
        return self.selector.get_tool_prompt(self.get_reply_format(state), state.offered_tools)

    async def run(self, context: RunContext) -> AsyncGenerator[RunEvent, None]:
        """Continue the run from its state. `ModelUnavailableError` passes through."""
        try:
            while True:
                event = await self._run_step(context)
                yield event
                if not isinstance(event, StepsFinished):
                    return
        except RunHalted as halt:
            yield RunStopped(halt.reason, called_lines=tuple(context.read_cache.called_lines.values()))
        except ModelRejectedError as error:
            log.warning("model.refused", error=str(error))
            yield RunStopped(StopReason.REFUSED, str(error))

    async def _run_step(self, context: RunContext) -> RunEvent:
        state, stop = context.state, context.stop
        context.read_cache.called_lines.clear()
        if stop.is_set():
            raise RunHalted(StopReason.USER)
        self.limits.require_step_allowed(state)
        began, left = _read_timer_s(), self.limits.compute_seconds_left(state)
        try:
            with interrupt_work(stop, left):
                decision = await self._request_usable_decision(context)
                checked = decision if isinstance(decision, ToolCalls) else await self._finish_answer(context, decision)
                if isinstance(checked, ToolCalls):
                    return await self._execute_calls(context, checked)
            state.append_message({"role": "assistant", "content": checked.text})
            return checked
        except WorkInterruptedError:  # somebody says stop, or the time is up
            raise RunHalted(StopReason.USER if stop.is_set() else StopReason.TIME) from None
        except ModelUnavailableError as down:
            began = _read_timer_s()  # waiting for an unreachable endpoint is not running time
            self.limits.count_late_reply(state, down.cause)
            raise
        finally:
            state.active_ms += int((_read_timer_s() - began) * 1000)

    async def _request_usable_decision(self, context: RunContext, *more: str) -> ToolCalls | FinalAnswer:
        """Request one usable decision. A malformed reply and its error go into this request only and are never stored.
        `more` is not stored either."""
        wrong: list[str] = []
        for _ in range(self.limits.format_retries + 1):
            decision = await self._request_decision(context, [*more, *wrong])
            if isinstance(decision, ContentFiltered):
                raise RunHalted(StopReason.FILTERED)
            if not isinstance(decision, MalformedReply):
                return decision
            if wrong and decision.prose:  # after one correction, words again are the answer
                return FinalAnswer(decision.prose)
            context.state.malformed += 1
            wrong = [dump_message("system", f"Your last reply could not be used: {decision.problem}")]
            if decision.reply:
                wrong.insert(0, dump_message("assistant", decision.reply))
        raise RunHalted(StopReason.MALFORMED)

    async def _finish_answer(self, context: RunContext, answer: FinalAnswer) -> ToolCalls | RunFinished:
        """Check an answer. Once per run, the model is told the faults; parts that are unsupported then are marked.
        If the model returns nothing more, its first answer stands."""
        state, use, sources = context.state, context.tool_context, context.sources
        text = show_invisible(answer.text)
        found = await self.check_answer(text, state, use, sources)
        if found.correction and not state.was_corrected:
            state.was_corrected = True
            with suppress(RunHalted, ModelRejectedError):
                # The first request is short and has no tools. If the model wants to call one, a full request follows.
                reply, at_ms, ms = await self._request_timed_reply(context, [], found.correction, "")
                state.record_model_call(self.model.prices.compute_usage(reply), at_ms, ms, "correction")
                style, tools = self.get_reply_format(state), self.get_tool_prompt(state).callable_tools
                decision = read_decision(style, reply, tools, most=self.limits.calls_per_reply)
                prose = decision.prose if isinstance(decision, MalformedReply) else ""
                better = decision.text if isinstance(decision, FinalAnswer) else prose
                if isinstance(decision, ToolCalls) or (len(better) < MAX_CALL and _CALL.fullmatch(better)):
                    more = dump_message("assistant", text), dump_message("system", found.doubt)
                    again = await self._request_usable_decision(context, *more)
                    if isinstance(again, ToolCalls):
                        return again
                    better = again.text
                text = show_invisible(better or text)
                found = await self.check_answer(text, state, use, sources)
        state.claims, state.supported_claims = found.claims, found.supported_claims
        return RunFinished(text, tuple(found.unverified))

    async def _request_decision(self, context: RunContext, more: Sequence[str]) -> Decision:
        """Request one reply and parse its decision. `more` are messages after all of the run's own."""
        state = context.state
        style = self.get_reply_format(state)
        has_text = any(one.name == "text" for one in self.model.formats)
        if has_text and style.name == "native" and state.result_counts.get(LEAKS, 0) >= MAX_LEAKS:
            state.style = "text"
            style = self.get_reply_format(state)
            # The head changes too, until the next turn builds it anew.
            messages = dump_messages([one for text in context.head for one in json.loads(f"[{text}]")])
            server_tools = self.get_tool_prompt(state).server_tools
            context.head[:] = [
                *rewrite_native_messages(map(style.format_history_message, messages)),
                dump_message("system", self.get_tool_prompt(state).instructions),
                *(dump_messages([build_tools_message(server_tools)]) if server_tools else []),
            ]
        sheet = self.get_tool_prompt(state)
        if style.name == "text":
            own = [*rewrite_native_messages(state.messages), *more]
        else:
            details = state.provider_details
            own = [attach_details(one, details[n]) if n in details else one for n, one in enumerate(state.messages)]
            own += more
        reply, at_ms, ms = await self._request_timed_reply(context, context.head, own, sheet.extra_body)
        state.style = style.name
        decision = read_decision(
            style, reply, sheet.callable_tools, most=self.limits.calls_per_reply, is_gated=self.selector.is_gated
        )
        if isinstance(decision, MalformedReply | ToolCalls) and decision.is_leak and style.name == "native":
            state.result_counts[LEAKS] = state.result_counts.get(LEAKS, 0) + 1
            if state.result_counts[LEAKS] == MAX_LEAKS and self.model.remember_leaks is not None:
                await self.model.remember_leaks(reply.model)
        state.record_model_call(self.model.prices.compute_usage(reply), at_ms, ms, decision.did)
        if isinstance(decision, ToolCalls):
            return replace(decision, provider_details=reply.provider_details)
        return decision

    async def _request_timed_reply(
        self, context: RunContext, head: list[str], own: Sequence[str], body: str
    ) -> tuple[ModelReply, int, int]:
        """Return a reply, when it was requested (epoch ms), and its duration (ms). If the context is too long, ask once
        more without most of the conversation before the run; `head` stays shortened. Raises `RunHalted`,
        `ModelUnavailableError` and `ModelRejectedError`."""
        seconds_left = min(self.limits.reply_s, self.limits.compute_seconds_left(context.state))
        if context.state.total_tokens >= self.limits.tokens:
            raise RunHalted(StopReason.TOKENS)
        if context.remaining_budget.is_used_up(context.state.total_tokens, context.state.cost):
            raise RunHalted(StopReason.BUDGET)
        at_ms, began = self.clock.now_ms(), _read_timer_s()
        timeout_s = max(seconds_left, 1.0)
        try:
            reply = await self.model.endpoint.request_reply([*head, *own], body, timeout_s=timeout_s)
        except ModelRejectedError as too_long:
            shorter = cut_older_turns(head) if too_long.cause is ModelFailureCause.CONTEXT else None
            if shorter is None:
                raise
            log.info("model.history_cut", error=str(too_long))
            head[:] = shorter
            reply = await self.model.endpoint.request_reply([*head, *own], body, timeout_s=timeout_s)
        return reply, at_ms, int((_read_timer_s() - began) * 1000)

    async def _execute_calls(self, context: RunContext, act: ToolCalls) -> RunEvent:
        """Run all reading calls at once, hold the first gated call for its button, and refuse further gated ones."""
        state = context.state
        if state.tool_calls + len(act.calls) > self.limits.calls:
            raise RunHalted(StopReason.CALLS)
        state.steps += 1
        uids = [f"{context.run_id}:{state.steps}:{index}" for index in range(len(act.calls))]
        gated_index = next((i for i, one in enumerate(act.calls) if self.selector.is_gated(one.tool)), None)
        offered_names = self.selector.list_offered_names(state.offered_tools)
        calls = [
            self.executor.execute_call(
                context.tool_context,
                context.read_cache,
                uid,
                one,
                refuse_gated=gated_index not in (None, i),
                offered=offered_names,
                check_proposal=context.check_proposal,
            )
            for i, (uid, one) in enumerate(zip(uids, act.calls, strict=True))
        ]
        results = await asyncio.gather(*calls) if len(calls) > 1 else [await calls[0]]
        return self._record_results(state, act, results, context.tool_context.caller.id)

    def _record_results(
        self, state: RunState, act: ToolCalls, results: Sequence[tuple[CallRecord, ToolResult]], caller: str
    ) -> RunEvent:
        """Add the reply and all its results to the state together, even if one of them ends the run."""
        style = self.get_reply_format(state)
        state.append_message(style.build_assistant_message(act), act.provider_details)
        found_names, steps = list[str](), list[RunStep]()
        for call, result in results:
            if call.tool == FIND and isinstance(result, ToolOutcome):
                found_names += [one["name"] for one in result.data["tools"]]
            elif isinstance(result, ToolError) and result.code in ("not_offered", "bad_arguments"):
                found_names.append(call.tool)  # called without an offer
            # The run has seen this result, so it becomes at least as private as the result.
            private = classify_result(self.selector.find_tool(call.tool), result)
            state.privacy = choose_most_private(state.privacy, private)
            steps.append(replace(build_step(call, result, caller), privacy=state.privacy))
        if found_names:
            state.offered_tools = self.selector.extend_offered_names(found_names, state.offered_tools)
        pauses, is_repeated, fingerprints = list[RunPaused](), False, list[str]()
        # First what was read, then what waits, last a call with consequences that was not run.
        for call, result in sorted(
            results, key=lambda one: 1 if isinstance(one[1], Proposal) else 2 * self.selector.is_gated(one[0].tool)
        ):
            state.tool_calls += 1
            state.calls.append(call)
            tool = self.selector.find_tool(call.tool)
            if isinstance(result, Proposal) and tool is not None:
                pauses.append(RunPaused(call=call, proposal=result, gate=tool.gate, steps=tuple(steps)))
            elif not isinstance(result, Proposal):
                observation = format_observation(result, tool)
                fingerprints.append(fingerprint_call(call.tool, {"args": call.args, "result": observation})[:16])
                state.failures = state.failures + 1 if isinstance(result, ToolError) else 0
                state.append_message(style.build_tool_message(call.model_id, observation))
                is_repeated |= self.limits.count_repeated_call(state, fingerprints[-1])
        is_repeated |= self.limits.count_reply_cycle(state, "" if pauses else " ".join(fingerprints))
        if is_repeated:
            for one in pauses:
                self.settle_call(state, one.call.uid, CallStatus.DENIED, {"error": "stopped"})
            raise RunHalted(StopReason.REPETITION)
        if pauses:
            return pauses[0]
        if any(state.result_counts[one] == self.limits.same_results - 1 for one in fingerprints):
            state.append_message({"role": "system", "content": CALL_AGAIN_NOTE})
        return StepsFinished(tuple(steps))

    def settle_call(
        self,
        state: RunState,
        uid: str,
        status: CallStatus,
        observation: dict[str, Any],
        privacy: Privacy = Privacy.PUBLIC,
    ) -> bool:
        """Record how a gated call ended. Return whether the call was still waiting. `privacy` is that of the
        observation."""
        for index, call in enumerate(state.calls):
            if call.uid == uid and call.status is CallStatus.AWAITING:
                state.calls[index] = replace(call, status=status, ended_ms=self.clock.now_ms())
                told = self.get_reply_format(state).build_tool_message(call.model_id, format_bounded_json(observation))
                not_run = len(state.calls) - index - 1  # calls after it in its reply, whose results follow its own
                state.messages.insert(len(state.messages) - not_run, json.dumps(told, ensure_ascii=False))
                state.privacy = choose_most_private(state.privacy, privacy)
                state.failures = 0
                return True
        return False


def _read_timer_s() -> float:
    """Read the monotonic clock of the event loop (s)."""
    return asyncio.get_running_loop().time()
