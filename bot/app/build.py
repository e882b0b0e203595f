"""The composition root: settings → outside services → stores → tools → loop → channel. Only this file constructs; what
has to be opened first, and closed again, stands in `bot.app.resources`.

Read `build_app` to see what the bot is made of, `bot.app.lifecycle` to see how it lives.
"""

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
from bot.agent.limits import RunLimits as LoopLimits
from bot.agent.loop import AgentLoop
from bot.agent.model import MeteredModel, Model
from bot.agent.probe import choose_formats
from bot.agent.reply_format import ReplyFormat
from bot.agent.suggester import Suggester
from bot.agent.summary import Summarizer
from bot.app.company_files import build_daily_budget, load_calendar, load_persona, load_policy, open_handbook
from bot.app.dispatch import WorkDispatcher
from bot.app.engine import open_engine_from_settings
from bot.app.ingress import CardCanceller, LaneIngress
from bot.app.resources import Resources, Timing, open_resources
from bot.app.services import Services
from bot.app.settings import Settings
from bot.approvals.card_editor import CardEditor
from bot.approvals.delivery import CardDelivery
from bot.approvals.dialogs import CardDialogs
from bot.approvals.duplicates import DuplicateGuard
from bot.approvals.effect_runner import EffectRunner
from bot.approvals.lifecycle import ApprovalLifecycle
from bot.approvals.openings import CardOpener
from bot.approvals.outbox import OutboxRelay, TimerJob
from bot.approvals.press import PressHandler
from bot.approvals.refusals import PressRefuser
from bot.approvals.suggestions import SuggestionHandler
from bot.chat.ingress_gate import IngressGate
from bot.chat.slack import app as slack
from bot.conversation.card_requests import CardRequester
from bot.conversation.commands import CommandHandler
from bot.conversation.compaction import HistoryCompactor
from bot.conversation.diagrams import DiagramPoster
from bot.conversation.endings import RunReplies
from bot.conversation.home import HomeBuilder
from bot.conversation.memory import ConversationMemory
from bot.conversation.progress import ProgressReporter
from bot.conversation.prompt_head import PromptHeadBuilder
from bot.conversation.retry import RetryHandler
from bot.conversation.run_loader import RunLoader
from bot.conversation.run_recorder import RunRecorder
from bot.conversation.triage import MessageTriage
from bot.conversation.turn import TurnHandler
from bot.core.clock import Clock
from bot.core.errors import CountersignError
from bot.core.i18n import render_value
from bot.queue.worker import Worker
from bot.storage.cache import TextCache
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.journal import Journal
from bot.storage.spending import SYSTEM
from tools.catalog import TOOLS, select_offered_tools
from tools.mail.smtp import SmtpMailer
from tools.tool import Tool, ToolServices
from tools.workflow.engine.port import Engine


@dataclass(frozen=True, slots=True)
class Application:
    """Everything put together."""

    bolt_app: AsyncApp
    worker: Worker
    redis: Redis
    journal: Journal
    ingress: LaneIngress
    ingress_gate: IngressGate
    mcp_tools: Mapping[str, Tool]
    """Tools of MCP servers, by name."""


@asynccontextmanager
async def build_app(
    settings: Settings, outside: Services, *, tuning: Timing | None = None, model: Model | None = None
) -> AsyncIterator[Application]:
    """The bot, ready to run. Raises `UnsafeStoreError`, `StoreUnavailableError`, `SettingsError` or `ChatError` with
    the way out."""
    async with (
        open_resources(settings, outside, tuning, model) as base,
        open_engine_from_settings(settings, base.stores.redis, base.platform.directory) as engine,
    ):
        desk, door = _build_tool_services(base, engine), IngressGate()
        clock = base.timing.clock
        tools = ChainMap({tool.name: tool for tool in TOOLS}, cast(MutableMapping[str, Tool], base.mcp_tools))
        approvals = _build_approvals(base, desk, tools, clock)
        memory = ConversationMemory(base.stores.history, base.stores.runs, clock)
        turn_handler = _build_turn_handler(
            base,
            desk,
            loop=_build_agent_loop(base, desk, await _choose_reply_formats(base)),
            memory=memory,
            company_rules=await _build_company_rules(settings, engine),
            door=door,
            clock=clock,
        )
        outbox = OutboxRelay(desk, base.platform.directory, base.stores.lanes, base.stores.keys, clock)
        dispatcher = _build_dispatcher(
            base,
            desk,
            tools=tools,
            turn_handler=turn_handler,
            memory=memory,
            approvals=approvals,
            outbox=outbox,
        )
        worker = _build_worker(base, dispatcher, outbox)
        intake = _build_ingress(base, worker, desk, approvals.dialogs)
        yield Application(
            _build_slack_app(base, intake), worker, base.stores.redis, base.stores.journal, intake, door, base.mcp_tools
        )


