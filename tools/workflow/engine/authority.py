"""Authority over a request: pure checks that raise `ToolError`, in a fixed order, whoever calls.

First, a closed request is closed for everybody. Second, nobody decides on their own request, whatever other roles they
have. Third, the task must be the actor's. A deputy is judged as themselves *and* as the person they represent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from tools.spec import ToolError
from tools.workflow.bpmn.graph import NodeKind, ProcessDefinition
from tools.workflow.engine.commands import DecideCommand, TaskCommand, UrgeCommand, WithdrawCommand
from tools.workflow.engine.state import ALLOWED, REVOKING, Decision, Delegation, Request, Status, Task, TaskKind, Visit
from tools.workflow.engine.votes import find_seat, list_seats

URGE_EVERY = timedelta(hours=4)
MAX_URGES = 5
"""Most urges per task."""
ASK_EVERY, MAX_WITHDRAWALS = timedelta(hours=4), 5
"""The waiting time after a refused withdrawal, and the most refusals."""
MAX_PEOPLE = 20
"""Most people that one add sign, one cc, or one form field may name."""
OVER_CODES = frozenset({"no_request", "no_task", "task_closed"})
"""Errors of a task that nobody can decide any more."""


def require_task(request: Request, task_id: str) -> Task:
    """The task with this id. Raises `ToolError` `no_task`."""
    task = request.find_task(task_id)
    if task is None:
        raise build_no_task_error(task_id)
    return task


def build_no_task_error(task_id: str) -> ToolError:
    return ToolError("no_task", f"there is no task {task_id[:40]!r}", task=task_id[:40])


def build_no_request_error(request_id: str) -> ToolError:
    return ToolError("no_request", f"there is no request {request_id[:40]!r}", request=request_id[:40])


def reject_closed_task(request: Request, task: Task) -> None:
    if not (request.is_running and task.is_open):
        raise ToolError("task_closed", f"task {task.id} is closed; it cannot be decided again")


def require_author(request: Request, actor: str) -> None:
    """Raise `ToolError` `not_yours` for everybody except the author."""
    if actor != request.initiator:
        raise ToolError("not_yours", f"request {request.id} belongs to somebody else")


def require_running(request: Request) -> None:
    if not request.is_running:
        raise ToolError("not_running", f"{request.id} has ended: {request.status}", request=request.id)


def authorize_task(definition: ProcessDefinition, request: Request, command: TaskCommand, now: datetime) -> Task:
    """The task, if the actor may act on it now. A deputy must have no say of their own in the request: that say would
    be lost, and the request could not go on. Raises `ToolError`."""
    task = require_task(request, command.task)
    reject_closed_task(request, task)
    if task.kind is not TaskKind.REVISE and command.actor == request.initiator:
        raise ToolError("own_request", "nobody decides on their own request")
    if command.actor != task.assignee:
        if not _is_standing_in(task, command, now):
            raise ToolError("not_assignee", f"task {task.id} is not assigned to this person")
        reject_ineligible_people(definition, request, task, [command.actor], "")
    if task.kind is not TaskKind.REVISE and command.actor in _list_deciders(request, task):
        raise ToolError("own_level", "this person has decided another part of the request")
    return task


def authorize_decision(definition: ProcessDefinition, request: Request, command: DecideCommand, now: datetime) -> Task:
    """The task to decide. Raises `ToolError`."""
    task = authorize_task(definition, request, command, now)
    if command.decision not in ALLOWED[task.kind]:
        possible = ", ".join(sorted(ALLOWED[task.kind]))
        raise ToolError("bad_decision", f"possible for task {task.id}: {possible}")
    if command.decision in (Decision.REJECT, Decision.RETURN) and not command.opinion.strip():
        raise ToolError("missing_opinion", "a rejection needs an opinion", needs_person=True, field="opinion")
    return task


def require_return_target(definition: ProcessDefinition, request: Request, task: Task, to: str) -> str:
    """The node to return to: `to`, or the author's task if it is empty. Raises `ToolError` `bad_target`."""
    possible = list_return_targets(definition, request, task)
    if not possible or (to and to not in possible):
        raise ToolError("bad_target", f"{request.id} cannot be returned to {to!r}; possible: {possible}", field="to")
    return to or possible[0]


