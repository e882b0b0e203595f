"""The composition root: settings → outside services → stores → tools → loop → channel. Only this file constructs.

Read `assembled` to see what the bot is made of, `bot.serving` to see how it lives.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast
from zoneinfo import ZoneInfo

from redis.asyncio import Redis
from redis.exceptions import RedisError
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from bot import logs
from bot.advising import Advising
from bot.anew import Anew
from bot.board import Board
from bot.chat.slack import app as slack
from bot.chat.slack.directory import SlackDirectory, read_facts
from bot.chat.slack.inbound import Me
from bot.chat.slack.outbound import SlackChannel
from bot.commands import Commands
from bot.company import budget_of, calendar_of, handbook_of, persona_of, policy_of, prices_of, servers_of
from bot.dispatch import Dispatch
from bot.door import Door
from bot.ends import Ends
from bot.engine import engine_of
from bot.errors import CountersignError
from bot.folding import Folding
from bot.gate import Gates
from bot.home import Homes
from bot.intake import LaneIntake, OpenCards
from bot.openings import Openings
from bot.outbox import Outbox, Timers
from bot.outside import Outside
from bot.pictures import Pictures
from bot.react import prompt
from bot.react.advice import Adviser
from bot.react.fallback import Fallback
from bot.react.guards import Limits as LoopLimits
from bot.react.loop import Loop
from bot.react.model import Metered, Model
from bot.react.policies import policies
from bot.react.prices import Prices
from bot.react.probe import styles_of
from bot.react.style import Style
from bot.react.summary import Summarizer
from bot.records import Run
from bot.settings import Settings
from bot.show import Steps
from bot.store.approvals import Approvals
from bot.store.check import require
from bot.store.connect import connect
from bot.store.history import History
from bot.store.journal import Journal
from bot.store.keys import Keys
from bot.store.lanes import Lanes
from bot.store.limits import Limits
from bot.store.remembered import Remembered
from bot.store.runs import Runs
from bot.store.spending import SYSTEM, Spending
from bot.texts import literal
from bot.tracing.setting import sender_of
from bot.turn import Turns
from bot.worker import Worker
from tools.catalog import TOOLS, offered
from tools.mail import SmtpMailer
from tools.tool import Desk, Tool
from tools.workflow.engine import Engine

log = logs.get(__name__)

DAY_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Tuning:
    """Times that tests shorten and nobody else changes."""

    sweep_s: float = 1.0
    grace_s: float = 25.0
    relay_s: float = 0.5
    tick_s: float = 1.0
    down_s: float = 5.0
    reply_s: float = 60.0
    max_tries: int = 5
    cap: int = 500
    backoff_ms: int = 500
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    """What cards and runs are stamped with, and expire by."""
    today: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    """What *today* and *tomorrow* are counted from, and requests are stamped with: their timers go by it."""


@dataclass(frozen=True, slots=True)
class Bot:
    """Everything put together."""

    app: AsyncApp
    worker: Worker
    redis: Redis
    journal: Journal
    intake: LaneIntake
    door: Door
    servers: Mapping[str, Tool]
    """Tools of MCP servers, by name."""


@dataclass(frozen=True, slots=True)
class Stores:
    """What Redis keeps."""

    redis: Redis
    keys: Keys
    lanes: Lanes
    runs: Runs
    approvals: Approvals
    history: History
    journal: Journal


@dataclass(frozen=True, slots=True)
class Slack:
    """The platform: who we are on it, its people, and how we speak."""

    client: AsyncWebClient
    me: Me
    chat: SlackChannel
    directory: SlackDirectory


@asynccontextmanager
async def assembled(
    settings: Settings, outside: Outside, *, tuning: Tuning | None = None, model: Model | None = None
) -> AsyncIterator[Bot]:
    """The bot, ready to run. Raises `StoreUnfit`, `StoreDown`, `SettingsWrong` or `ChatFailed` with the way out."""
    tuning = tuning or Tuning()
    async with AsyncExitStack() as stack:
        stores = await stack.enter_async_context(_stores(settings, outside, tuning))
        platform = await stack.enter_async_context(_slack(settings, outside, stores))
        if model is None:
            model = await stack.enter_async_context(_model(settings, outside))
        chat, directory, door = platform.chat, platform.directory, Door()

        engine = await stack.enter_async_context(engine_of(settings, stores.redis, directory))
        mailer = SmtpMailer(outside.smtp_url, settings.mail_from)
        cards = OpenCards(stores.lanes, stores.approvals, tuning.now)
        handbook = handbook_of(outside.handbook_dir)
        desk = Desk(directory, engine, mailer, cards, literal, calendar_of(settings), handbook)
        ends = Ends(Board(chat, directory, _stand_ins(desk, tuning)), stores.approvals, stores.journal, tuning.now)
        servers = await stack.enter_async_context(_servers(settings))
        gates = _gates(settings, tuning, stores, platform, desk, ends, servers)
        prices, spending = prices_of(settings), _spending(settings, tuning, stores)
        ended = await stack.enter_async_context(_followed(settings, outside, stores))
        styles = await _styles(settings, outside, stores, model, prices, spending)
        loop = _loop(settings, tuning, model, desk, styles, prices, servers)
        house = await _house(settings, engine)
        turns = _turns(settings, tuning, stores, platform, desk, loop, house, door, spending, ended)
        outbox = Outbox(desk, directory, stores.lanes, stores.keys, tuning.today)
        timers = Timers(desk, tuning.today, tuning.tick_s)
        worker = Worker(
            stores.lanes,
            _dispatch(tuning, stores, platform, turns, gates, outbox),
            concurrency=settings.concurrency,
            sweep_s=tuning.sweep_s,
            grace_s=tuning.grace_s,
            jobs=(outbox.relay, timers.tick, *outside.upkeep),
            pause_s=tuning.relay_s,
            backoff_ms=tuning.backoff_ms,
        )
        homes = Homes(desk, directory, tuning.today)
        intake = LaneIntake(worker, stores.lanes, gates, homes, stores.history, stores.runs, chat, directory)
        app = slack.build(platform.client, platform.me, intake, chat, directory, signing_secret=outside.signing_secret)
        yield Bot(app, worker, stores.redis, stores.journal, intake, door, servers)


@asynccontextmanager
async def _stores(settings: Settings, outside: Outside, tuning: Tuning) -> AsyncIterator[Stores]:
    """Everything in Redis, after a look at whether it keeps what it is given."""
    redis, keys = await connect(outside.redis_url), Keys()
    try:
        for finding in await require(redis, keys, "en", allow_non_durable=settings.allow_non_durable):
            log.warning(finding.say("en"))
        yield Stores(
            redis,
            keys,
            Lanes(
                redis,
                keys,
                lease_ms=int(settings.lease_seconds * 1000),
                max_tries=tuning.max_tries,
                cap=tuning.cap,
            ),
            Runs(redis, keys),
            Approvals(redis, keys),
            History(redis, keys, settings.history_tokens, settings.history_days * DAY_MS),
            Journal(redis, keys),
        )
    finally:
        await redis.aclose()


@asynccontextmanager
async def _slack(settings: Settings, outside: Outside, stores: Stores) -> AsyncIterator[Slack]:
    async with slack.open_client(outside.bot_token, outside.slack_api_url) as client:
        me = await slack.identify(client)
        limits = Limits(stores.redis, stores.keys)
        chat = SlackChannel(client, limits, team=me.team, bot=me.user, spacing_ms=settings.post_spacing_ms)
        yield Slack(client, me, chat, SlackDirectory(client, read_facts(outside.directory_file), team=me.team))


def _stand_ins(desk: Desk, tuning: Tuning) -> Callable[[str], Awaitable[Sequence[str]]]:
    return lambda task: desk.engine.stand_ins(task, tuning.today())


@asynccontextmanager
async def _servers(settings: Settings) -> AsyncIterator[Mapping[str, Tool]]:
    """The tools of the MCP servers, by name, as they come and go."""
    if not (servers := servers_of(settings)):
        yield {}
        return
    from tools.servers.fleet import opened  # the SDK takes its time to import

    async with opened(servers, _reported) as fleet:
        yield fleet


def _reported(event: str, **about: object) -> None:
    """What a server does goes to the log."""
    (log.info if event in ("server.tools", "server.said") else log.warning)(event, **about)


def _gates(
    settings: Settings,
    tuning: Tuning,
    stores: Stores,
    platform: Slack,
    desk: Desk,
    ends: Ends,
    servers: Mapping[str, Tool],
) -> Gates:
    return Gates(
        ends.board,
        ends,
        platform.directory,
        desk,
        ChainMap({tool.name: tool for tool in TOOLS}, cast(MutableMapping[str, Tool], servers)),
        stores.approvals,
        stores.journal,
        tuning.today,
        tuning.now,
        Openings(ends, timedelta(hours=settings.approval_ttl_hours), advice=settings.advice == "on"),
    )


def _dispatch(
    tuning: Tuning,
    stores: Stores,
    platform: Slack,
    turns: Turns,
    gates: Gates,
    outbox: Outbox,
) -> Dispatch:
    adviser, ends = Adviser(turns.loop.model, gates.desk.handbook), gates.ends
    advising = Advising(adviser, ends, platform.directory, turns.spending, turns.loop.prices)
    chat, directory = platform.chat, platform.directory
    return Dispatch(
        turns,
        Anew(chat, directory, stores.runs, stores.history, stores.journal),
        gates,
        gates.ends,
        Pictures(chat, directory, gates.desk, gates.tools, stores.journal, tuning.today),
        outbox,
        Folding(
            Summarizer(turns.loop.model, directory.everyone),
            stores.runs,
            stores.history,
            directory,
            stores.journal,
            turns.spending,
            turns.loop.prices,
        ),
        chat,
        directory,
        stores.journal,
        tuning.now,
        int(tuning.down_s * 1000),
        advising if gates.openings.advice else None,
    )


@asynccontextmanager
async def _model(settings: Settings, outside: Outside) -> AsyncIterator[Model]:
    """The model, with a second one behind it if there is one by setting."""
    # Only now: the SDK takes as long to import as all the rest, and not everybody needs a model.
    from bot.react.endpoint import open_model

    async with AsyncExitStack() as stack:
        asked = [(outside.model_url, outside.model_key, outside.model_name)]
        asked += [(outside.fallback_url, outside.fallback_key, outside.fallback_name)] if outside.fallback_name else []
        opening = [open_model(*one, retries=settings.openai_retries) for one in asked]
        first, *second = [await stack.enter_async_context(one) for one in opening]
        yield Fallback(first, second[0]) if second else first


def _spending(settings: Settings, tuning: Tuning, stores: Stores) -> Spending:
    return Spending(stores.redis, stores.keys, tuning.now, ZoneInfo(settings.company_timezone))


async def _styles(
    settings: Settings, outside: Outside, stores: Stores, model: Model, prices: Prices, spending: Spending
) -> Sequence[Style]:
    """How the first model speaks ReAct; the rehearsal knows one way. What it costs to ask is counted."""
    asked = Metered(model.first if isinstance(model, Fallback) else model)
    wish = "native" if "model" in outside.standins else settings.react_style
    memory = Remembered(stores.redis, stores.keys)
    styles = await styles_of(wish, asked, memory, f"{outside.model_url} {outside.model_name}")
    await spending.add(SYSTEM, [prices.spent(reply) for reply in asked.replies])
    return styles


def _turns(
    settings: Settings,
    tuning: Tuning,
    stores: Stores,
    platform: Slack,
    desk: Desk,
    loop: Loop,
    house: str,
    door: Door,
    spending: Spending,
    ended: Callable[[Run], object],
) -> Turns:
    return Turns(
        chat=platform.chat,
        directory=platform.directory,
        desk=desk,
        keys=stores.keys,
        runs=stores.runs,
        history=stores.history,
        journal=stores.journal,
        spending=spending,
        budget=budget_of(settings),
        loop=loop,
        commands=Commands(desk, stores.history, settings.shown, tuning.today),
        steps=Steps(platform.chat, settings.steps),
        today=tuning.today,
        now=tuning.now,
        house=house,
        door=door,
        down_ms=int(tuning.down_s * 1000),
        ended=ended,
    )


def _loop(
    settings: Settings,
    tuning: Tuning,
    model: Model,
    desk: Desk,
    styles: Sequence[Style],
    prices: Prices,
    servers: Mapping[str, Tool],
) -> Loop:
    return Loop(
        model,
        offered(TOOLS, handbook=desk.handbook.folder is not None, think=settings.think_tool == "on"),
        LoopLimits(active_s=settings.run_seconds, tokens=settings.run_tokens, reply_s=tuning.reply_s),
        now=tuning.now,
        styles=styles,
        passing=(CountersignError, RedisError),
        prices=prices,
        more=servers,
        most=settings.tools_most,
    )


@asynccontextmanager
async def _followed(settings: Settings, outside: Outside, stores: Stores) -> AsyncIterator[Callable[[Run], object]]:
    """Who is told of every run that ends: by setting, a sender of spans. What it needs is installed by the extra `ops`,
    and imported only then."""
    if settings.traces == "off":
        yield lambda run: None
        return
    async with sender_of(settings, stores.approvals, model=outside.model_name, url=outside.model_url) as sender:
        yield sender.ended


async def _house(settings: Settings, engine: Engine) -> str:
    """As of the start: who approves what may change with a deployed process. The engine always knows."""
    forms = [process.form for process in await engine.processes()]
    return prompt.house(persona_of(settings), policies(forms, policy_of(settings, forms)))
