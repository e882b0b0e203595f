"""Decides who may press a button, and says why not. Pure: callers pass in everything that the decision needs.

The order of the checks is the contract. First, a card that has ended refuses everybody. Second, nobody decides on their
own request, whatever other roles they have. Only after that does it matter who the card is for."""

from __future__ import annotations

from bot.approvals.state import find_refusal
from bot.core.records import Approval, ApprovalState, EffectState
from tools.spec import Gate

RENEWAL_CHOICES = frozenset({"again"})
"""Presses on an expired card: ask again."""
RECOVERY_CHOICES = frozenset({"retry", "redo", "happened"})
"""Presses on a card whose effect failed or is unknown."""


def authorize_press(
    approval: Approval,
    person: str,
    choice: str,
    version: int,
    now_ms: int,
    standing: frozenset[str] = frozenset(),
    seal: str = "",
    *,
    is_feature: bool = False,
) -> str:
    """Return the code of the reason why this person may not press this button now; empty if they may. The sentence is
    `refused.<code>`. `standing`: the people for whom they are a deputy now. A deputy counts for decisions about
    somebody else's request, never for a confirmation. `seal`: the part that the pressed button carries; empty on a card
    of a version that sent none. `is_feature`: the button decides nothing and is for everybody whom the card
    concerns."""
    if shows_another_card(approval, version, seal):
        return "other_card"
    standing = standing if approval.gate is Gate.APPROVE else frozenset()
    if choice in RENEWAL_CHOICES:  # everybody concerned may renew the card: that decides nothing
        is_over = approval.state is ApprovalState.EXPIRED
        return _check_concern(approval, person, standing) if is_over else "already"
    if is_feature:
        return _check_concern(approval, person, standing)
    if choice in RECOVERY_CHOICES:  # a recovery button is valid for one attempt, and for the person who decided
        if approval.effect is not (EffectState.FAILED if choice == "retry" else EffectState.UNKNOWN):
            return "already"
        if version != approval.version:
            return "stale"
        return "" if person == approval.decided_by else "not_yours"
    if refusal := find_refusal(approval, version, now_ms):
        return refusal
    if choice not in {one.name for one in approval.proposal.choices}:
        return "stale"
    if approval.gate is Gate.APPROVE and person == approval.proposal.requester:
        return "own"
    if person not in approval.proposal.deciders and standing.isdisjoint(approval.proposal.deciders):
        was_deputy = approval.gate is Gate.APPROVE and person in dict(approval.copies)
        return "stood_in" if was_deputy else "not_yours"
    return ""


def shows_another_card(approval: Approval, version: int, seal: str) -> bool:
    """Whether the button belongs to another card than this version: the store was emptied or restored, and its ids now
    mean something else."""
    return bool(seal) and version == approval.version and seal != approval.shown_seal


def _check_concern(approval: Approval, person: str, standing: frozenset[str]) -> str:
    concerned = {*approval.proposal.deciders, approval.proposal.requester, approval.caller} - {None, ""}
    fits = person in concerned or not standing.isdisjoint(approval.proposal.deciders)
    return "" if fits else "not_yours"
