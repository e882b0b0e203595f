"""What has to be opened before anything works, and closed at the end: Redis, the platform, the model, servers of tools,
the way out for traces. What is built on it, `bot.main` says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from redis.asyncio import Redis
from slack_sdk.web.async_client import AsyncWebClient

from bot import logs
from bot.chat.facts import FactsFile
from bot.chat.slack import app as slack
from bot.chat.slack.directory import FRESH_S, SlackDirectory
from bot.chat.slack.inbound import Me
from bot.chat.slack.outbound import SlackChannel
from bot.chat.slack.rooms import SlackRooms
from bot.company import prices_of, servers_of
from bot.outside import Outside
from bot.react.fallback import Fallback
from bot.react.model import Model
from bot.react.prices import Prices
from bot.records import Run
from bot.redaction import remember_secrets
from bot.settings import Settings
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
from bot.store.spending import Spending
from bot.telling import Telling
from bot.tracing.setting import sender_of
from tools.tool import Tool

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
    fresh_s: float = FRESH_S
    """How old what is known of a person may be when they press."""
    max_tries: int = 5
    cap: int = 500
    backoff_ms: int = 500
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    """What cards and runs are stamped with, and expire by."""
    today: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    """What *today* and *tomorrow* are counted from, and requests are stamped with: their timers go by it."""


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
    spending: Spending


@dataclass(frozen=True, slots=True)
class Slack:
    """The platform: who we are on it, its people, and how we speak."""

    client: AsyncWebClient
    me: Me
    chat: SlackChannel
    directory: SlackDirectory
    telling: Telling
    """Says things where they may stand."""


@dataclass(frozen=True, slots=True)
class Base:
    """What all the rest stands on: settings and times, and what is open as long as the bot lives."""

    settings: Settings
    outside: Outside
    tuning: Tuning
    stores: Stores
    platform: Slack
    model: Model
    prices: Prices
    servers: Mapping[str, Tool]
    """Tools of MCP servers, by name, as they come and go."""
    ended: Callable[[Run], object]
    """Is told of every run that ends (`bot.tracing`)."""


@asynccontextmanager
async def opened(
    settings: Settings, outside: Outside, tuning: Tuning | None = None, model: Model | None = None
) -> AsyncIterator[Base]:
    """All of it. Raises `StoreUnfit`, `StoreDown`, `SettingsWrong` or `ChatFailed` with the way out."""
    tuning = tuning or Tuning()
    remember_secrets(settings.secrets, personal=settings.redact_personal == "on")
    async with AsyncExitStack() as stack:
        stores = await stack.enter_async_context(_stores(settings, outside, tuning))
        platform = await stack.enter_async_context(_slack(settings, outside, stores, tuning))
        model = await stack.enter_async_context(_model(settings, outside, stores)) if model is None else model
        servers = await stack.enter_async_context(_servers(settings))
        ended = await stack.enter_async_context(_followed(settings, outside, stores))
        yield Base(settings, outside, tuning, stores, platform, model, prices_of(settings), servers, ended)


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
            Spending(redis, keys, tuning.now, ZoneInfo(settings.company_timezone)),
        )
    finally:
        await redis.aclose()


@asynccontextmanager
async def _slack(settings: Settings, outside: Outside, stores: Stores, tuning: Tuning) -> AsyncIterator[Slack]:
    async with slack.open_client(outside.bot_token, outside.slack_api_url) as client:
        me = await slack.identify(client)
        limits = Limits(stores.redis, stores.keys)
        chat = SlackChannel(client, limits, team=me.team, bot=me.user, spacing_ms=settings.post_spacing_ms)
        facts = FactsFile(outside.directory_file)
        directory = SlackDirectory(client, facts, team=me.team, fresh_s=tuning.fresh_s)
        yield Slack(client, me, chat, directory, Telling(chat, SlackRooms(client, directory), directory))


@asynccontextmanager
async def _model(settings: Settings, outside: Outside, stores: Stores) -> AsyncIterator[Model]:
    """The model, with a second one behind it if there is one by setting."""
    # Only now: the SDK takes as long to import as all the rest, and not everybody needs a model.
    from bot.react.endpoints.model import open_model

    asked = [outside.first, *([outside.second] if outside.fallback_name else [])]
    retries, memory = settings.openai_retries, Remembered(stores.redis, stores.keys)
    async with AsyncExitStack() as stack:
        opening = [
            open_model(one.url, one.key, one.name, retries=retries, api=one.api, effort=one.effort, memory=memory)
            for one in asked
        ]
        first, *second = [await stack.enter_async_context(one) for one in opening]
        yield Fallback(first, second[0]) if second else first


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


@asynccontextmanager
async def _followed(settings: Settings, outside: Outside, stores: Stores) -> AsyncIterator[Callable[[Run], object]]:
    """Who is told of every run that ends: by setting, a sender of spans. What it needs is installed by the extra `ops`,
    and imported only then."""
    if settings.traces == "off":
        yield lambda run: None
        return
    opening = sender_of(settings, stores.approvals, model=outside.model_name, url=outside.model_url)
    async with opening as sender:
        yield sender.ended
