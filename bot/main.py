"""The composition root: settings → outside services → stores → tools → loop → channel. Only this file constructs; what
has to be opened first, and closed again, stands in `bot.base`.

Read `assembled` to see what the bot is made of, `bot.serving` to see how it lives.
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

from bot.advising import Advising
from bot.anew import Anew
from bot.base import Base, Tuning, opened
from bot.board import Board
from bot.chat.slack import app as slack
from bot.commands import Commands
from bot.company import budget_of, calendar_of, handbook_of, persona_of, policy_of
from bot.dispatch import Dispatch
from bot.door import Door
from bot.duplicates import Duplicates
from bot.endings import Endings
from bot.ends import Ends
from bot.engine import engine_of
from bot.errors import CountersignError
from bot.folding import Folding
from bot.gate import Gates
from bot.home import Homes
from bot.intake import LaneIntake, OpenCards
from bot.memory import Memory
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
from bot.react.probe import styles_of
from bot.react.style import Style
from bot.react.summary import Summarizer
from bot.settings import Settings
from bot.show import Steps
from bot.store.dead import DeadLetters
from bot.store.journal import Journal
from bot.store.remembered import Remembered
from bot.store.spending import SYSTEM
from bot.texts import literal
from bot.turn import Turns
from bot.worker import Worker
from tools.catalog import TOOLS, offered
from tools.smtp import SmtpMailer
from tools.tool import Desk, Tool
from tools.workflow.engine import Engine


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


@asynccontextmanager
async def assembled(
    settings: Settings, outside: Outside, *, tuning: Tuning | None = None, model: Model | None = None
) -> AsyncIterator[Bot]:
    """The bot, ready to run. Raises `StoreUnfit`, `StoreDown`, `SettingsWrong` or `ChatFailed` with the way out."""
    async with (
        opened(settings, outside, tuning, model) as base,
        engine_of(settings, base.stores.redis, base.platform.directory) as engine,
    ):
        desk, door = _desk(base, engine), Door()
        gates, loop = _gates(base, desk), _loop(base, desk, await _styles(base))
        turns = _turns(base, desk, loop, await _house(settings, engine), door)
        outbox = Outbox(desk, base.platform.directory, base.stores.lanes, base.stores.keys, base.tuning.today)
        worker = _worker(base, _dispatch(base, turns, gates, outbox), outbox)
        intake = _intake(base, worker, gates)
        yield Bot(_app(base, intake), worker, base.stores.redis, base.stores.journal, intake, door, base.servers)


def _desk(base: Base, engine: Engine) -> Desk:
    settings, stores = base.settings, base.stores
    return Desk(
        base.platform.directory,
        engine,
        SmtpMailer(base.outside.smtp_url, settings.mail_from),
        OpenCards(stores.lanes, stores.approvals, base.tuning.now),
        literal,
        calendar_of(settings),
        handbook_of(base.outside.handbook_dir),
    )


def _gates(base: Base, desk: Desk) -> Gates:
    stores, tuning, platform = base.stores, base.tuning, base.platform
    board = Board(platform.chat, platform.directory, lambda task: desk.engine.stand_ins(task, tuning.today()))
    ends = Ends(board, stores.approvals, stores.journal, tuning.now)
    lifetime = timedelta(hours=base.settings.approval_ttl_hours)
    return Gates(
        board,
        ends,
        platform.directory,
        desk,
        ChainMap({tool.name: tool for tool in TOOLS}, cast(MutableMapping[str, Tool], base.servers)),
        stores.approvals,
        stores.journal,
        tuning.today,
        tuning.now,
        Openings(ends, lifetime, advice=base.settings.advice == "on"),
    )


def _loop(base: Base, desk: Desk, styles: Sequence[Style]) -> Loop:
    settings, tuning = base.settings, base.tuning
    return Loop(
        base.model,
        offered(TOOLS, handbook=desk.handbook.folder is not None, think=settings.think_tool == "on"),
        LoopLimits(
            steps=settings.max_steps,
            calls=max(20, 2 * settings.max_steps),
            active_s=settings.run_seconds,
            tokens=settings.run_tokens,
            reply_s=settings.reply_seconds,
        ),
        now=tuning.now,
        styles=styles,
        passing=(CountersignError, RedisError),
        prices=base.prices,
        more=base.servers,
        most=settings.tools_most,
    )


def _turns(base: Base, desk: Desk, loop: Loop, house: str, door: Door) -> Turns:
    settings, tuning, stores, platform = base.settings, base.tuning, base.stores, base.platform
    return Turns(
        telling=platform.telling,
        endings=Endings(platform.telling, platform.directory),
        memory=Memory(stores.history, stores.runs, tuning.today),
        directory=platform.directory,
        desk=desk,
        keys=stores.keys,
        runs=stores.runs,
        history=stores.history,
        journal=stores.journal,
        spending=stores.spending,
        budget=budget_of(settings),
        loop=loop,
        duplicates=Duplicates(stores.approvals, stores.runs),
        commands=Commands(desk, stores.history, settings.shown, stores.runs, tuning.today),
        steps=Steps(platform.telling, settings.steps),
        today=tuning.today,
        now=tuning.now,
        house=house,
        door=door,
        down_ms=int(tuning.down_s * 1000),
        ended=base.ended,
    )


def _dispatch(base: Base, turns: Turns, gates: Gates, outbox: Outbox) -> Dispatch:
    stores, tuning, model = base.stores, base.tuning, base.model
    chat, directory, telling = base.platform.chat, base.platform.directory, base.platform.telling
    advising = Advising(Adviser(model, gates.desk.handbook), gates.ends, directory, stores.spending, base.prices)
    return Dispatch(
        turns,
        Anew(chat, directory, stores.runs, stores.history, stores.journal),
        gates,
        gates.ends,
        Pictures(telling, directory, gates.desk, gates.tools, stores.journal, tuning.today),
        outbox,
        Folding(
            Summarizer(model, directory.everyone),
            stores.runs,
            stores.history,
            directory,
            stores.journal,
            stores.spending,
            base.prices,
            budget_of(base.settings),
        ),
        turns.memory,
        telling,
        directory,
        stores.journal,
        tuning.now,
        int(tuning.down_s * 1000),
        advising if gates.openings.advice else None,
    )


def _worker(base: Base, dispatch: Dispatch, outbox: Outbox) -> Worker:
    tuning = base.tuning
    timers = Timers(outbox.desk, tuning.today, tuning.tick_s)
    return Worker(
        base.stores.lanes,
        dispatch,
        bury=DeadLetters(base.stores.redis, base.stores.lanes.keys).bury,
        concurrency=base.settings.concurrency,
        sweep_s=tuning.sweep_s,
        grace_s=tuning.grace_s,
        jobs=(outbox.relay, timers.tick, *base.outside.upkeep),
        pause_s=tuning.relay_s,
        backoff_ms=tuning.backoff_ms,
    )


def _intake(base: Base, worker: Worker, gates: Gates) -> LaneIntake:
    stores, platform = base.stores, base.platform
    homes = Homes(gates.desk, platform.directory, base.tuning.today)
    return LaneIntake(
        worker, stores.lanes, gates, homes, stores.history, stores.runs, platform.telling, platform.directory
    )


def _app(base: Base, intake: LaneIntake) -> AsyncApp:
    platform, secret = base.platform, base.outside.signing_secret
    return slack.build(platform.client, platform.me, intake, platform.chat, platform.directory, signing_secret=secret)


async def _styles(base: Base) -> Sequence[Style]:
    """How the first model speaks ReAct; the rehearsal knows one way. What it costs to ask is counted."""
    outside, stores = base.outside, base.stores
    asked = Metered(base.model.first if isinstance(base.model, Fallback) else base.model)
    wish = "native" if "model" in outside.standins else base.settings.react_style
    memory = Remembered(stores.redis, stores.keys)
    name = f"two steps {outside.model_url} {outside.model_name}"  # an earlier version asked for one
    styles = await styles_of(wish, asked, memory, name)
    await stores.spending.add(SYSTEM, [base.prices.spent(reply) for reply in asked.replies])
    return styles


async def _house(settings: Settings, engine: Engine) -> str:
    """As of the start: who approves what may change with a deployed process. The engine always knows."""
    forms = [process.form for process in await engine.processes()]
    return prompt.house(persona_of(settings), policies(forms, policy_of(settings, forms)))
