"""A workflow engine as the tools see it. `embedded` runs in this process over a `Store`; `remote` uses other engines.

The engine checks authority again, whoever calls, against the state that is then changed. Every command has an
idempotency key: repeated, it has no second effect and gets the same answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from tools.workflow.engine.balance import YearBalance
from tools.workflow.engine.commands import (
    AddSignCommand,
    CcCommand,
    Command,
    CommentCommand,
    DecideCommand,
    RequestEvent,
    TaskCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.state import CompactModel, Delegation, FilledForm, Request, Status, Task
from tools.workflow.engine.store import OutboxEvent
from tools.workflow.process.definition import Process
from tools.workflow.process.form_preview import FormPreview

Act: TypeAlias = (
    DecideCommand | TransferCommand | AddSignCommand | WithdrawCommand | UrgeCommand | CommentCommand | CcCommand
)
"""Commands of people about an existing request."""


class CommandResult(CompactModel):
    """The state of a request after a command."""

    request: str
    status: Status
    waits_for: tuple[str, ...]
    """Person ids."""
    rule: str = ""
    """Node of the rule that passed it, if any."""
    days: str = ""
    """Working days, or empty."""
    task: str = ""
    """The task of the command, if any."""
    by: str = ""
    """Person id."""
    on_behalf: str = ""
    """Person id of whom a deputy acted for, or empty."""
    decision: str = ""
    opinion: str = ""


def build_command_result(request: Request, command: Command | None, on_behalf: str = "") -> CommandResult:
    """The state of a request after a command. None: the command is no longer known."""
    decide = command if isinstance(command, DecideCommand) else None
    return CommandResult(
        request=request.id,
        status=request.status,
        waits_for=request.waits_for,
        rule=request.rule,
        days=request.filled.days,
        task=getattr(command, "task", ""),
        by=command.actor if command else "",
        on_behalf=on_behalf,
        decision=decide.decision.value if decide else "",
        opinion=decide.opinion.strip() if decide else "",
    )


@dataclass(frozen=True, slots=True)
class AssignedTask:
    """A task and the request it belongs to."""

    task: Task
    request: Request


@dataclass(frozen=True, slots=True)
class TodoList:
    tasks: tuple[AssignedTask, ...]
    total_count: int
    """Number of all tasks, also beyond the requested ones."""


@dataclass(frozen=True, slots=True)
class RequestList:
    requests: tuple[Request, ...]
    total_count: int
    """Number of all requests, also beyond the requested ones."""


class Engine(Protocol):
    """What tools need of a workflow engine. Every command may raise `ToolError`."""

    @property
    def has_deputies(self) -> bool:
        """People can let somebody stand in for them."""

    async def list_processes(self) -> tuple[Process, ...]: ...

    async def get_process(self, request: Request) -> Process:
        """The process in the version that the request started with."""

    async def fill_form(
        self, process: Process, form: Mapping[str, str], initiator: str, now: datetime, besides: str = ""
    ) -> FilledForm:
        """The form, checked and completed, without any effect. `besides`: the request that it belongs to, if any, which
        does not count as another one of the author's."""

    async def preview_form(
        self, process: Process, form: Mapping[str, str], initiator: str, now: datetime
    ) -> FormPreview:
        """What a form that is still being filled in comes to so far, with all that is wrong at once."""

    async def start_request(
        self,
        process: str,
        form: Mapping[str, str],
        initiator: str,
        key: str,
        now: datetime,
        seen: str = "",
        *,
        again: str | None = None,
    ) -> CommandResult:
        """`seen`: the hash of the form that was shown (`FilledForm`); any other form is refused with
        `request_changed`. `again`: the recent request that the author knowingly repeats; empty for none; None if nobody
        can be asked. Raises `started_already` for the same start within the form's `again_minutes`; of two at once, one
        starts."""

    async def execute_command(
        self, command: Act, key: str, now: datetime, *, form: Mapping[str, str] | None = None, seen: str = ""
    ) -> CommandResult:
        """Executes a command if its actor may. `form`: for a resubmission, the changed fields; `seen`: as for
        `start_request`."""

    async def preview_command(
        self, command: Act, now: datetime, *, form: Mapping[str, str] | None = None
    ) -> CommandResult:
        """The result that `execute_command` would have, without any effect. It raises the same errors, except those
        that need current data about people (`authorize_command`): dialogs cannot wait for that."""

    async def authorize_command(self, command: TaskCommand, now: datetime) -> None:
        """Checks by the rules, with current data about people, that the assignee may decide. `execute_command` does so
        too. Raises `ToolError` `not_named` or `nobody_named`; nothing for a command that is refused for other
        reasons."""

    async def get_task(self, task_id: str) -> AssignedTask: ...

    async def list_todo_tasks(self, person: str, now: datetime, most: int | None = None) -> TodoList:
        """The tasks of a person, and of those for whom they are a deputy now; oldest first, at most `most`."""

    async def list_decided_tasks(self, person: str) -> tuple[AssignedTask, ...]: ...

    async def list_recent_decisions(self, person: str, most: int, skip: int = 0) -> TodoList:
        """The tasks that a person has decided, and those that a deputy has decided for them; newest first, at most
        `most` after the first `skip`."""

    async def get_request(self, request_id: str) -> Request: ...

    async def list_own_requests(self, person: str) -> tuple[Request, ...]: ...

    async def list_recent_requests(self, person: str, most: int, skip: int = 0) -> RequestList:
        """A person's own requests, newest first, at most `most` after the first `skip`."""

    async def list_requests_with_file(self, sha256: str) -> tuple[Request, ...]:
        """Everybody's requests with a file of these bytes, oldest first."""

    async def is_file_on_request(self, sha256: str) -> bool:
        """True also for a request that cannot be read now."""

    async def list_balances(self, person: str, year: int) -> tuple[YearBalance, ...]:
        """The rest of a person's yearly allowances, for every process with a balance."""

    async def list_cc_requests(self, person: str) -> tuple[Request, ...]:
        """Requests that a person got a copy of (cc)."""

    async def list_events(self, request_id: str) -> tuple[RequestEvent, ...]:
        """The request's whole record, oldest first."""

    async def list_deputies(self, person: str, now: datetime) -> tuple[str, ...]:
        """The current deputies of this person, and the deputies of those who are away as well."""

    async def list_task_deputies(self, task_id: str, now: datetime) -> tuple[str, ...]:
        """Who may decide this task now in place of its assignee: nobody with a say of their own in the request."""

    async def add_delegation(self, delegation: Delegation, now: datetime) -> None:
        """Registers an absence. The same delegation twice counts once."""

    async def end_delegation(self, person: str, delegation_id: str, now: datetime) -> Delegation: ...

    async def list_delegations(self, person: str, now: datetime) -> tuple[Delegation, ...]:
        """A person's present and future delegations."""

    async def list_delegations_to(self, person: str, now: datetime) -> tuple[Delegation, ...]:
        """Present and future delegations in which they are the deputy."""

    async def run_due_jobs(self, now: datetime) -> int:
        """Fires due timers and returns how many."""

    async def list_outbox(self, limit: int) -> list[OutboxEvent]: ...

    async def mark_sent(self, ids: Sequence[str]) -> None: ...
