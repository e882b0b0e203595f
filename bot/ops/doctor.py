"""`countersign doctor`: asks every outside service once and reports each problem with its solution."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Literal

from redis.asyncio import Redis

from bot.agent.model import TextStore
from bot.agent.models.probe import FormatSetting, choose_format_name, find_call_problem
from bot.app.company_files import load_calendar, load_persona, load_policy, load_prices, open_handbook
from bot.app.engine import build_engine_address, open_engine_from_settings
from bot.app.services import ModelEndpoint, Services
from bot.app.settings import Settings, find_misspelt_variables
from bot.core.errors import CountersignError, ModelRejectedError, ModelUnavailableError, SettingsError
from bot.core.i18n import translate
from bot.features.files.file_bytes import check_bucket, check_files_folder
from bot.ops.cli.console import explain_error
from bot.ops.cli.name_lookup import open_directory
from bot.ops.health import SHARED_APP
from bot.ops.held_store import list_held_partitions
from bot.ops.processes import ProcessStore
from bot.people.directory_file import read_directory_file
from bot.platforms.slack.app import request_socket_url
from bot.platforms.slack.web_api import call_slack
from bot.platforms.slack.web_client import identify_bot, open_web_client
from bot.queue.keys import Keys
from bot.queue.scripts import ScriptRunner
from bot.redis.check import RedisSeverity, check_redis, list_servers
from bot.redis.cluster import ClusterClient
from bot.redis.connect import connect_redis, load_time_ms
from bot.redis.embedded import find_server_program, read_server_version
from bot.redis.sentinel import MasterClient
from bot.storage.cache import TextCache
from bot.storage.dead_letters import DeadLetterStore
from tools.mail.smtp import SmtpMailer
from tools.mcp.config import McpServer
from tools.spec import ToolError
from tools.workflow.diagram.labels import find_font_file
from tools.workflow.engine.administration import NOBODY
from tools.workflow.engine.assignment import find_unserved
from tools.workflow.process.calendar import read_calendar
from tools.workflow.process.definition import Process, load_shipped_processes
from tools.workflow.remote.open_engine import check_engine

SCOPES = frozenset(
    {
        *("app_mentions:read", "channels:history", "channels:read", "chat:write", "commands", "files:read"),
        *("files:write", "groups:history", "groups:read", "im:history", "im:write", "users:read", "users:read.email"),
    }
)
"""Scopes in the manifest that the bot cannot work without."""
NOTICE_DAYS = 60
"""Number of days before a model's shutdown from which on a warning appears."""
MAX_NAMES = 5
"""Most people named in one finding."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check. `text` says what was found and, if something is wrong, what to do."""

    level: Literal["ok", "warn", "fail"]
    subject: str
    text: str


async def check_services(
    services: Services,
    style: FormatSetting,
    servers: Sequence[McpServer] = (),
    *,
    feishu_mode: Literal["long", "http"] = "long",
    press: str = "",
) -> AsyncIterator[DoctorFinding]:
    """Yield findings as they come: Slack or Feishu, Redis, both models, mail, servers. A stand-in is only named.
    `press` gets a test card on Feishu."""
    looks: tuple[tuple[str, Callable[[], AsyncIterator[DoctorFinding]]], ...] = (
        ("workspace", lambda: _check_workspace(services, feishu_mode, press)),
        ("", lambda: _check_redis_service(services)),
        ("model", lambda: _check_one_model(style, "model", services.model, services.redis_url)),
        ("fallback", lambda: _check_one_model(style, "fallback", services.fallback, services.redis_url)),
        ("mail", lambda: _check_mail_server(services)),
    )
    for name, look in looks:
        if name and name in services.standins:
            yield DoctorFinding("ok", name, "a local stand-in is used; `countersign init` asks for the real service")
            continue
        try:
            async for finding in look():
                yield finding
        except CountersignError as error:
            yield DoctorFinding("fail", name or "redis", explain_error(error))
    async for finding in _check_mcp_servers(servers):
        yield finding
    font = find_font_file()
    if font is None or not font.is_file():
        yield DoctorFinding("warn", "pictures", "their font is missing; install the packages again")
    else:
        yield DoctorFinding("ok", "pictures", f"drawn with {font.name}")


def check_variable_names() -> Iterator[DoctorFinding]:
    """Find names in the environment that resemble settings. Such names in `.env` are refused before any check."""
    for wrong in find_misspelt_variables():
        yield DoctorFinding("warn", "settings", wrong)


