"""`countersign doctor`: every outside service is asked once, and what is wrong comes with its cure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from redis.asyncio import Redis
from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.facts import FactsFile, read_facts
from bot.chat.slack import app as slack
from bot.chat.slack.calls import call
from bot.chat.slack.directory import SlackDirectory
from bot.company import calendar_of, handbook_of, persona_of, policy_of, prices_of
from bot.errors import ChatFailed, CountersignError, ModelDown, ModelRefused, SettingsWrong, StoreDown
from bot.local.embedded import program, version
from bot.logs import redact
from bot.outside import ModelAt, Outside
from bot.react.endpoints.lessons import Lessons
from bot.react.probe import Wish, ask, calls_tools, chosen
from bot.settings import Settings, find_misspelt_variables
from bot.store.check import Severity, check, servers
from bot.store.cluster import Cluster
from bot.store.connect import connect, reaching
from bot.store.dead import DeadLetters
from bot.store.keys import Keys
from bot.store.sentinel import Master
from bot.texts import say
from tools.ports import Directory
from tools.servers.config import Server
from tools.smtp import SmtpMailer
from tools.spec import Person, ToolError
from tools.workflow.assigning import find_unserved
from tools.workflow.diagram import font_file
from tools.workflow.embedded import EmbeddedEngine
from tools.workflow.process import Process, shipped
from tools.workflow.redis_store import RedisStore

SCOPES = frozenset(
    {
        *("app_mentions:read", "channels:history", "channels:read", "chat:write", "commands", "groups:history"),
        "groups:read",
        *("files:write", "im:history", "im:write", "users:read", "users:read.email"),
    }
)
"""What the manifest asks for and the bot cannot do without."""
NOTICE_DAYS = 60
"""So long before a model is shut down it is time to choose another."""
NAMED = 5
"""So many people are named where something is wrong with more."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `text` says what was found and, if it is wrong, what to do."""

    level: Literal["ok", "warn", "fail"]
    what: str
    text: str


async def examine(outside: Outside, style: Wish, servers: Sequence[Server] = ()) -> AsyncIterator[Finding]:
    """Findings as they come: Slack, Redis, both models, mail, servers. A stand-in is only named."""
    model, second = partial(_model, style), partial(_second, style)
    looks = (("workspace", _slack), ("", _redis), ("model", model), ("fallback", second), ("mail", _mail))
    for name, look in looks:
        if name and name in outside.standins:
            yield Finding("ok", name, "a local stand-in is used; see the README for connecting the real service")
            continue
        try:
            async for finding in look(outside):
                yield finding
        except CountersignError as error:
            yield Finding("fail", name or "redis", explained(error))
    async for finding in _servers(servers):
        yield finding
    yield _pictures()


def check_names() -> Iterator[Finding]:
    """Names in the environment that are nearly those of settings. Those in `.env` are refused before anything else."""
    for wrong in find_misspelt_variables():
        yield Finding("warn", "settings", wrong)


def files(settings: Settings) -> Iterator[Finding]:
    """The company's own files, read as the start reads them. A policy is checked by the start alone: it is about the
    processes that the engine has."""
    looks: tuple[tuple[str, Path | None, Callable[[], object]], ...] = (
        ("DIRECTORY_FILE", settings.directory_file, lambda: read_facts(settings.directory_file)),
        ("CALENDAR_FILE", settings.calendar_file, lambda: calendar_of(settings)),
        ("HANDBOOK_DIR", settings.handbook_dir, lambda: handbook_of(settings.handbook_dir)),
        ("PERSONA_FILE", settings.persona_file, lambda: persona_of(settings)),
        ("PRICES_FILE", settings.prices_file, lambda: prices_of(settings)),
    )
    for name, path, look in looks:
        if path is None:
            continue
        try:
            look()
            yield Finding("ok", name, str(path))
        except SettingsWrong as wrong:
            yield Finding("fail", name, str(wrong).removeprefix(f"{name}: "))


async def check_approvers(settings: Settings, outside: Outside) -> AsyncIterator[Finding]:
    """Whether there is somebody to decide for everybody, in each process. What is not reached is told of elsewhere."""
    if "workspace" in outside.standins:
        return
    team = ""
    try:
        async with slack.open_client(outside.bot_token, outside.slack_api_url) as client:
            with suppress(SettingsWrong):  # a token that Slack refuses is the workspace's finding
                team = (await slack.identify(client)).team
            if not team:
                return
            directory = SlackDirectory(client, FactsFile(outside.directory_file), team=team)
            people, processes = await directory.everyone(), await _processes(outside, directory)
        rows = policy_of(settings, [process.form for process in processes])
    except SettingsWrong as wrong:
        yield Finding("fail", "approvers", str(wrong))
        return
    except CountersignError:
        return
    for process in processes:
        own = [row for row in rows if row.process == process.key]
        yield _unserved(process, find_unserved(process.form, process.definition, own, people), len(people))


