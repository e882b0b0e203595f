"""The course of a card: a function for each event returns the changed approval.

Pure: no clock, no store, no platform. No other code changes an `Approval`. If an event does not fit the card, nothing
changes: an event that may come too late returns None, any other raises `IllegalTransitionError`. `authorize_press` has
already judged who may press. Between processes, the deciding write remains the arbiter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.chat.messages import Click, MessageRef
from bot.core.clock import to_ms
from bot.core.errors import CountersignError
from bot.core.records import (
    STOPPED_CHOICE,
    Approval,
    ApprovalState,
    ApprovalWaiter,
    EffectState,
    OpenCard,
    compute_seal,
)
from tools.effect_parts import PartState
from tools.spec import CardChoice, CardField, Proposal, ReceiptLine, TextRef, ToolOutcome

ENDED_EFFECTS = (EffectState.DONE, EffectState.FAILED, EffectState.UNKNOWN)
"""Final states of an effect, which do not change by themselves any more."""
GIVEN_UP_MESSAGE = "It could not be begun after several tries; nothing was done."
"""Message for the model about an effect that was decided and never started."""


class IllegalTransitionError(CountersignError):
    """The event does not fit the card's state. Nothing has changed."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
        """`expired`, `already` or `stale`, as in the deciding write and in the sentences of a refusal."""


def _require(is_legal: bool) -> None:
    if not is_legal:
        raise IllegalTransitionError("already")


def _require_effect(approval: Approval, *effects: EffectState) -> None:
    """Require a decided approval whose effect is in one of these states."""
    _require(approval.state is ApprovalState.DECIDED and approval.effect in effects)


def _change_fields(approval: Approval, **changes: Any) -> Approval:
    """Change fields. Raises pydantic's `ValidationError` for a field or a value that no approval has."""
    return Approval.model_validate({**dict(approval), **changes})


def find_refusal(approval: Approval | None, version: int, now_ms: int) -> str:
    """Find the code of the refusal to decide this version now, checked in the order of the deciding write. Empty if the
    version can be decided."""
    if approval is None:
        return "gone"
    if approval.state is ApprovalState.EXPIRED:
        return "expired"
    if approval.state is not ApprovalState.OPEN:
        return "already"
    if version != approval.version:
        return "stale"
    return "expired" if now_ms >= approval.expires_ms else ""


def has_ended(approval: Approval) -> bool:
    """Whether nothing more happens by itself: closed without a decision, or with an ended effect."""
    undecided = approval.state not in (ApprovalState.OPEN, ApprovalState.DECIDED)
    return undecided or approval.effect in ENDED_EFFECTS


def is_resumable(approval: Approval) -> bool:
    """Whether an effect with parts can be resumed: for each part it is known whether it is done."""
    return bool(approval.parts) and PartState.BEGUN not in approval.parts.values()


# The copies, in every state


def record_delivery(approval: Approval, copies: Mapping[str, MessageRef]) -> Approval:
    """Record that the current version was delivered. `copies`: the new ones by person id; none if the card was updated
    in place."""
    older_copies = (one for one in approval.copies if one[1] not in copies.values())
    return _change_fields(approval, copies=(*older_copies, *copies.items()), delivered_version=approval.version)


def keep_copies(approval: Approval, copies: tuple[tuple[str, MessageRef], ...]) -> Approval:
    """Record the copies to keep up to date."""
    return _change_fields(approval, copies=copies)


# Open


@dataclass(frozen=True, slots=True)
class OpenPeriod:
    """The open time of a version of a card (epoch ms)."""

    begin_ms: int
    reminder_ms: int
    end_ms: int


def create_approval(previous: Approval | None, asked: OpenCard, period: OpenPeriod) -> Approval:
    """Create a card, which may replace one that can no longer be pressed and had no effect. The copies of that one will
    point to the new one."""
    _require(previous is None or not (previous.state is ApprovalState.OPEN or previous.is_settled))
    return Approval(
        id=asked.approval,
        version=previous.version + 1 if previous else 1,
        copies=previous.copies if previous else (),
        tool=asked.tool,
        gate=asked.gate,
        proposal=asked.proposal,
        seal=compute_seal(asked.tool, asked.proposal),
        caller=asked.caller,
        place=asked.place,
        run=asked.waiter.run if asked.waiter else "",
        created_ms=period.begin_ms,
        expires_ms=period.end_ms,
    )