def check_company_files(settings: Settings) -> Iterator[DoctorFinding]:
    """Check the company's own files, read as at the start. Only the start checks a policy, because that needs the
    engine's processes."""
    looks: tuple[tuple[str, Path | None, Callable[[], object]], ...] = (
        ("DIRECTORY_FILE", settings.directory_file, lambda: read_directory_file(settings.directory_file)),
        ("CALENDAR_FILE", settings.calendar_file, lambda: load_calendar(settings)),
        ("HANDBOOK_DIR", settings.handbook_dir, lambda: open_handbook(settings.handbook_dir)),
        ("FILES_DIR", settings.files_dir, lambda: check_files_folder(settings)),
        ("PERSONA_FILE", settings.persona_file, lambda: load_persona(settings)),
        ("PRICES_FILE", settings.prices_file, lambda: load_prices(settings)),
    )
    for name, path, look in looks:
        if path is None:
            continue
        try:
            look()
            yield DoctorFinding("ok", name, str(path))
        except SettingsError as wrong:
            yield DoctorFinding("fail", name, str(wrong).removeprefix(f"{name}: "))


def check_calendar(settings: Settings, today: date) -> Iterator[DoctorFinding]:
    """Check the country, and the years whose holidays are known. In China, the next year should be known from December
    on; the State Council announces it in November."""
    try:
        calendar = read_calendar(settings.calendar_country)
    except ValueError as wrong:
        yield DoctorFinding("fail", "CALENDAR_COUNTRY", str(wrong))
        return
    first, last = calendar.known_years[0], calendar.known_years[-1]
    text = f"holidays of China are known from {first} to {last}; later years are estimates"
    if calendar.country != "CN":
        text = f"holidays of {calendar.country} are worked out from {first} to {last}"
    if (today + timedelta(days=31)).year <= last:
        yield DoctorFinding("ok", "calendar", text)
    else:
        yield DoctorFinding("warn", "calendar", f"{text}; upgrade, or enter the days in CALENDAR_FILE")


async def check_file_bucket(settings: Settings) -> AsyncIterator[DoctorFinding]:
    """Check whether the bucket that keeps files, if the settings name one, accepts, returns, lists and deletes."""
    if not settings.files_bucket:
        return
    try:
        warning = await check_bucket(settings)
    except CountersignError as wrong:
        cure = "check FILES_BUCKET, FILES_BUCKET_ENDPOINT, FILES_BUCKET_REGION and the keys"
        text = str(wrong).removeprefix("FILES_BUCKET: ")
        yield DoctorFinding("fail", "FILES_BUCKET", text if isinstance(wrong, SettingsError) else f"{text}; {cure}")
        return
    yield DoctorFinding("ok", "FILES_BUCKET", f"{settings.files_bucket} takes, gives, lists and deletes")
    if warning:
        yield DoctorFinding("warn", "FILES_BUCKET", warning)


async def check_approvers(settings: Settings, services: Services) -> AsyncIterator[DoctorFinding]:
    """Check for each process that everybody has approvers. Services that cannot be reached are reported elsewhere."""
    if "workspace" in services.standins:
        return
    try:
        async with open_directory(services) as (directory, _):
            people = await directory.list_people()
    except CountersignError:
        return
    try:
        processes = await _load_processes_in_use(settings, services)
        rows = load_policy(settings, [process.form for process in processes])
    except SettingsError as wrong:
        yield DoctorFinding("fail", "approvers", str(wrong))
        return
    except CountersignError:
        return
    for process in processes:
        own = [row for row in rows if row.process == process.key]
        unserved = find_unserved(process.form, process.definition, own, people)
        for place, lacking in unserved.items():  # the place is a field, level or role
            names = ", ".join(one.email or one.name for one in lacking[:MAX_NAMES])
            some = names + (", …" if len(lacking) > MAX_NAMES else "")
            problem = f"nobody can decide for {len(lacking)} of {len(people)} people ({some})"
            cure = "enter managers and roles in DIRECTORY_FILE, or name somebody by a row in POLICY_FILE"
            choice = 'for a field of the form, others = "flagged" in a row lets them choose'
            yield DoctorFinding("warn", "approvers", f"{process.key}, {place}: {problem}; {cure}; {choice}")
        if not unserved:
            text = f"{process.key}: somebody can decide for each of {len(people)} people"
            yield DoctorFinding("ok", "approvers", text)


async def _load_processes_in_use(settings: Settings, services: Services) -> Sequence[Process]:
    """Load the processes in use: deployed, or shipped."""
    async with (
        aclosing(await connect_redis(services.redis_url, retries=1)) as redis,
        open_engine_from_settings(settings, redis, NOBODY) as engine,
    ):
        return await engine.list_processes()


