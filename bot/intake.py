"""What platforms hand in: made durable, or answered, before the platform is told *received*."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from bot import commands
from bot.errors import StoreDown
from bot.events import Click, Dialog, Directory, Home, Message, Place, Post
from bot.gate import Gates
from bot.home import Homes
from bot.records import ApprovalState, Cancel, CaughtUp, Pressed, Wrote
from bot.store.approvals import Approvals, Verdict
from bot.store.history import History
from bot.store.journal import Journal
from bot.store.lanes import ANYBODY, Accepted, Lanes
from bot.store.overflow import Overflows
from bot.store.runs import Runs
from bot.store.writes import Put, apply
from bot.telling import Telling
from bot.texts import say
from bot.worker import Worker
from tools.names import language_of


@dataclass(frozen=True, slots=True)
class LaneIntake:
    """`bot.events.Intake` over the lanes."""

    worker: Worker
    lanes: Lanes
    gates: Gates
    homes: Homes
    history: History
    runs: Runs
    telling: Telling
    directory: Directory

    async def message(self, message: Message, *, aliases: tuple[str, ...] = ()) -> None:
        body = Wrote(message=message).model_dump_json()
        lane, person = message.place.conversation, message.person
        accepted = await self.worker.accept(lane, message.id, body, aliases=aliases, person=person)
        if accepted is Accepted.FULL:
            await self._full(message)

    async def _full(self, message: Message) -> None:
        """Not taken: better than a queue without an end. Said once, with the first one; and what says that the queue is
        worked off takes its place in it, so that nobody wonders what became of the others."""
        redis, keys, lane = self.lanes.redis, self.lanes.keys, message.place.conversation
        if not await Overflows(redis, keys).begins(lane, message.id):
            return
        caught_up = CaughtUp(place=message.place, person=message.person)
        noted = Journal(redis, keys).entry(lane, "lane.full", person=message.person, channel=message.place.channel)
        put = Put(lane, f"{message.id}:caught_up", caught_up.model_dump_json())
        await apply(redis, keys, keys.partition(lane), [put, noted])
        text = say("turn.full", await language_of(self.directory, message.person))
        await self.telling.tell(message.place, message.person, Post(text), key=f"{message.id}:full", again=True)

    async def click(self, click: Click) -> None:
        """A press takes the lane of its approval: nobody's slow conversation holds a decision up."""
        accepted = await self.worker.accept(click.approval, click.id, Pressed(click=click).model_dump_json())
        if accepted is Accepted.FULL:
            raise StoreDown(f"too many presses wait for {click.approval}")

    async def stop(self, place: Place, person: str, at: str) -> None:
        """For those who are served: their own work, or, for an administrator, anybody's. The word of others stops
        nothing."""
        caller = await self.directory.caller(person)
        if caller is not None:
            whose = ANYBODY if caller.person.is_administrator else person
            await self.lanes.stop(place.conversation, at, whose)

    def is_stop(self, text: str) -> bool:
        return commands.is_stop(text)

    async def engaged(self, place: Place) -> bool:
        """The bot is at work in this thread, remembers it, or a run of it waits. Work is looked for first: the
        commit that ends it is the one that writes the history."""
        if await self.lanes.pending(place.conversation):
            return True
        recalled = await self.runs.recall(place.conversation, self.history)
        return bool(recalled.history or recalled.waiting)

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
        if approval is None or approval.state is not ApprovalState.OPEN or approval.owner != person:
            return False
        cancel = Cancel(approval=card, person=person)
        await self.lanes.put(card, approval.take_back_press, cancel.model_dump_json())
        now_ms = int(self.now().timestamp() * 1000)
        return await self.approvals.take_back(approval, person, now_ms) is Verdict.OK
