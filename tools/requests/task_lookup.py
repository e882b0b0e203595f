"""Finds a task by its own id, or by the number of its request, which is what people know."""

from __future__ import annotations

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
        request = await _find_readable_request(context, id)
        if unknown.code != "no_task" or request is None:
            raise
    open_tasks = request.open_tasks
    if not open_tasks:
        raise ToolError("task_closed", f"{request.id} waits for nobody: it is {request.display_status}")
    own = [task for task in open_tasks if await is_waiting_for_caller(context, task)]
    meant = own or list(open_tasks)
    if len(meant) > 1:
        raise await _build_several_tasks_error(context, request, meant)
    return AssignedTask(meant[0], request)


async def _find_readable_request(context: ToolContext, id: str) -> Request | None:
    """The request with this number, if the caller may know about it."""
    try:
        request = await context.services.engine.get_request(id)
    except ToolError:
        return None
    return request if await can_read_request(context, request) else None


async def is_waiting_for_caller(context: ToolContext, task: Task) -> bool:
    """Whether the caller is asked, or is a deputy of the person asked."""
    return context.caller.id in (task.assignee, *await context.services.engine.list_task_deputies(task.id, context.now))


async def _build_several_tasks_error(context: ToolContext, request: Request, tasks: list[Task]) -> ToolError:
    descriptions = [
        f"{task.id} ({(await format_people_names(context.services.directory, [task.assignee]))['en']})"
        for task in tasks
    ]
    text = f"of {request.id} several tasks are open: {', '.join(descriptions)}"
    return ToolError("several_tasks", text, request=request.id)
