"""Serves the workspace on a port: its own in tests, or one shared with other stand-ins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from bot.dev.workspace.answers import ResponseUrlApi
from bot.dev.workspace.methods_files import MOST_BYTES, FileDownloadApi, FileUploadApi
from bot.dev.workspace.page_api import PageApi
from bot.dev.workspace.webapi import WebApi
from bot.dev.workspace.workspace import Workspace

HOST = "127.0.0.1"


def build_routes(workspace: Workspace) -> list[web.RouteDef]:
    """Build all routes of the workspace. Call `workspace.start_delivery(address)` once the server listens."""
    api = WebApi(workspace).handle_request
    return [
        web.get("/api/{method}", api),
        web.post("/api/{method}", api),
        web.get("/link/", workspace.sockets.handle_request),
        web.post("/response/{key}", ResponseUrlApi(workspace).handle_request),
        web.post("/upload/{key}", FileUploadApi(workspace).handle_request),
        web.get("/files-pri/{id}/{name:.+}", FileDownloadApi(workspace).handle_request),
        *PageApi(workspace).build_routes(),
    ]


@asynccontextmanager
async def serve_workspace(workspace: Workspace) -> AsyncIterator[str]:
    """Serve the workspace alone on a free port; yield the address. The workspace is closed at the end."""
    app = web.Application(client_max_size=MOST_BYTES + 1_000_000)
    app.add_routes(build_routes(workspace))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        address = f"http://{HOST}:{runner.addresses[0][1]}"
        workspace.start_delivery(address)
        yield address
    finally:
        await workspace.close()
        await runner.cleanup()
