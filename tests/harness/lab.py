"""The core without a platform: real Redis, real lanes, a channel and a directory in memory, and a hand that ends the
process between any two things that it does."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from redis.asyncio import Redis

from bot.agent.formats.native_format import NativeFormat
from bot.agent.limits import DailyBudget
from bot.agent.loop import AgentLoop
from bot.agent.prices import PriceTable
from bot.agent.reply_format import ReplyFormat
from bot.agent.suggester import Suggester
from bot.agent.summary import Summarizer
from bot.app.dispatch import WorkDispatcher
from bot.app.ingress import CardActions
from bot.app.work_kinds import WorkHandlers
from bot.approvals.approval_sets import ApprovalSets
from bot.approvals.card_editor import CardEditor
from bot.approvals.day_facts import DayFacts, TeamIndex
from bot.approvals.delivery import CardDelivery
from bot.approvals.dialogs import CardDialogs
from bot.approvals.duplicates import DuplicateGuard
from bot.approvals.effect_runner import EffectRunner
from bot.approvals.fresh_cards import CardReplacer
from bot.approvals.lifecycle import ApprovalLifecycle
from bot.approvals.morning_lists import MorningLists
from bot.approvals.openings import CardOpener
from bot.approvals.outbox import OutboxRelay
from bot.approvals.press import PressHandler
from bot.approvals.refusals import PressRefuser
from bot.approvals.stops import CardStopper
from bot.approvals.suggestions import SuggestionHandler
from bot.chat.messages import (
    Button,
    Card,
    ChannelReaders,
    Click,
    Message,
    MessageRef,
    Place,
    Post,
    SentFile,
    SessionStatus,
    SuggestedPrompt,
)
from bot.conversation.approver_answers import ApproverAnswerHandler
from bot.conversation.card_requests import CardRequester
from bot.conversation.commands import CommandHandler
from bot.conversation.compaction import HistoryCompactor
from bot.conversation.diagrams import DiagramPoster
from bot.conversation.endings import RunReplies
from bot.conversation.feedback import FeedbackHandler
from bot.conversation.file_intake import FileIntake
from bot.conversation.memory import ConversationMemory
from bot.conversation.notices import NoticePoster
from bot.conversation.progress import Display, ProgressReporter
from bot.conversation.prompt_head import PromptHeadBuilder
from bot.conversation.reply import MessageDelivery
from bot.conversation.request_forms import RequestForms
from bot.conversation.retry import RetryHandler
from bot.conversation.run_loader import RunLoader
from bot.conversation.run_recorder import RunRecorder
from bot.conversation.stops import RunStopper, SessionStopHandler
from bot.conversation.triage import MessageTriage
from bot.conversation.turn import TurnHandler
from bot.conversation.welcome import Welcomer
from bot.core.clock import Clock
from bot.core.errors import ChatError, ChatUnavailableError
from bot.core.history_entries import PausedRun
from bot.core.i18n import render_value
from bot.core.records import Approval, Run
from bot.core.work_items import ButtonPressed, MessageReceived
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes, Lease, RetryLater
from bot.queue.overflow import LaneOverflows
from bot.queue.worker import GIVE_UP_TRIES
from bot.queue.writes import Write
from bot.storage.approval_sets import ApprovalSetStore
from bot.storage.approvals import ApprovalStore
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.feedback import FeedbackStore
from bot.storage.history import HistoryStore
from bot.storage.journal import Journal
from bot.storage.morning_preferences import MorningPreferenceStore
from bot.storage.runs import RunStore
from bot.storage.spending import UsageStore
from bot.storage.welcomes import WelcomeStore
from tests.harness.memory_mailer import MemoryMailer
from tests.harness.memory_store import MemoryStore
from tests.harness.scripted_model import Scripted, ScriptedModel
from tests.tools.office import PEOPLE, People
from tools.catalog import TOOLS
from tools.handbook.folder import Handbook
from tools.spec import Caller, Person
from tools.tool import Tool, ToolServices
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.process.definition import load_shipped_processes

TODAY = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
DM = Place(team="T1", channel="DU1", thread="1.0", direct=True)
HANDBOOK = Path(__file__).parents[2] / "bot" / "local" / "demo" / "handbook"
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
    """A channel in memory. `fails`: what a place answers instead of taking a post (`update_message`, `upload_picture`
    or `post_ephemeral` and whose: a change, a picture, a private word), and how often."""

    edge: Edges
    said: list[Said] = field(default_factory=list)
    whispers: list[tuple[str, str]] = field(default_factory=list)
    shared: list[Shared] = field(default_factory=list)
    fails: dict[str, list[ChatError]] = field(default_factory=dict)
    statuses: list[tuple[Place, str]] = field(default_factory=list)
    sessions: list[tuple[Place, SessionStatus]] = field(default_factory=list)
    prompts: dict[str, Sequence[SuggestedPrompt]] = field(default_factory=dict)
    edits: list[MessageRef] = field(default_factory=list)
    """What was rewritten, once for each time."""

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        self.edge()
        if self.fails.get(place.channel):
            raise self.fails[place.channel].pop(0)
        there = [n for n, one in enumerate(self.said) if again and (one.place.channel, one.key) == (place.channel, key)]
        if not there:
            self.said.append(Said(place, key, post))
        self.edge()
        return MessageRef(channel=place.channel, ts=str((there or [len(self.said) - 1])[0]))

    async def update_message(self, ref: MessageRef, post: Post) -> None:
        self.edge()
        if self.fails.get(f"edit {ref.channel}"):
            raise self.fails[f"edit {ref.channel}"].pop(0)
        self.said[int(ref.ts)].post = post
        self.edits.append(ref)
        self.edge()

    async def post_ephemeral(self, place: Place, person: str, text: str) -> None:
        self.edge()
        if self.fails.get(f"whisper {person}"):
            raise self.fails[f"whisper {person}"].pop(0)
        self.whispers.append((person, text))

    async def open_dm(self, person: str) -> Place:
        return Place(team="T1", channel=f"D{person}", direct=True)

    def show_status(self, place: Place, text: str) -> None:
        self.statuses.append((place, text))

    def set_session_status(self, place: Place, status: SessionStatus, *, person: str = "", title: str = "") -> None:
        self.sessions.append((place, status))

    async def wait_for_session(self, place: Place) -> None:
        self.edge()

    async def suggest_prompts(self, place: Place, prompts: Sequence[SuggestedPrompt]) -> None:
        self.prompts[place.channel] = prompts

    async def upload_picture(
        self, place: Place, picture: bytes, *, name: str, title: str, alt: str, key: str, again: bool = False
    ) -> None:
        self.edge()
        if self.fails.get(f"share {place.channel}"):
            raise self.fails[f"share {place.channel}"].pop(0)
        if not (again and key in [one.key for one in self.shared]):
            self.shared.append(Shared(place, key, picture, title, alt))
        self.edge()

    def find_rate_slot(self, place: Place) -> None:
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

    known: dict[str, ChannelReaders] = field(default_factory=dict)

    async def classify_readers(self, place: Place) -> ChannelReaders:
        if place.direct or place.shared:
            return ChannelReaders.DIRECT if place.direct else ChannelReaders.OUTSIDE
        return self.known.get(place.channel, ChannelReaders.INSIDE)


@dataclass
class Staff(People):
    """The directory, with callers."""

    by_now: dict[str, Person] = field(default_factory=dict)
    """What the platform says of people by now, and only a fresh look shows."""
    away: bool = False
    """The platform cannot be asked."""

    async def refresh_people(self, people: Iterable[str]) -> None:
        if self.away:
            raise ChatUnavailableError("unreachable", "users.info")
        for person in people:
            if (found := self.by_now.pop(person, None)) is not None:
                self.known = [found if one.id == person else one for one in self.known]

    def find_known_person(self, person: str) -> Person | None:
        return next((one for one in self.known if one.id == person), None)

    async def find_caller(self, person: str) -> Caller | None:
        found = await self.find_person(person)
        return Caller(found) if found and found.active else None

    async def is_inside(self, person: str) -> bool:
        found = await self.find_person(person)
        return found is not None and found.active

    def leaves(self, person: str) -> None:
        self.known = [one.model_copy(update={"active": one.active and one.id != person}) for one in self.known]


class EdgedLanes(Lanes):
    """Lanes whose writes are edges too."""

    edge: Edges

    async def run_lane_script(self, script: str, lane: str, *args: str | int) -> Any:
        edged = script in ("checkpoint", "commit")
        if edged:
            self.edge()
        answer = await super().run_lane_script(script, lane, *args)
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
        prices: PriceTable | None = None,
        budget: DailyBudget | None = None,
        styles: Sequence[ReplyFormat] = (NativeFormat(),),
        more: Mapping[str, Tool] | None = None,
        most: int = 30,
        notes: Iterable[Scripted] = (),
        history_tokens: int = 8_000,
        wall: type[Wall] = Wall,
        files: Callable[[Lab], FileIntake] | None = None,
    ) -> None:
        """`script`: what the model answers to people; `advice`: what it thinks of requests, if it is asked; `house`:
        what the company adds to the rules; `styles`: the first is that of fresh runs; `more`: tools of servers;
        `notes`: how it puts older turns in short; `wall`: the channel; `files`: makes what takes files, if any are
        taken."""
        more = {} if more is None else more
        known = ChainMap({tool.name: tool for tool in tools}, cast(dict[str, Tool], more))
        self.over: list[Run] = []
        self.keys, self.redis, self.edges = Keys(partitions=2), redis, Edges()
        self.wall, self.staff, self.mailer = wall(self.edges), Staff(list(PEOPLE)), MemoryMailer()
        self.lanes = EdgedLanes(redis, self.keys, lease_ms=1)
        self.lanes.edge = self.edges
        self.ahead, self.days = timedelta(), timedelta()
        self.clock = Clock(read_now=self.now, read_today=self.today)
        self.runs, self.approvals = RunStore(redis, self.keys), ApprovalStore(redis, self.keys)
        self.history, self.journal = (
            HistoryStore(redis, self.keys, max_tokens=history_tokens),
            Journal(redis, self.keys),
        )
        self.store = MemoryStore()
        self.intake = files(self) if files else None
        kept = self.intake.files if self.intake else None
        self.engine = EmbeddedEngine(self.store, load_shipped_processes(), self.staff, files=kept)
        cards = CardActions(lanes=self.lanes, approvals=self.approvals, clock=self.clock)
        self.desk = ToolServices(
            directory=self.staff,
            engine=self.engine,
            mailer=self.mailer,
            cards=cards,
            render_text=render_value,
            handbook=Handbook(handbook),
        )
        self.model = ScriptedModel(list(script))
        self.spending = UsageStore(redis, self.keys, clock=self.clock, zone=ZoneInfo("Asia/Shanghai"))
        self._build_approvals(known, advice=advice is not None)
        self.rooms = Walls()
        self.telling = MessageDelivery(chat=self.wall, reader_classifier=self.rooms, directory=self.staff)
        memory = ConversationMemory(history=self.history, runs=self.runs, clock=self.clock)
        card_stopper = CardStopper(lanes=self.lanes, approvals=self.approvals, runs=self.runs, clock=self.clock)
        run_stopper = RunStopper(runs=self.runs, history=self.history, card_stopper=card_stopper)
        self.commands = CommandHandler(
            tool_services=self.desk, history=self.history, settings=dict, run_stopper=run_stopper, clock=self.clock,
            preferences=MorningPreferenceStore(redis, self.keys),
        )  # fmt: skip
        recorder = RunRecorder(
            runs=self.runs, history=self.history, memory=memory, journal=self.journal, spending=self.spending,
            clock=self.clock, on_run_ended=self.over.append,
        )  # fmt: skip
        replies = RunReplies(chat=self.wall, delivery=self.telling, directory=self.staff)
        loop = AgentLoop(
            self.model, tools, clock=self.clock, formats=styles, prices=prices or PriceTable(), server_tools=more,
            max_offered_tools=most,
        )  # fmt: skip
        self.turns = TurnHandler(
            directory=self.staff, tool_services=self.desk, loop=loop, replies=replies, run_recorder=recorder,
            triage=MessageTriage(directory=self.staff, commands=self.commands, replies=replies, run_recorder=recorder),
            run_loader=RunLoader(
                keys=self.keys, runs=self.runs, history=self.history, spending=self.spending, loop=loop,
                tool_services=self.desk, clock=self.clock, budget=budget or DailyBudget(),
            ),
            prompt_heads=PromptHeadBuilder(
                directory=self.staff, tool_services=self.desk, loop=loop, clock=self.clock, company_rules=house
            ),
            duplicates=DuplicateGuard(self.approvals, self.runs),
            progress=ProgressReporter(chat=self.wall, delivery=self.telling, display=display),
            card_requester=CardRequester(
                keys=self.keys, chat=self.wall, delivery=self.telling, replies=replies, tool_services=self.desk,
                clock=self.clock,
            ),
            clock=self.clock, budget=budget or DailyBudget(), down_ms=0, file_intake=self.intake,
        )  # fmt: skip
        self.opinions = ScriptedModel(list(advice or ()))
        self.notes = ScriptedModel(list(notes))
        self.outbox = OutboxRelay(
            tool_services=self.desk, directory=self.staff, lanes=self.lanes, keys=self.keys, clock=self.clock
        )
        everybody: dict[str, Any] = {"directory": self.staff, "journal": self.journal}
        costs: dict[str, Any] = {"spending": self.spending, "prices": prices or PriceTable()}
        handlers = WorkHandlers(
            turn_handler=self.turns, press_handler=self.gates, card_opener=self.card_opener, lifecycle=self.ends,
            outbox=self.outbox, memory=memory, approval_sets=self.sets, morning_lists=self.mornings,
            feedback_handler=FeedbackHandler(
                **everybody, chat=self.wall, runs=self.runs, feedback=FeedbackStore(redis, self.keys),
                spending=self.spending,
            ),
            session_stop_handler=SessionStopHandler(**everybody, chat=self.wall, run_stopper=run_stopper),
            welcomer=Welcomer(
                **everybody, chat=self.wall, tool_services=self.desk, history=self.history,
                welcomes=WelcomeStore(redis, self.keys), clock=self.clock,
            ),
            retry_handler=RetryHandler(**everybody, chat=self.wall, runs=self.runs, history=self.history),
            approver_answers=ApproverAnswerHandler(
                **everybody, chat=self.wall, runs=self.runs, history=self.history
            ),
            diagram_poster=DiagramPoster(
                **everybody, chat=self.wall, delivery=self.telling, tool_services=self.desk, tools=known,
                clock=self.clock, paint=painted,
            ),
            compactor=HistoryCompactor(
                **everybody, **costs, summarizer=Summarizer(self.notes, self.staff.list_people), runs=self.runs,
                history=self.history, budget=budget or DailyBudget(), pause_ms=0,
            ),
            notices=NoticePoster(
                **everybody, chat=self.wall, delivery=self.telling, memory=memory,
                overflows=LaneOverflows(redis, self.keys),
            ),
            request_forms=RequestForms(
                tool_services=self.desk, directory=self.staff, keys=self.keys, journal=self.journal, clock=self.clock
            ),
            suggestion_handler=SuggestionHandler(
                **costs, suggester=Suggester(self.opinions), approvals=self.approvals, directory=self.staff,
                card_delivery=self.ends.card_delivery, lifecycle=self.ends, clock=self.clock,
            ) if advice is not None else None,
        )  # fmt: skip
        self.dispatch = WorkDispatcher(handlers=handlers, journal=self.journal, clock=Clock())

    def _build_approvals(self, known: Mapping[str, Tool], *, advice: bool) -> None:
        """What deals with cards. `known`: every tool by name."""
        delivery = CardDelivery(
            chat=self.wall,
            directory=self.staff,
            list_deputies=lambda task: self.engine.list_task_deputies(task, self.today()),
            is_catching_up=self.lanes.is_catching_up,
        )
        self.ends = ApprovalLifecycle(
            card_delivery=delivery, approvals=self.approvals, journal=self.journal, clock=self.clock
        )
        everybody: dict[str, Any] = {"card_delivery": delivery, "lifecycle": self.ends, "clock": self.clock}
        tooling: dict[str, Any] = {"tool_services": self.desk, "tools": known}
        self.card_opener = CardOpener(**everybody, approvals=self.approvals, advice=advice)
        editor = CardEditor(**everybody, **tooling, open_for=self.card_opener.open_for)
        self.dialogs = CardDialogs(
            approvals=self.approvals, card_delivery=delivery, directory=self.staff, clock=self.clock, **tooling
        )
        self.gates = PressHandler(
            **everybody, **tooling, approvals=self.approvals, directory=self.staff, card_editor=editor,
            refuser=PressRefuser(**everybody, approvals=self.approvals, journal=self.journal),
            effect_runner=EffectRunner(
                **tooling, lifecycle=self.ends, clock=self.clock, card_editor=editor, directory=self.staff
            ),
            card_replacer=CardReplacer(
                approvals=self.approvals, card_delivery=delivery, directory=self.staff, tool_services=self.desk,
                journal=self.journal, keys=self.keys, clock=self.clock,
            ),
        )  # fmt: skip

        self.sets = ApprovalSets(
            sets=ApprovalSetStore(self.redis, self.keys), approvals=self.approvals, keys=self.keys, chat=self.wall,
            card_delivery=delivery, directory=self.staff, tool_services=self.desk, journal=self.journal,
            clock=self.clock, facts=DayFacts(tool_services=self.desk, teams=TeamIndex(self.staff)),
        )  # fmt: skip
        self.mornings = MorningLists(
            approval_sets=self.sets, facts=self.sets.facts, directory=self.staff, lanes=self.lanes, keys=self.keys,
            preferences=MorningPreferenceStore(self.redis, self.keys), calendar=self.desk.calendar, clock=self.clock,
            at=time(9),
        )  # fmt: skip

    def use_loop(self, loop: AgentLoop) -> None:
        """From here on runs go through another loop."""
        self.turns = replace(
            self.turns,
            loop=loop,
            run_loader=replace(self.turns.run_loader, loop=loop),
            prompt_heads=replace(self.turns.prompt_heads, loop=loop),
        )
        self.dispatch = replace(self.dispatch, handlers=replace(self.dispatch.handlers, turn_handler=self.turns))

    def now(self) -> datetime:
        """What cards expire by."""
        return TODAY + self.ahead

    def today(self) -> datetime:
        """What requests are stamped with."""
        return TODAY + self.days

    async def says(
        self, text: str, person: str = "U1", id: str = "Ev1", place: Place = DM, files: Sequence[SentFile] = ()
    ) -> None:
        message = Message(id=id, place=place, person=person, text=text, at=f"1.{id}", files=tuple(files))
        await self.lanes.enqueue(place.conversation, id, MessageReceived(message=message).model_dump_json())

    async def presses(
        self, card: Card, choice: str, person: str = "U1", id: str = "", form: dict[str, str] | None = None,
        at: MessageRef | None = None,
    ) -> None:  # fmt: skip
        """A press on a button that the card shows. `at`: the message that it is pressed on."""
        button = next(one for one in card.buttons if one.choice == choice)
        click = Click(
            id=id or f"{button.approval}.{button.version}.{choice}", approval=button.approval, version=button.version,
            choice=choice, person=person, place=DM, form=form, card=at, seal=button.seal,
        )  # fmt: skip
        await self.lanes.enqueue(click.approval, click.id, ButtonPressed(click=click).model_dump_json())

    async def tries_again(self, button: Button, person: str = "U1", id: str = "again", place: Place = DM) -> None:
        """A press on *Try again* of a stop."""
        shown = [n for n, one in enumerate(self.wall.said) if button in one.post.buttons]
        at = MessageRef(channel=place.channel, ts=str(shown[0])) if shown else None
        click = Click(
            id=id, approval=button.approval, version=button.version, choice=button.choice, person=person, place=place,
            card=at,
        )  # fmt: skip
        await self.lanes.enqueue(click.approval, click.id, ButtonPressed(click=click).model_dump_json())

    async def work(self) -> None:
        """Until nothing is left to do. Who is killed is followed by another; what fails is tried again."""
        for _ in range(ROUNDS):
            await self.outbox.relay_events()
            leases = [one for n in range(self.keys.partitions) for one in await self.lanes.claim("p", n, 1)]
            for lease in leases:
                await self._one(lease)
            if not leases and not any([await self.redis.zcard(self.keys.build_key(n, "z")) for n in range(2)]):
                return
        raise AssertionError("there is always something left to do")

    async def work_beside(self) -> None:
        """What another process does while an item is being handled."""
        for lease in [one for n in range(self.keys.partitions) for one in await self.lanes.claim("q", n, 1)]:
            await self._one(lease)

    async def _one(self, lease: Lease) -> None:
        try:
            await lease.commit(*await self._handled(lease), more=False)
        except Killed:
            pass
        except RetryLater as later:
            await lease.retry(later.delay_ms, str(later), count=later.counted)
        except Exception as error:
            await lease.retry(0, repr(error))

    async def _handled(self, lease: Lease) -> Sequence[Write]:
        item, most = lease.item, self.lanes.max_tries
        if item.tries <= most:
            return await self.dispatch.handle_item(lease)
        buried = DeadLetterStore(self.redis, self.keys).build_bury_writes(item, item.error)
        if item.tries > most + GIVE_UP_TRIES:
            return buried
        return [*await self.dispatch.give_up_item(item, item.error), *buried]

    async def kinds(self) -> list[str]:
        return [record.kind async for record in self.journal.stream_records()]

    async def approval(self) -> Approval:
        """The only card there is."""
        found = [key async for key in self.redis.scan_iter("*:apr:*")]
        assert len(found) == 1, found
        one = await self.approvals.load_approval(str(found[0]).rpartition(":")[2])
        assert one is not None
        return one

    async def waiting(self) -> tuple[PausedRun, ...]:
        """Runs of the conversation that wait for a button."""
        return (await self.runs.load_conversation(DM.conversation, self.history)).waiting

    async def remembered(self) -> list[str]:
        return [one.content for one in (await self.history.load_history(DM.conversation)).entries]


async def every_edge(play: Callable[[Edges], Any]) -> int:
    """Plays the same story once for each place at which its process can end; how many there are."""
    at = 1
    while True:
        edges = Edges(at=at)
        await play(edges)
        if edges.passed < at:
            return at - 1
        at += 1
