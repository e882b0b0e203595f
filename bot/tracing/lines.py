"""A run as one line of JSON, for `countersign export`. The spans of `bot.tracing.spans` are made from the same data.

Content (messages, arguments, observations, answers) is left out unless it is asked for. The short reason that a model
states for each call is included, because people were shown it. All text is redacted as in logs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from pydantic import Field

from bot.core.records import Approval, Run, RunStatus
from bot.core.redaction import redact_text
from bot.core.run_state import CallRecord, CallStatus, RunState, fingerprint_call
from bot.storage.approvals import ApprovalStore
from tools.spec import FrozenModel, Gate

UNNAMED = "(no tool)"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The possible names of a tool; any other text was made up by the model."""
Outcome = Literal["final", "stopped", "cancelled", "paused", "running"]
Notes: TypeAlias = Mapping[str, Sequence[Mapping[str, str]]]
_OUTCOMES: Mapping[RunStatus, Outcome] = {
    RunStatus.DONE: "final",
    RunStatus.STOPPED: "stopped",
    RunStatus.CANCELLED: "cancelled",
    RunStatus.PAUSED: "paused",
}


class ExportedDecision(FrozenModel):
    """The answer to a card, as far as this run has learned it."""

    state: str
    """`open`, `decided`, `cancelled`, `expired`, `closed`."""
    by: str
    """Person id of the presser; empty while the card is open, and if nobody pressed."""
    choice: str
    asked_ms: int
    """Time at which the card was made (epoch ms)."""
    decided_ms: int | None
    """Epoch ms; None while the card is open."""


class ExportedStep(FrozenModel):
    """One tool call. Several calls of one reply share `n`."""

    n: int
    """Number of the reply that asked for the call, counted from 1 over the replies that acted."""
    uid: str
    tool: str
    """The name as the model wrote it; `(no tool)` for an impossible name, unless content is asked for."""
    gate: str | None
    """`none`, `confirm`, `approve`; None for a tool that does not exist."""
    args_sha: str
    """SHA-256 over tool and canonical arguments (`bot.core.run_state.fingerprint_call`)."""
    reason: str
    """The reason stated by the model; not verified."""
    status: str
    """`awaiting`, `denied`, `expired`, `succeeded`, `failed`, `unknown`."""
    began_ms: int | None
    """Time at which the reply that asked for the call arrived (epoch ms)."""
    ms: int | None
    """Time from then to the call's result (ms); with a card, it includes the wait for a person. None while the call
    waits."""
    approval: str
    """Id of its card, or empty."""
    decision: ExportedDecision | None = None
    args: dict[str, Any] | None = None
    """The arguments, if content is asked for."""
    observation: str | None = None
    """The result as the model was told it, if content is asked for."""


class ExportedReply(FrozenModel):
    """One reply of the model."""

    at_ms: int
    """Time at which the model was asked (epoch ms)."""
    ms: int
    tokens_in: int
    cached: int
    """Part of `tokens_in` that the endpoint had cached."""
    tokens_out: int
    outcome: str
    """The kind of reply: `act`, `answer`, `malformed`, `withheld`."""


class ExportedContent(FrozenModel):
    """The texts of a run."""

    message: str
    """The person's message."""
    messages: list[Any]
    """The run's own messages, in the model's format."""
    answer: str


class ExportedRun(FrozenModel):
    """One run. Times are epoch ms, tokens as the endpoint counts them."""

    v: Literal[1] = 1
    """Version of this schema; a change in the meaning of a field increases it."""
    run: str
    person: str
    """Person id."""
    conversation: str
    started_ms: int
    ended_ms: int | None
    active_ms: int
    """Running time (ms), without waiting for people."""
    style: str
    """The reply format: `native`, `text`, `json`; empty before the first reply."""
    model: str
    """The model that answered last; empty before the first reply."""
    outcome: Outcome
    stopped: str
    """The reason for the stop (`bot.agent.limits.StopReason`, or `given_up`); empty for any other outcome."""
    steps: list[ExportedStep]
    replies: list[ExportedReply]
    calls: int
    bad_calls: int
    """Number of calls that failed: no such tool, wrong arguments, a tool's own error."""
    repeated: int
    """Number of calls with the same result as an earlier equal call."""
    malformed: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost: Decimal
    """Exact cost of the replies with a known price."""
    currency: str
    """Currency of the cost; empty if no price is known."""
    unpriced: int
    """Tokens, in and out, without a known price."""
    claimed: int
    supported: int
    """Number of the answer's claims that are supported."""
    notes: Notes = Field(default_factory=dict)
    """Notes that people have made on the run; in the line, each name is a field of its own
    (`bot.features.shipped.RUN_NOTES`). Empty in spans, which are sent before anybody can make a note."""
    content: ExportedContent | None = None


