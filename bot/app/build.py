"""The composition root: settings → outside services → stores → tools → loop → channel. Only `bot.app` constructs: this
file, `bot.app.build_approvals` and `bot.app.build_conversation`. `bot.app.resources` opens and closes what needs
opening.

Read `build_app` to see what the bot consists of, and `bot.app.lifecycle` to see how it runs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import cast
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.exceptions import RedisError
from slack_bolt.async_app import AsyncApp

from bot.agent import prompt
from bot.agent.approval_rules import describe_policies
from bot.agent.fallback import FallbackModel
from bot.agent.limits import RunLimits
from bot.agent.loop import AgentLoop
from bot.agent.model import MeteredModel, Model
from bot.agent.probe import choose_formats
from bot.agent.reply_format import ReplyFormat
from bot.app.build_approvals import Approvals, build_approvals, build_suggestion_handler
from bot.app.build_conversation import (
    build_approver_answer_handler,
    build_compactor,
    build_diagram_poster,
    build_feedback_handler,
    build_file_intake,
    build_notice_poster,
    build_retry_handler,
    build_session_stop_handler,
    build_turn_handler,
)
from bot.app.company_files import load_calendar, load_persona, load_policy, open_handbook
from bot.app.dispatch import WorkDispatcher
from bot.app.engine import open_engine_from_settings
from bot.app.foundation import Foundation
from bot.app.health import HealthState
from bot.app.ingress import CardActions, LaneIngress
from bot.app.measured_mailer import MeasuredMailer
from bot.app.resources import Resources, Timing, open_resources
from bot.app.services import Services
from bot.app.settings import Settings
from bot.app.work_kinds import WorkHandlers
from bot.approvals.delivery import CardDelivery
from bot.approvals.file_copies import FileCleaner, FileCopier
from bot.approvals.morning_lists import MorningLists
from bot.approvals.outbox import OutboxRelay, TimerJob
from bot.chat.ingress_gate import IngressGate
from bot.chat.messages import Place
from bot.chat.slack import app as slack
from bot.chat.slack.home_listeners import SlackHome
from bot.chat.slack.listeners import SlackListeners
from bot.chat.slack.missed_messages import MissedMessages
from bot.conversation.alerts import AdministratorAlerts, JournalAlerts
from bot.conversation.home import HomeBuilder
from bot.conversation.home_actions import HomeActions
from bot.conversation.home_refresh import HomeRefresher
from bot.conversation.memory import ConversationMemory
from bot.conversation.operations import OperationsReader
from bot.conversation.request_forms import RequestForms
from bot.conversation.turn import TurnHandler
from bot.conversation.welcome import Welcomer
from bot.core.errors import CountersignError
from bot.core.held_lease import assert_may_send
from bot.core.i18n import render_value
from bot.core.version import VERSION
from bot.queue.overflow import LaneOverflows
from bot.queue.rate_limits import RateLimiter
from bot.queue.store_watch import StoreWatch, build_watch_job, pause_job
from bot.queue.worker import Worker
from bot.storage.cache import TextCache
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.journal import Journal, note_version
from bot.storage.last_seen import LastSeenStore
from bot.storage.members import RedisMemberStore
from bot.storage.morning_preferences import MorningPreferenceStore
from bot.storage.retention import build_trim_job
from bot.storage.spending import SYSTEM
from bot.storage.welcomes import WelcomeStore
from tools.catalog import TOOLS, select_offered_tools
from tools.local_host import is_local_host
from tools.mail.smtp import SmtpMailer
from tools.tool import Tool, ToolServices
from tools.workflow.engine.port import Engine
from tools.workflow.engine.store import compute_number_floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The parts of a running bot."""

    bolt_app: AsyncApp
    worker: Worker
    redis: Redis
    journal: Journal
    ingress: LaneIngress
    watch: StoreWatch
    morning_lists: MorningLists
    ingress_gate: IngressGate
    mcp_tools: Mapping[str, Tool]
    """Tools of MCP servers, by name."""
    file_cleaner: FileCleaner
    health: HealthState
    missed_messages: MissedMessages


