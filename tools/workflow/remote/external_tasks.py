"""Service tasks of the engine, which wait until we have completed them.

`pass_by_rule`, `cc` and `mail` notify people. The targets of the engine's timers (`remind`, `escalate`) remind the
assignee, and take nothing away from them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tools.spec import ToolError
from tools.workflow.bpmn.graph import ServiceTopic, TimerAction
from tools.workflow.engine.commands import CcCommand, RequestNotice
from tools.workflow.engine.state import COPY_PREFIX, RULE
from tools.workflow.remote.api import EngineApi, ExternalTask
from tools.workflow.remote.change_poller import ChangePoller
from tools.workflow.remote.command_records import CommandRecord, build_record_variables
from tools.workflow.remote.process_versions import RemoteVersions
from tools.workflow.remote.rebuild import RemoteRequest
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
        versions: RemoteVersions,
        clock: Callable[[], float],
    ) -> None:
        self._api, self._reader, self._announcer, self._versions = api, reader, announcer, versions
        self._clock, self._next_look, self._pause_s = clock, float("-inf"), 0.0
        self._outage = OutageLog("service tasks of the workflow engine")

    async def run_due_tasks(self) -> None:
        """Complete waiting tasks of all requests. The longer there were none, the less often the engine is asked: what
        waits here are its timers, and they remind people after hours."""
        if self._clock() < self._next_look:
            return
        done = await self.run_external_tasks()
        self._pause_s = 0.0 if done else min(self._pause_s + 1, LONGEST_PAUSE_S)
        self._next_look = self._clock() + self._pause_s

    async def run_external_tasks(self, known: RemoteRequest | None = None) -> int:
        """Complete waiting tasks of this request, or of all, and return their number. A failure is logged, retried once
        its lock is over, and reported once. A failure stops nothing else, least of all a person's command that has
        taken effect."""
        processes = [known.process] if known else await self._versions.list_current_processes()
        nodes, done = [node for process in processes for node in process.definition.nodes.values()], 0
        alarms = {
            timer.alarm.value for node in nodes for timer in node.timers if not known
        }  # no command waits for these
        topics = sorted(alarms | {node.topic.value for node in nodes if node.topic})
        try:
            jobs = await self._api.lock_external_tasks(topics, known.instance if known else None) if topics else []
        except (EngineRefusedError, EngineNoAnswerError, ToolError) as away:
            self._outage.record_state(str(away) or type(away).__name__)
            return 0
        self._outage.record_state()
        for job in jobs:
            try:
                if known and known.instance.id == job.instance and job == jobs[0]:
                    found: RemoteRequest | None = known
                else:
                    found = await self._reader.find_request_of_instance(job.instance)
                if found is not None:
                    notices = await self._build_notices(job, found)
                    await self._announcer.enqueue_notices(found.request.id, f"job:{job.id}", notices)
                await self._api.complete_external_task(job)
                done += 1
            except Exception:  # whatever is wrong with one task
                log.exception("service task %s (%s) of instance %s was not done", job.id, job.topic, job.instance)
        return done

    async def _build_notices(self, job: ExternalTask, remote_request: RemoteRequest) -> list[RequestNotice]:
        request, kind, people = remote_request.request, "", list[dict[str, str]]()
        match job.topic:
            case ServiceTopic.CC | ServiceTopic.RULE:
                copies = await self._record_cc_people(job, remote_request)
                kind, people = "told", [{"person": person, "by": RULE} for person in copies]
            case ServiceTopic.MAIL:
                kind, people = "mail", [{"person": request.initiator, "node": job.node}]
            case TimerAction.REMIND | TimerAction.ESCALATE:
                kind, people = "reminded", [{"person": t.assignee, "task": t.id} for t in request.open_tasks]
        return [RequestNotice(kind=kind, data={"request": request.id, **one}) for one in people]

    async def _record_cc_people(self, job: ExternalTask, remote_request: RemoteRequest) -> tuple[str, ...]:
        """The people named by the process who had no copy; a repeated call gives the same people."""
        request, key = remote_request.request, f"job:{job.id}"
        for earlier in remote_request.command_log:
            if earlier.key == key and isinstance(earlier.command, CcCommand):
                return earlier.command.people
        name = f"{COPY_PREFIX}{job.node}" if job.topic == ServiceTopic.RULE else job.node
        people = [p for p in request.filled.resolve_people(name) if p not in (*request.cc, request.initiator)]
        command = CcCommand(request=request.id, actor=RULE, people=tuple(dict.fromkeys(people)))
        record = CommandRecord(key=key, at=request.changed, command=command, round=request.round)
        if people:
            await self._api.set_variables(remote_request.instance.id, build_record_variables(record))
        return command.people
