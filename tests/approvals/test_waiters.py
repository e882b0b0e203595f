"""The message to a run that waits for a card, for each possible end of the card."""

from typing import Any

from bot.approvals.lifecycle import (
    CANCELLED_MESSAGE,
    CLOSED_MESSAGE,
    EXPIRED_MESSAGE,
    UNDELIVERED_MESSAGE,
    UNKNOWN_MESSAGE,
    notify_undelivered,
    notify_waiter,
)
from bot.core.records import ApprovalState, ApprovalWaiter, EffectState, OpenCard
from bot.core.run_state import CallStatus
from bot.core.work_items import NotifyPerson, ResumeRun
from bot.queue.writes import EnqueueItem, Write
from tests.approvals.approval_walk import OTHER, OWNER, build_card, make_plan
from tests.harness.corpus import corpus
from tools.effect_parts import PartState
from tools.spec import Gate, Privacy, ReceiptLine, TextRef, ToolOutcome

WAITER = ApprovalWaiter(run="R1", uid="R1:1:0", lane="slack:T:D1")
PLAN = make_plan(1).model_copy(update={"requester": OWNER, "subject": "L-0001-1"})
OPEN = build_card(PLAN, waiters=(WAITER,), created_ms=0, expires_ms=1)
LINE, MAYBE = ReceiptLine(text=TextRef(key="done")), ReceiptLine(text=TextRef(key="maybe"))
DOUBT = ReceiptLine(text=TextRef(key="effect.unknown"), privacy=Privacy.PUBLIC)
FAILURE = {"failure": TextRef(key="error.busy"), "failure_for_model": "later", "possible_change": MAYBE}
PARTS = {"parts": {"U2": PartState.DONE, "U3": PartState.REFUSED}}
TOLD_PARTS = {"parts": {"done": ["U2"], "refused": ["U3"]}}
DENIED, PUBLIC, PRIVATE = CallStatus.DENIED, Privacy.PUBLIC, Privacy.PRIVATE


def end(effect: EffectState, **more: Any) -> dict[str, Any]:
    return {"state": ApprovalState.DECIDED, "effect": effect, **more}


def bring(privacy: Privacy | None) -> dict[str, Any]:
    outcome = ToolOutcome(data={"id": "L-0001"}, summary=TextRef(key="done"), receipt_line=LINE, privacy=privacy)
    return end(EffectState.DONE, outcome=outcome)


Heard = tuple[CallStatus, dict[str, Any], ReceiptLine | None, Privacy]
ENDS: dict[str, tuple[dict[str, Any], Heard]] = {
    "done": (bring(Privacy.PUBLIC), (CallStatus.SUCCEEDED, {"id": "L-0001"}, LINE, PUBLIC)),
    "done, and its tool does not say how private": (
        bring(None),
        (CallStatus.SUCCEEDED, {"id": "L-0001"}, LINE, PRIVATE),
    ),
    "done at the second try": (
        bring(Privacy.PUBLIC) | FAILURE,
        (CallStatus.SUCCEEDED, {"id": "L-0001"}, LINE, PUBLIC),
    ),
    "failed": (
        end(EffectState.FAILED, **FAILURE),
        (CallStatus.FAILED, {"error": "busy", "message": "later"}, MAYBE, PRIVATE),
    ),
    "failed at the second try": (
        bring(Privacy.PUBLIC) | end(EffectState.FAILED, **FAILURE),
        (CallStatus.FAILED, {"error": "busy", "message": "later"}, MAYBE, PRIVATE),
    ),
    "failed without words": (
        end(EffectState.FAILED),
        (CallStatus.FAILED, {"error": "failed", "message": ""}, None, PRIVATE),
    ),
    "failed in part": (
        end(EffectState.FAILED, **FAILURE, **PARTS),
        (CallStatus.FAILED, {"error": "busy", "message": "later", **TOLD_PARTS}, MAYBE, PRIVATE),
    ),
    "unknown": (
        end(EffectState.UNKNOWN),
        (CallStatus.UNKNOWN, {"error": "unknown", "message": UNKNOWN_MESSAGE}, DOUBT, PUBLIC),
    ),
    "unknown in part": (
        end(EffectState.UNKNOWN, **PARTS),
        (CallStatus.UNKNOWN, {"error": "unknown", "message": UNKNOWN_MESSAGE, **TOLD_PARTS}, DOUBT, PRIVATE),
    ),
    "expired": (
        {"state": ApprovalState.EXPIRED},
        (CallStatus.EXPIRED, {"error": "expired", "message": EXPIRED_MESSAGE}, None, PUBLIC),
    ),
    "cancelled": (
        {"state": ApprovalState.CANCELLED},
        (DENIED, {"error": "cancelled", "message": CANCELLED_MESSAGE}, None, PUBLIC),
    ),
    "closed": ({"state": ApprovalState.CLOSED}, (DENIED, {"error": "closed", "message": CLOSED_MESSAGE}, None, PUBLIC)),
}


def build_resume(heard: Heard, *, silent: bool = False) -> Write:
    status, observation, line, privacy = heard
    resume = ResumeRun(
        run="R1",
        uid="R1:1:0",
        status=status,
        observation=observation,
        receipt_line=line,
        privacy=privacy,
        is_silent=silent,
    )
    return EnqueueItem("slack:T:D1", "resume:R1:1:0", resume.model_dump_json())


@corpus("silent", [False, True])
@corpus("name", ENDS)
def test_who_waits_hears_how_the_card_ended(name: str, silent: bool) -> None:
    changes, heard = ENDS[name]
    card = OPEN.model_copy(update=changes)
    assert notify_waiter(card, WAITER, silent=silent) == build_resume(heard, silent=silent)
    assert notify_waiter(card, WAITER) == build_resume(heard), "unless it is said otherwise, it answers"


def test_of_what_somebody_has_said_happened_that_is_what_is_heard() -> None:
    told = notify_waiter(OPEN.model_copy(update=end(EffectState.DONE)), WAITER)
    assert isinstance(told, EnqueueItem)
    heard = ResumeRun.model_validate_json(told.body)
    assert (heard.status, heard.observation["result"], heard.receipt_line) == (CallStatus.SUCCEEDED, "done", None)
    assert "says that it did" in heard.observation["message"], "and nobody hears that nothing was done"


def request_card(**changes: Any) -> OpenCard:
    card = OpenCard(approval="A", tool="t", gate=Gate.APPROVE, proposal=PLAN, caller="", place=None)
    return card.model_copy(update=changes)


def test_who_waits_for_a_card_that_reached_nobody_hears_so_at_once() -> None:
    heard = (CallStatus.FAILED, {"error": "undelivered", "message": UNDELIVERED_MESSAGE}, None, Privacy.PUBLIC)
    assert notify_undelivered(request_card(waiter=WAITER)) == [build_resume(heard)]


def test_whose_request_it_is_hears_of_the_card_that_nobody_asked_for_and_reached_nobody() -> None:
    note = TextRef(key="notice.undelivered", params={"task": "L-0001-1"})
    notice = NotifyPerson(person=OWNER, text=note).model_dump_json()
    assert notify_undelivered(request_card()) == [EnqueueItem(f"notice:{OWNER}", "undelivered:L-0001-1", notice)]
    nobodys = PLAN.model_copy(update={"requester": None, "deciders": (OTHER,)})
    assert notify_undelivered(request_card(proposal=nobodys)) == []
