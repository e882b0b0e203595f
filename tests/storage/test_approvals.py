"""What is kept of an approval: its record, its place among the open ones, its timers, and for how long."""

from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.chat.messages import Click, Message, MessageRef, Place
from bot.core.records import TAKEN_BACK_CHOICE, Approval, ApprovalState, ApprovalWaiter, EffectState, Run
from bot.core.run_state import CallRecord, CallStatus
from bot.core.work_items import ExpireCard, RemindDeciders
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.queue.writes import Write, apply_writes
from bot.storage.approvals import RECORD_KIND, RETENTION_MS, ApprovalStore, build_open_card, derive_task_card_id
from tools.effect_parts import PartState
from tools.spec import Gate, Proposal, ReceiptLine, TextRef, ToolOutcome

ID, OTHER = "A00abcdefghijkl", "A01abcdefghijkl"
"""Ids that say their partition."""
PLACE = Place(team="T1", channel="D1")
NOTE = TextRef(key="x", params={"n": 1})
PLAN = Proposal(args={"n": 1}, title=NOTE, fields=(), deciders=("U1",), choices=())
BARE = Approval(
    id=ID, version=2, tool="t", gate=Gate.CONFIRM, proposal=PLAN, seal="s", caller="U1", place=None,
    created_ms=1_000, expires_ms=4_000,
)  # fmt: skip
FULL = BARE.model_copy(update={
    "place": PLACE, "run": "R1", "waiters": (ApprovalWaiter(run="R1", uid="u", lane="D1"),),
    "copies": (("U1", MessageRef(channel="D1", ts="1.0")), ("U1", MessageRef(channel="D2", ts="2.0"))),
    "delivered_version": 2, "state": ApprovalState.DECIDED, "decided_by": "U1", "choice": "send",
    "form": {"opinion": "好"}, "removed_characters": 3, "press_id": "c", "decided_ms": 3_000,
    "effect": EffectState.FAILED, "attempts": 2, "outcome": ToolOutcome(data={"n": 1}, summary=NOTE),
    "failure": NOTE, "failure_for_model": "no", "possible_change": ReceiptLine(text=NOTE, subject="U2"),
    "parts": {"U2": PartState.DONE}, "sets": ("set:U2:abc",),
})  # fmt: skip


@pytest.fixture
def store(redis: Redis, keys: Keys) -> ApprovalStore:
    return ApprovalStore(redis, keys)


async def write(store: ApprovalStore, writes: Sequence[Write], id: str = ID) -> str:
    return await apply_writes(store.redis, store.keys, store.keys.get_partition(id), writes)


async def read_timers(store: ApprovalStore) -> dict[str, Any]:
    return dict(await store.redis.zrange(store.keys.build_key(0, "t"), 0, -1, withscores=True))


@pytest.mark.parametrize("approval", [BARE, FULL])
async def test_a_record_comes_back_as_it_was(store: ApprovalStore, keys: Keys, approval: Approval) -> None:
    assert set(FULL.model_fields_set) >= set(Approval.model_fields) - {"v"}, "nothing is left out"
    await write(store, [store.build_save_write(approval)])
    assert await store.load_approval(ID) == approval
    lanes = Lanes(store.redis, keys, record_kind=RECORD_KIND)
    await lanes.enqueue(ID, "E1", "{}")
    [lease] = await lanes.claim("me", 0, 1)
    assert store.read_from_lease(lease) == approval
    await lanes.enqueue("D1", "E2", "{}")
    [other] = await lanes.claim("me", keys.get_partition("D1"), 1)
    assert store.read_from_lease(other) is None and await store.load_approval(f"{ID[:-1]}y") is None


async def test_what_a_failed_decision_removed_is_not_said_of_the_next_one(store: ApprovalStore) -> None:
    await write(store, [store.build_save_write(FULL)])
    decided_again = FULL.model_copy(update={"version": 3, "removed_characters": 0})
    await write(store, [store.build_save_write(decided_again)])
    assert await store.load_approval(ID) == decided_again


async def test_what_is_open_is_kept_until_it_is_not(store: ApprovalStore) -> None:
    key = store.keys.build_key(0, "apr", ID)
    for state in ApprovalState:
        approval = FULL.model_copy(update={"state": state})
        for one in (store.build_save_write(approval), store.build_delivery_write(approval)):
            await store.redis.delete(key)
            await write(store, [one])
            lives_ms = await store.redis.pttl(key)
            assert lives_ms == -1 if state is ApprovalState.OPEN else RETENTION_MS - 60_000 < lives_ms <= RETENTION_MS


async def test_bringing_it_to_people_changes_no_decision(store: ApprovalStore) -> None:
    await write(store, [store.build_save_write(FULL)])
    brought = {"waiters": (), "copies": FULL.copies[:1], "delivered_version": 1}
    await write(store, [store.build_delivery_write(BARE.model_copy(update=brought))])
    assert await store.load_approval(ID) == FULL.model_copy(update=brought)


async def test_an_open_card_reminds_and_expires_instead_of_the_version_before(store: ApprovalStore, keys: Keys) -> None:
    before = BARE.model_copy(update={"version": 1, "created_ms": 0, "expires_ms": 2_000})
    await write(store, store.build_open_writes(before, 1_000))
    assert await read_timers(store) == {f"remind:{ID}:1": 1_000, f"expire:{ID}:1": 2_000}
    await write(store, store.build_open_writes(BARE, 2_500))
    assert await read_timers(store) == {f"remind:{ID}:2": 2_500, f"expire:{ID}:2": 4_000}
    lanes = Lanes(store.redis, keys)
    assert await lanes.move_due_timers() == 2
    [lease] = await lanes.claim("me", 0, 1)
    assert RemindDeciders.model_validate_json(lease.item.body) == RemindDeciders(version=2)
    following = await lease.commit()
    assert (lease.lane, ExpireCard.model_validate_json(following.body)) == (ID, ExpireCard(version=2))


