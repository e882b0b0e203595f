"""Deputies: the card goes to the person who is there, and a press is judged when it is made."""

from datetime import timedelta

import pytest
from redis.asyncio import Redis

from bot.core.records import EffectState
from tests.harness.memory_bot import TODAY, Bot
from tests.harness.presses import requested
from tests.tools.office import LONG, SICK
from tools.workflow.engine.state import Delegation, Status

DAY = timedelta(days=1)


async def delegate(bot: Bot, person: str, deputy: str, start: timedelta = -DAY, end: timedelta = DAY) -> None:
    """Let a person be away."""
    away = Delegation(id=f"D{person}", person=person, deputy=deputy, start=TODAY + start, end=TODAY + end)
    await bot.engine.add_delegation(away, bot.today())


async def asked(redis: Redis) -> Bot:
    """Let Li Si be away, and start a request of Zhang San's that waits for them."""
    bot = Bot(redis)
    await delegate(bot, "U2", "U5", end=3 * DAY)
    await bot.start_request("leave", SICK, "U1", "start")
    return bot


async def test_the_card_comes_to_who_stands_in_and_what_they_decide_is_told_as_for_the_other(redis: Redis) -> None:
    bot = await asked(redis)
    [card], [copy] = bot.chat.cards("DU2"), bot.chat.cards("DU5")
    assert [one.choice for one in copy.buttons] == [one.choice for one in card.buttons]
    assert "is away" in copy.footer[0] and "Li Si" in copy.footer[0]
    assert "不在" not in "".join(map(str, card.footer))
    await bot.press(copy, "approve", person="U5")
    assert (await bot.engine.get_request("L-0001")).status is Status.APPROVED
    assert not bot.chat.cards("DU2") and not bot.chat.cards("DU5")
    titles = {one.post.card.title for one in bot.chat.posts if one.post.card and one.place.channel == "DU2"}
    assert "李文光（代李四）已同意" in "".join(titles) and "李文光（代李四）同意" in bot.chat.texts("DU1")[-1]
    noted = [one async for one in bot.journal.stream_records(kinds=["effect.done"])]
    assert [(one.person, one.more["raised_to"]) for one in noted] == [("U5", "U2")], "raised to A, decided by B"


async def test_after_the_time_away_a_copy_is_refused_with_words(redis: Redis) -> None:
    bot = await asked(redis)
    copy = bot.chat.cards("DU5")[0]
    bot.today_offset = 4 * DAY
    await bot.press(copy, "approve", person="U5")
    assert "You no longer stand in here" in bot.chat.ephemerals[-1][1] and "Li Si" in bot.chat.ephemerals[-1][1]
    assert (await bot.engine.get_request("L-0001")).status is Status.WAITING
    await bot.press(bot.chat.cards("DU2")[0], "approve", person="U2", id="own")
    assert (await bot.engine.get_request("L-0001")).status is Status.APPROVED, "the control"


async def test_a_deputy_never_decides_their_own_request(redis: Redis) -> None:
    bot = await requested(redis)
    await delegate(bot, "U2", "U1")
    await bot.engine.run_due_jobs(bot.today())
    await bot.work()
    assert not bot.chat.cards("DU1"), "no card for the author, whoever they stand in for"
    await bot.press(bot.chat.cards("DU2")[0], "approve", person="U1")
    assert "您自己的申请" in bot.chat.ephemerals[-1][1]
    assert (await bot.engine.get_request("L-0001")).status is Status.WAITING


async def test_what_waits_when_the_time_away_begins_gets_a_copy_and_the_assignee_no_second_one(redis: Redis) -> None:
    bot = await requested(redis)
    await delegate(bot, "U2", "U5", start=DAY, end=3 * DAY)
    assert not bot.chat.cards("DU5")
    bot.today_offset = 2 * DAY
    await bot.engine.run_due_jobs(bot.today())
    await bot.work()
    assert len(bot.chat.cards("DU5")) == len(bot.chat.cards("DU2")) == 1
    cards = [one for one in bot.chat.posts if one.place.channel == "DU2" and one.post.card]
    assert len(cards) == 1, "one notification a task"
    assert (await bot.load_approval()).version == 1


async def test_what_the_author_confirms_is_not_confirmed_for_them(redis: Redis) -> None:
    """A revision belongs to the author, also while a deputy stands in."""
    bot = await requested(redis)
    await bot.put_press(bot.chat.cards("DU2")[0], "reject", person="U2", form={"opinion": "no"})
    await delegate(bot, "U1", "U5")
    await bot.work()
    assert not bot.chat.cards("DU5")
    await bot.press(bot.chat.cards("DU1")[0], "withdraw", person="U5")
    assert (await bot.engine.get_request("L-0001")).status is Status.REVISE and bot.chat.ephemerals[-1][0] == "U5"


