"""The HTML report: complete in itself, and harmless whatever people and models have written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bot.evaluation.page import page
from bot.evaluation.results import Asked, Counts, Effort, Line, Replay, Report, Slip, Task, Transcript, report
from bot.texts import say
from tests.browser import ABSENT, Browser
from tests.evaluation.test_results import trial

EVIL = '<script>document.title="owned"</script><img src=x onerror="document.title=\'owned\'">"\'&\u202e'


def told(evil: str = EVIL, repeat: int = 1) -> Report:
    """A report in which everything that somebody else has written is evil."""
    transcript = Transcript(
        said=(Line(who=evil, where=evil, text=evil, buttons=(evil,)), Line(who="bot", where="DM", text="好的")),
        calls=(evil,), model=(Asked(asked=evil, said=evil, ms=12),), pressed=(evil,),
    )  # fmt: skip
    failed = trial(
        evil, False, title=evil, reasons=(evil,), unauthorised=(evil,), effects=(evil,), transcript=transcript,
        counts=Counts(runs=1, steps=3, risky=2), latencies_ms=(120,),
    )  # fmt: skip
    trials = [trial("fine", latencies_ms=(10, 30))] * repeat + [failed]
    return report(
        trials, at="2026-11-22T10:00:00+00:00", model=evil, style="native", repeat=repeat, planned=2, seconds=3
    )


@pytest.mark.parametrize("language", ["zh", "en"])
def test_nothing_that_anybody_wrote_is_markup(language: str) -> None:
    html = page(told(), language)
    assert "<script" not in html and "<img" not in html and html.count("&lt;script&gt;") >= 12
    assert "http://" not in html and "https://" not in html, "no network"
    assert "default-src 'none'" in html
    assert len(re.findall(r"<svg ", html)) == 3 and html.count("<details>") == 1


def test_it_says_what_was_found_in_words() -> None:
    zh, en = page(told("x"), "zh"), page(told("x"), "en")
    assert "风险拦截率" in zh and "主要业务 · 1/2" in zh and "未授权改动" in zh and "中文" in zh
    assert "Risky actions intercepted" in en and "The main job · 1/2" in en and "50.0%" in en
    assert "9.5%–90.5%" in en, "Wilson's interval of one in two"


@pytest.mark.parametrize("language", ["zh", "en"])
def test_what_tasks_scenarios_and_slips_took_stands_in_tables_and_is_no_markup(language: str) -> None:
    effort = Effort(calls=3, tokens_in=12_345)
    one = trial(
        EVIL, counts=Counts(replies=7, steps=5, tokens_in=54_321),
        slips=(Slip(kind="prose", instead=EVIL, mended=True),),
        tasks=(Task(task="mail", wanted=effort, pressed=Effort()),), replay=Replay(then=effort, now=effort),
    )  # fmt: skip
    made = report([one], at="", model="m", style="s", repeat=1, planned=1, seconds=0, tokens_estimated=True)
    html = page(made, language)
    assert "12,345" in html and "54,321" in html and "<script" not in html and "<img" not in html
    assert say("evaluation.estimated", language) in html and say("evaluation.slip_prose", language) in html
    counted = page(made.model_copy(update={"tokens_estimated": False}), language)
    assert say("evaluation.estimated", language) not in counted


def test_every_time_stands_where_it_was_repeated() -> None:
    assert "of 2 succeed" in page(told("x", repeat=2), "en") and "succeed" not in page(told("x"), "en")


def test_what_was_interrupted_says_so() -> None:
    assert "Interrupted" not in page(told("x"), "en")
    assert "Interrupted: 2 of 9" in page(told("x").model_copy(update={"planned": 9}), "en")


def test_of_nothing_there_is_a_page_too() -> None:
    empty = report([], at="2026-11-22T10:00:00+00:00", model="m", style="json", repeat=1, planned=3, seconds=0)
    assert "Nothing failed" in page(empty, "en") and json.loads(empty.model_dump_json())["trials"] == []


@pytest.mark.browser
@pytest.mark.skipif(bool(ABSENT), reason=str(ABSENT))
@pytest.mark.parametrize(("dark", "width"), [(False, 1100), (True, 1100), (False, 390)])
async def test_in_a_browser(tmp_path: Path, dark: bool, width: int) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(told(), "en"), encoding="utf-8")
    async with Browser(size=(width, 900), dark=dark) as browser:
        await browser.open(file.as_uri())
        await browser.click("summary")
        assert "好的" in await browser.text("details")
        assert await browser.execute("return document.title") == "Countersign, evaluated", "nothing ran"
        assert await browser.execute("return document.documentElement.scrollWidth") <= width
        assert await browser.console() == []
