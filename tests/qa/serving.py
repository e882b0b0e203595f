"""HTTP servers on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.typedefs import Middleware

from bot.dev.workspace import server
from bot.dev.workspace.workspace import Workspace

BODY_MAX = 1 << 24


@asynccontextmanager
async def serve_routes(routes: Iterable[web.AbstractRouteDef], *middlewares: Middleware) -> AsyncIterator[str]:
    """The address."""
    site = web.Application(client_max_size=BODY_MAX, middlewares=middlewares)
    site.add_routes(routes)
    runner = web.AppRunner(site, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve_workspace(
    workspace: Workspace, *middlewares: Middleware, more: Iterable[web.AbstractRouteDef] = ()
) -> AsyncIterator[str]:
    """The address, while its events are delivered."""
    async with serve_routes([*server.build_routes(workspace), *more], *middlewares) as address:
        workspace.start_delivery(address)
        try:
            yield address
        finally:
            await workspace.close()
