"""What a command needs from outside before the machine can judge it: forms, people, deputies, working hours.

Whatever a caller put into these fields is replaced by what is known here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import NoReturn, Protocol, TypeVar

from tools.names import listed, name_of
from tools.ports import Directory
from tools.spec import Person, ToolError
from tools.workflow import authority
from tools.workflow.assigning import find_successors
from tools.workflow.balance import YearBalance, allowance_of, sum_up_year
from tools.workflow.calendar import Calendar
from tools.workflow.commands import AddSign, Cc, Comment, Decide, Fire, TaskCommand, Transfer, Urge, Withdraw
from tools.workflow.engine import Act
from tools.workflow.graph import Definition
from tools.workflow.policy import Company, Row
from tools.workflow.process import Process, fill
from tools.workflow.state import Decision, Delegation, Filled, Request, Status, Task

CLIMB = 10
"""How far up the managers are followed."""


Tasked = TypeVar("Tasked", bound=TaskCommand)


class Lists(Protocol):
    """The little of a `Store` that is looked at."""

    async def load_all(self, request_ids: Sequence[str]) -> tuple[Request, ...]: ...

    async def listed(self, name: str, person: str = "") -> tuple[tuple[str, int], ...]: ...

    async def away(self, person: str) -> tuple[Delegation, ...]: ...


class Completing:
    """`numbers` replace thresholds of the forms, e.g. `{"threshold": Decimal(5000)}`; the rows of `policy` come before
    a form's own."""

    def __init__(
        self,
        lists: Lists,
        directory: Directory,
        calendar: Calendar,
        numbers: Mapping[str, Decimal],
        policy: Sequence[Row],
    ) -> None:
        self._lists, self._directory = lists, directory
        self._calendar, self._numbers, self._policy = calendar, numbers, policy

    async def form(
        self,
        process: Process,
        form: Mapping[str, str],
        initiator: str,
        now: datetime,
        besides: str = "",
        own: Sequence[str] | None = None,
    ) -> Filled:
        """The form checked and completed. `besides`: the request that it is for, which does not count as another.
        `own`: the author's requests, where they are known already."""
        people = await self._directory.everyone()
        author = _author(people, initiator)
        others = await self._others(initiator, own) if process.form.is_compared else ()
        return fill(
            process,
            form,
            initiator=author,
            people=people,
            today=now.astimezone(author.zone).date(),
            calendar=self._calendar,
            numbers=self._numbers,
            policy=self._policy,
            earlier=[r for r in others if r.process == process.key and r.id != besides],
        )

    async def balances(self, processes: Sequence[Process], person: str, year: int) -> tuple[YearBalance, ...]:
        """What is left of a person's allowances in a calendar year. Raises `ToolError` for who is not in the
        directory."""
        author = _author(await self._directory.everyone(), person)
        kept = [process for process in processes if process.form.balance]
        own = await self._others(person, None) if kept else ()
        found = [
            sum_up_year(
                process.form,
                allowance_of(process.form, author, self._numbers),
                self._calendar,
                [request for request in own if request.process == process.key],
                year,
            )
            for process in kept
        ]
        return tuple(one for one in found if one is not None)

    async def _others(self, person: str, own: Sequence[str] | None) -> tuple[Request, ...]:
        known = own if own is not None else [request for request, _ in await self._lists.listed("mine", person)]
        return await self._lists.load_all(known)

    async def act(
        self,
        process: Process,
        request: Request,
        command: Act,
        now: datetime,
        form: Mapping[str, str] | None,
        own: Sequence[str] | None = None,
    ) -> Act:
        """`own`: as for `form`."""
        match command:
            case Decide():
                filled = await self._again(process, request, command, now, form, own)
                return await self._standing(request, command.model_copy(update={"filled": filled}), now)
            case Transfer(person=person):
                await self._known([person], "person")
                return await self._standing(request, command, now)
            case AddSign(people=people):
                await self._known(people, "people")
                return await self._standing(request, command, now)
            case Cc(people=people):
                await self._known(people, "people")
                return command
            case Withdraw():
                return command.model_copy(update={"agree": await self._who_agrees(request)})
            case Urge():
                return command.model_copy(update={"opens": await self._opens(request, command.task, now)})
            case Comment():
                return command

    async def authorize(self, process: Process, request: Request, command: Act | TaskCommand, now: datetime) -> None:
        """Whether the assignee of a task is still one whom the rules name, by what is known of people now. Who is named
        no longer can only transfer the task to one who is. Raises `ToolError`."""
        if not isinstance(command, TaskCommand):
            return
        task = request.task(command.task)
        if task is None or not task.open or request.initiator == command.actor:
            return
        await self._directory.refresh({command.actor, task.assignee, request.initiator})
        if command.actor != task.assignee and not (await self._standing(request, command, now)).standing:
            return
        named = await self._successors(process, request, task)
        if named is None or (isinstance(command, Transfer) and command.person in [p.id for p in named]):
            return
        await self._refuse_unnamed(task, named)

    async def _successors(self, process: Process, request: Request, task: Task) -> tuple[Person, ...] | None:
        """As `find_successors` has it. Everybody whose facts count is looked up again; they may lead to others."""
        looked_up = {task.assignee, request.initiator}
        rows = [row for row in self._policy if row.process == process.key]
        while True:
            author = await self._directory.get(request.initiator) or Person(id=request.initiator, name="", active=False)
            company = Company(await self._directory.everyone(), author)
            found = find_successors(process.form, process.definition, request, task, company, rows)
            if company.consulted <= looked_up:
                return found
            await self._directory.refresh(company.consulted - looked_up)
            looked_up |= company.consulted

    async def _refuse_unnamed(self, task: Task, named: Sequence[Person]) -> NoReturn:
        name = await name_of(self._directory, task.assignee)
        if not named:
            message = f"the rules no longer name {name} for {task.id}, nor anybody else"
            raise ToolError("nobody_named", message, name=name)
        names = listed([p.name for p in named])
        message = f"the rules name {names['en']} for {task.id} now, no longer {name}"
        raise ToolError("not_named", message, name=name, names=names)

    async def fire(self, definition: Definition, request: Request, command: Fire) -> Fire:
        """With who gets the task that waited too long: nobody who had it already."""
        task = request.task(command.task)
        if task is None or not task.open:
            return command
        had = {t.assignee for t in request.tasks if t.seat == task.seat}
        async for person in self._above(task.assignee):
            if person not in had and authority.may_be_asked(definition, request, task, person):
                return command.model_copy(update={"manager": person})
        return command

    async def _again(
        self,
        process: Process,
        request: Request,
        command: Decide,
        now: datetime,
        form: Mapping[str, str] | None,
        own: Sequence[str] | None,
    ) -> Filled | None:
        """The form of a resubmission."""
        if command.decision is not Decision.RESUBMIT or command.actor != request.initiator:
            return None
        changed = {**request.filled.values, **(form or {})}
        return await self.form(process, changed, request.initiator, now, besides=request.id, own=own)

    async def _standing(self, request: Request, command: Tasked, now: datetime) -> Tasked:
        """With the delegation by which somebody else than the assignee acts, if there is one."""
        task = request.task(command.task)
        standing: Delegation | None = None
        if task is not None and task.assignee != command.actor:
            found = await self._lists.away(task.assignee)
            standing = next((d for d in found if d.deputy == command.actor and d.covers(now)), None)
        return command.model_copy(update={"standing": standing})

    async def _known(self, people: Sequence[str], field: str) -> None:
        for person in people:
            found = await self._directory.get(person)
            if found is None or not found.active:
                message = f"{person!r} is not in the directory"
                raise ToolError("unknown_person", message, ask=True, field=field, name=person[:60])

    async def _who_agrees(self, request: Request) -> tuple[str, ...]:
        """To the withdrawal of what is approved: who approved it last, else who is above its author. Nobody is asked
        while all who were asked before are here."""
        asked = [await self._here(p) for p in request.waits_for]
        if request.status not in (Status.APPROVED, Status.REVOKING) or (asked and all(asked)):
            return ()
        if here := [p for p in authority.last_approvers(request) if await self._here(p)]:
            return tuple(here)
        above = [p async for p in self._above(request.initiator) if p != request.initiator]
        return tuple(above[:1])

    async def _above(self, person: str) -> AsyncIterator[str]:
        """Their manager, that one's manager …; then the administrators. Nobody who has left."""
        known = {p.id: p for p in await self._directory.everyone()}
        above = known.get(person)
        for _ in range(CLIMB):
            above = known.get(above.manager or "") if above else None
            if above is None:
                break
            if above.active:
                yield above.id
        for admin in sorted(p.id for p in known.values() if p.active and "admin" in p.roles):
            yield admin

    async def _here(self, person: str) -> bool:
        found = await self._directory.get(person)
        return found is not None and found.active

    async def _opens(self, request: Request, task_id: str, now: datetime) -> datetime | None:
        task = request.task(task_id)
        assignee = await self._directory.get(task.assignee) if task else None
        return self._calendar.opens(now, assignee.zone) if assignee else None


def _author(people: Sequence[Person], initiator: str) -> Person:
    found = next((p for p in people if p.id == initiator and p.active), None)
    if found is None:
        raise ToolError("unknown_person", f"the author {initiator!r} is not in the directory", name=initiator)
    return found
