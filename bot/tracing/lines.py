"""A run as one line of JSON: `countersign export`. The spans of `bot.tracing.spans` are made from the same.

Content (messages, arguments, observations, answers) is left out unless it is asked for. The short reason that a model
states for each call is not: people were shown it. All of it is redacted as logs are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from bot.logs import redact
from bot.records import Approval, Run, RunStatus
from bot.store.approvals import Approvals
from bot.trace import Call, CallStatus, Spoken, Trace, fingerprint
from tools.spec import Frozen, Gate

UNNAMED = "(no tool)"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What a tool can be called; anything else is something that the model wrote instead."""
_OVER = (RunStatus.DONE, RunStatus.STOPPED, RunStatus.CANCELLED)
Outcome = Literal["final", "stopped", "cancelled", "paused", "running"]
_OUTCOMES: Mapping[RunStatus, Outcome] = {
    RunStatus.DONE: "final",
    RunStatus.STOPPED: "stopped",
    RunStatus.CANCELLED: "cancelled",
    RunStatus.PAUSED: "paused",
}


class Decision(Frozen):
    """How a card was answered, as far as this run has heard of it."""

    state: str
    """`open`, `decided`, `cancelled`, `expired`, `closed`."""
    by: str
    """Person id of who pressed; empty while it is open, and when nobody did."""
    choice: str
    asked_ms: int
    """When the card was made (epoch ms)."""
    decided_ms: int | None
    """Epoch ms; None while it is open."""


class Step(Frozen):
    """One tool call. Several of one reply share `n`."""

    n: int
    """The reply that asked for it, counted from 1 over those that acted."""
    uid: str
    tool: str
    """As the model wrote it; `(no tool)` for what can be no name, unless content is asked for."""
    gate: str | None
    """`none`, `confirm`, `approve`; None for a tool that there is not."""
    args_sha: str
    """SHA-256 over tool and canonical arguments (`bot.trace.fingerprint`)."""
    reason: str
    """Model-stated, not verified."""
    status: str
    """`awaiting`, `denied`, `expired`, `succeeded`, `failed`, `unknown`."""
    began_ms: int | None
    """When the reply that asked for it had come (epoch ms)."""
    ms: int | None
    """From then to its result; with a card that includes the wait for a person. None while it waits."""
    approval: str
    """Id of its card, or empty."""
    decision: Decision | None = None
    args: dict[str, Any] | None = None
    """Content."""
    observation: str | None = None
    """Content: what the model was told of the result."""


class Reply(Frozen):
    """One reply of the model."""

    at_ms: int
    """When it was asked for (epoch ms)."""
    ms: int
    tokens_in: int
    cached: int
    """Of `tokens_in`, those that the endpoint knew."""
    tokens_out: int
    did: str
    """What was read in it: `act`, `answer`, `malformed`, `withheld`."""


class Content(Frozen):
    """What was written."""

    message: str
    """The person's."""
    messages: list[Any]
    """The run's own, in the model's format."""
    answer: str


class Line(Frozen):
    """One run. Times are epoch ms, tokens as the endpoint counts them."""

    v: Literal[1] = 1
    """Of this schema: another one whenever the meaning of a field changes."""
    run: str
    person: str
    """Person id."""
    conversation: str
    started_ms: int
    ended_ms: int | None
    active_ms: int
    """Running time; waiting for people does not count."""
    style: str
    """Of ReAct: `native`, `text`, `json`; empty before the first reply."""
    model: str
    """Which model answered last; empty before the first reply."""
    outcome: Outcome
    stopped: str
    """Why it stopped (`bot.react.guards.Reason`, or `given_up`); empty for any other outcome."""
    steps: list[Step]
    replies: list[Reply]
    calls: int
    bad_calls: int
    """Of them, those that failed: no such tool, wrong arguments, a tool's own error."""
    repeated: int
    """Calls that gave what the same call had given before."""
    malformed: int
    tokens_in: int
    tokens_cached: int
    tokens_out: int
    cost: Decimal
    """Of the replies whose price is known, exactly."""
    currency: str
    """Of the cost; empty where no price is known."""
    unpriced: int
    """Tokens, in and out, for which no price is known."""
    claimed: int
    supported: int
    """Of the things that the answer claims, those that rest on something."""
    content: Content | None = None


async def line_of(run: Run, approvals: Approvals, gates: Mapping[str, Gate], *, content: bool) -> Line:
    """A run with how its cards were answered. Raises StoreDown."""
    cards = {call.approval: await approvals.get(call.approval) for call in run.trace.calls if call.approval}
    return _line(run, _steps(run.trace, cards, gates, content=content), content=content)


def written(line: Line) -> str:
    """The line: JSON with nothing in it that a log would not show, and no content that was not asked for."""
    exclude: Any = None if line.content else {"content": True, "steps": {"__all__": {"args", "observation"}}}
    return json.dumps(_clean(line.model_dump(mode="json", exclude=exclude)), ensure_ascii=False)


