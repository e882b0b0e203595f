"""The words between the loop and its caller: the events of a run (steps finished, run finished, paused or stopped), and
the check of an answer before anybody reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bot.agent.limits import StopReason
from bot.agent.tool_executor import ToolResult
from bot.core.history_entries import HistoryMessage
from bot.core.run_state import CallRecord, RunState
from tools.cards.fields import describe_new_request
from tools.spec import Gate, Privacy, Proposal, ReceiptLine, TextRef, ToolError
from tools.tool import ToolContext

CALL_MISTAKES = frozenset(
    {
        *("bad_arguments", "unknown_tool", "not_offered", "one_at_a_time", "unknown_field", "unknown_process"),
        *("missing_field", "bad_choice", "bad_date", "bad_number", "bad_days"),
    }
)
"""Errors of the call itself. The journal has them, and the model fixes them or asks. People do not see them."""
ERROR_MAX = 300
"""Characters of an error in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One finished or waiting call, for people who follow the run."""

    call: CallRecord
    note: TextRef
    title: TextRef | None = None
    """The action that a waiting call proposes, in the words of its card."""
    ready: TextRef | None = None
    """The dates, sums and approver of a proposed request, for places that may read its free text."""
    people: tuple[str, ...] = ()
    """Ids of the people that a name may mean, if the person has to choose."""
    privacy: Privacy = Privacy.PRIVATE
    """Privacy of the call's result, or of the data that the run had seen before."""
    error: str = ""
    """Error code, if it failed."""
    error_message: str = ""
    """The error message that the model got. Only administrators see it."""
    receipt_line: ReceiptLine | None = None
    """The action that the call did, or may have done, without a press."""


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


RunEvent = StepsFinished | RunFinished | RunPaused | RunStopped


def build_step(call: CallRecord, result: ToolResult, caller: str) -> RunStep:
    """Describe a call in the words of its card or its result. A reader who does not decide gets a card title of their
    own."""
    if isinstance(result, ToolError):
        return RunStep(
            call=call,
            note=result.note,
            people=result.people,
            error=result.code,
            error_message=result.text[:ERROR_MAX],
            receipt_line=result.maybe,
        )
    if not isinstance(result, Proposal):
        return RunStep(call=call, note=result.summary, receipt_line=result.receipt_line)
    key = "steps.waiting" if caller in result.deciders else "steps.brought"
    title = result.get_title_for(caller)
    return RunStep(call=call, note=TextRef(key=key), title=title, ready=describe_new_request(result))


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
