"""The child process that serves every local stand-in: workspace, rehearsal model and mailbox.

The command is `python -m bot.dev.standins --data DIR --port 8484 [--workspace] [--model] [--mail] [--chat feishu]`. The
tokens come from `STANDIN_BOT_TOKEN` and `STANDIN_APP_TOKEN` (Feishu's secret), and the address of the Redis whose
journal the page shows from `STANDIN_JOURNAL`. None of these is an argument, because everybody on the machine can read a
command line.
`STANDIN_ENGINE` is the address of a workflow engine that `deploy/run --engine` has started, for the page.

When all stand-ins listen, the process prints one line of JSON with their addresses. The process ends on SIGTERM, on
SIGINT, and when its standard input ends, which tells that its parent has died."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from bot.core.cancellation import cancel_and_wait
from bot.core.errors import LocalStartError, StoreUnavailableError
from bot.core.i18n import detect_terminal_language, translate
from bot.dev.mailbox import HOST, Mailbox
from bot.dev.real_models import PORTS, find_real_models
from bot.dev.rehearsal.serve import build_model_routes
from bot.dev.workspace import server
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.feishu.world import FeishuSetup
from bot.dev.workspace.workspace import Workspace, WorkspaceSetup
from bot.queue.keys import Keys
from bot.redis.connect import connect_redis
from bot.storage.journal import Journal, JournalRecord

LARGEST = 32 * 1024 * 1024
"""Maximum size of one request in bytes: a long conversation sent to the model, or a file."""
AGAIN_S = 1.0
"""Seconds before an unreachable journal is tried again."""
SHOWN_SINCE = "15m"
"""Age of the oldest line in the page's log when it starts."""


@dataclass(frozen=True, slots=True)
class StandInOptions:
    """Stand-ins to serve, and their place."""

    data: Path
    port: int
    """Port; 0 takes any free one. The mailbox listens on the next port."""
    workspace: bool = False
    model: bool = False
    mail: bool = False
    chat: str = "slack"
    """The protocol of the workspace: `slack` or `feishu`."""
    bot_token: str = field(default="", repr=False)
    app_token: str = field(default="", repr=False)
    journal: str = field(default="", repr=False)
    """URL of the Redis whose journal the page shows."""
    engine: str = ""
    """Where a workflow engine runs that was started with the bot."""
    model_ports: tuple[int, ...] = PORTS
    """Ports of this machine where a real model may answer."""


@asynccontextmanager
async def serve_stand_ins(options: StandInOptions) -> AsyncIterator[dict[str, str]]:
    """Serve the chosen stand-ins; yield their addresses by name, and as `real_models` what could replace the rehearsal
    model, in lines for a terminal. Raises `LocalStartError` if a port is taken."""
    async with AsyncExitStack() as stack:
        app, addresses, mailbox = web.Application(client_max_size=LARGEST), dict[str, str](), None
        if options.mail:
            mailbox = Mailbox(options.data)
            stack.push_async_callback(mailbox.close)
        if options.model:
            app.add_routes(build_model_routes())
        workspace = None
        if options.workspace:
            workspace = open_workspace(options, mailbox)
            replaced = {"workspace": True, "model": options.model, "mail": options.mail, "engine": options.engine}
            workspace.standins = {name: one if isinstance(one, str) else "" for name, one in replaced.items() if one}
            app.add_routes(server.build_routes(workspace))
        address = await start_listening(stack, app, options.port)
        if mailbox:  # after the page: if Countersign runs already, the error names its own port
            port = await mailbox.start(options.port + 1 if options.port else 0)
            addresses["smtp_url"] = f"smtp://{HOST}:{port}"
        models = await find_real_models(options.model_ports) if options.model else []
        if options.model:
            addresses["openai_base_url"] = f"{address}/v1"
        if models:
            language = detect_terminal_language()
            named = ((translate(f"page.{one.sentence}", language, name=one.name), f"  {one.command}") for one in models)
            addresses["real_models"] = "\n" + "\n".join(f"  {line}" for lines in named for line in lines)
        if workspace:
            workspace.models = tuple(models)
            stack.push_async_callback(workspace.close)
            workspace.start_delivery(address)
            addresses |= {"page": f"{address}/", "slack_api_url": f"{address}/api/"}
            if isinstance(workspace, FeishuWorkspace):
                addresses |= {"feishu_url": address, "feishu_app_id": workspace.setup.app_id}
        if workspace and options.journal:
            following = asyncio.create_task(follow_journal(options.journal, workspace))
            stack.push_async_callback(cancel_and_wait, [following])
        yield addresses


