"""The HTML report: complete in itself, and harmless whatever people and models have written."""

import json

import pytest

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
    build_report,
)
from bot.ops.cli.evaluation_report import render_report_page
from tests.harness.trials import trial

EVIL = '<script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'">"\'&\u202e'


def told(evil: str = EVIL, repeat: int = 1) -> EvaluationReport:
    """A report in which everything that somebody else has written is evil."""
    transcript = Transcript(
        said=(
            TranscriptLine(who=evil, where=evil, text=evil, buttons=(evil,)),
            TranscriptLine(who="bot", where="DM", text="好的"),
        ),
        calls=(evil,),
        model=(TranscriptModelCall(asked=evil, said=evil, ms=12),),
        pressed=(evil,),
    )
    failed = trial(
        evil, False, title=evil, reasons=(evil,), unauthorised=(evil,), effects=(evil,), transcript=transcript,
        counts=RunCounts(runs=1, steps=3, risky=2), latencies_ms=(120,),
    )  # fmt: skip
    trials = [trial("fine", latencies_ms=(10, 30))] * repeat + [failed]
    return build_report(
        trials, at="2026-11-22T10:00:00+00:00", model=evil, style="native", repeat=repeat, planned=2, seconds=3
    )


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
    empty = build_report([], at="2026-11-22T10:00:00+00:00", model="m", style="json", repeat=1, planned=3, seconds=0)
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