async def _processes(outside: Outside, directory: Directory) -> Sequence[Process]:
    """Those in use: deployed, or shipped."""
    redis = await connect(outside.redis_url, retries=1)
    try:
        with reaching():
            return await EmbeddedEngine(RedisStore(redis), shipped(), directory).processes()
    finally:
        await redis.aclose()


def _unserved(process: Process, people: Sequence[Person], everybody: int) -> Finding:
    if not people:
        return Finding("ok", "approvers", f"{process.key}: somebody can decide for each of {everybody} people")
    some = ", ".join(one.email or one.name for one in people[:NAMED]) + (", …" if len(people) > NAMED else "")
    cure = 'enter their managers in DIRECTORY_FILE, or let them choose by a row with others = "flagged" in POLICY_FILE'
    lacking = f"{process.key}: nobody can decide for {len(people)} of {everybody} people ({some})"
    return Finding("warn", "approvers", f"{lacking}; {cure}")


async def _servers(servers: Sequence[Server]) -> AsyncIterator[Finding]:
    """Each server's tools, and who presses a button for which."""
    if not servers:
        return
    from tools.servers.fleet import opened  # the SDK takes its time to import

    async with opened(servers, lambda event, **about: None) as fleet:
        with suppress(TimeoutError):
            await asyncio.wait_for(fleet.reached(), max(one.timeout_seconds for one in servers))
        for name, connection in fleet.connections.items():
            for problem in fleet.problems.get(name, ()):
                yield Finding("warn", name, problem)
            if connection.error or name not in fleet.problems:
                cure = "check its entry in MCP_FILE, and start it by hand"
                yield Finding("fail", name, f"not reached ({connection.error or 'no answer in time'}); {cure}")
                continue
            tools = ", ".join(f"{one.called} ({one.gate})" for one in fleet.tools(name))
            yield Finding("ok", name, f"tools, and who confirms: {tools or 'none'}")


def _pictures() -> Finding:
    font = font_file()
    if font is None or not font.is_file():
        return Finding("warn", "pictures", "their font is missing; install the packages again")
    return Finding("ok", "pictures", f"drawn with {font.name}")


def explained(error: CountersignError) -> str:
    """What is wrong in one line, and what to do about it."""
    match error:
        case StoreDown():
            return say("store.down", "en", error=redact(str(error)))
        case ChatFailed():
            return f"Slack is not reached ({error}); check the network, HTTPS_PROXY and SLACK_API_URL"
        case ModelDown() | ModelRefused():
            return f"no answer of the model ({error}); check OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL"
        case _:
            return str(error)


async def _slack(outside: Outside) -> AsyncIterator[Finding]:
    async with slack.open_client(outside.bot_token, outside.slack_api_url) as client:
        me = await slack.identify(client)
        yield Finding("ok", "slack", f"workspace {me.team}, bot {me.user}")
        yield await _scopes(client)
        if outside.app_token:
            yield await _socket(client, outside.app_token)


async def _socket(client: AsyncWebClient, app_token: str) -> Finding:
    try:
        await call(client.apps_connections_open, {"app_token": app_token})
    except ChatFailed as error:
        cure = "make one with connections:write under Basic Information, and switch Socket Mode on"
        return Finding("fail", "slack", f"Slack refuses SLACK_APP_TOKEN ({error.code}); {cure}")
    return Finding("ok", "slack", "Socket Mode: the app token opens a connection")


async def _scopes(client: AsyncWebClient) -> Finding:
    answer = await client.auth_test()
    has = set(str(answer.headers.get("x-oauth-scopes", "")).replace(" ", "").split(","))
    lacking = sorted(SCOPES - has)
    if lacking:
        cure = "add them under OAuth & Permissions and install the app again"
        return Finding("fail", "slack", f"scopes missing: {', '.join(lacking)}; {cure}")
    return Finding("ok", "slack", f"scopes: all {len(SCOPES)} granted")


async def _redis(outside: Outside) -> AsyncIterator[Finding]:
    if not outside.redis_url:
        yield _no_redis_yet()
        return
    redis = await connect(outside.redis_url, retries=1)
    try:
        yield Finding("ok", "redis", await _kind(redis))
        findings = await check(redis, Keys())
        for finding in findings:
            refused = finding.severity is Severity.REFUSE
            yield Finding("fail" if refused else "warn", "redis", finding.say("en"))
        if not findings:
            yield Finding("ok", "redis", "keeps what it is given")
        if dead := len(await DeadLetters(redis, Keys()).waiting()):
            yield Finding("warn", "queue", f"dead letters: {dead}; `countersign dead` lists them and puts them back")
    finally:
        await redis.aclose()


