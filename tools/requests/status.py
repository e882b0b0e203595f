"""Tools that show requests: the caller's own, those they got a copy of, and the path of one. The module also finds
tasks by the number of their request, which is what people know."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import Field

from tools.error_advice import select_advice
from tools.languages import choose_words
from tools.people.names import format_people_names, join_in_both_languages
from tools.privacy import classify_card, classify_request, classify_summary
from tools.requests.timeline import NOTHING_SAID, build_timeline, format_timeline, get_node_label, list_visited_elements
from tools.spec import Offer, Privacy, ProcessDiagram, ReceiptLine, TextRef, ToolError, ToolOutcome, choose_most_private
from tools.tool import PAGE, Tool, ToolArgs, ToolContext, slice_page
from tools.workflow.bpmn.graph import InvalidDefinitionError
from tools.workflow.engine.authority import build_no_request_error
from tools.workflow.engine.port import AssignedTask
from tools.workflow.engine.state import Request, Status, Task, TaskKind
from tools.workflow.process.definition import Process, format_request_line
from tools.workflow.process.forms import PERSONS

UNREADABLE = "cannot be shown: its version of the process cannot be read here; an administrator has to look"

T = TypeVar("T")
MAX_CURRENT = 5
"""Most requests whose state is looked up for one answer."""

log = logging.getLogger(__name__)


class MyRequestsArgs(ToolArgs):
    status: str = Field("", max_length=20, description=f"{', '.join(Status)}; empty: all.")
    told: bool = Field(False, description="Instead those that others told them about (cc).")
    page: int = Field(1, ge=1, le=1000, description=f"Of {PAGE} each.")


class RequestStatusArgs(ToolArgs):
    request: str = Field(max_length=40, description="Like L-0012.")
    details: bool = Field(False, description="Also what its form says, with the reason.")


class ShowProcessArgs(ToolArgs):
    name: str = Field(max_length=60, description="Number of a request, or key or name of a process.")


async def run_my_requests(context: ToolContext, args: MyRequestsArgs) -> ToolOutcome:
    status = args.status.strip().lower()
    if status and status not in [s.value for s in Status]:
        listed = ", ".join(Status)
        label = {"zh": "状态", "en": "Status"}
        message = f"status {status[:40]!r} is not one of {listed}"
        raise ToolError("bad_choice", message, field="status", label=label, choices={"zh": listed, "en": listed})
    engine, caller = context.services.engine, context.caller.id
    known = await (engine.list_cc_requests(caller) if args.told else engine.list_own_requests(caller))
    matches = [r for r in reversed(known) if r.status.value == (status or r.status)]
    shown, more = slice_page(matches, args.page)
    requests = [await describe_request(context, request) for request in shown]
    data = {"requests": requests, "more": more}
    privacy = choose_most_private(Privacy.OWN, *[await classify_summary(context, request) for request in shown])
    note = TextRef(key="result.requests", params={"n": len(matches)})
    return ToolOutcome(data=data, summary=note, privacy=Privacy.PRIVATE if args.told else privacy)


async def run_request_status(context: ToolContext, args: RequestStatusArgs) -> ToolOutcome:
    request = await require_readable_request(context, args.request)
    timeline = await build_timeline(context.services, request, context.now.tzinfo)
    language, standing = context.caller.person.language, await _describe_current_state(context, request)
    story = format_timeline(timeline, context.services.render_text, language)
    data = {**await describe_request(context, request), "timeline": story}
    said = any(note.params.get("said") not in (None, NOTHING_SAID) for note in timeline)
    privacy = Privacy.PRIVATE if said else await classify_summary(context, request)
    if args.details:
        form = (await context.services.engine.get_process(request)).form
        data["form"] = {
            field.name: choose_words(await format_people_names(context.services.directory, value.split(",")), language)
            if field.kind in PERSONS
            else value
            for field in form.fields
            if (value := request.filled.values.get(field.name))
        }
        privacy = choose_most_private(privacy, await classify_card(context, request))
    return ToolOutcome(data=data, summary=standing.text, privacy=privacy)


async def run_show_process(context: ToolContext, args: ShowProcessArgs) -> ToolOutcome:
    process = await find_process(context, args.name)
    if process is not None:
        note = TextRef(key="picture.process", params={"process": process.form.name.by_language})
        picture = ProcessDiagram(bpmn=process.bpmn, title=note, alt=note)
        shown = {"process": process.key, "picture": "shown"}
        return ToolOutcome(data=shown, summary=note, diagram=picture, privacy=Privacy.PUBLIC)
    request = await require_readable_request(context, args.name)
    process = await context.services.engine.get_process(request)
    active = tuple(visit.node for visit in request.visits if visit.node in process.definition.nodes)
    visited = list_visited_elements(process.definition, await context.services.engine.list_events(request.id))
    words = [get_node_label(process.definition, node) for node in active]
    params: dict[str, Any] = {"process": process.form.name.by_language, "request": request.id}
    title = TextRef(key="picture.request", params=params)
    where = {**params, "where": join_in_both_languages(words)}
    alt = TextRef(key="picture.where", params=where) if words else title
    picture = ProcessDiagram(
        bpmn=process.bpmn, done=tuple(d for d in visited if d not in active), active=active, title=title, alt=alt
    )
    data = {"request": request.id, "status": request.status.value, "at": [w["en"] for w in words], "picture": "shown"}
    privacy = classify_request(process, request, context.caller.id)
    return ToolOutcome(data=data, summary=alt, diagram=picture, privacy=privacy)


async def require_readable_request(context: ToolContext, request_id: str) -> Request:
    """A request that the caller may read. Raises `no_request` otherwise, as if it did not exist."""
    request = await context.services.engine.get_request(request_id)
    if await can_read_request(context, request):
        return request
    raise build_no_request_error(request_id)


async def can_read_request(context: ToolContext, request: Request) -> bool:
    """Whether the caller is a participant, a deputy of somebody who is asked about the request, or an administrator.
    The deputy of an author does not read the author's own requests."""
    caller = context.caller.person
    if caller.id in request.participants or "admin" in caller.roles:
        return True
    away = [t.assignee for t in request.open_tasks if t.kind is not TaskKind.REVISE]
    return any(
        [
            caller.id in await context.services.engine.list_deputies(person, context.now)
            for person in dict.fromkeys(away)
        ]
    )


