"""Remote engines tell nobody anything: what is new is found by looking, and compared with what was announced.

The delay is `EVERY_S` for what happens elsewhere; what this process did itself is looked for at once. Every look reads
all open tasks of our processes (100 a page), so this suits thousands of them, not millions. Several processes of ours
may find the same; what they announce has the same id and is told once.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tools.names import name_of
from tools.ports import Directory
from tools.spec import Frozen, ToolError
from tools.workflow.commands import Notice, Withdraw
from tools.workflow.remote.api import Api
from tools.workflow.remote.common import Found
from tools.workflow.remote.marks import Marks
from tools.workflow.remote.records import decide_of
from tools.workflow.remote.rest import Refused
from tools.workflow.remote.starting import RUNNING, TRIED_MS
from tools.workflow.state import RULE, SYSTEM, Decision, Request, Status, Task
from tools.workflow.store import OutboxEvent

EVERY_S = 10.0
ANNOUNCED = "announced"
"""Table: task → person that has its card."""
LOOKED = "looked"
"""Table: request → its open tasks when nothing was left to tell."""
NOTICES = "notices"
"""Table: what no look at tasks would find, as `Queued`."""
Load: TypeAlias = Callable[[str], Awaitable[Found | None]]

log = logging.getLogger(__name__)


class Queued(Frozen):
    event: OutboxEvent
    key: str = ""
    """Of the command that is told of. It may not have happened: the request's record says. Empty: it has."""


@dataclass(frozen=True, slots=True)
class Change:
    """What the tables say once an event was told."""

    event: OutboxEvent | None
    """None: nobody needs to hear of it."""
    table: str
    row: str
    value: str | None = None
    """None: the row goes."""


