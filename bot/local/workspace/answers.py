"""What an app answers to an interaction: at its response URL, or in the acknowledgement of a slash command."""

from __future__ import annotations

from aiohttp import web

from bot.local.workspace import posting
from bot.local.workspace.arguments import Args, read_json
from bot.local.workspace.methods_chat import shown_content
from bot.local.workspace.once import ReplyUrl
from bot.local.workspace.refused import Refused
from bot.local.workspace.workspace import Workspace
from bot.local.workspace.world import Json


class ReplyUrlApi:
    """`POST /response/{key}`"""

    def __init__(self, workspace: Workspace) -> None:
        self.ws = workspace

    async def handle(self, request: web.Request) -> web.Response:
        try:
            body = await read_json(request)
            reply = self.ws.reply_urls.use(request.match_info["key"])
            answer(self.ws, reply, body)
        except Refused as refused:
            return web.json_response(refused.body(), status=404)
        return web.Response(text="ok")


def answer(ws: Workspace, reply: ReplyUrl, body: Json) -> None:
    """Show the answer where the interaction was: privately unless `response_type` is `in_channel`, or in place of the
    message it began at with `replace_original`."""
    if body.get("delete_original") or body.get("replace_original"):
        replace(ws, reply, body)
        return
    found = shown_content(Args(body))
    room = ws.state.rooms[reply.channel]
    thread = body.get("thread_ts")
    if body.get("response_type") == "in_channel":
        posting.post(ws, room, {"text": "", **found, **posting.bot_fields(ws)}, thread)
    else:
        posting.whisper(ws, room, reply.person, found.get("text", ""), found.get("blocks", []), thread)


def replace(ws: Workspace, reply: ReplyUrl, body: Json) -> None:
    if reply.message is None:
        raise Refused("message_not_found")
    if reply.private:
        replace_private(ws, reply, body)
        return
    room, message = ws.state.rooms[reply.channel], posting.find(ws, reply.channel, reply.message)
    if body.get("delete_original"):
        posting.remove(ws, room, message)
    else:
        posting.amend(ws, room, message, shown_content(Args(body)), ws.app.user)


def replace_private(ws: Workspace, reply: ReplyUrl, body: Json) -> None:
    notices = ws.state.private.get(reply.person, [])
    notice = next((n for n in notices if n["ts"] == reply.message), None)
    if notice is None:
        raise Refused("message_not_found")
    if body.get("delete_original"):
        notices.remove(notice)
    else:
        notice |= {"blocks": [], **shown_content(Args(body))}
    ws.tell("private", reply.channel, reply.person)