async def load_current_requests(context: ToolContext, numbers: Sequence[str]) -> list[dict[str, Any]]:
    """The present state of requests, as in a list. Left out are requests that do not exist, that the caller may not
    read, or that the engine cannot tell."""
    return await _describe_each(context, numbers, describe_request)


async def describe_current_states(context: ToolContext, numbers: Sequence[str]) -> list[ReceiptLine]:
    """The present state of requests, in words for people; without those that `load_current_requests` leaves out."""
    return await _describe_each(context, numbers, _describe_current_state)


async def load_code_words(context: ToolContext, language: str) -> dict[str, str]:
    """Load the words of codes in forms: a process by its key, an option by its value. None while the engine is away."""
    words = dict[str, str]()
    with suppress(ToolError):
        for process in await context.services.engine.list_processes():
            options = [one for field in process.form.fields for one in field.options]
            words |= {one.value: choose_words(one.by_language, language) for one in options}
            words[process.key] = choose_words(process.form.name.by_language, language)
    return words


async def _describe_each(
    context: ToolContext, numbers: Sequence[str], describe: Callable[[ToolContext, Request], Awaitable[T]]
) -> list[T]:
    found = list[T]()
    for number in numbers[:MAX_CURRENT]:
        with suppress(ToolError):
            found.append(await describe(context, await require_readable_request(context, number)))
    return found


async def _describe_current_state(context: ToolContext, request: Request) -> ReceiptLine:
    key = request.display_status if request.waits_for or not request.is_running else "open"
    names = await format_people_names(context.services.directory, request.waits_for)
    text = TextRef(key=f"now.{key}", params={"request": request.id, "names": names})
    return ReceiptLine(text=text, privacy=await classify_summary(context, request))


