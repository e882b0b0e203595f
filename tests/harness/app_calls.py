"""The calls of a workspace's app: those that it made, and faults planned for its next ones.

A middleware around the workspace's server keeps the calls, and answers in the workspace's place where a fault is
planned. The workspace itself knows nothing of it."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bot.dev.workspace.arguments import read_method_arguments
from bot.dev.workspace.feishu.openapi import read_call
from bot.dev.workspace.feishu.refused import FeishuError
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json

Outcome: TypeAlias = str | int
"""An error name (`channel_not_found`), 429, 500, `drop` or `drop_after`. With `drop`, the connection breaks before
anything is done; with `drop_after`, it breaks afterwards. On Feishu, an error is its number as a text."""
DOWNLOAD, CONNECT = "files-pri", "connection.open"
"""Names of Slack's downloads and of the address of Feishu's long connection, which are no methods."""
RATE_LIMITED = 99991400
RETRY_S = 1


@dataclass(frozen=True, slots=True)
class WebApiCall:
    """A call by the app. `error` is empty on success."""

    method: str
    args: Json
    error: str = ""


@dataclass
class AppCalls:
    """The calls of one app, and the faults planned for them. Each fault is used once."""

    made: deque[WebApiCall] = field(default_factory=lambda: deque(maxlen=10_000))
    planned: defaultdict[str, deque[Outcome]] = field(default_factory=lambda: defaultdict(deque))
    delays_s: dict[str, float] = field(default_factory=dict)
    """Method → delay of its answers in seconds; the empty name stands for every other method. By then a call has had
    its effect."""

    def fail_next_call(self, method: str, outcome: Outcome, times: int = 1) -> None:
        self.planned[method].extend([outcome] * times)

    def take_fault(self, method: str) -> Outcome | None:
        return self.planned[method].popleft() if self.planned[method] else None

    def get_delay_s(self, method: str) -> float:
        return self.delays_s.get(method, self.delays_s.get("", 0.0))


CALLS: WeakKeyDictionary[Workspace, AppCalls] = WeakKeyDictionary()


def get_app_calls(ws: Workspace) -> AppCalls:
    return CALLS.setdefault(ws, AppCalls())


def watch_calls(ws: Workspace) -> Middleware:
    """Build the middleware that keeps the calls to a workspace, and lets planned ones fail."""
    calls = get_app_calls(ws)

    @web.middleware
    async def watch(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not (name := name_call(request)):
            return await handler(request)
        fault = calls.take_fault(name)
        if fault == "drop":
            return abort_connection(request)
        is_kept = fault in (None, "drop_after")
        answer = await handler(request) if is_kept else build_failure(ws, name, fault)
        if name != DOWNLOAD:
            calls.made.append(WebApiCall(name, await read_arguments(ws, request), read_error(answer)))
            ws.notify_change("acks")
            if delay_s := calls.get_delay_s(name):
                await asyncio.sleep(delay_s)
        return answer if fault != "drop_after" else abort_connection(request)

    return watch


def name_call(request: web.Request) -> str:
    """Return Slack's method, or HTTP's with the path of Feishu's endpoint; empty for what the app does not call. A
    reply on Feishu is sent by the name of a message."""
    resource = request.match_info.route.resource
    path = resource.canonical if resource else ""
    if path.endswith("/api/{method}"):
        return request.match_info["method"]
    if "/open-apis/" in path:
        return f"{request.method} {path.partition('/open-apis/')[2].removesuffix('/{message_id}/reply')}"
    return DOWNLOAD if "/files-pri/" in path else CONNECT if path.endswith("/callback/ws/endpoint") else ""


def abort_connection(request: web.Request) -> web.Response:
    """Break the connection instead of answering."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def build_failure(ws: Workspace, name: str, fault: Outcome | None) -> web.Response:
    """Build the answer of the platform to a call that fails so."""
    if isinstance(ws, FeishuWorkspace):
        return build_feishu_failure(name, fault)
    if name == DOWNLOAD:
        return web.Response(status=int(fault or 500), text="no")
    if isinstance(fault, str):
        return web.json_response(WorkspaceError(fault).to_body())
    error, headers = ("ratelimited", {"Retry-After": str(RETRY_S)}) if fault == 429 else ("internal_error", {})
    return web.json_response({"ok": False, "error": error}, status=fault or 500, headers=headers)


def build_feishu_failure(name: str, fault: Outcome | None) -> web.Response:
    if name == CONNECT and isinstance(fault, str):
        return web.json_response({"code": int(fault), "msg": "refused", "data": None})
    if not isinstance(fault, str) and fault != 429:
        return web.Response(status=fault or 500, text="upstream error")
    refused = FeishuError(RATE_LIMITED, status=429) if fault == 429 else FeishuError(int(fault))
    rate = {"x-ogw-ratelimit-limit": "50", "x-ogw-ratelimit-reset": str(RETRY_S)} if fault == 429 else {}
    body = {"code": refused.code, "msg": refused.words, "error": {"log_id": "failed-on-order", "troubleshooter": ""}}
    return web.json_response(body, status=refused.status, headers=rate)


async def read_arguments(ws: Workspace, request: web.Request) -> Json:
    """Read the arguments of a call, without its token; empty if they cannot be read."""
    try:
        if isinstance(ws, FeishuWorkspace):
            call = await read_call(request)
            return {**call.ids, **call.query, **call.body}
        values = (await read_method_arguments(request)).values
        return {name: value for name, value in values.items() if name != "token"}
    except WorkspaceError:
        return {}


def read_error(answer: web.StreamResponse) -> str:
    if not isinstance(answer, web.Response) or answer.content_type != "application/json":
        return "" if answer.status < 400 else str(answer.status)
    body: dict[str, Any] = json.loads(answer.text or "{}")
    return str(body.get("error") or "") if "ok" in body else str(body.get("code") or "")
