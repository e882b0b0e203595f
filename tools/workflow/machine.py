"""The engine's heart: `apply(definition, request, command, now) -> (request, notices)`.

Pure: no clock, no store, no directory. Every authority rule is checked here, whoever called:
a task is decided once, by its assignee, never by the request's author; a rejection needs an opinion and
goes back to the author, whose only choices are to resubmit or to withdraw; nobody decides two levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tools.spec import ToolError
from tools.workflow.expressions import Value, holds, parse
from tools.workflow.graph import Definition, Node, NodeKind, Route
from tools.workflow.state import (
    ALLOWED,
    RULE,
    SPEAKING,
    Command,
    Decide,
    Decision,
    Event,
    Filled,
    Kind,
    Notice,
    Opinion,
    Request,
    Start,
    Status,
    Task,
    Withdraw,
)


def apply(
    definition: Definition, request: Request | None, command: Command, now: datetime
) -> tuple[Request, tuple[Notice, ...]]:
    """The request after the command, and what people have to be told. Raises `ToolError` if not allowed."""
    match command:
        case Start():
            return _start(definition, command, now)
        case Decide():
            return _decide(definition, _present(request), command, now)
        case Withdraw():
            return _withdraw(definition, _present(request), command, now)


def values_of(filled: Filled, decision: str = "") -> Mapping[str, Value]:
    """What the conditions of a definition can see. People are looked up by `person_of`, never compared."""
    return {**filled.values, **filled.numbers, "decision": decision}


def happy_path(definition: Definition, filled: Filled) -> tuple[Node, ...]:
    """The approvals and the rules this form would go through, each once, if everybody agreed."""
    values = values_of(filled, Decision.APPROVE)
    path: list[Node] = []
    node = definition.nodes[definition.start]
    while node.kind is not NodeKind.END and node not in path:
        if node.kind in (NodeKind.USER, NodeKind.SERVICE):
            path.append(node)
        node = definition.nodes[choose(node, values).to]
    return tuple(path)


def choose(node: Node, values: Mapping[str, Value]) -> Route:
    """The flow to take: the first whose condition holds; the default stands last and has none."""
    return next(r for r in node.routes if not r.condition or holds(parse(r.condition), values))


def _present(request: Request | None) -> Request:
    if request is None:
        raise ToolError("no_request", "there is no such request", request="")
    return request


def _start(definition: Definition, command: Start, now: datetime) -> tuple[Request, tuple[Notice, ...]]:
    now = now.astimezone(UTC)
    request = Request(
        id=command.request,
        process=command.process,
        definition=command.definition,
        form=command.form,
        initiator=command.initiator,
        status=Status.WAITING,
        filled=command.filled,
        started=now,
        changed=now,
    )
    move = _Move(definition, request, command.initiator, now)
    move.record("start", command.initiator, form=command.filled.values)
    return move.leave(definition.nodes[definition.start])


def _decide(
    definition: Definition, request: Request, command: Decide, now: datetime
) -> tuple[Request, tuple[Notice, ...]]:
    task = check_decision(request, command)
    move = _Move(definition, request, command.actor, now)
    move.close(task, command.decision, why="decided")
    if command.decision in SPEAKING or command.opinion:
        move.speak(task, command)
    move.change(decision=command.decision.value)
    form: dict[str, str] = {}
    if command.decision is Decision.RESUBMIT:
        filled = command.filled or request.filled
        form = filled.values
        move.change(filled=filled, round=request.round + 1)
    decided = f"{command.decision}: {command.opinion}" if command.opinion else command.decision.value
    move.record("decide", command.actor, node=task.node, task=task.id, text=decided, form=form)
    return move.leave(definition.nodes[task.node])


def check_decision(request: Request, command: Decide) -> Task:
    """The task to decide. Raises `ToolError` in a fixed order: gone, own, not the assignee, impossible."""
    task = request.task(command.task)
    if task is None:
        raise ToolError("no_task", f"there is no task {command.task}", task=command.task)
    refuse_closed(request, task)
    if task.kind is Kind.APPROVE and command.actor == request.initiator:
        raise ToolError("own_request", "nobody decides on their own request")
    if command.actor != task.assignee:
        raise ToolError("not_assignee", f"task {task.id} is not assigned to this person")
    if task.kind is Kind.APPROVE and command.actor in _deciders(request):
        raise ToolError("own_level", "this person has decided an earlier level of the request")
    if command.decision not in ALLOWED[task.kind]:
        possible = ", ".join(sorted(ALLOWED[task.kind]))
        raise ToolError("bad_decision", f"possible for task {task.id}: {possible}")
    if command.decision is Decision.REJECT and not command.opinion.strip():
        raise ToolError("missing_opinion", "a rejection needs an opinion", ask=True, field="opinion")
    return task


def refuse_closed(request: Request, task: Task) -> None:
    if not (request.running and task.open):
        raise ToolError("task_closed", f"task {task.id} is closed; it cannot be decided again")


def refuse_stranger(request: Request, actor: str) -> None:
    """Raises `ToolError` for everybody but the author."""
    if actor != request.initiator:
        raise ToolError("not_yours", f"request {request.id} belongs to somebody else")


def refuse_ended(request: Request) -> None:
    if not request.running:
        raise ToolError("not_running", f"{request.id} has ended: {request.status}", request=request.id)


def _deciders(request: Request) -> frozenset[str]:
    """Who has decided in this round."""
    return frozenset(o.by for o in request.opinions if o.round == request.round and o.decision in SPEAKING)


def _withdraw(
    definition: Definition, request: Request, command: Withdraw, now: datetime
) -> tuple[Request, tuple[Notice, ...]]:
    refuse_stranger(request, command.actor)
    refuse_ended(request)
    move = _Move(definition, request, command.actor, now)
    move.record("withdraw", command.actor, text=command.reason)
    return move.finish(Status.WITHDRAWN, text=command.reason)


class _Move:
    """One command being carried out: the request as it becomes, and the notices it causes."""

    def __init__(self, definition: Definition, request: Request, actor: str, now: datetime) -> None:
        self._definition, self._request, self._actor = definition, request, actor
        self._now = now.astimezone(UTC)
        self._notices: list[Notice] = []

    def change(self, **fields: Any) -> None:
        self._request = self._request.model_copy(update={**fields, "changed": self._now})

    def record(self, what: str, by: str, **more: Any) -> None:
        event = Event(n=len(self._request.events), at=self._now, by=by, what=what, **more)
        self.change(events=(*self._request.events, event))

    def close(self, task: Task, outcome: str, why: str) -> None:
        closed = task.model_copy(update={"outcome": str(outcome), "closed": self._now})
        self.change(tasks=tuple(closed if t.id == task.id else t for t in self._request.tasks))
        self._tell("task_closed", task=task.id, person=task.assignee, by=self._actor, why=why)

    def speak(self, task: Task, command: Decide) -> None:
        opinion = Opinion(
            task=task.id,
            node=task.node,
            by=command.actor,
            at=self._now,
            decision=command.decision,
            text=command.opinion.strip(),
            round=self._request.round,
        )
        self.change(opinions=(*self._request.opinions, opinion))

    def leave(self, node: Node) -> tuple[Request, tuple[Notice, ...]]:
        """From a node along the flows to the next wait state or end."""
        while True:
            route = choose(node, values_of(self._request.filled, self._request.decision))
            self.record("flow", RULE, node=node.id, flow=route.flow, condition=route.condition)
            node = self._definition.nodes[route.to]
            if node.kind is NodeKind.USER:
                return self._assign(node)
            if node.kind is NodeKind.END:
                return self.finish(Status(node.end), node=node.id)
            if node.kind is NodeKind.SERVICE:
                self.change(rule=node.id)
                self.record("rule", RULE, node=node.id)

    def finish(self, status: Status, node: str = "", text: str = "") -> tuple[Request, tuple[Notice, ...]]:
        """End the request and every task of it. The author is told unless it was their own doing."""
        for task in self._request.open_tasks:
            self.close(task, "closed", why=status.value)
        self.change(status=status, decision="")
        by = RULE if self._request.rule and status is Status.APPROVED else self._actor
        self.record("end", by, node=node, text=status.value)
        if self._actor != self._request.initiator:
            self._tell_end(by, status, text)
        return self._request, tuple(self._notices)

    def _tell_end(self, by: str, status: Status, text: str) -> None:
        said = [o.text for o in self._request.opinions if o.by == self._actor]
        opinion = text or (said[-1] if said else "")
        self._tell(
            "ended",
            person=self._request.initiator,
            status=status.value,
            by=by,
            opinion=opinion,
            rule=self._request.rule,
        )

    def _assign(self, node: Node) -> tuple[Request, tuple[Notice, ...]]:
        kind = Kind.REVISE if node.revises else Kind.APPROVE
        person = self._assignee(node)
        task = Task(
            id=f"{self._request.id}-{len(self._request.tasks) + 1}",
            node=node.id,
            kind=kind,
            assignee=person,
            since=self._now,
            round=self._request.round,
        )
        status = Status.REVISE if kind is Kind.REVISE else Status.WAITING
        self.change(tasks=(*self._request.tasks, task), status=status, decision="", rule="")
        self.record("assign", RULE, node=node.id, task=task.id, text=person)
        self._tell("assigned", task=task.id, person=person, kind=kind.value)
        return self._request, tuple(self._notices)

    def _assignee(self, node: Node) -> str:
        """Who gets the task. It was chosen when the form was filled in; this refuses what must never be."""
        filled = self._request.filled
        if node.revises:
            return self._request.initiator
        person = filled.people.get(node.assignee) or filled.values.get(node.assignee, "")
        if not person:
            label = {"zh": node.name, "en": node.name}
            raise ToolError("no_level", f"{node.assignee} is missing", field=node.assignee, label=label)
        if person == self._request.initiator:
            raise ToolError("own_approver", "nobody approves their own request", field=node.assignee)
        if person in _deciders(self._request):
            raise ToolError("own_level", "the same person would decide two levels", field=node.assignee)
        return person

    def _tell(self, notice: str, /, **data: str) -> None:
        self._notices.append(Notice(kind=notice, data={"request": self._request.id, **data}))
