from contextlib import suppress
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.i18n import render_value
from tests.harness.corpus import corpus
from tests.tools.company import CHOICE, LONG, PEOPLE, SHORT, SICK, TAXI, ZHANG, ZHAO, filled, refused, request
from tests.tools.workflow.trip import trip, user
from tools.languages import list_day_words
from tools.spec import Person, ToolError
from tools.workflow.engine.state import FilledForm, Request, Status
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.definition import Process, find_passing_rule, load_shipped_processes
from tools.workflow.process.earlier_requests import list_remaining_days

LEAVE, EXPENSE = load_shipped_processes()
TRIP = trip(user("first", "approver"))
Form = dict[str, str]
NOTHING = {"handover": "", "cc": "", "attachment": ""}
MANAGER = {"copy:short_leave": ("U2",)}
"""Who hears of what passes by rule."""


def test_a_leave_is_completed_and_filling_in_what_was_filled_in_changes_nothing() -> None:
    found = filled(LEAVE, {**LONG, "leave_type": "病假", "approver": "li si", "start_date": "2026/11/23"})
    assert found.values == {**LONG, "start_half": "am", "end_half": "pm", **NOTHING}
    assert (found.days, found.estimated) == ("5", False)
    assert found.people == {"second_approver": ("U3",), **MANAGER}
    for process, form in ((LEAVE, LONG), (LEAVE, SHORT), (EXPENSE, {**TAXI, "amount": "US$1,200.5"})):
        once = filled(process, form)
        assert filled(process, once.values) == once


@corpus(
    ("name", "written", "canonical", "days"),
    *(("leave_type", one, "sick", "2") for one in ("病假", "Sick Leave", "SICK")),
    *(("leave_type", one, "annual", "2") for one in ("年假", "vacation")),
    ("leave_type", "调休", "comp", "2"),
    *(("end_half", one, "am", "1.5") for one in ("上午", "AM", "morning")),
    *(("end_half", one, "pm", "2") for one in ("下午", "pm")),
    *(("start_date", one, "2026-11-23", "2") for one in ("2026/11/23", "2026.11.23", "2026年11月23日")),
    *(("start_date", one, "2026-11-23", "2") for one in ("２０２６-11-23", "2026 年 11 月 23 日")),
    ("start_date", "2026-11-19", "2026-11-19", "4"),  # a day within a year may lie in the past
    ("reason", "a\x00b\x1b[31m\nc", "ab[31m\nc", "2"),
)
def test_what_people_write_is_read(name: str, written: str, canonical: str, days: str) -> None:
    found = filled(LEAVE, {**SICK, name: written})
    assert (found.values[name], found.days) == (canonical, days)


OF_LEAVE: dict[str, list[Form]] = {
    # code: changes, each with the field that is named first
    "missing_field": [{"leave_type": ""}, {"reason": "   "}, {"approver": ""}],
    "bad_choice": [{"leave_type": "sabbatical"}, {"start_half": "noon"}],
    "bad_date": [{"start_date": "tomorrow"}, {"start_date": "2026-02-30"}],
    "in_the_past": [{"start_date": "2024-11-23"}],
    "too_far_ahead": [{"end_date": "2029-11-23"}],
    "end_before_start": [{"end_date": "2026-11-20"}, {"end_date": "2026-11-23", "start_half": "pm", "end_half": "am"}],
    "zero_days": [{"end_date": "2026-11-22", "start_date": "2026-11-21"}],
    "span_too_long": [{"end_date": "2027-11-30"}],
    "too_long": [{"reason": "x" * 501}],
    "days_differ": [{"days": "10"}],
    "bad_days": [{"days": "ten"}],
    "unknown_field": [{"length": "10"}, {"user_id": "U2"}],
    "own_approver": [{"approver": "张三"}],
    "unknown_person": [{"approver": "钱七"}, {"approver": "Nobody"}],
    "ambiguous_person": [{"approver": "Li"}],
}
NO_AMOUNTS = ("0", "-5", "NaN", "1e9", "Infinity", "1.200,50", "12,00", "one hundred")
OF_EXPENSE: dict[str, list[Form]] = {
    "bad_amount": [{"amount": odd} for odd in NO_AMOUNTS],
    "big_amount": [{"amount": "9999999999999"}],
    "too_precise": [{"amount": "1.234"}],
    "not_whole": [{"amount": "100.5", "currency": "JPY"}],
    "two_currencies": [{"currency": "CNY", "amount": "$100"}],
    "bad_choice": [{"currency": "", "amount": "100 doubloons"}, {"currency": "BTC"}, {"category": "bribes"}],
    "missing_field": [{"amount": ""}],
}


