"""HTTP servers on loopback: any routes, or the workspace alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.typedefs import Middleware

from bot.dev.workspace.methods_files import MOST_BYTES
from bot.dev.workspace.server import build_routes
from bot.dev.workspace.workspace import Workspace

HOST = "127.0.0.1"


@asynccontextmanager
async def serve_routes(routes: Iterable[web.AbstractRouteDef], *middlewares: Middleware) -> AsyncIterator[str]:
    """Serve on a free port; yield the address."""
    site = web.Application(client_max_size=MOST_BYTES + 1_000_000, middlewares=middlewares)
    site.add_routes(routes)
    runner = web.AppRunner(site, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        yield f"http://{HOST}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve_workspace(
    workspace: Workspace, *middlewares: Middleware, more: Iterable[web.AbstractRouteDef] = ()
) -> AsyncIterator[str]:
    """Serve the workspace while its events are delivered; yield the address. The workspace is closed at the end."""
    async with serve_routes([*build_routes(workspace), *more], *middlewares) as address:
        workspace.start_delivery(address)
        try:
            yield address
        finally:
            await workspace.close()
