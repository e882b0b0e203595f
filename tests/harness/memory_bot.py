"""One bot: the product's own composition on a platform and a directory in memory, with a scripted model, real Redis and
real lanes. A test can end its process between any two of its actions."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from bot.agent.formats.native_format import NativeFormat
from bot.agent.limits import PriceTable
from bot.agent.loop import AgentLoop, ModelInUse
from bot.agent.model import Model, ModelReply, ReplyFormat
from bot.app.build import build_core
from bot.app.company_files import build_daily_budget
from bot.app.dispatch import WorkDispatcher
from bot.app.resources import Resources, build_stores
from bot.app.services import ModelEndpoint, Services
from bot.app.settings import IsolatedSettings, Settings
from bot.approvals.outbox import relay_events
from bot.chat.messages import Button, Card, Click, HomeView, Message, MessageRef, Place, SentFile
from bot.core.clock import Clock
from bot.core.held_lease import assert_may_send
from bot.core.history_entries import PausedRun
from bot.core.records import Approval, Run
from bot.core.timing import Timing
from bot.core.work_items import SHOW_SUFFIX, ButtonPressed, MessageReceived
from bot.features import diagrams, suggestions
from bot.features.contract import Core, Feature
from bot.features.files import feature as files
from bot.features.files.file_bytes import FileBytes
from bot.features.files.file_store import FileStore
from bot.features.sets.morning_lists import MorningLists
from bot.features.shipped import FEATURES
from bot.features.summaries import summary
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes, Lease, RetryLater
from bot.queue.worker import GIVE_UP_TRIES
from bot.queue.writes import Write
from bot.storage.approvals import RECORD_KIND
from bot.storage.dead_letters import DeadLetterStore
from tests.harness.memory_mailer import MemoryMailer
from tests.harness.memory_platform import (
    DM,
    Edges,
    Killed,
    MemoryChannel,
    MemoryDirectory,
    MemoryFileBytes,
    MemoryFileSource,
    MemoryReaders,
    build_platform,
)
from tests.harness.memory_store import MemoryStore, Store
from tests.harness.scripted_model import Scripted, ScriptedModel
from tools.catalog import TOOLS
from tools.outside import Outside
from tools.spec import FrozenModel
from tools.tool import Tool
from tools.workflow.engine.embedded import EmbeddedEngine
from tools.workflow.engine.port import Engine
from tools.workflow.process.definition import load_shipped_processes

TODAY = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
HANDBOOK = Path(__file__).parents[2] / "bot" / "dev" / "demo" / "handbook"
MAX_ROUNDS = 200
"""Number of deliveries that no story reaches."""
OUTSIDE = Services(
    redis_url="", slack_api_url="http://127.0.0.1", bot_token="", smtp_url="",
    model=ModelEndpoint(url="", key="", name="scripted"),
)  # fmt: skip


@cache
def build_settings(**values: Any) -> Settings:
    """Build settings, once for each set of values: reading them takes longer than all the rest of an installation."""
    return IsolatedSettings(allow_non_durable=True, **values)


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


@dataclass
class ModelByPurpose:
    """One endpoint, which is asked for answers, for suggestions and for summaries."""

    answers: Model
    suggestions: Model
    summaries: Model

    async def request_reply(self, messages: Sequence[str], extra: str, *, timeout_s: float) -> ModelReply:
        purposes = {suggestions.RULES: self.suggestions, summary.RULES: self.summaries}
        asked = (model for rules, model in purposes.items() if rules.partition("\n")[0] in messages[0])
        return await next(asked, self.answers).request_reply(messages, extra, timeout_s=timeout_s)


async def describe_diagram(bpmn: bytes, done: Collection[str], active: Collection[str], language: str) -> bytes:
    """Draw a picture as text: the position of the request."""
    return f"{language}: {','.join(active)}".encode()


class Bot:
    """A bot whose `work` plays all processes, one item after another."""

    def __init__(
        self, redis: Redis, script: Iterable[Scripted] = (), *, suggestions: Sequence[Scripted] | None = None,
        summaries: Iterable[Scripted] = (), tools: Sequence[Tool] = TOOLS,
        features: Sequence[Callable[[Core], Feature]] = FEATURES, mcp_tools: Mapping[str, Tool] | None = None,
        formats: Sequence[ReplyFormat] = (NativeFormat(),), company_rules: str = "", prices: PriceTable | None = None,
        handbook: Path | None = None, channel: type[MemoryChannel] = MemoryChannel, store: Store | None = None,
        engine: Engine | None = None, file_bytes: FileBytes | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        """Build a bot. `script`: the model's answers to people. `suggestions`: its suggestions on requests, if it is
        asked. `summaries`: its summaries of older turns. `store`: the store of the engine's requests. `settings`: see
        `Settings`."""
        self.redis, self.keys = redis, Keys(partitions=2)
        self.edges = Edges()
        self.chat, self.directory, self.readers = channel(self.edges), MemoryDirectory(), MemoryReaders()
        self.file_source, self.mailer = MemoryFileSource(self.edges), MemoryMailer()
        self.outside = Outside(mailer=self.mailer, assert_may_send=assert_may_send)
        self.now_offset, self.today_offset = timedelta(), timedelta()
        self.clock = Clock(read_now=self.now, read_today=self.today)
        self.ended_runs: list[Run] = []
        self.homes: dict[str, HomeView] = {}
        self.model = ScriptedModel(list(script))
        self.suggestion_model = ScriptedModel(list(suggestions or ()))
        self.summary_model = ScriptedModel(list(summaries))
        timing = Timing(clock=self.clock, outage_retry_s=0, summary_pause_s=0)
        values = {"steps": "replies", "morning_list": "09:00", "advice": "off" if suggestions is None else "on"}
        services = replace(OUTSIDE, handbook_dir=handbook)
        file_bytes = file_bytes or MemoryFileBytes(self.edges)
        made = build_settings(**{**values, **settings})
        stores = build_stores(made, services, timing, redis, self.keys)
        self.lanes = EdgedLanes(redis, self.keys, lease_ms=1, record_kind=RECORD_KIND, companion_suffix=SHOW_SUFFIX)
        self.lanes.edge = self.edges
        self.runs, self.approvals, self.history = stores.runs, stores.approvals, stores.history
        self.journal, self.usage = stores.journal, stores.spending
        self.store: Any = store or MemoryStore()
        self.files = FileStore(redis, self.keys, DM.team, file_bytes)
        self.engine = engine or EmbeddedEngine(self.store, load_shipped_processes(), self.directory, files=stores.files)
        adapted: dict[Callable[[Core], Feature], Callable[[Core], Feature]] = {
            diagrams.build: partial(diagrams.build, paint=describe_diagram),
            files.build: partial(files.build, file_bytes=file_bytes),
        }
        platform = build_platform(
            self.chat, self.directory, readers=self.readers, file_source=self.file_source, homes=self.homes
        )
        model = ModelInUse(
            ModelByPurpose(self.model, self.suggestion_model, self.summary_model), name=services.model.name,
            has_vision=made.openai_vision == "on", formats=formats, prices=prices or PriceTable(),
            daily_budget=build_daily_budget(made),
        )  # fmt: skip
        resources = Resources(
            settings=made, services=services, timing=timing, stores=replace(stores, lanes=self.lanes),
            platform=platform, engine=self.engine, outside=self.outside, model=model, company_rules=company_rules,
            mcp_tools={} if mcp_tools is None else mcp_tools, on_run_ended=self.ended_runs.append,
            on_close=lambda close: None, tools=tools,
        )  # fmt: skip
        self.app = build_core(resources, [adapted.get(one, one) for one in features])
        self.tool_services, self.ingress = self.app.ingress.cards.tool_services, self.app.ingress
        self.dispatcher = replace(self.app.dispatcher, clock=Clock())  # of the same time as Redis

    @property
    def morning_lists(self) -> MorningLists:
        return next(one.__self__ for one in self.handlers.features.jobs if one.__name__ == "plan_mornings")  # type: ignore[attr-defined]

    @property
    def handlers(self) -> WorkDispatcher:
        return self.dispatcher

    def replace_handlers(self, **handlers: Any) -> None:
        """Replace handlers of work from now on."""
        self.dispatcher = replace(self.dispatcher, **handlers)

    def use_loop(self, loop: AgentLoop) -> None:
        """Let runs go through another loop from now on."""
        self.replace_handlers(turns=replace(self.handlers.turns, loop=loop))

    def use_model(self, model: Model) -> None:
        """Let runs ask another model from now on."""
        loop = self.handlers.turns.loop
        self.use_loop(replace(loop, model=replace(loop.model, endpoint=model)))

    def end_at(self, edges: Edges) -> None:
        """Let the process end where `edges` says from now on."""
        self.edges = self.chat.edge = self.lanes.edge = self.file_source.edge = edges

    def now(self) -> datetime:
        """The time by which cards expire."""
        return TODAY + self.now_offset

    def today(self) -> datetime:
        """The time with which requests are stamped."""
        return TODAY + self.today_offset

    # Actions of people, and all their consequences

    async def send(self, text: str, *message: Any, **more: Any) -> None:
        """Put a message (see `put_message`) and work."""
        await self.put_message(text, *message, **more)
        await self.work()

    async def press(self, card: Card, choice: str, *click: Any, **more: Any) -> None:
        """Put a press (see `put_press`) and work."""
        await self.put_press(card, choice, *click, **more)
        await self.work()

    async def press_retry(self, button: Button, *click: Any, **more: Any) -> None:
        """Put a press on *Try again* (see `put_retry`) and work."""
        await self.put_retry(button, *click, **more)
        await self.work()

    async def start_request(self, process: str, form: Mapping[str, str], author: str, key: str) -> str:
        """Start a request directly at the engine, as if it came from elsewhere. Returns the request's number."""
        started = await self.engine.start_request(process, form, author, key, self.today())
        await self.work()
        return started.request

    async def handle_work(self, lane: str, id: str, work: FrozenModel | str) -> None:
        """Handle an item of this lane. `work`: the item, or its stored form."""
        await self.lanes.enqueue(lane, id, work if isinstance(work, str) else work.model_dump_json())
        await self.work()

    # Actions of people, put into their lanes

    async def put_message(
        self, text: str, person: str = "U1", id: str = "Ev1", place: Place = DM, files: Sequence[SentFile] = ()
    ) -> None:
        message = Message(id=id, place=place, person=person, text=text, at=f"1.{id}", files=tuple(files))
        await self.lanes.enqueue(place.conversation, id, MessageReceived(message=message).model_dump_json())

    async def put_press(
        self, card: Card, choice: str, person: str = "U1", id: str = "", form: dict[str, str] | None = None,
        at: MessageRef | None = None,
    ) -> None:  # fmt: skip
        """Put a press on a button that the card shows. `at`: the message on which it is pressed."""
        button = next(one for one in card.buttons if one.choice == choice)
        id = id or f"{button.approval}.{button.version}.{choice}"
        await self.put_button_press(button, person, id, form=form, at=at)

    async def put_retry(self, button: Button, person: str = "U1", id: str = "again", place: Place = DM) -> None:
        """Put a press on *Try again* under a stopped run."""
        shown = [n for n, one in enumerate(self.chat.posts) if button in one.post.buttons]
        at = MessageRef(channel=place.channel, ts=str(shown[0])) if shown else None
        await self.put_button_press(button, person, id, place=place, at=at)

    async def put_button_press(
        self, button: Button, person: str, id: str, *, place: Place = DM, form: dict[str, str] | None = None,
        at: MessageRef | None = None,
    ) -> None:  # fmt: skip
        click = Click(
            id=id, approval=button.approval, version=button.version, choice=button.choice, person=person, place=place,
            form=form, card=at, seal=button.seal,
        )  # fmt: skip
        await self.lanes.enqueue(click.approval, click.id, ButtonPressed(click=click).model_dump_json())

    # Actions of processes

    async def work(self) -> None:
        """Work until nothing is left to do. A killed process is followed by another; a failed item is tried again."""
        for _ in range(MAX_ROUNDS):
            await relay_events(self.handlers.cards)
            if not any([await self.redis.zcard(self.keys.build_key(n, "z")) for n in range(self.keys.partitions)]):
                return
            for partition in range(self.keys.partitions):  # no lane is held that another process might want meanwhile
                for lease in await self.lanes.claim("p", partition, 1):
                    await self.work_on(lease)
        raise AssertionError("there is always something left to do")

    async def work_beside(self) -> None:
        """Work as another process while an item is being handled."""
        for partition in range(self.keys.partitions):
            for lease in await self.lanes.claim("q", partition, 1):
                await self.work_on(lease)

    async def work_on(self, lease: Lease) -> None:
        """Handle one item of a lane, as the worker does."""
        try:
            await lease.commit(*await self._handle_or_give_up(lease), more=False)
        except Killed:
            pass
        except RetryLater as later:
            await lease.retry(later.delay_ms, str(later), count=later.counted)
        except Exception as error:
            await lease.retry(0, repr(error))

    async def _handle_or_give_up(self, lease: Lease) -> Sequence[Write]:
        item, most = lease.item, self.lanes.max_tries
        if item.tries <= most:
            return await self.dispatcher.handle_item(lease)
        buried = DeadLetterStore(self.redis, self.keys).build_bury_writes(item, item.error)
        if item.tries > most + GIVE_UP_TRIES:
            return [*await self.dispatcher.bury_item(lease), *buried]
        return [*await self.dispatcher.give_up_item(item, item.error), *buried]

    # Current state

    async def list_journal_kinds(self) -> list[str]:
        return [record.kind async for record in self.journal.stream_records()]

    async def load_approval(self, which: Card | str = "") -> Approval | None:
        """Load the approval of this card or id; by default, the only one."""
        if isinstance(which, Card):
            which = which.buttons[0].approval
        if not which:
            found = [key async for key in self.redis.scan_iter("*:apr:*")]
            assert len(found) == 1, found
            which = str(found[0]).rpartition(":")[2]
        return await self.approvals.load_approval(which)

    async def list_paused_runs(self) -> tuple[PausedRun, ...]:
        """List the runs of the conversation that wait for a button."""
        return (await self.runs.load_conversation(DM.conversation, self.history)).waiting

    async def list_history(self) -> list[str]:
        return [one.content for one in (await self.history.load_history(DM.conversation)).entries]


async def every_edge(redis: Redis, *, more_than: int = 0) -> AsyncIterator[Edges]:
    """Yield each place at which the process of a story can end, with an emptied store, and last no place at all. Assert
    that there are more places than this."""
    for at in count(1):
        await redis.flushall()
        yield (edges := Edges(at=at))
        if edges.passed < at:
            assert at - 1 > more_than
            return
