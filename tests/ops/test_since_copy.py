"""A journal kept elsewhere, and the cards' events after a copy: none is repeated, and none is invented."""

import json
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.app.dispatch import parse_work
from bot.chat.messages import Click, Message, Place
from bot.core.records import Approval, ApprovalState, ApprovalWaiter, EffectState
from bot.core.work_items import (
    APPROVE_SET,
    TICK,
    ButtonPressed,
    MessageReceived,
    NotifyPerson,
    RefreshCard,
    SettleCard,
    build_show_lane,
)
from bot.ops.held_presses import STALE, withdraw_presses
from bot.ops.since_copy import JournalLineError, JournalSince, Settlement, read_journal, settle_since_copy
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.queue.scripts import ScriptRunner
from bot.queue.writes import apply_writes
from bot.storage.approvals import ApprovalStore
from bot.storage.runs import derive_run_id
from tests.approvals.approval_walk import OTHER, OWNER, PLACE, build_card, make_plan
from tests.harness.corpus import corpus
from tools.spec import CardChoice, DialogField

KEYS = Keys()
COPIED_MS = 1_000
SEND = CardChoice(name="send", fields=(DialogField(name="opinion", label="opinion"),))
RETURN = CardChoice(name="return", fields=(DialogField(name="to", label="to"),))
PLAN = make_plan(choices=(SEND, RETURN))
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
    return settlement, await store.load_approval(CARD.id)


async def list_items(redis: Redis, lane: str) -> list[str]:
    found = await Lanes(redis, KEYS, lease_ms=60_000).claim("test", KEYS.get_partition(lane), 1)
    return [lease.item.body for lease in found]


@corpus(
    ("kinds", "here", "state", "effect"),
    (["effect.started", "effect.done"], False, ApprovalState.DECIDED, EffectState.DONE),
    (["effect.started"], False, ApprovalState.DECIDED, EffectState.UNKNOWN),
    (["effect.started", "effect.unknown"], False, ApprovalState.DECIDED, EffectState.UNKNOWN),
    (["effect.started", "effect.failed"], False, ApprovalState.DECIDED, EffectState.FAILED),
    (["effect.started", "effect.done"], True, ApprovalState.DECIDED, EffectState.FAILED),
    (["approval.cancelled"], False, ApprovalState.CANCELLED, EffectState.NONE),
    (["approval.edited", "effect.done"], False, ApprovalState.CLOSED, EffectState.NONE),
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
    ("lines", "left_open"),
    ([], []),
    ([line("effect.done", COPIED_MS - 1)], []),
    ([line("approval.requested"), line("approval.reminded"), line("approval.edited")], []),
    ([line("approval.expired")], []),
    ([line("effect.done", choice="return")], ["return"]),  # its form is not in the journal
)
async def test_without_an_end_since_the_copy_it_stays_open(
    redis: Redis, lines: list[bytes], left_open: list[str]
) -> None:
    """Negative control."""
    settlement, card = await settle(redis, *lines, here=bool(left_open))
    assert card == CARD and not settlement.settled
    assert [one.choice for one in settlement.left_open] == left_open


async def test_what_the_copy_does_not_have_is_listed(redis: Redis) -> None:
    settlement, card = await settle(redis, line("effect.done", approval="A01bbbbbbbbbbbb"))
    assert card == CARD and not settlement.settled
    assert [one.approval for one in settlement.unknown] == ["A01bbbbbbbbbbbb"]


async def test_messages_that_were_answered_are_dropped_and_no_others_and_a_run_that_has_ended_says_nothing_more(
    redis: Redis,
) -> None:
    place = Place(team="T", channel="D1", direct=True)
    answered, waiting = (Message(id=f"Ev{n}", place=place, person=OTHER, text="请发邮件", at="1") for n in (1, 2))
    lanes = Lanes(redis, KEYS, lease_ms=60_000)
    for message in (answered, waiting):
        await lanes.enqueue(place.conversation, message.id, MessageReceived(message=message).model_dump_json())
    await lanes.enqueue(place.conversation, "c1", ButtonPressed(click=CLICK).model_dump_json())
    ended = [line("run.finished", 3_000, run=run, approval="") for run in (derive_run_id(KEYS, answered), "R0")]
    settlement, _ = await settle(redis, line("effect.done"), *ended)
    assert settlement.dropped_messages == 1
    (first,) = await list_items(redis, place.conversation)
    assert MessageReceived.model_validate_json(first).message.id == "Ev2"
    (told,) = await list_items(redis, CARD.id)
    assert SettleCard.model_validate_json(told).is_silent


@corpus("text", b"{", b"[]", b"{}", b'{"at_ms": "1", "kind": "step"}', b'{"at_ms": true, "kind": 1}')
def test_what_is_no_line_of_a_journal_is_named(text: bytes) -> None:
    with pytest.raises(JournalLineError) as odd:
        read_journal([line("step"), b"\n", text], 0, JournalSince())
    assert odd.value.number == 3