def _no_redis_yet() -> Finding:
    """Neither a setting nor data of an embedded server: the start makes it. To look is not to make one."""
    binary = program()
    if not binary:
        return Finding("fail", "redis", say("local_store.no_server", "en"))
    return Finding("ok", "redis", f"embedded ({version(binary)}); the first start makes its data in DATA_DIR")


async def _kind(redis: Redis) -> str:
    """A cluster, a master that Sentinels know, or one server."""
    masters = await servers(redis, Keys())
    if isinstance(redis, Cluster):
        spread = ", ".join(f"{one.name} keeps {len(one.partitions)}" for one in masters)
        return f"Cluster of {len(masters)} masters; of {Keys().partitions} partitions {spread}"
    if isinstance(redis, Master):
        with reaching():
            host, port = await redis.address()
        return f"Sentinel: the master of {redis.service} is {host}:{port}"
    return "one server"


async def _model(wish: Wish, outside: Outside) -> AsyncIterator[Finding]:
    """What the model can do, and which style is used for it."""
    async for finding in _able(wish, "model", outside.first):
        yield finding


async def _second(wish: Wish, outside: Outside) -> AsyncIterator[Finding]:
    """The same of the model behind it, whatever becomes of the first."""
    if outside.fallback_name:
        async for finding in _able(wish, "fallback", outside.second):
            yield finding


async def _able(wish: Wish, what: str, at: ModelAt) -> AsyncIterator[Finding]:
    """Asks one model; what is wrong with it is a finding about this one."""
    try:
        async for finding in _asked(wish, what, at):
            yield finding
    except (ModelDown, ModelRefused) as error:
        of = "OPENAI_" if what == "model" else "OPENAI_FALLBACK_"
        cure = f"check {of}BASE_URL, {of}API_KEY and {of}MODEL"
        yield Finding("fail", what, f"no answer of {at.name} ({error}); {cure}")


async def _asked(wish: Wish, what: str, at: ModelAt) -> AsyncIterator[Finding]:
    """What it can do, how it wants to be asked, and for how long there will be such a model. Raises ModelDown and
    ModelRefused."""
    from bot.react.endpoints.model import open_model  # takes as long to import as all the rest

    async with open_model(at.url, at.key, at.name, retries=0, api=at.api, effort=at.effort) as model:
        if wish == "native":
            calls = await calls_tools(model)
            yield _calling(what, at.name, calls, model.lessons)
        else:
            able = await ask(model)
            can = f"tool calls: {_yes(able.tools)}, JSON mode: {_yes(able.json)}; style: {chosen(wish, able)}"
            yield Finding("ok", what, f"{at.name} answers; {can}; {_describe(model.lessons)}")
        if (day := await model.catalog.find_shutdown(at.name)) is not None:
            yield _judge_shutdown(what, at.name, (day - datetime.now(UTC).date()).days, day)


def _calling(what: str, name: str, calls: bool, lessons: Lessons) -> Finding:
    """An endpoint that only chats cannot drive the bot by tool calls."""
    if calls:
        return Finding("ok", what, f"{name} answers and calls tools, in two steps; style: native; {_describe(lessons)}")
    cure = "choose a model that does, or set REACT_STYLE=auto"
    return Finding("fail", what, f"{name} answers but does not call tools; {cure}")


def _describe(lessons: Lessons) -> str:
    """How it is asked."""
    return "; ".join([f"API: {lessons.api}", *lessons.told])


def _judge_shutdown(what: str, name: str, days: int, day: date) -> Finding:
    """When its provider shuts it down."""
    if days > NOTICE_DAYS:
        return Finding("ok", what, f"{name} is shut down on {day}, in {days} days")
    when = f"is shut down on {day}, in {days} days" if days >= 0 else f"was shut down on {day}"
    setting = "OPENAI_MODEL" if what == "model" else "OPENAI_FALLBACK_MODEL"
    return Finding("warn", what, f"{name} {when}; choose its successor as {setting} before then")


def _yes(able: bool) -> str:
    return "yes" if able else "no"


async def _mail(outside: Outside) -> AsyncIterator[Finding]:
    try:
        await SmtpMailer(outside.smtp_url, "doctor@example.com").probe()
        yield Finding("ok", "mail", "the mail server answers and takes the log-in")
    except (ToolError, ValueError) as error:
        yield Finding("fail", "mail", f"{error}: check SMTP_URL")
