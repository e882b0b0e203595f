from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.corpus import corpus
from tests.tools.company import CHOICE, LONG, PEOPLE, SHORT, SICK, TAXI, ZHAO, filled, refused
from tests.tools.workflow.trip import trip, user
from tools.spec import Person, ToolError
from tools.workflow.engine.state import FilledForm
from tools.workflow.process.definition import find_passing_rule, load_shipped_processes

LEAVE, EXPENSE = load_shipped_processes()
TRIP = trip(user("first", "approver"))
NOTHING = {"handover": "", "cc": "", "attachment": ""}
MANAGER = {"copy:short_leave": ("U2",)}
"""Who hears of what passes by rule."""


def test_a_leave_is_completed_and_filling_in_what_was_filled_in_changes_nothing() -> None:
    found = filled(LEAVE, {**LONG, "leave_type": "病假", "approver": "li si", "start_date": "2026/11/23"})
    assert found.values == {
        "leave_type": "sick",
        "start_date": "2026-11-23",
        "start_half": "am",
        "end_date": "2026-11-27",
        "end_half": "pm",
        "reason": "胃疼",
        "approver": "U2",
        **NOTHING,
    }
    assert (found.days, found.estimated) == ("5", False)
    assert found.people == {"second_approver": ("U3",), **MANAGER}
    for process, form in ((LEAVE, LONG), (LEAVE, SHORT), (EXPENSE, {**TAXI, "amount": "US$1,200.5"})):
        once = filled(process, form)
        assert filled(process, once.values) == once


@corpus(
    ("name", "written", "canonical", "days"),
    [
        *(("leave_type", one, "sick", "2") for one in ("病假", "Sick Leave", "SICK")),
        *(("leave_type", one, "annual", "2") for one in ("年假", "vacation")),
        ("leave_type", "调休", "comp", "2"),
        *(("end_half", one, "am", "1.5") for one in ("上午", "AM", "morning")),
        *(("end_half", one, "pm", "2") for one in ("下午", "pm")),
        *(("start_date", one, "2026-11-23", "2") for one in ("2026/11/23", "2026.11.23", "2026年11月23日")),
        *(("start_date", one, "2026-11-23", "2") for one in ("２０２６-11-23", "2026 年 11 月 23 日")),
        ("start_date", "2026-11-19", "2026-11-19", "4"),  # a day within a year may lie in the past
        ("reason", "a\x00b\x1b[31m\nc", "ab[31m\nc", "2"),
    ],
)
def test_what_people_write_is_read(name: str, written: str, canonical: str, days: str) -> None:
    found = filled(LEAVE, {**SICK, name: written})
    assert (found.values[name], found.days) == (canonical, days)


@corpus(
    ("change", "code", "field"),
    [
        ({"leave_type": ""}, "missing_field", "leave_type"),
        ({"reason": "   "}, "missing_field", "reason"),
        ({"approver": ""}, "missing_field", "approver"),
        ({"leave_type": "sabbatical"}, "bad_choice", "leave_type"),
        ({"start_half": "noon"}, "bad_choice", "start_half"),
        ({"start_date": "tomorrow"}, "bad_date", "start_date"),
        ({"start_date": "2026-02-30"}, "bad_date", "start_date"),
        ({"start_date": "2024-11-23"}, "in_the_past", "start_date"),
        ({"end_date": "2029-11-23"}, "too_far_ahead", "end_date"),
        ({"end_date": "2026-11-20"}, "end_before_start", "end_date"),
        ({"end_date": "2026-11-23", "start_half": "pm", "end_half": "am"}, "end_before_start", "end_date"),
        ({"start_date": "2026-11-21", "end_date": "2026-11-22"}, "zero_days", "end_date"),
        ({"end_date": "2027-11-30"}, "span_too_long", "end_date"),
        ({"reason": "x" * 501}, "too_long", "reason"),
        ({"days": "10"}, "days_differ", "days"),
        ({"days": "ten"}, "bad_days", "days"),
        ({"length": "10"}, "unknown_field", "length"),
        ({"user_id": "U2"}, "unknown_field", "user_id"),
        ({"approver": "张三"}, "own_approver", "approver"),
        ({"approver": "钱七"}, "unknown_person", "approver"),
        ({"approver": "Nobody"}, "unknown_person", "approver"),
        ({"approver": "Li"}, "ambiguous_person", "approver"),
    ],
)
def test_what_is_wrong_with_a_leave_is_named(change: dict[str, str], code: str, field: str) -> None:
    error = refused(LEAVE, {**SICK, **change})
    assert (error.code, error.field) == (code, field)


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
    [
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
    ],
)
def test_amounts_are_read(amount: str, currency: str, canonical: str, read_as: str) -> None:
    values = filled(EXPENSE, {**TAXI, "amount": amount, **({"currency": currency} if currency else {})}).values
    assert (values["amount"], values["currency"]) == (canonical, read_as)