@asynccontextmanager
async def build_app(
    settings: Settings, services: Services, *, timing: Timing | None = None, model: Model | None = None
) -> AsyncIterator[Application]:
    """The bot, ready to run. Raises `UnsafeStoreError`, `StoreUnavailableError`, `SettingsError` or `ChatError`; each
    says how to fix it."""
    async with (
        open_resources(settings, services, timing, model) as base,
        open_engine_from_settings(
            settings,
            base.stores.redis,
            base.platform.directory,
            base.platform.files,
            compute_number_floor=_choose_number_floor(base),
        ) as engine,
    ):
        parts = Foundation(
            resources=base,
            tool_services=_build_tool_services(base, engine),
            tools=ChainMap({tool.name: tool for tool in TOOLS}, cast(MutableMapping[str, Tool], base.mcp_tools)),
            memory=ConversationMemory(history=base.stores.history, runs=base.stores.runs, clock=base.timing.clock),
            ingress_gate=IngressGate(),
            overflows=LaneOverflows(base.stores.redis, base.stores.keys),
            file_intake=build_file_intake(base),
        )
        approvals = build_approvals(parts)
        outbox = _build_outbox(parts, approvals)
        loop = _build_agent_loop(parts, await _choose_reply_formats(base))
        turn_handler = build_turn_handler(parts, loop, await _build_company_rules(settings, engine))
        forms, welcomer = _build_request_forms(parts), _build_welcomer(parts)
        handlers = _build_work_handlers(
            parts, approvals, turn_handler=turn_handler, outbox=outbox, forms=forms, welcomer=welcomer
        )
        home_builder = _build_home(parts, approvals.card_delivery)
        cleaner = _build_file_cleaner(parts)
        alerts = _build_alerts(base)
        await _report_pauses(base.stores.watch, alerts)
        await note_version(base.stores.redis, base.stores.journal, VERSION)
        team = base.platform.identity.team
        health = HealthState(
            redis=base.stores.redis,
            keys=base.stores.keys,
            load_directory_age_ms=RedisMemberStore(base.stores.redis, base.stores.keys, team).load_list_age_ms,
            model=base.services.model_name,
            team=team,
            concurrency=settings.concurrency,
            find_trouble=lambda: base.stores.watch.reason.value,
            get_clock_offset_ms=lambda: base.stores.watch.offset_ms,
        )
        worker = _build_worker(
            parts, handlers, _build_home_refresher(parts, home_builder), cleaner, health=health, alerts=alerts
        )
        health.worker = worker
        ingress = _build_ingress(parts, worker, approvals, forms, home_builder, welcomer)
        missed_messages = _build_missed_messages(base, ingress)
        yield Application(
            bolt_app=_build_slack_app(base, ingress, missed_messages.note_activity),
            missed_messages=missed_messages,
            worker=worker,
            redis=base.stores.redis,
            journal=base.stores.journal,
            ingress=ingress,
            watch=base.stores.watch,
            morning_lists=approvals.morning_lists,
            ingress_gate=parts.ingress_gate,
            mcp_tools=base.mcp_tools,
            file_cleaner=cleaner,
            health=health,
        )


def _build_alerts(resources: Resources) -> AdministratorAlerts:
    stores, platform = resources.stores, resources.platform
    return AdministratorAlerts(
        redis=stores.redis,
        keys=stores.keys,
        chat=platform.channel,
        directory=platform.directory,
        journal=stores.journal,
    )


async def _report_pauses(watch: StoreWatch, alerts: AdministratorAlerts) -> None:
    """From now on administrators are told when this process pauses; also if it does already."""
    watch.report = alerts.report_pause
    if watch.is_paused:
        await alerts.report_pause(watch.reason, watch.offset_ms)


def _choose_number_floor(resources: Resources) -> Callable[[], int]:
    """A workspace on this machine begins and ends with its store, so its requests count from one. In any other, cards
    and mails of a store that was lost may still be about."""
    is_local = is_local_host(urlsplit(resources.services.slack_api_url).hostname or "")
    return (lambda: 0) if is_local else lambda: compute_number_floor(resources.timing.clock.today())


def _build_tool_services(resources: Resources, engine: Engine) -> ToolServices:
    settings, stores = resources.settings, resources.stores
    return ToolServices(
        directory=resources.platform.directory,
        engine=engine,
        mailer=MeasuredMailer(
            SmtpMailer(resources.services.smtp_url, settings.mail_from, assert_may_send=assert_may_send)
        ),
        cards=CardActions(lanes=stores.lanes, approvals=stores.approvals, clock=resources.timing.clock),
        render_text=render_value,
        calendar=load_calendar(settings),
        handbook=open_handbook(resources.services.handbook_dir),
    )


