"""What both stand-ins have behind their REST faces: instances that move along a compiled process file.

It takes the file literally, as the real engines do, and knows none of our rules: anybody may complete anything. An
expression fails when one of its variables was never set, or when text is compared with a number.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

from tools.workflow.bpmn.expressions import InvalidExpressionError, evaluate_condition, parse_expression
from tools.workflow.bpmn.graph import FlowNode, NodeKind, ProcessDefinition
from tools.workflow.process.definition import Process

BEGAN = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


class Broken(Exception):
    """The engine rolls back and answers 500 with this text."""


class Gone(Exception):
    """There is no such task (any more)."""


@dataclass
class Deployed:
    id: str
    key: str
    definition: ProcessDefinition
    source: bytes
    name: str = "请假申请流程"


@dataclass
class Run:
    id: str
    deployed: Deployed
    business_key: str | None
    variables: dict[str, Any]
    started: datetime
    user: str
    ended: datetime | None = None
    reason: str | None = None
    """Why it was removed."""
    arrived: list[str] = field(default_factory=list)


@dataclass
class Work:
    """A user task."""

    id: str
    run: Run
    node: FlowNode
    execution: str
    assignee: str | None
    created: datetime
    ended: datetime | None = None
    reason: str | None = None
    delegated: bool = False

    def is_asked_for(self, query: Mapping[str, str]) -> bool:
        """Whether it is what a query of either engine names."""
        facts = {
            "assignee": self.assignee,
            "taskAssignee": self.assignee,
            "processInstanceId": self.run.id,
            "processDefinitionKey": self.run.deployed.key,
            "finished": "true" if self.ended else "false",
        }
        return all(facts[name] == value for name, value in query.items() if name in facts)


@dataclass
class Job:
    """A service task that waits for a worker."""

    id: str
    run: Run
    node: FlowNode
    worker: str = ""


@dataclass
class Trace:
    id: str
    run: Run
    what: str
    kind: str
    at: datetime


@dataclass
class State:
    runs: dict[str, Run] = field(default_factory=dict)
    works: dict[str, Work] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    traces: list[Trace] = field(default_factory=list)


class Runner:
    def __init__(self) -> None:
        self.deployed: list[Deployed] = []
        self.state = State()
        self._ids, self._ticks = count(4), count(1)

    def deploy(self, process: Process, source: bytes | None = None) -> None:
        key = process.definition.key
        version = 1 + sum(d.key == key for d in self.deployed)
        name = f"{key}:{version}:{self.id()}"
        self.deployed.append(Deployed(name, key, process.definition, source or process.bpmn))

    def latest(self, key: str) -> Deployed | None:
        return next((d for d in reversed(self.deployed) if d.key == key), None)

    def list_latest(self, key: str | None) -> list[Deployed]:
        keys = [key] if key is not None else list(dict.fromkeys(d.key for d in self.deployed))
        return [d for d in map(self.latest, keys) if d]

    def list_works(self, query: Mapping[str, str], *, past: bool = False) -> list[Work]:
        return [w for w in self.state.works.values() if (past or not w.ended) and w.is_asked_for(query)]

    def id(self) -> str:
        return str(next(self._ids))

    def now(self) -> datetime:
        return BEGAN + timedelta(milliseconds=next(self._ticks))

    def start(self, deployed: Deployed, business_key: str | None, variables: Mapping[str, Any], user: str) -> Run:
        run = Run(self.id(), deployed, business_key, dict(variables), self.now(), user)
        with self._whole():
            self.state.runs[run.id] = run
            self._pass(run, deployed.definition.start)
            self._leave(run, deployed.definition.nodes[deployed.definition.start])
            self._end(run)
        return run

    def work(self, task: str) -> Work:
        work = self.state.works.get(task)
        if work is None or work.ended:
            raise Gone(task)
        return work

    def complete(self, task: str, variables: Mapping[str, Any]) -> Work:
        work = self.work(task)
        with self._whole():
            work.run.variables |= variables
            work.ended = self.now()
            self._leave(work.run, work.node)
            self._end(work.run)
        return work

    def finish(self, job: Job) -> None:
        with self._whole():
            del self.state.jobs[job.id]
            self._leave(job.run, job.node)
            self._end(job.run)

    def move(self, run: Run, sources: list[str], targets: list[str], reason: str) -> None:
        with self._whole():
            for work in self.open(run):
                if work.node.id in sources:
                    work.ended, work.reason = self.now(), reason
            for target in targets:
                self._enter(run, target, "")

    def remove(self, run: Run, reason: str) -> None:
        run.ended, run.reason = self.now(), reason
        for work in self.open(run):
            work.ended, work.reason = run.ended, reason
        self.state.jobs = {k: j for k, j in self.state.jobs.items() if j.run is not run}

    def open(self, run: Run) -> list[Work]:
        return [w for w in self.state.works.values() if w.run is run and not w.ended]

    def _leave(self, run: Run, node: FlowNode) -> None:
        for route in node.routes:
            if node.kind is not NodeKind.CHOICE or self._true(run, route.condition):
                self._pass(run, route.flow, "sequenceFlow")
                self._enter(run, route.to, route.flow)
                if node.kind is NodeKind.CHOICE:
                    return

    def _enter(self, run: Run, name: str, flow: str) -> None:
        node = run.deployed.definition.nodes[name]
        self._pass(run, name, node.kind.value)
        match node.kind:
            case NodeKind.USER:
                work = Work(self.id(), run, node, self.id(), self._assignee(run, node), self.now())
                self.state.works[work.id] = work
            case NodeKind.SERVICE:
                job = Job(self.id(), run, node)
                self.state.jobs[job.id] = job
            case NodeKind.PARALLEL:
                run.arrived.append(flow)
                if set(node.incoming) <= set(run.arrived):
                    run.arrived = [f for f in run.arrived if f not in node.incoming]
                    self._leave(run, node)
            case NodeKind.END:
                pass
            case _:
                self._leave(run, node)

    def _assignee(self, run: Run, node: FlowNode) -> str | None:
        name = node.who[0]
        if name not in run.variables:
            raise Broken(f"${{{name}}}")
        value = run.variables[name]
        return None if value is None else str(value)

    def _true(self, run: Run, condition: str) -> bool:
        if not condition:
            return True
        values = {name: _juel(value) for name, value in run.variables.items()}
        try:
            return evaluate_condition(parse_expression(condition), values)
        except InvalidExpressionError:
            raise Broken(condition) from None

    def _pass(self, run: Run, what: str, kind: str = "startEvent") -> None:
        self.state.traces.append(Trace(self.id(), run, what, kind, self.now()))

    def _end(self, run: Run) -> None:
        waits = self.open(run) or run.arrived or [j for j in self.state.jobs.values() if j.run is run]
        if not waits:
            run.ended = self.now()

    def _whole(self) -> _Whole:
        return _Whole(self)


class _Whole:
    """One transaction: what breaks leaves nothing behind."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def __enter__(self) -> None:
        self._before = copy.deepcopy(self._runner.state, {id(d): d for d in self._runner.deployed})

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._runner.state = self._before


def _juel(value: Any) -> Any:
    """A number is a number whatever it was sent as, and null equals nothing."""
    if isinstance(value, bool) or value is None:
        return value or ""
    return Decimal(str(value)) if isinstance(value, int | float) else value
