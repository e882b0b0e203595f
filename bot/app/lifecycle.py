"""Runs the bot from its start to SIGTERM or Ctrl-C. Read `serve_until_stopped`; `bot.app.build` shows the bot's
parts."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections import Counter

from bot.app.build import Application, build_app
from bot.app.health import STOPPING, open_health_server
from bot.app.mcp_file import load_mcp_servers
from bot.app.services import Services, format_banner, open_services
from bot.app.settings import Settings, find_misspelt_variables
from bot.core import logs
from bot.core.cancellation import cancel_and_wait

log = logs.get_logger(__name__)


async def serve_until_stopped(settings: Settings) -> None:
    """Run the bot (`countersign run`) until SIGTERM or Ctrl-C. At the end it disconnects from the platform first, so
    that events go to other processes, and meanwhile finishes or hands over running work. A second signal ends it at
    once."""
    logs.configure_logging(settings.log_level, None if settings.log_format == "auto" else settings.log_format == "json")
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
    working = asyncio.create_task(bot.worker.run())
    stopping = asyncio.create_task(shutdown_requested.wait())
    try:
        async with (
            open_health_server(bot.health, settings.health_host, settings.health_port),
            bot.connect() as is_connected,
        ):
            bot.health.is_connected, bot.health.phase = is_connected, ""
            counted = Counter(tool.server for tool in bot.resources.mcp_tools.values())
            servers = {one.name: counted[one.name] for one in load_mcp_servers(settings)}
            print(format_banner(services, servers), flush=True)
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            bot.health.phase = STOPPING
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