async def describe_request(context: ToolContext, request: Request) -> dict[str, Any]:
    """A request in a list, for the model."""
    by = {"by": await context.get_person_name(request.initiator)} if request.initiator != context.caller.id else {}
    return {
        "request": request.id,
        "process": request.process,
        "status": request.status.value,
        **by,
        "summary": await format_request_summary(context, request),
        "waits_for": [await context.get_person_name(p) for p in request.waits_for],
        "started": request.started.astimezone(context.now.tzinfo).isoformat(timespec="minutes"),
        "since": request.changed.astimezone(context.now.tzinfo).isoformat(timespec="minutes"),
    }


async def format_request_summary(context: ToolContext, request: Request) -> str:
    """A request in one line, for the model. The line of an unreadable request says so; other requests are still
    listed."""
    try:
        process = await context.services.engine.get_process(request)
    except InvalidDefinitionError as refused:
        log.error("request %s cannot be read: %s", request.id, refused)
        return UNREADABLE
    return format_request_line(process, request.filled, "en", has_iso_days=True)


async def find_process(context: ToolContext, name: str) -> Process | None:
    """The process with this key or name, if there is one."""
    wanted = name.strip().lower()
    processes = await context.services.engine.list_processes()
    return next((p for p in processes if wanted in (p.key, p.form.name.zh, p.form.name.en.lower())), None)


MY_REQUESTS = Tool(
    name="my_requests",
    purpose="List the caller's own requests, newest first, and where each stands.",
    use_when="They ask what became of them, or you need a number.",
    avoid_when="What they have to decide: query_todo_tasks.",
    args=MyRequestsArgs,
    returns='{"requests": [{"request", "process", "status", "by"?, "summary", "waits_for", "started", '
    '"since": its last change}], "more"}',
    errors=select_advice("bad_choice"),
    example={"status": "waiting"},
    run=run_my_requests,
)
REQUEST_STATUS = Tool(
    name="request_status",
    purpose="Tell how one request has gone and whom it waits for; `timeline` can be told as it is.",
    use_when="They ask where it stands, who said what, what it asks for, or why it takes long.",
    avoid_when="All of theirs: my_requests.",
    args=RequestStatusArgs,
    returns='{"request", "status", "by"?, "summary", "waits_for", "started", "since", "form"?, '
    '"timeline": words to repeat as they are}',
    errors=select_advice("no_request"),
    example={"request": "L-0012"},
    run=run_request_status,
    offer=Offer.COMMON,
)
SHOW_PROCESS = Tool(
    name="show_process",
    purpose="Show a picture of a process, or of the way a request has gone through it.",
    use_when="They want to see it.",
    avoid_when="Words will do: request_status.",
    args=ShowProcessArgs,
    returns='{"picture": "shown", …}; people see it beside your answer',
    errors=select_advice("no_diagram", "no_font", "no_picture"),
    also=frozenset({"no_request"}),
    example={"name": "L-0012"},
    run=run_show_process,
    offer=Offer.RARE,
)


async def resolve_task(context: ToolContext, id: str) -> AssignedTask:
    """The task with this id. The number of a request means its open task; of several open tasks, the one that waits for
    the caller. Raises `ToolError`: `no_task`, `task_closed`, `several_tasks`."""
    try:
        return await context.services.engine.get_task(id)
    except ToolError as unknown:
        request: Request | None = None
        with suppress(ToolError):
            request = await context.services.engine.get_request(id)
        if request is None or not await can_read_request(context, request) or unknown.code != "no_task":
            raise
    open_tasks = request.open_tasks
    if not open_tasks:
        raise ToolError("task_closed", f"{request.id} waits for nobody: it is {request.display_status}")
    own = [task for task in open_tasks if await is_waiting_for_caller(context, task)]
    meant = own or list(open_tasks)
    if len(meant) > 1:
        names = [await format_people_names(context.services.directory, [task.assignee]) for task in meant]
        listed = ", ".join(f"{task.id} ({name['en']})" for task, name in zip(meant, names, strict=True))
        raise ToolError("several_tasks", f"of {request.id} several tasks are open: {listed}", request=request.id)
    return AssignedTask(meant[0], request)


async def is_waiting_for_caller(context: ToolContext, task: Task) -> bool:
    """Whether the caller is asked, or is a deputy of the person asked."""
    return context.caller.id in (task.assignee, *await context.services.engine.list_task_deputies(task.id, context.now))
