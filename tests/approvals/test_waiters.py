"""The message to a run that waits for a card, for each possible end of the card, and the words about the parts of its
effect."""

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
from bot.approvals.render import describe_effect_parts, list_parts
from bot.approvals.state import is_resumable
from bot.core.records import ApprovalState, ApprovalWaiter, EffectState, OpenCard
from bot.core.run_state import CallStatus
from bot.core.work_items import NotifyPerson, ResumeRun
from bot.queue.writes import EnqueueItem, Write
from tests.approvals.approval_walk import OTHER, OWNER, build_card, make_plan
from tests.harness.corpus import corpus
from tools.effect_parts import PartState
from tools.spec import CardField, Gate, Identities, Identity, Privacy, ReceiptLine, TextRef, ToolOutcome

WAITER = ApprovalWaiter(run="R1", uid="R1:1:0", lane="slack:T:D1")
PLAN = make_plan(requester=OWNER, subject="L-0001-1")
OPEN = build_card(PLAN, waiters=(WAITER,), created_ms=0, expires_ms=1)
LINE, MAYBE = ReceiptLine(text=TextRef(key="done")), ReceiptLine(text=TextRef(key="maybe"))
DOUBT = ReceiptLine(text=TextRef(key="effect.unknown"), privacy=Privacy.PUBLIC)
FAILURE = {"failure": TextRef(key="error.busy"), "failure_for_model": "later", "possible_change": MAYBE}
PARTS = {"parts": {"U2": PartState.DONE, "U3": PartState.REFUSED}}
TOLD_PARTS = {"parts": {"done": ["U2"], "refused": ["U3"]}}
SUCCEEDED, FAILED, DENIED = CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.DENIED
PUBLIC, PRIVATE = Privacy.PUBLIC, Privacy.PRIVATE


def end(effect: EffectState, **more: Any) -> dict[str, Any]:
    return {"state": ApprovalState.DECIDED, "effect": effect, **more}


def bring(privacy: Privacy | None) -> dict[str, Any]:
    outcome = ToolOutcome(data={"id": "L-0001"}, summary=TextRef(key="done"), receipt_line=LINE, privacy=privacy)
    return end(EffectState.DONE, outcome=outcome)


def tell(error: str, message: str, parts: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"error": error, "message": message, **(parts or {})}


RESULT, BUSY, UNSURE = {"id": "L-0001"}, ("busy", "later"), ("unknown", UNKNOWN_MESSAGE)
BROKEN = end(EffectState.FAILED, **FAILURE)
Heard = tuple[CallStatus, dict[str, Any], ReceiptLine | None, Privacy]
ENDS: dict[str, tuple[dict[str, Any], Heard]] = {
    "done": (bring(PUBLIC), (SUCCEEDED, RESULT, LINE, PUBLIC)),
    "done, and its tool does not say how private": (bring(None), (SUCCEEDED, RESULT, LINE, PRIVATE)),
    "done at the second try": (bring(PUBLIC) | FAILURE, (SUCCEEDED, RESULT, LINE, PUBLIC)),
    "failed": (BROKEN, (FAILED, tell(*BUSY), MAYBE, PRIVATE)),
    "failed at the second try": (bring(PUBLIC) | BROKEN, (FAILED, tell(*BUSY), MAYBE, PRIVATE)),
    "failed without words": (end(EffectState.FAILED), (FAILED, tell("failed", ""), None, PRIVATE)),
    "failed in part": (BROKEN | PARTS, (FAILED, tell(*BUSY, TOLD_PARTS), MAYBE, PRIVATE)),
    "unknown": (end(EffectState.UNKNOWN), (CallStatus.UNKNOWN, tell(*UNSURE), DOUBT, PUBLIC)),
    "unknown in part": (
        end(EffectState.UNKNOWN, **PARTS),
        (CallStatus.UNKNOWN, tell(*UNSURE, TOLD_PARTS), DOUBT, PRIVATE),
    ),
    "expired": (
        {"state": ApprovalState.EXPIRED},
        (CallStatus.EXPIRED, tell("expired", EXPIRED_MESSAGE), None, PUBLIC),
    ),
    "cancelled": ({"state": ApprovalState.CANCELLED}, (DENIED, tell("cancelled", CANCELLED_MESSAGE), None, PUBLIC)),
    "closed": ({"state": ApprovalState.CLOSED}, (DENIED, tell("closed", CLOSED_MESSAGE), None, PUBLIC)),
}


