"""What a process wants done by itself: service tasks of the engine, which wait until we have seen to them.

`pass_by_rule` only needs to be passed; `cc` and `mail` tell people; what a timer of the engine leads to (`remind`,
`escalate`) reminds whoever has the request, and takes nothing away from them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tools.spec import ToolError
from tools.workflow.commands import Cc, Notice
from tools.workflow.graph import Alarm, Topic
from tools.workflow.remote.announce import Announcer
from tools.workflow.remote.api import Api, Job
from tools.workflow.remote.common import Found
from tools.workflow.remote.reading import Reader
from tools.workflow.remote.records import Record, written
from tools.workflow.remote.rest import Refused, Unanswered
from tools.workflow.state import RULE

log = logging.getLogger(__name__)


class Servant:
    def __init__(self, api: Api, reader: Reader, announcer: Announcer, topics: Sequence[str]) -> None:
        self._api, self._reader, self._announcer, self._topics = api, reader, announcer, topics

    async def serve(self) -> int:
        """Does what waits for us; how many. What fails is logged, tried again once its lock is over, and told once; it
        stops nothing else, least of all a person's command that has taken effect."""
        return sum([await self._done(job) for job in await self._waiting()])

    async def _waiting(self) -> list[Job]:
        try:
            return await self._api.jobs(self._topics) if self._topics else []
        except (Refused, Unanswered, ToolError) as away:
            log.warning("the engine gave no service tasks: %r", away)
            return []

    async def _done(self, job: Job) -> bool:
        try:
            await self._see_to(job)
        except Exception:  # whatever is wrong with one of them
            log.exception("service task %s (%s) of instance %s was not done", job.id, job.topic, job.instance)
            return False
        return True

    async def _see_to(self, job: Job) -> None:
        if job.topic != Topic.RULE and (found := await self._reader.of_instance(job.instance)) is not None:
            await self._announcer.queue(found.request.id, _key(job), await self._notices(job, found))
        await self._api.finish(job)

    async def _notices(self, job: Job, found: Found) -> list[Notice]:
        request = found.request
        match job.topic:
            case Topic.CC:
                return [_notice("told", found, person=p, by=RULE) for p in await self._informed(job, found)]
            case Topic.MAIL:
                return [_notice("mail", found, node=job.node, person=request.initiator)]
            case Alarm.REMIND | Alarm.ESCALATE:
                return [_notice("reminded", found, task=t.id, person=t.assignee) for t in request.open_tasks]
        return []

    async def _informed(self, job: Job, found: Found) -> tuple[str, ...]:
        """Whom the process names and who did not know; the same people when it is done again."""
        request = found.request
        for earlier in found.acts:
            if earlier.key == _key(job) and isinstance(earlier.command, Cc):
                return earlier.command.people
        people = [p for p in request.filled.holders(job.node) if p not in (*request.cc, request.initiator)]
        command = Cc(request=request.id, actor=RULE, people=tuple(dict.fromkeys(people)))
        record = Record(key=_key(job), at=request.changed, command=command, round=request.round)
        if people:
            await self._api.put(found.instance.id, written(record))
        return command.people


def _key(job: Job) -> str:
    return f"job:{job.id}"


def _notice(notice: str, found: Found, /, **data: str) -> Notice:
    return Notice(kind=notice, data={"request": found.request.id, **data})
