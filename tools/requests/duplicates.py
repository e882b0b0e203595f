"""Card fields about other requests for the same claim, for the decider, and for the author before confirming."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tools.people.names import get_names_by_language, join_in_both_languages
from tools.spec import AttachedFile, CardField, TextRef
from tools.tool import ToolContext
from tools.workflow.engine.port import CLAIMING_STATUSES, Engine
from tools.workflow.engine.state import FilledForm, Request, Status
from tools.workflow.process.definition import Process
from tools.workflow.process.earlier_requests import list_overlaps
from tools.workflow.process.forms import FieldKind

MAX_REQUESTS = 5
"""Most other requests that one field names; the newest are kept."""


async def build_identical_fields(
    context: ToolContext, process: Process, filled: FilledForm, author: str, started: datetime, request_id: str = ""
) -> tuple[CardField, ...]:
    """Fields about the author's other requests for the same claim, by the form's `identical`; empty for a form without
    it. `request_id` is the request itself, once it has a number."""
    form, values = process.form, filled.values
    if not form.identical:
        return ()
    person = await context.services.directory.find_person(author)
    zone = person.zone if person else context.now.tzinfo
    own = [one for one in await context.services.engine.list_own_requests(author) if one.process == form.key]
    claims = [one for one in own if one.id != request_id and one.status in CLAIMING_STATUSES]
    has_date = any(field.kind is FieldKind.DATE for field in form.fields if field.name in form.identical)

    def is_identical(other: Request) -> bool:
        """Whether the claim is the same. Without a date among the fields, it must also have started on the same day."""
        if any(other.filled.values.get(name, "") != values.get(name, "") for name in form.identical):
            return False
        return has_date or other.started.astimezone(zone).date() == started.astimezone(zone).date()

    alike = [one for one in claims if is_identical(one)]
    fields = [_build_requests_field(context, "identical", alike)] if alike else []
    for field in form.fields:
        if field.name not in form.identical or field.kind is not FieldKind.ATTACHMENT or not values.get(field.name):
            continue
        # earlier requests with the same receipt, whatever else they say
        same = [one for one in claims if one.filled.values.get(field.name) == values[field.name]]
        if same := [one for one in same if one not in alike]:
            label = {"zh": f"同一{field.label.zh}", "en": f"Same {field.label.en.lower()}"}
            fields.append(_build_requests_field(context, label, same))
    return tuple(fields)


async def build_returned_fields(context: ToolContext, process: Process, filled: FilledForm) -> tuple[CardField, ...]:
    """Notices about the caller's own requests that came back to them and ask for some of the same days; such a request
    can be handed in again."""
    if process.form.days is None:
        return ()
    own = await context.services.engine.list_own_requests(context.caller.id)
    back = [one for one in own if one.process == process.key and one.status is Status.REVISE]
    return tuple(
        CardField(label="notice", value=TextRef(key="fact.came_back", params={"request": one.id}))
        for one, _ in list_overlaps(process.form, filled.values, back)
    )


async def build_same_bytes_fields(
    context: ToolContext, filled: FilledForm, author: str, reader: str, request_id: str = ""
) -> tuple[CardField, ...]:
    """Fields about other claims with a file of the same bytes, whatever its name and whoever made them. If the reader
    is the author, only about their own claims."""
    fields = list[CardField]()
    for file in filled.files:
        others = await list_claims_with_file(context.services.engine, file, request_id)
        shown = [one for one in others if one.initiator == author or reader != author]
        if not shown:
            continue
        newest = sorted(shown, key=lambda one: one.started, reverse=True)[:MAX_REQUESTS]
        named = [(one, await get_names_by_language(context.services.directory, one.initiator)) for one in newest]
        claims = join_in_both_languages(
            {
                "zh": f"{one.id}（{name['zh']}，{_format_standing(context, one, 'zh')}）",
                "en": f"{one.id} ({name['en']}, {_format_standing(context, one, 'en')})",
            }
            for one, name in named
        )
        params: dict[str, Any] = {"file": file.name, "requests": claims}
        fields.append(CardField(label="same_file", value=TextRef(key="fact.same_file", params=params)))
    return tuple(fields)


async def list_claims_with_file(engine: Engine, file: AttachedFile, request_id: str) -> list[Request]:
    """Other requests that count as a claim and have a file of these bytes, oldest first."""
    found = await engine.list_requests_with_file(file.sha256) if file.sha256 else ()
    return [
        one
        for one in found
        if one.id != request_id
        and one.status in CLAIMING_STATUSES
        and any(other.sha256 == file.sha256 for other in one.filled.files)
    ]


def _build_requests_field(context: ToolContext, label: str | dict[str, str], requests: Sequence[Request]) -> CardField:
    newest = sorted(requests, key=lambda one: one.started, reverse=True)[:MAX_REQUESTS]
    shown = [(one.id, _format_standing(context, one, "zh"), _format_standing(context, one, "en")) for one in newest]
    named = join_in_both_languages({"zh": f"{id}（{zh}）", "en": f"{id} ({en})"} for id, zh, en in shown)
    if more := len(requests) - len(newest):
        named = {"zh": f"{named['zh']} 等 {len(requests)} 个", "en": f"{named['en']} and {more} more"}
    return CardField(label=label, value=TextRef(key="fact.identical", params={"requests": named}))


def _format_standing(context: ToolContext, request: Request, language: str) -> str:
    return context.services.render_text(TextRef(key=f"status.{request.display_status}"), language).lower()