@corpus(
    ("change", "code"),
    [
        ({"amount": "0"}, "bad_amount"),
        ({"amount": "-5"}, "bad_amount"),
        ({"amount": "NaN"}, "bad_amount"),
        ({"amount": "1e9"}, "bad_amount"),
        ({"amount": "Infinity"}, "bad_amount"),
        ({"amount": "1.200,50"}, "bad_amount"),
        ({"amount": "12,00"}, "bad_amount"),
        ({"amount": "one hundred"}, "bad_amount"),
        ({"amount": "9999999999999"}, "big_amount"),
        ({"amount": "1.234"}, "too_precise"),
        ({"amount": "100.5", "currency": "JPY"}, "too_precise"),
        ({"amount": "$100", "currency": "CNY"}, "two_currencies"),
        ({"amount": "100 doubloons"}, "bad_choice"),
        ({"currency": "BTC"}, "bad_choice"),
        ({"amount": ""}, "missing_field"),
        ({"category": "bribes"}, "bad_choice"),
    ],
)
def test_what_is_wrong_with_an_expense_is_named(change: dict[str, str], code: str) -> None:
    assert refused(EXPENSE, {**TAXI, **change}).code == code


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


@corpus(
    ("reference", "is_one"),
    [
        ("F0123ABCD", True),
        ("https://example.slack.com/files/U1/F0123ABCD/note.pdf", True),
        ("https://files.example.com/病假条.pdf?x=1&y=2", True),
        ("https://example.com:8443/a", True),
        ("note.pdf", False),
        ("F1", False),
        ("http://example.com/a", False),
        ("ftp://example.com/a", False),
        ("javascript:alert(1)", False),
        ("file:///etc/passwd", False),
        ("https://", False),
        ("https://localhost/a", False),
        ("https://admin:secret@example.com/a", False),
        ("https://example.com/a b", False),
        ("https://example.com/<@U1>", False),
        ("https://example.com/‮fdp.exe", False),
        ("https://[example.com/a", False),
        ("https://example.com/" + "a" * 500, False),
    ],
)
def test_an_attachment_is_a_reference_and_kept_as_it_is(reference: str, is_one: bool) -> None:
    if is_one:
        for written in (reference, f"<{reference}|note>"):
            assert filled(LEAVE, {**SICK, "attachment": written}).values["attachment"] == reference
    else:
        error = refused(LEAVE, {**SICK, "attachment": reference})
        assert (error.code, error.field, error.ask) == ("bad_attachment", "attachment", True)


@corpus(
    ("written", "canonical"),
    [
        *[("3", "3"), ("2.50", "2.5"), ("1,200", "1200"), ("０", "0"), ("", ""), ("0.000001", "0.000001")],
        *((odd, None) for odd in ("-1", "1e3", "NaN", "many", "1.0000001", "1234567890123", "1,2", "3 people")),
    ],
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
