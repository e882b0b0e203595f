"""Looking at requests: one's own, what one was told about, and how one of them has gone."""

from __future__ import annotations

import logging
from typing import Any

from pydantic import Field

from tools.advice import advice
from tools.names import name_of, names_of
from tools.nodes import current, node_words, taken
from tools.paging import PAGE, page_of
from tools.privacy import privacy_of_card, privacy_of_request, privacy_of_summary
from tools.spec import Frozen, Note, Outcome, Picture, Privacy, ToolError, most_private
from tools.timeline import NOTHING_SAID, line, timeline_of
from tools.tool import Tool, Use
from tools.workflow.forms import PERSONS
from tools.workflow.graph import DefinitionRefused
from tools.workflow.process import Process, summary_of
from tools.workflow.state import Kind, Request, Status

UNREADABLE = "cannot be shown: its version of the process cannot be read here; an administrator has to look"

log = logging.getLogger(__name__)


class MyRequests(Frozen):
    status: str = Field("", max_length=20, description=f"{', '.join(Status)}; empty: all.")
    told: bool = Field(False, description="Instead those that others told them about (cc).")
    page: int = Field(1, ge=1, le=1000, description=f"Of {PAGE} each.")


class RequestStatus(Frozen):
    request_id: str = Field(max_length=40, description="Like L-0012.")
    details: bool = Field(False, description="Also what its form says, with the reason.")


class ShowProcess(Frozen):
    name: str = Field(max_length=60, description="Number of a request, or key or name of a process.")


async def run_my_requests(use: Use, args: MyRequests) -> Outcome:
    wanted = args.status.strip().lower()
    if wanted and wanted not in [s.value for s in Status]:
        listed = ", ".join(Status)
        label = {"zh": "状态", "en": "Status"}
        message = f"status {wanted[:40]!r} is not one of {listed}"
        raise ToolError("bad_choice", message, field="status", label=label, choices={"zh": listed, "en": listed})
    engine, caller = use.desk.engine, use.caller.id
    known = await (engine.told(caller) if args.told else engine.mine(caller))
    found = [r for r in reversed(known) if r.status.value == (wanted or r.status)]
    shown, more = page_of(found, args.page)
    requests = [await described_request(use, request) for request in shown]
    data = {"requests": requests, "more": more}
    privacy = most_private(Privacy.OWN, *[await privacy_of_summary(use, request) for request in shown])
    note = Note(key="result.requests", params={"n": len(found)})
    return Outcome(data=data, note=note, privacy=Privacy.PRIVATE if args.told else privacy)


async def run_request_status(use: Use, args: RequestStatus) -> Outcome:
    request = await readable(use, args.request_id)
    told = await timeline_of(use.desk, request, use.now.tzinfo)
    words = {language: line(told, use.desk.words, language) for language in ("zh", "en")}
    data = {**await described_request(use, request), "timeline": words[use.caller.person.language]}
    params: dict[str, Any] = {"request": request.id, "timeline": words}
    said = any(note.params.get("said") not in (None, NOTHING_SAID) for note in told)
    privacy = Privacy.PRIVATE if said else await privacy_of_summary(use, request)
    if args.details:
        data["form"] = await _form_of(use, request)
        privacy = most_private(privacy, await privacy_of_card(use, request))
    return Outcome(data=data, note=Note(key="result.status", params=params), privacy=privacy)


async def _form_of(use: Use, request: Request) -> dict[str, str]:
    """What a form says, by the names of its fields; people by their names."""
    form, told = (await use.desk.engine.process_of(request)).form, dict[str, str]()
    for field in form.fields:
        if value := request.filled.values.get(field.name):
            people = value.split(",") if field.kind in PERSONS else []
            told[field.name] = (await names_of(use.desk.directory, people))["en"] if people else value
    return told


async def run_show_process(use: Use, args: ShowProcess) -> Outcome:
    process = await find_process(use, args.name)
    return await (_path_of(use, args.name) if process is None else _plain(process))


async def _plain(process: Process) -> Outcome:
    """A process by itself."""
    note = Note(key="picture.process", params={"process": process.form.name.both})
    picture = Picture(bpmn=process.bpmn, title=note, alt=note)
    data = {"process": process.key, "picture": "shown"}
    return Outcome(data=data, note=note, picture=picture, privacy=Privacy.PUBLIC)


