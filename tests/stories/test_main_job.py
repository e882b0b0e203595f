"""The main job as people experience it: from a message to a started request."""

from tests.harness.office import LI, WANG, ZHANG, Office
from tests.stories.behind import DECISION, PREVIEW, choices_of, facts_of, request_of
from tests.stories.script import requests_of


async def test_b_ten_days_off_with_a_stomach_ache(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, "我肚子疼，从明天起请10天假")
    preview = await desk.card(here)
    assert facts_of(preview) == {
        "请假类型": "病假",
        "开始日期": "2026年11月24日 周二上午",
        "结束日期": "2026年12月3日 周四下午",
        "请假事由": "我肚子疼",
        "审批人": "李四",
        "时长": "8 个工作日",
        "二级审批人": "王五",
    }, "every field, the days worked out, and the second level that more than three days bring"
    assert choices_of(preview) == PREVIEW
    assert await requests_of(desk.bot.stores.redis, ZHANG) == [], "nothing happens before the button"
    assert not desk.cards(desk.dm(LI))

    before = facts_of(preview)
    await desk.press(ZHANG, preview, "confirm")
    told = await desk.until(lambda: [t for t in desk.finals(here) if "L-0001" in t])
    assert "系统记录：发起了请假申请 L-0001" in told[0]
    assert "信息齐了" in "\n".join(desk.steps(here)), "every step says why"
    card = await desk.card(desk.dm(LI), "L-0001")
    assert choices_of(card) == DECISION
    assert before.items() - {("审批人", "李四")} <= facts_of(card).items(), "the approver sees every field too"
    assert facts_of(card)["申请人"] == "张三"
    assert not desk.cards(here), "the decided card has no buttons"
    assert "您已确认" in desk.said(here)
    assert not any(raw in desk.said(here) for raw in ("{", "start_process", "list_people", "```")), "words only"
    request = await request_of(desk, "L-0001")
    assert (request.initiator, request.filled.days, request.waits_for) == (ZHANG, "8", (LI,))


async def test_a_ten_day_leave_with_two_approvers_takes_few_calls(desk: Office) -> None:
    """`chat.update` allows 50 calls a minute in a whole workspace."""
    request = await desk.request_leave(ZHANG, "我肚子疼，从明天起请10天假，审批人李四")
    for approver in (LI, WANG):
        await desk.press(approver, await desk.card(desk.dm(approver), request), "approve")
    await desk.until(lambda: f"申请 {request} 已通过" in desk.said(desk.dm(ZHANG)))
    await desk.quiet()
    methods = [one.method for one in desk.driver.calls]
    writes = ("chat.postMessage", "chat.update", "chat.postEphemeral")
    assert len([one for one in methods if one in writes]) <= 9
    assert methods.count("chat.update") == 3, "a decision rewrites a card once"


async def test_the_bot_speaks_the_language_chosen_on_the_page_from_the_next_sentence_on(desk: Office) -> None:
    assert "没有等您处理的事。" in await desk.answer(ZHANG, "待办")
    await desk.driver.set_locale(ZHANG, "en-US")
    known = desk.bot.resources.platform.directory
    await desk.until(lambda: (person := known.find_known_person(ZHANG)) and person.language == "en")
    assert "Nothing waits for you." in await desk.answer(ZHANG, "tasks")
