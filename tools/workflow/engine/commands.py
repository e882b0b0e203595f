"""The commands for a request, the events in its record, and the notices to people. All of them are frozen."""

from __future__ import annotations

import hashlib
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from tools.workflow.bpmn.graph import VotingMode
from tools.workflow.engine.state import TIMER, CompactModel, CompactRecord, Decision, Delegation, FilledForm, Status


class RequestCommand(CompactModel):
    """A command, stored with its kind."""

    kind: str
    gone: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Person who has left → people who may get their tasks instead, nearest first. Set by the engine."""

    @property
    def on_behalf(self) -> str:
        """Id of the person for whom a deputy acts, or empty."""
        return ""

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
    """The delegation of a deputy; set by the engine from its own records."""

    @property
    def on_behalf(self) -> str:
        return self.standing.person if self.standing else ""


class DecideCommand(TaskCommand):
    kind: Literal["decide"] = "decide"
    decision: Decision
    opinion: str = ""
    to: str = ""
    """The target node of a return; empty for the author's."""
    filled: FilledForm | None = None
    """The new form of a resubmission, or None to keep the old one."""


class TransferCommand(TaskCommand):
    kind: Literal["transfer"] = "transfer"
    person: str
    opinion: str = ""


class SignPosition(StrEnum):
    BEFORE = "before"
    BESIDE = "beside"
    AFTER = "after"
    """The people added after the actor; adding them means that the actor agrees."""


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
    """The people who have to agree to the withdrawal of an approved request; empty while all who were asked are still
    here. Set by the engine."""


class UrgeCommand(RequestCommand):
    """The author urges the assignee."""

    kind: Literal["urge"] = "urge"
    task: str
    actor: str
    opens: datetime | None = None
    """Outside the assignee's working hours, the time when they begin again. Set by the engine."""


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
    """The person who gets the task by an escalation, or empty if there is nobody. Set by the engine."""

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


Act: TypeAlias = (
    DecideCommand | TransferCommand | AddSignCommand | WithdrawCommand | UrgeCommand | CommentCommand | CcCommand
)
"""Commands of people about an existing request."""
AboutTask: TypeAlias = TaskCommand | UrgeCommand | FireTimerCommand | AssignCommand
"""Commands that name a task; all others name a request."""
Command = Annotated[StartCommand | Act | FireTimerCommand | MigrateCommand | AssignCommand, Field(discriminator="kind")]


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

    Replaying the commands of all events gives the request. Each event's hash covers the hash before it."""

    n: int
    """Number of the event, from 0, without gaps."""
    at: datetime
    command: Command
    via: str
    """The cause: `button`, `timer`, or `command` (of an administrator)."""
    steps: tuple[FlowStep, ...] = ()
    opened: tuple[str, ...] = ()
    """Opened tasks, as `id=person`."""
    closed: tuple[str, ...] = ()
    """Closed tasks, as `id=outcome`."""
    status: Status
    previous: str = ""
    """Hash of the event before it; empty for the first."""
    hash: str = ""

    @property
    def by(self) -> str:
        """The actor: a person id, or `system:…`."""
        return self.command.actor

    @property
    def on_behalf(self) -> str:
        """Id of the person for whom a deputy acted, or empty."""
        return self.command.on_behalf

    @property
    def command_hash(self) -> str:
        """Hash of the command."""
        return hashlib.sha256(self.command.model_dump_json().encode()).hexdigest()[:16]

    def add_hash(self) -> RequestEvent:
        """A copy of the event with its hash."""
        content = self.model_copy(update={"hash": ""}).model_dump_json()
        return self.model_copy(update={"hash": hashlib.sha256(content.encode()).hexdigest()})


class RequestNotice(CompactModel):
    """A notice to people: `assigned`, `task_closed`, `ended`, `told` (cc), `commented`, `urged`, `reminded`,
    `escalated`, `unattended` (nobody to escalate to), `stepped_up` (the person who should decide has left), `mail`."""

    kind: str
    data: dict[str, str]
