"""The main job, told as people live it: from a message to a request that is under way."""

from __future__ import annotations

import pytest

from tests.harness.office import ANN, LI, WANG, ZHANG, ZHAO, Office, read_message_text
from tests.stories.behind import DECISION, PREVIEW, choices_of, facts_of, record_of, request_of, requests_of, times_told
from tools.workflow.engine.state import Status


@pytest.mark.parametrize(
    ("person", "words", "named"),
    [
        (ZHANG, "你好", "请 10 天假"),
        (ZHANG, "帮助", "请 10 天假"),
        (ZHAO, "hello", "10 days off"),
        (ZHAO, "help", "10 days off"),
    ],
)
async def test_a_greeting_gets_help(desk: Office, person: str, words: str, named: str) -> None:
    assert named in await desk.answer(person, words)
    assert not desk.cards(desk.dm(person))
    assert await requests_of(desk, person) == ()


async def test_b_ten_days_off_with_a_stomach_ache(desk: Office) -> None:
    here = desk.dm(ZHANG)
    asked = await desk.answer(ZHANG, "我肚子疼，从明天起请10天假")
    assert "请谁审批" in asked and "没有做任何改动" in asked
    steps = desk.steps(here)
    assert "流程" in steps[0] and "人员" in "\n".join(steps), "it looked processes and people up by itself"
    assert "先看看有哪些流程" in "\n".join(steps), "every step says why"
    assert not desk.cards(here)
    assert await requests_of(desk, ZHANG) == ()

    await desk.says(ZHANG, "李四")
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
    assert await requests_of(desk, ZHANG) == (), "nothing happens before the button"
    assert not desk.cards(desk.dm(LI))

    before = facts_of(preview)
    await desk.press(ZHANG, preview, "confirm")
    told = await desk.until(lambda: [t for t in desk.finals(here) if "L-0001" in t])
    assert "系统记录：发起了请假申请 L-0001" in told[0]
    card = await desk.card(desk.dm(LI), "L-0001")
    assert choices_of(card) == DECISION
    assert before.items() - {("审批人", "李四")} <= facts_of(card).items(), "the approver sees every field too"
    assert facts_of(card)["申请人"] == "张三"
    assert not desk.cards(here), "the decided card has no buttons"
    assert "您已确认" in desk.said(here)
    assert not any(raw in desk.said(here) for raw in ("{", "start_process", "list_people", "```")), "words only"
    request = await request_of(desk, "L-0001")
    assert (request.initiator, request.filled.days, request.waits_for) == (ZHANG, "8", (LI,))


async def test_b_ten_days_off_in_english(desk: Office) -> None:
    here = desk.dm(ANN.id)
    asked = await desk.answer(ANN.id, "I need 10 days off from tomorrow, stomach ache")
    assert "Who should approve" in asked and "nothing was changed" in asked
    assert "See which processes there are" in "\n".join(desk.steps(here))
    await desk.says(ANN.id, "Li Si")
    preview = await desk.card(here)
    assert facts_of(preview) == {
        "Type of leave": "Sick leave",
        "First day": "Tue 24 Nov 2026 (AM)",
        "Last day": "Thu 3 Dec 2026 (PM)",
        "Reason": "stomach ache",
        "Approver": "Li Si",
        "Length": "8 working days",
        "Second approver": "Wang Wu",
    }
    await desk.press(ANN.id, preview, "confirm")
    told = await desk.until(lambda: [t for t in desk.finals(here) if "L-0001" in t])
    assert "On record: started leave request L-0001" in told[0]
    card = await desk.card(desk.dm(LI), "L-0001")
    assert "Ann Smith 的请假申请" in read_message_text(card), "each reads the card in their own language"
    assert not any(raw in desk.said(here) for raw in ("{", "start_process", "list_people"))


async def test_a_cancelled_preview_starts_nothing(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, "明天起请2天年假，去看父母，审批人李四")
    await desk.press(ZHANG, await desk.card(here), "cancel")
    answer = await desk.until(lambda: desk.finals(here))
    assert "没有做任何改动" in answer[0]
    assert "您已取消" in desk.said(here) and not desk.cards(here)
    assert await requests_of(desk, ZHANG) == ()
    assert not desk.cards(desk.dm(LI))


async def test_saying_never_mind_takes_the_open_card_back(desk: Office) -> None:
    here = desk.dm(ZHANG)
    await desk.says(ZHANG, "明天起请2天年假，去看父母，审批人李四")
    await desk.card(here)
    await desk.says(ZHANG, "算了")
    await desk.until(lambda: not desk.cards(here))
    await desk.quiet()
    assert "您已取消" in desk.said(here)
    assert await requests_of(desk, ZHANG) == ()


@pytest.mark.parametrize(
    ("person", "words", "rule", "passed"),
    [
        (ZHANG, "明天上午请半天假，去银行", "不超过 1 个工作日的请假按规则自动通过", "不需要人审批"),
        (ZHAO, "half a day off tomorrow morning, dentist", "leave of up to 1 working day passes by rule", "by rule"),
    ],
)
async def test_f_half_a_day_passes_by_rule(desk: Office, person: str, words: str, rule: str, passed: str) -> None:
    here = desk.dm(person)
    await desk.says(person, words)
    preview = await desk.card(here)
    assert rule in facts_of(preview).values(), "the rule is told before anybody confirms"
    await desk.press(person, preview, "confirm")
    told = await desk.until(lambda: [t for t in desk.finals(here) if "L-0001" in t])
    assert passed in told[0] and rule in told[0]
    await desk.quiet()
    request = await request_of(desk, "L-0001")
    assert (request.status, request.filled.days, request.tasks) == (Status.APPROVED, "0.5", ())
    (event,) = await record_of(desk, "L-0001")
    assert request.rule and request.rule in {step.node for step in event.steps}
    assert not any(desk.cards(desk.dm(one)) for one in (LI, WANG, ZHANG, ZHAO)), "nobody has to press anything"
    assert await times_told(desk, "approval.requested") == 1, "the author's own confirmation was the only card"


async def test_h_two_days_do_not_pass_by_rule(desk: Office) -> None:
    """The twin of half a day: one day more than the rule allows needs a person."""
    await desk.request_leave(ZHANG, "明天起请2天年假，去看父母，审批人李四")
    assert choices_of(await desk.card(desk.dm(LI), "L-0001")) == DECISION
    assert (await request_of(desk, "L-0001")).status is Status.WAITING
