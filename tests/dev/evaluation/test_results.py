"""The figures: intervals, shares, percentiles, pass^k."""

import json
from decimal import Decimal
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.core.i18n import translate
from bot.dev.evaluation.results import (
    EvaluationReport,
    ModelEffort,
    ModelSlip,
    ReplayComparison,
    RunCounts,
    TaskEffort,
    Transcript,
    TranscriptLine,
    TranscriptModelCall,
    Trial,
    build_report,
    compute_figures,
    compute_pass_hat,
    compute_wilson_interval,
)
from bot.dev.evaluation.tables import (
    build_replay_rows,
    build_scenario_rows,
    build_slip_rows,
    build_task_rows,
    format_change,
    format_share,
)
from bot.ops.cli.evaluation_report import render_report_page
from tests.harness.trials import trial


def test_wilsons_interval() -> None:
    """Against published values (Newcombe 1998, method 3)."""
    published = {
        (0, 10): (0.0, 0.2775),
        (10, 10): (0.7225, 1.0),
        (8, 10): (0.4902, 0.9433),
        (50, 100): (0.4038, 0.5962),
    }
    for counted, interval in published.items():
        assert compute_wilson_interval(*counted) == pytest.approx(interval, abs=5e-4), counted


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share(counted: tuple[int, int]) -> None:
    passed, trials = counted
    low, high = compute_wilson_interval(passed, trials)
    assert 0 <= low <= passed / trials + 1e-12 and passed / trials - 1e-12 <= high <= 1


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.integers(1, 7))
def test_pass_hat_is_the_share_of_draws_that_all_succeed(tries: list[bool], k: int) -> None:
    draws = list(combinations(tries, k))
    expected = sum(all(draw) for draw in draws) / len(draws) if draws else None
    assert compute_pass_hat([trial(passed=one) for one in tries], k) == (pytest.approx(expected) if draws else None)


def test_figures_are_shares_of_what_was_counted_and_of_nothing_there_are_none() -> None:
    one = RunCounts(
        runs=2, steps=6, replies=10, malformed=1, called=8, worked=6, repeated=2, claimed=4, supported=3,
        tokens_in=100, tokens_cached=40, tokens_out=10, cost=Decimal("0.25"), risky=5,
    )  # fmt: skip
    found = compute_figures(
        [trial(counts=one, latencies_ms=(10, 20)), trial(passed=False, counts=one, latencies_ms=(30, 40))]
    )
    assert (found.success, found.steps, found.tool_success, found.format_errors) == (0.5, 3.0, 0.75, 0.1)
    assert (found.repeated, found.evidence, found.interception) == (0.25, 0.75, 1.0)
    assert (found.tokens_in, found.tokens_cached, found.tokens_out, found.cost) == (200, 80, 20, Decimal("0.50"))
    assert (found.p50_ms, found.p95_ms, found.every_time) == (30, 40, None)
    found = compute_figures(
        [trial(passed=False, unauthorised=("x",), counts=RunCounts(risky=4)), trial(counts=RunCounts(risky=4))]
    )
    assert (found.risky, found.unauthorised, found.interception) == (8, 1, 0.875)
    found = compute_figures([])
    assert found.success is found.interception is found.evidence is found.p50_ms is None
    assert (found.low, found.high) == (0.0, 1.0)


def test_a_hundred_percent_is_all_of_them_and_pass_hat_a_mean_over_scenarios() -> None:
    shown = {None: "–", 0: "0%", 1: "100%", 0.9999: "99.9%", 0.5: "50.0%", 0.976: "97.6%"}
    assert {value: format_share(value) for value in shown} == shown
    assert compute_pass_hat([trial("a"), trial("a"), trial("b"), trial("b", False)], 2) == 0.5


def report(*trials: Trial, **more: Any) -> EvaluationReport:
    made = {"at": "2026-11-22T10:00:00+00:00", "model": "m", "style": "native", "repeat": 1, "planned": 9, "seconds": 1}
    return build_report(trials, **{**made, **more})


def test_a_report_is_read_back_from_its_json() -> None:
    made = report(trial("a"), trial("b", False, language="en", category="mail", reasons=("because",)), seconds=1.5)
    assert EvaluationReport.model_validate_json(made.model_dump_json()) == made
    assert set(made.by_category) == {"main", "mail"} and made.by_language["en"].passed == 0


