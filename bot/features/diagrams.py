"""Posts process diagrams. Each is an item of its own, so a crash or an outage of the platform loses none, and no answer
waits for the drawing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Literal

from bot.agent.tool_executor import RunStep
from bot.chat.messages import Click, Place, Post
from bot.core.disclosure import can_show_in
from bot.core.i18n import render_value
from bot.core.records import Approval, Run
from bot.core.run_state import CallStatus, validate_args
from bot.features.contract import Core, Feature, Work, tell_person
from bot.queue.lanes import Lease
from bot.queue.writes import EnqueueItem, Write
from tools.privacy import classify_result
from tools.requests.status import SHOW_PROCESS
from tools.spec import Privacy, StoredModel, ToolError
from tools.tool import ToolContext
from tools.workflow.diagram.render import render_picture

FILE = "process.png"
JOURNAL_KINDS = ("picture",)
PaintDiagram = Callable[[bytes, Collection[str], Collection[str], str], Awaitable[bytes]]
"""(process file, nodes and flows taken, current ones, language) → PNG. Raises `ToolError` if it cannot draw one."""


class RenderDiagram(StoredModel):
    """Somebody wants to see a process, or the path of a request through it."""

    kind: Literal["render_diagram"] = "render_diagram"
    person: str
    place: Place | None
    """Where it is shown; None: in the person's DM."""
    name: str
    """Number of a request, or name of a process."""


def build(core: Core, paint: PaintDiagram = render_picture) -> Feature:
    return Feature(
        work=(Work(model=RenderDiagram, handle=partial(post_diagram, core, paint), give_up=tell_person),),
        card_presses={"show": partial(show_process, core)},
        build_step_writes=build_step_writes,
    )


def build_step_writes(run: Run, step: RunStep) -> list[Write]:
    """An item for the diagram of a step, in the same lane: the diagram comes after the answer."""
    call, message = step.call, run.message
    if call.tool != SHOW_PROCESS.name or call.status is not CallStatus.SUCCEEDED:
        return []
    draw = RenderDiagram(person=message.person, place=message.place, name=str(call.args["name"]))
    return [EnqueueItem(message.place.conversation, f"diagram:{call.uid}", draw.model_dump_json())]


async def show_process(core: Core, approval: Approval, click: Click) -> Sequence[Write]:
    """The request's process diagram, for the DM of the person who pressed."""
    request = (await core.tool_services.engine.get_task(approval.proposal.subject)).request.id
    draw = RenderDiagram(person=click.person, place=None, name=request)
    return [EnqueueItem(f"diagram:{click.person}", f"diagram:{click.id}", draw.model_dump_json())]


async def post_diagram(core: Core, paint: PaintDiagram, lease: Lease, draw: RenderDiagram) -> Sequence[Write]:
    """Posts the diagram that the person may see now, or the reason why there is none."""
    caller = await core.platform.directory.find_caller(draw.person)
    if caller is None:
        return []
    language, key, again = caller.person.language, lease.item.id, lease.item.is_redelivery
    tool = core.cards.tools[SHOW_PROCESS.name]
    try:
        context = ToolContext(core.tool_services, caller, core.stores.clock.today(caller.person.zone))
        outcome = await tool.run(context, validate_args(tool.args, {"name": draw.name}))
        diagram = outcome.diagram
        if diagram is None:
            raise ToolError("no_picture", "there is nothing to draw")
        place = await _choose_diagram_place(core, draw, classify_result(tool, outcome))
        png = await paint(diagram.bpmn, diagram.done, diagram.active, language)
    except ToolError as error:
        place = await _choose_diagram_place(core, draw, classify_result(tool, error))
        await core.platform.chat.post_message(place, Post(render_value(error.note, language)), key=key, again=again)
        return []
    title, alt = render_value(diagram.title, language), render_value(diagram.alt, language)
    await core.platform.chat.upload_picture(place, png, name=FILE, title=title, alt=alt, key=key, again=again)
    about = {"person": caller.id, "channel": place.channel, "text": draw.name}
    return [core.stores.journal.build_record_write(lease.lane, "picture", **about)]


async def _choose_diagram_place(core: Core, draw: RenderDiagram, privacy: Privacy) -> Place:
    """The place where the person asked, if the diagram may stand there; otherwise their DM. The answer of the same
    run says where it is."""
    if draw.place is not None and await can_show_in(core.platform, draw.place, privacy):
        return draw.place
    return await core.platform.chat.open_dm(draw.person)
