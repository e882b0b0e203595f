"""Starts that repeat a recent one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from tools.spec import ToolError
from tools.workflow.engine.state import FilledForm, Request, Status
from tools.workflow.process.definition import Process

CLAIMING_STATUSES = frozenset({Status.WAITING, Status.REVISE, Status.REVOKING, Status.APPROVED})
"""Statuses that count as a claim; those of rejected or withdrawn requests do not."""


def reject_repeated_start(
    requests: Iterable[Request], process: Process, filled: FilledForm, now: datetime, again: str | None
) -> None:
    """Refuse a start that repeats a recent one. `requests` are the author's. `again` is the request that the author
    knowingly repeats, empty for none, or None if nobody can be asked. Raises `ToolError` `started_already`, which names
    the newest request with equal values within the form's `again_minutes`."""
    if again is None or not process.form.again_minutes:
        return
    since = now - timedelta(minutes=process.form.again_minutes)
    claims = [one for one in requests if one.process == process.key and one.status in CLAIMING_STATUSES]
    equal = [one for one in claims if one.started > since and one.filled.values == filled.values]
    newest = max(equal, key=lambda one: one.started, default=None)
    if newest is None or newest.id == again:
        return
    minutes = max(0, int((now - newest.started).total_seconds() // 60))
    when = f"{minutes} minutes ago as {newest.id}"
    message = f"the same was started {when}; the person is asked whether to do it again"
    raise ToolError("started_already", message, request=newest.id, minutes=minutes)
