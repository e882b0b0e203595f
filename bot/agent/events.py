"""The events of a run for its caller: a step, an end, a pause, a stop."""

from __future__ import annotations

from dataclasses import dataclass

from bot.agent.limits import StopReason
from bot.agent.tool_executor import ToolResult
from bot.core.run_state import CallRecord
from tools.spec import Gate, Privacy, Proposal, ReceiptLine, TextRef, ToolError

CALL_MISTAKES = frozenset(
    {
        *("bad_arguments", "unknown_tool", "not_offered", "one_at_a_time", "unknown_field", "unknown_process"),
        *("missing_field", "bad_choice", "bad_date", "bad_number", "bad_days"),
    }
)
"""Errors of the call itself. The journal has them, and the model fixes them or asks; people do not see them."""
ERROR_MAX = 300
"""Characters of an error in the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """One finished or waiting call, for the people who follow the run."""

    call: CallRecord
    note: TextRef
    title: TextRef | None = None
    """What a waiting call would do, in the words of its card."""
    people: tuple[str, ...] = ()
    """Ids of the people whom a name may mean, if the person has to choose."""
    privacy: Privacy = Privacy.PRIVATE
    """The privacy of its result, or of what the run had seen before."""
    error: str = ""
    """Error code, if it failed."""
    error_message: str = ""
    """The error message that the model got; for administrators."""
    receipt_line: ReceiptLine | None = None
    """What the call did, or may have done, without a press."""

    @property
    def is_call_mistake(self) -> bool:
        """True if the model only called it wrongly, which people cannot fix."""
        return self.error in CALL_MISTAKES


@dataclass(frozen=True, slots=True)
class StepsFinished:
    steps: tuple[RunStep, ...]


@dataclass(frozen=True, slots=True)
class RunFinished:
    text: str
    unverified: tuple[str, ...] = ()
    """The parts that are still unsupported after the model was told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPaused:
    """A gated call waits for a person: which card goes to whom."""

    call: CallRecord
    proposal: Proposal
    gate: Gate
    steps: tuple[RunStep, ...]


@dataclass(frozen=True, slots=True)
class RunStopped:
    reason: StopReason
    endpoint_message: str = ""
    """The message of the model's endpoint, for administrators."""


RunEvent = StepsFinished | RunFinished | RunPaused | RunStopped


def build_step(call: CallRecord, result: ToolResult, caller: str) -> RunStep:
    """A call in the words of its card or its result. A reader who does not decide gets their own title of the card."""
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
    if caller in result.deciders:
        return RunStep(call=call, note=TextRef(key="steps.waiting"), title=result.title)
    return RunStep(call=call, note=TextRef(key="steps.brought"), title=result.get_title_for(caller))
