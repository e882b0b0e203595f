"""The Web API as far as the bot uses it: `POST /api/{method}` in all three encodings, with the platform's errors
and scopes."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from aiohttp import web

from bot.dev.workspace import methods_chat, methods_files, methods_people, views
from bot.dev.workspace.arguments import MethodArguments, read_method_arguments
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import WebApiCall, Workspace
from bot.dev.workspace.world import Json

Run: TypeAlias = Callable[[Workspace, MethodArguments], Json]


@dataclass(frozen=True, slots=True)
class WebApiMethod:
    run: Run
    scope: str = ""
    """Scopes separated by spaces, of which one is needed."""
    token: str = "bot"  # noqa: S105  a kind of token
    """`bot` or `app`."""


@dataclass(frozen=True, slots=True)
class WebApiAnswer:
    body: Json
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


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


class WebApi:
    """Answers the app's Web API calls."""

    def __init__(self, workspace: Workspace) -> None:
        self.ws = workspace

    async def handle_request(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["method"]
        fault = self.ws.faults.take_fault(name)
        if fault == "drop":
            return abort_connection(request)
        args, answer = MethodArguments({}), WebApiAnswer({})
        try:
            args = await read_method_arguments(request)
            if fault is None or fault == "drop_after":
                answer = self._call_method(request, name, args)
            elif fault == 429:
                seconds = str(self.ws.faults.retry_after_seconds)
                answer = WebApiAnswer({"ok": False, "error": "ratelimited"}, 429, {"Retry-After": seconds})
            elif isinstance(fault, int):
                answer = WebApiAnswer({"ok": False, "error": "internal_error"}, fault)
            else:
                raise WorkspaceError(fault)
        except WorkspaceError as refused:
            answer = WebApiAnswer(refused.to_body())
        values = {key: value for key, value in args.values.items() if key != "token"}
        self.ws.calls.append(WebApiCall(name, values, str(answer.body.get("error", ""))))
        self.ws.notify_change("calls")
        if delay_s := self.ws.faults.get_delay_s(name):
            await asyncio.sleep(delay_s)
        if fault == "drop_after":
            return abort_connection(request)
        scopes = ",".join(sorted(self.ws.setup.scopes))
        headers = {"X-OAuth-Scopes": scopes, "X-Slack-Req-Id": secrets.token_hex(16), **answer.headers}
        return web.json_response(answer.body, status=answer.status, headers=headers)

    def _call_method(self, request: web.Request, name: str, args: MethodArguments) -> WebApiAnswer:
        method = METHODS.get(name)
        if method is None:
            raise WorkspaceError("unknown_method", req_method=name)
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        token = bearer.strip() if scheme.lower() == "bearer" else args.read_text("token")
        if not token:
            raise WorkspaceError("not_authed")
        kinds = {"bot": self.ws.setup.bot_token, "app": self.ws.setup.app_token}
        kind = next((k for k, known in kinds.items() if hmac.compare_digest(known.encode(), token.encode())), "")
        if not kind:
            raise WorkspaceError("invalid_auth")
        if kind != method.token:
            raise WorkspaceError("not_allowed_token_type")
        if method.scope and not set(method.scope.split()) & self.ws.setup.scopes:
            provided = ",".join(sorted(self.ws.setup.scopes))
            raise WorkspaceError("missing_scope", needed=method.scope.split()[0], provided=provided)
        return WebApiAnswer({"ok": True, **method.run(self.ws, args)})


def abort_connection(request: web.Request) -> web.Response:
    """Break the connection instead of answering."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
