"""Polls the engine, because it announces nothing: finds changes, compares them with what was announced, and completes
service tasks, which wait until we have.

The delay is `POLL_INTERVAL_S` for changes from elsewhere; changes by this process are polled at once. Every poll reads
all open tasks of our requests (500 per page), which suits thousands of tasks, not millions. Several of our processes
may find the same change: its announcement has the same id and is sent once.

The service tasks `pass_by_rule`, `cc` and `mail` notify people. The targets of the engine's timers (`remind`,
`escalate`) remind the assignee, and take nothing away from them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tools.people.names import get_person_name
from tools.ports import Directory
from tools.spec import EffectUnknownError, FrozenModel, ToolError
from tools.workflow.bpmn.graph import ServiceTopic, TimerAction
from tools.workflow.engine.commands import CcCommand, RequestNotice, WithdrawCommand
from tools.workflow.engine.state import COPY_PREFIX, RULE, SYSTEM, Decision, Request, Status
from tools.workflow.engine.store import OutboxEvent
from tools.workflow.remote.api import WRITE_PENDING_MS, EngineApi, ExternalTask, VariableValue
from tools.workflow.remote.key_value_store import KeyValueStore
from tools.workflow.remote.rebuild import CommandRecord, RemoteRequest, build_record_variables
from tools.workflow.remote.request_reader import RequestReader
from tools.workflow.remote.rest_client import EngineNoAnswerError, EngineRefusedError, OutageLog

POLL_INTERVAL_S = 10.0
LONGEST_PAUSE_S = 15.0
"""Longest pause between looks for service tasks (s)."""
RUNNING_TABLE = "running"
"""Table: request → instance, for requests whose author has not been told the end. Its open tasks stand behind it once
everything about them was announced."""
ANNOUNCED_TABLE = "announced"
"""Table: task → person who has its card."""
NOTICES_TABLE = "notices"
"""Table: notices that polling tasks cannot find, as `QueuedEvent`."""
LoadRequest: TypeAlias = Callable[[str], Awaitable[RemoteRequest | None]]

log = logging.getLogger(__name__)


class QueuedEvent(FrozenModel):
    event: OutboxEvent
    key: str = ""
    """Key of the command that the event reports, or empty for a command that certainly happened. Otherwise the
    request's record shows whether it happened."""


@dataclass(frozen=True, slots=True)
class TableUpdate:
    """The row of a table after an event was sent."""

    event: OutboxEvent | None
    """The event, or None if there is nobody to tell."""
    table: str
    row: str
    value: str | None = None
    """The new value of the row, or None to delete the row."""


