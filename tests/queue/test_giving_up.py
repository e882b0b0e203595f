"""Presses that were given up and are put back: judged anew, so that nothing that may have happened happens again."""

from __future__ import annotations

from redis.asyncio import Redis

from bot.core.records import EffectState
from bot.core.work_items import ButtonPressed
from bot.queue.lanes import LaneItem
from bot.queue.writes import apply_writes
from bot.storage.dead_letters import DeadLetterStore
from tests.harness.lab import Lab
from tests.stories.script import DONE, mail
from tools.spec import EffectUnknownError


async def pressed(lab: Lab, *, unknown: bool) -> ButtonPressed:
    """The press on a mail's card; with `unknown` nobody can say whether the mail was sent."""
    await lab.says("给李四发邮件")
    await lab.work()
    [card] = lab.wall.cards()
    lab.mailer.failing = EffectUnknownError("away") if unknown else None
    await lab.presses(card, "send", id="click")
    [lease] = await lab.lanes.claim("me", lab.keys.get_partition(card.buttons[0].approval), 1)
    work = ButtonPressed.model_validate_json(lease.item.body)
    if not unknown:
        await lease.commit()
        return work
    await lease.release()
    await lab.work()
    assert (await lab.approval()).effect is EffectState.UNKNOWN
    lab.mailer.failing = None
    return work


async def put_back(lab: Lab, work: ButtonPressed) -> None:
    """The press as a dead letter, and an administrator who tries it again."""
    letters, lane = DeadLetterStore(lab.redis, lab.keys), work.click.approval
    item = LaneItem(lane, work.click.id, work.model_dump_json(), 6, 1)
    await apply_writes(
        lab.redis, lab.keys, lab.keys.get_partition(lane), letters.build_bury_writes(item, "ValueError: no")
    )
    [letter] = await letters.list_dead_letters()
    assert await letters.retry_dead_letter(letter, "root")
    await lab.work()


async def test_a_press_that_had_decided_nothing_decides_now(redis: Redis) -> None:
    lab = Lab(redis, [mail(), DONE])
    await put_back(lab, await pressed(lab, unknown=False))
    assert len(lab.mailer.mails) == 1
    assert (await lab.approval()).effect is EffectState.DONE


async def test_a_press_whose_effect_is_unknown_is_not_carried_out_again(redis: Redis) -> None:
    lab = Lab(redis, [mail(), DONE])
    await put_back(lab, await pressed(lab, unknown=True))
    assert lab.mailer.mails == []
    assert (await lab.approval()).effect is EffectState.UNKNOWN
    [(person, text)] = lab.wall.whispers
    assert person == "U1" and text


async def test_the_control_with_its_own_id_nobody_would_be_told(redis: Redis) -> None:
    """Why a press is put back as another one: the one that ended is over, and silent about it."""
    lab = Lab(redis, [mail(), DONE])
    work = await pressed(lab, unknown=True)
    await lab.lanes.enqueue(work.click.approval, "another item", work.model_dump_json())
    await lab.work()
    assert lab.mailer.mails == []
    assert lab.wall.whispers == []
