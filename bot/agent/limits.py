"""Limits of a run, the budget of its person, and the prices by which it is counted. Every limit ends the run with a
reason that people are told. None is silent.

The defaults for repetition and failures come from recorded episodes. An action with the same result three times,
or five failures in a row, never led to success. Three failures in a row sometimes did.

Prices are a table by model, in one currency. Costs are exact. A missing price does not mean free.

currency = "USD"

[models."gpt-6.1-terra"]  # per million tokens
input = 0.25
cached = 0.025
output = 2.00
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.agent.model import ModelReply
from bot.core.errors import ModelFailureCause
from bot.core.run_state import DECIMALS, LATE_REPLIES, RunState, Usage


class StopReason(StrEnum):
    """The reason why a run stopped before an answer. People read the sentence `stopped.<reason>`."""

    STEPS = "steps"
    CALLS = "calls"
    TIME = "time"
    TOKENS = "tokens"
    BUDGET = "budget"
    REPETITION = "repetition"
    FAILURES = "failures"
    MALFORMED = "malformed"
    REFUSED = "refused"
    FILTERED = "filtered"
    USER = "user"


class RunHalted(Exception):
    """Ends a run from anywhere inside the loop."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Budget:
    """The model usage that one person's messages may cause in a day, or that a run may reach. None means no limit.

    The budget is checked before every reply, against the usage at the run's start or last resume. One run therefore
    exceeds it by less than one reply. Parallel runs of one person in different conversations do not see each other.
    Together they exceed the budget by at most what each may use (`RunLimits.tokens`)."""

    tokens: int | None = None
    """Input and output tokens."""
    money: Decimal | None = None
    """Cost in the currency of the prices."""

    def __bool__(self) -> bool:
        return self.tokens is not None or self.money is not None

    def is_used_up(self, tokens: int, cost: Decimal) -> bool:
        """Return whether a usage has reached the budget."""
        return (self.tokens is not None and tokens >= self.tokens) or (self.money is not None and cost >= self.money)

    def compute_remaining_budget(self, tokens: int, cost: Decimal, state: RunState) -> Budget:
        """Compute the totals that a run may reach, given its person's usage today."""
        return Budget(
            None if self.tokens is None else self.tokens - tokens + state.total_tokens,
            None if self.money is None else self.money - cost + state.cost,
        )


MILLION_DECIMALS = 6
"""Extra decimals that turn a price per million tokens into the price of one."""
Amount = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=DECIMALS - MILLION_DECIMALS)]
"""Price per million tokens. With at most four decimals, every cost is a whole number of 10⁻¹⁰."""


class ModelPrice(BaseModel):
    """The price of one model, per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: Amount
    cached: Amount | None = None
    """Price of input that the endpoint had cached. None means the price of any other input."""
    output: Amount

    def compute_cost(self, reply: ModelReply) -> Decimal:
        """Compute the exact cost of a reply."""
        cached = min(reply.tokens_cached, reply.tokens_in)
        known = self.input if self.cached is None else self.cached
        total = self.input * (reply.tokens_in - cached) + known * cached + self.output * reply.tokens_out
        return total.scaleb(-MILLION_DECIMALS)


class PriceTable(BaseModel):
    """The price table. Empty by default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    currency: str = Field(default="", pattern=r"^[A-Z]{3}$")
    """ISO 4217 code."""
    models: Mapping[str, ModelPrice] = Field(default_factory=dict, min_length=1)

    def compute_usage(self, reply: ModelReply) -> Usage:
        price = self.models.get(reply.model)
        cost, currency = (price.compute_cost(reply), self.currency) if price else (None, "")
        return Usage(reply.model, reply.tokens_in, reply.tokens_cached, reply.tokens_out, cost, currency)


def parse_prices(text: str) -> PriceTable:
    """Parse the table in a TOML text. Raises `ValueError` with what is wrong in the text."""
    try:
        return PriceTable.model_validate({"currency": "", "models": {}, **tomllib.loads(text, parse_float=Decimal)})
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False))
        raise ValueError("; ".join(wrong)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    steps: int = 12
    """Most replies of the model that act."""
    calls: int = 20
    """Most tool calls."""
    calls_per_reply: int = 8
    offered_tools: int = 30
    """Most tools offered to a run. If there are more, those that fit the conversation best are offered."""
    tokens: int = 200_000
    """Most input and output tokens over all replies of a run, as the endpoint counts them. If the endpoint does not
    count, only `steps` limits the run."""
    active_s: float = 180.0
    """Longest running time of a turn (s). Waiting for people does not count."""
    reply_s: float = 60.0
    """Longest model call (s)."""
    format_retries: int = 2
    """Malformed replies per step that are answered with their error. One more ends the run."""
    same_results: int = 3
    """How many times the same call with the same result ends the run. The model is told one time earlier."""
    cycles: int = 3
    """Longest cycle of replies (A B A B, A B C A B C: the same calls with the same results) that ends the run after its
    second round. The model was told at its first repeated call."""
    failures: int = 5
    """Failed calls in a row that end the run."""
    late: int = 3
    """Late replies in a row that end the run, so that a model which is always too slow is not asked for ever."""

    def require_step_allowed(self, state: RunState) -> None:
        """Raise `RunHalted` if the run may not take another step."""
        if state.steps >= self.steps:
            raise RunHalted(StopReason.STEPS)
        if state.tool_calls >= self.calls:
            raise RunHalted(StopReason.CALLS)
        if state.failures >= self.failures:
            raise RunHalted(StopReason.FAILURES)
        if self.compute_seconds_left(state) <= 0:
            raise RunHalted(StopReason.TIME)

    def compute_seconds_left(self, state: RunState) -> float:
        return self.active_s - state.active_ms / 1000

    def count_repeated_call(self, state: RunState, made: str) -> bool:
        """Count a call with its result, by their fingerprint. Return whether this ends the run."""
        state.result_counts[made] = state.result_counts.get(made, 0) + 1
        return state.result_counts[made] >= self.same_results

    def count_late_reply(self, state: RunState, cause: ModelFailureCause) -> None:
        """Count a missing reply if it took too long. Raises `RunHalted` at the limit."""
        if cause is not ModelFailureCause.TIMEOUT:
            return
        state.result_counts[LATE_REPLIES] = state.result_counts.get(LATE_REPLIES, 0) + 1
        if state.result_counts[LATE_REPLIES] >= self.late:
            raise RunHalted(StopReason.TIME)

    def count_reply_cycle(self, state: RunState, reply: str) -> bool:
        """Count a reply, by the fingerprints of its calls and results. An empty text means that the reply waits for a
        button, and starts the count anew. Return whether this ends the run, after the second round of a cycle."""
        state.recent_steps = [*state.recent_steps, reply][-2 * self.cycles :] if reply else []
        for turn in range(2, self.cycles + 1):
            last = state.recent_steps[-turn:]
            if len(set(last)) > 1 and state.recent_steps[-2 * turn : -turn] == last:
                return True
        return False
