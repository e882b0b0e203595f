"""Duplicates: a start that repeats a recent one, and requests for the same claim."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Protocol

from tools.spec import ToolError
from tools.workflow.engine.state import FilledForm, Request, Status
from tools.workflow.process.definition import Process
from tools.workflow.process.forms import FieldKind, Form

CLAIMING_STATUSES = frozenset({Status.WAITING, Status.REVISE, Status.REVOKING, Status.APPROVED})
"""Statuses that count as a claim; those of rejected or withdrawn requests do not."""
PAGE_SIZE = 20
"""Requests read at once, newest first."""


class RequestLoader(Protocol):
    """The part of a store that is used here."""

    async def load_requests(self, request_ids: Sequence[str]) -> tuple[Request, ...]: ...


async def reject_repeated_start(
    requests: RequestLoader,
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


def list_identical_requests(
    form: Form, request_id: str, filled: FilledForm, started: datetime, zone: tzinfo, requests: Sequence[Request]
) -> list[Request]:
    """The author's other requests for the same claim: equal in every field of the form's `identical`. Unless one of
    these fields is a date, they must also have started on the same day in `zone` (the author's)."""
    has_date = any(field.kind is FieldKind.DATE for field in form.fields if field.name in form.identical)

    def is_identical(other: Request) -> bool:
        if any(other.filled.values.get(name, "") != filled.values.get(name, "") for name in form.identical):
            return False
        return has_date or other.started.astimezone(zone).date() == started.astimezone(zone).date()

    return (
        [one for one in _list_claiming_requests(form, request_id, requests) if is_identical(one)]
        if form.identical
        else []
    )


def list_same_file_requests(
    form: Form, request_id: str, filled: FilledForm, field: str, requests: Sequence[Request]
) -> list[Request]:
    """The author's other requests that name the same file in this field, whatever else they say."""
    file = filled.values.get(field, "")
    return [
        one
        for one in _list_claiming_requests(form, request_id, requests)
        if file and one.filled.values.get(field) == file
    ]


def _list_claiming_requests(form: Form, request_id: str, others: Sequence[Request]) -> list[Request]:
    return [
        one for one in others if one.process == form.key and one.id != request_id and one.status in CLAIMING_STATUSES
    ]
