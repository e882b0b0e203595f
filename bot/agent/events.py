"""What a run goes through, as its caller hears of it: a step, an end, a pause, a stop."""

from __future__ import annotations

from dataclasses import dataclass

from bot.agent.limits import StopReason
from bot.agent.tool_executor import Result
from bot.core.run_state import CallRecord
from tools.spec import Gate, Privacy, Proposal, TextRef, ToolError

SLIPS = frozenset(
    {
        *("bad_arguments", "unknown_tool", "not_offered", "one_at_a_time", "unknown_field", "unknown_process"),
        *("missing_field", "bad_choice", "bad_date", "bad_number", "bad_days"),
    }
)
"""Errors of the call itself: the journal has them, and the model mends them or asks; people are not shown them."""
WHY_MAX = 300
"""Characters of an error that the journal keeps."""


@dataclass(frozen=True, slots=True)
class RunStep:
    """One finished or waiting call, for the people who follow."""

    call: CallRecord
    note: TextRef
    title: TextRef | None = None
    """What a waiting call would do, in the words of its card."""
    people: tuple[str, ...] = ()
    """Ids of those whom a name may mean, where that has to be asked."""
    privacy: Privacy = Privacy.PRIVATE
    """How private it is: as what it has come to, or as what the run had seen before."""
    error: str = ""
    """Code of what it failed with, if it did."""
    error_message: str = ""
    """What the model was told of that: for administrators."""

    @property
    def is_call_mistake(self) -> bool:
        """True if the model has only called it in a wrong way, which is nothing that people could mend."""
        return self.error in SLIPS


@dataclass(frozen=True, slots=True)
class StepsFinished:
    steps: tuple[RunStep, ...]


@dataclass(frozen=True, slots=True)
class RunFinished:
    text: str
    unverified: tuple[str, ...] = ()
    """What of it nothing supports, although the model was told so."""
    overclaims: bool = False
    """It says that something was done which no result speaks of."""


@dataclass(frozen=True, slots=True)
class RunPaused:
    """A gated call waits for a person: what to bring to whom."""

    call: CallRecord
    proposal: Proposal
    gate: Gate
    steps: tuple[RunStep, ...]


@dataclass(frozen=True, slots=True)
class RunStopped:
    reason: StopReason
    endpoint_message: str = ""
    """By the model's endpoint, for administrators."""


Event = StepsFinished | RunFinished | RunPaused | RunStopped


def build_step(call: CallRecord, result: Result, caller: str) -> RunStep:
    """A call in the words of its card or its result. Who does not decide reads what the card is called for them."""
    if isinstance(result, ToolError):
        return RunStep(call, result.note, people=result.people, error=result.code, error_message=result.text[:WHY_MAX])
    if not isinstance(result, Proposal):
        return RunStep(call, result.summary)
    if caller in result.deciders:
        return RunStep(call, TextRef(key="steps.waiting"), result.title)
    return RunStep(call, TextRef(key="steps.brought"), result.get_title_for(caller))
