"""What other requests leave: days that are free, and a yearly balance."""

from datetime import date, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from bot.core.i18n import render_value
from tests.harness.corpus import corpus
from tests.tools.company import LONG, SHORT, SICK, ZHANG, filled, refused, request
from tools.languages import list_day_words
from tools.spec import ToolError
from tools.workflow.engine.state import Request, Status
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.definition import load_shipped_processes
from tools.workflow.process.earlier_requests import list_remaining_days

LEAVE, EXPENSE = load_shipped_processes()
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
    zhang = ZHANG.model_copy(update={"allowance": Decimal("5.5")})
    assert list(list_remaining_days(LEAVE.form, filled(LEAVE, ANNUAL, zhang, annual_days="20"))) == [
        ("2026", "3.5", "5.5")
    ]
    assert left(SICK) == []
    assert left(ANNUAL, request(LEAVE, on("2026-12-07", "2026-12-11", kind="sick"))) == [("2026", "8", "10")]
    other = on("2026-12-07", "2026-12-11", kind="sick")
    assert filled(LEAVE, other, annual_days="1").days == "5", "more than the allowance"


@corpus("status", Status)
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
    [
        (on("2026-11-24", "2026-11-26"), True),
        (on("2026-11-20", "2026-11-23", end_half="am"), True),
        (on("2026-11-20", "2026-11-30"), True),
        (on("2026-11-24", "2026-11-24", "pm", "pm"), False),  # the other ends at noon
        (on("2026-11-24", "2026-11-24", "am", "am"), True),
        (on("2026-11-20", "2026-11-20"), False),
        (on("2026-11-25", "2026-11-25"), False),
    ],
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
    """Every half day of a request."""
    values = request.filled.values
    first, last = (date.fromisoformat(values[name]) for name in ("start_date", "end_date"))
    all_halves = {(first + timedelta(days=n), half) for n in range((last - first).days + 1) for half in ("am", "pm")}
    return {h for h in all_halves if (first, values["start_half"]) <= h <= (last, values["end_half"])}


@given(SPANS)
def test_whatever_is_asked_for_no_half_day_is_taken_twice_and_no_year_overdrawn(
    spans: list[tuple[date, int, str, str]],
) -> None:
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
