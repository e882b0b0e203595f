"""What the commands share: a store to look into, and a terminal to print on."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import select
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from redis.asyncio import Redis
from rich.console import Console

from bot.app.company_files import load_mcp_servers
from bot.app.services import open_existing_redis
from bot.app.settings import load_settings
from bot.core.errors import CountersignError, SettingsError, StoreUnavailableError
from bot.core.i18n import detect_terminal_language, translate
from bot.core.logs import redact_text
from bot.queue.keys import Keys
from bot.redis.connect import connect_redis, translate_redis_errors
from bot.storage.journal import Journal, parse_age_ms
from tools.characters import escape_invisible
from tools.workflow.engine.redis_store import RedisStore

UNREAD = 141
"""What a shell reports of a program that wrote to nobody (SIGPIPE)."""
JOINER = "\u200d"
"""Holds compound emoji together."""
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


def require_age(text: str) -> str:
    """An option like *2h*, as it is. Raises BadParameter."""
    try:
        parse_age_ms(text)
    except ValueError as error:
        raise typer.BadParameter(
            translate("tail.odd_since", get_terminal_language(), since=sanitize_for_terminal(text))
        ) from error
    return text


def run_until_complete(work: Coroutine[Any, Any, None]) -> None:
    """To its end, or until Ctrl-C."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        sys.exit(130)


@asynccontextmanager
async def open_bot_store() -> AsyncIterator[tuple[Redis, Keys]]:
    """What the bot keeps, whether it runs or not; where none has ever run, nothing is made. What is secret in the
    settings and in the file of MCP servers is redacted from now on. Raises NoInstallationError, SettingsError and
    StoreUnavailableError."""
    settings = load_settings()
    try:
        load_mcp_servers(settings)
    except SettingsError as wrong:  # a shell may lack the variables that the file refers to
        typer.echo(
            sanitize_for_terminal(translate("tail.servers_unread", get_terminal_language(), problem=str(wrong))),
            err=True,
        )
    async with open_existing_redis(settings) as url:
        redis = await connect_redis(url, retries=2)
        try:
            with translate_redis_errors():  # the workflow's store lets the client's errors through
                yield redis, Keys()
        except StoreUnavailableError:
            if _discard_unread_output():
                raise typer.Exit(UNREAD) from None
            raise
        finally:
            await redis.aclose()


def _discard_unread_output() -> bool:
    """Nobody reads what is printed any more (`| head`): that is no trouble of the store's. Whatever is left to be
    written then goes nowhere."""
    watched = select.poll()
    watched.register(sys.stdout.fileno(), 0)
    gone = any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(0))
    if gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return gone


@asynccontextmanager
async def open_request_store() -> AsyncIterator[tuple[RedisStore, Journal]]:
    """The embedded engine's store, and the journal. Raises CountersignError if another engine keeps the requests."""
    engine = load_settings().workflow_engine
    if engine != "embedded":
        raise CountersignError(translate("processes.elsewhere", get_terminal_language(), engine=engine))
    async with open_bot_store() as (redis, keys):
        yield RedisStore(redis), Journal(redis, keys)


def print_json(fields: dict[str, Any]) -> None:
    """One object on one line."""
    typer.echo(sanitize_for_terminal(json.dumps(fields, ensure_ascii=False)))


def build_rich_console() -> Console:
    """For tables; nothing in them is markup."""
    return Console(markup=False, highlight=False, emoji=False)


def sanitize_for_terminal(text: str) -> str:
    """What people and models wrote, on one line, without secrets and with nothing in it that drives a terminal; JSON
    stays JSON. E-mail addresses stay: administrators type them, and a record without them is no evidence."""
    text = escape_invisible(redact_text(text, addresses=False))
    return "".join(sign if sign.isprintable() or sign == JOINER else json.dumps(sign)[1:-1] for sign in text)


def format_terminal_time(at_ms: int, form: str = "%m-%d %H:%M:%S") -> str:
    """A moment in this machine's time zone."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime(form)


def get_os_user() -> str:
    """Who does this, as the journal names them: the user of the operating system."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run as a number without a name
        return str(os.getuid())


def get_terminal_language() -> str:
    """The language of the terminal."""
    return detect_terminal_language()
