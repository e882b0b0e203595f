"""Whether a running request can go on in another version of its process: pure checks that raise `ToolError`."""

from __future__ import annotations

from collections.abc import Iterable, Set

from tools.spec import ToolError
from tools.workflow.authority import deciders
from tools.workflow.ballots import everybody
from tools.workflow.commands import Event
from tools.workflow.expressions import ExpressionRefused, check, names, parse, type_of
from tools.workflow.graph import Definition, Mode, Node
from tools.workflow.paths import asked, happy_paths, twice, values_of
from tools.workflow.process import Process
from tools.workflow.state import Kind, Request


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
    _refuse_incomparable(process.definition, request)
    paths = happy_paths(process.definition, request.filled)
    for node in asked(paths):
        if not _people(request, node):
            raise not_ready(request, ", ".join(node.who) or node.id)
    for node in asked(paths[:1]):  # in this round
        people, taken = _people(request, node), _elsewhere(request, node)
        if people <= taken if node.mode is Mode.ANY else people & taken:
            raise not_ready(request, ", ".join(node.who))
    if name := next(filter(None, (twice(path, request.filled.holders) for path in paths)), ""):
        raise not_ready(request, name)


def _people(request: Request, node: Node) -> Set[str]:
    return {person for name in node.who for person in request.filled.holders(name)}


def _elsewhere(request: Request, node: Node) -> Set[str]:
    """Who has approved, or is asked, at another node."""
    visits = (v for v in request.visits if v.kind is Kind.APPROVE and v.node != node.id)
    return deciders(request, node.id) | {seat.person for visit in visits for seat in everybody(visit.ballot)}


def _refuse_incomparable(definition: Definition, request: Request) -> None:
    """Whatever a condition looks at, also one after a rejection, has to be there, and of the right type."""
    types = {name: type_of(value) for name, value in values_of(definition, request.filled).items()}
    written = (route.condition for node in definition.nodes.values() for route in node.routes)
    for condition in filter(None, written):
        expression = parse(condition)
        if missing := sorted(names(expression) - types.keys()):
            raise not_ready(request, missing[0])
        try:
            check(expression, types)
        except ExpressionRefused as refused:
            raise not_ready(request, f"{condition}: {refused}") from None


def not_ready(request: Request, what: str) -> ToolError:
    message = f"the form of {request.id} was filled in for another version: {what}"
    return ToolError("not_ready", message, request=request.id, what=what)