OF_PEOPLE: dict[str, list[Form]] = {
    "missing_field": [{"reviewers": ""}],
    "unknown_person": [{"reviewers": "U5、钱七"}],
    "own_approver": [{"reviewers": "U5,U1"}],
    "own_level": [{"reviewers": "U5,U2"}],
    "own_person": [{"handover": "张三"}, {"cc": "U4,张三"}],
}
LOOK = trip(user("first", "approver"), user("look", "reviewers")), {"approver": "U2", "reviewers": "U5"}
WRONG = ((LEAVE, SICK, OF_LEAVE), (EXPENSE, TAXI, OF_EXPENSE), (*LOOK, OF_PEOPLE))


@corpus(
    ("process", "form", "code", "change"),
    *((process, form, code, one) for process, form, wrong in WRONG for code in wrong for one in wrong[code]),
)
def test_what_is_wrong_with_a_form_is_named(process: Process, form: Form, code: str, change: Form) -> None:
    error = refused(process, {**form, **change})
    assert (error.code, error.field) == (code, next(iter(change)))


def test_all_that_is_missing_is_asked_for_at_once() -> None:
    error = refused(LEAVE, {"reason": "胃疼"})
    assert error.ask
    assert all(name in error.text for name in ("leave_type", "start_date", "end_date"))
    assert error.params["label"] == {"zh": "请假类型、开始日期、结束日期", "en": "Type of leave, First day, Last day"}
    found = filled(LEAVE, SHORT)
    assert find_passing_rule(LEAVE, found) == "short_leave"
    assert found.people == MANAGER
    half_more = filled(LEAVE, {**SICK, "end_half": "am"})
    assert (half_more.days, find_passing_rule(LEAVE, half_more)) == ("1.5", "")


def test_the_second_level_is_of_the_authors_chain_whoever_approves_first_never_the_author_or_the_first() -> None:
    friend = Person(id="U7", name="周七", manager="U8")
    people, free = (*PEOPLE, friend, Person(id="U8", name="吴八", manager="U7")), {"policy": CHOICE}
    assert filled(LEAVE, LONG).people == {"second_approver": ("U3",), **MANAGER}
    chosen = filled(LEAVE, {**LONG, "approver": "U7"}, people=people, more=free)
    assert chosen.people == {"second_approver": ("U3",), **MANAGER}, "the manager of 张三's manager, not of 周七"
    director = Person(id="U9", name="钱总", roles=frozenset({"director"}))
    skipped = filled(LEAVE, {**LONG, "approver": "U3"}, people=(*people, director), more=free)
    assert skipped.people == {"second_approver": ("U9",), **MANAGER}, "U3 decides already: the next selector"
    assert refused(LEAVE, {**LONG, "approver": "U3"}, more=free).code == "no_level", "the only director is the first"
    assert filled(LEAVE, {**SICK, "approver": "U3"}, more=free).people == MANAGER, "short enough for one level"
    very_long = {**LONG, "end_date": "2026-12-07", "attachment": "F0SICKNOTE"}
    assert refused(LEAVE, very_long).code == "no_level", "nobody is above 王五, and no other director"
    boss = Person(id="U7", name="周总", roles=frozenset({"director"}))
    found = filled(LEAVE, very_long, people=(*PEOPLE, boss))
    assert found.people == {"second_approver": ("U3",), "third_approver": ("U7",), **MANAGER}


@corpus(
    ("amount", "currency", "canonical", "read_as"),
    ("￥1,200.50", "", "1200.50", "CNY"),
    ("1200.5", "元", "1200.50", "CNY"),
    ("1200元", "", "1200.00", "CNY"),
    ("¥86", "人民币", "86.00", "CNY"),
    ("¥8600", "JPY", "8600", "JPY"),
    ("8600", "yen", "8600", "JPY"),
    ("$99.9", "", "99.90", "USD"),
    ("USD 1,000", "美元", "1000.00", "USD"),
    ("１２００．５０", "RMB", "1200.50", "CNY"),
    ("0.01", "", "0.01", "CNY"),
    ("12.500", "", "12.50", "CNY"),
)
def test_amounts_are_read(amount: str, currency: str, canonical: str, read_as: str) -> None:
    values = filled(EXPENSE, {**TAXI, "amount": amount, **({"currency": currency} if currency else {})}).values
    assert (values["amount"], values["currency"]) == (canonical, read_as)


