"""Checks whether a running request can continue in another version of its process. Pure; raises `ToolError`."""

from __future__ import annotations

from collections.abc import Iterable

from tools.spec import ToolError
from tools.workflow.bpmn.expressions import (
    InvalidExpressionError,
    get_value_type,
    infer_type,
    list_variables,
    parse_expression,
)
from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.authority import list_other_approvers
from tools.workflow.engine.commands import RequestEvent
from tools.workflow.engine.paths import (
    build_condition_values,
    find_repeated_decider,
    list_approval_nodes,
    trace_happy_paths,
)
from tools.workflow.engine.state import Request, TaskKind
from tools.workflow.engine.votes import list_seats
from tools.workflow.process.definition import Process


def reject_migration(
    old_process: Process, new_process: Process, request: Request, events: Iterable[RequestEvent]
) -> None:
    """Refuse a migration that is impossible. Raises `ToolError` `not_movable` or `not_ready`."""
    if not request.is_running:
        raise ToolError("not_movable", f"{request.id} has ended", request=request.id, node="")
    ways = [step for event in events for step in event.steps]
    # Gateways on the path so far count too, because the request would have to pass them again.
    for passed in sorted({name for step in ways for name in (step.node, step.to)} - {""}):
        if new_process.definition.nodes.get(passed) != old_process.definition.nodes.get(passed):
            message = f"{request.id} has come through {passed!r}, which is not the same in the other version"
            raise ToolError("not_movable", message, request=request.id, node=passed)
    # The form, filled in for another version, has to fit this one. All values that this version asks for must be there,
    # and no others, or the form could not be resubmitted.
    fields = {field.name for field in new_process.form.fields}
    if unknown := sorted(request.filled.values.keys() - fields):
        raise build_not_ready_error(request, unknown[0])
    values = build_condition_values(new_process.definition, request.filled)
    types = {name: get_value_type(value) for name, value in values.items()}
    written = (route.condition for node in new_process.definition.nodes.values() for route in node.routes)
    for condition in filter(None, written):  # also those after a rejection
        expression = parse_expression(condition)
        if missing := sorted(list_variables(expression) - types.keys()):
            raise build_not_ready_error(request, missing[0])
        try:
            infer_type(expression, types)
        except InvalidExpressionError as refused:
            raise build_not_ready_error(request, f"{condition}: {refused}") from None
    paths = trace_happy_paths(new_process.definition, request.filled)
    for node in list_approval_nodes(paths):
        if not request.filled.list_people(node.who):
            raise build_not_ready_error(request, ", ".join(node.who) or node.id)
    for node in list_approval_nodes(paths[:1]):  # the path of this round
        people = {*request.filled.list_people(node.who)}
        others = [v for v in request.visits if v.kind is TaskKind.APPROVE and v.node != node.id]
        asked = {seat.person for visit in others for seat in list_seats(visit.ballot)}
        taken = asked | list_other_approvers(request, node.id)
        if people <= taken if node.mode is VotingMode.ANY else people & taken:
            raise build_not_ready_error(request, ", ".join(node.who))
    if name := next(filter(None, (find_repeated_decider(path, request.filled.resolve_people) for path in paths)), ""):
        raise build_not_ready_error(request, name)


def build_not_ready_error(request: Request, what: str) -> ToolError:
    message = f"the form of {request.id} was filled in for another version: {what}"
    return ToolError("not_ready", message, request=request.id, what=what)
