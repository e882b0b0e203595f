"""The composition root: settings → outside services → stores → tools → loop → channel. Only this file constructs.

Read `assembled` to see what the bot is made of, `serve` to see how it lives.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

from aiohttp import web
from openai import AsyncOpenAI, DefaultAioHttpClient
from redis.asyncio import Redis
from slack_bolt.async_app import AsyncApp

from bot import logs
from bot.chat.slack import app as slack
from bot.chat.slack.directory import SlackDirectory, read_facts
from bot.chat.slack.outbound import SlackChannel
from bot.commands import Commands
from bot.dispatch import Dispatch, Outbox
from bot.errors import LocalFailed
from bot.events import Message, Post
from bot.gate import Gates
from bot.home import Homes
from bot.intake import LaneIntake, OpenCards
from bot.local.embedded import Embedded
from bot.react.guards import Limits as LoopLimits
from bot.react.loop import Loop
from bot.react.model import Model, OpenAIModel
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
from bot.store.runs import Runs
from bot.texts import say
from bot.turn import Turns
from bot.worker import Job, Worker
from tools.catalog import TOOLS
from tools.mail import SmtpMailer
from tools.spec import Desk
from tools.workflow.engine import EmbeddedEngine
from tools.workflow.process import shipped
from tools.workflow.store import RedisStore

log = logs.get(__name__)

DAY_MS = 24 * 3_600_000
KEEP_S = 2.0
"""How often the embedded server is looked after."""
READY_S = 20.0
"""How long the local stand-ins may take to start."""


@dataclass(frozen=True, slots=True)
class Outside:
    """The outside services in use. `standins` names those that are not the real thing."""

    redis_url: str
    slack_api_url: str
    bot_token: str
    model_url: str
    model_key: str
    model_name: str
    smtp_url: str
    app_token: str = ""
    signing_secret: str = ""
    directory_file: Path | None = None
    page: str = ""
    standins: tuple[str, ...] = ()
    upkeep: tuple[Job, ...] = ()
    """What keeps local services alive while the bot runs."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """Times that tests shorten and nobody else changes."""

    sweep_s: float = 1.0
    grace_s: float = 25.0
    relay_s: float = 0.5
    down_s: float = 5.0
    reply_s: float = 60.0
    max_tries: int = 5
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    """What cards and runs are stamped with, and expire by."""
    today: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    """What *today* and *tomorrow* are counted from."""


@dataclass(frozen=True, slots=True)
class Bot:
    """Everything put together."""

    app: AsyncApp
    worker: Worker
    redis: Redis
    journal: Journal
    intake: LaneIntake


@asynccontextmanager
async def assembled(
    settings: Settings, outside: Outside, *, tuning: Tuning | None = None, model: Model | None = None
) -> AsyncIterator[Bot]:
    """The bot, ready to run. Raises `StoreUnfit`, `StoreDown`, `SettingsWrong` or `ChatFailed` with the way out."""
    tuning = tuning or Tuning()
    async with AsyncExitStack() as stack:
        redis = await connect(outside.redis_url)
        stack.push_async_callback(redis.aclose)
        keys = Keys()
        for finding in await require(redis, keys, "en", allow_non_durable=settings.allow_non_durable):
            log.warning(finding.say("en"))

        client = await stack.enter_async_context(slack.open_client(outside.bot_token, outside.slack_api_url))
        me = await slack.identify(client)
        chat = SlackChannel(client, Limits(redis, keys), team=me.team, bot=me.user, spacing_ms=settings.post_spacing_ms)
        directory = SlackDirectory(client, read_facts(outside.directory_file), team=me.team)

        lanes = Lanes(redis, keys, lease_ms=int(settings.lease_seconds * 1000), max_tries=tuning.max_tries)
        runs, approvals = Runs(redis, keys), Approvals(redis, keys)
        history = History(redis, keys, settings.history_tokens, settings.history_days * DAY_MS)
        journal = Journal(redis, keys)

        engine = EmbeddedEngine(
            RedisStore(redis), shipped(), directory, numbers={"threshold": Decimal(settings.finance_threshold)}
        )
        mailer = SmtpMailer(outside.smtp_url, settings.mail_from)
        desk = Desk(directory, engine, mailer, OpenCards(lanes, approvals))

        gates = Gates(
            chat,
            directory,
            desk,
            {tool.name: tool for tool in TOOLS},
            approvals,
            journal,
            tuning.today,
            tuning.now,
            timedelta(hours=settings.approval_ttl_hours),
        )
        if model is None:
            model = await stack.enter_async_context(_model(outside))
        turns = Turns(
            chat=chat,
            directory=directory,
            desk=desk,
            keys=keys,
            runs=runs,
            history=history,
            journal=journal,
            loop=Loop(model, TOOLS, LoopLimits(active_s=settings.run_seconds, reply_s=tuning.reply_s)),
            commands=Commands(desk, history, settings.shown),
            steps=Steps(chat, settings.steps),
            today=tuning.today,
            now=tuning.now,
            down_ms=int(tuning.down_s * 1000),
        )

        async def full(message: Message) -> None:
            person = await directory.get(message.person)
            text = say("turn.full", person.language if person else "en")
            await chat.post(message.place, Post(text), key=f"{message.id}:full")

        outbox = Outbox(desk, directory, lanes, keys, tuning.today)
        worker = Worker(
            lanes,
            Dispatch(turns, gates, chat, directory, journal),
            concurrency=settings.concurrency,
            sweep_s=tuning.sweep_s,
            grace_s=tuning.grace_s,
            jobs=(outbox.relay, *outside.upkeep),
            pause_s=tuning.relay_s,
        )
        intake = LaneIntake(lanes, gates, Homes(desk, directory), history, runs, full)
        app = slack.build(client, me, intake, chat, directory, signing_secret=outside.signing_secret)
        yield Bot(app, worker, redis, journal, intake)


@asynccontextmanager
async def _model(outside: Outside) -> AsyncIterator[OpenAIModel]:
    """One client per process: making one costs more than a whole step."""
    async with AsyncOpenAI(
        base_url=outside.model_url or None, api_key=outside.model_key, http_client=DefaultAioHttpClient()
    ) as client:
        yield OpenAIModel(client, outside.model_name)


async def serve(settings: Settings) -> None:
    """`countersign run`: until SIGTERM or Ctrl-C, then what runs is finished or handed over."""
    logs.configure(settings.log_level, None if settings.log_format == "auto" else settings.log_format == "json")
    async with outside_of(settings) as outside, assembled(settings, outside) as bot:
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, bot.worker.stop)
        async with connected(bot, settings, outside):
            print(banner(settings, outside), flush=True)
            await bot.worker.run()
        log.info("stopped")


@asynccontextmanager
async def connected(bot: Bot, settings: Settings, outside: Outside) -> AsyncIterator[None]:
    """Slack's events come in as long as the context is open: Socket Mode, or signed HTTP by setting."""
    if settings.slack_mode == "socket":
        async with slack.socket_mode(bot.app, outside.app_token):
            yield
        return
    runner = web.AppRunner(slack.web_app(bot.app, outside.signing_secret))
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.http_host, settings.http_port).start()
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def outside_of(settings: Settings, *, start: bool = True) -> AsyncIterator[Outside]:
    """The real services by setting; each missing one replaced by its local stand-in (not started if not `start`)."""
    async with AsyncExitStack() as stack:
        redis_url, missing, upkeep = settings.redis_url, [] if settings.redis_url else ["redis"], tuple[Job, ...]()
        if not redis_url:
            embedded = Embedded(settings.data_dir / "redis")
            redis_url = await embedded.ensure()
            upkeep = (partial(_keep, embedded),)
            stack.push_async_callback(embedded.close)
        services = [
            name
            for name, real in (
                ("workspace", settings.real_slack),
                ("model", settings.real_model),
                ("mail", settings.real_mail),
            )
            if not real
        ]
        local = await stack.enter_async_context(_standins(settings, services, redis_url)) if services and start else {}
        yield replace(_outside(settings, redis_url, local, (*missing, *services)), upkeep=upkeep)


