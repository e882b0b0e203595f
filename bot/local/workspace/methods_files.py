"""Web API: uploading a file in three steps (get a URL, put the bytes there, complete), and showing it on the page.

Files are kept in memory only: after a restart their messages are still there, with what the files are called."""

from __future__ import annotations

import secrets

from aiohttp import web

from bot.local.workspace import posting
from bot.local.workspace.arguments import MethodArguments
from bot.local.workspace.methods_chat import get_bot_room
from bot.local.workspace.refused import WorkspaceError
from bot.local.workspace.workspace import SharedFile, Workspace
from bot.local.workspace.world import Json

MOST_BYTES = 1_000_000
MOST_FILES = 50
ALT_CHARS = 1_000
PICTURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
"""How the files begin that the page shows; every other one is only named."""
OTHER = "application/octet-stream"


def files_get_upload_url_external(ws: Workspace, args: MethodArguments) -> Json:
    name, length, alt = (
        args.require_text("filename"),
        args.read_number("length", 0, MOST_BYTES),
        args.read_text("alt_txt"),
    )
    if len(alt) > ALT_CHARS:
        raise WorkspaceError("alt_txt_too_large")
    if len(ws.files) >= MOST_FILES:
        ws.files.pop(next(iter(ws.files)))
    file = SharedFile(name, length, alt)
    ws.files[file.id] = file
    return {"upload_url": f"{ws.address}/upload/{file.key}", "file_id": file.id}


class FileUploadApi:
    """`POST /upload/{key}`: the bytes, raw or as a form; once, and as many as were announced."""

    def __init__(self, workspace: Workspace) -> None:
        self.ws = workspace

    async def handle_request(self, request: web.Request) -> web.Response:
        key = request.match_info["key"]
        file = next((f for f in self.ws.files.values() if secrets.compare_digest(f.key.encode(), key.encode())), None)
        if file is None or file.content is not None:
            return web.Response(status=404, text="no such upload")
        content = await read_upload_body(request)
        if len(content) != file.length:
            return web.Response(status=400, text="not the announced length")
        file.content = content
        return web.Response(text=f"OK - {len(content)}")


async def read_upload_body(request: web.Request) -> bytes:
    if request.content_type != "multipart/form-data":
        return await request.read()
    parts = (await request.post()).values()
    return next((part.file.read() for part in parts if isinstance(part, web.FileField)), b"")


def files_complete_upload_external(ws: Workspace, args: MethodArguments) -> Json:
    wanted = args.read_json("files")
    if not isinstance(wanted, list) or not wanted:
        raise WorkspaceError("invalid_arguments", ["[ERROR] missing required field: files"])
    chosen = [(get_complete_file(ws, one), one) for one in wanted]
    files = [build_file_object(file, one.get("title")) for file, one in chosen]
    if args.read_text("channel_id"):
        room = get_bot_room(ws, args.read_text("channel_id"))
        message = {"text": args.read_text("initial_comment"), "files": files, **posting.build_bot_fields(ws)}
        posting.post_message(ws, room, message, args.read_text("thread_ts") or None)
        for file, _ in chosen:
            file.rooms.add(room.id)
    return {"files": files}


def get_complete_file(ws: Workspace, wanted: object) -> SharedFile:
    file = ws.files.get(str(wanted.get("id"))) if isinstance(wanted, dict) else None
    if file is None or file.content is None:
        raise WorkspaceError("file_not_found")
    return file


def detect_mime_type(file: SharedFile) -> str:
    """By what is in it, whatever its name says."""
    return next((kind for head, kind in PICTURES.items() if (file.content or b"").startswith(head)), OTHER)


def build_file_object(file: SharedFile, title: object) -> Json:
    shown = {"id": file.id, "name": file.name, "title": str(title or file.name), "size": file.length}
    return {**shown, "mimetype": detect_mime_type(file), **({"alt_txt": file.alt} if file.alt else {})}


def get_shared_picture(ws: Workspace, id: str, person: str) -> SharedFile:
    """A picture that was shared where this person is. `WorkspaceError` for any other file."""
    file = ws.files.get(id)
    if (
        file is None
        or detect_mime_type(file) == OTHER
        or not any(person in ws.state.rooms[room].members for room in file.rooms)
    ):
        raise WorkspaceError("file_not_found")
    return file
