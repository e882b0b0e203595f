"""One file on two requests: the deciders of the other request are told. Those of the new one see it on their card."""

from __future__ import annotations

from bot.core.work_items import NotifyPerson
from bot.features.contract import Core
from bot.queue.writes import EnqueueItem
from tools.people.names import get_names_by_language
from tools.requests.duplicates import list_claims_with_file
from tools.spec import TextRef, ToolError
from tools.workflow.engine.authority import OVER_CODES
from tools.workflow.engine.state import APPROVAL_DECISIONS, TaskKind
from tools.workflow.engine.store import OutboxEvent


async def notify_of_same_files(core: Core, event: OutboxEvent) -> None:
    """Notify the deciders of other claims that a new request has the same file. If two claims come at once, the later
    event sees both."""
    if event.kind != "assigned":
        return
    engine = core.tool_services.engine
    try:
        assigned = await engine.get_task(event.data["task"])
    except ToolError as error:
        if error.code in OVER_CODES:  # closed before its card was delivered
            return
        raise
    request, task = assigned.request, assigned.task
    is_first = task.kind is TaskKind.APPROVE and not any(t.outcome for t in request.tasks if t.round == task.round)
    for file in request.filled.files if is_first else ():
        for other in await list_claims_with_file(engine, file, request.id):
            same = next(one for one in other.filled.files if one.sha256 == file.sha256)
            requester = await get_names_by_language(core.platform.directory, request.initiator)
            about = {"request": other.id, "file": same.name, "other": request.id}
            params: dict[str, str | int | dict[str, str]] = {**about, "requester": requester}
            asked = [t for t in other.tasks if t.kind is TaskKind.APPROVE]  # and did not hand it over, for example
            deciders = {t.by or t.assignee for t in asked if t.is_open or t.outcome in APPROVAL_DECISIONS}
            for person in sorted(deciders - {request.initiator, other.initiator}):
                notice = NotifyPerson(person=person, text=TextRef(key="file.same_elsewhere", params=params))
                lane, id = f"notice:{person}", f"same_file:{request.id}:{other.id}:{file.sha256[:16]}:{person}"
                await core.stores.lanes.apply_until_confirmed(lane, EnqueueItem(lane, id, notice.model_dump_json()))