def open_next_version(
    approval: Approval, proposal: Proposal, period: OpenPeriod, *, after: ApprovalState = ApprovalState.OPEN
) -> Approval:
    """Open the next version: sealed again, with its full time, and every earlier press forgotten. `after`: `OPEN` for
    another proposal, `EXPIRED` to ask again, `DECIDED` if the started tool did nothing and its findings have to be
    confirmed as well."""
    effect = EffectState.STARTED if after is ApprovalState.DECIDED else EffectState.NONE
    _require(approval.state is after and approval.effect is effect)
    return _change_fields(
        approval,
        version=approval.version + 1,
        proposal=proposal,
        seal=compute_seal(approval.tool, proposal),
        created_ms=period.begin_ms,
        expires_ms=period.end_ms,
        state=ApprovalState.OPEN,
        decided_by="",
        choice="",
        form={},
        press_id="",
        decided_ms=0,
        effect=EffectState.NONE,
    )


def add_waiter(approval: Approval, waiter: ApprovalWaiter) -> Approval:
    """Record one more run that waits for the card's end."""
    _require(approval.state is ApprovalState.OPEN and waiter not in approval.waiters)
    return _change_fields(approval, waiters=(*approval.waiters, waiter))


def is_open(approval: Approval, version: int) -> bool:
    """Whether this version is open; for any other, an event comes too late."""
    return approval.state is ApprovalState.OPEN and approval.version == version


def add_suggestion(approval: Approval, version: int, suggestion: CardField) -> Approval | None:
    """Add the model's suggestion about the version. The seal does not cover it."""
    if not is_open(approval, version):
        return None
    fields = (*approval.proposal.fields, suggestion)
    return _change_fields(approval, proposal=approval.proposal.with_card_fields(fields))


# Ended without a decision


def expire_approval(approval: Approval, version: int, now: datetime) -> Approval | None:
    """End the version, whose time is over."""
    return _end_undecided(approval, ApprovalState.EXPIRED, "", "", now) if is_open(approval, version) else None


def close_approval(approval: Approval, by: str, why: str, now: datetime) -> Approval | None:
    """End a card whose subject ended elsewhere. `by`: person id, or empty for a rule or a timer."""
    if approval.state not in (ApprovalState.OPEN, ApprovalState.EXPIRED):
        return None
    return _end_undecided(approval, ApprovalState.CLOSED, by, why, now)


def cancel_approval(approval: Approval, person: str, choice: str, now: datetime) -> Approval | None:
    """Cancel the card in chat, for its proposer or because the run that proposed it was stopped: while it can be
    decided, and again after the same cancellation. A card that has to be approved belongs to its task, and stays.
    `choice`: `TAKEN_BACK_CHOICE` or `STOPPED_CHOICE`."""
    press = approval.build_cancelling_press(choice)
    is_cancelled = approval.state is ApprovalState.CANCELLED and approval.press_id == press
    is_theirs = bool(approval.owner) if choice == STOPPED_CHOICE else approval.owner == person
    if not is_theirs or not (is_cancelled or not find_refusal(approval, approval.version, to_ms(now))):
        return None
    return _change_fields(_end_undecided(approval, ApprovalState.CANCELLED, person, choice, now), press_id=press)


def _end_undecided(approval: Approval, state: ApprovalState, by: str, choice: str, now: datetime) -> Approval:
    return _change_fields(approval, state=state, decided_by=by, choice=choice, decided_ms=to_ms(now))


# Decided


def decide_approval(approval: Approval, click: Click, removed: int, now: datetime, *, runs: bool) -> Approval:
    """Record the decision of an authorized person. `click`: with the cleaned answers to the dialog. `removed`: number
    of invisible characters removed from them. `runs`: whether the button runs the tool; otherwise it cancels the
    card."""
    if code := find_refusal(approval, click.version, to_ms(now)):
        raise IllegalTransitionError(code)
    return _change_fields(
        approval,
        state=ApprovalState.DECIDED if runs else ApprovalState.CANCELLED,
        decided_by=click.person,
        choice=click.choice,
        form=click.form or {},
        removed_characters=removed,
        press_id=click.id,
        decided_ms=to_ms(now),
    )


