"""A card whose record no version can read: the press is answered, and the card of a task is made anew."""

from __future__ import annotations

import json

import pytest
from redis.asyncio import Redis

from bot.core.work_items import find_sender
from bot.queue.lanes import RetryLater
from bot.storage.approvals import derive_task_card_id
from tests.harness.lab import DM, Lab
from tests.harness.presses import LEAVE, opened, started
from tests.stories.script import DONE
from tests.tools.company import LI
from tools.workflow.engine.state import Status

DAMAGE = [("proposal", "{"), ("proposal", "{}"), ("gate", None), ("copies", "7"), ("created_ms", "soon")]


async def damage_record(lab: Lab, card: str, field: str, value: str | None) -> None:
    key = lab.approvals.build_approval_key(card)
    await (lab.redis.hdel(key, field) if value is None else lab.redis.hset(key, field, value))  # type: ignore[misc]


@pytest.mark.parametrize(("field", "value"), DAMAGE)
async def test_the_card_of_a_task_is_made_anew_and_decides(redis: Redis, field: str, value: str | None) -> None:
    lab = await started(redis)
    old_card = lab.wall.cards("DU2")[0]
    await damage_record(lab, derive_task_card_id(lab.keys, "L-0001-1"), field, value)
    await lab.presses(old_card, "approve", LI.id)
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.WAITING
    assert [(person, "下面是一张新的卡片" in words) for person, words in lab.wall.whispers] == [(LI.id, True)]
    fresh = lab.wall.cards("DU2")[-1]
    await lab.presses(fresh, "approve", LI.id, id="on the fresh one")
    await lab.work()
    assert (await lab.engine.get_request("L-0001")).status is Status.APPROVED


async def test_another_cannot_make_it_anew(redis: Redis) -> None:
    """Negative control: it is not their task."""
    lab = await started(redis)
    old_card, shown = lab.wall.cards("DU2")[0], len(lab.wall.cards("DU2"))
    await damage_record(lab, derive_task_card_id(lab.keys, "L-0001-1"), "proposal", "{")
    await lab.presses(old_card, "approve", "U3")
    await lab.work()
    assert [person for person, _ in lab.wall.whispers] == ["U3"] and "ask for it again" in lab.wall.whispers[0][1]
    assert len(lab.wall.cards("DU2")) == shown and not lab.wall.cards("DU3")


async def test_what_somebody_confirms_for_themselves_is_asked_for_again(redis: Redis) -> None:
    lab = await opened(Lab(redis, [LEAVE, DONE]))
    card = lab.wall.cards()[0]
    await damage_record(lab, card.buttons[0].approval, "proposal", "{")
    await lab.presses(card, "confirm")
    await lab.work()
    assert "请重新发起" in lab.wall.whispers[0][1] and await lab.engine.list_own_requests("U1") == ()


async def test_a_press_on_a_card_of_a_newer_version_waits_and_its_person_is_told_once(redis: Redis) -> None:
    lab = await started(redis)
    card = derive_task_card_id(lab.keys, "L-0001-1")
    await damage_record(lab, card, "mood", "new")
    await lab.presses(lab.wall.cards("DU2")[0], "approve", LI.id)
    for _ in range(3):
        [lease] = await lab.lanes.claim("p", lab.keys.get_partition(card), 1)
        with pytest.raises(RetryLater) as kept:
            await lab.dispatch.handle_item(lease)
        assert not kept.value.counted
        await lease.retry(0, str(kept.value), count=False)
    assert [(person, "更新的版本" in words) for person, words in lab.wall.whispers] == [(LI.id, True)]


PLACE = {"team": "T", "channel": "D1", "direct": True}


@pytest.mark.parametrize(
    ("body", "person"),
    [
        ({"kind": "button_pressed", "click": {"person": "U2", "place": {**PLACE, "mood": "new"}, "odd": 1}}, "U2"),
        ({"kind": "message_of_2030", "message": {"person": "U1", "place": PLACE}}, "U1"),
        ({"kind": "message_received", "message": {"person": "", "place": PLACE}}, None),
        ({"kind": "message_received", "message": {"person": ["U1"], "place": PLACE}}, None),
        ({"click": {"person": "U1", "place": {"channel": 7}}}, None),
        ({"click": "U1"}, None),
        ([], None),
        ("click", None),
    ],
)
def test_the_sender_of_what_cannot_be_read_is_found_where_it_says_so(body: object, person: str | None) -> None:
    found = find_sender(json.dumps(body))
    assert (found.person if found else None) == person


def test_nesting_without_end_names_nobody() -> None:
    assert find_sender("[" * 100_000) is None and find_sender("{") is None


async def test_who_sent_what_no_version_reads_is_told(redis: Redis) -> None:
    lab = Lab(redis)
    body = json.dumps({"kind": "message_received", "message": {"person": "U1", "place": DM.model_dump()}})
    await lab.lanes.enqueue(DM.conversation, "E1", body)
    [lease] = await lab.lanes.claim("p", lab.keys.get_partition(DM.conversation), 1)
    assert await lab.dispatch.give_up_item(lease.item, "no") == []
    ((person, words),) = lab.wall.whispers
    assert person == "U1" and "E1" in words
