"""`EmbeddedEngine`: runs processes in this process, over a `RedisStore`.

One command takes these steps. An earlier answer to the command is returned at once. Otherwise the request is loaded,
the command is enriched from outside, and the reducer judges it. Everything is then stored in one step; if another
writer was faster, all steps are repeated."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TypeVar, get_args

from tools.people.names import get_person_name
from tools.ports import AttachedFiles, Directory
from tools.spec import ToolError
from tools.workflow.bpmn.graph import InvalidDefinitionError, ProcessDefinition
from tools.workflow.engine.authority import (
    build_no_request_error,
    build_no_task_error,
    can_be_asked,
    reject_bad_delegation,
    reject_unseen_form,
    require_task,
)
from tools.workflow.engine.commands import (
    AboutTask,
    Command,
    DecideCommand,
    FireTimerCommand,
    MigrateCommand,
    RequestEvent,
    StartCommand,
    TaskCommand,
    WithdrawCommand,
)
from tools.workflow.engine.enrich import CommandEnricher
from tools.workflow.engine.migration import reject_migration
from tools.workflow.engine.paths import list_task_timers
from tools.workflow.engine.port import (
    MAX_SAME_FILE,
    Ability,
    AssignedTask,
    CommandResult,
    Completion,
    Engine,
    RequestList,
    TodoList,
    build_command_result,
    reject_repeated_start,
)
from tools.workflow.engine.reducer import apply_command, require_readable
from tools.workflow.engine.state import SYSTEM, Decision, Delegation, Request, TaskKind
from tools.workflow.engine.store import (
    OutboxEvent,
    RedisStore,
    RequestChange,
    WriteConflictError,
    format_request_id,
    to_milliseconds,
)
from tools.workflow.engine.transitions import TransitionResult
from tools.workflow.engine.versions import ProcessVersions
from tools.workflow.process.calendar import WorkCalendar
from tools.workflow.process.definition import Process, get_process_by_key
from tools.workflow.process.policy import PolicyRow

T = TypeVar("T")

MAX_TRIES = 100
"""Most tries of a command against other writers; in each round at least one of them succeeds."""
MAX_DUE_TIMERS = 100
"""Most timers fired in one round."""
POSTPONEMENT = timedelta(hours=1)
"""How long the timer of an unreadable request is postponed, so that it neither blocks others nor is lost."""

log = logging.getLogger(__name__)


class EmbeddedEngine(Engine):
    """An engine over a store. `processes` are available without deployment."""

    abilities: frozenset[Ability] = frozenset(get_args(Ability))

    def __init__(
        self,
        store: RedisStore,
        processes: Sequence[Process],
        directory: Directory,
        *,
        calendar: WorkCalendar | None = None,
        numbers: Mapping[str, Decimal] | None = None,
        policy: Sequence[PolicyRow] = (),
        files: AttachedFiles | None = None,
    ) -> None:
        self._store, self._directory = store, directory
        self._enricher = CommandEnricher(
            lists=store,
            directory=directory,
            calendar=calendar or WorkCalendar(),
            numbers=numbers or {},
            policy=policy,
            files=files,
        )
        self._versions = ProcessVersions(store.load_file, processes)
        self._saved_files = set[str]()

    # Processes

    async def list_processes(self) -> tuple[Process, ...]:
        return await self._versions.list_current_processes(await self._store.load_deployments())

    async def deploy_process(self, process: Process) -> None:
        """Deploy a version: new requests use it, running ones keep theirs."""
        await self._save_process_files(process)
        await self._store.save_deployment(process.key, *process.version)

    async def _save_process_files(self, process: Process) -> None:
        """Store the process files, so that requests keep them when the files change."""
        for version, content in zip(process.version, (process.bpmn, process.toml), strict=True):
            if version not in self._saved_files:
                await self._store.save_file(version, content)
                self._saved_files.add(version)

    async def list_requests_with_file(self, sha256: str) -> tuple[Request, ...]:
        named = await self._store.list_members("same_file", sha256)
        return await self._store.load_requests([request for request, _ in named[-MAX_SAME_FILE:]])

    async def is_file_on_request(self, sha256: str) -> bool:
        return bool(await self._store.list_members("same_file", sha256))

    # Commands

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
        async def try_start() -> CommandResult:
            start_context = await self._store.load_start_context(_require_key(key), initiator)
            if start_context.answer is not None:
                return CommandResult.model_validate_json(start_context.answer)
            used = get_process_by_key(process, await self._versions.list_current_processes(start_context.deployments))
            await self._save_process_files(used)
            own_ids = start_context.own_requests.request_ids if used.form.needs_earlier_requests else ()
            own = await self._store.load_requests(own_ids)
            try:
                filled = await self._enricher.fill_form(used, form, initiator, now, own_requests=own)
                reject_repeated_start(own, used, filled, now, again)
                reject_unseen_form(filled.confirmed_hash, seen)
            except ToolError:  # this command may have started the request meanwhile
                if (answer := (await self._store.load_start_context(key, initiator)).answer) is None:
                    raise
                return CommandResult.model_validate_json(answer)
            gone = await self._enricher.find_gone_people(used, filled, initiator, now)
            last_number = start_context.last_numbers.get(used.form.number, start_context.number_floor)
            command = StartCommand(
                request=format_request_id(used.form.number, last_number + 1),
                process=used.key,
                definition=used.definition.version,
                form=used.form_version,
                initiator=initiator,
                filled=filled,
                gone=gone,
            )
            applied = apply_command(used.definition, None, command, now)
            forms = start_context.own_requests.form_count if used.form.needs_earlier_requests else None
            return await self._save_result(key, None, used.definition, applied, forms)

        return await self._retry_conflicts(try_start)

    async def migrate_request(
        self, request_id: str, process: Process, actor: str, key: str, now: datetime
    ) -> CommandResult:
        """Continue a running request in another version of its process. Raises `ToolError` `not_movable` or
        `not_ready`."""
        await self._save_process_files(process)
        command = _build_migration(request_id, process, actor)

        async def check_migration(before: Process, request: Request) -> Command:
            reject_migration(before, process, request, await self.list_events(request.id))
            return command

        return await self._run_command(command, key, now, check_migration)

    async def preview_migration(self, request: Request, process: Process, actor: str, now: datetime) -> None:
        """Raise the `ToolError` of `migrate_request`, without storing anything."""
        command, before = _build_migration(request.id, process, actor), await self.get_process(request)
        reject_migration(before, process, request, await self.list_events(request.id))
        require_readable(apply_command(before.definition, request, command, now), request)

    async def run_due_jobs(self, now: datetime) -> int:
        due = await self._store.list_due_timers(to_milliseconds(now), MAX_DUE_TIMERS)
        for member in due:
            try:
                subject, _, details = member.partition("|")
                if subject == "away":
                    await self._start_absence(member, now, *details.split("|"))
                else:
                    await self._fire_timer(member, FireTimerCommand(task=subject, timer=details), now)
            except (ValueError, LookupError) as error:  # the request, or its version, is no longer readable
                log.error("timer %s is put off: %s", member, error)
                await self._store.postpone_timer(member, to_milliseconds(now + POSTPONEMENT))
        return len(due)

    async def _fire_timer(self, member: str, command: FireTimerCommand, now: datetime) -> None:
        """Fire a timer, or postpone it if it is not yet due by the assignee's working hours. The store counts clock
        hours, which never end later than working hours."""
        request = await self._store.load_request(_get_request_id(command))
        if request:
            definition = (await self.get_process(request)).definition
            task = request.find_task(command.task)
            timers = list_task_timers(definition, task) if task else ()
            timer = next((t for t in timers if t.id == command.timer), None)
            if task and timer and task.is_open:
                due = await self._enricher.find_timer_due(task, timedelta(seconds=timer.after_s), now)
                if due > now:
                    await self._store.postpone_timer(member, to_milliseconds(due))
                    return

        async def enrich_timer(process: Process, request: Request) -> Command:
            return await self._enricher.enrich_timer(process.definition, request, command)

        try:
            await self._run_command(command, f"timer:{member}", now, enrich_timer)
        except ToolError as error:
            if error.code != "busy":  # closed meanwhile, or fired already
                await self._store.delete_timer(member)

    async def _load_request_of(self, command: Command | TaskCommand) -> Request:
        request = await self._store.load_request(_get_request_id(command))
        if request is None:
            raise _build_absent_error(command)
        return request

    async def _run_command(
        self, command: Command, key: str, now: datetime, complete: Completion | None = None
    ) -> CommandResult:
        async def try_command() -> CommandResult:
            answer, request = await self._store.load_command_context(_require_key(key), _get_request_id(command))
            if answer is not None:
                return CommandResult.model_validate_json(answer)
            if request is None:
                raise _build_absent_error(command)
            process, forms = await self.get_process(request), None
            again = isinstance(command, DecideCommand) and command.decision is Decision.RESUBMIT
            if again and process.form.needs_earlier_requests:  # counted before the author's other requests are read
                forms = (await self._store.load_own_requests(request.initiator)).form_count
            completed = await complete(process, request) if complete else command
            if isinstance(completed, TaskCommand | WithdrawCommand | FireTimerCommand):  # which may open tasks
                filled = (completed.filled if isinstance(completed, DecideCommand) else None) or request.filled
                gone = await self._enricher.find_gone_people(process, filled, request.initiator, now, request.visits)
                completed = completed.model_copy(update={"gone": gone})
            applied = apply_command(process.definition, request, completed, now)
            return await self._save_result(key, request, process.definition, applied, forms)

        return await self._retry_conflicts(try_command)

    async def _save_result(
        self,
        key: str,
        previous: Request | None,
        definition: ProcessDefinition,
        result: TransitionResult,
        forms: int | None,
    ) -> CommandResult:
        require_readable(result, previous)
        request, events = result.request, list[OutboxEvent]()
        for n, notice in enumerate(result.notices):  # with the present names of the actor and of who is represented
            names = {"by_name": await self._get_person_name(notice.data.get("by", ""))}
            if behalf := notice.data.get("behalf"):
                names["for_name"] = await self._get_person_name(behalf)
            id = f"{request.id}:{request.events}:{n}"
            events.append(OutboxEvent(id=id, kind=notice.kind, data={**notice.data, **names}))
        moved = build_command_result(request, result.event.command)
        answer = moved.model_dump_json()
        kept = await self._store.save_change(
            RequestChange(
                before=previous,
                after=request,
                event=result.event,
                outbox_events=tuple(events),
                definition=definition,
                idempotency_key=key,
                answer=answer,
                form_count=forms,
            )
        )
        return moved if kept == answer else CommandResult.model_validate_json(kept)

    async def _get_person_name(self, person: str) -> str:
        return await get_person_name(self._directory, person, "zh") if person and not person.startswith(SYSTEM) else ""

    # Standing in

    async def list_deputies(self, person: str, now: datetime) -> tuple[str, ...]:
        return tuple(dict.fromkeys(d.deputy for d in await self._enricher.list_standing(person, now)))

    async def list_task_deputies(self, task_id: str, now: datetime) -> tuple[str, ...]:
        assigned = await self.get_task(task_id)
        deputies = await self.list_deputies(assigned.task.assignee, now)
        return tuple([person for person in deputies if await self._can_stand_in(assigned, person)])

    async def _list_represented(self, person: str, now: datetime) -> list[str]:
        """The people whom a person represents, directly or in place of another deputy."""

        async def list_active(deputy: str) -> list[str]:
            return [d.person for d in await self._store.list_delegations_to(deputy) if d.is_active_at(now)]

        direct = await list_active(person)
        people = dict.fromkeys(direct + [further for one in direct for further in await list_active(one)])
        return [one for one in people if person in await self.list_deputies(one, now)]

    async def _can_stand_in(self, assigned: AssignedTask, person: str) -> bool:
        task, request = assigned.task, assigned.request
        if not task.is_open or task.kind is TaskKind.REVISE:
            return False
        try:
            definition = (await self.get_process(request)).definition
        except InvalidDefinitionError:  # nobody can decide the task
            return False
        return can_be_asked(definition, request, task, person)

    async def add_delegation(self, delegation: Delegation, now: datetime) -> None:
        async def try_delegation() -> None:
            delegations = await self._store.list_delegations_from(delegation.person)
            if delegation in delegations:
                return
            deputy = await self._directory.find_person(delegation.deputy)
            if deputy is None or not deputy.active:
                raise ToolError("bad_deputy", "somebody who is here has to stand in", field="deputy")
            reject_bad_delegation(delegation, delegations, now)
            await self._store.save_delegation(delegation, delegations)

        await self._retry_conflicts(try_delegation)

    async def end_delegation(self, person: str, delegation_id: str, now: datetime) -> Delegation:
        delegation = next((d for d in await self.list_delegations(person, now) if d.id == delegation_id), None)
        if delegation is None:
            raise ToolError("no_delegation", f"there is no such delegation {delegation_id[:40]!r}")
        await self._store.delete_delegation(delegation)
        return delegation

    async def list_delegations(self, person: str, now: datetime) -> tuple[Delegation, ...]:
        return tuple(d for d in await self._store.list_delegations_from(person) if d.end > now)

    async def list_delegations_to(self, person: str, now: datetime) -> tuple[Delegation, ...]:
        return tuple(d for d in await self._store.list_delegations_to(person) if d.end > now)

    async def _start_absence(self, member: str, now: datetime, person: str, delegation_id: str) -> None:
        """Deliver the waiting tasks of the absent person to the deputy too, and those of people whom the absent person
        represents. Nothing is delivered if the absence is already over."""
        if any(d.id == delegation_id and d.is_active_at(now) for d in await self._store.list_delegations_from(person)):
            for absent in (person, *await self._list_represented(person, now)):
                for task_id, _ in await self._store.list_members("todo", absent):
                    data = {"task": task_id, "person": absent}
                    event = OutboxEvent(id=f"{delegation_id}:{task_id}", kind="deputy", data=data)
                    await self._store.append_outbox([event])
        await self._store.delete_timer(member)

    # Reads

    async def get_task(self, task_id: str) -> AssignedTask:
        return _require_assigned_task(await self._store.load_request(_split_task_id(task_id)), task_id)

    async def list_todo_tasks(self, person: str, now: datetime, most: int | None = None) -> TodoList:
        people = dict.fromkeys([person, *await self._list_represented(person, now)])
        read = most if len(people) == 1 else None  # a deputy cannot decide all
        members, total = list[tuple[int, str]](), 0
        for one in people:
            members += [(score, member) for member, score in await self._store.list_members("todo", one, read)]
            total += await self._store.count_members("todo", one)
        tasks = await self._load_assigned_tasks([member for _, member in sorted(members)])
        mine = [t for t in tasks if t.task.assignee == person or await self._can_stand_in(t, person)]
        return TodoList(tuple(mine[:most]), total - (len(tasks) - len(mine)))

    async def list_decided_tasks(self, person: str) -> tuple[AssignedTask, ...]:
        return await self._load_assigned_tasks([member for member, _ in await self._store.list_members("done", person)])

    async def list_recent_decisions(self, person: str, most: int, skip: int = 0) -> TodoList:
        names, end = ("done", "decided_for"), skip + most
        members = [one for name in names for one in await self._store.list_members(name, person, end, newest=True)]
        newest = [member for member, _ in sorted(members, key=lambda one: one[::-1], reverse=True)[skip:end]]
        total = sum([await self._store.count_members(name, person) for name in names])
        return TodoList(await self._load_assigned_tasks(newest), total)

    async def get_request(self, request_id: str) -> Request:
        found = await self._store.load_request(_normalize_request_id(request_id))
        if found is None:
            raise build_no_request_error(request_id)
        return found

    async def list_own_requests(self, person: str) -> tuple[Request, ...]:
        return await self._store.list_own_requests(person)

    async def list_recent_requests(self, person: str, most: int, skip: int = 0) -> RequestList:
        newest = await self._store.list_members("mine", person, skip + most, newest=True)
        requests = await self._store.load_requests([member for member, _ in newest[skip:]])
        return RequestList(requests, await self._store.count_members("mine", person))

    async def list_cc_requests(self, person: str) -> tuple[Request, ...]:
        return await self._store.load_requests([member for member, _ in await self._store.list_members("told", person)])

    async def list_events(self, request_id: str) -> tuple[RequestEvent, ...]:
        return tuple(
            map(RequestEvent.model_validate_json, await self._store.load_events(_normalize_request_id(request_id)))
        )

    async def list_outbox(self, limit: int) -> list[OutboxEvent]:
        return await self._store.list_outbox(limit)

    async def mark_sent(self, ids: Sequence[str]) -> None:
        await self._store.mark_sent(ids)

    async def _load_assigned_tasks(self, ids: Sequence[str]) -> tuple[AssignedTask, ...]:
        requests = {r.id: r for r in await self._store.load_requests(list(dict.fromkeys(map(_split_task_id, ids))))}
        return tuple(
            _require_assigned_task(requests[_split_task_id(i)], i) for i in ids if _split_task_id(i) in requests
        )

    async def _retry_conflicts(self, attempt: Callable[[], Awaitable[T]]) -> T:
        for _ in range(MAX_TRIES):
            try:
                return await attempt()
            except WriteConflictError:
                await asyncio.sleep(random.uniform(0, 0.005))  # noqa: S311 (only spreads the retries)
        raise ToolError("busy", "too many people are changing this at once; try once more")


def _require_key(key: str) -> str:
    if not key:
        raise ValueError("a command needs an idempotency key")
    return key


def _get_request_id(command: Command | TaskCommand) -> str:
    if isinstance(command, AboutTask):
        return _split_task_id(command.task)
    return _normalize_request_id(command.request)


def _build_absent_error(command: Command | TaskCommand) -> ToolError:
    if isinstance(command, AboutTask):
        return build_no_task_error(command.task)
    return build_no_request_error(_get_request_id(command))


def _build_migration(request_id: str, process: Process, actor: str) -> MigrateCommand:
    definition, form = process.version
    return MigrateCommand(request=_normalize_request_id(request_id), actor=actor, definition=definition, form=form)


def _normalize_request_id(request_id: str) -> str:
    return request_id.strip().upper()


def _split_task_id(task_id: str) -> str:
    return task_id.strip().rpartition("-")[0]


def _require_assigned_task(request: Request | None, task_id: str) -> AssignedTask:
    if request is None:
        raise build_no_task_error(task_id)
    return AssignedTask(require_task(request, task_id.strip()), request)
