"""The picture of a process, brought where it was asked for: an item of its own, so that neither a crash nor a platform
that is away loses it, and nobody's answer waits for the drawing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from bot.events import Directory, Place, Post
from bot.records import Draw
from bot.store.journal import Journal
from bot.store.lanes import Lease
from bot.store.writes import Write
from bot.telling import Telling
from bot.texts import literal
from bot.trace import Call, CallStatus, fit
from tools.privacy import privacy_of_result
from tools.spec import Caller, Picture, Privacy, ToolError
from tools.tool import Desk, Tool, Use
from tools.workflow.diagram import picture

SHOWS = "show_process"
"""The tool whose outcome is a picture."""
FILE = "process.png"
Paint = Callable[[bytes, Collection[str], Collection[str], str], Awaitable[bytes]]
"""(process file, nodes and flows taken, current ones, language) → PNG. Raises `ToolError` where there can be none."""


def wanted(call: Call) -> bool:
    """True for a step that people see a picture of."""
    return call.tool == SHOWS and call.status is CallStatus.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Pictures:
    telling: Telling
    directory: Directory
    desk: Desk
    tools: Mapping[str, Tool]
    journal: Journal
    today: Callable[[], datetime]
    """Aware UTC: the day that people mean."""
    paint: Paint = picture

    async def draw(self, lease: Lease, draw: Draw) -> Sequence[Write]:
        """What the person may see, as it is by now; why there is none, if there is none."""
        caller = await self.directory.caller(draw.person)
        if caller is None:
            return []
        language, key, again, chat = caller.person.language, lease.item.id, lease.item.again, self.telling.chat
        try:
            shown, privacy = await self._of(caller, draw.name)
            place = await self._place(draw, privacy)
            png = await self.paint(shown.bpmn, shown.done, shown.active, language)
        except ToolError as error:
            place = await self._place(draw, privacy_of_result(self.tools[SHOWS], error))
            await chat.post(place, Post(literal(error.note, language)), key=key, again=again)
            return []
        title, alt = literal(shown.title, language), literal(shown.alt, language)
        await chat.share(place, png, name=FILE, title=title, alt=alt, key=key, again=again)
        return [self.journal.entry(lease.lane, "picture", person=caller.id, channel=place.channel, text=draw.name)]

    async def _place(self, draw: Draw, privacy: Privacy) -> Place:
        """Where it was asked for, if it may stand there: if not, the answer of the same run says where it is."""
        if draw.place is not None and await self.telling.may_stand(draw.place, privacy):
            return draw.place
        return await self.telling.chat.direct(draw.person)

    async def _of(self, caller: Caller, name: str) -> tuple[Picture, Privacy]:
        """Raises `ToolError` for who may not see it."""
        tool, local = self.tools[SHOWS], self.today().astimezone(ZoneInfo(caller.person.timezone))
        outcome = await tool.run(Use(self.desk, caller, local), fit(tool.args, {"name": name}))
        if outcome.picture is None:
            raise ToolError("no_picture", "there is nothing to draw")
        return outcome.picture, privacy_of_result(tool, outcome)
