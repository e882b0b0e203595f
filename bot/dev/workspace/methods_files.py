"""Files of the workspace: uploads, look-ups, downloads and their view on the page.

The app uploads in three steps (get a URL, put the bytes there, complete); people choose files on the page. Downloads
need the app's token. Files are kept in memory only: after a restart, messages still have the files' names."""

from __future__ import annotations

import hmac
import mimetypes
import secrets
from collections.abc import Callable
from functools import partial
from urllib.parse import quote

from aiohttp import web

from bot.dev.workspace import posting
from bot.dev.workspace.arguments import MethodArguments
from bot.dev.workspace.methods_chat import get_bot_room
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import SharedFile, Workspace
from bot.dev.workspace.world import Json

MOST_BYTES = 30_000_000
KEPT_BYTES = 200_000_000
"""Maximum bytes of all files together; the oldest are dropped first."""
MOST_FILES = 500
ALT_CHARS = 1_000
PICTURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
"""First bytes → type of the files that the page shows. Any other file is only named."""
OTHER = "application/octet-stream"
SIGN_IN = (
    "<!DOCTYPE html><html><head><title>Sign in | Slack</title></head><body>Sign in to your workspace</body></html>"
)
"""The platform's answer, with status 200, to a download without permission."""


def files_get_upload_url_external(ws: Workspace, args: MethodArguments) -> Json:
    name, length = args.require_text("filename"), args.read_number("length", 0, MOST_BYTES)
    if len(alt := args.read_text("alt_txt")) > ALT_CHARS:
        raise WorkspaceError("alt_txt_too_large")
    file = keep_file(ws, SharedFile(name, length, alt))
    return {"upload_url": f"{ws.address}/upload/{file.key}", "file_id": file.id}


def keep_file(ws: Workspace, file: SharedFile) -> SharedFile:
    """Keep a file and return it. The oldest files are dropped when there are too many."""
    ws.files[file.id] = file
    while len(ws.files) > 1 and (
        len(ws.files) > MOST_FILES or sum(one.length for one in ws.files.values()) > KEPT_BYTES
    ):
        ws.files.pop(next(iter(ws.files)))
    return file


def upload_file(ws: Workspace, person: str, name: str, content: bytes, *, is_external: bool = False) -> SharedFile:
    """Upload a file that a person has chosen in the composer or in a dialog. Nobody else sees it yet."""
    if not name.strip() or len(content) > MOST_BYTES:
        raise WorkspaceError("file_upload_failed")
    return keep_file(ws, SharedFile(name, len(content), "", content=content, user=person, is_external=is_external))


def get_file(ws: Workspace, id: object, is_usable: Callable[[SharedFile], bool]) -> SharedFile:
    """Return a file. Raises `WorkspaceError` if it does not exist or is not usable."""
    file = ws.files.get(str(id))
    if file is None or not is_usable(file):
        raise WorkspaceError("file_not_found")
    return file


def get_own_file(ws: Workspace, id: str, person: str) -> SharedFile:
    """Return a file that this person has uploaded. Raises `WorkspaceError`."""
    return get_file(ws, id, lambda file: file.user == person)


async def receive_upload(ws: Workspace, request: web.Request) -> web.Response:
    """Serve `POST /upload/{key}`: take the bytes once, and only in the announced length."""
    key = request.match_info["key"]
    file = next((f for f in ws.files.values() if secrets.compare_digest(f.key.encode(), key.encode())), None)
    if file is None or file.content is not None:
        return web.Response(status=404, text="no such upload")
    content = await request.read()
    if len(content) != file.length:
        return web.Response(status=400, text="not the announced length")
    file.content = content
    return web.Response(text=f"OK - {len(content)}")


def files_complete_upload_external(ws: Workspace, args: MethodArguments) -> Json:
    wanted = args.read_json("files")
    if not isinstance(wanted, list) or not wanted:
        raise WorkspaceError("invalid_arguments", ["[ERROR] missing required field: files"])
    chosen = [(get_complete_file(ws, one), one) for one in wanted]
    files = [build_file_object(ws, file, one.get("title")) for file, one in chosen]
    if args.read_text("channel_id"):
        room = get_bot_room(ws, args.read_text("channel_id"))
        message = {"text": args.read_text("initial_comment"), "files": files, **posting.build_bot_fields(ws)}
        posting.post_message(ws, room, message, args.read_text("thread_ts") or None)
        for file, _ in chosen:
            file.rooms.add(room.id)
    return {"files": files}


def get_complete_file(ws: Workspace, wanted: object) -> SharedFile:
    return get_file(ws, wanted.get("id") if isinstance(wanted, dict) else "", lambda file: file.content is not None)


def files_info(ws: Workspace, args: MethodArguments) -> Json:
    file = get_file(ws, args.require_text("file"), partial(is_visible_to_app, ws))
    return {"file": build_file_object(ws, file, None), "comments": []}


def is_visible_to_app(ws: Workspace, file: SharedFile) -> bool:
    return not file.user or file.is_in_dialog or any(ws.app.user in ws.state.rooms[room].members for room in file.rooms)


async def serve_download(ws: Workspace, request: web.Request) -> web.Response:
    """Serve `GET /files-pri/{id}/…`: return the bytes to the app's token with `files:read`. Anybody else gets a sign-in
    page with status 200."""
    file = ws.files.get(request.match_info["id"].rpartition("-")[2])
    bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
    is_app = hmac.compare_digest(bearer.encode(), ws.setup.bot_token.encode())
    if not is_app or "files:read" not in ws.setup.scopes or file is None or not is_visible_to_app(ws, file):
        return web.Response(text=SIGN_IN, content_type="text/html")
    return web.Response(body=file.content or b"", content_type=guess_mime_type(file))


def guess_mime_type(file: SharedFile) -> str:
    """Guess the type by the file's name, as the platform does."""
    return mimetypes.guess_type(file.name)[0] or OTHER


def detect_mime_type(file: SharedFile) -> str:
    """Detect the type by the file's content, whatever its name says."""
    return next((kind for head, kind in PICTURES.items() if (file.content or b"").startswith(head)), OTHER)


def build_file_object(ws: Workspace, file: SharedFile, title: object) -> Json:
    kind = detect_mime_type(file) if not file.user else guess_mime_type(file)
    place = f"{ws.address}/files-pri/{ws.app.team}-{file.id}"
    name = quote(file.name, safe="")
    shown = {
        "id": file.id,
        "name": file.name,
        "title": str(title or file.name),
        "mimetype": kind,
        "user": file.user or ws.app.user,
        "size": file.length,
        "mode": "external" if file.is_external else "hosted",
        "is_external": file.is_external,
        "file_access": "visible",
        "url_private": "https://drive.example.com/open" if file.is_external else f"{place}/{name}",
    }
    download = {} if file.is_external else {"url_private_download": f"{place}/download/{name}"}
    return {**shown, **download, **({"alt_txt": file.alt} if file.alt else {})}


def get_shared_file(ws: Workspace, id: str, person: str) -> SharedFile:
    """Return a file that is the person's own, or was shared in a room of theirs. Raises `WorkspaceError`."""

    def is_shared(file: SharedFile) -> bool:
        return file.user == person or any(person in ws.state.rooms[room].members for room in file.rooms)

    return get_file(ws, id, is_shared)
