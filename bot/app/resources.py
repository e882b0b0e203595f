"""Opens what must be open before anything works, and closes it at the end: Redis, the platform, the model, tool
servers, the trace exporter. `bot.app.build` builds on it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from redis.asyncio import Redis
from slack_sdk.web.async_client import AsyncWebClient

from bot.agent.fallback import FallbackModel
from bot.agent.model import MeasuredModel, Model
from bot.agent.prices import PriceTable
from bot.app.company_files import load_prices
from bot.app.file_store import open_file_bytes
from bot.app.mcp_file import load_mcp_servers
from bot.app.services import Services
from bot.app.settings import Settings
from bot.app.tracing import open_sender_from_settings
from bot.chat.directory_file import DirectoryFile
from bot.chat.slack.channel import SlackChannel
from bot.chat.slack.channel_readers import SlackReaderClassifier
from bot.chat.slack.directory import FRESH_S, SlackDirectory
from bot.chat.slack.files import SlackFileSource
from bot.chat.slack.web_client import BotIdentity, identify_bot, open_web_client
from bot.conversation.reply import MessageDelivery
from bot.core import logs
from bot.core.clock import Clock
from bot.core.records import Run
from bot.core.redaction import remember_secrets
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.queue.rate_limits import RateLimiter
from bot.queue.scripts import ScriptRunner
from bot.queue.store_watch import StoreWatch
from bot.redis.check import require_fit_redis
from bot.redis.connect import connect_redis
from bot.storage.approvals import ApprovalStore
from bot.storage.cache import TextCache
from bot.storage.file_bytes import FileBytes
from bot.storage.files import FileStore
from bot.storage.history import HistoryStore
from bot.storage.homes import HomeStore
from bot.storage.journal import Journal
from bot.storage.members import RedisMemberStore
from bot.storage.preferences import PreferenceStore
from bot.storage.runs import RunStore
from bot.storage.spending import UsageStore
from tools.tool import Tool

log = logs.get_logger(__name__)

DAY_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times that only tests change."""

    poll_s: float = 1.0
    grace_s: float = 25.0
    relay_pause_s: float = 0.5
    timer_pause_s: float = 1.0
    alert_pause_s: float = 10.0
    watch_pause_s: float = 2.0
    """Between two looks at the store and its clock."""
    outage_retry_s: float = 5.0
    person_max_age_s: float = FRESH_S
    """The maximum age of a person's data when they press."""
    file_patience_s: float = 60.0
    """How long a message waits for a file that the platform does not deliver."""
    morning_pause_s: float = 20.0
    """How often it is looked whether morning lists are due."""
    summary_pause_s: float = 60.0
    """Between the first two tries to sum up a conversation."""
    max_tries: int = 5
    max_lane_items: int = 500
    backoff_ms: int = 500
    clock: Clock = field(default_factory=Clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The stores in Redis."""

    redis: Redis
    keys: Keys
    lanes: Lanes
    runs: RunStore
    approvals: ApprovalStore
    history: HistoryStore
    journal: Journal
    usage: UsageStore
    homes: HomeStore
    preferences: PreferenceStore
    file_bytes: FileBytes
    watch: StoreWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPlatform:
    """The platform: the bot's identity on it, its people, and its channel."""

    client: AsyncWebClient
    identity: BotIdentity
    channel: SlackChannel
    directory: SlackDirectory
    delivery: MessageDelivery
    """Posts text where it may be shown."""
    file_source: SlackFileSource
    files: FileStore
    """What people have sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The base of everything else: settings and times, and what stays open as long as the bot runs."""

    settings: Settings
    services: Services
    timing: Timing
    stores: Stores
    platform: SlackPlatform
    model: Model
    prices: PriceTable
    mcp_tools: Mapping[str, Tool]
    """Tools of MCP servers by name, as they come and go."""
    on_run_ended: Callable[[Run], object]
    """Gets every run that ends (`bot.tracing`)."""


@asynccontextmanager
async def open_resources(
    settings: Settings, services: Services, timing: Timing | None = None, model: Model | None = None
) -> AsyncIterator[Resources]:
    """Opens all of it. Raises `UnsafeStoreError`, `StoreUnavailableError`, `SettingsError` or `ChatError`; each says
    how to fix it."""
    timing = timing or Timing()
    remember_secrets(settings.secrets, personal=settings.redact_personal == "on")
    async with AsyncExitStack() as stack:
        file_bytes = await stack.enter_async_context(open_file_bytes(settings))
        stores = await stack.enter_async_context(_open_stores(settings, services, timing, file_bytes))
        timing = replace(timing, clock=stores.watch.adjust_clock(timing.clock))
        platform = await stack.enter_async_context(_open_slack(settings, services, stores, timing))
        model = await stack.enter_async_context(_open_models(settings, services, stores)) if model is None else model
        servers = await stack.enter_async_context(_open_mcp_tools(settings))
        on_run_ended = await stack.enter_async_context(_open_run_listener(settings, services, stores))
        yield Resources(
            settings=settings,
            services=services,
            timing=timing,
            stores=stores,
            platform=platform,
            model=model,
            prices=load_prices(settings),
            mcp_tools=servers,
            on_run_ended=on_run_ended,
        )


@asynccontextmanager
async def _open_stores(
    settings: Settings, services: Services, timing: Timing, file_bytes: FileBytes
) -> AsyncIterator[Stores]:
    """The stores, after a check that this Redis keeps its data."""
    redis, keys = await connect_redis(services.redis_url), Keys()
    try:
        for finding in await require_fit_redis(redis, keys, "en", allow_non_durable=settings.allow_non_durable):
            log.warning(finding.format_sentence("en"))
        preferences = PreferenceStore(redis, keys)
        await preferences.reload_if_changed()
        yield Stores(
            redis=redis,
            keys=keys,
            lanes=Lanes(
                redis,
                keys,
                lease_ms=int(settings.lease_seconds * 1000),
                max_tries=timing.max_tries,
                cap=timing.max_lane_items,
            ),
            runs=RunStore(redis, keys, kept_ms=settings.runs_days * DAY_MS),
            approvals=ApprovalStore(redis, keys, kept_ms=settings.cards_days * DAY_MS),
            history=HistoryStore(
                redis, keys, max_tokens=settings.history_tokens, kept_ms=settings.history_days * DAY_MS
            ),
            journal=Journal(redis, keys, kept_ms=settings.journal_days * DAY_MS),
            usage=UsageStore(redis, keys, clock=timing.clock, zone=ZoneInfo(settings.company_timezone)),
            homes=HomeStore(redis, keys),
            preferences=preferences,
            file_bytes=file_bytes,
            watch=await _start_watch(settings, services, redis, keys),
        )
    finally:
        await redis.aclose()


async def _start_watch(settings: Settings, services: Services, redis: Redis, keys: Keys) -> StoreWatch:
    """Looks at the store before anything is done with it. What was seen of it is kept in a file, one for each address;
    where data may be lost by setting, nothing is."""
    address = hashlib.sha256(services.redis_url.encode()).hexdigest()[:12]
    watch = StoreWatch(
        scripts=ScriptRunner.from_redis(redis, keys),
        keys=keys,
        memory=None if settings.allow_non_durable else settings.data_dir.absolute() / f"store-{address}.json",
        may_lose_data=settings.allow_non_durable,
    )
    await watch.watch_store()
    return watch


@asynccontextmanager
async def _open_slack(
    settings: Settings, services: Services, stores: Stores, timing: Timing
) -> AsyncIterator[SlackPlatform]:
    async with open_web_client(services.bot_token, services.slack_api_url) as client:
        me = await identify_bot(client)
        limits = RateLimiter(stores.redis, stores.keys)
        chat = SlackChannel(client, limits, team=me.team, bot=me.user, spacing_ms=settings.post_spacing_ms)
        facts = DirectoryFile(services.directory_file)
        people = RedisMemberStore(stores.redis, stores.keys, me.team)
        directory = SlackDirectory(
            client,
            facts,
            team=me.team,
            store=people,
            languages=stores.preferences,
            fresh_s=timing.person_max_age_s,
        )
        try:
            yield SlackPlatform(
                client=client,
                identity=me,
                channel=chat,
                directory=directory,
                delivery=MessageDelivery(
                    chat=chat, reader_classifier=SlackReaderClassifier(client, directory), directory=directory
                ),
                file_source=SlackFileSource(client),
                files=FileStore(stores.redis, stores.keys, me.team, stores.file_bytes),
            )
        finally:
            await chat.stop_statuses()


@asynccontextmanager
async def _open_models(settings: Settings, services: Services, stores: Stores) -> AsyncIterator[Model]:
    """The model, with a fallback model if the settings name one."""
    # Only now: the SDK takes as long to import as all the rest, and not every start needs a model.
    from bot.agent.models.openai_model import open_model

    endpoints = [services.first_model, *([services.fallback_model] if services.fallback_name else [])]
    retries, memory = settings.openai_retries, TextCache(stores.redis, stores.keys)
    async with AsyncExitStack() as stack:
        opening = [
            open_model(one.url, one.key, one.name, retries=retries, api=one.api, effort=one.effort, memory=memory)
            for one in endpoints
        ]
        first, *second = [
            MeasuredModel(await stack.enter_async_context(one), endpoint.name)
            for one, endpoint in zip(opening, endpoints, strict=True)
        ]
        yield FallbackModel(first=first, second=second[0]) if second else first


@asynccontextmanager
async def _open_mcp_tools(settings: Settings) -> AsyncIterator[Mapping[str, Tool]]:
    """Tools of MCP servers by name, as they come and go."""
    if not (servers := load_mcp_servers(settings)):
        yield {}
        return
    from tools.mcp.fleet import open_toolset  # the SDK is slow to import

    async with open_toolset(servers, _log_server_event) as fleet:
        yield fleet


def _log_server_event(event: str, **about: object) -> None:
    """Logs the events of a server."""
    (log.info if event in ("server.tools", "server.said") else log.warning)(event, **about)


@asynccontextmanager
async def _open_run_listener(
    settings: Settings, services: Services, stores: Stores
) -> AsyncIterator[Callable[[Run], object]]:
    """The listener for runs that end: by setting, a sender of spans. The extra `ops` installs what it needs, imported
    only here."""
    if settings.traces == "off":
        yield lambda run: None
        return
    opening = open_sender_from_settings(settings, stores.approvals, model=services.model_name, url=services.model_url)
    async with opening as sender:
        yield sender.enqueue_run
