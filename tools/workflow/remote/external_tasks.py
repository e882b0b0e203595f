"""Service tasks of the engine, which wait until we have completed them.

`pass_by_rule`, `cc` and `mail` notify people. The targets of the engine's timers (`remind`, `escalate`) remind the
assignee, and take nothing away from them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tools.spec import ToolError
from tools.workflow.bpmn.graph import ServiceTopic, TimerAction
from tools.workflow.engine.commands import CcCommand, RequestNotice
from tools.workflow.engine.state import COPY_PREFIX, RULE, Request
from tools.workflow.remote.api import EngineApi, ExternalTask, VariableValue
from tools.workflow.remote.change_poller import ChangePoller
from tools.workflow.remote.rebuild import CommandRecord, RemoteRequest, build_record_variables
from tools.workflow.remote.request_reader import RequestReader
from tools.workflow.remote.rest_client import EngineNoAnswerError, EngineRefusedError, OutageLog

LONGEST_PAUSE_S = 15.0
log = logging.getLogger(__name__)


class ExternalTaskWorker:
    def __init__(
        self,
        api: EngineApi,
        reader: RequestReader,
        announcer: ChangePoller,
        clock: Callable[[], float],
    ) -> None:
        self._api, self._reader, self._announcer = api, reader, announcer
        self._clock, self._next_look, self._pause_s = clock, float("-inf"), 0.0
        self._outage = OutageLog("service tasks of the workflow engine")

    async def run_due_tasks(self) -> None:
        """Complete waiting tasks of all requests. The longer there were none, the less often the engine is asked: what
        waits here are its timers, and they remind people after hours."""
        if self._clock() < self._next_look:
            return
        is_idle = await self.run_external_tasks() is None
        self._pause_s = min(self._pause_s + 1, LONGEST_PAUSE_S) if is_idle else 0.0
        self._next_look = self._clock() + self._pause_s

    async def run_external_tasks(self, known: RemoteRequest | None = None) -> dict[str, VariableValue] | None:
        """Complete waiting tasks of this request, or of all. Return the variables that they gave it, or None if there
        was none to complete. A failure is logged, retried once its lock is over, and reported once. A failure stops
        nothing else, least of all a person's command that has taken effect."""
        written: dict[str, VariableValue] | None = None
        processes = [known.process] if known else await self._reader.list_processes()
        nodes = [node for process in processes for node in process.definition.nodes.values()]
        topics = {node.topic.value for node in nodes if node.topic}
        if not known:  # no command waits for alarms
            topics |= {timer.alarm.value for node in nodes for timer in node.timers}
        try:
            instance = known.instance if known else None
            jobs = await self._api.lock_external_tasks(sorted(topics), instance) if topics else []
        except (EngineRefusedError, EngineNoAnswerError, ToolError) as away:
            self._outage.record_state(str(away) or type(away).__name__)
            return None
        self._outage.record_state()
        for job in jobs:
            try:
                if known and known.instance.id == job.instance and job == jobs[0]:
                    found: RemoteRequest | None = known
                else:
                    found = await self._reader.find_request_of_instance(job.instance)
                record = await self._notify_people(job, found.request) if found else {}
                await self._api.complete_external_task(job, record)
                written = (written or {}) | (record if known and job.instance == known.instance.id else {})
            except Exception:  # whatever is wrong with one task
                log.exception("service task %s (%s) of instance %s was not done", job.id, job.topic, job.instance)
        return written

    async def _notify_people(self, job: ExternalTask, request: Request) -> dict[str, VariableValue]:
        """Queue the notices of a task; return the record of the copies that it gives, to be written when it is
        completed. A repeated call notifies the same people."""
        record, kind, people = dict[str, VariableValue](), "", list[dict[str, str]]()
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
                kind, people = "reminded", [{"person": t.assignee, "task": t.id} for t in request.open_tasks]
        notices = [RequestNotice(kind=kind, data={"request": request.id, **one}) for one in people]
        await self._announcer.enqueue_notices(request.id, f"job:{job.id}", notices)
        return record
