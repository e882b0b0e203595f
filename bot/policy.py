"""Who may press a button, and why not. Pure: everything it judges by is passed in.

The order of the checks is the contract: what is over is over for everybody; nobody decides on their own request,
whatever else they are; only then does it matter who the card is for.
"""

from __future__ import annotations

from bot.records import Approval, ApprovalState, EffectState
from tools.spec import Frozen, Gate

RENEWALS = frozenset({"again"})
"""Presses on a card that expired: ask again."""
RECOVERIES = frozenset({"retry", "redo", "happened"})
"""Presses on a card whose effect failed or is unknown."""


class Refusal(Frozen):
    """Why a press does nothing. The text is `refused.<code>`."""

    code: str


def may_press(approval: Approval, person: str, choice: str, version: int, now_ms: int) -> Refusal | None:
    """None if this person may press this now."""
    if choice in RENEWALS:
        return _renewal(approval, person)
    if choice in RECOVERIES:
        return _recovery(approval, person, choice, version)
    return _time(approval, choice, version, now_ms) or _authority(approval, person)


def _time(approval: Approval, choice: str, version: int, now_ms: int) -> Refusal | None:
    if approval.state is ApprovalState.EXPIRED:
        return Refusal(code="expired")
    if approval.state is not ApprovalState.OPEN:
        return Refusal(code="already")
    if version != approval.version:
        return Refusal(code="stale")
    if now_ms >= approval.expires_ms:
        return Refusal(code="expired")
    if choice not in {one.name for one in approval.plan.choices}:
        return Refusal(code="stale")
    return None


def _authority(approval: Approval, person: str) -> Refusal | None:
    if approval.gate is Gate.APPROVE and person == approval.plan.requester:
        return Refusal(code="own")
    if person not in approval.plan.deciders:
        return Refusal(code="not_yours")
    return None


def _renewal(approval: Approval, person: str) -> Refusal | None:
    """Anybody concerned may ask again; asking decides nothing."""
    if approval.state is not ApprovalState.EXPIRED:
        return Refusal(code="already")
    concerned = {*approval.plan.deciders, approval.plan.requester, approval.caller} - {None, ""}
    return None if person in concerned else Refusal(code="not_yours")


def _recovery(approval: Approval, person: str, choice: str, version: int) -> Refusal | None:
    """Only who decided says what became of an effect, or tries it again; a button counts for one try."""
    fits = EffectState.FAILED if choice == "retry" else EffectState.UNKNOWN
    if approval.effect is not fits:
        return Refusal(code="already")
    if version != approval.version:
        return Refusal(code="stale")
    return None if person == approval.by else Refusal(code="not_yours")
