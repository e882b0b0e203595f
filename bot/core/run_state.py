"""The state of a run: its calls, messages and counters. The loop needs nothing else to continue in another process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass

from tools.spec import Privacy, ToolError


def fingerprint_call(tool: str, args: Mapping[str, Any]) -> str:
    """The SHA-256 of tool and arguments in their canonical spelling: sorted keys, no spaces, UTF-8."""
    canonical = json.dumps(args, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{tool}\n{canonical}".encode()).hexdigest()


M = TypeVar("M", bound=BaseModel)


def validate_args(model: type[M], args: Mapping[str, Any]) -> M:
    """Parse arguments into their model. Raises `ToolError` `bad_arguments`, which names the first wrong field."""
    try:
        return model.model_validate(args)
    except ValidationError as error:
        wrong = [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors()[:5]]
        field = str(next(iter(error.errors()[0]["loc"]), ""))
        raise ToolError("bad_arguments", "Arguments do not fit: " + "; ".join(wrong), field=field) from error


class CallStatus(StrEnum):
    AWAITING = "awaiting"
    DENIED = "denied"
    EXPIRED = "expired"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


@pydantic_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class CallRecord:
    """One tool call of a run. Every step creates one, so its record is small."""

    uid: str
    """Our id: `<run>:<step>:<index>`. The model's own id is only echoed (servers reuse `call_0`)."""
    tool: str
    args: dict[str, Any]
    reason: str
    """The reason stated by the model; not verified."""
    status: CallStatus
    model_id: str
    approval: str = ""
    ended_ms: int = field(default=0, compare=False)
    """Time at which its result arrived (epoch ms); 0 while it waits. The call began when the reply with it arrived."""


class ModelCall(NamedTuple):
    """One reply of the model. Every reply creates one, so it is stored as a bare row."""

    at_ms: int
    """Time at which the model was asked (epoch ms)."""
    ms: int
    tokens_in: int
    cached: int
    tokens_out: int
    outcome: str
    """The kind of reply: `act`, `answer`, `malformed`, `withheld`; or `correction`: a short answer was requested again.
    The n-th `act` is step n."""


DECIMALS = 10
"""Decimal places of money. A price per million tokens has at most four, so every amount computed from it is exact."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of replies of one model."""

    model: str
    """The model's name in the settings."""
    tokens_in: int
    tokens_cached: int
    """Part of `tokens_in`."""
    tokens_out: int
    cost: Decimal | None
    """Amount in `currency`; None if no price is known, which is not the same as zero."""
    currency: str = ""


LATE_REPLIES = "late"
"""The key of `RunState.result_counts` for replies that came too late. Fingerprints are longer."""
LEAKS = "leaks"
"""The key of `RunState.result_counts` for native replies with a call written as text."""


class RunState(BaseModel):
    """The state of a run: everything the loop needs to continue in another process."""

    model_config = ConfigDict(extra="forbid")

    style: str = ""
    """The reply format of its messages; empty before the first request."""
    offered_tools: list[str] | None = None
    """Names of the tools on offer, in order; None for our own. Chosen once, so that the run has the same tools in every
    process."""
    messages: list[str] = []
    """The run's own messages in the model's format, from the person's message on. Each is JSON, exactly as it is sent
    and stored. Redis holds them in a separate list."""
    provider_details: dict[int, str] = Field(default_factory=dict, exclude=True)
    """Message number → opaque details that the endpoint may want back with the next step. Stored apart while the run
    works or waits, so nothing that shows or exports messages contains them."""
    calls: list[CallRecord] = []
    steps: int = 0
    tool_calls: int = 0
    failures: int = 0
    """Failed calls in a row."""
    malformed: int = 0
    """Malformed replies in this run."""
    result_counts: dict[str, int] = {}
    """Fingerprint of call and result → number of times; also the number of replies in a row that came too late, and of
    leaks."""
    active_ms: int = 0
    """Running time (ms), without waiting for people."""
    tokens_in: int = 0
    tokens_cached: int = 0
    """Part of `tokens_in` that the endpoint had cached."""
    tokens_out: int = 0
    model: str = ""
    """The model that answered last, by its name in the settings."""
    cost: Decimal = Decimal(0)
    """Exact cost of the replies with a known price, in `currency`."""
    currency: str = ""
    unpriced: int = 0
    """Tokens, in and out, without a known price."""
    uncounted_usage: list[Usage] = Field(default_factory=list, exclude=True)
    """Usage of replies that no counter has yet (`bot.storage.spending`). Never stored: a process that loses them also
    loses the tokens above."""
    model_calls: list[ModelCall] = []
    recent_steps: list[str] = []
    """Fingerprints of the latest replies, each with its calls and their results."""
    privacy: Privacy = Privacy.PRIVATE
    """The highest privacy that the run has seen; it decides where the run's words may go. A record of an earlier
    version has no value, so it counts as private."""
    was_corrected: bool = False
    """Whether the model was told what is wrong with its answer."""
    claims: int = 0
    """Number of claims in the answer, as the check of answers counts them."""
    supported_claims: int = 0
    """Number of these claims that are supported."""

    @property
    def total_tokens(self) -> int:
        """Tokens in and out."""
        return self.tokens_in + self.tokens_out

    @property
    def repeated_calls(self) -> int:
        """Number of calls that were made before and gave the same result."""
        return sum(times - 1 for made, times in self.result_counts.items() if made not in (LATE_REPLIES, LEAKS))

    @property
    def is_uncounted_run(self) -> bool:
        """Whether no counter has this run yet."""
        return 0 < len(self.model_calls) == len(self.uncounted_usage)

    def record_model_call(self, usage: Usage, at_ms: int, ms: int, did: str) -> None:
        """Add the usage of a reply. When the currency changes, the earlier usage counts as unpriced."""
        self.result_counts.pop(LATE_REPLIES, None)
        self.model_calls.append(ModelCall(at_ms, ms, usage.tokens_in, usage.tokens_cached, usage.tokens_out, did))
        if usage.cost is not None and usage.currency != self.currency:
            self.unpriced, self.cost, self.currency = self.total_tokens, Decimal(0), usage.currency
        self.model = usage.model
        self.tokens_in += usage.tokens_in
        self.tokens_cached += usage.tokens_cached
        self.tokens_out += usage.tokens_out
        self.cost += usage.cost or 0
        self.unpriced += usage.tokens_in + usage.tokens_out if usage.cost is None else 0
        self.uncounted_usage.append(usage)

    def append_message(self, message: Mapping[str, Any], provider_details: str = "") -> None:
        if provider_details:
            self.provider_details[len(self.messages)] = provider_details
        self.messages.append(json.dumps(message, ensure_ascii=False))