def cleaned(line: Line) -> Line:
    """The same, redacted as `written` is."""
    return Line.model_validate(_clean(line.model_dump(mode="json")))


def _line(run: Run, steps: list[Step], *, content: bool) -> Line:
    trace, outcome = run.trace, _OUTCOMES.get(run.status, "running")
    return Line(
        run=run.id,
        person=run.message.person,
        conversation=run.message.place.conversation,
        started_ms=run.created_ms,
        ended_ms=run.ended_ms if run.status in _OVER else None,
        active_ms=trace.active_ms,
        style=trace.style,
        model=trace.model,
        outcome=outcome,
        stopped=(run.last.stopped if run.last else "") or "given_up" if outcome == "stopped" else "",
        steps=steps,
        replies=[Reply(**spoken._asdict()) for spoken in trace.replies],
        calls=len(trace.calls),
        bad_calls=sum(call.status is CallStatus.FAILED for call in trace.calls),
        repeated=trace.repeated,
        malformed=trace.malformed,
        tokens_in=trace.tokens_in,
        tokens_cached=trace.tokens_cached,
        tokens_out=trace.tokens_out,
        cost=trace.cost,
        currency=trace.currency,
        unpriced=trace.unpriced,
        claimed=trace.claimed,
        supported=trace.supported,
        content=_content(run) if content else None,
    )


def _content(run: Run) -> Content:
    messages = [json.loads(message) for message in run.trace.messages]
    return Content(message=run.message.text, messages=messages, answer=run.last.text if run.last else "")


def _steps(
    trace: Trace, cards: Mapping[str, Approval | None], gates: Mapping[str, Gate], *, content: bool
) -> list[Step]:
    acting = [reply for reply in trace.replies if reply.did == "act"]
    observed = _observations(trace) if content else {}
    return [
        _step(call, _began(call, acting), cards.get(call.approval), gates, observed.get(call.uid), content=content)
        for call in trace.calls
    ]


def _step(
    call: Call,
    began_ms: int | None,
    card: Approval | None,
    gates: Mapping[str, Gate],
    observation: str | None,
    *,
    content: bool,
) -> Step:
    gate = gates.get(call.tool) or (card.gate if card else None)
    return Step(
        n=_number(call),
        uid=call.uid,
        tool=call.tool if content or _NAME.fullmatch(call.tool) else UNNAMED,
        gate=gate.value if gate else None,
        args_sha=fingerprint(call.tool, call.args),
        reason=call.reason,
        status=call.status.value,
        began_ms=began_ms,
        ms=max(call.ended_ms - began_ms, 0) if call.ended_ms and began_ms else None,
        approval=call.approval,
        decision=_decision(call, card) if card else None,
        args=call.args if content else None,
        observation=observation,
    )


def _number(call: Call) -> int:
    """`<run>:<step>:<index>`."""
    return int(call.uid.split(":")[-2])


def _began(call: Call, acting: Sequence[Spoken]) -> int | None:
    asked = acting[_number(call) - 1 : _number(call)]
    return asked[0].at_ms + asked[0].ms if asked else None


def _decision(call: Call, card: Approval) -> Decision | None:
    """None if the card has been renewed since the run heard of it: what is on it now is not what the run was told."""
    if call.ended_ms and max(card.created_ms, card.decided_ms) > call.ended_ms:
        return None
    decided_ms = card.decided_ms or None
    return Decision(
        state=card.state.value, by=card.by, choice=card.choice, asked_ms=card.created_ms, decided_ms=decided_ms
    )


def _observations(trace: Trace) -> dict[str, str]:
    """By call. After the assistant's message of a step come the results in the order of its calls, the one of a card
    last, because it comes when somebody has pressed."""
    found: dict[str, str] = {}
    waiting: list[str] = []
    step = 0
    for message in map(json.loads, trace.messages[1:]):
        if message["role"] == "assistant":
            step += 1
            calls = [call for call in trace.calls if _number(call) == step]
            waiting = [call.uid for call in sorted(calls, key=_late)]
        elif waiting:
            found[waiting.pop(0)] = str(message["content"])
    return found


def _late(call: Call) -> bool:
    return bool(call.approval) or call.status is CallStatus.DENIED


def _clean(value: Any, key: str = "") -> Any:
    """Redacted as logs are, value by value, so that it stays JSON; what stands under the name of a secret is one."""
    if isinstance(value, Mapping):
        return {redact(name): _clean(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_clean(one, key) for one in value]
    if value is None or isinstance(value, bool):
        return value
    text = str(value)
    if redact(f"{key}={text}") != f"{key}={redact(text)}":
        return "***"
    return redact(text) if isinstance(value, str) else value