def build_resume(heard: Heard, *, silent: bool = False) -> Write:
    named = dict(zip(("status", "observation", "receipt_line", "privacy"), heard, strict=True))
    resume = ResumeRun(run="R1", uid="R1:1:0", is_silent=silent, **named)
    return EnqueueItem("slack:T:D1", "resume:R1:1:0", resume.model_dump_json())


@corpus("silent", False, True)
@corpus("name", *ENDS)
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
    heard = (FAILED, tell("undelivered", UNDELIVERED_MESSAGE), None, PUBLIC)
    assert notify_undelivered(request_card(waiter=WAITER)) == [build_resume(heard)]


def test_whose_request_it_is_hears_of_the_card_that_nobody_asked_for_and_reached_nobody() -> None:
    note = TextRef(key="notice.undelivered", params={"task": "L-0001-1"})
    notice = NotifyPerson(person=OWNER, text=note).model_dump_json()
    assert notify_undelivered(request_card()) == [EnqueueItem(f"notice:{OWNER}", "undelivered:L-0001-1", notice)]
    nobodys = PLAN.model_copy(update={"requester": None, "deciders": (OTHER,)})
    assert notify_undelivered(request_card(proposal=nobodys)) == []


# Parts of an effect


BEGUN, DONE, UNDONE, REFUSED = PartState.BEGUN, PartState.DONE, PartState.OPEN, PartState.REFUSED
PEOPLE = Identities(people=(Identity(id="U2", name="李四"), Identity(id="U3", name="王五")))
MAIL = PLAN.model_copy(update={"fields": (CardField(label="subject", value="x"), CardField(label="to", value=PEOPLE))})


@corpus(
    ("parts", "resumable"),
    ({}, False),
    ({"U2": DONE}, True),
    ({"U2": UNDONE, "U3": REFUSED}, True),
    ({"U2": DONE, "U3": BEGUN}, False),
    ({"U2": BEGUN}, False),
)
def test_the_rest_can_be_done_when_each_part_is_done_or_not(parts: dict[str, PartState], resumable: bool) -> None:
    assert is_resumable(build_card(MAIL, parts=parts)) is resumable


@corpus(
    ("parts", "told"),
    ({}, {}),
    ({"U2": DONE, "U3": DONE}, {}),
    ({"U2": REFUSED, "U3": DONE, "U9": UNDONE}, {DONE: ["王五"], REFUSED: ["李四"], UNDONE: ["U9"]}),
    ({"U3": BEGUN, "U2": BEGUN}, {BEGUN: ["王五", "李四"]}),
)
def test_who_has_it_is_told_by_names(parts: dict[str, PartState], told: dict[PartState, list[str]]) -> None:
    card = build_card(MAIL, parts=parts)
    assert list_parts(card, "zh") == told and list(list_parts(card, "zh")) == list(told), "in this order"
    said = describe_effect_parts(card, "zh")
    assert bool(said) is bool(told) and all(name in said for names in told.values() for name in names)


def test_on_one_line_each_state_has_its_words() -> None:
    said, *others = (
        describe_effect_parts(build_card(MAIL, parts=parts), "en")
        for parts in ({"U2": DONE, "U3": BEGUN}, {"U2": DONE, "U9": UNDONE}, {"U3": BEGUN, "U9": UNDONE})
    )
    assert "李四" in said and "王五" in said and len({said, *others}) == 3