def _build_outbox(parts: Foundation, approvals: Approvals) -> OutboxRelay:
    base = parts.resources
    return OutboxRelay(
        tool_services=parts.tool_services,
        directory=base.platform.directory,
        lanes=base.stores.lanes,
        keys=base.stores.keys,
        clock=base.timing.clock,
        morning_lists=approvals.morning_lists,
    )


def _build_agent_loop(parts: Foundation, formats: Sequence[ReplyFormat]) -> AgentLoop:
    base, settings = parts.resources, parts.resources.settings
    has_handbook = parts.tool_services.handbook.folder is not None
    return AgentLoop(
        base.model,
        select_offered_tools(TOOLS, handbook=has_handbook, think=settings.think_tool == "on"),
        limits=RunLimits(
            steps=settings.max_steps,
            calls=max(20, 2 * settings.max_steps),
            active_s=settings.run_seconds,
            tokens=settings.run_tokens,
            reply_s=settings.reply_seconds,
        ),
        clock=base.timing.clock,
        formats=formats,
        reraised=(CountersignError, RedisError),
        prices=base.prices,
        server_tools=base.mcp_tools,
        max_offered_tools=settings.tools_most,
    )


def _build_work_handlers(
    parts: Foundation,
    approvals: Approvals,
    *,
    turn_handler: TurnHandler,
    outbox: OutboxRelay,
    forms: RequestForms,
    welcomer: Welcomer,
) -> WorkHandlers:
    base, stores, platform = parts.resources, parts.resources.stores, parts.resources.platform
    return WorkHandlers(
        turn_handler=turn_handler,
        retry_handler=build_retry_handler(base),
        approver_answers=build_approver_answer_handler(base),
        feedback_handler=build_feedback_handler(base),
        session_stop_handler=build_session_stop_handler(base),
        welcomer=welcomer,
        press_handler=approvals.press_handler,
        card_opener=approvals.card_opener,
        lifecycle=approvals.lifecycle,
        approval_sets=approvals.approval_sets,
        morning_lists=approvals.morning_lists,
        diagram_poster=build_diagram_poster(parts),
        outbox=outbox,
        compactor=build_compactor(base),
        memory=parts.memory,
        notices=build_notice_poster(parts),
        request_forms=forms,
        file_copier=FileCopier(
            poster=platform.channel, files=platform.files, directory=platform.directory, journal=stores.journal
        ),
        suggestion_handler=build_suggestion_handler(parts, approvals) if base.settings.advice == "on" else None,
    )


def _build_file_cleaner(parts: Foundation) -> FileCleaner:
    base = parts.resources
    return FileCleaner(
        files=base.platform.files,
        claims=parts.tool_services.engine,
        clock=base.timing.clock,
        kept_for=timedelta(days=base.settings.files_days),
        is_paused=lambda: base.stores.watch.is_paused,
    )


def _build_worker(
    parts: Foundation,
    handlers: WorkHandlers,
    homes: HomeRefresher,
    cleaner: FileCleaner,
    *,
    health: HealthState,
    alerts: AdministratorAlerts,
) -> Worker:
    base, stores, timing = parts.resources, parts.resources.stores, parts.resources.timing
    dispatcher = WorkDispatcher(
        handlers=handlers,
        journal=stores.journal,
        clock=timing.clock,
        away_ms=int(timing.outage_retry_s * 1000),
    )
    watch = stores.watch
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
            pause_job(handlers.outbox.relay_events, watch),
            timers.run_timers,
            handlers.morning_lists.plan_mornings,
            cleaner.delete_old_files,
            build_trim_job(stores.journal, watch),
            base.platform.directory.keep_up_to_date,
            homes.refresh_changed_homes,
            health.announce_process,
            *base.services.upkeep_jobs,
        ),
        pause_s=timing.relay_pause_s,
        backoff_ms=timing.backoff_ms,
        is_paused=lambda: watch.is_paused,
    )


def _build_request_forms(parts: Foundation) -> RequestForms:
    base = parts.resources
    return RequestForms(
        tool_services=parts.tool_services,
        directory=base.platform.directory,
        keys=base.stores.keys,
        journal=base.stores.journal,
        clock=base.timing.clock,
        file_intake=parts.file_intake,
    )