def list_return_targets(definition: ProcessDefinition, request: Request, task: Task) -> tuple[str, ...]:
    """The nodes that a request may be returned to from a task: the author's, then earlier steps whose approval counts.
    Nodes in a parallel part are left out, because its other half would never be asked."""
    author = [n for n in definition.revision_tasks if n in definition.alone]
    if len(request.visits) > 1 or request.arrived:
        return tuple(author)  # other opinions in the parallel part would be lost
    approved = [node for node, decision in request.decisions.items() if decision == Decision.APPROVE]
    earlier = [node for node in approved if node != task.node and node in definition.alone]
    return tuple(author + earlier)


def reject_ineligible_people(
    definition: ProcessDefinition, request: Request, task: Task, people: Iterable[str], field: str
) -> None:
    """Refuse additional deciders who are the author or have another say in the request. Raises `ToolError`."""
    seated = {s.person for s in list_seats(get_visit(request, task).ballot)}
    elsewhere = _list_deciders(request, task) | set(_list_people_asked(definition, request, task))
    for person in people:
        if person == request.initiator:
            raise ToolError("own_request", "nobody decides on their own request", field=field)
        if person in seated:
            raise ToolError("asked_already", "this person is asked already", field=field)
        if person in elsewhere:
            raise ToolError("own_level", "this person decides another part of the request", field=field)


def can_be_asked(definition: ProcessDefinition, request: Request, task: Task, person: str) -> bool:
    """Whether `reject_ineligible_people` accepts the person."""
    try:
        reject_ineligible_people(definition, request, task, [person], "")
    except ToolError:
        return False
    return True


def get_visit(request: Request, task: Task) -> Visit:
    """The visit with an open task's seat."""
    return next(v for v in request.visits if find_seat(v.ballot, task.seat))


def list_other_approvers(request: Request, besides: str) -> frozenset[str]:
    """The approvers of this round at other nodes."""
    return frozenset(
        person
        for o in request.opinions
        if o.round == request.round and o.decision == Decision.APPROVE and o.node != besides
        for person in (o.by, o.on_behalf)
        if person
    )


def authorize_urge(request: Request, command: UrgeCommand, now: datetime) -> Task:
    """The task to urge. Raises `ToolError`, which tells when urging works again, in the zone of `now`."""
    task = require_task(request, command.task)
    require_author(request, command.actor)
    reject_closed_task(request, task)
    if task.kind is TaskKind.REVISE:
        raise ToolError("own_task", "the request waits for its author")
    if len(task.urged) >= MAX_URGES:
        raise ToolError("urged_enough", f"task {task.id} has been urged {MAX_URGES} times", most=MAX_URGES)
    again = task.urged[-1] + URGE_EVERY if task.urged else now
    if again > now:
        raise _build_too_soon_error(
            "urged_lately", "it was urged less than 4 hours ago", max(again, command.opens or again), now
        )
    if command.opens:
        raise _build_too_soon_error("urged_late", "outside the working hours of who decides", command.opens, now)
    return task


def _build_too_soon_error(code: str, why: str, at: datetime, now: datetime) -> ToolError:
    when = at.astimezone(now.tzinfo).strftime("%Y-%m-%d %H:%M")
    return ToolError(code, f"{why}; it works again at {when}", at=when)


def require_participant(request: Request, actor: str) -> None:
    """Refuse a comment or copy by somebody whom the request does not concern, even if they may read it. The caller has
    to check read access before, where roles and deputies are known (`tools.requests.status.can_read_request`)."""
    if actor not in request.participants:
        message = f"only those whom {request.id} concerns comment on it or tell others"
        raise ToolError("not_concerned", message, request=request.id)


