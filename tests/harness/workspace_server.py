"""HTTP servers on loopback: any routes, or the workspace alone."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.typedefs import Middleware

from bot.dev.workspace.methods_files import MOST_BYTES
from bot.dev.workspace.server import build_routes
from bot.dev.workspace.workspace import Workspace
from tests.harness.app_calls import watch_calls
from tests.harness.serving import serve_app


@asynccontextmanager
async def serve_routes(routes: Iterable[web.AbstractRouteDef], *middlewares: Middleware) -> AsyncIterator[str]:
    """Serve on a free port; yield the address."""
    site = web.Application(client_max_size=MOST_BYTES + 1_000_000, middlewares=middlewares)
    site.add_routes(routes)
    async with serve_app(site, shutdown_s=0.2) as address:
        yield address


@asynccontextmanager
async def serve_workspace(
    workspace: Workspace, *middlewares: Middleware, more: Iterable[web.AbstractRouteDef] = ()
) -> AsyncIterator[str]:
    """Serve the workspace while its events are delivered; yield the address. The app's calls are kept, and planned
    ones fail. The workspace is closed at the end."""
    routes = [*build_routes(workspace), *more]
    async with serve_routes(routes, *middlewares, watch_calls(workspace)) as address:
        workspace.start_delivery(address)
        try:
            yield address
        finally:
            await workspace.close()
