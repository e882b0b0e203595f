"""The days on which `deploy/qa days` runs the suite."""

import subprocess
import sys
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from tests.harness.office import TODAY
from tests.qa.days import DAYS


def test_they_are_of_every_kind_and_what_they_are_called() -> None:
    moments = {about: datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)) for day, zone, about in DAYS}
    assert all(about.startswith(f"{moment:%A}") for about, moment in moments.items())
    assert min(moments.values()) > TODAY, "the stories are told before"
    assert {moment.weekday() for moment in moments.values()} == set(range(7))
    assert {moment.year for moment in moments.values()} == {2026, 2027, 2028}
    assert {moment.utcoffset() for moment in moments.values()} >= {timedelta(hours=hours) for hours in (-11, 0, 8, 14)}
    assert {(moment.month, moment.day) for moment in moments.values()} >= {(12, 31), (2, 28), (2, 29)}
    changes = [one for one in moments.values() if (one + timedelta(days=1)).utcoffset() != one.utcoffset()]
    assert len(changes) == 2, "the beginning and the end of summer time"


def test_its_help_says_how_it_is_called() -> None:
    run = subprocess.run([sys.executable, "-m", "tests.qa.days", "--help"], capture_output=True, text=True, check=True)
    assert "Usage: deploy/qa days" in run.stdout
