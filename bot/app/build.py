"""The composition root: settings → outside services → stores → tools → loop → channel. Only `bot.app` constructs: this
file, `bot.app.build_approvals` and `bot.app.build_conversation`. `bot.app.resources` opens and closes all resources.

Read `build_core` to see the bot's parts, and `bot.app.lifecycle` to see how it runs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from bot.agent.limits import RunLimits
from bot.agent.loop import AgentLoop
from bot.agent.model import Model
from bot.app.build_approvals import build_cards
from bot.app.build_conversation import build_notice_poster, build_stopper, build_turn_handler
from bot.app.company_files import build_daily_budget, load_calendar, open_handbook
from bot.app.dispatch import WorkDispatcher
from bot.app.health import HealthState, IsConnected
from bot.app.ingress import CardActions, LaneIngress
from bot.app.resources import Foundation, OpenPlatform, Resources, Timing, open_resources
from bot.app.services import Services
from bot.app.settings import Settings
from bot.app.work_kinds import WorkHandlers
from bot.approvals.cards import Cards
from bot.approvals.outbox import TimerJob, relay_events
from bot.chat.ingress_gate import IngressGate
from bot.conversation.alerts import AdministratorAlerts, JournalAlerts
from bot.conversation.memory import ConversationMemory
from bot.conversation.reply import MessageDelivery
from bot.core.errors import CountersignError
from bot.core.i18n import render_value
from bot.core.version import VERSION
from bot.features.collected import Features
from bot.features.contract import Core, Feature
from bot.features.shipped import FEATURES
from bot.queue.overflow import LaneOverflows
from bot.queue.store_watch import StoreWatch, build_watch_job, pause_job
from bot.queue.worker import Worker
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.journal import Journal, note_version
from bot.storage.members import RedisMemberStore
from bot.storage.retention import build_trim_job
from tools.catalog import TOOLS, select_offered_tools
from tools.requests.start_tools import StartTools
from tools.tool import Tool, ToolServices


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The parts of a running bot."""

    resources: Resources
    tool_services: ToolServices
    dispatcher: WorkDispatcher
    worker: Worker
    redis: Redis
    journal: Journal
    ingress: LaneIngress
    watch: StoreWatch
    ingress_gate: IngressGate
    health: HealthState
    alerts: AdministratorAlerts

    def connect(self) -> AbstractAsyncContextManager[IsConnected]:
        """Receive the platform's events while the context is open."""
        return self.resources.platform.connect(self.ingress, self.ingress_gate)

    async def announce_start(self) -> None:
        """Tell administrators whenever this process pauses from now on, and at once if it is paused already."""
        self.watch.report = self.alerts.report_pause
        if self.watch.is_paused:
            await self.alerts.report_pause(self.watch.reason, self.watch.offset_ms)
        await note_version(self.redis, self.journal, VERSION)


@asynccontextmanager
async def build_app(
    settings: Settings, services: Services, *, timing: Timing | None = None, model: Model | None = None
) -> AsyncIterator[Application]:
    """Build the bot, ready to run. Raises the errors of `open_resources`."""
    async with open_resources(settings, services, choose_platform(services), TOOLS, timing, model) as base:
        bot = build_core(base)
        await bot.announce_start()
        yield bot


def choose_platform(services: Services) -> OpenPlatform:
    """Return the function that opens the platform in use. Only that platform's modules are imported."""
    if services.feishu:
        from bot.app.feishu_platform import open_feishu

        return open_feishu
    from bot.app.slack_platform import open_slack

    return open_slack


def build_core(base: Resources, features: Sequence[Callable[[Core], Feature]] = FEATURES) -> Application:
    """Build the bot on open resources, for any platform, store and model. Sends no request to any of them yet."""
    stores, platform, clock = base.stores, base.platform, base.timing.clock
    parts = _build_foundation(base)
    core = _build_feature_core(parts, build_cards(parts, Features(), outside=None))
    added = Features([build(core) for build in features])
    base.files.keeper = added.files
    cards = build_cards(parts, added, outside=base.outside)
    dispatcher = WorkDispatcher(
        handlers=_build_work_handlers(parts, cards, added),
        journal=stores.journal,
        clock=clock,
        away_ms=int(base.timing.outage_retry_s * 1000),
    )
    alerts = AdministratorAlerts(
        redis=stores.redis,
        keys=stores.keys,
        chat=platform.channel,
        directory=platform.directory,
        journal=stores.journal,
    )
    health = HealthState(
        redis=stores.redis,
        keys=stores.keys,
        load_directory_age_ms=RedisMemberStore(stores.redis, stores.keys, platform.team).load_list_age_ms,
        model=base.services.model_name,
        team=platform.team,
        concurrency=base.settings.concurrency,
        find_trouble=lambda: stores.watch.reason.value,
        get_clock_offset_ms=lambda: stores.watch.offset_ms,
        gate=parts.ingress_gate,
        report_foreign=lambda connections: alerts.send_alert("shared", n=connections),
    )
    health.worker = worker = _build_worker(parts, dispatcher, added, health, alerts)
    return Application(
        resources=base,
        tool_services=parts.tool_services,
        dispatcher=dispatcher,
        worker=worker,
        redis=stores.redis,
        journal=stores.journal,
        ingress=LaneIngress(
            worker=worker,
            lanes=stores.lanes,
            watch=stores.watch,
            cards=core.cards,
            features=added,
            history=stores.history,
            runs=stores.runs,
            delivery=parts.delivery,
            directory=platform.directory,
            stopper=parts.stopper,
            overflows=parts.overflows,
            journal=stores.journal,
        ),
        watch=stores.watch,
        ingress_gate=parts.ingress_gate,
        health=health,
        alerts=alerts,
    )


