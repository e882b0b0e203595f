"""Executes one command: the new state of the request, and its consequences.

Tokens move as BPMN requires (clauses 10 and 13): an exclusive gateway takes one path; a parallel gateway takes all
paths, and waits for all."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tools.spec import ToolError
from tools.workflow.bpmn.graph import INITIATOR, FlowNode, NodeKind, ProcessDefinition, ServiceTopic, VotingMode
from tools.workflow.engine import authority
from tools.workflow.engine.commands import Command, FlowStep, RequestEvent, RequestNotice, TaskCommand
from tools.workflow.engine.paths import build_condition_values, choose_flows
from tools.workflow.engine.state import (
    COPY_PREFIX,
    RULE,
    Ballot,
    Decision,
    Opinion,
    Request,
    Seat,
    Status,
    Task,
    TaskKind,
    Visit,
)
from tools.workflow.engine.votes import build_ballot, compute_verdict, find_seat, list_waiting_seats, replace_seat


@dataclass(frozen=True, slots=True)
class TransitionResult:
    request: Request
    notices: tuple[RequestNotice, ...]
    event: RequestEvent


class Transition:
    """One command in progress: the new state of the request, and its consequences."""

    def __init__(self, definition: ProcessDefinition, request: Request, command: Command, now: datetime) -> None:
        self.definition, self.request, self.now = definition, request, now
        self._command = command
        self._notices: list[RequestNotice] = []
        self._steps: list[FlowStep] = []
        self._opened: list[str] = []
        self._closed: list[str] = []
        self._handed_over: dict[int, dict[str, Any]] = {}
        """Seat → fields that its next task takes over from the previous task."""

    def complete_command(self) -> TransitionResult:
        via = {"fire": "timer", "migrate": "command", "assign": "command"}.get(self._command.kind, "button")
        event = RequestEvent(
            n=self.request.events,
            at=self.now,
            command=self._command,
            via=via,
            steps=tuple(self._steps),
            opened=tuple(self._opened),
            closed=tuple(self._closed),
            status=self.request.status,
            previous=self.request.head,
        ).add_hash()
        self.update_request(events=event.n + 1, head=event.hash)
        return TransitionResult(self.request, tuple(self._notices), event)

    def update_request(self, **fields: Any) -> None:
        self.request = self.request.model_copy(update={**fields, "changed": self.now})

    def add_notice(self, notice: str, /, **data: str) -> None:
        self._notices.append(RequestNotice(kind=notice, data={"request": self.request.id, **data}))

    # Tokens

    def leave_node(self, node: FlowNode, decision: str = "") -> None:
        """Move a token from a node along its flows."""
        values = build_condition_values(self.definition, self.request.filled, decision, self.request.decisions)
        for route in choose_flows(node, values):
            self._steps.append(FlowStep(node=node.id, flow=route.flow, condition=route.condition, to=route.to))
            self.enter_node(route.to, route.flow, decision)

    def enter_node(self, name: str, flow: str = "", decision: str = "") -> None:
        node = self.definition.nodes[name]
        match node.kind:
            case NodeKind.USER:
                self._open_user_task(node)
            case NodeKind.END:
                self.end_request(Status(node.end))
            case NodeKind.PARALLEL:
                self._join_parallel(node, flow, decision)
            case NodeKind.SERVICE:
                self._steps.append(FlowStep(node=node.id))
                if node.topic is ServiceTopic.MAIL:
                    self.add_notice("mail", node=node.id, person=self.request.initiator)
                elif node.topic is ServiceTopic.CC:
                    self.add_cc_people(self.request.filled.resolve_people(node.id), RULE)
                elif node.topic is ServiceTopic.RULE:
                    self.update_request(rule=node.id)
                    self.add_cc_people(self.request.filled.resolve_people(f"{COPY_PREFIX}{node.id}"), RULE)
                self.leave_node(node, decision)
            case _:
                self.leave_node(node, decision)

    def _join_parallel(self, node: FlowNode, flow: str, decision: str) -> None:
        """Let a token arrive at a parallel gateway, which waits for every incoming flow."""
        arrived = {*self.request.arrived, flow}
        complete = arrived.issuperset(node.incoming)
        self.update_request(arrived=tuple(sorted(arrived - set(node.incoming) if complete else arrived)))
        if complete:
            self.leave_node(node, decision)

    def add_cc_people(self, people: Iterable[str], by: str) -> bool:
        """Add people who do not know of the request yet. Return whether there are any."""
        fresh = [p for p in dict.fromkeys(people) if p not in self.request.cc and p != self.request.initiator]
        self.update_request(cc=(*self.request.cc, *fresh))
        for person in fresh:
            self.add_notice("told", person=person, by=by)
        return bool(fresh)

    def end_request(self, status: Status) -> None:
        """End the request and all its tasks. The author is notified unless they ended it themselves."""
        keeps_approval = self.request.status is Status.REVOKING and status is Status.APPROVED
        self.close_all_tasks(status.value)
        self.update_request(status=status)
        author, rule = self.request.initiator, self.request.rule
        if self._command.actor == author:
            return
        by = RULE if rule and status is Status.APPROVED and not keeps_approval else self._command.actor
        said = next((o for o in reversed(self.request.opinions) if o.by == by), None)
        data = {"opinion": said.text if said else "", "behalf": said.on_behalf if said else ""}
        end = "kept" if keeps_approval else status.value
        self.add_notice("ended", person=author, status=end, by=by, rule=rule, **data)

    def forget_decisions(self, nodes: Set[str]) -> None:
        """Forget decisions at these nodes, which no longer count."""
        self.update_request(decisions={k: v for k, v in self.request.decisions.items() if k not in nodes})

    # People

    def _open_user_task(self, node: FlowNode) -> None:
        self.forget_decisions({node.id})
        self.update_request(rule="")
        if node.is_revision:
            self.start_visit(node.id, TaskKind.REVISE, node.mode, [self.request.initiator], Status.REVISE)
        else:
            self.start_visit(node.id, TaskKind.APPROVE, node.mode, self._choose_task_people(node), Status.WAITING)

    def _choose_task_people(self, node: FlowNode) -> list[str]:
        """The people to ask, as chosen when the form was filled in. Forbidden choices are refused here. If one of
        several people decides, ineligible people are merely left out. Raises `ToolError`."""
        people = [*self.request.filled.list_people(node.who)]
        barred = {self.request.initiator} | authority.list_other_approvers(self.request, node.id)
        if node.mode is VotingMode.ANY and not barred.issuperset(people):
            people = [p for p in people if p not in barred]
        field = node.who[0] if node.who else INITIATOR
        if not people:
            raise ToolError("no_level", f"{field} is missing", field=field, label={"zh": node.name, "en": node.name})
        if self.request.initiator in people:
            raise ToolError("own_approver", "nobody approves their own request", field=field)
        if authority.list_other_approvers(self.request, node.id).intersection(people):
            raise ToolError("own_level", "the same person would decide two levels", field=field)
        return people

    def start_visit(self, node: str, kind: TaskKind, mode: VotingMode, people: Iterable[str], status: Status) -> None:
        visit = Visit(node=node, kind=kind, ballot=self.create_ballot(mode, people))
        self.update_request(visits=(*self.request.visits, visit), status=status)
        self._sync_tasks(visit)

    def create_ballot(self, mode: VotingMode, people: Iterable[str]) -> Ballot:
        ballot = build_ballot(mode, people, self.request.seats + 1)
        self.update_request(seats=self.request.seats + len(ballot.seats))
        return ballot

    def update_seat(self, task: Task, **fields: Any) -> None:
        """Change a task's seat, then ask the next people, or go on if there is a verdict."""
        visit = self._replace_seat(task, **fields)
        if verdict := compute_verdict(visit.ballot):
            self.complete_user_task(task, Decision(verdict))
        else:
            self._sync_tasks(visit)

    def _replace_seat(self, task: Task, **fields: Any) -> Visit:
        before = authority.get_visit(self.request, task)
        visit = before.model_copy(update={"ballot": replace_seat(before.ballot, task.seat, **fields)})
        self.update_request(visits=tuple(visit if v == before else v for v in self.request.visits))
        return visit

    def complete_user_task(self, task: Task, decision: Decision) -> None:
        """Leave a user task after its decision."""
        visit = self.end_visit(task)
        if visit.kind is TaskKind.REVOKE:
            self.end_request(Status.WITHDRAWN if decision is Decision.APPROVE else Status.APPROVED)
            return
        self.update_request(decisions={**self.request.decisions, visit.node: decision.value})
        self.leave_node(self.definition.nodes[visit.node], decision.value)

    def end_visit(self, task: Task) -> Visit:
        """End the visit of a task, whose others have nothing left to decide."""
        visit = authority.get_visit(self.request, task)
        for left in self._list_open_tasks(visit):
            self.close_task(left, "settled", why="settled")
        self.update_request(visits=tuple(v for v in self.request.visits if v != visit))
        return visit

    def _sync_tasks(self, visit: Visit) -> None:
        """Open tasks for the people whose turn it is, and close the others'."""
        turns = {seat.n: seat for seat in list_waiting_seats(visit.ballot)}
        tasks = self._list_open_tasks(visit)
        for task in tasks:
            if task.seat not in turns:
                self.close_task(task, "added", why="added")
        for seat in turns.values():
            if seat.n not in {t.seat for t in tasks}:
                self._open_task(visit, seat)

    def _open_task(self, visit: Visit, seat: Seat) -> None:
        """Open a task for a seat. If its person has left, the seat goes to the first person above them who may be
        asked. The author's own task goes to nobody else."""
        task = Task(
            id=f"{self.request.id}-{len(self.request.tasks) + 1}",
            node=visit.node,
            kind=visit.kind,
            seat=seat.n,
            assignee=seat.person,
            since=self.now,
            round=self.request.round,
            **self._handed_over.pop(seat.n, {}),
        )
        above = self._command.gone.get(task.assignee, ()) if task.kind is not TaskKind.REVISE else ()
        able = (p for p in above if authority.can_be_asked(self.definition, self.request, task, p))
        if (present := next(able, task.assignee)) != seat.person:
            task = task.model_copy(update={"assignee": present})
            self._replace_seat(task, person=present)
            self.add_notice("stepped_up", task=task.id, person=self.request.initiator, by=seat.person, to=present)
        self.update_request(tasks=(*self.request.tasks, task))
        self._opened.append(f"{task.id}={task.assignee}")
        self.add_notice("assigned", task=task.id, person=task.assignee, kind=visit.kind.value)

    def reassign_task(self, task: Task, person: str, how: str, *, keeps_clock: bool = False) -> None:
        """Give the seat to another person. With `keeps_clock`, the task's timers go on as they were."""
        if keeps_clock:
            self._handed_over[task.seat] = {"clock": task.clock or task.since, "fired": task.fired}
        self.close_task(task, how, why=how)
        self.update_seat(task, person=person)

    def update_task(self, task: Task, **fields: Any) -> Task:
        after = task.model_copy(update=fields)
        self.update_request(tasks=tuple(after if t.id == task.id else t for t in self.request.tasks))
        return after

    def close_task(self, task: Task, outcome: str, why: str, by: str = "") -> None:
        self.update_task(task, outcome=str(outcome), closed=self.now, by=by)
        self._closed.append(f"{task.id}={outcome}")
        self.add_notice("task_closed", task=task.id, person=task.assignee, by=self._command.actor, why=why)

    def close_all_tasks(self, why: str) -> None:
        """Close all open tasks and visits."""
        for task in self.request.open_tasks:
            self.close_task(task, why, why=why)
        self.update_request(visits=(), arrived=())

    def add_opinion(self, task: Task, command: TaskCommand, decision: str, text: str) -> None:
        opinion = Opinion(
            task=task.id,
            node=task.node,
            by=command.actor,
            on_behalf=command.on_behalf,
            at=self.now,
            decision=decision,
            text=text.strip(),
            round=self.request.round,
        )
        self.update_request(opinions=(*self.request.opinions, opinion))

    def _list_open_tasks(self, visit: Visit) -> tuple[Task, ...]:
        return tuple(t for t in self.request.open_tasks if find_seat(visit.ballot, t.seat))
