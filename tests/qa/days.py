"""`deploy/qa days`: the suite on other days, in other zones and in other orders. What fails there is a test, or a part
of the bot, that depends on the day on which it runs or on what ran before it.

Every program of a run lives on that day, the Redis server too, by a small library before the C library; so it needs
Linux and `cc`. Durations are measured as ever.
"""

import os
import subprocess
import sys
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import typer

from tests.qa.bench.outside import ROOT, NotMeasured
from tests.qa.bench.simulated_time import simulated_time

SUITE = (sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "-m", "not slow")
DAYS = (
    ("2026-12-05T23:40", "Pacific/Pago_Pago", "Saturday, at the end of the day in UTC−11"),
    ("2026-12-13T09:00", "Asia/Shanghai", "Sunday"),
    ("2026-12-31T23:50", "UTC", "Thursday, the last minutes of 2026"),
    ("2027-02-05T17:00", "Asia/Shanghai", "Friday, the eve of the Spring Festival of 2027"),
    ("2027-02-28T00:10", "Pacific/Kiritimati", "Sunday, 28 February, at the beginning of the day in UTC+14"),
    ("2027-03-14T01:59", "America/New_York", "Sunday, the beginning of summer time, before the hour that is left out"),
    ("2027-06-15T12:00", "Pacific/Pago_Pago", "Tuesday"),
    ("2027-09-29T10:00", "Asia/Shanghai", "Wednesday, before the National Day"),
    ("2027-10-31T02:30", "Europe/Berlin", "Sunday, the end of summer time, in the hour that comes twice"),
    ("2027-12-31T12:00", "Pacific/Kiritimati", "Friday, the last day of 2027"),
    ("2028-01-25T20:00", "UTC", "Tuesday, the eve of the Spring Festival of 2028"),
    ("2028-02-28T23:50", "Asia/Shanghai", "Monday, 28 February of a leap year"),
    ("2028-02-29T12:00", "Pacific/Kiritimati", "Tuesday, 29 February"),
    ("2028-12-30T08:00", "Pacific/Pago_Pago", "Saturday, the day before the last of 2028"),
)
"""When it is, by the clock of the zone, and the zone (as `TZ`). None lies before the day of the
stories: what they store would come from the future."""


def run_days(
    words: list[str] = typer.Argument(None, help="Passed on to pytest: paths, -k WORD, …"),  # noqa: B008
    only: int = typer.Option(0, min=0, max=len(DAYS), help="Only this row of the table, from 1 on."),
) -> None:
    """Runs what proves every promise on each day of a table, each day in another order, some minutes a day. Exit code
    1 if anything failed."""
    rows, failed = list(enumerate(DAYS, 1)), list[int]()
    try:
        with simulated_time() as at:
            for number, (day, zone, about) in rows[only - 1 : only] if only else rows:
                moment = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
                at.move_on(moment.timestamp() - at.now_s())
                print(f"== {number}. {day} {zone}: {about}", flush=True)
                began = time.monotonic()
                env, order = {**os.environ, **at.environment, "TZ": zone}, f"--random-order-seed={number}"
                code = subprocess.run([*SUITE, order, *(words or [])], cwd=ROOT, env=env).returncode
                failed += [number] if code else []
                ended = f"{'FAILED' if code else 'passed'} in {time.monotonic() - began:.0f} s"
                print(f"== {number}. {ended}", flush=True)
    except NotMeasured as error:
        sys.exit(str(error))
    sys.exit(f"Failed: {', '.join(map(str, failed))}." if failed else 0)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    app.command()(run_days)
    app(prog_name="deploy/qa days")