@dataclass
class Announcer:
    """`processes`: keys of what to look for. `clock`: seconds, from anywhere."""

    api: Api
    marks: Marks
    directory: Directory
    processes: Sequence[str]
    clock: Callable[[], float]
    every_s: float = EVERY_S
    _due: float = float("-inf")
    _waiting: dict[str, Change] = field(default_factory=dict)

    def look(self) -> None:
        """Something has just happened."""
        self._due = float("-inf")

    async def waiting(self, limit: int, load: Load) -> list[OutboxEvent]:
        """What is to be told; it is told again until it is `sent`."""
        if not self._waiting and self.clock() >= self._due:
            self._due = self.clock() + self.every_s
            async for change in self._changes(load):
                if change.event is None:
                    await self._enter(change)
                else:
                    self._waiting[change.event.id] = change
        return [c.event for c in list(self._waiting.values())[:limit] if c.event]

    async def sent(self, ids: Sequence[str]) -> None:
        for name in ids:
            if (change := self._waiting.pop(name, None)) is not None:
                await self._enter(change)

    async def queue(self, request: str, key: str, notices: Sequence[Notice], *, when_recorded: bool = False) -> None:
        """What no look at tasks would find. The same `key` twice is told once. `when_recorded`: as soon as the request
        has the record of the command with this key, and never if it does not come."""
        if notices and when_recorded:
            await self.marks.put(f"tried:{key}", "1", TRIED_MS)
        for n, notice in enumerate(notices):
            event = OutboxEvent(id=f"remote:{request}:{key}:{n}", kind=notice.kind, data=await self._named(notice.data))
            queued = Queued(event=event, key=key if when_recorded else "")
            await self.marks.enter(NOTICES, event.id, queued.model_dump_json())
            for person in {notice.data["person"]} if notice.kind == "told" else ():
                await self.marks.enter(f"told:{person}", request, "")

    async def _enter(self, change: Change) -> None:
        if change.value is None:
            await self.marks.strike(change.table, change.row)
        else:
            await self.marks.enter(change.table, change.row, change.value)

    async def _changes(self, load: Load) -> AsyncIterator[Change]:
        tasks = await self._tasks()
        for row, text in (await self.marks.table(NOTICES)).items():
            for change in await _alone(row, self._notice(row, text, load)):
                yield change
        looked, announced = await self.marks.table(LOOKED), await self.marks.table(ANNOUNCED)
        for request, instance in (await self.marks.table(RUNNING)).items():
            now = tasks.get(instance, "")
            if now and now == looked.get(request):
                continue
            told = {task: person for task, person in announced.items() if task.startswith(f"{request}-")}
            for change in await _alone(request, self._news(request, now, told, load)):
                yield change

    async def _notice(self, row: str, text: str, load: Load) -> list[Change]:
        queued = Queued.model_validate_json(text)
        if not queued.key:
            return [Change(queued.event, NOTICES, row)]
        tried = await self.marks.get(f"tried:{queued.key}")
        found = await load(queued.event.data["request"])
        if found and any(record.key == queued.key for record in found.log):
            return [Change(queued.event, NOTICES, row)]
        return [] if tried else [Change(None, NOTICES, row)]

    async def _news(self, request: str, now: str, told: Mapping[str, str], load: Load) -> list[Change]:
        """Of one request, whose open tasks are `now`. One that is not there yet is waited for."""
        tried = await self.marks.get(f"tried:{request}")
        if (found := await load(request)) is None:
            return [] if tried else [Change(None, RUNNING, request)]
        changes = [c async for c in self._of(found, told)]
        if found.request.running and not changes:
            return [Change(None, LOOKED, request, now), Change(None, RUNNING, request, found.instance.id)]
        return changes

    async def _tasks(self) -> dict[str, str]:
        """Instance → its open tasks, as one text that changes when they do."""
        found: dict[str, list[str]] = {}
        for process in self.processes:
            for item in await self.api.open_items(process=process):
                found.setdefault(item.instance, []).append(f"{item.id}={item.user}")
        return {instance: " ".join(sorted(items)) for instance, items in found.items()}

    async def _of(self, found: Found, told: Mapping[str, str]) -> AsyncIterator[Change]:
        """What people have not been told about a request."""
        request = found.request
        for task in request.tasks:
            if not task.open and task.id in told:
                data = {"task": task.id, "person": told[task.id], "by": task.by, "why": _why(request, task)}
                yield Change(await self._event("task_closed", request, task.id, data), ANNOUNCED, task.id)
        for task in request.open_tasks:
            if told.get(task.id) != task.assignee:
                data = {"task": task.id, "person": task.assignee, "kind": task.kind.value}
                event = await self._event("assigned", request, f"{task.id}:{task.assignee}", data)
                yield Change(event, ANNOUNCED, task.id, task.assignee)
        if not request.running:
            yield Change(await self._ended(found), RUNNING, request.id)
            yield Change(None, LOOKED, request.id)

    async def _ended(self, found: Found) -> OutboxEvent | None:
        """The author is told unless it was their own doing."""
        request = found.request
        by, opinion = ended_by(found)
        if by == request.initiator:
            return None
        data = {"person": request.initiator, "status": request.status.value, "by": by, "opinion": opinion}
        return await self._event("ended", request, request.id, {**data, "rule": request.rule})

    async def _event(self, kind: str, request: Request, about: str, data: Mapping[str, str]) -> OutboxEvent:
        full = await self._named({"request": request.id, **data})
        return OutboxEvent(id=f"remote:{kind}:{about}", kind=kind, data=full)

    async def _named(self, data: Mapping[str, str]) -> dict[str, str]:
        """With the name of who did it; empty for the system."""
        by = data.get("by", "")
        name = await name_of(self.directory, by) if by and not by.startswith(SYSTEM) else ""
        return {**data, "by_name": name}


async def _alone(name: str, work: Awaitable[list[Change]]) -> list[Change]:
    """What is new of one request; nothing of one that cannot be read, for the others are told all the same."""
    try:
        return await work
    except (ValueError, Refused, ToolError) as wrong:
        log.warning("nothing can be announced of %s: %r", name, wrong)
        return []


def ended_by(found: Found) -> tuple[str, str]:
    """Who ended a request and what they said; empty for whom we do not know of."""
    request = found.request
    if found.instance.removed:
        withdrawn = [r.command for r in found.acts if isinstance(r.command, Withdraw)]
        return (withdrawn[-1].actor, withdrawn[-1].reason) if withdrawn else ("", "")
    if not found.items:
        return request.initiator, ""
    last = max(found.items, key=lambda i: i.ended or i.since)
    if (record := found.records.get(last.id)) is None:
        return "", ""
    decide = decide_of(record)
    if request.rule and decide.actor != request.initiator:
        return RULE, decide.opinion
    return decide.actor, decide.opinion


def _why(request: Request, task: Task) -> str:
    if task.outcome in tuple(Decision):
        return "decided"
    return request.status.value if request.status is Status.WITHDRAWN else task.outcome