def test_large_and_foreign_amounts_need_everybody_of_finance_but_the_author_and_the_first_approver() -> None:
    for change, threshold, finance in (
        ({"amount": "999.99"}, "1000", False),
        ({"amount": "1000"}, "1000", True),
        ({"amount": "1", "currency": "USD"}, "1000", True),
        ({"amount": "1000"}, "5000", False),
        ({"amount": "5000"}, "5000", True),
    ):
        people = filled(EXPENSE, {**TAXI, **change}, threshold=threshold).people
        assert people == ({"finance_approvers": ("U4",)} if finance else {}), change
    free = {"policy": CHOICE}
    assert refused(EXPENSE, {**TAXI, "amount": "1000", "approver": "U4"}, more=free).code == "no_level"
    own = filled(EXPENSE, {**TAXI, "amount": "1000"}, ZHAO, more=free).people
    assert own == {"finance_approvers": ("U3",)}, "the only one of finance is the author: their manager"
    other = Person(id="U7", name="孙七", roles=frozenset({"finance"}))
    found = filled(EXPENSE, {**TAXI, "amount": "1000", "cc": "王五，李文光"}, people=(*PEOPLE, other))
    assert found.people == {"finance_approvers": ("U4", "U7"), "cc_approved": ("U3", "U5")}
    leave = filled(LEAVE, {**SHORT, "cc": "李四", "handover": "李文光"})
    assert (leave.people, find_passing_rule(LEAVE, leave)) == ({"cc_approved": ("U2", "U5"), **MANAGER}, "short_leave")
    before = leave.model_copy(update={"people": {"cc_approved": ("U2", "U5")}})
    assert before.confirmed_hash == leave.confirmed_hash, "a manager who is looked up only after that is no other form"
    other = leave.model_copy(update={"people": {**leave.people, "cc_approved": ("U2",)}})
    assert other.confirmed_hash != leave.confirmed_hash and before.content_hash != leave.content_hash, "control"


def test_a_large_expense_needs_a_receipt_and_a_long_sick_leave_a_note() -> None:
    for amount, currency in (("5000.01", "CNY"), ("5000.01", "USD"), ("100001", "JPY")):
        large = {**TAXI, "amount": amount, "currency": currency}
        assert (refused(EXPENSE, large).code, refused(EXPENSE, large).field) == ("missing_field", "receipt")
        assert filled(EXPENSE, {**large, "receipt": "F0RECEIPT1"})
    for amount, currency in (("5000", "CNY"), ("100000", "KRW")):
        assert filled(EXPENSE, {**TAXI, "amount": amount, "currency": currency})
    boss = (*PEOPLE, Person(id="U7", name="周总", roles=frozenset({"director"})))
    long = {**LONG, "end_date": "2026-12-07"}
    with pytest.raises(ToolError, match="missing: attachment"):
        filled(LEAVE, long, people=boss)
    assert filled(LEAVE, {**long, "leave_type": "personal"}, people=boss)
    several = "F0RECEIPT1, https://files.example.com/a,b.pdf、F0RECEIPT2,F0RECEIPT1,"
    found = filled(EXPENSE, {**TAXI, "receipt": several}).values["receipt"]
    assert found == "F0RECEIPT1,https://files.example.com/a,b.pdf,F0RECEIPT2"
    at_feishu = ("om_dc13264520392913993dd051dba21dcf/file/file_v3_00ab_12", "om_1a2b3c4d/image/img_v3_02ab-c")
    for sign in (",", "、", ", "):
        found = filled(EXPENSE, {**TAXI, "receipt": sign.join((*at_feishu, "https://a.example/om_1"))}).values[
            "receipt"
        ]
        assert found == ",".join((*at_feishu, "https://a.example/om_1"))
    many = ",".join(f"F0RECEIPT{number}" for number in range(11))
    assert refused(EXPENSE, {**TAXI, "receipt": many}).code == "too_many_files"


@given(st.decimals("0.01", "999999999.99", places=2))
def test_every_amount_survives_exactly(amount: Decimal) -> None:
    found = filled(EXPENSE, {**TAXI, "amount": f"{amount:,}", "receipt": "F0RECEIPT1"})
    assert Decimal(found.values["amount"]) == amount == found.numbers["amount"]
    assert FilledForm.model_validate_json(found.model_dump_json()) == found


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for name in ("start_date", "leave_type", "approver", "end_half"):
        with suppress(ToolError):
            filled(LEAVE, {**SICK, name: text})
    for name in ("amount", "currency", "category"):
        with suppress(ToolError):
            filled(EXPENSE, {**TAXI, name: text})


