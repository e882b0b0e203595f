"""The calendar years in which a request has days, so that a balance reads only the requests of one year."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tools.workflow.engine.state import Request, Status

DAY = re.compile(r"(\d{4})-\d{2}-\d{2}")
MOST_YEARS = 5
"""A request with days in more years is listed once, under `ANY_YEAR`."""
ANY_YEAR = 0


def list_years(request: Request | None) -> frozenset[int]:
    """The years between the first and the last day in a request's form, whatever its fields are called. Empty for a
    rejected or withdrawn request, which takes nothing from a balance."""
    if request is None or not (request.is_running or request.status is Status.APPROVED):
        return frozenset()
    found = [int(day[1]) for value in request.filled.values.values() if (day := DAY.fullmatch(value))]
    if not found:
        return frozenset()
    years = range(min(found), max(found) + 1)
    return frozenset(years) if len(years) <= MOST_YEARS else frozenset({ANY_YEAR})


def select_requests_of_year(requests: Iterable[Request], process: str, year: int) -> tuple[Request, ...]:
    """The requests of a process that have, or may have, days in this year."""
    return tuple(one for one in requests if one.process == process and list_years(one) & {year, ANY_YEAR})


def format_year_list(person: str, process: str, year: int) -> str:
    """The name of the list with a person's requests of a process in a year."""
    return f"{person}:{process}:{year}"