async def check_other_engine(settings: Settings, services: Services) -> AsyncIterator[DoctorFinding]:
    """Check the workflow engine, where another one than the embedded one keeps the requests."""
    if (address := build_engine_address(settings)) is None:
        return
    processes: Sequence[Process] = load_shipped_processes()
    with suppress(CountersignError):  # Redis has a finding of its own, and none before the first start
        processes = await _load_processes_in_use(settings, services)
    for level, text in await check_engine(address, processes):
        yield DoctorFinding(level, "engine", text)


async def _check_mcp_servers(servers: Sequence[McpServer]) -> AsyncIterator[DoctorFinding]:
    """Check each server's tools, and who presses a button for which."""
    if not servers:
        return
    from tools.mcp.fleet import open_toolset  # the SDK is slow to import

    async with open_toolset(servers, lambda event, **about: None) as fleet:
        with suppress(TimeoutError):
            await asyncio.wait_for(fleet.wait_until_listed(), max(one.timeout_seconds for one in servers))
        for name, connection in fleet.connections.items():
            for problem in fleet.problems.get(name, ()):
                yield DoctorFinding("warn", name, problem)
            if connection.error or name not in fleet.problems:
                cure = "check its entry in MCP_FILE, and start it by hand"
                yield DoctorFinding("fail", name, f"not reached ({connection.error or 'no answer in time'}); {cure}")
                continue
            tools = ", ".join(f"{one.full_name} ({one.gate})" for one in fleet.list_tools(name))
            yield DoctorFinding("ok", name, f"tools, and who confirms: {tools or 'none'}")
            if rows := fleet.suggest_rows(name):
                said = "the server says that these only read; if you trust it, let them run without a press"
                yield DoctorFinding("ok", name, f"{said}: [servers.{name}.tools] {rows}")


async def _check_workspace(
    services: Services, feishu_mode: Literal["long", "http"], press: str
) -> AsyncIterator[DoctorFinding]:
    if services.feishu:
        from bot.ops.feishu_check import check_feishu, send_test_card  # only where Feishu is used

        async for level, text in check_feishu(services.feishu, feishu_mode):
            yield DoctorFinding(level, "feishu", text)
        if press:
            yield DoctorFinding((sent := await send_test_card(services.feishu, press))[0], "feishu", sent[1])
        return
    if press:
        yield DoctorFinding("warn", "slack", "--press is for Feishu: on Slack, the checks below say all of it")
    async with open_web_client(services.bot_token, services.slack_api_url) as client:
        me = await identify_bot(client)
        yield DoctorFinding("ok", "slack", f"workspace {me.team}, bot {me.user}")
        answer = await call_slack(client.auth_test, {})
        has = set(str(answer["headers"].get("x-oauth-scopes", "")).replace(" ", "").split(","))
        if lacking := sorted(SCOPES - has):
            cure = "add them under OAuth & Permissions and install the app again"
            yield DoctorFinding("fail", "slack", f"scopes missing: {', '.join(lacking)}; {cure}")
        else:
            yield DoctorFinding("ok", "slack", f"scopes: all {len(SCOPES)} granted")
        if services.app_token:
            await request_socket_url(client, services.app_token)
            yield DoctorFinding("ok", "slack", "Socket Mode: the app token opens a connection")


async def _check_redis_service(services: Services) -> AsyncIterator[DoctorFinding]:
    if not services.redis_url:  # only the start makes an embedded server's data: the check only looks for its program
        if binary := find_server_program():
            what = f"embedded ({read_server_version(binary)}); the first start makes its data in DATA_DIR"
            yield DoctorFinding("ok", "redis", what)
        else:
            yield DoctorFinding("fail", "redis", translate("local_store.no_server", "en"))
        return
    async with aclosing(await connect_redis(services.redis_url, retries=1)) as redis:
        masters, what = await list_servers(redis, Keys()), "one server"
        if isinstance(redis, ClusterClient):
            spread = ", ".join(f"{one.name} keeps {len(one.partitions)}" for one in masters)
            what = f"Cluster of {len(masters)} masters; of {Keys().partitions} partitions {spread}"
        elif isinstance(redis, MasterClient):
            host, port = await redis.find_address()
            what = f"Sentinel: the master of {redis.service} is {host}:{port}"
        yield DoctorFinding("ok", "redis", what)
        findings = await check_redis(redis, Keys())
        for finding in findings:
            refused = finding.severity is RedisSeverity.REFUSE
            yield DoctorFinding("fail" if refused else "warn", "redis", finding.format_sentence("en"))
        if not findings:
            yield DoctorFinding("ok", "redis", f"keeps what it is given; {await describe_replicas(redis)}")
        if any(one.foreign for one in await ProcessStore(redis, Keys()).list_processes(await load_time_ms(redis))):
            yield DoctorFinding("fail", "workspace", SHARED_APP)
        for held in (await list_held_partitions(ScriptRunner.from_redis(redis, Keys())))[:1]:
            why = translate(f"restored.{held.reason.value}", "en")
            yield DoctorFinding("fail", "redis", f"work is held: {why}. See `countersign restored`")
        if dead := len(await DeadLetterStore(redis, Keys()).list_dead_letters()):
            yield DoctorFinding(
                "warn", "queue", f"dead letters: {dead}; `countersign dead` lists them and puts them back"
            )


