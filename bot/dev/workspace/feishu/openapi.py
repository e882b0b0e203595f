"""The open API under `/open-apis/`: tokens, scopes, planned faults, and the table of endpoints."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web

from bot.dev.workspace.faults import Outcome
from bot.dev.workspace.feishu import directory, methods
from bot.dev.workspace.feishu.methods import OpenApiCall
from bot.dev.workspace.feishu.refused import FeishuError
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.webapi import abort_connection
from bot.dev.workspace.workspace import WebApiCall
from bot.dev.workspace.world import Json

Run = Callable[[FeishuWorkspace, OpenApiCall], Json | web.Response]
SEND = "im:message im:message:send_as_bot"
READ = "im:message im:message:readonly"
PEOPLE = "contact:contact.base:readonly contact:contact:readonly_as_app"
MESSAGE = "im/v1/messages/{message_id}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint. `scopes`, separated by spaces, of which the app needs one; empty for those without."""

    name: str
    method: str
    path: str
    run: Run
    scopes: str = ""
    is_flat: bool = False
    """Whether the answer stands beside `code` instead of under `data`."""


ENDPOINTS = (
    Endpoint(
        "auth.token", "POST", "auth/v3/tenant_access_token/internal", directory.get_tenant_token, is_flat=True
    ),
    Endpoint("bot.info", "GET", "bot/v3/info", directory.get_bot_info, is_flat=True),
    Endpoint("tenant.query", "GET", "tenant/v2/tenant/query", directory.query_tenant, "tenant:tenant:readonly"),
    Endpoint("app.scopes", "GET", "application/v6/scopes", directory.list_scopes),
    Endpoint("message.send", "POST", "im/v1/messages", methods.create_message, SEND),
    Endpoint("message.list", "GET", "im/v1/messages", methods.list_messages, READ),
    Endpoint("message.send", "POST", f"{MESSAGE}/reply", methods.reply_message, SEND),
    Endpoint("message.patch", "PATCH", MESSAGE, methods.patch_message, f"{SEND} im:message:update"),
    Endpoint("message.get", "GET", MESSAGE, methods.get_message, READ),
    Endpoint("resource.get", "GET", f"{MESSAGE}/resources/{{key}}", methods.get_resource, READ),
    Endpoint("reaction.create", "POST", f"{MESSAGE}/reactions", methods.create_reaction,
             "im:message im:message.reactions:write_only"),
    Endpoint("reaction.delete", "DELETE", f"{MESSAGE}/reactions/{{reaction_id}}", methods.delete_reaction,
             "im:message im:message.reactions:write_only"),
    Endpoint("image.create", "POST", "im/v1/images", methods.upload_image, "im:resource im:resource:upload"),
    Endpoint("files.create", "POST", "im/v1/files", methods.upload_file, "im:resource im:resource:upload"),
    Endpoint("ephemeral.send", "POST", "ephemeral/v1/send", methods.send_ephemeral, SEND),
    Endpoint("user.get", "GET", "contact/v3/users/{user_id}", directory.get_user, PEOPLE),
    Endpoint("user.list", "GET", "contact/v3/users/find_by_department", directory.find_by_department, PEOPLE),
    Endpoint("user.find", "POST", "contact/v3/users/batch_get_id", directory.batch_get_id, "contact:user.id:readonly"),
    Endpoint("department.list", "GET", "contact/v3/departments/{department_id}/children", directory.list_departments,
             PEOPLE),
    Endpoint("department.get", "GET", "contact/v3/departments/{department_id}", directory.get_department_by_id, PEOPLE),
    Endpoint("chat.get", "GET", "im/v1/chats/{chat_id}", directory.get_chat, "im:chat im:chat:readonly"),
    Endpoint("chat.members", "GET", "im/v1/chats/{chat_id}/members", directory.list_members,
             "im:chat im:chat:readonly im:chat.members:read"),
    Endpoint("chat.p2p", "POST", "im/v1/chat_p2p/batch_query", directory.find_p2p_chats, "im:chat im:chat:readonly"),
)  # fmt: skip