async def export_run(
    run: Run,
    approvals: ApprovalStore,
    gates: Mapping[str, Gate],
    *,
    content: bool,
    notes: Notes = MappingProxyType({}),
) -> ExportedRun:
    """Export a run with the answers to its cards and people's notes on it. Raises StoreUnavailableError."""
    cards = {call.approval: await approvals.load_approval(call.approval) for call in run.state.calls if call.approval}
    state, outcome = run.state, _OUTCOMES.get(run.status, "running")
    exported: ExportedContent | None = None
    if content:
        messages = [json.loads(message) for message in state.messages]
        answer = run.result.text if run.result else ""
        exported = ExportedContent(message=run.message.text, messages=messages, answer=answer)
    return ExportedRun(
        run=run.id,
        person=run.message.person,
        conversation=run.message.place.conversation,
        started_ms=run.created_ms,
        ended_ms=run.ended_ms if run.is_over else None,
        active_ms=state.active_ms,
        style=state.style,
        model=state.model,
        outcome=outcome,
        stopped=(run.result.stop_reason if run.result else "") or "given_up" if outcome == "stopped" else "",
        steps=_build_exported_steps(state, cards, gates, content=content),
        replies=[ExportedReply(**spoken._asdict()) for spoken in state.model_calls],
        calls=len(state.calls),
        bad_calls=sum(call.status is CallStatus.FAILED for call in state.calls),
        repeated=state.repeated_calls,
        malformed=state.malformed,
        tokens_in=state.tokens_in,
        tokens_cached=state.tokens_cached,
        tokens_out=state.tokens_out,
        cost=state.cost,
        currency=state.currency,
        unpriced=state.unpriced,
        claimed=state.claims,
        supported=state.supported_claims,
        notes=notes,
        content=exported,
    )


def format_run_line(line: ExportedRun) -> str:
    """Format the line: JSON without anything that a log would not show, and without content unless it was asked for."""
    exclude: Any = None if line.content else {"content": True, "steps": {"__all__": {"args", "observation"}}}
    fields: dict[str, Any] = {}
    for name, value in line.model_dump(mode="json", exclude=exclude).items():
        fields |= value if name == "notes" else {name: value}
    return json.dumps(_redact_json(fields), ensure_ascii=False)


def redact_run(line: ExportedRun) -> ExportedRun:
    """Return the run redacted in the same way as by `format_run_line`."""
    return ExportedRun.model_validate(_redact_json(line.model_dump(mode="json")))


def _build_exported_steps(
    state: RunState, cards: Mapping[str, Approval | None], gates: Mapping[str, Gate], *, content: bool
) -> list[ExportedStep]:
    acting = [reply for reply in state.model_calls if reply.outcome == "act"]
    observed = _match_observations(state) if content else {}
    steps: list[ExportedStep] = []
    for call in state.calls:
        n, card, decision = _parse_step_number(call), cards.get(call.approval), None
        began_ms = next((asked.at_ms + asked.ms for asked in acting[n - 1 : n]), None)
        gate = gates.get(call.tool) or (card.gate if card else None)
        # If a card was renewed after the run learned of it, the run was not told its current content.
        if card and not (call.ended_ms and max(card.created_ms, card.decided_ms) > call.ended_ms):
            decision = ExportedDecision(
                state=card.state.value,
                by=card.decided_by,
                choice=card.choice,
                asked_ms=card.created_ms,
                decided_ms=card.decided_ms or None,
            )
        steps.append(
            ExportedStep(
                n=n,
                uid=call.uid,
                tool=call.tool if content or _NAME.fullmatch(call.tool) else UNNAMED,
                gate=gate.value if gate else None,
                args_sha=fingerprint_call(call.tool, call.args),
                reason=call.reason,
                status=call.status.value,
                began_ms=began_ms,
                ms=max(call.ended_ms - began_ms, 0) if call.ended_ms and began_ms else None,
                approval=call.approval,
                decision=decision,
                args=call.args if content else None,
                observation=observed.get(call.uid),
            )
        )
    return steps


def _parse_step_number(call: CallRecord) -> int:
    """Parse the step number in a uid `<run>:<step>:<index>`."""
    return int(call.uid.split(":")[-2])


def _match_observations(state: RunState) -> dict[str, str]:
    """Match observations to calls. After the assistant's message of a step come the results in the order of its calls.
    The result of a card comes last, after somebody has pressed."""
    found: dict[str, str] = {}
    waiting: list[str] = []
    step = 0
    for message in map(json.loads, state.messages[1:]):
        if message["role"] == "assistant":
            step += 1
            calls = [call for call in state.calls if _parse_step_number(call) == step]
            calls.sort(key=lambda one: bool(one.approval) or one.status is CallStatus.DENIED)
            waiting = [call.uid for call in calls]
        elif waiting:
            found[waiting.pop(0)] = str(message["content"])
    return found


def _redact_json(value: Any, key: str = "") -> Any:
    """Redact as in logs, value by value, so that the data stay JSON; the value under the name of a secret is masked."""
    if isinstance(value, Mapping):
        return {redact_text(name): _redact_json(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_redact_json(one, key) for one in value]
    if value is None or isinstance(value, bool):
        return value
    text = str(value)
    if redact_text(f"{key}={text}") != f"{key}={redact_text(text)}":
        return "***"
    return redact_text(text) if isinstance(value, str) else value
