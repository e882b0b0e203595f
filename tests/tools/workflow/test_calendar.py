from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from tools.workflow.calendar import Calendar


@pytest.mark.parametrize(
    ("start", "start_half", "end", "end_half", "days", "estimated"),
    [
        ("2026-09-30", "pm", "2026-10-10", "am", "3", False),  # National Day, 10-10 is a make-up day
        ("2026-10-01", "am", "2026-10-07", "pm", "0", False),
        ("2026-11-21", "am", "2026-11-22", "pm", "0", False),  # Saturday, Sunday
        ("2026-11-23", "am", "2026-11-23", "am", "0.5", False),
        ("2026-11-23", "pm", "2026-11-23", "pm", "0.5", False),
        ("2026-11-23", "am", "2026-11-23", "pm", "1", False),
        ("2026-11-23", "pm", "2026-11-24", "am", "1", False),
        ("2026-02-13", "am", "2026-02-14", "pm", "2", False),  # the Saturday is a make-up day
        ("2026-12-30", "am", "2027-01-05", "pm", "4", True),  # 2027 is not published yet
        ("2026-11-20", "am", "2026-11-29", "pm", "6", False),
    ],
)
def test_lengths(start: str, start_half: str, end: str, end_half: str, days: str, estimated: bool) -> None:
    length = Calendar().length(date.fromisoformat(start), start_half, date.fromisoformat(end), end_half)
    assert (length.days, length.estimated) == (Decimal(days), estimated)


def test_an_override_wins_and_is_certain() -> None:
    day = date(2027, 3, 1)
    assert Calendar().works(day) == (True, True)
    assert Calendar(overrides={day: False}).works(day) == (False, False)


def test_other_countries() -> None:
    assert Calendar("US").works(date(2026, 11, 26)) == (False, False), "Thanksgiving"
    assert Calendar("US").works(date(2026, 10, 1)) == (True, False)
