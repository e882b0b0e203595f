"""What counts as a claim, in which spellings, and what a claim can rest on."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.grounding.claims import ClaimSource, check_claims, list_claims

FRIDAY = date(2026, 11, 20)
PEOPLE = (("张三", "Zhang San"), ("李四", "Li Si", "lisi"), ("李四光", "Li Siguang"), ("王五", "Wang Wu"), ("Will",))


def unsupported(answer: str, *sources: str) -> tuple[str, ...]:
    return check_claims(answer, map(ClaimSource, sources), FRIDAY, PEOPLE).unsupported


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ("申请 L-0012 在等李四", "L-0012-1 waits for Li Si"),
        ("Ｌ－００１２ 已提交", "request l-0012"),
        ("Request L‑0012.", "L-0012"),
        ("一共 1,500.00 元", '"amount": "1500"'),
        ("¥1500", "一千五百元"),
        ("CNY 35,000", "报销，3.5万元"),
        ("五百元", "500块"),
        ("共500块钱", "报销差旅费，500元，审批人李四"),
        ("1.5k USD", "1500"),
        ("从 11月23日 开始", "2026-11-23"),
        ("from November 23rd to 27 Nov 2026", "2026/11/23 2026年11月27日"),
        ("2026-11-23 起", "下周一开始"),
        ("2026-11-23 起", "starting next Monday"),
        ("从明天开始休", "2026-11-21"),
        ("on 2026-11-21", "off from tomorrow, please"),
        ("十一月二十三日", "11月23号"),
        ("starts the day after tomorrow", "2026-11-22"),
        ("今天是 2026-11-20", ""),
        ("Li Si decides", "李四"),
        ("李四审批", "to lisi"),
        ("write to LISI@example.com", "lisi@example.com"),
    ],
)
def test_a_source_supports_a_claim_in_any_spelling(answer: str, source: str) -> None:
    assert list(list_claims(answer, FRIDAY, PEOPLE)), "it is one"
    assert unsupported(answer, source) == ()


@pytest.mark.parametrize(
    ("answer", "source", "missing"),
    [
        ("L-0013 已提交", "L-0012 L-0130", ("L-0013",)),
        ("任务 L-0012-2", "L-0012-1", ("L-0012-2",)),
        ("审批人是王五", "审批人是李四", ("王五",)),
        ("报销 5000 元", "报销 500 元，L-5000，2026-11-23", ("5000 元",)),
        ("¥23", "2026-11-23", ("¥23",)),
        ("到 2026-12-04 为止", "从 2026-11-23 起", ("2026-12-04",)),
        ("It starts tomorrow", "on 2026-11-23", ("tomorrow",)),
        ("下周二开始", "下周一开始", ("下周二",)),
        ("例如「报销 1500 元」。\n\n您的 L-0013 已提交", "", ("L-0013",)),
        ("L-0012, ¥5, Wang Wu and 2026-01-01", "", ("L-0012", "2026-01-01", "¥5", "Wang Wu")),
    ],
)
def test_negative_control_what_no_source_has_is_named(answer: str, source: str, missing: tuple[str, ...]) -> None:
    assert unsupported(answer, source) == missing


@pytest.mark.parametrize(
    "answer",
    [
        "第 2 项最急，超过 3 天要二级审批。",
        "Step 3 of 12: 2 tasks, 10 days, 50 %.",
        "如果明天还没有消息，可以催办。",
        "要不要我明天再提醒您？",
        "You can try again tomorrow.",
        "I will ask.  Will you?",
        "每周一开会，周五发工资。 Mondays.",
        "超过三天要二级审批，我们一块去吧。",
        "按 ISO-9001 和 GB-2312",
        "2027元旦放假吗",
        "您可以这样说：\n• 报销 1500 元，审批人李四\n• 撤回 L-0003",
        "Tell me what you need, for example: “expense 500 CNY, approver Li Si, on 2026-11-23”.",
        "Decision 5, Marks 3, may 5 people come?",
        "好的。",
        "",
    ],
)
def test_counts_ordinals_advice_and_questions_claim_nothing(answer: str) -> None:
    assert list(list_claims(answer, FRIDAY, PEOPLE)) == []


PIECES = st.sampled_from(
    ["L-0012", "L-0012-1", "500", "元", "¥", "1,500.50", "三", "万", "十", "百", " ", "，", "-", "年", "月", "日",
     "2026", "11", "31", "02", "/", "明天", "下周", "一", "next ", "Monday", "Nov", " 3rd", "李四", "光", "Li ", "Si",
     "例如", "\n\n", "k", ".", "\u200b", "０", "@", "a.b", "今天", "上个", "星期日"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=14).map("".join))
DAYS = st.dates()


@given(TEXTS, TEXTS, DAYS)
def test_whatever_is_written_nothing_breaks_and_the_figures_fit(answer: str, source: str, day: date) -> None:
    checked = check_claims(answer, map(ClaimSource, [source]), day, PEOPLE)
    assert 0 <= len(checked.unsupported) <= checked.claim_count


@given(TEXTS, TEXTS, DAYS)
def test_whatever_is_claimed_the_same_words_as_a_source_support_it(answer: str, other: str, day: date) -> None:
    assert check_claims(answer, map(ClaimSource, [other, answer]), day, PEOPLE).unsupported == ()


@given(TEXTS, TEXTS, TEXTS)
def test_another_source_never_makes_a_claim_unsupported(answer: str, source: str, other: str) -> None:
    before = set(check_claims(answer, map(ClaimSource, [source]), FRIDAY, PEOPLE).unsupported)
    assert set(check_claims(answer, map(ClaimSource, [source, other]), FRIDAY, PEOPLE).unsupported) <= before


def test_sources_are_not_read_where_nothing_is_claimed() -> None:
    def never() -> object:
        raise AssertionError
        yield

    assert check_claims("好的。", never(), FRIDAY).claim_count == 0  # type: ignore[arg-type]


def count_claims(answer: str) -> int:
    return check_claims(answer, [], FRIDAY, PEOPLE).claim_count


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ("共 3500 元", "报销三千五的差旅费"),
        ("合计 12000 元", "一万二的培训费"),
        ("320 元", "三百二"),
        ("10002 元", "一万零二"),
        ("35000 元", "3万5"),
        ("合计 3300 元", "300 元，3000 元"),
        ("还差 120 元", "620 CNY a night, limit 500 CNY"),
        ("三晚共 1860 元", "620 元一晚，3 晚"),
        ("165 yuan in total", "taxi 45, lunch 120"),
        ("下下周二是 2026-12-01", "下下周二"),
        ("从 12月3日 开始", "12月1-3日"),
        ("到 2026-12-11 为止", "2026-12-07 起 5 个工作日"),
        ("It is due on December 15", "two weeks after December 1"),
        ("您还剩 7 天年假", "left 10 days\nrequested 3 days"),
    ],
)
def test_what_follows_from_what_was_seen_is_supported(answer: str, source: str) -> None:
    assert count_claims(answer) and unsupported(answer, source) == ()


@pytest.mark.parametrize(
    ("answer", "source"),
    [
        ("共 3005 元", "报销三千五的差旅费"),
        ("合计 10002 元", "一万二"),
        ("从 2026-11-24 开始", "下下周二开始"),
        ("合计 3400 元", "300 元，3000 元"),
        ("您还剩 8 天年假", "您想请 3 天"),
        ("您有 4 项待办", "3 tasks"),
        ("2026-11-23（周二）开始", "2026-11-23"),
        ("on Friday, November 23", "2026-11-23"),
        ("下周一是 11月30日", "2026-11-30"),
        ("Tomorrow is November 24", "2026-11-24"),
    ],
)
def test_negative_control_what_does_not_follow_is_not(answer: str, source: str) -> None:
    assert unsupported(answer, source)


def test_what_a_person_wishes_is_no_balance() -> None:
    wish = [ClaimSource("请 8 天年假", is_wish=True)]
    assert check_claims("您还剩 8 天年假", wish, FRIDAY).unsupported == ("剩 8 天",)


@pytest.mark.parametrize(
    "answer",
    [
        "您是要从 12月24日开始，到 12月30日，一共报 900 元吗？",
        "Shall I file it for December 24, 2026, with 900 CNY, and tell finance?",
        "请确认：\n- 开始：2026-12-24\n- 金额：900 元",
        "可以这样写：“从 2026-12-24 开始请 3 天年假”。",
        "If you start on December 24, it costs 900 CNY.",
    ],
)
def test_a_comma_ends_no_question_and_an_example_claims_nothing(answer: str) -> None:
    assert unsupported(answer, "") == ()
