"""When a restored store is accepted, no press waiting in it has an effect outside; every other press stays."""

import pytest
from redis.asyncio import Redis

from bot.app.dispatch import parse_work
from bot.chat.messages import Click
from bot.core.records import Approval, ApprovalState, EffectState
from bot.core.work_items import APPROVE_SET, TICK, ButtonPressed, NotifyPerson, RefreshCard, SettleCard, build_show_lane
from bot.ops.held_presses import STALE, withdraw_presses
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.queue.scripts import ScriptRunner
from bot.queue.writes import apply_writes
from bot.storage.approvals import ApprovalStore
from tests.approvals.approval_walk import OTHER, OWNER, PLACE, build_card, make_plan
from tests.harness.corpus import corpus

KEYS = Keys()
PLAN = make_plan(1)
CARD = build_card(PLAN, id="A01aaaaaaaaaaaa", version=3, run="R0")
CLICK = Click(id="c1", approval=CARD.id, version=3, choice="send", person=OWNER, place=PLACE)
SET = "set:U1:x"


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
    other = CLICK.model_copy(update={"id": "c2", "person": OTHER})
    found = await accept(redis, CLICK, other)
    first, second = found[CARD.id]
    assert isinstance(first, NotifyPerson) and (first.person, first.more) == (OWNER, (PLAN.title,))
    assert isinstance(second, NotifyPerson) and (second.person, second.more) == (OTHER, ()), "it is not their card"
    assert RefreshCard(approval=CARD.id) in found[build_show_lane(CARD.id)]
    kept = await ApprovalStore(redis, KEYS).load_approval(CARD.id)
    assert kept == CARD, "nothing is decided"


@pytest.mark.parametrize("effect", [EffectState.NONE, EffectState.STARTED])
async def test_what_was_being_carried_out_is_unknown(redis: Redis, effect: EffectState) -> None:
    decided = {"state": ApprovalState.DECIDED, "choice": "send", "press_id": CLICK.id, "decided_by": OWNER}
    found = await accept(redis, CLICK, card=CARD.model_copy(update={**decided, "effect": effect}))
    assert found[CARD.id][1:] == [SettleCard()]
    kept = await ApprovalStore(redis, KEYS).load_approval(CARD.id)
    assert kept is not None and (kept.effect, kept.attempts) == (EffectState.UNKNOWN, 1)


@pytest.mark.parametrize("choice", ["retry", "redo"])
async def test_nothing_is_done_again_by_itself(redis: Redis, choice: str) -> None:
    failed = {"state": ApprovalState.DECIDED, "effect": EffectState.UNKNOWN, "press_id": "c0", "decided_by": OWNER}
    again = CLICK.model_copy(update={"choice": choice})
    found = await accept(redis, again, card=CARD.model_copy(update=failed))
    assert isinstance(found[CARD.id][0], NotifyPerson)


@corpus("choice", ["cancel", "happened", "edit", "nonsense"])
async def test_what_does_nothing_outside_stays(redis: Redis, choice: str) -> None:
    click = CLICK.model_copy(update={"choice": choice})
    assert await accept(redis, click) == {CARD.id: [ButtonPressed(click=click)]}


async def test_what_the_store_itself_keeps_is_carried_out(redis: Redis) -> None:
    """Negative control: the same press on a card whose effect was lost with the store."""
    assert await accept(redis, CLICK, here=True) == {CARD.id: [ButtonPressed(click=CLICK)]}
    assert (await ApprovalStore(redis, KEYS).load_approval(CARD.id)) == CARD


async def test_a_press_on_a_card_that_the_copy_does_not_have_stays_and_is_told_so(redis: Redis) -> None:
    click = CLICK.model_copy(update={"approval": "A01bbbbbbbbbbbb"})
    assert await accept(redis, click) == {click.approval: [ButtonPressed(click=click)]}


async def test_presses_of_sets_are_stale(redis: Redis) -> None:
    """This holds if another engine decides; a tick decides nothing."""
    press, tick = (
        CLICK.model_copy(update={"id": name, "approval": SET, "choice": name}) for name in (APPROVE_SET, TICK)
    )
    card = CLICK.model_copy(update={"in_set": SET})
    found = await accept(redis, press, tick, card)
    stale = [ButtonPressed(click=one.model_copy(update={"version": STALE})) for one in (press, card)]
    assert found[SET] == [stale[0], ButtonPressed(click=tick)] and found[CARD.id] == [stale[1]]
    assert await accept(redis, press.model_copy(update={"id": "z"}), here=True)