@pytest.mark.parametrize("person", ["U2", "U5"])
async def test_two_press_one_decides_and_the_other_is_told(redis: Redis, person: str) -> None:
    bot = await asked(redis)
    other = {"U2": "U5", "U5": "U2"}[person]
    for one in (person, other):
        await bot.put_press(bot.chat.cards("DU2")[0], "approve", person=one, id=one)
    await bot.work()
    assert [one for one, _ in bot.chat.ephemerals] == [other]
    assert (await bot.load_approval()).decided_by == person and (await bot.load_approval()).effect is EffectState.DONE
    assert len((await bot.engine.get_request("L-0001")).opinions) == 1


async def test_who_has_a_say_of_their_own_stands_in_for_nobody_else_in_it(redis: Redis) -> None:
    """Wang Wu is the second level: his decision for Li Si would be refused, and the card used up."""
    bot = Bot(redis)
    await delegate(bot, "U2", "U3")
    await bot.start_request("leave", LONG, "U1", "start")
    [card] = bot.chat.cards("DU2")
    assert not bot.chat.cards("DU3") and "王五" not in str([fact for fact in card.facts if "也可以" in str(fact[1])])
    assert (await bot.engine.list_todo_tasks("U3", bot.today())).tasks == ()
    await bot.press(card, "approve", person="U3")
    assert bot.chat.ephemerals[-1][0] == "U3" and bot.chat.cards("DU2"), "told privately, and the card stays"
    await bot.press(card, "approve", person="U2", id="own")
    assert len(bot.chat.cards("DU3")) == 1, "then it is his turn"


async def chain(redis: Redis) -> Bot:
    """Let Li Si be away, and also the deputy Li Wenguang, with Zhao Liu in their place."""
    bot = Bot(redis)
    await delegate(bot, "U2", "U5", end=3 * DAY)
    await delegate(bot, "U5", "U4", end=2 * DAY)
    return bot


async def test_if_who_stands_in_is_away_the_card_comes_to_who_stands_in_for_them_and_no_further(redis: Redis) -> None:
    bot = await chain(redis)
    assert await bot.engine.list_deputies("U2", bot.today()) == ("U5", "U4")
    await bot.start_request("leave", SICK, "U1", "start")
    [copy] = bot.chat.cards("DU4")
    assert [t.task.id for t in (await bot.engine.list_todo_tasks("U4", bot.today())).tasks] == ["L-0001-1"]
    await bot.press(copy, "approve", person="U4")
    request = await bot.engine.get_request("L-0001")
    assert request.status is Status.APPROVED
    assert [(o.by, o.on_behalf) for o in request.opinions] == [("U4", "U2")]


async def test_who_stood_in_for_who_stood_in_decides_nothing_once_either_is_back(redis: Redis) -> None:
    bot = await chain(redis)
    await bot.start_request("leave", SICK, "U1", "start")
    bot.today_offset = 2.5 * DAY  # Li Wenguang is back, Li Si is not
    await bot.press(bot.chat.cards("DU4")[0], "approve", person="U4")
    assert (await bot.engine.get_request("L-0001")).status is Status.WAITING
    await bot.press(bot.chat.cards("DU5")[0], "approve", person="U5", id="own")
    assert (await bot.engine.get_request("L-0001")).status is Status.APPROVED, "the control"


async def test_if_nobody_is_here_the_request_goes_up_and_its_author_hears_who_has_it(redis: Redis) -> None:
    bot = await chain(redis)
    await delegate(bot, "U4", "U5")
    await bot.start_request("leave", SICK, "U1", "start")
    assert (await bot.engine.get_request("L-0001")).waits_for == ("U3",) and len(bot.chat.cards("DU3")) == 1
    assert "李四" in bot.chat.texts("DU1")[-1] and "王五" in bot.chat.texts("DU1")[-1]


async def test_an_absence_that_is_over_when_it_is_looked_at_brings_nobody_a_card(redis: Redis) -> None:
    bot = await requested(redis)
    await delegate(bot, "U2", "U5", start=DAY, end=2 * DAY)
    bot.today_offset = 3 * DAY
    await bot.engine.run_due_jobs(bot.today())
    await bot.work()
    assert not bot.chat.cards("DU5")