class OpenApi:
    """Answers the app's calls."""

    def __init__(self, workspace: FeishuWorkspace) -> None:
        self.ws = workspace

    def build_routes(self) -> list[web.RouteDef]:
        exact_first = sorted(ENDPOINTS, key=lambda one: one.path.count("{"))
        return [
            *(
                web.route(one.method, f"/open-apis/{one.path}", partial(self._answer_request, endpoint=one))
                for one in exact_first
            ),
            web.post("/callback/ws/endpoint", self.open_connection),
            web.get("/ws/v2", self.ws.sockets.handle_request),
        ]

    async def open_connection(self, request: web.Request) -> web.Response:
        body, name = await request.json(), "connection.open"
        fault = self.ws.faults.take_fault(name)
        is_app = (body.get("AppID"), body.get("AppSecret")) == (self.ws.setup.app_id, self.ws.setup.app_secret)
        answer = {"code": 514, "msg": "app_id or app_secret is invalid", "data": None}
        if isinstance(fault, str) and fault.isdigit():
            answer = {"code": int(fault), "msg": "refused", "data": None}
        elif fault is not None:
            return break_call(request, fault)
        elif is_app:
            answer = self.ws.sockets.build_endpoint(request.host)
        self._note_call(name, {}, answer["code"])
        return web.json_response(answer)

    async def _answer_request(self, request: web.Request, endpoint: Endpoint) -> web.StreamResponse:
        log_id, name, call = secrets.token_hex(16), endpoint.name, OpenApiCall()
        headers = {"X-Tt-Logid": log_id, "X-Request-Id": log_id}
        fault, code, answer = self.ws.faults.take_fault(name), 0, web.Response()
        try:
            if fault not in (None, "drop_after"):
                self._note_call(name, {}, fault)
                return break_call(request, fault)
            if name != "auth.token":
                self._authorize_call(request, endpoint)
            call = await read_call(request)
            found = endpoint.run(self.ws, call)
            if isinstance(found, web.Response):
                answer = found
                answer.headers.update(headers)
            else:
                body = found if endpoint.is_flat else {"data": found}
                answer = web.json_response({"code": 0, "msg": "success", **body}, headers=headers)
        except FeishuError as refused:
            code = refused.code
            if code == 99991400:
                seconds = str(self.ws.faults.retry_after_seconds)
                headers |= {"x-ogw-ratelimit-limit": "50", "x-ogw-ratelimit-reset": seconds}
            error = {"log_id": log_id, "troubleshooter": "", **refused.details}
            refusal = {"code": code, "msg": refused.words, "error": error}
            answer = web.json_response(refusal, status=refused.status, headers=headers)
        self._note_call(name, {**call.ids, **call.query, **call.body}, code)
        if delay_s := self.ws.faults.get_delay_s(name):
            await asyncio.sleep(delay_s)
        return abort_connection(request) if fault == "drop_after" else answer

    def _note_call(self, name: str, args: Json, code: Any) -> None:
        self.ws.calls.append(WebApiCall(name, args, str(code or "")))
        self.ws.notify_change("calls")

    def _authorize_call(self, request: web.Request, endpoint: Endpoint) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token:
            raise FeishuError(99991661)
        if self.ws.tokens.get(token, 0.0) < self.ws.clock():
            raise FeishuError(99991663)
        if endpoint.scopes and not {*endpoint.scopes.split()} & self.ws.setup.scopes:
            wanted = [{"type": "action_scope_required", "subject": one} for one in endpoint.scopes.split()]
            raise FeishuError(99991672, f"[{endpoint.scopes.replace(' ', ', ')}]", permission_violations=wanted)


def break_call(request: web.Request, fault: Outcome | None) -> web.Response:
    """Break the connection, or answer with an HTTP status. Raises `FeishuError` for a code."""
    if fault in ("drop", "drop_after"):
        return abort_connection(request)
    if isinstance(fault, str):
        raise FeishuError(int(fault))
    if fault == 429:
        raise FeishuError(99991400, status=429)
    return web.Response(status=fault or 500, text="upstream error")


async def read_call(request: web.Request) -> OpenApiCall:
    """Read the arguments of a call: from JSON, or from a form with a file. Raises `FeishuError`."""
    ids, query = dict(request.match_info), dict(request.query)
    if request.content_type == "multipart/form-data":
        fields, form = {}, await request.post()
        upload = next((part.file.read() for part in form.values() if isinstance(part, web.FileField)), b"")
        fields = {name: part for name, part in form.items() if isinstance(part, str)}
        return OpenApiCall(ids, query, fields, upload)
    text = await request.text()
    try:
        body = json.loads(text) if text else {}
    except ValueError:
        raise FeishuError(99992402, ": the body is no JSON") from None
    if not isinstance(body, dict):
        raise FeishuError(99992402, ": the body is no JSON object")
    return OpenApiCall(ids, query, body)
