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

from bot.company import servers_of
from bot.errors import CountersignError, SettingsWrong, StoreDown
from bot.logs import redact
from bot.outside import open_redis
from bot.settings import read
from bot.store.connect import connect, reaching
from bot.store.journal import Journal, age_ms
from bot.store.keys import Keys
from bot.texts import language_of_terminal, say
from tools.characters import escape_invisible
from tools.workflow.redis_store import RedisStore

UNREAD = 141
"""What a shell reports of a program that wrote to nobody (SIGPIPE)."""
JOINER = "\u200d"
"""Holds compound emoji together."""
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


def age(text: str) -> str:
    """An option like *2h*, as it is. Raises BadParameter."""
    try:
        age_ms(text)
    except ValueError as error:
        raise typer.BadParameter(say("tail.odd_since", language(), since=harmless(text))) from error
    return text


def run(work: Coroutine[Any, Any, None]) -> None:
    """To its end, or until Ctrl-C."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        sys.exit(130)


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Redis, Keys]]:
    """What the bot keeps, whether it runs or not; where none has ever run, nothing is made. What is secret in the
    settings and in the file of MCP servers is redacted from now on. Raises NoBot, SettingsWrong and StoreDown."""
    settings = read()
    try:
        servers_of(settings)
    except SettingsWrong as wrong:  # a shell may lack the variables that the file refers to
        typer.echo(harmless(say("tail.servers_unread", language(), problem=str(wrong))), err=True)
    async with open_redis(settings) as url:
        redis = await connect(url, retries=2)
        try:
            with reaching():  # the workflow's store lets the client's errors through
                yield redis, Keys()
        except StoreDown:
            if _unread():
                raise typer.Exit(UNREAD) from None
            raise
        finally:
            await redis.aclose()


def _unread() -> bool:
    """Nobody reads what is printed any more (`| head`): that is no trouble of the store's. Whatever is left to be
    written then goes nowhere."""
    watched = select.poll()
    watched.register(sys.stdout.fileno(), 0)
    gone = any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(0))
    if gone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return gone


@asynccontextmanager
async def requests() -> AsyncIterator[tuple[RedisStore, Journal]]:
    """The embedded engine's store, and the journal. Raises CountersignError if another engine keeps the requests."""
    engine = read().workflow_engine
    if engine != "embedded":
        raise CountersignError(say("processes.elsewhere", language(), engine=engine))
    async with opened() as (redis, keys):
        yield RedisStore(redis), Journal(redis, keys)


def print_json(fields: dict[str, Any]) -> None:
    """One object on one line."""
    typer.echo(harmless(json.dumps(fields, ensure_ascii=False)))


def screen() -> Console:
    """For tables; nothing in them is markup."""
    return Console(markup=False, highlight=False, emoji=False)


def harmless(text: str) -> str:
    """What people and models wrote, on one line, without secrets and with nothing in it that drives a terminal; JSON
    stays JSON. E-mail addresses stay: administrators type them, and a record without them is no evidence."""
    text = escape_invisible(redact(text, addresses=False))
    return "".join(sign if sign.isprintable() or sign == JOINER else json.dumps(sign)[1:-1] for sign in text)


def clock(at_ms: int, form: str = "%m-%d %H:%M:%S") -> str:
    """A moment in this machine's time zone."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime(form)


def me() -> str:
    """Who does this, as the journal names them: the user of the operating system."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run as a number without a name
        return str(os.getuid())


def language() -> str:
    """The language of the terminal."""
    return language_of_terminal()
