"""The figures: intervals, shares, percentiles, pass^k."""

from decimal import Decimal
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.dev.evaluation.results import (
    EvaluationReport,
    ModelEffort,
    ModelSlip,
    ReplayComparison,
    RunCounts,
    TaskEffort,
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
from tests.harness.trials import trial


def test_wilsons_interval(subtests: pytest.Subtests) -> None:
    """Against published values (Newcombe 1998, method 3)."""
    for passed, trials, low, high in [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (8, 10, 0.4902, 0.9433),
        (50, 100, 0.4038, 0.5962),
    ]:
        with subtests.test(passed=passed):
            assert compute_wilson_interval(passed, trials) == pytest.approx((low, high), abs=5e-4)


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


def test_a_report_is_read_back_from_its_json() -> None:
    trials = [trial("a"), trial("b", False, language="en", category="mail", reasons=("because",))]
    made = build_report(
        trials, at="2026-11-22T10:00:00+00:00", model="m", style="text", repeat=1, planned=3, seconds=1.5
    )
    assert EvaluationReport.model_validate_json(made.model_dump_json()) == made
    assert set(made.by_category) == {"main", "mail"} and made.by_language["en"].passed == 0
    assert "properties" in EvaluationReport.model_json_schema()


def whole(*trials: Trial, estimated: bool = True) -> EvaluationReport:
    return build_report(
        trials, at="2026-11-22T10:00:00+00:00", model="m", style="native", repeat=1, planned=9, seconds=1,
        tokens_estimated=estimated,
    )  # fmt: skip


def test_tasks_scenarios_replays_and_slips_have_rows_of_their_figures() -> None:
    def asked(calls: int, tokens: int) -> TaskEffort:
        wanted, pressed = ModelEffort(calls=calls, tokens_in=tokens), ModelEffort(calls=1, tokens_in=100)
        return TaskEffort(task="leave", wanted=wanted, pressed=pressed)

    told = whole(trial("a", tasks=(asked(1, 100),)), trial("b", tasks=(asked(2, 300),)))
    assert build_task_rows(told, "en")[1] == ("Leave, in one message", "2", "1.50", "200", "2.50", "300")
    assert build_task_rows(whole(trial()), "en")[1:] == [], "of none there is no row"
    counts = RunCounts(replies=4, steps=2, tokens_in=10_000, tokens_cached=2_000, tokens_out=100)
    rows = build_scenario_rows(whole(trial("a", counts=counts), trial("a", False, counts=RunCounts(replies=2))), "en")
    assert rows[1] == ("a", "1/2", "3", "1", "5,000 / 1,000 / 50")
    then, now = ModelEffort(calls=3, tokens_in=1_000), ModelEffort(calls=2, tokens_in=600)
    rows = build_replay_rows(whole(trial("a", replay=ReplayComparison(then=then, now=now, left=1))), "en")
    assert rows[1] == ("a", "passed", "3 → 2", "1,000 → 600", "-40%", "1")
    unknown = ReplayComparison(then=ModelEffort(calls=3), now=now, wanting=2)
    assert build_replay_rows(whole(trial("a", False, replay=unknown)), "zh")[1][3:] == ("– → 600", "–", "−2")
    assert [format_change(0, 5), format_change(1_000, 1_001), format_change(1_000, 999), format_change(10, 20)] == [
        "–",
        "±0%",
        "±0%",
        "+100%",
    ]
    slip = ModelSlip(kind="claims", instead="send_email", mended=True)
    left = slip.model_copy(update={"mended": False})
    rows = build_slip_rows(whole(trial("a", slips=(slip, slip)), trial("b", False, slips=(slip, left))), "en")
    assert rows[1] == ("Claims what was not done", "4", "3", "1")
