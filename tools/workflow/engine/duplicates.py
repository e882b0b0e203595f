"""Starts that repeat a recent one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tools.spec import ToolError
from tools.workflow.engine.enrich import RequestLists
from tools.workflow.engine.state import FilledForm, Status
from tools.workflow.process.definition import Process

CLAIMING_STATUSES = frozenset({Status.WAITING, Status.REVISE, Status.REVOKING, Status.APPROVED})
"""Statuses that count as a claim; those of rejected or withdrawn requests do not."""
PAGE_SIZE = 20
"""Requests read at once, newest first."""


async def reject_repeated_start(
    requests: RequestLists,
    request_ids: Sequence[str],
    process: Process,
    filled: FilledForm,
    now: datetime,
    again: str | None,
) -> None:
    """Refuse a start that repeats a recent one. `request_ids` are the author's requests, oldest first. `again` is the
    request that the author knowingly repeats, empty for none, or None if nobody can be asked. Raises `ToolError`
    `started_already`, which names the newest request with equal values within the form's `again_minutes`."""
    if again is None or not process.form.again_minutes:
        return
    since = now - timedelta(minutes=process.form.again_minutes)
    for end in range(len(request_ids), 0, -PAGE_SIZE):
        page = await requests.load_requests(request_ids[max(0, end - PAGE_SIZE) : end])
        for earlier in sorted(page, key=lambda one: one.started, reverse=True):
            if earlier.started <= since:
                return
            is_claim = earlier.process == process.key and earlier.status in CLAIMING_STATUSES
            if not is_claim or earlier.filled.values != filled.values:
                continue
            if earlier.id == again:
                return
            minutes = max(0, int((now - earlier.started).total_seconds() // 60))
            when = f"{minutes} minutes ago as {earlier.id}"
            message = f"the same was started {when}; the person is asked whether to do it again"
            raise ToolError("started_already", message, request=earlier.id, minutes=minutes)
