"""Many requests at once: one message with a box for each. A press on it is a press on every ticked card, and nothing
else: with the same checks, one decision each, and its outcome in place."""

from slack_sdk.models.blocks import Block

from bot.dev.evaluation.shown_blocks import read_message_text
from tests.harness.office import CHAT, LI, ZHANG, Office
from tests.stories.behind import opinions_of, request_of, times_told
from tests.stories.sets import approve_several, boxes, labels, now, options, start_claims, tick
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.state import Decision, Status
from tools.workflow.engine.store import RedisStore


async def test_twenty_wait_and_three_presses_decide_them(desk: Office) -> None:
    numbers = await start_claims(desk, *range(11, 31))
    message = await approve_several(desk)  # the first press
    ticked = [option["text"]["text"] for box in boxes(message) for option in box["initial_options"]]
    assert len(options(message)) == 20 and ticked == options(message), "all on at first"
    assert labels(message) == ["同意全部 20 项", "驳回所选…"]
    assert all(number in " ".join(options(message)) for number in numbers), "each by its number"
    assert len(message["blocks"]) <= 50 and all(len(box["options"]) <= 10 for box in boxes(message))
    if CHAT == "slack":
        Block.parse_all(message["blocks"])
    await desk.press(LI, message, "set_approve")  # the second
    await desk.until(lambda: "已同意 20 项" in read_message_text(now(desk, message)))
    await desk.quiet()
    shown = read_message_text(now(desk, message))
    assert shown.count("您已同意") == 20 and not boxes(now(desk, message)), "each outcome in place, no controls left"
    assert not desk.cards(desk.dm(LI)), "no single card can be pressed any more"
    for number in numbers:
        assert (await request_of(desk, number)).status is Status.APPROVED
        assert await opinions_of(desk, number) == [(LI, Decision.APPROVE, "")]
        lines = await RedisStore(desk.bot.stores.redis).load_events(number)
        events = [RequestEvent.model_validate_json(line).command for line in lines]
        assert [one.actor for one in events if one.kind == "decide"] == [LI], "an event of its own, in its own chain"
    assert await times_told(desk, "effect.done", person=LI) == 20


async def test_approve_four_of_five_then_reject_the_fifth_with_a_reason(desk: Office) -> None:
    numbers = await start_claims(desk, 11, 12, 13, 14, 15)
    message = await approve_several(desk)
    await tick(desk, message, 0, 1, 2, 4)
    if CHAT == "slack":  # on Feishu the ticks are sent with the press
        await desk.until(lambda: labels(now(desk, message))[0] == "同意 4 项（共 5 项）")
    await desk.press(LI, message, "set_approve")
    await desk.until(
        lambda: len(options(now(desk, message))) == 1 and "正在" not in read_message_text(now(desk, message))
    )
    rest = now(desk, message)
    assert numbers[3] in options(rest)[0] and labels(rest)[0] == "同意"
    assert read_message_text(rest).count("您已同意") == 4

    await tick(desk, rest, 3)
    await desk.press(LI, now(desk, message), "set_reject")
    dialog = await desk.until(lambda: desk.driver.find_top_view(LI))
    assert numbers[3] in str(dialog) and numbers[0] not in str(dialog), "it says what it decides on"
    await desk.fill(LI, opinion="没有发票")
    await desk.until(lambda: "已同意 4 项、已驳回 1 项" in read_message_text(now(desk, message)))
    await desk.quiet()
    ends = [(await request_of(desk, one)).status for one in numbers]
    assert ends == [Status.APPROVED] * 3 + [Status.REVISE, Status.APPROVED]
    assert await opinions_of(desk, numbers[3]) == [(LI, Decision.REJECT, "没有发票")]
    assert "没有发票" in desk.said(desk.dm(ZHANG)), "who asked hears the reason"
