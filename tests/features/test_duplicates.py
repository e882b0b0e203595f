"""Calls that equal a waiting or just ended one: each condition with the call that needs it."""

from typing import Any

from redis.asyncio import Redis

from bot.chat.messages import Message, MessageRef
from bot.core.history_entries import PausedRun
from bot.core.records import Approval, ApprovalState, OpenCard, Run, RunStatus
from bot.core.run_state import CallRecord, CallStatus, RunState
from bot.features.duplicates import reject_duplicate
from bot.queue.keys import Keys
from bot.queue.writes import apply_writes
from bot.storage.approvals import ApprovalStore
from bot.storage.runs import RunStore
from tests.approvals.approval_walk import build_card, make_plan
from tests.harness.corpus import corpus
from tests.harness.memory_platform import DM
from tools.spec import Gate, Proposal, ToolError

THERE = DM.model_copy(update={"channel": "C1", "direct": False})
CARD = OpenCard(approval="A00x", tool="t", gate=Gate.CONFIRM, proposal=make_plan(1), caller="U1", place=DM)
WAITS = PausedRun(run="R1", approval="A00x", tool="t")
HERE, IN_DM = "above in this conversation", "in their direct messages with you"


def make_run(id: str = "R2", person: str = "U1", place: Any = DM, **changes: Any) -> Run:
    message = Message(id=f"Ev{id}", place=place, person=person, text="x", at="1.0")
    return Run(id=id, message=message, language="zh", created_ms=0).model_copy(update=changes)


def make_call(status: CallStatus, tool: str = "t", **args: Any) -> CallRecord:
    return CallRecord(uid="u", tool=tool, args={"n": 1} | args, reason="", status=status, model_id="")


def make_approval(**changes: Any) -> Approval:
    copies = (("U1", MessageRef(channel=DM.channel, ts="1")),)
    card = build_card(make_plan(1), id="A00x", place=DM, copies=copies, created_ms=0, expires_ms=1)
    return card.model_copy(update=changes)


async def judge(
    redis: Redis,
    *,
    other: Run | None,
    approval: Approval | None,
    run: Run | None = None,
    tool: str = "t",
    proposal: Proposal | None = None,
) -> tuple[str, str]:
    """Return the code and the words of the refusal; empty if none. `other`, `approval`: the waiting run and card."""
    keys = Keys(partitions=1)
    runs, approvals = RunStore(redis, keys), ApprovalStore(redis, keys)
    writes = [
        *(runs.build_save_writes(other) if other else ()),
        *(approvals.build_open_writes(approval, approval.expires_ms - 1) if approval else ()),
    ]
    if writes:
        await apply_writes(redis, keys, 0, writes)
    try:
        await reject_duplicate(runs, approvals, [WAITS], run or make_run(), tool, proposal or make_plan(1))
    except ToolError as error:
        return error.code, error.text
    return "", ""


def make_other(**changes: Any) -> Run:
    return make_run("R1", status=RunStatus.PAUSED, requested_card=CARD).model_copy(update=changes)


EDITED = make_approval(proposal=make_plan(2))
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "other arguments": ({"proposal": make_plan(2)}, ""),
    "another tool": ({"tool": "u"}, ""),
    "somebody else's": ({"run": make_run(person="U2")}, ""),
    "of the very run": ({"run": make_run("R1")}, ""),
    "forgotten": ({"other": None}, ""),
    "that needs no card any more": ({"other": make_other(requested_card=None)}, ""),
    "to approve": ({"other": make_other(requested_card=CARD.model_copy(update={"gate": Gate.APPROVE}))}, ""),
    "that has ended": ({"approval": make_approval(state=ApprovalState.CANCELLED)}, ""),
    "whose card is on the way": ({"approval": None}, "card_waits"),
    "other than that whose card is on the way": ({"approval": None, "proposal": make_plan(2)}, ""),
    "as an edited card said": ({"approval": EDITED}, "card_edited"),
    "as an edited card says": ({"approval": EDITED, "proposal": make_plan(2)}, "card_waits"),
    "as an edited card never said": ({"approval": EDITED, "proposal": make_plan(3)}, ""),
}


@corpus("name", *CASES)
async def test_what_waits_or_was_edited_is_not_proposed_again_and_anything_else_gets_its_card(
    redis: Redis, name: str
) -> None:
    changes, expected = CASES[name]
    code, text = await judge(redis, **{"other": make_other(), "approval": make_approval(), **changes})
    assert code == expected and (HERE in text) == bool(code) and ("edited" in text) == (code == "card_edited")


@corpus(
    ("place", "copies", "where"),
    (DM, (("U1", "DU1"),), HERE), (THERE, (("U1", "DU1"),), IN_DM), (THERE, (("U1", "C1"),), HERE),
    (DM, (("U1", "C1"),), IN_DM), (THERE, (("U2", "C1"),), IN_DM), (DM, (("U2", "C1"),), HERE), (THERE, (), IN_DM),
    (DM, (), HERE),
)  # fmt: skip
async def test_a_call_that_waits_is_not_proposed_again_and_it_is_said_where_its_card_stands(
    redis: Redis, place: Any, copies: tuple[tuple[str, str], ...], where: str
) -> None:
    """A card without a copy yet comes to the DM."""
    card = make_approval(copies=tuple((reader, MessageRef(channel=channel, ts="1")) for reader, channel in copies))
    code, text = await judge(redis, other=make_other(), approval=card, run=make_run(place=place))
    assert code == "card_waits" and "A00x" in text and where in text and "edited" not in text


@corpus(
    ("calls", "code"),
    ([], ""),
    ([make_call(CallStatus.SUCCEEDED)], "done_just_now"),
    ([make_call(CallStatus.DENIED)], "denied_just_now"),
    ([make_call(CallStatus.SUCCEEDED, seen=["L-0001"])], "done_just_now"),
    ([make_call(CallStatus.FAILED)], ""),
    ([make_call(CallStatus.EXPIRED)], ""),
    ([make_call(CallStatus.SUCCEEDED, n=2)], ""),
    ([make_call(CallStatus.SUCCEEDED, tool="u")], ""),
    ([make_call(CallStatus.SUCCEEDED), make_call(CallStatus.SUCCEEDED, tool="u")], "done_just_now"),
    ([make_call(CallStatus.SUCCEEDED), make_call(CallStatus.SUCCEEDED, n=2)], ""),
    ([make_call(CallStatus.SUCCEEDED), make_call(CallStatus.FAILED)], ""),
)
async def test_the_last_call_is_not_repeated_if_done(redis: Redis, calls: list[CallRecord], code: str) -> None:
    run = make_run(state=RunState(calls=calls))
    assert (await judge(redis, other=None, approval=None, run=run))[0] == code
