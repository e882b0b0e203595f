"""What the rules tell a model to do when a person wants something else than what waits: it works as they say."""

from __future__ import annotations

import json

from redis.asyncio import Redis

from bot.agent.model import Messages, ModelReply
from tests.harness.lab import TODAY, Lab
from tests.stories.script import DONE, MAIL, calls, mail, open_cards
from tests.tools.office import SICK


async def test_a_card_is_taken_back_and_another_one_proposed_in_one_reply(redis: Redis) -> None:
    async def instead(messages: Messages) -> ModelReply:
        [card] = open_cards(messages)
        return calls(("cancel_card", {"card": card}), ("send_email", {**MAIL, "subject": "改过的"}))

    lab = Lab(redis, [mail(), instead, DONE])
    await lab.says("给李四发邮件")
    await lab.work()
    await lab.says("标题改一下", id="Ev2")
    await lab.work()
    [card] = lab.wall.cards()
    assert "改过的" in str(card.facts), "the other one alone can be pressed"
    [waiting] = await lab.waiting()
    assert "改过的" in waiting.text


async def test_of_a_withdrawal_and_a_new_start_in_one_reply_the_start_is_told_to_wait(redis: Redis) -> None:
    """So the rules say: after its result. Then it is one run, and no further message."""
    lab = Lab(redis)
    started = await lab.engine.start_request("leave", SICK, "U1", "key", TODAY)
    withdraw = ("withdraw_request", {"request_id": started.request, "because": "改日期"})
    anew = ("start_process", {"process": "leave", "form": {**SICK, "end_date": SICK["start_date"]}})
    lab.model.script += [calls(withdraw, anew), calls(anew, first=2), DONE]
    await lab.says("病假改成一天")
    await lab.work()
    [card] = [one for one in lab.wall.cards() if "撤回" in one.title]
    assert len(lab.wall.cards()) == 1
    await lab.presses(card, "confirm")
    await lab.work()
    results = [json.loads(one["content"]) for one in lab.model.requests[1] if one["role"] == "tool"]
    assert {one.get("error") for one in results} >= {"one_at_a_time"}
    assert any("撤回" not in one.title for one in lab.wall.cards()), "and the new one has its card in the same run"
