"""The composition root: settings → outside services → stores → tools → loop → channel. Only `bot.app` constructs: this
file, `bot.app.build_approvals` and `bot.app.build_conversation`. `bot.app.resources` opens and closes what needs
opening.

Read `build_app` to see what the bot consists of, and `bot.app.lifecycle` to see how it runs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import AsyncIterator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError
from slack_bolt.async_app import AsyncApp

from bot.agent import prompt
from bot.agent.approval_rules import describe_policies
from bot.agent.fallback import FallbackModel
from bot.agent.limits import RunLimits
from bot.agent.loop import AgentLoop
from bot.agent.model import MeteredModel, Model
from bot.agent.picture_reader import ReceiptReader
from bot.agent.probe import choose_formats
from bot.agent.reply_format import ReplyFormat
from bot.app.build_approvals import Approvals, build_approvals, build_suggestion_handler
from bot.app.build_conversation import build_compactor, build_session_stop_handler, build_turn_handler
from bot.app.company_files import load_calendar, load_persona, load_policy, open_handbook
from bot.app.dispatch import WorkDispatcher
from bot.app.engine import open_engine_from_settings
from bot.app.foundation import Foundation
from bot.app.ingress import CardActions, LaneIngress
from bot.app.resources import Resources, Timing, open_resources
from bot.app.services import Services
from bot.app.settings import Settings
from bot.app.work_kinds import WorkHandlers
from bot.approvals.delivery import CardDelivery
from bot.approvals.file_copies import FileCleaner, FileCopier
from bot.approvals.morning_lists import MorningLists
from bot.approvals.outbox import OutboxRelay, TimerJob
from bot.chat.ingress_gate import IngressGate
from bot.chat.slack import app as slack
from bot.chat.slack.home_listeners import SlackHome
from bot.conversation.approver_answers import ApproverAnswerHandler
from bot.conversation.diagrams import DiagramPoster
from bot.conversation.feedback import FeedbackHandler
from bot.conversation.file_intake import FileIntake
from bot.conversation.home import HomeBuilder
from bot.conversation.home_actions import HomeActions
from bot.conversation.home_refresh import HomeRefresher
from bot.conversation.memory import ConversationMemory
from bot.conversation.notices import NoticePoster
from bot.conversation.operations import OperationsReader
from bot.conversation.picture_reading import PictureReading
from bot.conversation.request_forms import RequestForms
from bot.conversation.retry import RetryHandler
from bot.conversation.turn import TurnHandler
from bot.conversation.welcome import Welcomer
from bot.core.errors import CountersignError
from bot.core.i18n import render_value
from bot.queue.overflow import LaneOverflows
from bot.queue.rate_limits import RateLimiter
from bot.queue.worker import Worker
from bot.storage.cache import TextCache
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.feedback import FeedbackStore
from bot.storage.journal import Journal
from bot.storage.spending import SYSTEM
from bot.storage.welcomes import WelcomeStore
from tools.catalog import TOOLS, select_offered_tools
from tools.mail.smtp import SmtpMailer
from tools.tool import Tool, ToolServices
from tools.workflow.engine.port import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The parts of a running bot."""

    bolt_app: AsyncApp
    worker: Worker
    redis: Redis
    journal: Journal
    ingress: LaneIngress
    morning_lists: MorningLists
    ingress_gate: IngressGate
    mcp_tools: Mapping[str, Tool]
    """Tools of MCP servers, by name."""
    file_cleaner: FileCleaner