# When it is accepted, no press waiting in it has an effect outside; every other press stays


SET = "set:U1:x"
PRESS = CLICK.model_copy(update={"person": OWNER})


async def accept(redis: Redis, *clicks: Click, card: Approval = CARD, here: bool = False) -> dict[str, list[object]]:
    """Return the waiting work by lane once the store is accepted. Every press is where it was."""
    lanes = Lanes(redis, KEYS)
    await apply_writes(redis, KEYS, KEYS.get_partition(card.id), [ApprovalStore(redis, KEYS).build_save_write(card)])
    for one in clicks:
        await lanes.enqueue(one.approval, one.id, ButtonPressed(click=one).model_dump_json())
    count = await withdraw_presses(ScriptRunner.from_redis(redis, KEYS), lambda tool: here)
    found, ids = dict[str, list[object]](), list[str]()
    for lease in [one for n in range(KEYS.partitions) for one in await lanes.claim("somebody", n, 9)]:
        waiting = found.setdefault(lease.lane, [])
        item = lease.item
        while item is not None:
            assert item.put_ms > 0
            ids.append(item.id)
            waiting.append(parse_work(item.body))
            item = await lease.commit()
    assert {one.id for one in clicks} <= set(ids)
    unchanged = sum(ButtonPressed(click=one) in found[one.approval] for one in clicks)
    assert count == len(clicks) - unchanged
    return found


async def test_a_press_on_an_open_card_becomes_a_word_to_whoever_pressed(redis: Redis) -> None:
    found = await accept(redis, PRESS, PRESS.model_copy(update={"id": "c2", "person": OTHER}))
    first, second = found[CARD.id]
    assert isinstance(first, NotifyPerson) and (first.person, first.more) == (OWNER, (PLAN.title,))
    assert isinstance(second, NotifyPerson) and (second.person, second.more) == (OTHER, ()), "it is not their card"
    assert RefreshCard(approval=CARD.id) in found[build_show_lane(CARD.id)]
    assert await ApprovalStore(redis, KEYS).load_approval(CARD.id) == CARD, "nothing is decided"


@corpus("effect", EffectState.NONE, EffectState.STARTED)
async def test_what_was_being_carried_out_is_unknown(redis: Redis, effect: EffectState) -> None:
    decided = {"state": ApprovalState.DECIDED, "choice": "send", "press_id": PRESS.id, "decided_by": OWNER}
    found = await accept(redis, PRESS, card=CARD.model_copy(update={**decided, "effect": effect}))
    assert found[CARD.id][1:] == [SettleCard()]
    kept = await ApprovalStore(redis, KEYS).load_approval(CARD.id)
    assert kept is not None and (kept.effect, kept.attempts) == (EffectState.UNKNOWN, 1)


@corpus("choice", "retry", "redo")
async def test_nothing_is_done_again_by_itself(redis: Redis, choice: str) -> None:
    failed = {"state": ApprovalState.DECIDED, "effect": EffectState.UNKNOWN, "press_id": "c0", "decided_by": OWNER}
    again = PRESS.model_copy(update={"choice": choice})
    found = await accept(redis, again, card=CARD.model_copy(update=failed))
    assert isinstance(found[CARD.id][0], NotifyPerson)


@corpus("choice", "cancel", "happened", "edit", "nonsense")
async def test_what_does_nothing_outside_stays(redis: Redis, choice: str) -> None:
    click = PRESS.model_copy(update={"choice": choice})
    assert await accept(redis, click) == {CARD.id: [ButtonPressed(click=click)]}


async def test_what_the_store_itself_keeps_is_carried_out_and_a_card_that_the_copy_lacks_is_told_so(
    redis: Redis,
) -> None:
    """Negative control: the same press on a card whose effect was lost with the store."""
    assert await accept(redis, PRESS, here=True) == {CARD.id: [ButtonPressed(click=PRESS)]}
    assert (await ApprovalStore(redis, KEYS).load_approval(CARD.id)) == CARD
    await redis.flushall()
    click = PRESS.model_copy(update={"approval": "A01bbbbbbbbbbbb"})
    assert await accept(redis, click) == {click.approval: [ButtonPressed(click=click)]}


async def test_presses_of_sets_are_stale(redis: Redis) -> None:
    """This holds if another engine decides; a tick decides nothing."""
    press, tick = (
        PRESS.model_copy(update={"id": name, "approval": SET, "choice": name}) for name in (APPROVE_SET, TICK)
    )
    card = PRESS.model_copy(update={"in_set": SET})
    found = await accept(redis, press, tick, card)
    stale = [ButtonPressed(click=one.model_copy(update={"version": STALE})) for one in (press, card)]
    assert found[SET] == [stale[0], ButtonPressed(click=tick)] and found[CARD.id] == [stale[1]]
    assert await accept(redis, press.model_copy(update={"id": "z"}), here=True)
