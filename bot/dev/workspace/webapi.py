"""The Web API as far as the bot uses it: `POST /api/{method}` in all three encodings, with the platform's errors
and scopes."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiohttp import web

from bot.dev.workspace import methods_chat, methods_files, methods_people, views
from bot.dev.workspace.arguments import MethodArguments, read_method_arguments
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json

Run: TypeAlias = Callable[[Workspace, MethodArguments], Json]


@dataclass(frozen=True, slots=True)
class WebApiMethod:
    run: Run
    scope: str = ""
    """Scopes separated by spaces, of which one is needed."""
    token: str = "bot"  # noqa: S105  a kind of token
    """`bot` or `app`."""


READ_HISTORY = "channels:history groups:history im:history mpim:history"
READ_ROOMS = "channels:read groups:read im:read mpim:read"


def apps_connections_open(ws: Workspace, args: MethodArguments) -> Json:
    address = ws.address.replace("http://", "ws://", 1)
    return {"url": f"{address}/link/?ticket={ws.sockets.create_ticket()}&app_id={ws.app.app}"}


METHODS: dict[str, WebApiMethod] = {
    "auth.test": WebApiMethod(methods_people.auth_test),
    "apps.connections.open": WebApiMethod(apps_connections_open, token="app"),  # noqa: S106
    "chat.postMessage": WebApiMethod(methods_chat.chat_post_message, "chat:write"),
    "chat.update": WebApiMethod(methods_chat.chat_update, "chat:write"),
    "chat.postEphemeral": WebApiMethod(methods_chat.chat_post_ephemeral, "chat:write"),
    "assistant.threads.setStatus": WebApiMethod(methods_chat.assistant_threads_set_status, "chat:write"),
    "assistant.threads.setSuggestedPrompts": WebApiMethod(
        methods_chat.assistant_threads_set_suggested_prompts, "assistant:write"
    ),
    "agents.sessions.setStatus": WebApiMethod(methods_chat.agents_sessions_set_status, "chat:write"),
    "conversations.open": WebApiMethod(methods_people.conversations_open, "im:write"),
    "conversations.info": WebApiMethod(methods_people.conversations_info, READ_ROOMS),
    "conversations.members": WebApiMethod(methods_people.conversations_members, READ_ROOMS),
    "conversations.history": WebApiMethod(methods_chat.conversations_history, READ_HISTORY),
    "conversations.replies": WebApiMethod(methods_chat.conversations_replies, READ_HISTORY),
    "users.conversations": WebApiMethod(methods_people.users_conversations, READ_ROOMS),
    "users.info": WebApiMethod(methods_people.users_info, "users:read"),
    "users.list": WebApiMethod(methods_people.users_list, "users:read"),
    "users.lookupByEmail": WebApiMethod(methods_people.users_lookup_by_email, "users:read.email"),
    "users.profile.get": WebApiMethod(methods_people.users_profile_get, "users.profile:read"),
    "team.profile.get": WebApiMethod(methods_people.team_profile_get, "users.profile:read"),
    "views.open": WebApiMethod(views.views_open),
    "views.push": WebApiMethod(views.views_push),
    "views.update": WebApiMethod(views.views_update),
    "views.publish": WebApiMethod(views.views_publish),
    "files.info": WebApiMethod(methods_files.files_info, "files:read"),
    "files.getUploadURLExternal": WebApiMethod(methods_files.files_get_upload_url_external, "files:write"),
    "files.completeUploadExternal": WebApiMethod(methods_files.files_complete_upload_external, "files:write"),
}


async def handle_api_request(ws: Workspace, request: web.Request) -> web.Response:
    """Answer the app's call of a method."""
    try:
        body = {"ok": True, **call_method(ws, request, await read_method_arguments(request))}
    except WorkspaceError as refused:
        body = refused.to_body()
    headers = {"X-OAuth-Scopes": ",".join(sorted(ws.setup.scopes)), "X-Slack-Req-Id": secrets.token_hex(16)}
    return web.json_response(body, headers=headers)


def call_method(ws: Workspace, request: web.Request, args: MethodArguments) -> Json:
    """Call the method if the app's token and scopes allow it. Raises `WorkspaceError`."""
    name = request.match_info["method"]
    method = METHODS.get(name)
    if method is None:
        raise WorkspaceError("unknown_method", req_method=name)
    scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
    token = bearer.strip() if scheme.lower() == "bearer" else args.read_text("token")
    if not token:
        raise WorkspaceError("not_authed")
    kinds = {"bot": ws.setup.bot_token, "app": ws.setup.app_token}
    kind = next((k for k, known in kinds.items() if hmac.compare_digest(known.encode(), token.encode())), "")
    if not kind:
        raise WorkspaceError("invalid_auth")
    if kind != method.token:
        raise WorkspaceError("not_allowed_token_type")
    if method.scope and not set(method.scope.split()) & ws.setup.scopes:
        provided = ",".join(sorted(ws.setup.scopes))
        raise WorkspaceError("missing_scope", needed=method.scope.split()[0], provided=provided)
    return method.run(ws, args)
