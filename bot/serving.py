"""How the bot lives: from its start to SIGTERM or Ctrl-C. Read `serve`; what it is made of, `bot.main` says."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from bot import logs
from bot.cancel import cancelled
from bot.chat.slack import app as slack
from bot.company import servers_of
from bot.errors import SettingsWrong
from bot.main import Bot, assembled
from bot.outside import Outside, banner, outside_of
from bot.settings import Settings, find_misspelt_variables

log = logs.get(__name__)


async def serve(settings: Settings) -> None:
    """`countersign run`: until SIGTERM or Ctrl-C. Then Slack is let go first, so that it brings its events to others;
    what runs is finished meanwhile, or handed over. Asked for a second time, the end is at once."""
    logs.configure(settings.log_level, None if settings.log_format == "auto" else settings.log_format == "json")
    for warning in find_misspelt_variables():
        log.warning(warning)
    ending = _Ending()
    async with outside_of(settings) as outside, assembled(settings, outside) as bot:
        ending.listen()
        settle_in()
        try:
            await _worked(bot, settings, outside, ending.asked)
        except asyncio.CancelledError:
            if not ending.hurried:
                raise
            log.warning("stopped at once: what ran is handed over")
        log.info("stopped")


def settle_in() -> None:
    """What has been put together stays: the collector need not look at it ever again. Every such look would hold up
    each acknowledgement for a tenth of a second."""
    gc.collect()
    gc.freeze()


async def _worked(bot: Bot, settings: Settings, outside: Outside, asked: asyncio.Event) -> None:
    """Takes events and works on them until asked to end. No lane is claimed from then on; events are taken until the
    platform is told, since whoever is left does the work."""
    working = asyncio.create_task(bot.worker.run())
    stopping = asyncio.create_task(asked.wait())
    try:
        async with connected(bot, settings, outside):
            print(banner(outside, _servers(settings, bot)), flush=True)
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            bot.worker.stop()
        await asyncio.wait({working})
    finally:
        bot.worker.stop()
        working.cancel()  # once: it gives back what it holds, and takes its time for that
        await asyncio.wait({working})
        await cancelled([stopping])
    working.result()


def _servers(settings: Settings, bot: Bot) -> dict[str, int]:
    """MCP servers that are configured → how many tools each has, as far as it was reached."""
    counted = Counter(tool.server for tool in bot.servers.values())
    return {one.name: counted[one.name] for one in servers_of(settings)}


class _Ending:
    """What SIGTERM and Ctrl-C ask for: an end; at the second time, an end at once."""

    def __init__(self) -> None:
        self.asked, self.hurried = asyncio.Event(), False

    def listen(self) -> None:
        """From now on, for the task that calls this."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._signalled, task)

    def _signalled(self, task: asyncio.Task[None]) -> None:
        if self.asked.is_set():
            self.hurried = True
            task.cancel()
        self.asked.set()


@asynccontextmanager
async def connected(bot: Bot, settings: Settings, outside: Outside) -> AsyncIterator[None]:
    """Slack's events come in as long as the context is open: Socket Mode, or signed HTTP by setting."""
    if settings.slack_mode == "socket":
        async with slack.socket_mode(bot.app, outside.app_token, bot.door):
            yield
        return
    runner = slack.http_runner(bot.app, outside.signing_secret, bot.door)
    await runner.setup()
    try:
        await _listen(runner, settings.http_host, settings.http_port)
        yield
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise SettingsWrong(f"cannot listen on {host}:{port} ({error.strerror}); set HTTP_HOST or HTTP_PORT") from error
