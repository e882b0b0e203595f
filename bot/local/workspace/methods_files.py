"""Web API: uploading a file in three steps (get a URL, put the bytes there, complete)."""

from __future__ import annotations

import secrets

from aiohttp import web

from bot.local.workspace import posting
from bot.local.workspace.arguments import Args
from bot.local.workspace.methods_chat import bot_room
from bot.local.workspace.refused import Refused
from bot.local.workspace.workspace import Workspace
from bot.local.workspace.world import Json

MOST_BYTES = 1_000_000
MOST_FILES = 50


def get_upload_url(ws: Workspace, args: Args) -> Json:
    name, length = args.need("filename"), args.number("length", 0, MOST_BYTES)
    if len(ws.files) >= MOST_FILES:
        ws.files.pop(next(iter(ws.files)))
    id = "F" + secrets.token_hex(5).upper()
    ws.files[id] = {"id": id, "name": name, "title": name, "size": length, "key": secrets.token_hex(16)}
    return {"upload_url": f"{ws.address}/upload/{ws.files[id]['key']}", "file_id": id}


class Upload:
    """`POST /upload/{key}`: the bytes, raw or as a form."""

    def __init__(self, workspace: Workspace) -> None:
        self.ws = workspace

    async def handle(self, request: web.Request) -> web.Response:
        file = next((f for f in self.ws.files.values() if f["key"] == request.match_info["key"]), None)
        if file is None:
            return web.Response(status=404, text="no such upload")
        data = await request.read()
        if len(data) > 2 * MOST_BYTES:
            return web.Response(status=413, text="too large")
        file["bytes"] = data
        return web.Response(text=f"OK - {len(data)}")


def complete_upload(ws: Workspace, args: Args) -> Json:
    wanted = args.json("files")
    if not isinstance(wanted, list) or not wanted:
        raise Refused("invalid_arguments", ["[ERROR] missing required field: files"])
    files = [described(ws, file) for file in wanted]
    if args.text("channel_id"):
        room = bot_room(ws, args.text("channel_id"))
        message = {"text": args.text("initial_comment"), "files": files, **posting.bot_fields(ws)}
        posting.post(ws, room, message, args.text("thread_ts") or None)
    return {"files": files}


def described(ws: Workspace, wanted: object) -> Json:
    file = ws.files.get(str(wanted.get("id"))) if isinstance(wanted, dict) else None
    if file is None or not isinstance(wanted, dict) or "bytes" not in file:
        raise Refused("file_not_found")
    return {"id": file["id"], "name": file["name"], "title": wanted.get("title") or file["title"], "size": file["size"]}
