"""What a paused run hears of its card: how the call ended, as data, and what changed in the world."""

from __future__ import annotations

from typing import Any

from bot.records import Approval, ApprovalState, Ask, EffectState, Notice, Resume, Waiter
from bot.store.writes import Put, Write
from bot.trace import CallStatus
from tools.spec import Effect, Note

UNKNOWN = (
    "It was begun and nobody can say whether it happened. The person is asked on the card. "
    "Do not propose it again; say honestly that it is unknown."
)
EXPIRED = "Nobody answered in time. That is not a no: nothing was decided. The card can be renewed with one press."
UNDELIVERED = "The card could not be brought to the person who decides (they may have left). Nothing was done; say so."
NOTHING = "The card was taken back or its matter ended elsewhere; nothing was done."


def resume(approval: Approval, waiter: Waiter) -> Write:
    """What a waiting run hears."""
    return _resumed(waiter, *_heard(approval))


def undelivered(ask: Ask) -> list[Write]:
    """A card could not be brought to anybody: whoever waits for it hears so at once, not when it would have expired."""
    if ask.waiter:
        observation = {"error": "undelivered", "message": UNDELIVERED}
        return [_resumed(ask.waiter, CallStatus.FAILED, observation, None)]
    if not ask.plan.requester:
        return []
    note = Note(key="notice.undelivered", params={"task": ask.plan.subject})
    notice = Notice(person=ask.plan.requester, note=note)
    return [Put(f"notice:{ask.plan.requester}", f"undelivered:{ask.plan.subject}", notice.model_dump_json())]


def _resumed(waiter: Waiter, status: CallStatus, observation: dict[str, Any], effect: Effect | None) -> Write:
    heard = Resume(run=waiter.run, uid=waiter.uid, status=status, observation=observation, effect=effect)
    return Put(waiter.lane, f"resume:{waiter.uid}", heard.model_dump_json())


def _heard(approval: Approval) -> tuple[CallStatus, dict[str, Any], Effect | None]:
    if approval.effect is EffectState.DONE and approval.outcome is not None:
        return CallStatus.SUCCEEDED, approval.outcome.data, approval.outcome.effect
    if approval.effect is EffectState.FAILED:
        code = approval.problem.key.removeprefix("error.") if approval.problem else "failed"
        return CallStatus.FAILED, {"error": code, "message": approval.why}, approval.maybe
    if approval.effect is EffectState.UNKNOWN:
        return (
            CallStatus.UNKNOWN,
            {"error": "unknown", "message": UNKNOWN},
            Effect(note=Note(key="effect.unknown")),
        )
    if approval.state is ApprovalState.EXPIRED:
        return CallStatus.EXPIRED, {"error": "expired", "message": EXPIRED}, None
    return CallStatus.DENIED, {"error": approval.state.value, "message": NOTHING}, None