async def describe_replicas(redis: Redis) -> str:
    """Describe the replicas, which decide how much a failover or a broken disk may lose."""
    replies = [await redis.info("replication", **one.target) for one in await list_servers(redis, Keys())]
    fewest = min(str(reply).count("'state': 'online'") for reply in replies)
    if not fewest:
        return "no replica follows it, so what its disk loses is lost"
    return f"replicas of each server: {fewest} at least, and what is acknowledged waits for all (REDIS_CONFIRM)"


async def _check_one_model(
    wish: FormatSetting, label: str, endpoint: ModelEndpoint | None, redis_url: str
) -> AsyncIterator[DoctorFinding]:
    """Check one model; a problem becomes a finding about this model. None: no such model is set."""
    if endpoint is None:
        return
    redis = None
    try:
        with suppress(CountersignError):  # an unreachable store has its own finding
            redis = await connect_redis(redis_url, retries=1) if redis_url else None
        async for finding in _probe_endpoint(wish, label, endpoint, TextCache(redis, Keys()) if redis else None):
            yield finding
    except (ModelUnavailableError, ModelRejectedError) as error:
        of = "OPENAI_" if label == "model" else "OPENAI_FALLBACK_"
        cure = f"check {of}BASE_URL, {of}API_KEY and {of}MODEL"
        yield DoctorFinding("fail", label, f"no answer of {endpoint.name} ({error}); {cure}")
    finally:
        if redis is not None:
            await redis.aclose()


async def _probe_endpoint(
    wish: FormatSetting, label: str, endpoint: ModelEndpoint, memory: TextStore | None
) -> AsyncIterator[DoctorFinding]:
    """Check the model's abilities, its best reply format, the bot's notes about it, and its shutdown date. Raises
    ModelUnavailableError and ModelRejectedError."""
    from bot.agent.models.catalog import find_shutdown_date
    from bot.agent.models.openai_model import open_model  # as slow to import as all the rest

    async with open_model(
        endpoint.url, endpoint.key, endpoint.name, retries=0, api=endpoint.api, effort=endpoint.effort, memory=memory
    ) as model:
        problem = await find_call_problem(model)
        if problem and wish == "native":  # a model that only chats cannot drive the bot by tool calls
            cure = "choose a model that does, or set REACT_STYLE=auto"
            what = f"{endpoint.name} does not call tools when asked to: {problem}; {cure}"
            yield DoctorFinding("fail", label, what)
        else:
            can = "answers" if problem else "answers and calls tools, in two steps"
            style = choose_format_name(wish, problem)
            profile = "; ".join([f"API: {model.profile.api}", *model.profile.summary_lines])
            yield DoctorFinding("ok", label, f"{endpoint.name} {can}; style: {style}; {profile}")
        if tools := ", ".join(sorted(model.profile.refused_tools)):
            cure = "they are left out for a week: mend them, or choose another model"
            yield DoctorFinding("warn", label, f"{endpoint.name} refuses the schemas of these tools: {tools}; {cure}")
        if (day := await find_shutdown_date(model.client, endpoint.name)) is not None:
            days = (day - datetime.now(UTC).date()).days
            when = f"is shut down on {day}, in {days} days" if days >= 0 else f"was shut down on {day}"
            setting = "OPENAI_MODEL" if label == "model" else "OPENAI_FALLBACK_MODEL"
            if days > NOTICE_DAYS:
                yield DoctorFinding("ok", label, f"{endpoint.name} {when}")
            else:
                cure = f"choose its successor as {setting} before then"
                yield DoctorFinding("warn", label, f"{endpoint.name} {when}; {cure}")


async def _check_mail_server(services: Services) -> AsyncIterator[DoctorFinding]:
    try:
        await SmtpMailer(services.smtp_url, "doctor@example.com").probe_server()
        yield DoctorFinding("ok", "mail", "the mail server answers and takes the log-in")
    except (ToolError, ValueError) as error:
        yield DoctorFinding("fail", "mail", f"{error}: check SMTP_URL")
