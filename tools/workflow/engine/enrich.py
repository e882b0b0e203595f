"""Adds what a command needs from outside before the reducer judges it: forms, people, deputies, working hours.

Values that a caller put into these fields are replaced."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Protocol, TypeVar

from tools.people.names import get_names_by_language, join_in_both_languages, list_names_by_language
from tools.ports import AttachedFiles, Directory
from tools.spec import AttachedFile, Person, ToolError
from tools.workflow.bpmn.graph import ProcessDefinition
from tools.workflow.engine import authority
from tools.workflow.engine.assignment import find_successors
from tools.workflow.engine.commands import (
    Act,
    AddSignCommand,
    CcCommand,
    CommentCommand,
    DecideCommand,
    FireTimerCommand,
    TaskCommand,
    TransferCommand,
    UrgeCommand,
    WithdrawCommand,
)
from tools.workflow.engine.state import Decision, Delegation, FilledForm, Request, Status, Task, Visit
from tools.workflow.engine.votes import list_seats
from tools.workflow.process.calendar import BY_CLOCK, WorkCalendar
from tools.workflow.process.definition import FormContext, FormPreview, Process, fill_form, preview_form
from tools.workflow.process.earlier_requests import YearBalance, build_year_balance, get_allowance
from tools.workflow.process.form_input import list_named_files
from tools.workflow.process.policy import AssigneeResolver, PolicyRow

MAX_LEVELS = 10
"""Most levels of managers that are followed."""


Tasked = TypeVar("Tasked", bound=TaskCommand)


class RequestLists(Protocol):
    """The lists of requests and absences that are used here: of a `RedisStore`, or read from a remote engine."""

    async def list_own_requests(self, person: str) -> Sequence[Request]: ...

    async def load_requests_of_year(self, person: str, process: str, year: int) -> Sequence[Request]: ...

    async def list_delegations_from(self, person: str) -> tuple[Delegation, ...]: ...


class CommandEnricher:
    """Enriches commands. `numbers` replace thresholds of the forms, e.g. `{"threshold": Decimal(5000)}`; the rows of
    `policy` come before a form's own."""

    def __init__(
        self,
        lists: RequestLists,
        directory: Directory,
        calendar: WorkCalendar,
        numbers: Mapping[str, Decimal],
        policy: Sequence[PolicyRow],
        files: AttachedFiles | None = None,
    ) -> None:
        self._lists, self._directory, self._files = lists, directory, files
        self._calendar, self._numbers, self._policy = calendar, numbers, policy

    async def fill_form(
        self,
        process: Process,
        form: Mapping[str, str],
        initiator: str,
        now: datetime,
        excluded_request: str = "",
        own_requests: Sequence[Request] | None = None,
        known_files: Sequence[AttachedFile] = (),
    ) -> FilledForm:
        """The form, checked and completed. `excluded_request` is the request that the form belongs to, which does not
        count as another one. `own_requests` are the author's requests, if already loaded; `known_files` are files
        that the request has already. Raises `ToolError`."""
        context = await self._build_form_context(process, initiator, now, own_requests)
        others = [request for request in context.earlier_requests if request.id != excluded_request]
        files = await self._find_files(process, form, initiator, known_files)
        return fill_form(process, form, replace(context, earlier_requests=others, files=files))

    async def preview_form(
        self, process: Process, form: Mapping[str, str], initiator: str, now: datetime
    ) -> FormPreview:
        """The preview of a form that is still being filled in. Raises `ToolError` for an author who is not in the
        directory."""
        context = await self._build_form_context(process, initiator, now)
        return preview_form(process, form, replace(context, files=await self._find_files(process, form, initiator)))

    async def _build_form_context(
        self, process: Process, initiator: str, now: datetime, own_requests: Sequence[Request] | None = None
    ) -> FormContext:
        """The context of a form, without files. `own_requests` has the meaning of `fill_form`."""
        people = await self._directory.list_people()
        author = _require_author(people, initiator)
        if own_requests is None and process.form.needs_earlier_requests:
            own_requests = await self._lists.list_own_requests(initiator)
        return FormContext(
            initiator=author,
            people=people,
            today=now.astimezone(author.zone).date(),
            calendar=self._calendar,
            number_overrides=self._numbers,
            policy=self._policy,
            earlier_requests=[request for request in own_requests or () if request.process == process.key],
        )

    async def _find_files(
        self, process: Process, form: Mapping[str, str], author: str, known: Sequence[AttachedFile] = ()
    ) -> Mapping[str, AttachedFile] | None:
        """The files that a form names, as far as its author has sent them; None without a store of files."""
        if self._files is None:
            return None
        ids = list_named_files(process.form, form)
        kept = {file.id: file for file in known}
        sought = [id for id in ids if id not in kept]
        return {**(await self._files.find_files(author, sought) if sought else {}), **kept}

    async def list_balances(self, processes: Sequence[Process], person: str, year: int) -> tuple[YearBalance, ...]:
        """The rest of a person's allowances in a calendar year. Raises `ToolError` for a person outside the
        directory."""
        found = await self._directory.find_person(person)
        author = _require_author([found] if found else [], person)
        balances = [
            build_year_balance(
                process.form,
                get_allowance(process.form, author, self._numbers),
                self._calendar,
                await self._lists.load_requests_of_year(person, process.key, year),
                year,
            )
            for process in processes
            if process.form.balance
        ]
        return tuple(balances)

    async def enrich_command(
        self, process: Process, request: Request, command: Act, now: datetime, form: Mapping[str, str] | None
    ) -> Act:
        """The command with everything it needs from outside. Raises `ToolError`."""
        match command:
            case DecideCommand():
                filled: FilledForm | None = None
                if command.decision is Decision.RESUBMIT and command.actor == request.initiator:
                    filled = await self.fill_form(
                        process,
                        {**request.filled.values, **(form or {})},
                        request.initiator,
                        now,
                        excluded_request=request.id,
                        known_files=request.filled.files,
                    )
                return await self._add_delegation(request, command.model_copy(update={"filled": filled}), now)
            case TransferCommand(person=person):
                await self._require_known_people([person], "person")
                return await self._add_delegation(request, command, now)
            case AddSignCommand(people=people):
                await self._require_known_people(people, "people")
                return await self._add_delegation(request, command, now)
            case CcCommand(people=people):
                await self._require_known_people(people, "people")
                return command
            case WithdrawCommand():
                return command.model_copy(update={"agree": await self._choose_withdrawal_approvers(request)})
            case UrgeCommand():
                task = request.find_task(command.task)
                assignee = await self._directory.find_person(task.assignee) if task else None
                opens = self._calendar.find_next_opening(now, assignee.zone) if assignee else None
                return command.model_copy(update={"opens": opens})
            case CommentCommand():
                return command

    async def authorize_command(
        self, process: Process, request: Request, command: Act | TaskCommand, now: datetime
    ) -> None:
        """Check, with current data about people, that the rules still name the task's assignee. An assignee whom they
        no longer name can only transfer the task to a person whom they name. Raises `ToolError`."""
        if not isinstance(command, TaskCommand):
            return
        task = request.find_task(command.task)
        if task is None or not task.is_open or request.initiator == command.actor:
            return
        await self._directory.refresh_people({command.actor, task.assignee, request.initiator})
        if command.actor != task.assignee and not (await self._add_delegation(request, command, now)).standing:
            return
        named = await self._find_successors(process, request, task)
        if named is None or (isinstance(command, TransferCommand) and command.person in [p.id for p in named]):
            return
        name = await get_names_by_language(self._directory, task.assignee)
        if not named:
            message = f"the rules no longer name {name['en']} for {task.id}, nor anybody else"
            raise ToolError("nobody_named", message, name=name)
        names = join_in_both_languages(map(list_names_by_language, named))
        message = f"the rules name {names['en']} for {task.id} now, no longer {name['en']}"
        raise ToolError("not_named", message, name=name, names=names)

    async def _find_successors(self, process: Process, request: Request, task: Task) -> tuple[Person, ...] | None:
        """Run `find_successors` with current data. All people whose data it consulted are looked up again, repeatedly,
        because they may lead to others."""
        looked_up = {task.assignee, request.initiator}
        rows = [row for row in self._policy if row.process == process.key]
        while True:
            unknown = Person(id=request.initiator, name="", active=False)
            author = await self._directory.find_person(request.initiator) or unknown
            company = AssigneeResolver(await self._directory.list_people(), author)
            found = find_successors(process, request, task, company, rows)
            if company.consulted <= looked_up:
                return found
            await self._directory.refresh_people(company.consulted - looked_up)
            looked_up |= company.consulted

    async def enrich_timer(
        self, definition: ProcessDefinition, request: Request, command: FireTimerCommand
    ) -> FireTimerCommand:
        """The command with the person who gets a task that waited too long: nobody who had the task already."""
        task = request.find_task(command.task)
        if task is None or not task.is_open:
            return command
        had = {t.assignee for t in request.tasks if t.seat == task.seat}
        async for person in self._list_superiors(task.assignee):
            if person not in had and authority.can_be_asked(definition, request, task, person):
                return command.model_copy(update={"manager": person})
        return command

    async def find_timer_due(self, task: Task, length: timedelta, now: datetime) -> datetime:
        """The moment when this length has passed in the assignee's working hours. A timer found late, outside working
        hours, waits for the next ones, and shorter timers come first."""
        assignee = await self._directory.find_person(task.assignee)
        if assignee is None or length < BY_CLOCK:
            return now
        due = self._calendar.add_working_time(task.clock or task.since, length, assignee.zone)
        opening = self._calendar.find_next_opening(now, assignee.zone)
        return max(due, opening + length / 1000) if opening else due

    async def find_gone_people(
        self, process: Process, filled: FilledForm, initiator: str, now: datetime, visits: Iterable[Visit] = ()
    ) -> dict[str, tuple[str, ...]]:
        """Everybody who is or may be asked and cannot be reached → the people above them, nearest first. Unreachable
        are people who have left, or who are away like their deputies. Above somebody away, only reachable people
        count."""
        seated = {seat.person for visit in visits for seat in list_seats(visit.ballot)}
        named = filled.list_people(name for node in process.definition.nodes.values() for name in node.who)
        gone: dict[str, tuple[str, ...]] = {}
        for person in sorted({*seated, *named} - {initiator}):
            if not await self._is_reachable(person, initiator, now):
                above = [p async for p in self._list_superiors(person)]
                reachable = [p for p in above if await self._is_reachable(p, initiator, now)]
                gone[person] = tuple(reachable if await self._is_active(person) else dict.fromkeys(reachable + above))
        return gone

    async def _is_reachable(self, person: str, initiator: str, now: datetime) -> bool:
        """Whether the person is here, or somebody else than the author is here in their place."""
        if not await self._is_active(person):
            return False
        if not await self._is_away(person, now):
            return True
        deputies = [d.deputy for d in await self.list_standing(person, now) if d.deputy != initiator]
        return any([not await self._is_away(deputy, now) for deputy in deputies])

    async def list_standing(self, person: str, now: datetime) -> list[Delegation]:
        """The delegations to a person's current deputies who have not left. If a deputy is away as well, their own
        deputies also count as the person's, but no further ones."""
        standing = list[Delegation]()
        for one in await self._list_active_delegations(person, now):
            standing.append(one)
            for onward in await self._list_active_delegations(one.deputy, now):
                period = {"start": max(one.start, onward.start), "end": min(one.end, onward.end)}
                if onward.deputy != person:
                    standing.append(onward.model_copy(update={"person": person, **period}))
        return [one for one in standing if await self._is_active(one.deputy)]

    async def _list_active_delegations(self, person: str, now: datetime) -> list[Delegation]:
        return [one for one in await self._lists.list_delegations_from(person) if one.is_active_at(now)]

    async def _is_away(self, person: str, now: datetime) -> bool:
        return bool(await self._list_active_delegations(person, now))

    async def _add_delegation(self, request: Request, command: Tasked, now: datetime) -> Tasked:
        """The command with the delegation that makes the actor the assignee's deputy, if there is one."""
        task = request.find_task(command.task)
        standing: Delegation | None = None
        if task is not None and task.assignee != command.actor:
            found = await self.list_standing(task.assignee, now)
            standing = next((d for d in found if d.deputy == command.actor), None)
        return command.model_copy(update={"standing": standing})

    async def _require_known_people(self, people: Sequence[str], field: str) -> None:
        for person in people:
            found = await self._directory.find_person(person)
            if found is None or not found.active:
                message = f"{person!r} is not in the directory"
                raise ToolError("unknown_person", message, needs_person=True, field=field, name=person[:60])

    async def _choose_withdrawal_approvers(self, request: Request) -> tuple[str, ...]:
        """The people who must agree to the withdrawal of an approved request: its last approvers, else a superior of
        its author. Empty while all who were asked before are still here."""
        asked = [await self._is_active(p) for p in request.waits_for]
        if request.status not in (Status.APPROVED, Status.REVOKING) or (asked and all(asked)):
            return ()
        if here := [p for p in authority.find_last_approvers(request) if await self._is_active(p)]:
            return tuple(here)
        above = [p async for p in self._list_superiors(request.initiator) if p != request.initiator]
        return tuple(above[:1])

    async def _list_superiors(self, person: str) -> AsyncIterator[str]:
        """Yield the person's manager, that person's manager and so on, then the administrators; nobody who has left."""
        people_by_id = {p.id: p for p in await self._directory.list_people()}
        above = await self._directory.find_person(person)  # no list has who has left
        for _ in range(MAX_LEVELS):
            above = people_by_id.get(above.manager or "") if above else None
            if above is None:
                break
            if above.active:
                yield above.id
        for admin in sorted(p.id for p in people_by_id.values() if p.active and "admin" in p.roles):
            yield admin

    async def _is_active(self, person: str) -> bool:
        found = await self._directory.find_person(person)
        return found is not None and found.active


def _require_author(people: Sequence[Person], initiator: str) -> Person:
    found = next((p for p in people if p.id == initiator and p.active), None)
    if found is None:
        raise ToolError("unknown_person", f"the author {initiator!r} is not in the directory", name=initiator)
    return found
