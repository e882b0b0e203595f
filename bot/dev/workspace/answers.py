"""Answers of an app to an interaction: at its response URL, or in the acknowledgement of a slash command."""

from __future__ import annotations

from aiohttp import web

from bot.dev.workspace import posting
from bot.dev.workspace.arguments import MethodArguments, read_json_body
from bot.dev.workspace.methods_chat import require_message_content
from bot.dev.workspace.once import ResponseUrl
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json


class ResponseUrlApi:
    """`POST /response/{key}`: takes an app's answer to an interaction."""

    def __init__(self, workspace: Workspace) -> None:
        self.ws = workspace

    async def handle_request(self, request: web.Request) -> web.Response:
        try:
            body = await read_json_body(request)
            reply = self.ws.reply_urls.use_url(request.match_info["key"])
            apply_response(self.ws, reply, body)
        except WorkspaceError as refused:
            return web.json_response(refused.to_body(), status=404)
        return web.Response(text="ok")


def apply_response(ws: Workspace, reply: ResponseUrl, body: Json) -> None:
    """Show the answer in the place of the interaction: privately, or publicly if `response_type` is `in_channel`. With
    `replace_original`, it replaces the interaction's message."""
    if body.get("delete_original") or body.get("replace_original"):
        replace_original(ws, reply, body)
        return
    found = require_message_content(MethodArguments(body))
    room = ws.state.rooms[reply.channel]
    thread = body.get("thread_ts")
    if body.get("response_type") == "in_channel":
        posting.post_message(ws, room, {"text": "", **found, **posting.build_bot_fields(ws)}, thread)
    else:
        posting.post_ephemeral(ws, room, reply.person, found.get("text", ""), found.get("blocks", []), thread)


def replace_original(ws: Workspace, reply: ResponseUrl, body: Json) -> None:
    if reply.message is None:
        raise WorkspaceError("message_not_found")
    if reply.is_ephemeral:
        replace_ephemeral(ws, reply, body)
        return
    room, message = ws.state.rooms[reply.channel], posting.get_message(ws, reply.channel, reply.message)
    if body.get("delete_original"):
        posting.remove_message(ws, room, message)
    else:
        posting.update_message(ws, room, message, require_message_content(MethodArguments(body)), ws.app.user)


def replace_ephemeral(ws: Workspace, reply: ResponseUrl, body: Json) -> None:
    notices = ws.state.private.get(reply.person, [])
    notice = next((n for n in notices if n["ts"] == reply.message), None)
    if notice is None:
        raise WorkspaceError("message_not_found")
    if body.get("delete_original"):
        notices.remove(notice)
    else:
        notice |= {"blocks": [], **require_message_content(MethodArguments(body))}
    ws.notify_change("private", reply.channel, reply.person)