def _build_tool_services(base: Resources, engine: Engine) -> ToolServices:
    settings, stores = base.settings, base.stores
    return ToolServices(
        base.platform.directory,
        engine,
        SmtpMailer(base.services.smtp_url, settings.mail_from),
        CardCanceller(stores.lanes, stores.approvals, base.timing.clock),
        render_value,
        load_calendar(settings),
        open_handbook(base.services.handbook_dir),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvals:
    """What deals with cards."""

    lifecycle: ApprovalLifecycle
    card_opener: CardOpener
    dialogs: CardDialogs
    press_handler: PressHandler


def _build_approvals(base: Resources, desk: ToolServices, tools: Mapping[str, Tool], clock: Clock) -> Approvals:
    stores, platform = base.stores, base.platform
    card_delivery = CardDelivery(
        platform.channel, platform.directory, lambda task: desk.engine.list_task_deputies(task, clock.today())
    )
    lifecycle = ApprovalLifecycle(card_delivery, stores.approvals, stores.journal, clock)
    lifetime = timedelta(hours=base.settings.approval_ttl_hours)
    card_editor = CardEditor(
        card_delivery=card_delivery,
        lifecycle=lifecycle,
        tool_services=desk,
        tools=tools,
        clock=clock,
        open_for=lifetime,
    )
    return Approvals(
        lifecycle=lifecycle,
        card_opener=CardOpener(lifecycle, lifetime, advice=base.settings.advice == "on"),
        dialogs=CardDialogs(
            approvals=stores.approvals,
            card_delivery=card_delivery,
            directory=platform.directory,
            tool_services=desk,
            tools=tools,
            clock=clock,
        ),
        press_handler=PressHandler(
            approvals=stores.approvals,
            card_delivery=card_delivery,
            directory=platform.directory,
            tool_services=desk,
            tools=tools,
            lifecycle=lifecycle,
            refuser=PressRefuser(
                card_delivery=card_delivery,
                lifecycle=lifecycle,
                approvals=stores.approvals,
                journal=stores.journal,
                clock=clock,
            ),
            card_editor=card_editor,
            effect_runner=EffectRunner(
                card_delivery=card_delivery,
                card_editor=card_editor,
                lifecycle=lifecycle,
                directory=platform.directory,
                tool_services=desk,
                tools=tools,
                clock=clock,
            ),
            clock=clock,
        ),
    )


def _build_agent_loop(base: Resources, desk: ToolServices, styles: Sequence[ReplyFormat]) -> AgentLoop:
    settings, tuning = base.settings, base.timing
    return AgentLoop(
        base.model,
        select_offered_tools(TOOLS, handbook=desk.handbook.folder is not None, think=settings.think_tool == "on"),
        LoopLimits(
            steps=settings.max_steps,
            calls=max(20, 2 * settings.max_steps),
            active_s=settings.run_seconds,
            tokens=settings.run_tokens,
            reply_s=settings.reply_seconds,
        ),
        clock=tuning.clock,
        formats=styles,
        reraised=(CountersignError, RedisError),
        prices=base.prices,
        server_tools=base.mcp_tools,
        max_offered_tools=settings.tools_most,
    )


def _build_run_recorder(base: Resources, memory: ConversationMemory, clock: Clock) -> RunRecorder:
    stores = base.stores
    return RunRecorder(
        runs=stores.runs,
        history=stores.history,
        memory=memory,
        journal=stores.journal,
        spending=stores.usage,
        clock=clock,
        on_run_ended=base.on_run_ended,
    )


def _build_turn_handler(
    base: Resources,
    desk: ToolServices,
    *,
    loop: AgentLoop,
    memory: ConversationMemory,
    company_rules: str,
    door: IngressGate,
    clock: Clock,
) -> TurnHandler:
    settings, tuning, stores, platform = base.settings, base.timing, base.stores, base.platform
    budget, run_recorder = build_daily_budget(settings), _build_run_recorder(base, memory, clock)
    replies = RunReplies(platform.delivery, platform.directory)
    commands = CommandHandler(desk, stores.history, settings.list_masked_values, stores.runs, clock)
    return TurnHandler(
        directory=platform.directory,
        tool_services=desk,
        triage=MessageTriage(
            directory=platform.directory, commands=commands, replies=replies, run_recorder=run_recorder
        ),
        run_loader=RunLoader(
            keys=stores.keys,
            runs=stores.runs,
            history=stores.history,
            spending=stores.usage,
            loop=loop,
            tool_services=desk,
            clock=clock,
            budget=budget,
        ),
        prompt_heads=PromptHeadBuilder(
            directory=platform.directory, tool_services=desk, loop=loop, clock=clock, company_rules=company_rules
        ),
        loop=loop,
        duplicates=DuplicateGuard(stores.approvals, stores.runs),
        progress=ProgressReporter(platform.delivery, settings.steps),
        card_requester=CardRequester(
            keys=stores.keys, delivery=platform.delivery, replies=replies, tool_services=desk, clock=clock
        ),
        replies=replies,
        run_recorder=run_recorder,
        clock=clock,
        ingress_gate=door,
        budget=budget,
        down_ms=int(tuning.outage_retry_s * 1000),
    )


def _build_dispatcher(
    base: Resources,
    desk: ToolServices,
    *,
    tools: Mapping[str, Tool],
    turn_handler: TurnHandler,
    memory: ConversationMemory,
    approvals: Approvals,
    outbox: OutboxRelay,
) -> WorkDispatcher:
    stores, tuning, model = base.stores, base.timing, base.model
    chat, directory, telling = base.platform.channel, base.platform.directory, base.platform.delivery
    advising = SuggestionHandler(
        Suggester(model, desk.handbook), approvals.lifecycle, directory, stores.usage, base.prices
    )
    return WorkDispatcher(
        turn_handler=turn_handler,
        retry_handler=RetryHandler(chat, directory, stores.runs, stores.history, stores.journal),
        press_handler=approvals.press_handler,
        card_opener=approvals.card_opener,
        lifecycle=approvals.lifecycle,
        diagram_poster=DiagramPoster(telling, directory, desk, tools, stores.journal, tuning.clock),
        outbox=outbox,
        compactor=HistoryCompactor(
            Summarizer(model, directory.list_people),
            stores.runs,
            stores.history,
            directory,
            stores.journal,
            stores.usage,
            base.prices,
            build_daily_budget(base.settings),
        ),
        memory=memory,
        delivery=telling,
        directory=directory,
        journal=stores.journal,
        clock=tuning.clock,
        away_ms=int(tuning.outage_retry_s * 1000),
        suggestion_handler=advising if base.settings.advice == "on" else None,
    )


def _build_worker(base: Resources, dispatch: WorkDispatcher, outbox: OutboxRelay) -> Worker:
    tuning = base.timing
    timers = TimerJob(outbox.tool_services, tuning.clock, tuning.timer_pause_s)
    return Worker(
        base.stores.lanes,
        dispatch,
        bury=DeadLetterStore(base.stores.redis, base.stores.lanes.keys).build_bury_writes,
        concurrency=base.settings.concurrency,
        sweep_s=tuning.poll_s,
        grace_s=tuning.grace_s,
        jobs=(outbox.relay_events, timers.run_timers, *base.services.upkeep_jobs),
        pause_s=tuning.relay_pause_s,
        backoff_ms=tuning.backoff_ms,
    )


def _build_ingress(base: Resources, worker: Worker, desk: ToolServices, dialogs: CardDialogs) -> LaneIngress:
    stores, platform = base.stores, base.platform
    homes = HomeBuilder(desk, platform.directory, base.timing.clock)
    return LaneIngress(
        worker, stores.lanes, dialogs, homes, stores.history, stores.runs, platform.delivery, platform.directory
    )


def _build_slack_app(base: Resources, intake: LaneIngress) -> AsyncApp:
    platform, secret = base.platform, base.services.signing_secret
    return slack.build_bolt_app(
        platform.client, platform.identity, intake, platform.channel, platform.directory, signing_secret=secret
    )


async def _choose_reply_formats(base: Resources) -> Sequence[ReplyFormat]:
    """How the first model speaks ReAct; the rehearsal knows one way. What it costs to ask is counted."""
    outside, stores = base.services, base.stores
    asked = MeteredModel(base.model.first if isinstance(base.model, FallbackModel) else base.model)
    wish = "native" if "model" in outside.standins else base.settings.react_style
    memory = TextCache(stores.redis, stores.keys)
    name = f"two steps {outside.model_url} {outside.model_name}"  # an earlier version asked for one
    styles = await choose_formats(wish, asked, memory, name)
    await stores.usage.record_usage(SYSTEM, [base.prices.compute_usage(reply) for reply in asked.replies])
    return styles


async def _build_company_rules(settings: Settings, engine: Engine) -> str:
    """As of the start: who approves what may change with a deployed process. The engine always knows."""
    forms = [process.form for process in await engine.list_processes()]
    return prompt.render_company_rules(load_persona(settings), describe_policies(forms, load_policy(settings, forms)))