def open_workspace(options: StandInOptions, mailbox: Mailbox | None) -> Workspace:
    """Open the workspace. Each chat keeps a state of its own."""
    if options.chat == "feishu":
        return FeishuWorkspace(
            FeishuSetup(app_secret=options.app_token), folder=options.data / "feishu", mailbox=mailbox
        )
    setup = WorkspaceSetup(options.bot_token, options.app_token)
    return Workspace(setup, folder=options.data / "workspace", mailbox=mailbox)


async def start_listening(stack: AsyncExitStack, app: web.Application, port: int) -> str:
    """Serve `app` until the stack is closed; return `http://host:port`."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, HOST, port).start()
    except OSError as error:
        raise LocalStartError(
            f"Port {port} of this machine is in use. Is Countersign running already? "
            f"Otherwise set LOCAL_PORT to another number, e.g. LOCAL_PORT={port + 10}."
        ) from error
    return f"http://{HOST}:{runner.addresses[0][1]}"


async def follow_journal(url: str, workspace: Workspace) -> None:
    """Show the journal in the page's log, and continue from the same place after every loss of the connection."""
    since: int | str = SHOWN_SINCE
    while True:
        with suppress(StoreUnavailableError):
            async with aclosing(await connect_redis(url, connections=4, retries=2)) as redis:
                async for record in Journal(redis, Keys()).stream_records(since=since, follow=True):
                    workspace.append_log_line(build_log_line(record))
                    since = record.at_ms + 1
        await asyncio.sleep(AGAIN_S)


def build_log_line(record: JournalRecord) -> dict[str, Any]:
    """Build a line of the page's log from a record: its text, followed by its other fields."""
    more = " ".join(f"{name}={value}" for name, value in record.more.items() if value not in ("", None))
    text = " · ".join(part for part in (record.text, more) if part)
    return {**asdict(record), "text": text}


async def run_until_stopped(options: StandInOptions) -> None:
    """Serve until a signal comes or the parent is gone."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)

    def wait_for_orphaning() -> None:
        """Read standard input to its end, in a thread because the event loop cannot wait for every kind of input."""
        with suppress(OSError):
            while os.read(0, 1024):
                pass
        with suppress(RuntimeError):  # the loop is closed, so the process ends anyway
            loop.call_soon_threadsafe(stop.set)

    threading.Thread(target=wait_for_orphaning, daemon=True).start()
    async with serve_stand_ins(options) as addresses:
        print(json.dumps(addresses), flush=True)
        await stop.wait()


def parse_options(arguments: Sequence[str] | None = None) -> StandInOptions:
    parser = argparse.ArgumentParser(prog="python -m bot.dev.standins", description="Local stand-ins.")
    parser.add_argument("--data", type=Path, required=True, help="folder they keep their state in")
    parser.add_argument("--port", type=int, default=8484, help="the mailbox takes the next one")
    for name in ("workspace", "model", "mail"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--chat", choices=("slack", "feishu"), default="slack")
    return StandInOptions(
        bot_token=os.environ.get("STANDIN_BOT_TOKEN", ""),
        app_token=os.environ.get("STANDIN_APP_TOKEN", ""),
        journal=os.environ.get("STANDIN_JOURNAL", ""),
        engine=os.environ.get("STANDIN_ENGINE", ""),
        **vars(parser.parse_args(arguments)),
    )


def main() -> None:
    try:
        asyncio.run(run_until_stopped(parse_options()))
    except LocalStartError as error:
        sys.exit(f"countersign: {error}")


if __name__ == "__main__":
    main()
