"""The port of the tools to a workflow engine, with what all engines do alike. `embedded` runs in this process over a
`RedisStore`; `remote` uses other engines.

The engine checks authority again, whoever calls, against the state that is then changed. Every command has an
idempotency key: a repeated command has no second effect and gets the first answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeAlias

from tools.spec import ToolError
from tools.workflow.engine.authority import reject_unseen_form
from tools.workflow.engine.commands import Act, AssignCommand, Command, DecideCommand, RequestEvent, TaskCommand
from tools.workflow.engine.enrich import CommandEnricher
from tools.workflow.engine.reducer import apply_command, reject_full_record
from tools.workflow.engine.state import CompactModel, Delegation, FilledForm, Request, Status, Task
from tools.workflow.engine.store import OutboxEvent
from tools.workflow.engine.versions import ProcessVersions
from tools.workflow.process.definition import FormPreview, Process
from tools.workflow.process.earlier_requests import YearBalance

Completion: TypeAlias = Callable[[Process, Request], Awaitable[Command]]
"""Adds to a command what it needs from outside, or refuses it."""
MAX_SAME_FILE = 50
"""Most requests with the same file that are read; the newest are kept."""
Ability: TypeAlias = Literal["deputies", "add_sign", "revoke"]
"""People can have deputies; an approver can add others; an approved request can be withdrawn."""


class CommandResult(CompactModel):
    """The state of a request after a command."""

    request: str
    status: Status
    waits_for: tuple[str, ...]
    """Person ids."""
    rule: str = ""
    """Node of the rule that passed the request, if any."""
    days: str = ""
    """Working days, or empty."""
    task: str = ""
    """The task of the command, if any."""
    by: str = ""
    """Person id of the actor."""
    on_behalf: str = ""
    """Id of the person for whom a deputy acted, or empty."""
    decision: str = ""
    opinion: str = ""


def build_command_result(request: Request, command: Command) -> CommandResult:
    decide = command if isinstance(command, DecideCommand) else None
    return CommandResult(
        request=request.id,
        status=request.status,
        waits_for=request.waits_for,
        rule=request.rule,
        days=request.filled.days,
        task=getattr(command, "task", ""),
        by=command.actor,
        on_behalf=command.on_behalf,
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
    """Number of all tasks, including those that were not requested."""


@dataclass(frozen=True, slots=True)
class RequestList:
    requests: tuple[Request, ...]
    total_count: int
    """Number of all requests, including those that were not requested."""


class Engine(Protocol):
    """The workflow engine that tools need. Every command may raise `ToolError`."""

    _enricher: CommandEnricher
    _versions: ProcessVersions

    @property
    def abilities(self) -> frozenset[Ability]:
        """The actions that people are offered, because this engine can do them."""

    async def list_processes(self) -> tuple[Process, ...]: ...

    async def get_process(self, request: Request) -> Process:
        """The process in the version that the request started with."""
        return await self._versions.load_process((request.definition, request.form))

    async def fill_form(
        self, process: Process, form: Mapping[str, str], initiator: str, now: datetime, besides: str = ""
    ) -> FilledForm:
        """The form, checked and completed, without any effect. `besides` is the request that it belongs to, if any,
        which does not count as another one of the author's."""
        return await self._enricher.fill_form(process, form, initiator, now, besides)

    async def preview_form(
        self, process: Process, form: Mapping[str, str], initiator: str, now: datetime
    ) -> FormPreview:
        """The preview of a form that is still being filled in, with all errors at once."""
        return await self._enricher.preview_form(process, form, initiator, now)

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
        """Start a request. `seen` is the hash of the form that was shown (`FilledForm`); any other form is refused with
        `request_changed`. `again` is the recent request that the author knowingly repeats, empty for none, or None if
        nobody can be asked. Raises `started_already` for an equal start within the form's `again_minutes`; of two at
        once, one starts."""

    async def execute_command(
        self, command: Act, key: str, now: datetime, *, form: Mapping[str, str] | None = None, seen: str = ""
    ) -> CommandResult:
        """Execute a command if its actor may. `form` has the changed fields of a resubmission; `seen` has the meaning
        of `start_request`."""

        async def complete(process: Process, request: Request) -> Command:
            await self._enricher.authorize_command(process, request, command, now)
            completed = await self._complete_command(process, request, command, now, form)
            resubmitted = completed.filled if isinstance(completed, DecideCommand) else None
            reject_unseen_form(resubmitted.confirmed_hash if resubmitted else request.filled.content_hash, seen)
            return completed

        return await self._run_command(command, key, now, complete)

    async def assign_task(
        self, task_id: str, person: str, actor: str, key: str, now: datetime, reason: str = ""
    ) -> CommandResult:
        """Give a task to somebody, for an administrator. The caller has made sure that `person` is in the directory."""
        command = AssignCommand(task=task_id, actor=actor, person=person, opinion=reason)
        return await self._run_command(command, key, now)

    async def preview_command(
        self, command: Act, now: datetime, *, form: Mapping[str, str] | None = None
    ) -> CommandResult:
        """The result that `execute_command` would have, without any effect. Raises the errors of `execute_command`,
        except those that need current data about people (`authorize_command`), for which dialogs cannot wait."""
        request = await self._load_request_of(command)
        process = await self.get_process(request)
        completed = await self._complete_command(process, request, command, now, form)
        return build_command_result(apply_command(process.definition, request, completed, now).request, completed)

    async def authorize_command(self, command: TaskCommand, now: datetime) -> None:
        """Check by the rules, with current data about people, that the assignee may decide; `execute_command` does so
        too. Raises `ToolError` `not_named` or `nobody_named`, but nothing for a task that is closed or somebody
        else's."""
        request = await self._load_request_of(command)
        await self._enricher.authorize_command(await self.get_process(request), request, command, now)

    async def get_task(self, task_id: str) -> AssignedTask: ...

    async def list_todo_tasks(self, person: str, now: datetime, most: int | None = None) -> TodoList:
        """The tasks of a person, and of those whose deputy they are now; oldest first, at most `most`."""

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
        """Whether a request has the file, even one that cannot be read now."""

    async def list_balances(self, person: str, year: int) -> tuple[YearBalance, ...]:
        """The rest of a person's yearly allowances, for every process with a balance."""
        return await self._enricher.list_balances(await self.list_processes(), person, year)

    async def list_cc_requests(self, person: str) -> tuple[Request, ...]:
        """Requests that a person got a copy of (cc)."""

    async def list_events(self, request_id: str) -> tuple[RequestEvent, ...]:
        """The request's whole record, oldest first."""

    async def list_deputies(self, person: str, now: datetime) -> tuple[str, ...]:
        """The current deputies of this person, and the deputies of those who are away as well."""

    async def list_task_deputies(self, task_id: str, now: datetime) -> tuple[str, ...]:
        """The people who may decide this task now in place of its assignee; nobody with a say of their own in the
        request."""

    async def add_delegation(self, delegation: Delegation, now: datetime) -> None:
        """Register an absence. A repeated delegation counts once."""

    async def end_delegation(self, person: str, delegation_id: str, now: datetime) -> Delegation: ...

    async def list_delegations(self, person: str, now: datetime) -> tuple[Delegation, ...]:
        """A person's present and future delegations."""

    async def list_delegations_to(self, person: str, now: datetime) -> tuple[Delegation, ...]:
        """Present and future delegations in which the person is the deputy."""

    async def run_due_jobs(self, now: datetime) -> int:
        """Fire due timers and return their number."""

    async def list_outbox(self, limit: int) -> list[OutboxEvent]: ...

    async def mark_sent(self, ids: Sequence[str]) -> None: ...

    async def _load_request_of(self, command: Command | TaskCommand) -> Request:
        """The request of a command. Raises `ToolError` `no_request` or `no_task`."""

    async def _complete_command(
        self, process: Process, request: Request, command: Act, now: datetime, form: Mapping[str, str] | None
    ) -> Act:
        """The command with everything it needs from outside. Raises `ToolError`."""
        reject_full_record(request, command)
        return await self._enricher.enrich_command(process, request, command, now, form)

    async def _run_command(
        self, command: Command, key: str, now: datetime, complete: Completion | None = None
    ) -> CommandResult:
        """Execute a command on a request."""


CLAIMING_STATUSES = frozenset({Status.WAITING, Status.REVISE, Status.REVOKING, Status.APPROVED})
"""Statuses that count as a claim; those of rejected or withdrawn requests do not."""


def reject_repeated_start(
    requests: Iterable[Request], process: Process, filled: FilledForm, now: datetime, again: str | None
) -> None:
    """Refuse a start that repeats a recent one. `requests` are the author's. `again` is the request that the author
    knowingly repeats, empty for none, or None if nobody can be asked. Raises `ToolError` `started_already`, which names
    the newest request with equal values within the form's `again_minutes`."""
    if again is None or not process.form.again_minutes:
        return
    since = now - timedelta(minutes=process.form.again_minutes)
    claims = [one for one in requests if one.process == process.key and one.status in CLAIMING_STATUSES]
    equal = [one for one in claims if one.started > since and one.filled.values == filled.values]
    newest = max(equal, key=lambda one: one.started, default=None)
    if newest is None or newest.id == again:
        return
    minutes = max(0, int((now - newest.started).total_seconds() // 60))
    when = f"{minutes} minutes ago as {newest.id}"
    message = f"the same was started {when}; the person is asked whether to do it again"
    raise ToolError("started_already", message, request=newest.id, minutes=minutes)
