"""What platforms hand in: made durable, or answered, before the platform is told *received*."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from bot import commands
from bot.errors import StoreDown
from bot.events import Channel, Click, Dialog, Directory, Home, Message, Place, Post
from bot.gate import Gates
from bot.home import Homes
from bot.records import ApprovalState, Cancel, Pressed, Wrote
from bot.store.approvals import Approvals, Verdict
from bot.store.history import History
from bot.store.lanes import Accepted, Lanes
from bot.store.runs import Runs
from bot.texts import say
from tools.names import language_of


@dataclass(frozen=True, slots=True)
class LaneIntake:
    """`bot.events.Intake` over the lanes."""

    lanes: Lanes
    gates: Gates
    homes: Homes
    history: History
    runs: Runs
    chat: Channel
    directory: Directory

    async def message(self, message: Message, *, aliases: tuple[str, ...] = ()) -> None:
        body = Wrote(message=message).model_dump_json()
        accepted = await self.lanes.put(message.place.conversation, message.id, body, aliases=aliases)
        if accepted is Accepted.FULL:
            await self._full(message)

    async def _full(self, message: Message) -> None:
        """Not taken, and said so: better than a queue without an end."""
        text = say("turn.full", await language_of(self.directory, message.person))
        await self.chat.post(message.place, Post(text), key=f"{message.id}:full")

    async def click(self, click: Click) -> None:
        """A press takes the lane of its approval: nobody's slow conversation holds a decision up."""
        accepted = await self.lanes.put(click.approval, click.id, Pressed(click=click).model_dump_json())
        if accepted is Accepted.FULL:
            raise StoreDown(f"too many presses wait for {click.approval}")

    async def stop(self, place: Place, person: str, at: str) -> None:
        """For those who are served; nobody else's word stops anything."""
        if await self.directory.caller(person) is None:
            return
        await self.lanes.stop(place.conversation, at)

    def is_stop(self, text: str) -> bool:
        return commands.is_stop(text)

    async def engaged(self, place: Place) -> bool:
        """The bot is at work in this thread, remembers it, or a run of it waits. Work is looked for first: the
        commit that ends it is the one that writes the history."""
        if await self.lanes.pending(place.conversation):
            return True
        if await self.history.load(place.conversation):
            return True
        return bool(await self.runs.paused(place.conversation))

    async def dialog(self, click: Click) -> Dialog | None:
        return await self.gates.dialog(click)

    async def problems(self, click: Click) -> dict[str, str]:
        return await self.gates.problems(click)

    async def home(self, person: str) -> Home | None:
        return await self.homes.of(person)


@dataclass(frozen=True, slots=True)
class OpenCards:
    """`tools.cards.Cards` over the approvals."""

    lanes: Lanes
    approvals: Approvals
    now: Callable[[], datetime]
    """Aware UTC."""

    async def cancel(self, card: str, person: str) -> bool:
        """Only what this person proposed, and only while it is open. The card's own lane carries it out; it is decided
        here, once, against any press that may come first."""
        approval = await self.approvals.get(card)
        if approval is None or approval.state is not ApprovalState.OPEN or approval.caller != person:
            return False
        cancel = Cancel(approval=card, person=person)
        await self.lanes.put(card, f"cancel:{card}:{approval.version}", cancel.model_dump_json())
        now_ms = int(self.now().timestamp() * 1000)
        return await self.approvals.take_back(approval, person, now_ms) is Verdict.OK
