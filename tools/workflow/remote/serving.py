"""What a process wants done by itself: service tasks of the engine, which wait until we have seen to them.

`pass_by_rule` only needs to be passed; `cc` and `mail` tell people; what a timer of the engine leads to (`remind`,
`escalate`) reminds whoever has the request, and takes nothing away from them.
"""

from __future__ import annotations

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


class Servant:
    def __init__(self, api: Api, reader: Reader, announcer: Announcer, topics: Sequence[str]) -> None:
        self._api, self._reader, self._announcer, self._topics = api, reader, announcer, topics

    async def serve(self) -> int:
        """Does what waits for us; how many. What fails is tried again once its lock is over, and told once."""
        done = 0
        try:
            for job in await self._api.jobs(self._topics) if self._topics else []:
                await self._see_to(job)
                done += 1
        except (Refused, Unanswered, ToolError):
            pass
        return done

    async def _see_to(self, job: Job) -> None:
        if job.topic != Topic.RULE and (found := await self._reader.of_instance(job.instance)) is not None:
            notices = await self._notices(job, found)
            await self._announcer.queue(found.request.id, f"job:{job.id}", notices)
        await self._api.finish(job)

    async def _notices(self, job: Job, found: Found) -> list[Notice]:
        request = found.request
        match job.topic:
            case Topic.CC:
                people = [p for p in request.filled.holders(job.node) if p not in (*request.cc, request.initiator)]
                command = Cc(request=request.id, actor=RULE, people=tuple(dict.fromkeys(people)))
                record = Record(key=f"job:{job.id}", at=request.changed, command=command, round=request.round)
                await self._api.put(found.instance.id, written(record))
                return [_notice("told", found, person=p, by=RULE) for p in command.people]
            case Topic.MAIL:
                return [_notice("mail", found, node=job.node, person=request.initiator)]
            case Alarm.REMIND | Alarm.ESCALATE:
                return [_notice("reminded", found, task=t.id, person=t.assignee) for t in request.open_tasks]
        return []


def _notice(notice: str, found: Found, /, **data: str) -> Notice:
    return Notice(kind=notice, data={"request": found.request.id, **data})
