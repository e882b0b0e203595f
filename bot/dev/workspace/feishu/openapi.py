"""The open API under `/open-apis/`: tokens, scopes, and the table of endpoints."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from bot.dev.workspace.feishu import directory, methods
from bot.dev.workspace.feishu.methods import OpenApiCall
from bot.dev.workspace.feishu.refused import FeishuError
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.world import Json

Run = Callable[[FeishuWorkspace, OpenApiCall], Json | web.Response]
SEND = "im:message im:message:send_as_bot"
READ = "im:message im:message:readonly"
PEOPLE = "contact:contact.base:readonly contact:contact:readonly_as_app"
MESSAGE = "im/v1/messages/{message_id}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint. `scopes`, separated by spaces, of which the app needs one; empty for those without."""

    method: str
    path: str
    run: Run
    scopes: str = ""
    is_flat: bool = False
    """Whether the answer stands beside `code` instead of under `data`."""


ENDPOINTS = (
    Endpoint("POST", "auth/v3/tenant_access_token/internal", directory.get_tenant_token, is_flat=True),
    Endpoint("GET", "bot/v3/info", directory.get_bot_info, is_flat=True),
    Endpoint("GET", "tenant/v2/tenant/query", directory.query_tenant, "tenant:tenant:readonly"),
    Endpoint("GET", "application/v6/scopes", directory.list_scopes),
    Endpoint("POST", "im/v1/messages", methods.create_message, SEND),
    Endpoint("GET", "im/v1/messages", methods.list_messages, READ),
    Endpoint("POST", f"{MESSAGE}/reply", methods.reply_message, SEND),
    Endpoint("PATCH", MESSAGE, methods.patch_message, f"{SEND} im:message:update"),
    Endpoint("GET", MESSAGE, methods.get_message, READ),
    Endpoint("GET", f"{MESSAGE}/resources/{{key}}", methods.get_resource, READ),
    Endpoint("POST", f"{MESSAGE}/reactions", methods.create_reaction, "im:message im:message.reactions:write_only"),
    Endpoint("DELETE", f"{MESSAGE}/reactions/{{reaction_id}}", methods.delete_reaction,
             "im:message im:message.reactions:write_only"),
    Endpoint("POST", "im/v1/images", methods.upload_image, "im:resource im:resource:upload"),
    Endpoint("POST", "im/v1/files", methods.upload_file, "im:resource im:resource:upload"),
    Endpoint("POST", "ephemeral/v1/send", methods.send_ephemeral, SEND),
    Endpoint("GET", "contact/v3/users/{user_id}", directory.get_user, PEOPLE),
    Endpoint("GET", "contact/v3/users/find_by_department", directory.find_by_department, PEOPLE),
    Endpoint("POST", "contact/v3/users/batch_get_id", directory.batch_get_id, "contact:user.id:readonly"),
    Endpoint("GET", "contact/v3/departments/{department_id}/children", directory.list_departments, PEOPLE),
    Endpoint("GET", "contact/v3/departments/{department_id}", directory.get_department_by_id, PEOPLE),
    Endpoint("GET", "im/v1/chats/{chat_id}", directory.get_chat, "im:chat im:chat:readonly"),
    Endpoint("GET", "im/v1/chats/{chat_id}/members", directory.list_members,
             "im:chat im:chat:readonly im:chat.members:read"),
    Endpoint("POST", "im/v1/chat_p2p/batch_query", directory.find_p2p_chats, "im:chat im:chat:readonly"),
)  # fmt: skip


def build_routes(ws: FeishuWorkspace) -> list[web.RouteDef]:
    exact_first = sorted(ENDPOINTS, key=lambda one: one.path.count("{"))
    return [
        *(web.route(one.method, f"/open-apis/{one.path}", partial(answer_call, ws, one)) for one in exact_first),
        web.post("/callback/ws/endpoint", partial(open_connection, ws)),
        web.get("/ws/v2", ws.sockets.handle_request),
    ]


async def open_connection(ws: FeishuWorkspace, request: web.Request) -> web.Response:
    body = await request.json()
    if (body.get("AppID"), body.get("AppSecret")) == (ws.setup.app_id, ws.setup.app_secret):
        return web.json_response(ws.sockets.build_endpoint(request.host))
    return web.json_response({"code": 514, "msg": "app_id or app_secret is invalid", "data": None})


async def answer_call(ws: FeishuWorkspace, endpoint: Endpoint, request: web.Request) -> web.Response:
    """Answer the app's call of an endpoint."""
    log_id = secrets.token_hex(16)
    try:
        if endpoint.run is not directory.get_tenant_token:
            authorize_call(ws, endpoint, request)
        found = endpoint.run(ws, await read_call(request))
        if isinstance(found, web.Response):
            answer = found
        else:
            body = found if endpoint.is_flat else {"data": found}
            answer = web.json_response({"code": 0, "msg": "success", **body})
    except FeishuError as refused:
        error = {"log_id": log_id, "troubleshooter": "", **refused.details}
        answer = web.json_response({"code": refused.code, "msg": refused.words, "error": error}, status=refused.status)
    answer.headers.update({"X-Tt-Logid": log_id, "X-Request-Id": log_id})
    return answer


def authorize_call(ws: FeishuWorkspace, endpoint: Endpoint, request: web.Request) -> None:
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not token:
        raise FeishuError(99991661)
    if ws.tokens.get(token, 0.0) < ws.clock():
        raise FeishuError(99991663)
    if endpoint.scopes and not {*endpoint.scopes.split()} & ws.setup.scopes:
        wanted = [{"type": "action_scope_required", "subject": one} for one in endpoint.scopes.split()]
        raise FeishuError(99991672, f"[{endpoint.scopes.replace(' ', ', ')}]", permission_violations=wanted)


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
