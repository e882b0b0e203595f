"""Given-up presses that are put back: judged again, so that nothing that may have happened is repeated."""

from redis.asyncio import Redis

from bot.core.records import EffectState
from bot.core.work_items import ButtonPressed
from bot.ops.dead_letters import retry_dead_letter
from bot.queue.lanes import LaneItem
from bot.queue.writes import apply_writes
from bot.storage.dead_letters import DeadLetterStore
from tests.harness.memory_bot import Bot
from tests.stories.script import DONE, mail
from tools.spec import EffectUnknownError


async def pressed(bot: Bot, *, unknown: bool) -> ButtonPressed:
    """Return the press on a mail's card. With `unknown`, nobody can say whether the mail was sent."""
    await bot.send("给李四发邮件")
    [card] = bot.chat.cards()
    bot.mailer.failing = EffectUnknownError("away") if unknown else None
    await bot.put_press(card, "send", id="click")
    [lease] = await bot.lanes.claim("me", bot.keys.get_partition(card.buttons[0].approval), 1)
    work = ButtonPressed.model_validate_json(lease.item.body)
    if not unknown:
        await lease.commit()
        return work
    await lease.release()
    await bot.work()
    assert (await bot.load_approval()).effect is EffectState.UNKNOWN
    bot.mailer.failing = None
    return work


async def put_back(bot: Bot, work: ButtonPressed) -> None:
    """Make the press a dead letter, and let an administrator retry it."""
    letters, lane = DeadLetterStore(bot.redis, bot.keys), work.click.approval
    item = LaneItem(lane, work.click.id, work.model_dump_json(), 6, 1)
    await apply_writes(
        bot.redis, bot.keys, bot.keys.get_partition(lane), letters.build_bury_writes(item, "ValueError: no")
    )
    [letter] = await letters.list_dead_letters()
    assert await retry_dead_letter(letters, letter, "root")
    await bot.work()


async def test_a_press_that_had_decided_nothing_decides_now(redis: Redis) -> None:
    bot = Bot(redis, [mail(), DONE])
    await put_back(bot, await pressed(bot, unknown=False))
    assert len(bot.mailer.mails) == 1
    assert (await bot.load_approval()).effect is EffectState.DONE


async def test_a_press_whose_effect_is_unknown_is_not_carried_out_again(redis: Redis) -> None:
    bot = Bot(redis, [mail(), DONE])
    await put_back(bot, await pressed(bot, unknown=True))
    assert bot.mailer.mails == []
    assert (await bot.load_approval()).effect is EffectState.UNKNOWN
    [(person, text)] = bot.chat.ephemerals
    assert person == "U1" and text


async def test_the_control_with_its_own_id_nobody_would_be_told(redis: Redis) -> None:
    """Shows why a press gets a new id when it is put back: the ended press would stay silent."""
    bot = Bot(redis, [mail(), DONE])
    work = await pressed(bot, unknown=True)
    await bot.handle_work(work.click.approval, "another item", work)
    assert bot.mailer.mails == []
    assert bot.chat.ephemerals == []