def authorize_withdrawal(request: Request, command: WithdrawCommand, now: datetime) -> None:
    """Check a withdrawal. Raises `ToolError`, which tells when a withdrawal works again, in the zone of `now`."""
    require_author(request, command.actor)
    if request.status is Status.REVOKING and not command.agree:
        raise ToolError("withdrawing", f"the withdrawal of {request.id} waits for agreement", request=request.id)
    if request.status is not Status.APPROVED:
        require_running(request)
        return
    refusal_times = [o.at for o in request.opinions if o.node == REVOKING and o.decision == Decision.REJECT]
    if len(refusal_times) >= MAX_WITHDRAWALS:
        message = f"{MAX_WITHDRAWALS} times nobody agreed to withdraw {request.id}"
        raise ToolError("kept_enough", message, most=MAX_WITHDRAWALS)
    if refusal_times and refusal_times[-1] + ASK_EVERY > now:
        message = "its withdrawal was not agreed to less than 4 hours ago"
        raise _build_too_soon_error("kept_lately", message, refusal_times[-1] + ASK_EVERY, now)


def find_last_approvers(request: Request) -> tuple[str, ...]:
    """The approvers at the node that was decided last, in this round and since the last return to an earlier step."""
    said = [o for o in request.opinions if o.round == request.round]
    returns = [n for n, o in enumerate(said, 1) if o.decision == Decision.RETURN]
    counting = [o for o in said[max(returns, default=0) :] if o.node in request.decisions]
    approvals = [o for o in counting if o.decision == Decision.APPROVE]
    return tuple(dict.fromkeys(o.on_behalf or o.by for o in approvals if o.node == approvals[-1].node))


def reject_unseen_form(found: str, seen: str) -> None:
    """Compare the hash of a form with the hash that was shown; `seen` is empty if no form was shown. Raises `ToolError`
    `request_changed`."""
    if seen and found != seen:
        raise ToolError("request_changed", "the form, its days or its approvers are not what was shown; show it again")


def reject_bad_delegation(delegation: Delegation, other_delegations: Iterable[Delegation], now: datetime) -> None:
    """Check a delegation. `other_delegations` has the person's other ones. Raises `ToolError`."""
    start, end = delegation.start, delegation.end
    if delegation.deputy == delegation.person:
        raise ToolError("bad_deputy", "nobody stands in for themselves", needs_person=True, field="deputy")
    if end <= max(start, now):
        message = "that is over, or ends before it begins; ask which days are meant"
        raise ToolError("bad_period", message, needs_person=True, field="last_day")
    if any(d.start < end and start < d.end for d in other_delegations if d.end > now):
        raise ToolError("overlapping", "somebody stands in for a part of that time already", field="first_day")


def _is_standing_in(task: Task, command: TaskCommand, now: datetime) -> bool:
    """Whether the actor is the deputy of an assignee who is away now. The author's own task has no deputies."""
    standing = command.standing
    return (
        standing is not None
        and task.kind is not TaskKind.REVISE
        and (standing.person, standing.deputy) == (task.assignee, command.actor)
        and standing.is_active_at(now)
    )


def _list_deciders(request: Request, task: Task) -> frozenset[str]:
    """The deciders of other nodes in this round, and of other seats of this visit. Agreement to a withdrawal is not a
    further level."""
    seats = {s.n for s in list_seats(get_visit(request, task).ballot)} - {task.seat}
    beside = frozenset(t.by for t in request.tasks if t.seat in seats and t.outcome == Decision.APPROVE)
    return beside if task.kind is TaskKind.REVOKE else beside | list_other_approvers(request, task.node)


def _list_people_asked(definition: ProcessDefinition, request: Request, task: Task) -> Iterator[str]:
    """Yield the people who are or will be asked at other nodes."""
    if task.kind is TaskKind.REVOKE:
        return
    for visit in request.visits:
        if visit.node != task.node:
            yield from (seat.person for seat in list_seats(visit.ballot))
    for node in definition.nodes.values():
        if node.kind is NodeKind.USER and not node.is_revision and node.id != task.node:
            yield from request.filled.list_people(node.who)
