"""Put the workspace on a port: its own in tests, or one shared with other stand-ins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from bot.local.workspace.answers import ReplyUrlApi
from bot.local.workspace.methods_files import MOST_BYTES, Upload
from bot.local.workspace.page_api import PageApi
from bot.local.workspace.webapi import WebApi
from bot.local.workspace.workspace import Workspace

HOST = "127.0.0.1"


def routes(workspace: Workspace) -> list[web.RouteDef]:
    """Everything the workspace answers to. Call `workspace.started(address)` once the server listens."""
    api = WebApi(workspace).handle
    return [
        web.get("/api/{method}", api),
        web.post("/api/{method}", api),
        web.get("/link/", workspace.sockets.handle),
        web.post("/response/{key}", ReplyUrlApi(workspace).handle),
        web.post("/upload/{key}", Upload(workspace).handle),
        *PageApi(workspace).routes(),
    ]


@asynccontextmanager
async def serving(workspace: Workspace) -> AsyncIterator[str]:
    """Serve the workspace alone, on any free port; the address. Closes the workspace in the end."""
    app = web.Application(client_max_size=3 * MOST_BYTES)
    app.add_routes(routes(workspace))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        address = f"http://{HOST}:{runner.addresses[0][1]}"
        workspace.started(address)
        yield address
    finally:
        await workspace.close()
        await runner.cleanup()
