"""`countersign run`: runs the bot from its start to SIGTERM or Ctrl-C. `bot.app.build` shows the bot's parts."""

from __future__ import annotations

import asyncio
import gc
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import typer
from rich.cells import set_cell_size

from bot.app.build import Application, build_app
from bot.app.mcp_file import load_mcp_servers
from bot.app.services import Services, open_services
from bot.app.settings import Settings, find_misspelt_variables, load_settings
from bot.core import logs
from bot.core.cancellation import cancel_and_wait
from bot.core.redaction import redact_text
from bot.ops.cli import console
from bot.ops.health import STOPPING, attach_health, build_health_app
from bot.ops.log_output import configure_logging
from bot.platforms.http_mode import open_http_server

log = logs.get_logger(__name__)
app = typer.Typer()

OPENAI = "api.openai.com"


@app.command()
@console.run_async
async def run() -> None:
    """Start the bot. It is on Slack or Feishu if their tokens are set, else in a workspace on this machine."""
    await serve_until_stopped(load_settings())


async def serve_until_stopped(settings: Settings) -> None:
    """Run the bot until SIGTERM or Ctrl-C. At the end it disconnects from the platform first, so that events go to
    other processes, and meanwhile finishes or hands over running work. A second signal ends it at once."""
    configure_logging(settings.log_level, None if settings.log_format == "auto" else settings.log_format == "json")
    for warning in find_misspelt_variables():
        log.warning(warning)
    ending = _ShutdownRequest()
    try:
        async with open_services(settings) as outside, build_app(settings, outside) as bot:
            ending.install_signal_handlers()
            freeze_garbage_collector()
            await _work_until_asked(bot, settings, outside, ending.requested)
            log.info("stopped")
    except asyncio.CancelledError:
        if not ending.is_immediate:
            raise
        log.warning("stopped at once: what ran is handed over")


def freeze_garbage_collector() -> None:
    """Exclude all objects built so far from garbage collection. These live as long as the process, and every scan of
    them would delay each acknowledgement by a tenth of a second."""
    gc.collect()
    gc.freeze()


async def _work_until_asked(
    bot: Application, settings: Settings, services: Services, shutdown_requested: asyncio.Event
) -> None:
    """Accept events and work until asked to end. From then on it claims no lane, but still accepts events until the
    platform knows; other processes do that work."""
    health, working = attach_health(bot), asyncio.create_task(bot.worker.run())
    stopping = asyncio.create_task(shutdown_requested.wait())
    try:
        async with AsyncExitStack() as stack:
            if settings.health_port:
                at = settings.health_host, settings.health_port
                await stack.enter_async_context(open_http_server(build_health_app(health), *at, "HEALTH"))
            health.is_connected, health.phase = await stack.enter_async_context(bot.connect()), ""
            counted = Counter(tool.server for tool in bot.resources.mcp_tools.values())
            servers = {one.name: counted[one.name] for one in load_mcp_servers(settings)}
            print(format_banner(services, servers), flush=True)
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            health.phase = STOPPING
            bot.worker.stop()
        await asyncio.wait({working})
    finally:
        bot.worker.stop()
        working.cancel()  # once: releasing what it holds takes time
        await asyncio.wait({working})
        await cancel_and_wait([stopping])
    working.result()


class _ShutdownRequest:
    """The request of SIGTERM and Ctrl-C to end; the second one means at once."""

    def __init__(self) -> None:
        self.requested, self.is_immediate = asyncio.Event(), False

    def install_signal_handlers(self) -> None:
        """Handle the signals from now on, for the task that calls this."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def handle_signal() -> None:
            if self.requested.is_set():
                self.is_immediate = True
                task.cancel()
            self.requested.set()

        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, handle_signal)


def format_banner(services: Services, servers: Mapping[str, int] | None = None) -> str:
    """Describe the running parts, which of them are stand-ins, and where to look. `servers`: MCP servers and their
    number of tools."""
    say, standins = console.build_sentence, services.standins
    chat = "feishu" if services.feishu else "slack"
    rows = {
        "workspace": say(f"banner.local_{chat}") if "workspace" in standins else services.workspace_url,
        "model": say("banner.rehearsal") if "model" in standins else describe_models(services),
        "redis": say("banner.embedded" if "redis" in standins else "banner.by_redis_url"),
        "mail": say("banner.mailbox" if "mail" in standins else "banner.by_smtp_url"),
    }
    if servers:
        told = (say("banner.tools" if n else "banner.not_reached", name=name, n=n) for name, n in servers.items())
        rows["servers"] = ", ".join(told)
    named = (f"  {set_cell_size(say(f'banner.{name}'), 10)} {what}" for name, what in rows.items())
    lines = ["", say("banner.running"), *named]
    if services.page_url:
        command = "countersign"  # this installation's
        if not shutil.which(command):
            script, here = Path(sys.executable).with_name(command), Path.cwd()
            command = str(script.relative_to(here) if script.is_relative_to(here) else script)
        lines += ["", f"  {say('banner.open', url=services.page_url)}", f"  {say('banner.follow', command=command)}"]
    return "\n".join([*lines, *filter(None, [services.real_models]), ""])


def describe_models(services: Services) -> str:
    """Describe the models in use and their addresses."""
    used = [one for one in (services.model, services.fallback) if one]
    named = [console.build_sentence("banner.model_at", name=one.name, url=one.url or OPENAI) for one in used]
    return redact_text(console.build_sentence("banner.fallback").join(named))
