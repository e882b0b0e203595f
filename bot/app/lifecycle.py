"""How the bot lives: from its start to SIGTERM or Ctrl-C. Read `serve_until_stopped`; what it is made of,
`bot.app.build` says."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from bot.app.build import Application, build_app
from bot.app.company_files import load_mcp_servers
from bot.app.services import Services, format_banner, open_services
from bot.app.settings import Settings, find_misspelt_variables
from bot.chat.slack import app as slack
from bot.core import logs
from bot.core.cancellation import cancel_and_wait
from bot.core.errors import SettingsError

log = logs.get_logger(__name__)


async def serve_until_stopped(settings: Settings) -> None:
    """`countersign run`: until SIGTERM or Ctrl-C. Then Slack is let go first, so that it brings its events to others;
    what runs is finished meanwhile, or handed over. Asked for a second time, the end is at once."""
    logs.configure_logging(settings.log_level, None if settings.log_format == "auto" else settings.log_format == "json")
    for warning in find_misspelt_variables():
        log.warning(warning)
    ending = _ShutdownRequest()
    async with open_services(settings) as outside, build_app(settings, outside) as bot:
        ending.install_signal_handlers()
        freeze_garbage_collector()
        try:
            await _work_until_asked(bot, settings, outside, ending.requested)
        except asyncio.CancelledError:
            if not ending.is_immediate:
                raise
            log.warning("stopped at once: what ran is handed over")
        log.info("stopped")


def freeze_garbage_collector() -> None:
    """What has been put together stays: the collector need not look at it ever again. Every such look would hold up
    each acknowledgement for a tenth of a second."""
    gc.collect()
    gc.freeze()


async def _work_until_asked(
    bot: Application, settings: Settings, services: Services, shutdown_requested: asyncio.Event
) -> None:
    """Takes events and works on them until asked to end. No lane is claimed from then on; events are taken until the
    platform is told, since whoever is left does the work."""
    working = asyncio.create_task(bot.worker.run())
    stopping = asyncio.create_task(shutdown_requested.wait())
    try:
        async with open_slack_connection(bot, settings, services):
            print(format_banner(services, _count_server_tools(settings, bot)), flush=True)
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            bot.worker.stop()
        await asyncio.wait({working})
    finally:
        bot.worker.stop()
        working.cancel()  # once: it gives back what it holds, and takes its time for that
        await asyncio.wait({working})
        await cancel_and_wait([stopping])
    working.result()


def _count_server_tools(settings: Settings, bot: Application) -> dict[str, int]:
    """MCP servers that are configured → how many tools each has, as far as it was reached."""
    counted = Counter(tool.server for tool in bot.mcp_tools.values())
    return {one.name: counted[one.name] for one in load_mcp_servers(settings)}


class _ShutdownRequest:
    """What SIGTERM and Ctrl-C ask for: an end; at the second time, an end at once."""

    def __init__(self) -> None:
        self.requested, self.is_immediate = asyncio.Event(), False

    def install_signal_handlers(self) -> None:
        """From now on, for the task that calls this."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._handle_signal, task)

    def _handle_signal(self, task: asyncio.Task[None]) -> None:
        if self.requested.is_set():
            self.is_immediate = True
            task.cancel()
        self.requested.set()


@asynccontextmanager
async def open_slack_connection(bot: Application, settings: Settings, services: Services) -> AsyncIterator[None]:
    """Slack's events come in as long as the context is open: Socket Mode, or signed HTTP by setting."""
    if settings.slack_mode == "socket":
        async with slack.open_socket_mode(bot.bolt_app, services.app_token, bot.ingress_gate):
            yield
        return
    runner = slack.build_http_runner(bot.bolt_app, services.signing_secret, bot.ingress_gate)
    await runner.setup()
    try:
        await _start_http_listener(runner, settings.http_host, settings.http_port)
        yield
    finally:
        await runner.cleanup()


async def _start_http_listener(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}:{port} ({error.strerror}); set HTTP_HOST or HTTP_PORT") from error
