"""Whether a running request can go on in another version of its process: pure checks that raise `ToolError`."""

from __future__ import annotations

from collections.abc import Iterable

from tools.spec import ToolError
from tools.workflow.commands import Event
from tools.workflow.expressions import ExpressionRefused
from tools.workflow.graph import NodeKind
from tools.workflow.paths import happy_path
from tools.workflow.process import Process
from tools.workflow.state import Request


def refuse_migration(before: Process, after: Process, request: Request, events: Iterable[Event]) -> None:
    """Raises `not_movable` or `not_ready`."""
    if not request.running:
        raise ToolError("not_movable", f"{request.id} has ended", request=request.id, node="")
    _refuse_passed(before, after, request, events)
    _refuse_unready(after, request)


def _refuse_passed(before: Process, after: Process, request: Request, events: Iterable[Event]) -> None:
    """Whatever it has come through has to be the same in both versions, gateways too: they would have to be gone
    through again. Raises `ToolError` `not_movable`."""
    ways = [step for event in events for step in event.steps]
    for node in sorted({name for step in ways for name in (step.node, step.to)} - {""}):
        if after.definition.nodes.get(node) != before.definition.nodes.get(node):
            message = f"{request.id} has come through {node!r}, which is not the same in the other version"
            raise ToolError("not_movable", message, request=request.id, node=node)


def _refuse_unready(process: Process, request: Request) -> None:
    """Its form was filled in for another version: all that this one will ask of it has to be there already, and
    nothing else, or it could not be resubmitted. Raises `ToolError` `not_ready`."""
    fields = {field.name for field in process.form.fields}
    if unknown := sorted(request.filled.values.keys() - fields):
        raise not_ready(request, unknown[0])
    try:
        path = happy_path(process.definition, request.filled)
    except ExpressionRefused as refused:
        raise not_ready(request, str(refused)) from None
    for node in path:
        asked = node.kind is NodeKind.USER and not node.revises
        if asked and not any(request.filled.holders(name) for name in node.who):
            raise not_ready(request, ", ".join(node.who) or node.id)


def not_ready(request: Request, what: str) -> ToolError:
    message = f"the form of {request.id} was filled in for another version: {what}"
    return ToolError("not_ready", message, request=request.id, what=what)
