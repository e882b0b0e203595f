"""Which task is meant: by its own id, or by the number of its request, which is what people know."""

from __future__ import annotations

from tools.names import names_of
from tools.requests import may_read
from tools.spec import ToolError
from tools.tool import Use
from tools.workflow.engine import Assigned
from tools.workflow.state import Request, Task


async def find_task(use: Use, said: str) -> Assigned:
    """The task of this id; of a request's number its open task, of several the one that waits for the caller.
    Raises `ToolError`: `no_task`, `task_closed`, `several_tasks`."""
    try:
        return await use.desk.engine.task(said)
    except ToolError as unknown:
        request = await _request(use, said)
        if unknown.code != "no_task" or request is None:
            raise
    open_tasks = request.open_tasks
    if not open_tasks:
        raise ToolError("task_closed", f"{request.id} waits for nobody: it is {request.standing}")
    own = [task for task in open_tasks if await waits_for_caller(use, task)]
    meant = own or list(open_tasks)
    if len(meant) > 1:
        raise await _ask_which(use, request, meant)
    return Assigned(meant[0], request)


async def _request(use: Use, said: str) -> Request | None:
    """The request of this number, if the caller may know of it."""
    try:
        request = await use.desk.engine.request(said)
    except ToolError:
        return None
    return request if await may_read(use, request) else None


async def waits_for_caller(use: Use, task: Task) -> bool:
    """Whether the caller is asked, or stands in for who is."""
    return use.caller.id in (task.assignee, *await use.desk.engine.stand_ins(task.id, use.now))


async def _ask_which(use: Use, request: Request, tasks: list[Task]) -> ToolError:
    listed = [f"{task.id} ({(await names_of(use.desk.directory, [task.assignee]))['en']})" for task in tasks]
    text = f"of {request.id} several tasks are open: {', '.join(listed)}"
    return ToolError("several_tasks", text, request=request.id)
