"""The Web API: `POST /api/{method}` in all three encodings, with the platform's errors, scopes and rate limits."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from aiohttp import web

from bot.local.workspace import methods_chat, methods_files, methods_people, methods_views
from bot.local.workspace.arguments import Args, read_args
from bot.local.workspace.faults import Outcome
from bot.local.workspace.refused import Refused
from bot.local.workspace.workspace import Call, Workspace
from bot.local.workspace.world import Json

Run: TypeAlias = Callable[[Workspace, Args], Json]


@dataclass(frozen=True, slots=True)
class Method:
    run: Run
    scope: str = ""
    """Scopes of which one is needed, separated by spaces."""
    token: str = "bot"  # noqa: S105  a kind of token
    """`bot`, `app`, or empty for a method that asks for none."""


@dataclass(frozen=True, slots=True)
class Answer:
    body: Json
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


READ_HISTORY = "channels:history groups:history im:history"
READ_ROOMS = "channels:read groups:read im:read"


def api_test(ws: Workspace, args: Args) -> Json:
    if args.has("error"):
        raise Refused(args.text("error"), args=args.values)
    return {"args": args.values}


def connections_open(ws: Workspace, args: Args) -> Json:
    address = ws.address.replace("http://", "ws://", 1)
    return {"url": f"{address}/link/?ticket={ws.sockets.ticket()}&app_id={ws.app.app}"}


METHODS: dict[str, Method] = {
    "api.test": Method(api_test, token=""),
    "auth.test": Method(methods_people.auth_test),
    "apps.connections.open": Method(connections_open, token="app"),  # noqa: S106
    "blocks.validate": Method(methods_views.blocks_validate, token=""),
    "chat.postMessage": Method(methods_chat.post_message, "chat:write"),
    "chat.update": Method(methods_chat.update, "chat:write"),
    "chat.delete": Method(methods_chat.delete, "chat:write"),
    "chat.postEphemeral": Method(methods_chat.post_ephemeral, "chat:write"),
    "chat.getPermalink": Method(methods_chat.get_permalink),
    "assistant.threads.setStatus": Method(methods_chat.set_status, "chat:write"),
    "conversations.open": Method(methods_people.conversations_open, "im:write"),
    "conversations.info": Method(methods_people.conversations_info, READ_ROOMS),
    "conversations.list": Method(methods_people.conversations_list, READ_ROOMS),
    "conversations.members": Method(methods_people.conversations_members, READ_ROOMS),
    "conversations.history": Method(methods_chat.history, READ_HISTORY),
    "conversations.replies": Method(methods_chat.replies, READ_HISTORY),
    "users.info": Method(methods_people.users_info, "users:read"),
    "users.list": Method(methods_people.users_list, "users:read"),
    "users.lookupByEmail": Method(methods_people.lookup_by_email, "users:read.email"),
    "users.profile.get": Method(methods_people.profile_get, "users.profile:read"),
    "team.profile.get": Method(methods_people.team_profile, "users.profile:read"),
    "team.info": Method(methods_people.team_info, "team:read"),
    "bots.info": Method(methods_people.bots_info, "users:read"),
    "reactions.add": Method(methods_chat.reactions_add, "reactions:write"),
    "reactions.remove": Method(methods_chat.reactions_remove, "reactions:write"),
    "views.open": Method(methods_views.views_open),
    "views.push": Method(methods_views.views_push),
    "views.update": Method(methods_views.views_update),
    "views.publish": Method(methods_views.views_publish),
    "files.getUploadURLExternal": Method(methods_files.get_upload_url, "files:write"),
    "files.completeUploadExternal": Method(methods_files.complete_upload, "files:write"),
}


class WebApi:
    """Answers the app's calls."""

    def __init__(self, workspace: Workspace) -> None:
        self.ws = workspace

    async def handle(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["method"]
        fault = self.ws.faults.take(name)
        if fault == "drop":
            return broken(request)
        args, answer = Args({}), Answer({})
        try:
            args = await read_args(request)
            answer = self._faulty(fault) or self._called(request, name, args)
        except Refused as refused:
            answer = Answer(refused.body())
        self._noted(name, args, answer)
        return broken(request) if fault == "drop_after" else self._response(answer)

    def _faulty(self, fault: Outcome | None) -> Answer | None:
        if fault is None or fault == "drop_after":
            return None
        if fault == 429:
            return limited(self.ws.faults.retry_after_seconds)
        if isinstance(fault, int):
            return Answer({"ok": False, "error": "internal_error"}, fault)
        raise Refused(fault)

    def _called(self, request: web.Request, name: str, args: Args) -> Answer:
        method = METHODS.get(name)
        if method is None:
            raise Refused("unknown_method", req_method=name)
        if method.token:
            self._authorize(request, args, method)
        if wait := self.ws.limiter.wait_seconds(name, args.text("channel")):
            return limited(wait)
        return Answer({"ok": True, **method.run(self.ws, args)})

    def _authorize(self, request: web.Request, args: Args, method: Method) -> None:
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        token = bearer.strip() if scheme.lower() == "bearer" else args.text("token")
        if not token:
            raise Refused("not_authed")
        kinds = {"bot": self.ws.setup.bot_token, "app": self.ws.setup.app_token}
        kind = next((k for k, known in kinds.items() if hmac.compare_digest(known.encode(), token.encode())), "")
        if not kind:
            raise Refused("invalid_auth")
        if kind != method.token:
            raise Refused("not_allowed_token_type")
        if method.scope and not set(method.scope.split()) & self.ws.setup.scopes:
            provided = ",".join(sorted(self.ws.setup.scopes))
            raise Refused("missing_scope", needed=method.scope.split()[0], provided=provided)

    def _noted(self, name: str, args: Args, answer: Answer) -> None:
        values = {key: value for key, value in args.values.items() if key != "token"}
        self.ws.calls.append(Call(name, values, str(answer.body.get("error", ""))))
        self.ws.tell("calls")

    def _response(self, answer: Answer) -> web.Response:
        scopes = ",".join(sorted(self.ws.setup.scopes))
        headers = {"X-OAuth-Scopes": scopes, "X-Slack-Req-Id": secrets.token_hex(16), **answer.headers}
        return web.json_response(answer.body, status=answer.status, headers=headers)


def limited(seconds: int) -> Answer:
    return Answer({"ok": False, "error": "ratelimited"}, 429, {"Retry-After": str(seconds)})


def broken(request: web.Request) -> web.Response:
    """The connection breaks instead of an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
