"""Opens all resources before any work, and closes them at the end: Redis, the platform, the model, the engine, tool
servers, the trace exporter. `bot.app.build` builds on them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from redis.asyncio import Redis

from bot.agent import prompt
from bot.agent.limits import PriceTable
from bot.agent.loop import ModelInUse
from bot.agent.model import MeteredModel, Model
from bot.agent.models.fallback import FallbackModel
from bot.agent.models.probe import LeakRecorder, choose_formats
from bot.app.company_files import build_daily_budget, load_persona, load_policy, load_prices
from bot.app.engine import build_engine_address, open_engine_from_settings
from bot.app.mcp_file import load_mcp_servers
from bot.app.services import Services
from bot.app.settings import Settings
from bot.app.tracing import open_sender_from_settings
from bot.chat.platform import Platform
from bot.core import logs, metrics
from bot.core.clock import Clock
from bot.core.held_lease import assert_may_send
from bot.core.records import Run
from bot.core.redaction import remember_secrets
from bot.core.timing import Timing
from bot.core.work_items import SHOW_SUFFIX
from bot.queue.keys import Keys
from bot.queue.lanes import Lanes
from bot.queue.scripts import Confirmation, ConfirmedBy
from bot.queue.store_watch import StoreWatch
from bot.redis.check import require_fit_redis
from bot.redis.connect import connect_redis
from bot.storage.approvals import RECORD_KIND, ApprovalStore
from bot.storage.cache import TextCache
from bot.storage.history import HistoryStore
from bot.storage.journal import Journal
from bot.storage.preferences import PreferenceStore
from bot.storage.runs import RunStore
from bot.storage.spending import SYSTEM, UsageStore
from bot.storage.stores import Stores
from tools.local_host import is_local_host
from tools.mail.smtp import SmtpMailer
from tools.outside import Outside
from tools.ports import Mailer
from tools.spec import EffectUnknownError, ToolError
from tools.tool import Tool
from tools.workflow.engine.port import Engine
from tools.workflow.engine.store import compute_number_floor
from tools.workflow.process.forms import describe_policies
from tools.workflow.remote.open_engine import log_engine_state

log = logs.get_logger(__name__)

DAY_MS = 24 * 3_600_000
OpenPlatform = Callable[[Settings, Services, Stores, Timing], AbstractAsyncContextManager[Platform]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The base of all other parts: settings and times, and the resources that stay open as long as the bot runs."""

    settings: Settings
    services: Services
    timing: Timing
    stores: Stores
    platform: Platform
    engine: Engine
    outside: Outside
    """The services that the gate hands to effects."""
    model: ModelInUse
    company_rules: str
    """The company's additions to the rules of the model."""
    tools: Sequence[Tool]
    mcp_tools: Mapping[str, Tool]
    """Tools of MCP servers by name, as they come and go."""
    on_run_ended: Callable[[Run], object]
    """Gets every run that ends (`bot.tracing`)."""
    on_close: Callable[[Callable[[], None]], object]
    """Takes functions that are called when all this is closed."""


@asynccontextmanager
async def open_resources(
    settings: Settings,
    services: Services,
    open_platform: OpenPlatform,
    tools: Sequence[Tool],
    timing: Timing | None = None,
    model: Model | None = None,
) -> AsyncIterator[Resources]:
    """Open all resources. Raises `UnsafeStoreError`, `StoreUnavailableError`, `SettingsError` or `ChatError`; each says
    how to fix it."""
    timing = timing or Timing()
    remember_secrets(settings.secrets, personal=settings.redact_personal == "on")
    async with AsyncExitStack() as stack:
        redis, keys = await connect_redis(services.redis_url), Keys()
        stack.push_async_callback(redis.aclose)
        is_disk_asked = ConfirmedBy(settings.redis_confirm) is ConfirmedBy.DISK
        for finding in await require_fit_redis(
            redis, keys, "en", allow_non_durable=settings.allow_non_durable, is_disk_asked=is_disk_asked
        ):
            log.warning(finding.format_sentence("en"))
        stores = build_stores(settings, services, timing, redis, keys)
        await stores.preferences.reload_if_changed()
        await stores.watch.watch_store()  # before any use of it
        platform = await stack.enter_async_context(open_platform(settings, services, stores, timing))
        model = await stack.enter_async_context(_open_models(settings, services, stores)) if model is None else model
        mcp_tools: Mapping[str, Tool] = {}
        if servers := load_mcp_servers(settings):
            from tools.mcp.fleet import open_toolset  # the SDK is slow to import

            usual = ("server.tools", "server.said")
            toolset = open_toolset(
                servers, lambda event, **about: (log.info if event in usual else log.warning)(event, **about)
            )
            mcp_tools = await stack.enter_async_context(toolset)
        sender = None
        if settings.traces != "off":  # the packages come with the extra `ops`
            asked = services.model
            opening = open_sender_from_settings(settings, stores.approvals, model=asked.name, url=asked.url)
            sender = await stack.enter_async_context(opening)
        engine = await stack.enter_async_context(
            open_engine_from_settings(
                settings,
                stores.redis,
                platform.directory,
                stores.files,
                compute_number_floor=_choose_number_floor(services, stores.clock),
            )
        )
        if address := build_engine_address(settings):
            await log_engine_state(address, await engine.list_processes())
        mailer = SmtpMailer(services.smtp_url, settings.mail_from, assert_may_send=assert_may_send)
        prices = load_prices(settings)
        leaks = await _choose_reply_formats(settings, services, stores, model, prices)
        # As of the start. A process deployed later may change who approves what; the engine always knows.
        forms = [process.form for process in await engine.list_processes()]
        tone, policies = load_persona(settings), describe_policies(forms, load_policy(settings, forms))
        yield Resources(
            settings=settings,
            services=services,
            timing=timing,
            stores=stores,
            platform=platform,
            engine=engine,
            outside=Outside(mailer=MeasuredMailer(mailer), assert_may_send=assert_may_send),
            model=ModelInUse(
                model,
                name=services.model.name,
                has_vision=settings.openai_vision == "on" and "model" not in services.standins,
                formats=leaks.formats,
                remember_leaks=leaks.record_leaks,
                prices=prices,
                daily_budget=build_daily_budget(settings),
            ),
            company_rules=prompt.render_company_rules(tone, policies),
            tools=tools,
            mcp_tools=mcp_tools,
            on_run_ended=sender.enqueue_run if sender else lambda run: None,
            on_close=stack.callback,
        )


