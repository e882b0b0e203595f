"""The lines that code writes under an answer or a stop."""

from redis.asyncio import Redis

from bot.chat.messages import Place
from tests.harness.memory_bot import Bot
from tests.stories.script import calls
from tests.tools.company import SICK

THREAD = Place(team="T1", channel="C1", thread="1.Ev1")
LATER, LATEST = ({**SICK, "start_date": day, "end_date": day} for day in ("2027-03-15", "2027-03-22"))


async def test_what_a_stopped_run_took_from_private_requests_and_left_undone_is_in_no_channel(redis: Redis) -> None:
    bot = Bot(redis)
    await bot.start_request("leave", SICK, "U1", "last time")
    both = [("start_process", {"process": "leave", "form": form}) for form in (LATER, LATEST)]
    bot.model.script[:] = [calls(("my_requests", {})), calls(*both), *[calls(("list_people", {}))] * 3]
    await bot.send("像上次那样再请两次", place=THREAD)
    await bot.press(bot.chat.cards()[-1], "confirm")
    receipts = [one.post.receipt for one in bot.chat.list_posts("C1") if one.post.receipt]
    assert "没有执行：发起申请" in receipts[-1], "that it was not done is said"
    assert not any(one in "".join(receipts) for one in ("病假", "2027-03-22")), "and nothing of what it was"