def start_effect(approval: Approval) -> Approval:
    """Start the decided effect."""
    _require_effect(approval, EffectState.NONE)
    return _change_fields(approval, effect=EffectState.STARTED, attempts=approval.attempts + 1, failure=None)


def change_parts(approval: Approval, parts: Mapping[str, PartState], postponed: TextRef | None = None) -> Approval:
    """Record the progress of one of several parts. `postponed`: the reason why the remaining parts are tried again
    later."""
    _require_effect(approval, EffectState.STARTED)
    return _change_fields(approval, parts=parts, failure=postponed)


def complete_effect(approval: Approval, outcome: ToolOutcome, parts: Mapping[str, PartState]) -> Approval:
    """End an effect that succeeded."""
    _require_effect(approval, EffectState.STARTED)
    done = {"effect": EffectState.DONE, "outcome": outcome, "failure": None, "possible_change": None}
    return _change_fields(approval, **done, parts=parts)


def fail_effect(
    approval: Approval,
    failure: TextRef,
    why: str,
    possible_change: ReceiptLine | None = None,
    parts: Mapping[str, PartState] | None = None,
) -> Approval:
    """End an effect whose tool says that nothing was done. `failure`: for people. `why`: for the model.
    `possible_change`: a change that may have happened nevertheless. `parts`: None if unchanged."""
    _require_effect(approval, EffectState.STARTED)
    failed = {"effect": EffectState.FAILED, "failure": failure, "failure_for_model": why}
    states = approval.parts if parts is None else parts
    return _change_fields(approval, **failed, possible_change=possible_change, parts=states)


def lose_effect(approval: Approval, parts: Mapping[str, PartState] | None = None) -> Approval:
    """End an effect of which nobody can say whether it happened. `parts`: None if unchanged."""
    _require_effect(approval, EffectState.STARTED)
    return _change_fields(approval, effect=EffectState.UNKNOWN, parts=approval.parts if parts is None else parts)


def abandon_effect(approval: Approval, *, is_doubted: bool = False) -> Approval | None:
    """End an effect after every attempt to carry out the decision failed. A started effect may have happened; any other
    did not. `is_doubted`: whether it may have been started nevertheless: a server that has taken over may lack that."""
    if approval.state is not ApprovalState.DECIDED or approval.effect in ENDED_EFFECTS:
        return None
    if is_doubted or approval.effect is EffectState.STARTED:
        return _change_fields(approval, effect=EffectState.UNKNOWN)
    given_up = {"failure": TextRef(key="error.given_up"), "failure_for_model": GIVEN_UP_MESSAGE}
    return _change_fields(approval, effect=EffectState.FAILED, **given_up)


def retry_effect(approval: Approval, click: Click) -> Approval:
    """Have the effect done again, for the decider, after *failed* or *unknown*. The pressed buttons become stale, so
    that a double press runs the effect only once."""
    _require_effect(approval, EffectState.FAILED, EffectState.UNKNOWN)
    _require(click.version == approval.version)
    return _change_fields(approval, press_id=click.id, version=approval.version + 1, effect=EffectState.NONE)


def confirm_effect(approval: Approval, click: Click) -> Approval:
    """Record after *unknown* that the effect happened, as the decider says."""
    _require_effect(approval, EffectState.UNKNOWN)
    _require(click.version == approval.version)
    return _change_fields(approval, press_id=click.id, version=approval.version + 1, effect=EffectState.DONE)


def settle_approval(approval: Approval) -> Approval:
    """Close the record of a card that has ended and whose copies say so. Nobody waits for it any more."""
    _require(has_ended(approval))
    return _change_fields(approval, waiters=())


def merge_args(approval: Approval, choice: CardChoice | None, form: Mapping[str, str]) -> dict[str, Any]:
    """Merge the card's arguments with those of the pressed button and its dialog. The check and the effect both use
    this."""
    return {**approval.proposal.args, **(choice.fixed_args if choice else {}), **form}


def edit_args(approval: Approval, click: Click) -> dict[str, Any]:
    """Merge the card's arguments with the changes from its dialog."""
    return {**approval.proposal.args, **(click.form or {})}
