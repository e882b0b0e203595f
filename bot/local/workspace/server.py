"""Put the workspace on a port: its own in tests, or one shared with other stand-ins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from bot.errors import LocalFailed
from bot.local.workspace.answers import ReplyUrlApi
from bot.local.workspace.methods_files import MOST_BYTES, Upload
from bot.local.workspace.page_api import PageApi
from bot.local.workspace.webapi import WebApi
from bot.local.workspace.workspace import Workspace


def routes(workspace: Workspace, hosts: frozenset[str] = frozenset()) -> list[web.RouteDef]:
    """Everything the workspace answers to. Call `workspace.started(address)` once the server listens.
    `hosts` are names besides loopback the page may be reached by."""
    api = WebApi(workspace).handle
    return [
        web.get("/api/{method}", api),
        web.post("/api/{method}", api),
        web.get("/link/", workspace.sockets.handle),
        web.post("/response/{key}", ReplyUrlApi(workspace).handle),
        web.post("/upload/{key}", Upload(workspace).handle),
        *PageApi(workspace, hosts).routes(),
    ]


@asynccontextmanager
async def serving(workspace: Workspace, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve the workspace alone; the address, e.g. `http://127.0.0.1:8484`. Closes the workspace in the end.
    `LocalFailed` when the port is taken."""
    app = web.Application(client_max_size=3 * MOST_BYTES)
    app.add_routes(routes(workspace))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise LocalFailed(f"The workspace cannot listen on {host}:{port}: {error.strerror}.") from error
        address = f"http://{host}:{runner.addresses[0][1]}"
        workspace.started(address)
        yield address
    finally:
        await workspace.close()
        await runner.cleanup()
