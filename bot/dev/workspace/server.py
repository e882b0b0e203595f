"""The routes of the workspace, for a server of its own or one that it shares with other stand-ins."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from bot.dev.workspace.feishu.openapi import OpenApi
from bot.dev.workspace.feishu.page_acts import FeishuPageApi
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.methods_files import receive_upload, serve_download
from bot.dev.workspace.page_api import PageApi
from bot.dev.workspace.webapi import handle_api_request
from bot.dev.workspace.workspace import Workspace


def build_routes(workspace: Workspace) -> list[web.RouteDef]:
    """Build all routes of the workspace. Call `workspace.start_delivery(address)` once the server listens."""
    if isinstance(workspace, FeishuWorkspace):
        return [*OpenApi(workspace).build_routes(), *FeishuPageApi(workspace).build_routes()]
    api = partial(handle_api_request, workspace)
    return [
        web.get("/api/{method}", api),
        web.post("/api/{method}", api),
        web.get("/link/", workspace.sockets.handle_request),
        web.post("/upload/{key}", partial(receive_upload, workspace)),
        web.get("/files-pri/{id}/{name:.+}", partial(serve_download, workspace)),
        *PageApi(workspace).build_routes(),
    ]