def _build_home(parts: Foundation, card_delivery: CardDelivery) -> HomeBuilder:
    base, stores = parts.resources, parts.resources.stores
    return HomeBuilder(
        tool_services=parts.tool_services,
        directory=base.platform.directory,
        approvals=stores.approvals,
        card_delivery=card_delivery,
        homes=stores.homes,
        preferences=stores.preferences,
        operations=OperationsReader(
            letters=DeadLetterStore(stores.redis, stores.keys),
            journal=stores.journal,
            usage=stores.usage,
            clock=base.timing.clock,
            model=base.services.model_name,
        ),
        keys=stores.keys,
        clock=base.timing.clock,
        mornings=MorningPreferenceStore(stores.redis, stores.keys),
        morning_at=base.settings.morning_list,
        default_steps=base.settings.steps,
    )


def _build_home_actions(builder: HomeBuilder) -> HomeActions:
    return HomeActions(
        tool_services=builder.tool_services,
        directory=builder.directory,
        approvals=builder.approvals,
        card_delivery=builder.card_delivery,
        homes=builder.homes,
        preferences=builder.preferences,
        operations=builder.operations,
        keys=builder.keys,
        clock=builder.clock,
        mornings=builder.mornings,
        morning_at=builder.morning_at,
    )


def _build_home_refresher(parts: Foundation, builder: HomeBuilder) -> HomeRefresher:
    stores, platform = parts.resources.stores, parts.resources.platform
    pages = SlackHome(platform.client, platform.channel, platform.directory)
    limits = RateLimiter(stores.redis, stores.keys)
    return HomeRefresher(builder=builder, homes=stores.homes, publish=pages.publish_home, limits=limits)


def _build_welcomer(parts: Foundation) -> Welcomer:
    base, stores = parts.resources, parts.resources.stores
    return Welcomer(
        chat=base.platform.channel,
        directory=base.platform.directory,
        tool_services=parts.tool_services,
        history=stores.history,
        welcomes=WelcomeStore(stores.redis, stores.keys),
        journal=stores.journal,
        clock=base.timing.clock,
    )


def _build_ingress(
    parts: Foundation,
    worker: Worker,
    approvals: Approvals,
    forms: RequestForms,
    home_builder: HomeBuilder,
    welcomer: Welcomer,
) -> LaneIngress:
    stores, platform = parts.resources.stores, parts.resources.platform
    return LaneIngress(
        worker=worker,
        lanes=stores.lanes,
        watch=stores.watch,
        dialogs=approvals.dialogs,
        approval_sets=approvals.approval_sets,
        home_builder=home_builder,
        home_actions=_build_home_actions(home_builder),
        request_forms=forms,
        welcomer=welcomer,
        files=platform.files,
        history=stores.history,
        runs=stores.runs,
        delivery=platform.delivery,
        directory=platform.directory,
        overflows=parts.overflows,
        journal=stores.journal,
    )


def _build_missed_messages(resources: Resources, ingress: LaneIngress) -> MissedMessages:
    platform, stores = resources.platform, resources.stores
    listeners = SlackListeners(platform.client, platform.identity, ingress, platform.channel, platform.directory)
    store = LastSeenStore(stores.redis, stores.keys)
    return MissedMessages(platform.client, listeners, store, resources.timing.clock)


def _build_slack_app(
    resources: Resources, ingress: LaneIngress, note_activity: Callable[[Place, str], None]
) -> AsyncApp:
    platform, secret = resources.platform, resources.services.signing_secret
    return slack.build_bolt_app(
        platform.client,
        platform.identity,
        ingress,
        platform.channel,
        platform.directory,
        signing_secret=secret,
        note_changed_person=platform.directory.note_changed_person,
        note_activity=note_activity,
    )


async def _choose_reply_formats(resources: Resources) -> Sequence[ReplyFormat]:
    """The reply formats of the first model; the rehearsal model knows one. The cost of testing the model is counted."""
    outside, stores = resources.services, resources.stores
    metered = MeteredModel(resources.model.first if isinstance(resources.model, FallbackModel) else resources.model)
    wish = "native" if "model" in outside.standins else resources.settings.react_style
    memory = TextCache(stores.redis, stores.keys)
    name = f"two steps {outside.model_url} {outside.model_name}"  # an earlier version tested with one step
    styles = await choose_formats(wish, metered, memory, name)
    await stores.usage.record_usage(SYSTEM, [resources.prices.compute_usage(reply) for reply in metered.replies])
    return styles


async def _build_company_rules(settings: Settings, engine: Engine) -> str:
    """As of the start: a deployed process may change who approves what. The engine always knows."""
    forms = [process.form for process in await engine.list_processes()]
    return prompt.render_company_rules(load_persona(settings), describe_policies(forms, load_policy(settings, forms)))