@asynccontextmanager
async def build_app(
    settings: Settings, services: Services, *, timing: Timing | None = None, model: Model | None = None
) -> AsyncIterator[Application]:
    """The bot, ready to run. Raises `UnsafeStoreError`, `StoreUnavailableError`, `SettingsError` or `ChatError`; each
    says how to fix it."""
    async with (
        open_resources(settings, services, timing, model) as base,
        open_engine_from_settings(settings, base.stores.redis, base.platform.directory, base.platform.files) as engine,
    ):
        parts = Foundation(
            resources=base,
            tool_services=_build_tool_services(base, engine),
            tools=ChainMap({tool.name: tool for tool in TOOLS}, cast(MutableMapping[str, Tool], base.mcp_tools)),
            memory=ConversationMemory(history=base.stores.history, runs=base.stores.runs, clock=base.timing.clock),
            ingress_gate=IngressGate(),
            overflows=LaneOverflows(base.stores.redis, base.stores.keys),
            file_intake=_build_file_intake(base),
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
        worker = _build_worker(parts, handlers, _build_home_refresher(parts, home_builder), cleaner)
        ingress = _build_ingress(parts, worker, approvals, forms, home_builder, welcomer)
        yield Application(
            bolt_app=_build_slack_app(base, ingress),
            worker=worker,
            redis=base.stores.redis,
            journal=base.stores.journal,
            ingress=ingress,
            morning_lists=approvals.morning_lists,
            ingress_gate=parts.ingress_gate,
            mcp_tools=base.mcp_tools,
            file_cleaner=cleaner,
        )


def _build_tool_services(resources: Resources, engine: Engine) -> ToolServices:
    settings, stores = resources.settings, resources.stores
    return ToolServices(
        directory=resources.platform.directory,
        engine=engine,
        mailer=SmtpMailer(resources.services.smtp_url, settings.mail_from),
        cards=CardActions(lanes=stores.lanes, approvals=stores.approvals, clock=resources.timing.clock),
        render_text=render_value,
        calendar=load_calendar(settings),
        handbook=open_handbook(resources.services.handbook_dir),
    )


def _build_file_intake(resources: Resources) -> FileIntake:
    """Pictures are shown to the model if the settings say that it sees them; the rehearsal model sees none."""
    settings, platform = resources.settings, resources.platform
    sees = settings.openai_vision == "on" and "model" not in resources.services.standins
    reader = PictureReading(
        reader=ReceiptReader(resources.model), spending=resources.stores.usage, prices=resources.prices
    )
    return FileIntake(
        source=platform.file_source,
        files=platform.files,
        clock=resources.timing.clock,
        max_bytes=int(settings.files_mb * 1_000_000),
        patience_ms=int(resources.timing.file_patience_s * 1000),
        reader=reader if sees else None,
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
        retry_handler=RetryHandler(
            chat=platform.channel,
            directory=platform.directory,
            runs=stores.runs,
            history=stores.history,
            journal=stores.journal,
        ),
        approver_answers=ApproverAnswerHandler(
            chat=platform.channel,
            directory=platform.directory,
            runs=stores.runs,
            history=stores.history,
            journal=stores.journal,
        ),
        feedback_handler=FeedbackHandler(
            chat=platform.channel,
            directory=platform.directory,
            runs=stores.runs,
            feedback=FeedbackStore(stores.redis, stores.keys),
            spending=stores.usage,
            journal=stores.journal,
        ),
        session_stop_handler=build_session_stop_handler(base),
        welcomer=welcomer,
        press_handler=approvals.press_handler,
        card_opener=approvals.card_opener,
        lifecycle=approvals.lifecycle,
        approval_sets=approvals.approval_sets,
        morning_lists=approvals.morning_lists,
        diagram_poster=DiagramPoster(
            chat=platform.channel,
            delivery=platform.delivery,
            directory=platform.directory,
            tool_services=parts.tool_services,
            tools=parts.tools,
            journal=stores.journal,
            clock=base.timing.clock,
        ),
        outbox=outbox,
        compactor=build_compactor(base),
        memory=parts.memory,
        notices=NoticePoster(
            chat=platform.channel,
            delivery=platform.delivery,
            directory=platform.directory,
            memory=parts.memory,
            overflows=parts.overflows,
            journal=stores.journal,
        ),
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
    )


def _build_worker(parts: Foundation, handlers: WorkHandlers, homes: HomeRefresher, cleaner: FileCleaner) -> Worker:
    base, stores, timing = parts.resources, parts.resources.stores, parts.resources.timing
    dispatcher = WorkDispatcher(
        handlers=handlers,
        journal=stores.journal,
        clock=timing.clock,
        away_ms=int(timing.outage_retry_s * 1000),
    )
    timers = TimerJob(tool_services=parts.tool_services, clock=timing.clock, pause_s=timing.timer_pause_s)
    return Worker(
        stores.lanes,
        dispatcher,
        bury=DeadLetterStore(stores.redis, stores.keys).build_bury_writes,
        concurrency=base.settings.concurrency,
        sweep_s=timing.poll_s,
        grace_s=timing.grace_s,
        jobs=(
            handlers.outbox.relay_events,
            timers.run_timers,
            handlers.morning_lists.plan_mornings,
            cleaner.delete_old_files,
            base.platform.directory.keep_up_to_date,
            homes.refresh_changed_homes,
            *base.services.upkeep_jobs,
        ),
        pause_s=timing.relay_pause_s,
        backoff_ms=timing.backoff_ms,
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


def _build_slack_app(resources: Resources, ingress: LaneIngress) -> AsyncApp:
    platform, secret = resources.platform, resources.services.signing_secret
    return slack.build_bolt_app(
        platform.client,
        platform.identity,
        ingress,
        platform.channel,
        platform.directory,
        signing_secret=secret,
        note_changed_person=platform.directory.note_changed_person,
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
