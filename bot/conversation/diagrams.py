"""Posts process diagrams. Each is an item of its own, so a crash or an outage of the platform loses none, and no answer
waits for the drawing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from bot.chat.messages import Channel, ChatDirectory, Place, Post
from bot.conversation.reply import MessageDelivery
from bot.core.clock import Clock
from bot.core.i18n import render_value
from bot.core.run_state import CallRecord, CallStatus, validate_args
from bot.core.work_items import RenderDiagram
from bot.queue.lanes import Lease
from bot.queue.writes import Write
from bot.storage.journal import Journal
from tools.privacy import classify_result
from tools.spec import Caller, Privacy, ProcessDiagram, ToolError
from tools.tool import Tool, ToolContext, ToolServices
from tools.workflow.diagram.render import render_picture

SHOW_PROCESS = "show_process"
"""The tool whose outcome is a diagram."""
FILE = "process.png"
PaintDiagram = Callable[[bytes, Collection[str], Collection[str], str], Awaitable[bytes]]
"""(process file, nodes and flows taken, current ones, language) → PNG. Raises `ToolError` if it cannot draw one."""


def is_diagram_call(call: CallRecord) -> bool:
    """True for a call whose result people see as a diagram."""
    return call.tool == SHOW_PROCESS and call.status is CallStatus.SUCCEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagramPoster:
    chat: Channel
    delivery: MessageDelivery
    directory: ChatDirectory
    tool_services: ToolServices
    tools: Mapping[str, Tool]
    journal: Journal
    clock: Clock
    paint: PaintDiagram = render_picture

    async def post_diagram(self, lease: Lease, draw: RenderDiagram) -> Sequence[Write]:
        """Posts the diagram that the person may see now, or the reason why there is none."""
        caller = await self.directory.find_caller(draw.person)
        if caller is None:
            return []
        language, key, again = caller.person.language, lease.item.id, lease.item.is_redelivery
        try:
            diagram, privacy = await self._load_diagram(caller, draw.name)
            place = await self._choose_diagram_place(draw, privacy)
            png = await self.paint(diagram.bpmn, diagram.done, diagram.active, language)
        except ToolError as error:
            place = await self._choose_diagram_place(draw, classify_result(self.tools[SHOW_PROCESS], error))
            await self.chat.post_message(place, Post(render_value(error.note, language)), key=key, again=again)
            return []
        title, alt = render_value(diagram.title, language), render_value(diagram.alt, language)
        await self.chat.upload_picture(place, png, name=FILE, title=title, alt=alt, key=key, again=again)
        return [
            self.journal.build_record_write(
                lease.lane, "picture", person=caller.id, channel=place.channel, text=draw.name
            )
        ]

    async def _choose_diagram_place(self, draw: RenderDiagram, privacy: Privacy) -> Place:
        """The place where the person asked, if the diagram may stand there; otherwise their DM. The answer of the same
        run says where it is."""
        if draw.place is not None and await self.delivery.can_show_in(draw.place, privacy):
            return draw.place
        return await self.chat.open_dm(draw.person)

    async def _load_diagram(self, caller: Caller, name: str) -> tuple[ProcessDiagram, Privacy]:
        """Raises `ToolError` if the caller may not see it."""
        tool, local = self.tools[SHOW_PROCESS], self.clock.today(caller.person.zone)
        outcome = await tool.run(
            ToolContext(self.tool_services, caller, local), validate_args(tool.args, {"name": name})
        )
        if outcome.diagram is None:
            raise ToolError("no_picture", "there is nothing to draw")
        return outcome.diagram, classify_result(tool, outcome)