async def test_what_is_closed_is_out_of_the_open_ones_and_has_no_timers(store: ApprovalStore) -> None:
    later = BARE.model_copy(update={"id": OTHER, "expires_ms": 3_000})
    await write(store, store.build_open_writes(BARE, 2_500))
    await write(store, store.build_open_writes(later, 2_500), OTHER)
    assert [one.id for one in await store.list_open_approvals()] == [OTHER, ID], "the first to expire first"
    await write(store, store.build_close_writes(BARE.model_copy(update={"state": ApprovalState.EXPIRED})))
    assert await read_timers(store) == {}
    assert [one.id for one in await store.list_open_approvals()] == [OTHER]
    assert not await store.redis.exists(store.keys.build_key(0, "open"))
    for id in (f"{OTHER[:-1]}z", OTHER):  # a record that is gone, or that is open no longer, is none of the open ones
        await store.redis.zadd(store.keys.build_key(1, "open"), {id: 1})
    await write(store, [store.build_save_write(later.model_copy(update={"state": ApprovalState.DECIDED}))], OTHER)
    assert await store.list_open_approvals() == []


async def test_a_press_is_written_whole_and_once(store: ApprovalStore) -> None:
    later = BARE.model_copy(update={"id": f"{ID[:-1]}y"})
    await write(store, [*store.build_open_writes(BARE, 2_500), *store.build_open_writes(later, 2_500)])
    for id, answer in (("c", "ok"), ("c", "ok"), ("d", "already")):
        click = Click(id=id, approval=ID, version=2, choice="send", person="U1", place=PLACE, form={"opinion": "好"})
        decide = store.build_decide_writes(click, ends=ApprovalState.DECIDED, now_ms=3_999)
        assert await write(store, decide) == answer
    decided = {"state": ApprovalState.DECIDED, "choice": "send", "decided_by": "U1", "form": {"opinion": "好"}}
    assert await store.load_approval(ID) == BARE.model_copy(update={**decided, "press_id": "c", "decided_ms": 3_999})
    assert RETENTION_MS - 60_000 < await store.redis.pttl(store.build_approval_key(ID)) <= RETENTION_MS
    assert await store.list_open_ids(0) == [later.id] and await store.count_open_approvals() == 1


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({}, "gone"),
        ({"state": "expired"}, "expired"),
        ({"state": "withdrawn"}, "already"),
        ({"state": "open", "version": "3"}, "stale"),
        ({"state": "open", "expires_ms": "999"}, "expired"),
        ({"state": "open", "expires_ms": "998"}, "expired"),
    ],
)
async def test_what_cannot_be_decided_stays_as_it_is(store: ApprovalStore, record: dict[str, str], why: str) -> None:
    stored = {"version": "2", "expires_ms": "1000", "id": ID, **record} if record else {}
    if stored:
        await store.redis.hset(store.build_approval_key(ID), mapping=stored)
    await store.redis.zadd(store.keys.build_key(0, "open"), {ID: 1})
    click = Click(id="c", approval=ID, version=2, choice="send", person="U1", place=PLACE)
    assert await write(store, store.build_decide_writes(click, ends=ApprovalState.DECIDED, now_ms=999)) == why
    assert await store.redis.hgetall(store.build_approval_key(ID)) == stored and await store.count_open_approvals() == 1


@pytest.mark.parametrize("place", [None, PLACE])
async def test_a_card_is_taken_back_once_by_who_says_so(store: ApprovalStore, place: Place | None) -> None:
    approval = BARE.model_copy(update={"place": place})
    await write(store, store.build_open_writes(approval, 2_500))
    for _ in range(2):
        assert await store.decide_cancellation(approval, "U1", TAKEN_BACK_CHOICE, 3_999) == "ok"
    taken = await store.load_approval(ID)
    assert (taken.state, taken.decided_by, taken.choice) == (ApprovalState.CANCELLED, "U1", "cancel")
    older = approval.model_copy(update={"version": 1})
    assert await store.decide_cancellation(older, "U1", TAKEN_BACK_CHOICE, 3_999) == "already"
    other = approval.model_copy(update={"id": f"{ID[:-1]}y"})
    assert await store.decide_cancellation(other, "U1", TAKEN_BACK_CHOICE, 0) == "gone"


@pytest.mark.parametrize("gate", [Gate.CONFIRM, Gate.APPROVE])
@pytest.mark.parametrize("here", [True, False])
def test_a_task_has_one_card_and_any_other_call_one_of_its_own(keys: Keys, gate: Gate, here: bool) -> None:
    message = Message(id="E1", person="U1", place=PLACE, text="x", at="1.0")
    run = Run(id="R01abcdefghijkl", message=message, language="zh", created_ms=0)
    calls = [CallRecord(uid, "t", {}, "", CallStatus.AWAITING, "") for uid in ("u1", "u2")]
    plan = PLAN.model_copy(update={"subject": "L-1-1"})
    one, other = (build_open_card(keys, run, call, plan, gate, here=here) for call in calls)
    assert (one.approval == other.approval) is (gate is Gate.APPROVE)
    if gate is Gate.APPROVE:
        assert one.approval == derive_task_card_id(keys, "L-1-1")
    else:
        assert keys.get_partition(one.approval) == keys.get_partition(run.id)
    assert (one.place == PLACE) is (here and gate is Gate.CONFIRM) and (one.place is None) is (one.place != PLACE)
    assert (one.tool, one.gate, one.proposal, one.caller) == ("t", gate, plan, "U1")
    assert one.waiter == ApprovalWaiter(run=run.id, uid="u1", lane=PLACE.conversation)