def build_stores(settings: Settings, services: Services, timing: Timing, redis: Redis, keys: Keys) -> Stores:
    """Build the stores, without any request to Redis yet."""
    confirmation = Confirmation(ConfirmedBy(settings.redis_confirm))
    address = hashlib.sha256(services.redis_url.encode()).hexdigest()[:12]
    lanes = Lanes(
        redis,
        keys,
        lease_ms=int(settings.lease_seconds * 1000),
        max_tries=timing.max_tries,
        record_kind=RECORD_KIND,
        companion_suffix=SHOW_SUFFIX,
        confirmation=confirmation,
        laying_down_s=5 * timing.watch_pause_s,
    )
    watch = StoreWatch(
        scripts=lanes.scripts,
        confirmation=confirmation,
        lay_down_again=lanes.lay_down_again,
        # One file of observations per address.
        memory=None if settings.allow_non_durable else settings.data_dir.absolute() / f"store-{address}.json",
        may_lose_data=settings.allow_non_durable,
    )
    clock = watch.adjust_clock(timing.clock)
    return Stores(
        redis=redis,
        keys=keys,
        lanes=lanes,
        watch=watch,
        clock=clock,
        runs=RunStore(redis, keys, kept_ms=settings.runs_days * DAY_MS),
        approvals=ApprovalStore(redis, keys, kept_ms=settings.cards_days * DAY_MS),
        history=HistoryStore(redis, keys, max_tokens=settings.history_tokens, kept_ms=settings.history_days * DAY_MS),
        journal=Journal(redis, keys, kept_ms=settings.journal_days * DAY_MS),
        spending=UsageStore(redis, keys, clock=clock, zone=ZoneInfo(settings.company_timezone)),
        preferences=PreferenceStore(redis, keys),
    )


def _choose_number_floor(services: Services, clock: Clock) -> Callable[[], int]:
    """Choose the lowest number of a request. A workspace on this machine begins and ends with its store, so its
    requests count from one. Elsewhere, cards and mails of a lost store may still be around."""
    is_local = is_local_host(urlsplit(services.workspace_url).hostname or "")
    return (lambda: 0) if is_local else lambda: compute_number_floor(clock.today())


@asynccontextmanager
async def _open_models(settings: Settings, services: Services, stores: Stores) -> AsyncIterator[Model]:
    """Open the model, with a fallback model if the settings name one."""
    # Imported only now: the SDK takes as long to import as all the rest, and not every start needs a model.
    from bot.agent.models.openai_model import open_model

    endpoints = [one for one in (services.model, services.fallback) if one]
    retries, memory = settings.openai_retries, TextCache(stores.redis, stores.keys)

    async def journal_refused_tools(tools: Sequence[str], why: str) -> None:
        await stores.journal.append_record("model", "model.tools_refused", text=", ".join(tools), said=why)

    async with AsyncExitStack() as stack:
        opening = [
            open_model(
                one.url, one.key, one.name, retries=retries, api=one.api, effort=one.effort, memory=memory,
                report_refused_tools=journal_refused_tools,
            )
            for one in endpoints
        ]  # fmt: skip
        first, *second = [await stack.enter_async_context(one) for one in opening]
        yield FallbackModel(first=first, second=second[0]) if second else first


async def _choose_reply_formats(
    settings: Settings, services: Services, stores: Stores, model: Model, prices: PriceTable
) -> LeakRecorder:
    """Choose the reply formats of the first model; the rehearsal model knows one. The cost of testing the model is
    counted."""
    metered = MeteredModel(model.first if isinstance(model, FallbackModel) else model)
    wish = "native" if "model" in services.standins else settings.react_style
    memory = TextCache(stores.redis, stores.keys)
    name = f"two steps {services.model.url} {services.model.name}"  # an earlier version tested with one step
    formats = await choose_formats(wish, metered, memory, name)
    await stores.spending.record_usage(SYSTEM, [prices.compute_usage(reply) for reply in metered.replies])
    return LeakRecorder(formats, memory, name, services.model.name)


@dataclass(frozen=True, slots=True)
class MeasuredMailer:
    """A mailer (`tools.ports.Mailer`) that counts the mails of another one by their outcome."""

    mailer: Mailer

    async def send_mail(self, *mail: Any, **more: Any) -> None:
        with metrics.time_outcome(metrics.MAILS, outcome="sent") as ended:
            try:
                await self.mailer.send_mail(*mail, **more)
            except ToolError as failed:
                ended.name = failed.code
                raise
            except EffectUnknownError:
                ended.name = "unknown"
                raise
