"""A press that does nothing is told and noted, and puts the copy right on which it was made when that is wrong."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.approvals.refusals import SETTLED_MS
from bot.chat.messages import Click, MessageRef, Post
from bot.core.errors import ChatUnavailableError
from bot.core.records import Approval, ApprovalState
from bot.core.work_items import ButtonPressed
from bot.queue.writes import apply_writes
from tests.harness.lab import DM, Lab
from tests.harness.presses import opened
from tests.stories.script import DONE, mail

OLD = Post("an old card")
DOWN = ChatUnavailableError("unreachable", "chat.update")


async def propose(redis: Redis) -> tuple[Lab, Approval, MessageRef]:
    """A card whose only copy says something else than it should."""
    lab = await opened(Lab(redis, [mail(), DONE]))
    approval = await lab.approval()
    [(_, copy)] = approval.copies
    lab.wall.said[int(copy.ts)].post = OLD
    return lab, approval, copy


async def store(lab: Lab, approval: Approval) -> None:
    writes = [lab.approvals.build_save_write(approval)]
    await apply_writes(lab.redis, lab.keys, lab.keys.get_partition(approval.id), writes)


async def press(lab: Lab, approval: Approval, at: MessageRef, **changes: Any) -> None:
    click = Click(id="p", approval=approval.id, version=1, choice="send", person="U1", place=DM, card=at)
    click = click.model_copy(update=changes)
    await lab.lanes.enqueue(click.approval, click.id, ButtonPressed(click=click).model_dump_json())
    await lab.work()


async def test_it_is_told_privately_and_on_record(redis: Redis) -> None:
    lab, approval, copy = await propose(redis)
    await press(lab, approval, copy, person="U3")
    [(person, words)] = lab.wall.whispers
    [record] = [one async for one in lab.journal.stream_records(kinds={"approval.refused"})]
    assert person == "U3" and "Zhang San" in words
    assert (record.person, record.channel, record.text) == ("U3", DM.channel, "not_yours")
    assert record.more == {"approval": approval.id, "choice": "send"}


LATE = timedelta(milliseconds=SETTLED_MS + 1)


@pytest.mark.parametrize(
    ("changes", "click", "ahead", "corrected"),
    [
        ({}, {"version": 0}, LATE, True),
        ({}, {"version": 0}, timedelta(milliseconds=SETTLED_MS), False),
        ({}, {"version": 0}, timedelta(), False),
        ({}, {"person": "U3"}, LATE, False),
        ({"state": ApprovalState.CANCELLED}, {}, LATE, True),
        ({"state": ApprovalState.CANCELLED}, {}, timedelta(), False),
        ({"state": ApprovalState.CANCELLED}, {"card": None}, LATE, False),
    ],
)
async def test_a_copy_that_was_wrong_for_a_while_is_put_right_and_one_that_is_on_its_way_is_not(
    redis: Redis, changes: dict[str, Any], click: dict[str, Any], ahead: timedelta, corrected: bool
) -> None:
    lab, approval, copy = await propose(redis)
    await store(lab, approval.model_copy(update=changes))
    lab.ahead = ahead
    await press(lab, approval, copy, **click)
    assert len(lab.wall.whispers) == 1
    assert (lab.wall.said[int(copy.ts)].post != OLD) is corrected


async def test_what_was_decided_a_moment_ago_is_on_its_way_though_the_card_is_old(redis: Redis) -> None:
    lab, approval, copy = await propose(redis)
    over = {"state": ApprovalState.CANCELLED, "decided_ms": approval.created_ms + 2 * SETTLED_MS}
    await store(lab, approval.model_copy(update=over))
    lab.ahead = 2 * timedelta(milliseconds=SETTLED_MS)
    await press(lab, approval, copy)
    assert lab.wall.said[int(copy.ts)].post == OLD
    lab.ahead *= 2
    await press(lab, approval, copy, id="later")
    assert lab.wall.said[int(copy.ts)].post != OLD, "control: not for ever"


async def test_a_copy_that_cannot_be_put_right_now_is_put_right_later(redis: Redis) -> None:
    lab, approval, copy = await propose(redis)
    lab.wall.fails[f"edit {DM.channel}"] = [DOWN]
    lab.ahead = LATE
    await press(lab, approval, copy, version=0)
    assert lab.wall.said[int(copy.ts)].post != OLD and not lab.wall.fails[f"edit {DM.channel}"]


async def test_a_copy_that_nobody_knew_of_is_known_from_then_on(redis: Redis) -> None:
    lab, approval, copy = await propose(redis)
    await store(lab, approval.model_copy(update={"copies": ()}))
    await press(lab, approval, copy, version=0)
    assert (await lab.approval()).copies == approval.copies and lab.wall.said[int(copy.ts)].post != OLD


async def test_a_press_on_what_nobody_knows_puts_nothing_right(redis: Redis) -> None:
    lab, _, copy = await propose(redis)
    lab.ahead = LATE
    unknown = (await lab.approval()).model_copy(update={"id": "A00x"})
    await press(lab, unknown, copy)
    assert len(lab.wall.whispers) == 1 and lab.wall.said[int(copy.ts)].post == OLD
    assert "item.dead" not in await lab.kinds()
