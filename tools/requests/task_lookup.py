"""Finds a task by its own id, or by the number of its request, which is what people know."""

from __future__ import annotations

from contextlib import suppress

from tools.people.names import format_people_names
from tools.requests.status import can_read_request
from tools.spec import ToolError
from tools.tool import ToolContext
from tools.workflow.engine.port import AssignedTask
from tools.workflow.engine.state import Request, Task


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
