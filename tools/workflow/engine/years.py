"""The calendar years that a request has days in, so that a balance reads the requests of one year and no others."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tools.workflow.engine.state import Request, Status

DAY = re.compile(r"(\d{4})-\d{2}-\d{2}")
MOST_YEARS = 5
"""A request with days in more years than these is listed once, for any year."""
ANY_YEAR = 0


def list_years(request: Request | None) -> frozenset[int]:
    """The years between the first and the last day in its form, whatever the fields are called; none for a request
    that takes nothing from a balance: rejected or withdrawn."""
    if request is None or not (request.is_running or request.status is Status.APPROVED):
        return frozenset()
    found = [int(day[1]) for value in request.filled.values.values() if (day := DAY.fullmatch(value))]
    if not found:
        return frozenset()
    years = range(min(found), max(found) + 1)
    return frozenset(years) if len(years) <= MOST_YEARS else frozenset({ANY_YEAR})


def select_requests_of_year(requests: Iterable[Request], process: str, year: int) -> tuple[Request, ...]:
    """Those of a process that have, or may have, days in this year."""
    return tuple(one for one in requests if one.process == process and list_years(one) & {year, ANY_YEAR})


def format_year_list(person: str, process: str, year: int) -> str:
    """Whose list it is, of what."""
    return f"{person}:{process}:{year}"
