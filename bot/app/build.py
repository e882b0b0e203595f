"""The composition root: settings → outside services → stores → tools → loop → platform. Only this file and
`bot.app.resources` construct, which opens and closes all resources.

Read `build_core` to see the bot's parts, and `bot.ops.cli.run` to see how it runs."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import cast

from redis.exceptions import RedisError

from bot.agent.limits import RunLimits
from bot.agent.loop import AgentLoop
from bot.agent.model import Model
from bot.app.company_files import load_calendar, open_handbook
from bot.app.dispatch import WorkDispatcher
from bot.app.ingress import CardActions, LaneIngress
from bot.app.resources import OpenPlatform, Resources, open_resources
from bot.app.services import Services
from bot.app.settings import Settings
from bot.approvals.cards import Cards
from bot.approvals.outbox import fire_timers, relay_events
from bot.chat.platform import IsConnected
from bot.conversation.progress import ProgressReporter
from bot.conversation.turn_context import Turns
from bot.core.errors import CountersignError
from bot.core.i18n import render_value
from bot.core.timing import Timing
from bot.core.version import VERSION
from bot.features.collected import Features
from bot.features.contract import Core, Feature
from bot.features.shipped import FEATURES
from bot.queue.store_watch import pause_job, repeat_job
from bot.queue.worker import Job, Worker
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.journal import note_version
from bot.storage.stores import Stores
from tools.catalog import TOOLS, select_offered_tools
from tools.tool import Tool, ToolServices


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The parts of a running bot."""

    resources: Resources
    stores: Stores
    dispatcher: WorkDispatcher
    worker: Worker
    ingress: LaneIngress

    def connect(self) -> AbstractAsyncContextManager[IsConnected]:
        """Receive the platform's events while the context is open."""
        return self.resources.platform.connect(self.ingress)


@asynccontextmanager
async def build_app(
    settings: Settings, services: Services, *, timing: Timing | None = None, model: Model | None = None
) -> AsyncIterator[Application]:
    """Build the bot, ready to run. Raises the errors of `open_resources`."""
    async with open_resources(settings, services, choose_platform(services), TOOLS, timing, model) as base:
        bot = build_core(base)
        await note_version(bot.stores.redis, bot.stores.journal, VERSION)
        yield bot


def choose_platform(services: Services) -> OpenPlatform:
    """Return the function that opens the platform in use. Only that platform's modules are imported."""
    if services.feishu:
        from bot.app.feishu_platform import open_feishu as open_platform
    else:
        from bot.app.slack_platform import open_slack as open_platform
    return open_platform


def build_core(base: Resources, features: Sequence[Callable[[Core], Feature]] = FEATURES) -> Application:
    """Build the bot on open resources, for any platform, store and model. Sends no request to any of them yet."""
    stores, platform, settings = base.stores, base.platform, base.settings
    tool_services = ToolServices(
        directory=platform.directory,
        engine=base.engine,
        cards=CardActions(stores),
        render_text=render_value,
        calendar=load_calendar(settings),
        handbook=open_handbook(base.services.handbook_dir),
    )
    cards = Cards(
        stores=stores,
        platform=platform,
        tool_services=tool_services,
        # Ours, and those of servers as they come and go.
        tools=ChainMap({tool.name: tool for tool in base.tools}, cast(MutableMapping[str, Tool], base.mcp_tools)),
        outside=None,
        open_for=timedelta(hours=settings.approval_ttl_hours),
        features=Features(),
    )
    core = Core(
        stores=stores,
        platform=platform,
        cards=cards,
        tool_services=tool_services,
        model=base.model,
        settings=settings,
        timing=base.timing,
        on_close=base.on_close,
    )
    added = Features([build(core) for build in features])
    stores.files.keeper = added.files
    cards = replace(cards, outside=base.outside, features=added)
    dispatcher = WorkDispatcher(
        turns=_build_turns(base, tool_services, added),
        cards=cards,
        features=added,
        clock=stores.clock,
        away_ms=int(base.timing.outage_retry_s * 1000),
    )
    worker = Worker(
        stores.lanes,
        dispatcher,
        bury=DeadLetterStore(stores.redis, stores.keys).build_bury_writes,
        concurrency=settings.concurrency,
        jobs=[*_list_jobs(base, cards), *added.jobs],
        timing=base.timing,
        watch=stores.watch,
    )
    ingress = LaneIngress(stores=stores, platform=platform, worker=worker, cards=core.cards, features=added)
    return Application(resources=base, stores=stores, dispatcher=dispatcher, worker=worker, ingress=ingress)


def _build_turns(base: Resources, tool_services: ToolServices, features: Features) -> Turns:
    settings, stores = base.settings, base.stores
    has_handbook = tool_services.handbook.folder is not None
    loop = AgentLoop(
        base.model,
        select_offered_tools(base.tools, handbook=has_handbook, think=settings.think_tool == "on"),
        limits=RunLimits(
            steps=settings.max_steps,
            calls=max(20, 2 * settings.max_steps),
            offered_tools=settings.tools_most,
            active_s=settings.run_seconds,
            tokens=settings.run_tokens,
            reply_s=settings.reply_seconds,
        ),
        clock=stores.clock,
        reraised=(CountersignError, RedisError),
        server_tools=base.mcp_tools,
        check_answer=features.check_answer,
    )
    return Turns(
        stores=stores,
        platform=base.platform,
        tool_services=tool_services,
        loop=loop,
        progress=ProgressReporter(
            platform=base.platform,
            clock=stores.clock,
            display=settings.steps,
            get_preferences=stores.preferences.get_preferences,
            is_catching_up=stores.lanes.is_companion_waiting,
        ),
        features=features,
        company_rules=base.company_rules,
        on_run_ended=base.on_run_ended,
        down_ms=int(base.timing.outage_retry_s * 1000),
    )


def _list_jobs(base: Resources, cards: Cards) -> list[Job]:
    """List the jobs of the kernel and of the platform, which run in the background of every process."""
    stores, timing, watch = base.stores, base.timing, base.stores.watch
    return [
        repeat_job(watch.watch_store, timing.watch_pause_s),
        pause_job(partial(relay_events, cards), watch),
        repeat_job(pause_job(partial(fire_timers, cards), watch), timing.timer_pause_s),
        repeat_job(pause_job(stores.journal.delete_old_records, watch), timing.trim_pause_s),
        base.platform.directory.keep_up_to_date,
        *base.platform.jobs,
        *base.services.upkeep_jobs,
    ]
