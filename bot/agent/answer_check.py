"""The check of an answer before anybody reads it, as the loop asks for it. Without a feature that checks, every answer
passes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bot.core.history_entries import HistoryMessage
from bot.core.run_state import RunState
from tools.tool import ToolContext


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
    return AnswerFindings()
