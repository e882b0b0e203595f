"""Notifies a paused run of its card's end: the outcome of the call, as data, and the changes outside."""

from __future__ import annotations

from typing import Any

from bot.core.outcomes import list_parts
from bot.core.records import STOPPED_CHOICE, Approval, ApprovalState, ApprovalWaiter, EffectState, OpenCard
from bot.core.run_state import CallStatus
from bot.core.work_items import NotifyPerson, ResumeRun
from bot.queue.writes import EnqueueItem, Write
from tools.spec import Privacy, ReceiptLine, TextRef

UNKNOWN_MESSAGE = (
    "It was begun and nobody can say whether it happened. The person is asked on the card. "
    "Do not propose it again; say honestly that it is unknown."
)
HAPPENED_MESSAGE = (
    "It was not known whether it happened; a person has looked and says that it did. Do not propose it again."
)
EXPIRED_MESSAGE = (
    "Nobody answered in time. That is not a no: nothing was decided. The card can be renewed with one press."
)
UNDELIVERED_MESSAGE = (
    "The card could not be brought to the person who decides (they may have left). Nothing was done; say so."
)
CANCELLED_MESSAGE = (
    "The person has cancelled the card; nothing was done. Do not propose it again unless they ask for it."
)
STOPPED_MESSAGE = "The person stopped the run; nothing was done."
CLOSED_MESSAGE = "The matter of the card ended elsewhere; nothing was done here."


def notify_waiter(approval: Approval, waiter: ApprovalWaiter, *, silent: bool = False) -> Write:
    """Build the write that resumes a waiting run with the card's end. `silent`: the run ends without a message."""
    status, observation, line, privacy = _describe_card_end(approval)
    end = {"status": status, "observation": observation, "receipt_line": line, "privacy": privacy}
    return _build_resume_write(waiter, **end, is_silent=silent)


def notify_stopped(approval: Approval, run: str) -> list[Write]:
    """Build the writes that end a stopped run which waits for somebody else's decision. The card stays."""
    observation = {"error": STOPPED_CHOICE, "message": STOPPED_MESSAGE}
    end = {"status": CallStatus.DENIED, "observation": observation, "privacy": Privacy.PUBLIC, "is_silent": True}
    return [_build_resume_write(waiter, **end) for waiter in approval.waiters if waiter.run == run]


def notify_undelivered(requested_card: OpenCard) -> list[Write]:
    """Notify the waiting run, or the requester, at once that a card could not be delivered to anybody, not only when it
    would have expired."""
    if requested_card.waiter:
        observation = {"error": "undelivered", "message": UNDELIVERED_MESSAGE}
        end = {"status": CallStatus.FAILED, "observation": observation, "privacy": Privacy.PUBLIC}
        return [_build_resume_write(requested_card.waiter, **end)]
    requester, subject = requested_card.proposal.requester, requested_card.proposal.subject
    if not requester:
        return []
    notice = NotifyPerson(person=requester, text=TextRef(key="notice.undelivered", params={"task": subject}))
    return [EnqueueItem(f"notice:{requester}", f"undelivered:{subject}", notice.model_dump_json())]


def _build_resume_write(waiter: ApprovalWaiter, **end: Any) -> Write:
    resume = ResumeRun(run=waiter.run, uid=waiter.uid, **end)
    return EnqueueItem(waiter.lane, f"resume:{waiter.uid}", resume.model_dump_json())


def _describe_card_end(approval: Approval) -> tuple[CallStatus, dict[str, Any], ReceiptLine | None, Privacy]:
    """Describe the card's end: status, data, receipt line and privacy. Sentences of the code are public. The tool's
    outcome has the privacy that the tool states."""
    if approval.effect is EffectState.DONE and approval.outcome is not None:
        privacy = approval.outcome.privacy or Privacy.PRIVATE
        return CallStatus.SUCCEEDED, approval.outcome.data, approval.outcome.receipt_line, privacy
    if approval.effect is EffectState.DONE:  # somebody has said so, after nobody could know
        return CallStatus.SUCCEEDED, {"result": "done", "message": HAPPENED_MESSAGE}, None, Privacy.PUBLIC
    if approval.effect is EffectState.FAILED:
        code = approval.failure.key.removeprefix("error.") if approval.failure else "failed"
        observation = {"error": code, "message": approval.failure_for_model, **_build_parts_data(approval)}
        return CallStatus.FAILED, observation, approval.possible_change, Privacy.PRIVATE
    if approval.effect is EffectState.UNKNOWN:
        unknown = ReceiptLine(text=TextRef(key="effect.unknown"), privacy=Privacy.PUBLIC)
        parts = _build_parts_data(approval)
        observation = {"error": "unknown", "message": UNKNOWN_MESSAGE, **parts}
        return CallStatus.UNKNOWN, observation, unknown, Privacy.PRIVATE if parts else Privacy.PUBLIC
    if approval.state is ApprovalState.EXPIRED:
        return CallStatus.EXPIRED, {"error": "expired", "message": EXPIRED_MESSAGE}, None, Privacy.PUBLIC
    if approval.choice == STOPPED_CHOICE:
        return CallStatus.DENIED, {"error": STOPPED_CHOICE, "message": STOPPED_MESSAGE}, None, Privacy.PUBLIC
    message = CANCELLED_MESSAGE if approval.state is ApprovalState.CANCELLED else CLOSED_MESSAGE
    return CallStatus.DENIED, {"error": approval.state.value, "message": message}, None, Privacy.PUBLIC


def _build_parts_data(approval: Approval) -> dict[str, Any]:
    return {"parts": parts} if (parts := list_parts(approval, "")) else {}
