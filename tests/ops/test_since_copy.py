"""A journal kept elsewhere, and the cards' events after a copy: none is repeated, and none is invented."""

import json
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.chat.messages import Click, Message, Place
from bot.core.records import Approval, ApprovalState, ApprovalWaiter, EffectState
from bot.core.work_items import ButtonPressed, MessageReceived, SettleCard
from bot.ops.since_copy import JournalLineError, JournalSince, Settlement, read_journal, settle_since_copy
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.queue.scripts import ScriptRunner
from bot.queue.writes import apply_writes
from bot.storage.approvals import ApprovalStore
from bot.storage.runs import derive_run_id
from tests.approvals.approval_walk import OTHER, PLACE, build_card, make_plan
from tests.harness.corpus import corpus
from tools.spec import CardChoice, DialogField

KEYS = Keys()
COPIED_MS = 1_000
SEND = CardChoice(name="send", fields=(DialogField(name="opinion", label="opinion"),))
RETURN = CardChoice(name="return", fields=(DialogField(name="to", label="to"),))
PLAN = make_plan(1).model_copy(update={"choices": (SEND, RETURN)})
CARD = build_card(
    PLAN, id="A01aaaaaaaaaaaa", version=3, run="R0", waiters=(ApprovalWaiter(run="R1", uid="u1", lane="D1"),)
)
CLICK = Click(id="c1", approval=CARD.id, version=3, choice="send", person=OTHER, place=PLACE)


def line(kind: str, at_ms: int = 2_000, **more: Any) -> bytes:
    fields = {"at_ms": at_ms, "kind": kind, "run": "R0", "person": OTHER, "channel": "", "text": "t"}
    return json.dumps({**fields, "approval": CARD.id, "choice": "send", **more}).encode() + b"\n"


async def settle(redis: Redis, *lines: bytes, here: bool = False) -> tuple[Settlement, Approval]:
    """Open the card of the copy, then apply these journal lines."""
    store, partition = ApprovalStore(redis, KEYS), KEYS.get_partition(CARD.id)
    await apply_writes(redis, KEYS, partition, store.build_open_writes(CARD, 1))
    journal = JournalSince()
    read_journal(lines, COPIED_MS, journal)
    settlement = await settle_since_copy(ScriptRunner.from_redis(redis, KEYS), journal, lambda tool: here)
    found = await store.load_approval(CARD.id)
    return settlement, found


async def list_items(redis: Redis, lane: str) -> list[str]:
    found = await Lanes(redis, KEYS, lease_ms=60_000).claim("test", KEYS.get_partition(lane), 1)
    return [lease.item.body for lease in found]


@corpus(
    ("kinds", "here", "state", "effect"),
    [
        (["effect.started", "effect.done"], False, ApprovalState.DECIDED, EffectState.DONE),
        (["effect.started"], False, ApprovalState.DECIDED, EffectState.UNKNOWN),
        (["effect.started", "effect.unknown"], False, ApprovalState.DECIDED, EffectState.UNKNOWN),
        (["effect.started", "effect.failed"], False, ApprovalState.DECIDED, EffectState.FAILED),
        (["effect.started", "effect.done"], True, ApprovalState.DECIDED, EffectState.FAILED),
        (["approval.cancelled"], False, ApprovalState.CANCELLED, EffectState.NONE),
        (["approval.edited", "effect.done"], False, ApprovalState.CLOSED, EffectState.NONE),
    ],
)
async def test_the_card_ends_as_it_ended(
    redis: Redis, kinds: list[str], here: bool, state: ApprovalState, effect: EffectState
) -> None:
    settlement, card = await settle(redis, *(line(kind, 2_000 + n) for n, kind in enumerate(kinds)), here=here)
    assert (card.state, card.effect, card.decided_by) == (state, effect, OTHER)
    assert [one.approval for one in settlement.settled] == [CARD.id]
    assert await ApprovalStore(redis, KEYS).list_open_approvals() == []
    (told,) = await list_items(redis, CARD.id)
    assert not SettleCard.model_validate_json(told).is_silent, "its run goes on"


@corpus(
    "lines",
    [
        [],
        [line("effect.done", COPIED_MS - 1)],
        [line("approval.requested"), line("approval.reminded"), line("approval.edited")],
        [line("approval.expired")],
        [line("effect.done", approval="A01bbbbbbbbbbbb")],
    ],
)
async def test_without_an_end_since_the_copy_it_stays_open(redis: Redis, lines: list[bytes]) -> None:
    """Negative control."""
    settlement, card = await settle(redis, *lines)
    assert card == CARD and not settlement.settled


async def test_what_the_copy_does_not_have_is_listed(redis: Redis) -> None:
    settlement, _ = await settle(redis, line("effect.done", approval="A01bbbbbbbbbbbb"))
    assert [one.approval for one in settlement.unknown] == ["A01bbbbbbbbbbbb"]


async def test_a_lost_decision_with_a_form_that_the_journal_has_not_waits_for_another_press(redis: Redis) -> None:
    settlement, card = await settle(redis, line("effect.done", choice="return"), here=True)
    assert card == CARD and [one.choice for one in settlement.left_open] == ["return"]


async def test_a_run_that_has_ended_says_nothing_more(redis: Redis) -> None:
    ended = line("run.finished", 3_000, approval="")
    await settle(redis, line("effect.done"), ended)
    (told,) = await list_items(redis, CARD.id)
    assert SettleCard.model_validate_json(told).is_silent


async def test_messages_that_were_answered_are_dropped_and_no_others(redis: Redis) -> None:
    place = Place(team="T", channel="D1", direct=True)
    answered, waiting = (Message(id=f"Ev{n}", place=place, person=OTHER, text="请发邮件", at="1") for n in (1, 2))
    lanes = Lanes(redis, KEYS, lease_ms=60_000)
    for message in (answered, waiting):
        await lanes.enqueue(place.conversation, message.id, MessageReceived(message=message).model_dump_json())
    await lanes.enqueue(place.conversation, "c1", ButtonPressed(click=CLICK).model_dump_json())
    run = derive_run_id(KEYS, answered)
    settlement, _ = await settle(redis, line("run.finished", run=run, approval=""))
    assert settlement.dropped_messages == 1
    (first,) = await list_items(redis, place.conversation)
    assert MessageReceived.model_validate_json(first).message.id == "Ev2"


@corpus("text", [b"{", b"[]", b"{}", b'{"at_ms": "1", "kind": "step"}', b'{"at_ms": true, "kind": 1}'])
def test_what_is_no_line_of_a_journal_is_named(text: bytes) -> None:
    with pytest.raises(JournalLineError) as odd:
        read_journal([line("step"), b"\n", text], 0, JournalSince())
    assert odd.value.number == 3
