"""How far a run has come: its calls, its messages, what it has counted. All that the loop needs to go on elsewhere."""

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


def format_canonical_json(args: Mapping[str, Any]) -> str:
    """The one spelling of arguments that is hashed: sorted keys, no spaces, UTF-8."""
    return json.dumps(args, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def fingerprint_call(tool: str, args: Mapping[str, Any]) -> str:
    """SHA-256 over tool and canonical arguments."""
    return hashlib.sha256(f"{tool}\n{format_canonical_json(args)}".encode()).hexdigest()


M = TypeVar("M", bound=BaseModel)


def validate_args(model: type[M], args: Mapping[str, Any]) -> M:
    """Arguments as their model. Raises `ToolError` `bad_arguments` that names the first wrong field."""
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
    """One tool call of a run. Every step leaves one behind, so it is kept small."""

    uid: str
    """Ours: `<run>:<step>:<index>`. The model's own id is only echoed (servers reuse `call_0`)."""
    tool: str
    args: dict[str, Any]
    reason: str
    """Model-stated, not verified."""
    status: CallStatus
    model_id: str
    approval: str = ""
    ended_ms: int = field(default=0, compare=False)
    """When its result was there (epoch ms); 0 while it waits. It began when the reply that asked for it had come."""


class ModelCall(NamedTuple):
    """One reply of the model. Every one leaves this behind, so it is stored as a bare row."""

    at_ms: int
    """When the model was asked (epoch ms)."""
    ms: int
    tokens_in: int
    cached: int
    tokens_out: int
    outcome: str
    """What was read in it: `act`, `answer`, `malformed`, `withheld`; `correction`: an answer was asked for again in
    short. The n-th `act` is step n."""


DECIMALS = 10
"""Of money: a price per million tokens has at most four, and all that is computed from it is exact."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What replies of one model took."""

    model: str
    """By the name it has in the settings."""
    tokens_in: int
    tokens_cached: int
    """Of `tokens_in`."""
    tokens_out: int
    cost: Decimal | None
    """In `currency`; None where no price is known: that is not the same as nothing."""
    currency: str = ""


LATE = "late"
"""Under this `RunState.seen` counts replies that did not come in time; fingerprints are longer."""
DEEDS = "deeds"
"""Under this it notes that an answer was held up for what it said was done."""


class RunState(BaseModel):
    """How far a run has come: everything the loop needs to go on in another process."""

    model_config = ConfigDict(extra="forbid")

    style: str = ""
    """In which style of ReAct its messages are; empty before the first reply."""
    offered_tools: list[str] | None = None
    """Names of the tools that it is offered, in their order; None: our own. Chosen once, so that wherever the run goes
    on it has the same."""
    messages: list[str] = []
    """This run's own messages in the model's format, from the person's message on: each as JSON, which is what the
    model is sent and what is stored. Kept in a list of their own."""
    provider_details: dict[int, str] = Field(default_factory=dict, exclude=True)
    """By the number of its message: what the endpoint that brought it may want back with the next step, opaque. Stored
    apart, for as long as the run is at work or waits, so that nothing that shows or exports messages ever has it."""
    calls: list[CallRecord] = []
    steps: int = 0
    tool_calls: int = 0
    failures: int = 0
    """Failed calls in a row."""
    malformed: int = 0
    """Malformed replies in this run."""
    result_counts: dict[str, int] = {}
    """Fingerprint of call and result → how often; and how many replies in a row came too late."""
    active_ms: int = 0
    """Running time; waiting for people does not count."""
    tokens_in: int = 0
    tokens_cached: int = 0
    """Of `tokens_in`, those that the endpoint knew from an earlier request."""
    tokens_out: int = 0
    model: str = ""
    """Which model has answered last, by the name it has in the settings."""
    cost: Decimal = Decimal(0)
    """Of the replies whose price is known, exactly, in `currency`."""
    currency: str = ""
    unpriced: int = 0
    """Tokens, in and out, for which no price is known."""
    uncounted_usage: list[Usage] = Field(default_factory=list, exclude=True)
    """Replies that no counter knows yet (`bot.storage.spending`). Never stored: whoever loses them loses the tokens
    above with them."""
    model_calls: list[ModelCall] = []
    recent_steps: list[str] = []
    """Fingerprints of the latest replies: the calls of each, with their results."""
    privacy: Privacy = Privacy.PRIVATE
    """The most private that the run has seen: it decides where its words may go. A record of an earlier version does
    not say, so it counts as private."""
    was_corrected: bool = False
    """The model was told what of its answer nothing bears out."""
    claims: int = 0
    """What the answer claims (`bot.agent.grounding.claims`): so many things,"""
    supported_claims: int = 0
    """and of them so many that rest on something."""

    @property
    def evidence_accuracy(self) -> float | None:
        """Evidence accuracy: supported ÷ claimed; None for an answer that claims nothing."""
        return self.supported_claims / self.claims if self.claims else None

    @property
    def total_tokens(self) -> int:
        """In and out."""
        return self.tokens_in + self.tokens_out

    @property
    def repeated_calls(self) -> int:
        """Calls that were made before, with the result that they had before."""
        return sum(times - 1 for made, times in self.result_counts.items() if made not in (LATE, DEEDS))

    @property
    def is_uncounted_run(self) -> bool:
        """No counter knows this run yet."""
        return 0 < len(self.model_calls) == len(self.uncounted_usage)

    def record_model_call(self, usage: Usage, at_ms: int, ms: int, did: str) -> None:
        """Adds a reply up. What came before a change of the currency is not of this one, and has no price in it."""
        self.result_counts.pop(LATE, None)
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
