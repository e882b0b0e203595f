"""Helpers that the commands share: a store to look into, and a terminal to print on."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer
from redis.asyncio import Redis
from redis.exceptions import ResponseError
from rich.console import Console

from bot.app.mcp_file import load_mcp_servers
from bot.app.redis_source import open_redis
from bot.app.settings import load_settings
from bot.core.cancellation import cancel_and_wait
from bot.core.errors import (
    ChatError,
    ChatRefusedError,
    CountersignError,
    ModelRejectedError,
    ModelUnavailableError,
    SettingsError,
    StoreUnavailableError,
)
from bot.core.i18n import detect_terminal_language, render_value, translate
from bot.core.redaction import redact_text
from bot.ops.held_store import is_restore_unfinished
from bot.queue.keys import Keys
from bot.queue.scripts import ScriptRunner
from bot.redis.connect import connect_redis
from bot.storage.journal import parse_age_ms
from tools.characters import escape_invisible
from tools.spec import ToolError

P = ParamSpec("P")

UNREAD = 141
"""Exit code that a shell reports for a program whose output nobody reads (SIGPIPE)."""
JOINER = "\u200d"
"""Zero-width joiner: holds compound emoji together."""
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


def require_age(text: str) -> str:
    """Return an age option like *2h* unchanged. Raises BadParameter if it cannot be parsed."""
    try:
        parse_age_ms(text)
    except ValueError as error:
        raise typer.BadParameter(build_sentence("tail.odd_since", since=sanitize_for_terminal(text))) from error
    return text


def run_async(command: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a command of an asynchronous function. Ctrl-C ends it with code 130."""

    @wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        try:
            asyncio.run(command(*args, **options))
        except KeyboardInterrupt:
            sys.exit(130)

    return run


@asynccontextmanager
async def open_bot_store(*, make: bool = False) -> AsyncIterator[tuple[Redis, Keys]]:
    """Open the bot's Redis, whether the bot runs or not. Where no bot has ever run, nothing is created unless `make` is
    set.

    A store that is half restored opens only for the command that restores it, which sets `make`. Secrets in the
    settings and in the file of MCP servers are redacted from here on. Raises NoInstallationError, SettingsError,
    StoreUnavailableError, and CountersignError if Redis refuses what the command asks."""
    settings = load_settings()
    try:
        load_mcp_servers(settings)
    except SettingsError as wrong:  # a shell may lack the variables that the file refers to
        print_note("tail.servers_unread", problem=str(wrong))
    async with open_redis(settings, make=make) as (url, _):
        try:
            async with aclosing(await connect_redis(url, retries=2)) as redis:
                if not make and await is_restore_unfinished(ScriptRunner.from_redis(redis, Keys())):
                    raise build_error("restored.unfinished")
                yield redis, Keys()
        except BrokenPipeError:  # nobody reads the output any more (`| head`): the rest is discarded
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(UNREAD) from None
        except ResponseError as refused:
            raise build_error("store.refused", error=str(refused)) from refused


def require_confirmation(key: str, yes: bool, /, **params: object) -> None:
    """Ask, and end the command at anything but a yes. Raises CountersignError if there is nobody to ask."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise build_error("processes.needs_yes")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio's own waits for the answer
    try:
        if not typer.confirm(build_sentence(key, **params)):
            raise typer.Exit(1)
    except typer.Abort:
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGINT, before)


def build_sentence(key: str, /, **params: object) -> str:
    """Build a sentence in the terminal's language."""
    return translate(key, detect_terminal_language(), **params)


def print_sentence(key: str, /, **params: object) -> None:
    """Print a sentence in the terminal's language."""
    typer.echo(sanitize_for_terminal(build_sentence(key, **params)))


def print_note(key: str, /, **params: object) -> None:
    """Print a sentence in the terminal's language on standard error."""
    typer.echo(sanitize_for_terminal(build_sentence(key, **params)), err=True)


def build_error(key: str, /, **params: object) -> CountersignError:
    """Build an error with a sentence in the terminal's language."""
    return CountersignError(build_sentence(key, **params))


def explain_error(error: CountersignError) -> str:
    """Explain a known error in one line: what is wrong, and how to fix it."""
    match error:
        case StoreUnavailableError():
            return translate("store.down", "en", error=redact_text(str(error)))
        case ChatRefusedError():
            return f"the chat platform refuses this ({error})"
        case ChatError():
            addresses = "SLACK_API_URL or FEISHU_API_URL"
            return f"the chat platform cannot be reached ({error}); check the network, HTTPS_PROXY and {addresses}"
        case ModelUnavailableError() | ModelRejectedError():
            return f"no answer of the model ({error}); check OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL"
        case _:
            return str(error)


@contextmanager
def explain_tool_errors() -> Iterator[None]:
    """End the command with the sentence that an error of the engine has for people."""
    try:
        yield
    except ToolError as refused:
        raise CountersignError(render_value(refused.note, detect_terminal_language())) from refused


def build_file_error(key: str, file: Path, error: OSError) -> CountersignError:
    """Build an error about a file, with the system's reason."""
    return build_error(key, file=str(file), reason=error.strerror or type(error).__name__)


def print_json(fields: dict[str, Any]) -> None:
    """Print one object on one line."""
    typer.echo(sanitize_for_terminal(json.dumps(fields, ensure_ascii=False)))


def build_rich_console() -> Console:
    """Build a console for tables, in which nothing is treated as markup."""
    return Console(markup=False, highlight=False, emoji=False)


NARROW = 100
"""Terminal width in cells. Below it, a table shows only its most important columns; `--json` has the rest."""


def is_terminal_narrow() -> bool:
    return build_rich_console().width < NARROW


def sanitize_for_terminal(text: str) -> str:
    """Put text of people and models on one line, without secrets and without control sequences; JSON stays JSON.

    E-mail addresses stay: administrators type them, and a record without them is no evidence."""
    text = escape_invisible(redact_text(text, addresses=False))
    return "".join(sign if sign.isprintable() or sign == JOINER else json.dumps(sign)[1:-1] for sign in text)


def format_terminal_time(at_ms: int, form: str = "%m-%d %H:%M:%S") -> str:
    """Format a time in milliseconds since 1970 in this machine's time zone, with the zone: `11-27 21:15:56+0800`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().strftime(f"{form}%z")


def get_os_user() -> str:
    """Return the user of the operating system, as the journal names whoever runs a command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run as a number without a name
        return str(os.getuid())


async def wait_or_cancel(work: asyncio.Task[None]) -> None:
    """Wait for `work`. If cancelled meanwhile, end `work` before the cancellation goes on."""
    try:
        await asyncio.wait({work})
    finally:
        await cancel_and_wait([work])
    work.result()