FILES = (
    "F0123ABCD", "https://example.slack.com/files/U1/F0123ABCD/note.pdf", "https://example.com:8443/a",
    "https://files.example.com/病假条.pdf?x=1&y=2",
)  # fmt: skip
NO_FILES = (
    "note.pdf", "F1", "http://example.com/a", "ftp://example.com/a", "javascript:alert(1)", "file:///etc/passwd",
    "https://", "https://localhost/a", "https://admin:secret@example.com/a", "https://example.com/a b",
    "https://example.com/<@U1>", "https://example.com/‮fdp.exe", "https://[example.com/a",
    "https://example.com/" + "a" * 500,
)  # fmt: skip


@corpus("reference", *FILES, *NO_FILES)
def test_an_attachment_is_a_reference_and_kept_as_it_is(reference: str) -> None:
    if reference in FILES:
        for written in (reference, f"<{reference}|note>"):
            assert filled(LEAVE, {**SICK, "attachment": written}).values["attachment"] == reference
    else:
        error = refused(LEAVE, {**SICK, "attachment": reference})
        assert (error.code, error.field, error.ask) == ("bad_attachment", "attachment", True)


@corpus(
    ("written", "canonical"),
    *[("3", "3"), ("2.50", "2.5"), ("1,200", "1200"), ("０", "0"), ("", ""), ("0.000001", "0.000001")],
    *((odd, None) for odd in ("-1", "1e3", "NaN", "many", "1.0000001", "1234567890123", "1,2", "3 people")),
)
def test_numbers_are_read_and_what_is_none_is_refused(written: str, canonical: str | None) -> None:
    form = {"approver": "U2", "travellers": written}
    if canonical is None:
        error = refused(TRIP, form)
        assert (error.code, error.field) == ("bad_number", "travellers")
    else:
        found = filled(TRIP, form)
        assert found.values["travellers"] == canonical
        assert found.numbers["travellers"] == Decimal(canonical or 0), "nothing counts as 0 in conditions"


ANNUAL = {**SICK, "leave_type": "annual"}
"""Two days from Monday, 23 November."""


def on(first: str, last: str, start_half: str = "am", end_half: str = "pm", kind: str = "annual") -> dict[str, str]:
    days = {"start_date": first, "end_date": last, "start_half": start_half, "end_half": end_half}
    return {**SICK, "leave_type": kind, **days}


def left(form: dict[str, str], *earlier: Request, **more: str) -> list[tuple[str, str, str]]:
    return list(list_remaining_days(LEAVE.form, filled(LEAVE, form, more={"earlier_requests": earlier}, **more)))


def test_the_balance_is_what_is_left_after_this_request() -> None:
    assert left(ANNUAL) == [("2026", "8", "10")]
    assert left(ANNUAL, request(LEAVE, on("2026-12-07", "2026-12-11"))) == [("2026", "3", "10")]
    assert left(ANNUAL, annual_days="15") == [("2026", "13", "15")]
    assert left({**ANNUAL, "end_half": "am"}) == [("2026", "8.5", "10")]
    own = filled(LEAVE, ANNUAL, ZHANG.model_copy(update={"allowance": Decimal("5.5")}), annual_days="20")
    assert list(list_remaining_days(LEAVE.form, own)) == [("2026", "3.5", "5.5")]
    assert left(SICK) == []
    assert left(ANNUAL, request(LEAVE, on("2026-12-07", "2026-12-11", kind="sick"))) == [("2026", "8", "10")]
    other = on("2026-12-07", "2026-12-11", kind="sick")
    assert filled(LEAVE, other, annual_days="1").days == "5", "more than the allowance"


@corpus("status", *Status)
def test_waiting_and_approved_requests_count_and_no_others(status: Status) -> None:
    week = request(LEAVE, on("2026-12-07", "2026-12-11"), status=status)
    counts = status in (Status.WAITING, Status.REVOKING, Status.APPROVED)
    assert left(ANNUAL, week) == [("2026", "3" if counts else "8", "10")]


