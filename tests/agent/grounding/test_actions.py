"""What an answer says was done, and whether any result says so too."""

from __future__ import annotations

import pytest

from bot.agent.grounding.actions import ActionEvidence, PerformedAction, find_false_actions
from tests.agent.grounding.battery import read_answers


def over(answer: str, *results: str, done: frozenset[str] = frozenset()) -> bool:
    effects = [PerformedAction(tool, "") for tool in done if tool]
    return bool(find_false_actions(answer, ActionEvidence(effects=effects, results=results)))


def test_what_is_told_as_done_and_is_on_record_nowhere() -> None:
    told = read_answers("false_deeds", 11)
    assert [answer for answer in told if not over(answer)] == []
    other = frozenset({"list_people"})
    assert [answer for answer in told if not over(answer, "found: 3", done=other)] == [], "another tool does not count"


def test_questions_conditions_refusals_and_plans_claim_nothing() -> None:
    assert [answer for answer in read_answers("no_deeds", 9) if over(answer)] == []


def test_an_effect_or_a_result_that_speaks_of_it_is_enough() -> None:
    rows = read_answers("true_deeds", 6)
    assert [answer for answer, result, tool in rows if over(answer, result, done=frozenset({tool}))] == []


def test_older_deeds_count_for_the_same_request_or_for_who_only_asks() -> None:
    def asked(question: str) -> ActionEvidence:
        return ActionEvidence(load_earlier_lines=lambda: ["系统记录：发起了请假申请 L-0001]"], question=question)

    assert not find_false_actions("L-0001 已提交。", asked("再请一天假"))
    assert not find_false_actions("假已经提交了。", asked("我的假提交了吗？"))
    assert find_false_actions("假已经提交了。", asked("帮我再请一天假")), "this one was not"
    assert find_false_actions("L-0002 已提交。", asked("我的假提交了吗？"))


def test_one_true_effect_hides_no_other() -> None:
    people = (("李四", "Li Si"), ("王五", "Wang Wu"))
    done = [
        PerformedAction("decide_task", "request L-0012 status approved"),
        PerformedAction("send_email", "mailed 李四"),
    ]
    record = ActionEvidence(effects=done, people=people)
    assert not find_false_actions("L-0012 已批准，邮件已发给李四。", record)
    assert find_false_actions("L-0012 和 L-0013 都已批准。", record)
    assert find_false_actions("邮件已发给李四和王五。", record)
    assert find_false_actions("L-0012 已批准，也已抄送王五。", record)


@pytest.mark.parametrize(
    ("answer", "tool"),
    [("I've added the lunch to the calendar.", "calendar__create_event"), ("Added.", "tracker__update")],
)
def test_what_a_server_has_written_is_true(answer: str, tool: str) -> None:
    assert not find_false_actions(answer, ActionEvidence(effects=[PerformedAction(tool, "id 7")]))
    assert find_false_actions(answer, ActionEvidence(effects=[PerformedAction("send_email", "mailed 李四")])), (
        "another effect is not it"
    )


def test_a_promise_is_a_deed_that_nobody_will_do() -> None:
    rows = read_answers("promises", 8)
    asked = ActionEvidence(question="x")
    assert [answer for answer, is_one in rows if bool(find_false_actions(answer, asked)) != is_one] == []


ANNOUNCED = (
    *("让我先查一下。", "稍等，我看一下。", "我现在就去办。", "好的，我来查查您的待办。"),
    *("Let me check that for you.", "One moment, I'm on it.", "Submitting it now…", "I'm going to look into it."),
    *("I'll look it up for you.", "Working on it."),
)


def test_an_announcement_is_no_answer(subtests: pytest.Subtests) -> None:
    for answer in ANNOUNCED:
        with subtests.test(answer=answer):
            assert find_false_actions(answer, ActionEvidence(question="x"))
            assert not find_false_actions(answer, ActionEvidence(question="x", results=["tasks 0"])), "it has looked"
            assert not find_false_actions(
                answer, ActionEvidence(question="x", effects=[PerformedAction("start_process", "L-0001")])
            ), "it has done it"
            assert not find_false_actions(f"{answer} 请告诉我审批人。", ActionEvidence(question="x")), (
                "it waits for the person"
            )


def test_an_offer_and_a_look_that_was_taken_announce_nothing() -> None:
    asked = ActionEvidence(question="x")
    assert [answer for answer in read_answers("no_announcements", 9) if find_false_actions(answer, asked)] == []


def test_a_change_of_mind_is_an_order(subtests: pytest.Subtests) -> None:
    for asked in [
        *("oh wait, sorry, make it Monday instead", "E-0001 先让赵六审，再由我审", "说错了 不是王五 是发给李四"),
        *("ok 再 mail 一下李四 说我 Friday 不在哈", "报销 36 元"),
    ]:
        for answer in ["All done, it has been taken care of.", "Done.", "好的，已为您处理。"]:
            with subtests.test(asked=asked, answer=answer):
                assert find_false_actions(answer, ActionEvidence(question=asked))
                assert not find_false_actions(answer, ActionEvidence(question="thanks"))
                assert not find_false_actions(
                    answer, ActionEvidence(question=asked, effects=[PerformedAction("transfer_task", "E-0001")])
                )


def test_a_card_is_there_or_it_is_not() -> None:
    for answer in ("请点卡片上的「确认」。", "Please press Confirm on the card below."):
        assert find_false_actions(answer, ActionEvidence(question="报销 300 元"))
        assert not find_false_actions(answer, ActionEvidence(question="报销 300 元", has_card=True))
