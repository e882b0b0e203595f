"""Apps of aiohttp on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

HOST = "127.0.0.1"


@asynccontextmanager
async def serve_app(app: web.Application | web.AppRunner, *, shutdown_s: float = 0.1) -> AsyncIterator[str]:
    """Serve an app, or what a runner has, on a free port; yield the address."""
    runner = app if isinstance(app, web.AppRunner) else web.AppRunner(app, access_log=None, shutdown_timeout=shutdown_s)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        yield f"http://{HOST}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