@dataclass
class ChangePoller:
    """Polls the processes of an engine. `clock` gives seconds, from any origin."""

    api: EngineApi
    store: KeyValueStore
    directory: Directory
    reader: RequestReader
    clock: Callable[[], float]
    _next_poll: float = float("-inf")
    _pending_updates: dict[str, TableUpdate] = field(default_factory=dict)
    _outage: OutageLog = field(default_factory=lambda: OutageLog("changes in the workflow engine"))
    _next_look: float = float("-inf")
    _pause_s: float = 0.0
    _task_outage: OutageLog = field(default_factory=lambda: OutageLog("service tasks of the workflow engine"))

    def schedule_poll(self) -> None:
        """Poll soon, because something has just happened."""
        self._next_poll = float("-inf")

    async def list_outbox(self, limit: int, load: LoadRequest) -> list[OutboxEvent]:
        """Events to send; they are repeated until `mark_sent`."""
        if not self._pending_updates and self.clock() >= self._next_poll:
            self._next_poll = self.clock() + POLL_INTERVAL_S
            try:
                async for change in self._collect_updates(load):
                    if change.event is None:
                        await self._apply_update(change)
                    else:
                        self._pending_updates[change.event.id] = change
                self._outage.record_state()
            except ToolError as away:
                self._outage.record_state(away.text)
        return [c.event for c in list(self._pending_updates.values())[:limit] if c.event]

    async def mark_sent(self, ids: Sequence[str]) -> None:
        for name in ids:
            if (change := self._pending_updates.pop(name, None)) is not None:
                await self._apply_update(change)

    async def enqueue_notices(
        self, request: str, key: str, notices: Sequence[RequestNotice], *, when_recorded: bool = False
    ) -> None:
        """Queue notices that polling tasks cannot find. Notices with a repeated `key` are sent once. With
        `when_recorded`, they are sent once the request has the record of the command with this key, and never without
        it."""
        if notices and when_recorded:
            await self.store.put(f"tried:{key}", "1", WRITE_PENDING_MS)
        for n, notice in enumerate(notices):
            event = OutboxEvent(
                id=f"remote:{request}:{key}:{n}", kind=notice.kind, data=await self._add_actor_name(notice.data)
            )
            queued = QueuedEvent(event=event, key=key if when_recorded else "")
            await self.store.set_row(NOTICES_TABLE, event.id, queued.model_dump_json())
            for person in {notice.data["person"]} if notice.kind == "told" else ():
                await self.store.set_row(f"told:{person}", request, "")

    async def _apply_update(self, change: TableUpdate) -> None:
        if change.value is None:
            await self.store.delete_row(change.table, change.row)
        else:
            await self.store.set_row(change.table, change.row, change.value)

    async def _collect_updates(self, load: LoadRequest) -> AsyncIterator[TableUpdate]:
        tasks_by_instance: dict[str, list[str]] = {}
        for item in await self.api.list_open_tasks():
            tasks_by_instance.setdefault(item.instance, []).append(f"{item.id}={item.assignee}")
        for row, text in (await self.store.get_table(NOTICES_TABLE)).items():
            for change in await _skip_if_unreadable(row, self._list_notice_updates(row, text, load)):
                yield change
        announced_cards = await self.store.get_table(ANNOUNCED_TABLE)
        for request, known in (await self.store.get_table(RUNNING_TABLE)).items():
            now = " ".join(sorted(tasks_by_instance.get(known.partition(" ")[0], ())))
            if now and now == known.partition(" ")[2]:
                continue
            told = {task: person for task, person in announced_cards.items() if task.startswith(f"{request}-")}
            for change in await _skip_if_unreadable(request, self._list_request_updates(request, now, told, load)):
                yield change

    async def _list_notice_updates(self, row: str, text: str, load: LoadRequest) -> list[TableUpdate]:
        notice = QueuedEvent.model_validate_json(text)
        if not notice.key:
            return [TableUpdate(notice.event, NOTICES_TABLE, row)]
        is_pending = await self.store.get(f"tried:{notice.key}")
        found = await load(notice.event.data["request"])
        if found and any(record.key == notice.key for record in found.command_log):
            return [TableUpdate(notice.event, NOTICES_TABLE, row)]
        return [] if is_pending else [TableUpdate(None, NOTICES_TABLE, row)]

    async def _list_request_updates(
        self, request: str, now: str, announced_cards: Mapping[str, str], load: LoadRequest
    ) -> list[TableUpdate]:
        """Updates for the changes of one request that were not announced. Its open tasks are `now`. A request that does
        not exist yet is waited for."""
        tried = await self.store.get(f"tried:{request}")
        if (remote_request := await load(request)) is None:
            return [] if tried else [TableUpdate(None, RUNNING_TABLE, request)]
        changes: list[TableUpdate] = []
        found = remote_request.request
        ended_by, opinion = find_ending_actor(remote_request)
        for task in found.tasks:
            if not task.is_open and task.id in announced_cards:
                by, why = remote_request.closed_by.get(task.id, ""), task.outcome
                if why in tuple(Decision):
                    why = "decided"
                elif found.status is Status.WITHDRAWN:
                    by, why = ended_by, found.status.value
                data = {"task": task.id, "person": announced_cards[task.id], "by": by, "why": why}
                event = await self._build_event("task_closed", found, task.id, data)
                changes.append(TableUpdate(event, ANNOUNCED_TABLE, task.id))
        for task in found.open_tasks:
            if announced_cards.get(task.id) != task.assignee:
                data = {"task": task.id, "person": task.assignee, "kind": task.kind.value}
                event = await self._build_event("assigned", found, f"{task.id}:{task.assignee}", data)
                changes.append(TableUpdate(event, ANNOUNCED_TABLE, task.id, task.assignee))
        if not found.is_running:
            told: OutboxEvent | None = None
            if not await self.store.get(f"told_end:{request}"):
                end = {"status": found.status.value, "by": ended_by, "opinion": opinion, "rule": found.rule}
                told = await self._build_event("ended", found, request, {"person": found.initiator, **end})
            changes.append(TableUpdate(told, RUNNING_TABLE, request))
        elif not changes:
            changes = [TableUpdate(None, RUNNING_TABLE, request, f"{remote_request.instance.id} {now}".strip())]
        return changes

    async def _build_event(self, kind: str, request: Request, about: str, data: Mapping[str, str]) -> OutboxEvent:
        full = await self._add_actor_name({"request": request.id, **data})
        return OutboxEvent(id=f"remote:{kind}:{about}", kind=kind, data=full)

    async def _add_actor_name(self, data: Mapping[str, str]) -> dict[str, str]:
        """Add the actor's name; empty for the system."""
        by = data.get("by", "")
        name = await get_person_name(self.directory, by, "zh") if by and not by.startswith(SYSTEM) else ""
        return {**data, "by_name": name}

    # Service tasks

    async def run_due_tasks(self) -> None:
        """Complete waiting tasks of all requests. The longer there were none, the less often the engine is asked: what
        waits here are its timers, and they remind people after hours."""
        if self.clock() < self._next_look:
            return
        is_idle = await self.run_external_tasks() is None
        self._pause_s = min(self._pause_s + 1, LONGEST_PAUSE_S) if is_idle else 0.0
        self._next_look = self.clock() + self._pause_s

    async def run_external_tasks(self, known: RemoteRequest | None = None) -> dict[str, VariableValue] | None:
        """Complete waiting tasks of this request, or of all. Return the variables that they gave it, or None if there
        was none to complete. A failure is logged, retried once its lock is over, and reported once. A failure stops
        nothing else, least of all a person's command that has taken effect."""
        written: dict[str, VariableValue] | None = None
        processes = [known.process] if known else await self.reader.list_processes()
        nodes = [node for process in processes for node in process.definition.nodes.values()]
        topics = {node.topic.value for node in nodes if node.topic}
        if not known:  # no command waits for alarms
            topics |= {timer.alarm.value for node in nodes for timer in node.timers}
        try:
            instance = known.instance if known else None
            jobs = await self.api.lock_external_tasks(sorted(topics), instance) if topics else []
        except (EngineRefusedError, EngineNoAnswerError, ToolError) as away:
            self._task_outage.record_state(str(away) or type(away).__name__)
            return None
        self._task_outage.record_state()
        for job in jobs:
            try:
                is_fresh = known and known.instance.id == job.instance and job == jobs[0]
                found = known if is_fresh else await self.reader.find_request_of_instance(job.instance)
                record = await self._notify_people(job, found) if found else {}
                await self.api.complete_external_task(job, record)
                written = (written or {}) | (record if known and job.instance == known.instance.id else {})
            except Exception:  # whatever is wrong with one task
                log.exception("service task %s (%s) of instance %s was not done", job.id, job.topic, job.instance)
        return written

    async def _notify_people(self, job: ExternalTask, found: RemoteRequest) -> dict[str, VariableValue]:
        """Queue the notices of a task; return the record of the copies that it gives, to be written when it is
        completed. A repeated call notifies the same people."""
        request, record, kind, people = found.request, dict[str, VariableValue](), "", list[dict[str, str]]()
        match job.topic:
            case ServiceTopic.CC | ServiceTopic.RULE:
                name = f"{COPY_PREFIX}{job.node}" if job.topic == ServiceTopic.RULE else job.node
                knowing = {*request.cc, request.initiator}
                copies = tuple(dict.fromkeys(p for p in request.filled.resolve_people(name) if p not in knowing))
                kind, people = "told", [{"person": person, "by": RULE} for person in copies]
                if copies:
                    cc = CcCommand(request=request.id, actor=RULE, people=copies)
                    key, at = f"job:{job.id}", request.changed
                    record |= build_record_variables(CommandRecord(key=key, at=at, command=cc, round=request.round))
            case ServiceTopic.MAIL:
                kind, people = "mail", [{"person": request.initiator, "node": job.node}]
            case TimerAction.REMIND | TimerAction.ESCALATE:
                nodes = found.process.definition.nodes.values()
                late = {node.id for node in nodes if job.node in [timer.step for timer in node.timers]}
                tasks = [task for task in request.open_tasks if task.node in late]
                kind, people = "reminded", [{"person": task.assignee, "task": task.id} for task in tasks]
        notices = [RequestNotice(kind=kind, data={"request": request.id, **one}) for one in people]
        await self.enqueue_notices(request.id, f"job:{job.id}", notices)
        return record


async def _skip_if_unreadable(name: str, work: Awaitable[list[TableUpdate]]) -> list[TableUpdate]:
    """The updates of one request. An unreadable request, or one whose task may still be handed up, has none, so that
    the others are still announced."""
    try:
        return await work
    except (ValueError, EngineRefusedError, ToolError, EffectUnknownError) as wrong:
        log.warning("nothing can be announced of %s: %r", name, wrong)
        return []


def find_ending_actor(remote_request: RemoteRequest) -> tuple[str, str]:
    """The person who ended a request and their opinion; empty if unknown."""
    request = remote_request.request
    if remote_request.instance.is_deleted:
        withdrawn = [r.command for r in remote_request.command_log if isinstance(r.command, WithdrawCommand)]
        return (withdrawn[-1].actor, withdrawn[-1].reason) if withdrawn else ("", "")
    last = max(request.tasks, key=lambda task: task.closed or task.since, default=None)
    by = remote_request.closed_by.get(last.id, "") if last else request.initiator
    if by and request.rule:
        by = RULE
    return by, next((said.text for said in reversed(request.opinions) if said.by == by), "")
