"""A workflow engine as the tools see it. `embedded` runs in this process over a `Store`; `remote` speaks to others.

Whoever calls, authority is checked again by the engine, against the state that is then changed. Every command
carries an idempotency key: repeated, it has no second effect and gets the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from tools.workflow.balance import YearBalance
from tools.workflow.commands import AddSign, Cc, Command, Comment, Decide, Event, TaskCommand, Transfer, Urge, Withdraw
from tools.workflow.process import Process
from tools.workflow.state import Delegation, Filled, Lean, Request, Status, Task
from tools.workflow.store import OutboxEvent

Act: TypeAlias = Decide | Transfer | AddSign | Withdraw | Urge | Comment | Cc
"""What people do to a request that is there."""


class Moved(Lean):
    """Where a request stands after a command."""

    request: str
    status: Status
    waits_for: tuple[str, ...]
    """Person ids."""
    rule: str = ""
    """Node of the rule that passed it, if one did."""
    days: str = ""
    """Working days, or empty."""
    task: str = ""
    """The task that the command was about, if it was."""
    by: str = ""
    """Person id."""
    on_behalf: str = ""
    """Person id of who was stood in for, or empty."""
    decision: str = ""
    opinion: str = ""


def where(request: Request, command: Command | None, on_behalf: str = "") -> Moved:
    """Where a request stands after a command; None: after one that nobody knows any more."""
    decide = command if isinstance(command, Decide) else None
    return Moved(
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
class Assigned:
    """A task and the request it belongs to."""

    task: Task
    request: Request


@dataclass(frozen=True, slots=True)
class Todo:
    tasks: tuple[Assigned, ...]
    total: int
    """How many there are, also those beyond what was asked for."""


class Engine(Protocol):
    """What tools need of a workflow engine. Every command may raise `ToolError`."""

    async def processes(self) -> tuple[Process, ...]: ...

    async def process_of(self, request: Request) -> Process:
        """The process in the version the request was started with."""

    async def fill(
        self, process: Process, form: Mapping[str, str], initiator: str, now: datetime, besides: str = ""
    ) -> Filled:
        """The form checked and completed, without any effect. `besides`: the request it is for, if there is one: it is
        not counted as another of the author's."""

    async def start(
        self,
        process: str,
        form: Mapping[str, str],
        initiator: str,
        key: str,
        now: datetime,
        seen: str = "",
        *,
        again: str | None = None,
    ) -> Moved:
        """`seen`: `Filled.sha` of what was confirmed; anything else is refused with `request_changed`. `again`: the
        request of a moment ago that the author knowingly repeats, empty for none, None where nobody can be asked.
        `started_already` is raised for the same start within the form's `again_minutes`; of two at once one starts."""

    async def act(
        self, command: Act, key: str, now: datetime, *, form: Mapping[str, str] | None = None, seen: str = ""
    ) -> Moved:
        """Carries a command out, if its actor may. `form`: for a resubmission, the fields that change; `seen`: as
        for `start`."""

    async def check(self, command: Act, now: datetime, *, form: Mapping[str, str] | None = None) -> Moved:
        """What `act` would come to, without any effect; what it would refuse is refused, but for what only a fresh look
        at people shows (`authorize`): dialogs cannot wait for that."""

    async def authorize(self, command: TaskCommand, now: datetime) -> None:
        """Asks the rules again, about people as they are now, whether who was asked may decide. `act` does so too.
        Raises `ToolError` `not_named` or `nobody_named`; nothing for a command that is refused for other reasons."""

    async def task(self, task_id: str) -> Assigned: ...

    async def todo(self, person: str, now: datetime, most: int | None = None) -> Todo:
        """What waits for a person, and for those they stand in for now; oldest first, at most `most`."""

    async def done(self, person: str) -> tuple[Assigned, ...]: ...

    async def request(self, request_id: str) -> Request: ...

    async def mine(self, person: str) -> tuple[Request, ...]: ...

    async def balances(self, person: str, year: int) -> tuple[YearBalance, ...]:
        """What is left of a person's yearly allowances, of every process that keeps a balance."""

    async def told(self, person: str) -> tuple[Request, ...]:
        """What a person was told about (cc)."""

    async def events(self, request_id: str) -> tuple[Event, ...]:
        """The request's whole record, oldest first."""

    async def deputies(self, person: str, now: datetime) -> tuple[str, ...]:
        """Who stands in for this person now."""

    async def stand_ins(self, task_id: str, now: datetime) -> tuple[str, ...]:
        """Who may decide this task now in place of its assignee: nobody who has a say of their own in the request."""

    async def delegate(self, delegation: Delegation, now: datetime) -> None:
        """Somebody will be away. The same delegation twice is one."""

    async def undelegate(self, person: str, delegation_id: str, now: datetime) -> Delegation: ...

    async def delegations(self, person: str, now: datetime) -> tuple[Delegation, ...]:
        """Present and future ones of a person."""

    async def tick(self, now: datetime) -> int:
        """Timers that are due go off; how many did."""

    async def outbox(self, limit: int) -> list[OutboxEvent]: ...

    async def sent(self, ids: Sequence[str]) -> None: ...
