"""One command being carried out: the request as it becomes, and what it causes.

Tokens move as BPMN says (clauses 10 and 13): an exclusive gateway takes one way, a parallel one all, and waits for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tools.spec import ToolError
from tools.workflow import authority
from tools.workflow.ballots import ballot_of, changed, seat_of, verdict, waiting
from tools.workflow.commands import Command, Event, Notice, Step, TaskCommand
from tools.workflow.graph import INITIATOR, Definition, Mode, Node, NodeKind, Topic
from tools.workflow.paths import choose, values_of
from tools.workflow.state import RULE, Ballot, Decision, Kind, Opinion, Request, Seat, Status, Task, Visit

ENDS: Mapping[Kind, Mapping[str, Status]] = {
    Kind.REVOKE: {Decision.APPROVE: Status.WITHDRAWN, Decision.REJECT: Status.APPROVED},
}


@dataclass(frozen=True, slots=True)
class Applied:
    """What a command makes of a request."""

    request: Request
    notices: tuple[Notice, ...]
    event: Event


class Move:
    """One command being carried out: the request as it becomes, and what it causes."""

    def __init__(self, definition: Definition, request: Request, command: Command, now: datetime) -> None:
        self.definition, self.request, self.now = definition, request, now
        self._command = command
        self._notices: list[Notice] = []
        self._steps: list[Step] = []
        self._opened: list[str] = []
        self._closed: list[str] = []

    def done(self) -> Applied:
        via = {"fire": "timer", "migrate": "command"}.get(self._command.kind, "button")
        event = Event(
            n=self.request.events,
            at=self.now,
            command=self._command,
            via=via,
            steps=tuple(self._steps),
            opened=tuple(self._opened),
            closed=tuple(self._closed),
            status=self.request.status,
            previous=self.request.head,
        ).sealed()
        self.change(events=event.n + 1, head=event.hash)
        return Applied(self.request, tuple(self._notices), event)

    def change(self, **fields: Any) -> None:
        self.request = self.request.model_copy(update={**fields, "changed": self.now})

    def tell(self, notice: str, /, **data: str) -> None:
        self._notices.append(Notice(kind=notice, data={"request": self.request.id, **data}))

    # Tokens

    def leave(self, node: Node, decision: str = "") -> None:
        """From a node along its flows."""
        values = values_of(self.definition, self.request.filled, decision, self.request.decisions)
        for route in choose(node, values):
            self._steps.append(Step(node=node.id, flow=route.flow, condition=route.condition, to=route.to))
            self.enter(route.to, route.flow, decision)

    def enter(self, name: str, flow: str = "", decision: str = "") -> None:
        node = self.definition.nodes[name]
        match node.kind:
            case NodeKind.USER:
                self._ask(node)
            case NodeKind.END:
                self.finish(Status(node.end))
            case NodeKind.PARALLEL:
                self._arrive(node, flow, decision)
            case NodeKind.SERVICE:
                self._serve(node)
                self.leave(node, decision)
            case _:
                self.leave(node, decision)

    def _arrive(self, node: Node, flow: str, decision: str) -> None:
        """A parallel gateway waits for every incoming flow."""
        arrived = {*self.request.arrived, flow}
        complete = arrived.issuperset(node.incoming)
        self.change(arrived=tuple(sorted(arrived - set(node.incoming) if complete else arrived)))
        if complete:
            self.leave(node, decision)

    def _serve(self, node: Node) -> None:
        self._steps.append(Step(node=node.id))
        match node.topic:
            case Topic.RULE:
                self.change(rule=node.id)
            case Topic.CC:
                self.inform(self.request.filled.holders(node.id), RULE)
            case Topic.MAIL:
                self.tell("mail", node=node.id, person=self.request.initiator)

    def inform(self, people: Iterable[str], by: str) -> bool:
        """Whoever does not know of the request yet; False if everybody does."""
        fresh = [p for p in dict.fromkeys(people) if p not in self.request.cc and p != self.request.initiator]
        self.change(cc=(*self.request.cc, *fresh))
        for person in fresh:
            self.tell("told", person=person, by=by)
        return bool(fresh)

    def finish(self, status: Status, text: str = "") -> None:
        """End the request and every task of it. The author is told unless it was their own doing."""
        kept = self.request.status is Status.REVOKING and status is Status.APPROVED
        self.close_all(status.value)
        self.change(status=status)
        by = RULE if self.request.rule and status is Status.APPROVED and not kept else self._command.actor
        if self._command.actor != self.request.initiator:
            self._tell_end("kept" if kept else status.value, by, text)

    def _tell_end(self, status: str, by: str, text: str) -> None:
        said = next((o for o in reversed(self.request.opinions) if o.by == by), None)
        data = {"opinion": text or (said.text if said else ""), "behalf": said.on_behalf if said else ""}
        self.tell("ended", person=self.request.initiator, status=status, by=by, rule=self.request.rule, **data)

    def forget(self, nodes: Set[str]) -> None:
        """What was decided there counts no longer."""
        self.change(decisions={k: v for k, v in self.request.decisions.items() if k not in nodes})

    # People

    def _ask(self, node: Node) -> None:
        """Opens a user task."""
        self.forget({node.id})
        self.change(rule="")
        if node.revises:
            self.visit(node.id, Kind.REVISE, node.mode, [self.request.initiator], Status.REVISE)
        else:
            self.visit(node.id, Kind.APPROVE, node.mode, self._people(node), Status.WAITING)

    def _people(self, node: Node) -> list[str]:
        """Who is asked. They were chosen when the form was filled in; this refuses what must never be. Where any one
        of several decides, those who must not are only not asked."""
        people = [p for name in node.who for p in self.request.filled.holders(name)]
        barred = {self.request.initiator} | authority.deciders(self.request, node.id)
        if node.mode is Mode.ANY and not barred.issuperset(people):
            people = [p for p in people if p not in barred]
        field = node.who[0] if node.who else INITIATOR
        if not people:
            label = {"zh": node.name, "en": node.name}
            raise ToolError("no_level", f"{field} is missing", field=field, label=label)
        if self.request.initiator in people:
            raise ToolError("own_approver", "nobody approves their own request", field=field)
        if authority.deciders(self.request, node.id).intersection(people):
            raise ToolError("own_level", "the same person would decide two levels", field=field)
        return people

    def visit(self, node: str, kind: Kind, mode: Mode, people: Iterable[str], status: Status) -> None:
        visit = Visit(node=node, kind=kind, ballot=self.ballot(mode, people))
        self.change(visits=(*self.request.visits, visit), status=status)
        self._bring(visit)

    def ballot(self, mode: Mode, people: Iterable[str]) -> Ballot:
        ballot = ballot_of(mode, people, self.request.seats + 1)
        self.change(seats=self.request.seats + len(ballot.seats))
        return ballot

    def seat(self, task: Task, **fields: Any) -> None:
        """Changes a task's seat; then asks whoever is asked now, or, if there is a verdict, goes on."""
        before = authority.visit_of(self.request, task)
        ballot = changed(before.ballot, task.seat, lambda seat: seat.model_copy(update=fields))
        visit = before.model_copy(update={"ballot": ballot})
        self.change(visits=tuple(visit if v == before else v for v in self.request.visits))
        if verdict(ballot):
            self.decided(task, Decision(verdict(ballot)))
        else:
            self._bring(visit)

    def decided(self, task: Task, decision: Decision) -> None:
        """A user task is through."""
        visit = authority.visit_of(self.request, task)
        for left in self._tasks_of(visit):
            self.close(left, "settled", why="settled")
        self.change(visits=tuple(v for v in self.request.visits if v != visit))
        if visit.kind is Kind.REVOKE:
            self.finish(ENDS[visit.kind][decision])
            return
        self.change(decisions={**self.request.decisions, visit.node: decision.value})
        self.leave(self.definition.nodes[visit.node], decision.value)

    def _bring(self, visit: Visit) -> None:
        """Tasks for whose turn it is, and none for the others."""
        turns = {seat.n: seat for seat in waiting(visit.ballot)}
        tasks = self._tasks_of(visit)
        for task in tasks:
            if task.seat not in turns:
                self.close(task, "added", why="added")
        for seat in turns.values():
            if seat.n not in {t.seat for t in tasks}:
                self._open(visit, seat)

    def _open(self, visit: Visit, seat: Seat) -> None:
        task = Task(
            id=f"{self.request.id}-{len(self.request.tasks) + 1}",
            node=visit.node,
            kind=visit.kind,
            seat=seat.n,
            assignee=seat.person,
            since=self.now,
            round=self.request.round,
        )
        self.change(tasks=(*self.request.tasks, task))
        self._opened.append(f"{task.id}={seat.person}")
        self.tell("assigned", task=task.id, person=seat.person, kind=visit.kind.value)

    def hand_over(self, task: Task, person: str, how: str) -> None:
        """The seat is somebody else's from here on."""
        self.close(task, how, why=how)
        self.seat(task, person=person)

    def task(self, task: Task, **fields: Any) -> Task:
        """Changes a task."""
        after = task.model_copy(update=fields)
        self.change(tasks=tuple(after if t.id == task.id else t for t in self.request.tasks))
        return after

    def close(self, task: Task, outcome: str, why: str, by: str = "") -> None:
        self.task(task, outcome=str(outcome), closed=self.now, by=by)
        self._closed.append(f"{task.id}={outcome}")
        self.tell("task_closed", task=task.id, person=task.assignee, by=self._command.actor, why=why)

    def close_all(self, why: str) -> None:
        """Nothing goes on any more."""
        for task in self.request.open_tasks:
            self.close(task, why, why=why)
        self.change(visits=(), arrived=())

    def speak(self, task: Task, command: TaskCommand, decision: str, text: str) -> None:
        standing = command.standing
        opinion = Opinion(
            task=task.id,
            node=task.node,
            by=command.actor,
            on_behalf=standing.person if standing else "",
            at=self.now,
            decision=decision,
            text=text.strip(),
            round=self.request.round,
        )
        self.change(opinions=(*self.request.opinions, opinion))

    def _tasks_of(self, visit: Visit) -> tuple[Task, ...]:
        return tuple(t for t in self.request.open_tasks if seat_of(visit.ballot, t.seat))
