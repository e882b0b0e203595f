"""Limits on the length of a request's record. Every step reads and writes the whole record, so a limit keeps each step
quick.

These limits are checked before a command is executed, never when a record is replayed, because older records may be
longer. Commands that end a request are always possible."""

from __future__ import annotations

from pydantic import ValidationError

from tools.spec import ToolError
from tools.workflow.engine.authority import get_visit
from tools.workflow.engine.commands import AddSignCommand, CommentCommand, DecideCommand, RequestEvent, TransferCommand
from tools.workflow.engine.port import Act
from tools.workflow.engine.state import Decision, Request
from tools.workflow.engine.transitions import TransitionResult
from tools.workflow.engine.votes import compute_seat_depth

MAX_SIGN_DEPTH = 10
"""Deepest nesting of add signs by added people. Each takes three levels of JSON, of which a reader takes 200."""
MAX_HISTORY = 400
"""Most tasks and opinions together, which is about a hundred rounds."""
LENGTHENING = (Decision.RETURN, Decision.RESUBMIT)
"""Decisions after which the request goes on."""


def reject_full_record(request: Request, command: Act) -> None:
    """Refuse a command that would make the record too long. Raises `ToolError` `record_full`."""
    is_decision = isinstance(command, DecideCommand) and command.decision in LENGTHENING
    lengthens = is_decision or isinstance(command, TransferCommand | AddSignCommand | CommentCommand)
    if lengthens and len(request.tasks) + len(request.opinions) >= MAX_HISTORY:
        raise _build_full_error(request.id)
    task = request.find_task(command.task) if isinstance(command, AddSignCommand) else None
    if task and task.is_open and compute_seat_depth(get_visit(request, task).ballot, task.seat) >= MAX_SIGN_DEPTH:
        raise _build_full_error(request.id)


def require_readable(result: TransitionResult, previous: Request | None) -> None:
    """Check that a result can be read back before it is saved. Tasks and opinions taken over from `previous`, which was
    just read, are not read again, so the cost does not depend on the length of the record. Raises `ToolError`
    `record_full`."""
    read = {id(one) for one in (*previous.tasks, *previous.opinions)} if previous else set[int]()
    changed = {
        "tasks": tuple(one for one in result.request.tasks if id(one) not in read),
        "opinions": tuple(one for one in result.request.opinions if id(one) not in read),
    }
    try:
        Request.model_validate_json(result.request.model_copy(update=changed).model_dump_json())
        RequestEvent.model_validate_json(result.event.model_dump_json())
    except (ValidationError, ValueError, RecursionError):
        raise _build_full_error(result.request.id) from None


def _build_full_error(request: str) -> ToolError:
    message = f"the record of {request} is too long for this; approving, rejecting and withdrawing work"
    return ToolError("record_full", message, request=request)