def _build_foundation(base: Resources) -> Foundation:
    stores, platform, clock = base.stores, base.platform, base.timing.clock
    start_tools = StartTools()
    tools = ChainMap({tool.name: tool for tool in base.tools}, cast(MutableMapping[str, Tool], base.mcp_tools))
    return Foundation(
        resources=base,
        delivery=MessageDelivery(
            chat=platform.channel, reader_classifier=platform.reader_classifier, directory=platform.directory
        ),
        tool_services=ToolServices(
            directory=platform.directory,
            engine=base.engine,
            cards=CardActions(lanes=stores.lanes, approvals=stores.approvals, clock=clock),
            render_text=render_value,
            calendar=load_calendar(base.settings),
            handbook=open_handbook(base.services.handbook_dir),
        ),
        tools=tools,
        start_tools=start_tools,
        memory=ConversationMemory(
            history=stores.history,
            runs=stores.runs,
            clock=clock,
            find_tool=lambda name: tools.get(name) or start_tools.get(name),
        ),
        ingress_gate=IngressGate(),
        overflows=LaneOverflows(stores.redis, stores.keys),
        stopper=build_stopper(base),
    )


def _build_feature_core(parts: Foundation, cards: Cards) -> Core:
    base, stores = parts.resources, parts.resources.stores
    return Core(
        redis=stores.redis,
        keys=stores.keys,
        team=base.platform.team,
        chat=base.platform.channel,
        directory=base.platform.directory,
        delivery=parts.delivery,
        runs=stores.runs,
        history=stores.history,
        approvals=stores.approvals,
        journal=stores.journal,
        spending=stores.usage,
        cards=cards,
        files=base.files,
        file_source=base.platform.file_source,
        file_patience_ms=int(base.timing.file_patience_s * 1000),
        tool_services=parts.tool_services,
        tools=parts.tools,
        model=base.model,
        prices=base.prices,
        clock=base.timing.clock,
        homes=stores.homes,
        preferences=stores.preferences,
        publish_home=base.platform.publish_home,
        model_name=base.services.model_name,
        has_vision=base.settings.openai_vision == "on" and "model" not in base.services.standins,
        watch=stores.watch,
        budget=build_daily_budget(base.settings),
        summary_pause_ms=round(base.timing.summary_pause_s * 1000),
        morning_pause_s=base.timing.morning_pause_s,
        settings=base.settings,
        on_close=base.on_close,
    )


def _build_work_handlers(parts: Foundation, cards: Cards, features: Features) -> WorkHandlers:
    base, settings = parts.resources, parts.resources.settings
    has_handbook = parts.tool_services.handbook.folder is not None
    loop = AgentLoop(
        base.model,
        select_offered_tools(base.tools, handbook=has_handbook, think=settings.think_tool == "on"),
        limits=RunLimits(
            steps=settings.max_steps,
            calls=max(20, 2 * settings.max_steps),
            active_s=settings.run_seconds,
            tokens=settings.run_tokens,
            reply_s=settings.reply_seconds,
        ),
        clock=base.timing.clock,
        formats=base.formats,
        remember_leaks=base.remember_leaks,
        reraised=(CountersignError, RedisError),
        prices=base.prices,
        server_tools=base.mcp_tools,
        max_offered_tools=settings.tools_most,
        start_tools=parts.start_tools,
        check_answer=features.check_answer,
    )
    return WorkHandlers(
        turn_handler=build_turn_handler(parts, loop, features),
        features=features,
        stopper=parts.stopper,
        cards=cards,
        memory=parts.memory,
        notices=build_notice_poster(parts),
    )


def _build_worker(
    parts: Foundation,
    dispatcher: WorkDispatcher,
    features: Features,
    health: HealthState,
    alerts: AdministratorAlerts,
) -> Worker:
    base, stores, timing = parts.resources, parts.resources.stores, parts.resources.timing
    watch, handlers = stores.watch, dispatcher.handlers
    timers = TimerJob(
        tool_services=parts.tool_services,
        clock=timing.clock,
        pause_s=timing.timer_pause_s,
        is_paused=lambda: watch.is_paused,
    )
    return Worker(
        stores.lanes,
        dispatcher,
        bury=DeadLetterStore(stores.redis, stores.keys).build_bury_writes,
        concurrency=base.settings.concurrency,
        sweep_s=timing.poll_s,
        grace_s=timing.grace_s,
        jobs=(
            build_watch_job(watch, timing.watch_pause_s),
            JournalAlerts(alerts=alerts, clock=timing.clock, pause_s=timing.alert_pause_s).watch_journal,
            pause_job(partial(relay_events, handlers.cards), watch),
            timers.run_timers,
            build_trim_job(stores.journal, watch, timing.trim_pause_s),
            base.platform.directory.keep_up_to_date,
            *base.platform.jobs,
            *features.jobs,
            health.announce_process,
            *base.services.upkeep_jobs,
        ),
        pause_s=timing.relay_pause_s,
        backoff_ms=timing.backoff_ms,
        is_paused=lambda: watch.is_paused,
    )