async def _keep(embedded: Embedded) -> None:
    """The embedded server is started again should it have died; whatever was acknowledged is on disk."""
    await asyncio.sleep(KEEP_S)
    await embedded.ensure()


def _outside(settings: Settings, redis_url: str, local: dict[str, str], standins: tuple[str, ...]) -> Outside:
    def secret(value: object) -> str:
        return value.get_secret_value() if value is not None else ""  # type: ignore[attr-defined]

    workspace, model = "workspace" in standins, "model" in standins
    return Outside(
        redis_url=redis_url,
        slack_api_url=local.get("slack_api_url", "") if workspace else settings.slack_api_url,
        bot_token=local.get("bot_token", "") if workspace else secret(settings.slack_bot_token),
        app_token=local.get("app_token", "") if workspace else secret(settings.slack_app_token),
        signing_secret=secret(settings.slack_signing_secret),
        model_url=local.get("openai_base_url", "") if model else settings.openai_base_url,
        model_key="rehearsal" if model else secret(settings.openai_api_key) or "none",
        model_name="rehearsal" if model else settings.openai_model,
        smtp_url=local.get("smtp_url", "") if "mail" in standins else secret(settings.smtp_url),
        directory_file=settings.directory_file or (_demo("directory.toml") if workspace else None),
        page=local.get("page", ""),
        standins=standins,
    )


