"""Time as people experience it: reminded, expired, asked again, cancelled."""

from bot.queue.keys import Keys
from tests.harness.office import LI, WANG, ZHANG, Office, read_message_text
from tests.stories.behind import choices_of, facts_of, forged, hours_pass, kept, request_of, told_privately
from tools.workflow.engine.state import Decision, Status

TWO_DAYS = "明天起请2天年假，去看父母，审批人李四"


async def test_an_approver_is_reminded_at_half_time_and_only_once(desk: Office) -> None:
    there = desk.dm(LI)
    await desk.request_leave(ZHANG, TWO_DAYS)
    card = await desk.card(there)
    await desk.quiet()
    keys, redis, due = Keys(), desk.bot.stores.redis, list[float]()
    for partition in range(keys.partitions):
        timers = await redis.zrange(keys.build_key(partition, "t"), 0, -1, withscores=True)
        due += [due_ms / 1000 for timer, due_ms in timers if "remind:" in str(timer)]
    left = (due[0] - desk.clock().timestamp()) / 3600  # depends on the day: working hours count
    await hours_pass(desk, left - 1)
    await desk.quiet()
    assert "提醒" not in desk.said(there), "not before half time"
    await hours_pass(desk, 2)
    await desk.until(lambda: "提醒：" in desk.said(there))
    assert not [m for m in desk.posts(desk.dm(ZHANG)) if "提醒" in m["text"]], "only who has to decide"
    await hours_pass(desk, 3)
    await desk.quiet()
    assert desk.said(there).count("提醒：") == desk.said(there).count("还在等您决定")
    assert len([m for m in desk.posts(there) if m["text"].startswith("提醒：")]) == 1
    reminder = next(m for m in desk.posts(there) if m["text"].startswith("提醒："))
    assert reminder["thread_ts"] == card["ts"], "it stands under the card"
    await desk.press(LI, card, "approve")  # a reminded card works like a new one
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(desk.dm(ZHANG)))


async def test_silence_is_not_a_no_and_one_press_asks_again(desk: Office) -> None:
    here, there = desk.dm(ZHANG), desk.dm(LI)
    await desk.request_leave(ZHANG, TWO_DAYS)
    card = kept(await desk.card(there))
    await desk.quiet()
    await hours_pass(desk, 400)
    told = await desk.card(here, "李四到期前没有决定")
    await desk.until(lambda: "已过期" in desk.said(there))
    assert "到期前没有人决定" in read_message_text(told) and choices_of(told) == {"again"}
    assert "您的请假申请 L-0001" in read_message_text(told), "in words for the requester"
    assert "等您审批" not in read_message_text(told)
    assert "未通过" not in desk.said(here) and "驳回" not in desk.said(here), "in words of its own"
    request = await request_of(desk, "L-0001")
    assert (request.status, request.opinions) == (Status.WAITING, ()), "nothing was decided"

    await desk.press(LI, card, "approve", force=True)  # a button that should be gone
    await told_privately(desk, LI, "已过期")
    await forged(desk, WANG, told, "again")
    await told_privately(desk, WANG, "Nothing has changed")

    await desk.press(ZHANG, told, "again")
    renewed = (await desk.until(lambda: [c for c in desk.cards(there) if "approve" in choices_of(c)]))[-1]
    await desk.until(lambda: not desk.cards(here))
    assert "等李四决定" in desk.said(here), "who asked again sees that it was asked again, and has nothing to press"
    assert facts_of(renewed) == facts_of(card), "the same is asked"
    await desk.press(LI, renewed, "approve")
    await desk.until(lambda: "您的请假申请 L-0001 已通过" in desk.said(here))
    await desk.quiet()
    assert [(o.by, o.decision) for o in (await request_of(desk, "L-0001")).opinions] == [(LI, Decision.APPROVE)]
    assert not desk.cards(there) and not desk.cards(here), "every copy of the card is final"
    assert "李四已同意" in desk.said(here)