def test_tasks_scenarios_replays_and_slips_have_rows_of_their_figures() -> None:
    def asked(calls: int, tokens: int) -> TaskEffort:
        wanted, pressed = ModelEffort(calls=calls, tokens_in=tokens), ModelEffort(calls=1, tokens_in=100)
        return TaskEffort(task="leave", wanted=wanted, pressed=pressed)

    told = report(trial("a", tasks=(asked(1, 100),)), trial("b", tasks=(asked(2, 300),)))
    assert build_task_rows(told, "en")[1] == ("Leave, in one message", "2", "1.50", "200", "2.50", "300")
    assert build_task_rows(report(trial()), "en")[1:] == [], "of none there is no row"
    counts = RunCounts(replies=4, steps=2, tokens_in=10_000, tokens_cached=2_000, tokens_out=100)
    rows = build_scenario_rows(report(trial("a", counts=counts), trial("a", False, counts=RunCounts(replies=2))), "en")
    assert rows[1] == ("a", "1/2", "3", "1", "5,000 / 1,000 / 50")
    then, now = ModelEffort(calls=3, tokens_in=1_000), ModelEffort(calls=2, tokens_in=600)
    rows = build_replay_rows(report(trial("a", replay=ReplayComparison(then=then, now=now, left=1))), "en")
    assert rows[1] == ("a", "passed", "3 → 2", "1,000 → 600", "-40%", "1")
    unknown = ReplayComparison(then=ModelEffort(calls=3), now=now, wanting=2)
    assert build_replay_rows(report(trial("a", False, replay=unknown)), "zh")[1][3:] == ("– → 600", "–", "−2")
    changes = {(0, 5): "–", (1_000, 1_001): "±0%", (1_000, 999): "±0%", (10, 20): "+100%"}
    assert {change: format_change(*change) for change in changes} == changes
    slip = ModelSlip(kind="claims", instead="send_email", mended=True)
    left = slip.model_copy(update={"mended": False})
    rows = build_slip_rows(report(trial("a", slips=(slip, slip)), trial("b", False, slips=(slip, left))), "en")
    assert rows[1] == ("Claims what was not done", "4", "3", "1")


# The HTML report: complete in itself, and harmless whatever people and models have written


AT = "2026-11-22T10:00:00+00:00"
EVIL = '<script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'">"\'&\u202e'


def told(evil: str = EVIL, repeat: int = 1) -> EvaluationReport:
    """A report in which everything that somebody else has written is evil."""
    lines = (
        TranscriptLine(who=evil, where=evil, text=evil, buttons=(evil,)),
        TranscriptLine(who="bot", where="DM", text="好的"),
    )
    model = (TranscriptModelCall(asked=evil, said=evil, ms=12),)
    failed = trial(
        evil, False, title=evil, reasons=(evil,), unauthorised=(evil,), effects=(evil,), latencies_ms=(120,),
        transcript=Transcript(said=lines, calls=(evil,), model=model, pressed=(evil,)),
        counts=RunCounts(runs=1, steps=3, risky=2),
    )  # fmt: skip
    trials = [trial("fine", latencies_ms=(10, 30))] * repeat + [failed]
    return build_report(trials, at=AT, model=evil, style="native", repeat=repeat, planned=2, seconds=3)


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "en_US.UTF-8")


def test_nothing_that_anybody_wrote_is_markup() -> None:
    html = render_report_page(told())
    assert "<script" not in html and "<img" not in html and html.count("&lt;script&gt;") >= 12
    assert "http://" not in html and "https://" not in html, "no network"
    assert "default-src 'none'" in html


def test_it_says_in_words_what_was_found_how_often_and_whether_it_was_interrupted() -> None:
    en = render_report_page(told("x"))
    assert "Risky actions intercepted" in en and "Main job" in en and "50.0%" in en and "好的" in en
    assert "9.5%–90.5%" in en, "Wilson's interval of one in two"
    assert "All 2 succeed" in render_report_page(told("x", repeat=2))
    assert "succeed" not in en and "Interrupted" not in en
    assert "Interrupted: 2 of 9" in render_report_page(told("x").model_copy(update={"planned": 9}))
    empty = build_report([], at=AT, model="m", style="json", repeat=1, planned=3, seconds=0)
    assert "Nothing failed" in render_report_page(empty) and json.loads(empty.model_dump_json())["trials"] == []


def test_what_tasks_scenarios_and_slips_took_stands_in_tables() -> None:
    effort = ModelEffort(calls=3, tokens_in=12_345)
    one = trial(
        EVIL,
        counts=RunCounts(replies=7, steps=5, tokens_in=54_321),
        slips=(ModelSlip(kind="prose", instead=EVIL, mended=True),),
        tasks=(TaskEffort(task="mail", wanted=effort, pressed=ModelEffort()),),
        replay=ReplayComparison(then=effort, now=effort),
    )
    made = build_report([one], at="", model="m", style="s", repeat=1, planned=1, seconds=0, tokens_estimated=True)
    html = render_report_page(made)
    assert "12,345" in html and "54,321" in html and "<script" not in html and "<img" not in html
    assert translate("evaluation.estimated", "en") in html and translate("evaluation.slip_prose", "en") in html
    counted = render_report_page(made.model_copy(update={"tokens_estimated": False}))
    assert translate("evaluation.estimated", "en") not in counted
