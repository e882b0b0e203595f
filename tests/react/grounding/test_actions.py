"""What an answer says was done, and whether any result says so too."""

from __future__ import annotations

import pytest

from bot.react.grounding.actions import Effect, Record, false_deeds


def over(answer: str, *results: str, done: frozenset[str] = frozenset()) -> bool:
    effects = [Effect(tool, "") for tool in done if tool]
    return bool(false_deeds(answer, Record(effects=effects, told=results)))


@pytest.mark.parametrize(
    "answer",
    [
        "邮件已发送给李四。",
        "好的，我已经帮您把邮件发给李四了。",
        "I have sent the mail to Li Si.",
        "您的请假申请已提交，等待李四审批。",
        "Your request was submitted.",
        "已批准 L-0012。",
        "L-0012 has been approved.",
        "申请撤回了。",
        "The request is withdrawn.",
        "已经催办李四了。",
        "Done: transferred to Wang Wu.",
    ],
)
def test_what_is_told_as_done_and_is_on_record_nowhere(answer: str) -> None:
    assert over(answer)
    assert over(answer, "found: 3", done=frozenset({"list_people"})), "another tool does not count"


@pytest.mark.parametrize(
    "answer",
    [
        "邮件还没有发送，要我现在发给李四吗？",
        "申请等待批准。",
        "点「确认」之后才会提交。",
        "It was not sent.",
        "Once approved, you will hear of it.",
        "Shall I have it submitted?",
        "如果批准了，我会告诉您。",
        "请假申请需要审批人。",
        "好的。",
    ],
)
def test_questions_conditions_refusals_and_plans_claim_nothing(answer: str) -> None:
    assert not over(answer)


@pytest.mark.parametrize(
    ("answer", "result", "tool"),
    [
        ("邮件已发送给李四。", "", "send_email"),
        ("Your request was submitted.", "", "start_process"),
        ("L-0012 has been approved.", "request L-0012\nstatus approved", ""),
        ("L-0012 已通过。", "request L-0012 · status approved", ""),
        ("L-0001 was approved; its withdrawal waits for agreement.", "", "withdraw_request"),
        ("邮件已发送。", "系统记录：给 李四 发了邮件]", ""),
    ],
)
def test_an_effect_or_a_result_that_speaks_of_it_is_enough(answer: str, result: str, tool: str) -> None:
    assert not over(answer, result, done=frozenset({tool}))
