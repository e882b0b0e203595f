"""Serves the workspace alone, on a port of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from bot.dev.workspace.methods_files import MOST_BYTES
from bot.dev.workspace.server import build_routes
from bot.dev.workspace.workspace import Workspace

HOST = "127.0.0.1"


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