def test_too_little_is_refused_with_what_is_left_of_each_year() -> None:
    week = request(LEAVE, on("2026-12-07", "2026-12-11"))
    form, more = on("2026-11-30", "2026-12-04", end_half="am"), {"earlier_requests": [week]}
    error = refused(LEAVE, form, more=more, annual_days="9")
    assert (error.code, error.field, error.ask) == ("no_balance", "end_date", True)
    assert {k: error.params[k] for k in ("left", "asked", "year")} == {"left": "4", "asked": "4.5", "year": "2026"}
    assert error.params["label"] == {"zh": "年假", "en": "Annual leave"}
    across = on("2026-12-30", "2027-01-05")
    assert left(across) == [("2026", "8", "10"), ("2027", "8", "10")]
    autumn = [request(LEAVE, on("2026-12-07", "2026-12-15"), id="L-0001")]
    assert left(across, *autumn) == [("2026", "1", "10"), ("2027", "8", "10")]
    error = refused(LEAVE, across, more={"earlier_requests": [request(LEAVE, on("2026-12-07", "2026-12-17"))]})
    assert (error.params["year"], error.params["left"], error.params["asked"]) == ("2026", "1", "2")
    assert left(on("2027-03-01", "2027-03-08"), request(LEAVE, across)) == [("2027", "2", "10")]
    assert left(ANNUAL, request(LEAVE, on("2025-12-15", "2025-12-25"))) == [("2026", "8", "10")]


@corpus(
    ("form", "clashes"),
    (on("2026-11-24", "2026-11-26"), True),
    (on("2026-11-20", "2026-11-23", end_half="am"), True),
    (on("2026-11-20", "2026-11-30"), True),
    (on("2026-11-24", "2026-11-24", "pm", "pm"), False),  # the other ends at noon
    (on("2026-11-24", "2026-11-24", "am", "am"), True),
    (on("2026-11-20", "2026-11-20"), False),
    (on("2026-11-25", "2026-11-25"), False),
)
def test_the_same_half_day_is_never_asked_for_twice(form: dict[str, str], clashes: bool) -> None:
    other = request(LEAVE, on("2026-11-23", "2026-11-24", end_half="am", kind="sick"), id="L-0007")
    if not clashes:
        assert filled(LEAVE, form, more={"earlier_requests": [other]})
        return
    error = refused(LEAVE, form, more={"earlier_requests": [other]})
    assert (error.code, error.field, error.params["request"]) == ("overlap", "start_date", "L-0007")
    assert (error.params["start"], error.params["end"]) == (list_day_words("2026-11-23"), list_day_words("2026-11-24"))
    assert "L-0007" in render_value(error.note, "zh") and "撤回 L-0007" in render_value(error.note, "zh")
    assert "withdraw L-0007" in render_value(error.note, "en"), "what can be said in answer"


def test_what_ended_without_approval_leaves_its_days_free_and_a_process_without_days_has_none() -> None:
    for status in (Status.REJECTED, Status.WITHDRAWN, Status.REVISE):
        assert filled(LEAVE, SICK, more={"earlier_requests": [request(LEAVE, LONG, status=status)]})
    assert refused(LEAVE, SICK, more={"earlier_requests": [request(LEAVE, SICK)]}).code == "overlap", "with itself"
    taxi = {"amount": "1", "category": "transport", "reason": "x", "approver": "U2"}
    assert filled(EXPENSE, taxi, more={"earlier_requests": [request(EXPENSE, taxi)]})


HALF = st.sampled_from(["am", "pm"])
SPANS = st.lists(st.tuples(st.dates(date(2026, 11, 23), date(2027, 2, 20)), st.integers(0, 6), HALF, HALF), max_size=8)


def halves(request: Request) -> set[tuple[date, str]]:
    values = request.filled.values
    first, last = (date.fromisoformat(values[name]) for name in ("start_date", "end_date"))
    all_halves = {(first + timedelta(days=n), half) for n in range((last - first).days + 1) for half in ("am", "pm")}
    return {h for h in all_halves if (first, values["start_half"]) <= h <= (last, values["end_half"])}


@given(SPANS)
def test_no_half_day_is_taken_twice_and_no_year_overdrawn(spans: list[tuple[date, int, str, str]]) -> None:
    taken: list[Request] = []
    for n, (first, more, *both) in enumerate(spans):
        try:
            form = on(str(first), str(first + timedelta(days=more)), *both)
            found = filled(LEAVE, form, more={"earlier_requests": taken})
        except ToolError as error:
            assert error.code in ("overlap", "no_balance", "zero_days", "zero_days_estimated", "end_before_start")
            continue
        taken.append(request(LEAVE, SHORT, id=f"L-{n:04d}").model_copy(update={"filled": found}))
    together = [half for one in taken for half in halves(one)]
    assert len(together) == len(set(together))
    for year in (2026, 2027):
        assert sum(WorkCalendar().get_day_status(day)[0] for day, _ in together if day.year == year) <= 2 * 10