def _demo(name: str) -> Path:
    return Path(__file__).parent / "local" / "demo" / name


@asynccontextmanager
async def _standins(settings: Settings, services: list[str], redis_url: str) -> AsyncIterator[dict[str, str]]:
    """A child process that speaks the real protocols; it ends with us, whatever becomes of us."""
    tokens = {"bot_token": f"xoxb-local-{secrets.token_hex(12)}", "app_token": f"xapp-local-{secrets.token_hex(12)}"}
    command = [
        sys.executable, "-m", "bot.local.standins",
        "--data", str(settings.data_dir), "--port", str(settings.local_port),
        *(f"--{name}" for name in services), "--journal", redis_url,
    ]  # fmt: skip
    child = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for us; we end the child after the last word has been said
        env={**os.environ, "STANDIN_BOT_TOKEN": tokens["bot_token"], "STANDIN_APP_TOKEN": tokens["app_token"]},
    )
    try:
        yield {**await _ready(child), **tokens}
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


async def _ready(child: asyncio.subprocess.Process) -> dict[str, str]:
    """The addresses that the child announces. Raises `LocalFailed`."""
    if child.stdout is None:
        raise LocalFailed("the local stand-ins have no output")
    try:
        line = await asyncio.wait_for(child.stdout.readline(), READY_S)
    except TimeoutError as error:
        raise LocalFailed(f"the local stand-ins did not start within {READY_S:.0f} s") from error
    if not line:
        raise LocalFailed("the local stand-ins could not start (see above)")
    return dict(json.loads(line))


def banner(settings: Settings, outside: Outside) -> str:
    """What runs, which of it is a stand-in, and where to look."""
    rows = [
        ("workspace", outside.slack_api_url if "workspace" not in outside.standins else "local stand-in for Slack"),
        ("model", f"{outside.model_name} at {outside.model_url or 'api.openai.com'}"
         if "model" not in outside.standins else "rehearsal: rules, not a model"),
        ("redis", "embedded, for this machine" if "redis" in outside.standins else "by REDIS_URL"),
        ("mail", "local mailbox, nothing leaves this machine" if "mail" in outside.standins else "by SMTP_URL"),
    ]  # fmt: skip
    lines = ["", "Countersign is running.", *(f"  {name:<10} {what}" for name, what in rows)]
    if outside.page:
        lines += ["", f"  Open {outside.page}", "  Follow it: countersign tail -f      Stop it: Ctrl-C"]
    return "\n".join([*lines, ""])