async def _path_of(use: Use, request_id: str) -> Outcome:
    """With the way that a request has gone."""
    request = await readable(use, request_id)
    process = await use.desk.engine.process_of(request)
    active = current(process.definition, request)
    done = taken(process.definition, await use.desk.engine.events(request.id))
    words = [node_words(process.definition, node) for node in active]
    params: dict[str, Any] = {"process": process.form.name.both, "request": request.id}
    title = Note(key="picture.request", params=params)
    where = {"zh": "、".join(w["zh"] for w in words), "en": ", ".join(w["en"] for w in words)}
    alt = Note(key="picture.where", params={**params, "where": where}) if words else title
    picture = Picture(
        bpmn=process.bpmn, done=tuple(d for d in done if d not in active), active=active, title=title, alt=alt
    )
    data = {"request": request.id, "status": request.status.value, "at": [w["en"] for w in words], "picture": "shown"}
    privacy = privacy_of_request(process, request, use.caller.id)
    return Outcome(data=data, note=alt, picture=picture, privacy=privacy)


async def readable(use: Use, request_id: str) -> Request:
    """A request that the caller may read. Raises `no_request` otherwise, as if it were not there."""
    request = await use.desk.engine.request(request_id)
    if await may_read(use, request):
        return request
    raise ToolError("no_request", f"there is no request {request_id[:40]!r}", request=request_id[:40])


async def may_read(use: Use, request: Request) -> bool:
    """As a participant, standing in for somebody who is asked about it, or as an administrator. An author's deputy does
    not read what is the author's own."""
    caller = use.caller.person
    if caller.id in request.participants or "admin" in caller.roles:
        return True
    away = [t.assignee for t in request.open_tasks if t.kind is not Kind.REVISE]
    return any([caller.id in await use.desk.engine.deputies(person, use.now) for person in dict.fromkeys(away)])


async def described_request(use: Use, request: Request) -> dict[str, Any]:
    """A request in a list, for the model."""
    by = {"by": await name_of(use.desk.directory, request.initiator)} if request.initiator != use.caller.id else {}
    return {
        "request": request.id,
        "process": request.process,
        "status": request.status.value,
        **by,
        "summary": await summarised(use, request),
        "waits_for": [await name_of(use.desk.directory, p) for p in request.waits_for],
        "started": request.started.astimezone(use.now.tzinfo).isoformat(timespec="minutes"),
        "since": request.changed.astimezone(use.now.tzinfo).isoformat(timespec="minutes"),
    }


async def summarised(use: Use, request: Request) -> str:
    """A request in one line, for the model. One that cannot be read says so, and hides no other of its list."""
    try:
        process = await use.desk.engine.process_of(request)
    except DefinitionRefused as refused:
        log.error("request %s cannot be read: %s", request.id, refused)
        return UNREADABLE
    return summary_of(process, request.filled, "en")


async def find_process(use: Use, name: str) -> Process | None:
    """By its key or a name of it."""
    wanted = name.strip().lower()
    processes = await use.desk.engine.processes()
    return next((p for p in processes if wanted in (p.key, p.form.name.zh, p.form.name.en.lower())), None)


MY_REQUESTS = Tool(
    name="my_requests",
    purpose="List the caller's own requests, newest first, and where each stands.",
    use_when="They ask what became of them, or you need a number.",
    avoid_when="What they have to decide: query_todo_tasks.",
    args=MyRequests,
    returns='{"requests": [{"request", "process", "status", "by"?, "summary", "waits_for", "started", '
    '"since": its last change}], "more"}',
    errors=advice("bad_choice"),
    example={"status": "waiting"},
    run=run_my_requests,
    privacy=Privacy.PRIVATE,
)
REQUEST_STATUS = Tool(
    name="request_status",
    purpose="Tell how one request has gone and whom it waits for; `timeline` can be told as it is.",
    use_when="They ask where it stands, who said what, what it asks for, or why it takes long.",
    avoid_when="All of theirs: my_requests.",
    args=RequestStatus,
    returns='{"request", "status", "by"?, "summary", "waits_for", "started", "since", "form"?, '
    '"timeline": words to repeat as they are}',
    errors=advice("no_request"),
    example={"request_id": "L-0012"},
    run=run_request_status,
    privacy=Privacy.PRIVATE,
)
SHOW_PROCESS = Tool(
    name="show_process",
    purpose="Show a picture of a process, or of the way a request has gone through it.",
    use_when="They want to see it.",
    avoid_when="Words will do: request_status.",
    args=ShowProcess,
    returns='{"picture": "shown", …}; people see it beside your answer',
    errors=advice("no_diagram", "no_font", "no_picture"),
    also=frozenset({"no_request"}),
    example={"name": "L-0012"},
    run=run_show_process,
    privacy=Privacy.PRIVATE,
    is_rare=True,
)
