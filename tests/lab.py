"""The core without a platform: real Redis, real lanes, a channel and a directory in memory, and a hand that ends the
process between any two things that it does."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from redis.asyncio import Redis

from bot.advising import Advising
from bot.anew import Anew
from bot.board import Board
from bot.commands import Commands
from bot.dispatch import Dispatch
from bot.duplicates import Duplicates
from bot.endings import Endings
from bot.ends import Ends
from bot.entries import Waiting
from bot.errors import ChatDown, ChatFailed
from bot.events import Button, Card, Click, Message, Place, Post, Ref, Surroundings
from bot.folding import Folding
from bot.gate import Gates
from bot.intake import OpenCards
from bot.memory import Memory
from bot.openings import Openings
from bot.outbox import Outbox
from bot.pictures import Pictures
from bot.react.advice import Adviser
from bot.react.guards import Budget
from bot.react.loop import Loop
from bot.react.model import Scripted, ScriptedModel
from bot.react.prices import Prices
from bot.react.style import Style
from bot.react.styles.native import Native
from bot.react.summary import Summarizer
from bot.records import Approval, Pressed, Run, Wrote
from bot.show import Display, Steps
from bot.store.approvals import Approvals
from bot.store.dead import DeadLetters
from bot.store.history import History
from bot.store.journal import Journal
from bot.store.keys import Keys
from bot.store.lanes import Lanes, Later, Lease
from bot.store.runs import Runs
from bot.store.spending import Spending
from bot.store.writes import Write
from bot.telling import Telling
from bot.texts import literal
from bot.turn import Turns
from bot.worker import GIVE_UP_TRIES
from tests.tools.office import PEOPLE, People
from tools.catalog import TOOLS
from tools.library.folder import Handbook
from tools.smtp import MemoryMailer
from tools.spec import Caller, Person
from tools.tool import Desk, Tool
from tools.workflow.embedded import EmbeddedEngine
from tools.workflow.memory_store import MemoryStore
from tools.workflow.process import shipped

TODAY = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
DM = Place(team="T1", channel="DU1", thread="1.0", direct=True)
ROUNDS = 200
"""More deliveries than any story needs."""


class Killed(BaseException):
    """SIGKILL, as far as the code can tell."""


@dataclass
class Edges:
    """Counts what can be told from outside, and ends the process at one of these places."""

    at: int = 0
    passed: int = 0

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self.at:
            raise Killed


@dataclass
class Said:
    place: Place
    key: str
    post: Post


@dataclass
class Shared:
    place: Place
    key: str
    picture: bytes
    title: str
    alt: str


@dataclass
class Wall:
    """A channel in memory. `fails`: what a place answers instead of taking a post (`edit`, `share` or `whisper` and
    whose: a change, a picture, a private word), and how often."""

    edge: Edges
    said: list[Said] = field(default_factory=list)
    whispers: list[tuple[str, str]] = field(default_factory=list)
    shared: list[Shared] = field(default_factory=list)
    fails: dict[str, list[ChatFailed]] = field(default_factory=dict)

    async def post(self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None) -> Ref:
        self.edge()
        if self.fails.get(place.channel):
            raise self.fails[place.channel].pop(0)
        there = [n for n, one in enumerate(self.said) if again and (one.place.channel, one.key) == (place.channel, key)]
        if not there:
            self.said.append(Said(place, key, post))
        self.edge()
        return Ref(channel=place.channel, ts=str((there or [len(self.said) - 1])[0]))

    async def edit(self, ref: Ref, post: Post) -> None:
        self.edge()
        if self.fails.get(f"edit {ref.channel}"):
            raise self.fails[f"edit {ref.channel}"].pop(0)
        self.said[int(ref.ts)].post = post
        self.edge()

    async def whisper(self, place: Place, person: str, text: str) -> None:
        self.edge()
        if self.fails.get(f"whisper {person}"):
            raise self.fails[f"whisper {person}"].pop(0)
        self.whispers.append((person, text))

    async def direct(self, person: str) -> Place:
        return Place(team="T1", channel=f"D{person}", direct=True)

    async def share(
        self, place: Place, picture: bytes, *, name: str, title: str, alt: str, key: str, again: bool = False
    ) -> None:
        self.edge()
        if self.fails.get(f"share {place.channel}"):
            raise self.fails[f"share {place.channel}"].pop(0)
        if not (again and key in [one.key for one in self.shared]):
            self.shared.append(Shared(place, key, picture, title, alt))
        self.edge()

    def slot(self, place: Place) -> None:
        return None

    def texts(self, channel: str = DM.channel) -> list[str]:
        return [one.post.text for one in self.said if one.place.channel == channel]

    def keys(self, channel: str = DM.channel) -> list[str]:
        return [one.key for one in self.said if one.place.channel == channel]

    def stops(self, channel: str = DM.channel) -> list[Button]:
        """*Try again* on stops, oldest first."""
        return [button for one in self.said if one.place.channel == channel for button in one.post.buttons]

    def cards(self, channel: str = DM.channel) -> list[Card]:
        """Cards that can be pressed now."""
        here = [one.post.card for one in self.said if one.place.channel == channel]
        return [one for one in here if one is not None and one.buttons]


@dataclass
class Walls:
    """Who reads a channel: only members, unless it is said otherwise."""

    known: dict[str, Surroundings] = field(default_factory=dict)

    async def surroundings(self, place: Place) -> Surroundings:
        if place.direct or place.shared:
            return Surroundings.DIRECT if place.direct else Surroundings.OUTSIDE
        return self.known.get(place.channel, Surroundings.INSIDE)


@dataclass
class Staff(People):
    """The directory, with callers."""

    by_now: dict[str, Person] = field(default_factory=dict)
    """What the platform says of people by now, and only a fresh look shows."""
    away: bool = False
    """The platform cannot be asked."""

    async def refresh(self, people: Iterable[str]) -> None:
        if self.away:
            raise ChatDown("unreachable", "users.info")
        for person in people:
            if (found := self.by_now.pop(person, None)) is not None:
                self.known = [found if one.id == person else one for one in self.known]

    async def caller(self, person: str) -> Caller | None:
        found = await self.get(person)
        return Caller(found) if found and found.active else None

    async def is_inside(self, person: str) -> bool:
        found = await self.get(person)
        return found is not None and found.active

    def leaves(self, person: str) -> None:
        self.known = [one.model_copy(update={"active": one.active and one.id != person}) for one in self.known]


class EdgedLanes(Lanes):
    """Lanes whose writes are edges too."""

    edge: Edges

    async def run(self, script: str, lane: str, *args: str | int) -> Any:
        edged = script in ("checkpoint", "commit")
        if edged:
            self.edge()
        answer = await super().run(script, lane, *args)
        if edged:
            self.edge()
        return answer


async def painted(bpmn: bytes, done: Collection[str], active: Collection[str], language: str) -> bytes:
    """A picture as text: where the request is."""
    return f"{language}: {','.join(active)}".encode()


class Lab:
    """One installation. `work` plays every process there is, one item after another."""

    def __init__(
        self,
        redis: Redis,
        script: Iterable[Scripted] = (),
        *,
        tools: Sequence[Tool] = TOOLS,
        display: Display = "replies",
        advice: Sequence[Scripted] | None = None,
        handbook: Path | None = None,
        house: str = "",
        prices: Prices | None = None,
        budget: Budget | None = None,
        styles: Sequence[Style] = (Native(),),
        more: Mapping[str, Tool] | None = None,
        most: int = 30,
        notes: Iterable[Scripted] = (),
        history_tokens: int = 8_000,
    ) -> None:
        """`script`: what the model answers to people; `advice`: what it thinks of requests, if it is asked; `house`:
        what the company adds to the rules; `styles`: the first is that of fresh runs; `more`: tools of servers;
        `notes`: how it puts older turns in short."""
        more = {} if more is None else more
        known = ChainMap({tool.name: tool for tool in tools}, cast(dict[str, Tool], more))
        self.over: list[Run] = []
        self.keys, self.redis, self.edges = Keys(partitions=2), redis, Edges()
        self.wall, self.staff, self.mailer = Wall(self.edges), Staff(list(PEOPLE)), MemoryMailer()
        self.lanes = EdgedLanes(redis, self.keys, lease_ms=1)
        self.lanes.edge = self.edges
        self.ahead, self.days = timedelta(), timedelta()
        self.runs, self.approvals = Runs(redis, self.keys), Approvals(redis, self.keys)
        self.history, self.journal = History(redis, self.keys, history_tokens), Journal(redis, self.keys)
        self.store = MemoryStore()
        self.engine = EmbeddedEngine(self.store, shipped(), self.staff)
        cards = OpenCards(self.lanes, self.approvals, self.now)
        self.desk = Desk(self.staff, self.engine, self.mailer, cards, words=literal, handbook=Handbook(handbook))
        self.model = ScriptedModel(list(script))
        self.spending = Spending(redis, self.keys, self.now, ZoneInfo("Asia/Shanghai"))
        board = Board(self.wall, self.staff, lambda task: self.engine.stand_ins(task, self.today()))
        self.ends = Ends(board, self.approvals, self.journal, self.now)
        self.gates = Gates(
            self.ends.board, self.ends, self.staff, self.desk, known,
            self.approvals, self.journal, self.today, self.now, Openings(self.ends, advice=advice is not None),
        )  # fmt: skip
        self.rooms = Walls()
        self.telling = Telling(self.wall, self.rooms, self.staff)
        memory = Memory(self.history, self.runs, self.today)
        self.turns = Turns(
            telling=self.telling, endings=Endings(self.telling, self.staff), memory=memory,
            directory=self.staff, desk=self.desk,
            loop=Loop(
                self.model, tools, now=self.now, styles=styles, prices=prices or Prices(), more=more, most=most
            ),
            commands=Commands(self.desk, self.history, dict, self.runs, self.today), steps=Steps(self.telling, display),
            keys=self.keys, runs=self.runs, history=self.history, journal=self.journal,
            spending=self.spending, budget=budget or Budget(),
            duplicates=Duplicates(self.approvals, self.runs), today=self.today, now=self.now, house=house, down_ms=0,
            ended=self.over.append,
        )  # fmt: skip
        self.opinions = ScriptedModel(list(advice or ()))
        advising = Advising(Adviser(self.opinions), self.ends, self.staff, self.spending, prices or Prices())
        self.pictures = Pictures(
            self.telling, self.staff, self.desk, self.gates.tools, self.journal, self.today, painted
        )
        self.outbox = Outbox(self.desk, self.staff, self.lanes, self.keys, self.today)
        self.notes = ScriptedModel(list(notes))
        self.folding = Folding(
            Summarizer(self.notes, self.staff.everyone), self.runs, self.history, self.staff, self.journal,
            self.spending, prices or Prices(), budget or Budget(), pause_ms=0,
        )  # fmt: skip
        anew = Anew(self.wall, self.staff, self.runs, self.history, self.journal)
        self.dispatch = Dispatch(
            self.turns, anew, self.gates, self.ends, self.pictures, self.outbox, self.folding, memory,
            self.telling, self.staff,
            self.journal, lambda: datetime.now(UTC), advising=advising if advice is not None else None,
        )  # fmt: skip

    def now(self) -> datetime:
        """What cards expire by."""
        return TODAY + self.ahead

    def today(self) -> datetime:
        """What requests are stamped with."""
        return TODAY + self.days

    async def says(self, text: str, person: str = "U1", id: str = "Ev1", place: Place = DM) -> None:
        message = Message(id=id, place=place, person=person, text=text, at=f"1.{id}")
        await self.lanes.put(place.conversation, id, Wrote(message=message).model_dump_json())

    async def presses(
        self, card: Card, choice: str, person: str = "U1", id: str = "", form: dict[str, str] | None = None,
        at: Ref | None = None,
    ) -> None:  # fmt: skip
        """A press on a button that the card shows. `at`: the message that it is pressed on."""
        button = next(one for one in card.buttons if one.choice == choice)
        click = Click(
            id=id or f"{button.approval}.{button.version}.{choice}", approval=button.approval, version=button.version,
            choice=choice, person=person, place=DM, form=form, card=at,
        )  # fmt: skip
        await self.lanes.put(click.approval, click.id, Pressed(click=click).model_dump_json())

    async def tries_again(self, button: Button, person: str = "U1", id: str = "again", place: Place = DM) -> None:
        """A press on *Try again* of a stop."""
        shown = [n for n, one in enumerate(self.wall.said) if button in one.post.buttons]
        at = Ref(channel=place.channel, ts=str(shown[0])) if shown else None
        click = Click(
            id=id, approval=button.approval, version=button.version, choice=button.choice, person=person, place=place,
            card=at,
        )  # fmt: skip
        await self.lanes.put(click.approval, click.id, Pressed(click=click).model_dump_json())

    async def work(self) -> None:
        """Until nothing is left to do. Who is killed is followed by another; what fails is tried again."""
        for _ in range(ROUNDS):
            await self.outbox.relay()
            leases = [one for n in range(self.keys.partitions) for one in await self.lanes.claim("p", n, 1)]
            for lease in leases:
                await self._one(lease)
            if not leases and not any([await self.redis.zcard(self.keys.key(n, "z")) for n in range(2)]):
                return
        raise AssertionError("there is always something left to do")

    async def _one(self, lease: Lease) -> None:
        try:
            await lease.commit(*await self._handled(lease), more=False)
        except Killed:
            pass
        except Later as later:
            await lease.retry(later.delay_ms, str(later), count=later.counted)
        except Exception as error:
            await lease.retry(0, repr(error))

    async def _handled(self, lease: Lease) -> Sequence[Write]:
        item, most = lease.item, self.lanes.max_tries
        if item.tries <= most:
            return await self.dispatch.handle(lease)
        buried = DeadLetters(self.redis, self.keys).bury(item, item.error)
        if item.tries > most + GIVE_UP_TRIES:
            return buried
        return [*await self.dispatch.give_up(item, item.error), *buried]

    async def kinds(self) -> list[str]:
        return [record.kind async for record in self.journal.follow()]

    async def approval(self) -> Approval:
        """The only card there is."""
        found = [key async for key in self.redis.scan_iter("*:apr:*")]
        assert len(found) == 1, found
        one = await self.approvals.get(str(found[0]).rpartition(":")[2])
        assert one is not None
        return one

    async def waiting(self) -> tuple[Waiting, ...]:
        """Runs of the conversation that wait for a button."""
        return (await self.runs.recall(DM.conversation, self.history)).waiting

    async def remembered(self) -> list[str]:
        return [one.content for one in (await self.history.load(DM.conversation)).entries]


async def every_edge(play: Callable[[Edges], Any]) -> int:
    """Plays the same story once for each place at which its process can end; how many there are."""
    at = 1
    while True:
        edges = Edges(at=at)
        await play(edges)
        if edges.passed < at:
            return at - 1
        at += 1
