"""The routes of the workspace, for a server of its own or one that it shares with other stand-ins."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from bot.dev.workspace.acts import WorkspaceActs
from bot.dev.workspace.feishu import openapi
from bot.dev.workspace.feishu.acts import FeishuActs
from bot.dev.workspace.feishu.page_acts import FEISHU_ACTS
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.methods_files import receive_upload, serve_download
from bot.dev.workspace.page_api import ACTS, PageApi
from bot.dev.workspace.webapi import handle_api_request
from bot.dev.workspace.workspace import Workspace


def build_routes(workspace: Workspace) -> list[web.RouteDef]:
    """Build all routes of the workspace. Call `workspace.start_delivery(address)` once the server listens."""
    if isinstance(workspace, FeishuWorkspace):
        return [*openapi.build_routes(workspace), *PageApi(FeishuActs(workspace), FEISHU_ACTS).build_routes()]
    api = partial(handle_api_request, workspace)
    return [
        web.get("/api/{method}", api),
        web.post("/api/{method}", api),
        web.get("/link/", workspace.sockets.handle_request),
        web.post("/upload/{key}", partial(receive_upload, workspace)),
        web.get("/files-pri/{id}/{name:.+}", partial(serve_download, workspace)),
        *PageApi(WorkspaceActs(workspace, is_encoded=True), ACTS).build_routes(),
    ]
