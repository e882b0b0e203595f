"""The commands for a request, the events in its record, and the notices to people. All frozen."""

from __future__ import annotations

import hashlib
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.state import TIMER, CompactModel, CompactRecord, Decision, Delegation, FilledForm, Status


class RequestCommand(CompactModel):
    """A command. It is stored with its kind."""

    kind: str
    gone: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Set by the engine: people who have left → who may get their tasks instead, the nearest first."""

    @model_serializer(mode="wrap")
    def _serialize_with_kind(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": self.kind, **dump(self)}


class StartCommand(RequestCommand):
    kind: Literal["start"] = "start"
    request: str
    process: str
    definition: str
    form: str
    initiator: str
    filled: FilledForm

    @property
    def actor(self) -> str:
        return self.initiator


class TaskCommand(RequestCommand):
    """A command of a task's assignee, or of their current deputy."""

    task: str
    actor: str
    standing: Delegation | None = None
    """Set by the engine, from its own records."""


class DecideCommand(TaskCommand):
    kind: Literal["decide"] = "decide"
    decision: Decision
    opinion: str = ""
    to: str = ""
    """The target node of a return; empty for the author's."""
    filled: FilledForm | None = None
    """For a resubmission: the new form; None keeps the old one."""


class TransferCommand(TaskCommand):
    kind: Literal["transfer"] = "transfer"
    person: str
    opinion: str = ""


class SignPosition(StrEnum):
    BEFORE = "before"
    BESIDE = "beside"
    AFTER = "after"
    """This also means that the person who adds agrees."""


class AddSignCommand(TaskCommand):
    kind: Literal["add_sign"] = "add_sign"
    where: SignPosition
    mode: VotingMode = VotingMode.ALL
    people: tuple[str, ...]
    opinion: str = ""


class WithdrawCommand(RequestCommand):
    kind: Literal["withdraw"] = "withdraw"
    request: str
    actor: str
    reason: str = ""
    agree: tuple[str, ...] = ()
    """Set by the engine for an approved request: who has to agree; empty while all who were asked are still here."""


class UrgeCommand(RequestCommand):
    """The author urges the assignee."""

    kind: Literal["urge"] = "urge"
    task: str
    actor: str
    opens: datetime | None = None
    """Set by the engine: outside the assignee's working hours, when they begin again."""


class CommentCommand(RequestCommand):
    kind: Literal["comment"] = "comment"
    request: str
    actor: str
    text: str


class CcCommand(RequestCommand):
    kind: Literal["cc"] = "cc"
    request: str
    actor: str
    people: tuple[str, ...]


class FireTimerCommand(RequestCommand):
    """A timer fires."""

    kind: Literal["fire"] = "fire"
    task: str
    timer: str
    manager: str = ""
    """Set by the engine for an escalation: who gets the task; empty if there is nobody."""

    @property
    def actor(self) -> str:
        return TIMER


class AssignCommand(RequestCommand):
    """An administrator gives a task to somebody."""

    kind: Literal["assign"] = "assign"
    task: str
    actor: str
    person: str
    opinion: str = ""


class MigrateCommand(RequestCommand):
    """An administrator migrates a running request to another version of its process."""

    kind: Literal["migrate"] = "migrate"
    request: str
    actor: str
    definition: str
    form: str


Command = Annotated[
    StartCommand
    | DecideCommand
    | TransferCommand
    | AddSignCommand
    | WithdrawCommand
    | UrgeCommand
    | CommentCommand
    | CcCommand
    | FireTimerCommand
    | MigrateCommand
    | AssignCommand,
    Field(discriminator="kind"),
]


class FlowStep(CompactModel):
    """One flow that was taken, or one node that acted by itself."""

    node: str
    """The node that was left, or the service task that acted."""
    flow: str = ""
    condition: str = ""
    """The flow's condition; empty for an unconditional or a default flow."""
    to: str = ""


class RequestEvent(CompactRecord):
    """One executed command: a line of the request's append-only record.

    Replaying the commands of all events gives the request. Each event's hash covers the one before it."""

    n: int
    """From 0, without gaps."""
    at: datetime
    command: Command
    via: str
    """Its cause: `button`, `timer`, `command` (of an administrator)."""
    steps: tuple[FlowStep, ...] = ()
    opened: tuple[str, ...] = ()
    """Tasks, `id=person`."""
    closed: tuple[str, ...] = ()
    """Tasks, `id=outcome`."""
    status: Status
    previous: str = ""
    """Hash of the event before it; empty for the first."""
    hash: str = ""

    @property
    def by(self) -> str:
        """Person id, or `system:…`."""
        return self.command.actor

    @property
    def on_behalf(self) -> str:
        """Person id of whom a deputy acted for, or empty."""
        standing = getattr(self.command, "standing", None)
        return standing.person if standing else ""

    @property
    def command_hash(self) -> str:
        """Hash of the command."""
        return hashlib.sha256(self.command.model_dump_json().encode()).hexdigest()[:16]

    def add_hash(self) -> RequestEvent:
        """The event with its hash."""
        content = self.model_copy(update={"hash": ""}).model_dump_json()
        return self.model_copy(update={"hash": hashlib.sha256(content.encode()).hexdigest()})


class RequestNotice(CompactModel):
    """A notice to people: `assigned`, `task_closed`, `ended`, `told` (cc), `commented`, `urged`, `reminded`,
    `escalated`, `unattended` (nobody to escalate to), `stepped_up` (who should decide has left), `mail`."""

    kind: str
    data: dict[str, str]
