"""Feishu's endpoints: messages, files, reactions, cards. Those about people, rooms and the app are in `directory`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from bot.dev.workspace import methods_files, posting
from bot.dev.workspace.feishu import messages
from bot.dev.workspace.feishu.cards import check_card, parse_content
from bot.dev.workspace.feishu.refused import FeishuError
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.workspace import SharedFile
from bot.dev.workspace.world import Json, WorkspaceRoom

PATCH_DAYS_MS = 14 * 24 * 3_600_000
UUID_CHARS = 50
IMAGE_BYTES, FILE_BYTES = 10 * 1024 * 1024, 30 * 1024 * 1024
FILE_TYPES = ("opus", "mp4", "pdf", "doc", "xls", "ppt", "stream")


@dataclass(frozen=True, slots=True)
class OpenApiCall:
    """A call of an endpoint. `upload` holds the bytes of a form with a file."""

    ids: Json = field(default_factory=dict)
    query: Json = field(default_factory=dict)
    body: Json = field(default_factory=dict)
    upload: bytes | None = None

    def require(self, *names: str) -> tuple[Any, ...]:
        """Return fields of the body. Raises `FeishuError` if one is missing."""
        if missing := [name for name in names if self.body.get(name) in (None, "")]:
            raise FeishuError(99992402, f": {missing[0]} is required")
        return tuple(self.body[name] for name in names)

    def build_page(self, items: list[Json]) -> Json:
        """Build the wanted page of a list."""
        size, start = int(self.query.get("page_size") or 20), int(self.query.get("page_token") or 0)
        if not 1 <= size <= 100:
            raise FeishuError(99992402, ": page_size")
        more = {"page_token": str(start + size)} if start + size < len(items) else {}
        return {"items": items[start : start + size], "has_more": bool(more), "page_token": "", **more}


def create_message(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    receiver, msg_type, raw = call.require("receive_id", "msg_type", "content")
    kind = call.query.get("receive_id_type")
    if kind not in ("open_id", "chat_id"):
        raise FeishuError(99992402, ": receive_id_type is open_id or chat_id in this workspace")
    room = find_room(ws, find_person(ws, receiver) if kind == "open_id" else receiver)
    return send_message(ws, call, room, msg_type, raw, None)


def reply_message(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    msg_type, raw = call.require("msg_type", "content")
    room, parent = messages.find_message(ws, call.ids["message_id"])
    if call.body.get("reply_in_thread") and room.kind == "im":
        raise FeishuError(230071)
    return send_message(ws, call, find_room(ws, room.id), msg_type, raw, parent)


def find_person(ws: FeishuWorkspace, open_id: str) -> str:
    """Return the chat of a person and the bot. Raises `FeishuError` if the bot cannot reach the person."""
    person = ws.state.people.get(open_id)
    if person is None or person.is_bot:
        raise FeishuError(230001, "invalid receive_id")
    if person.deleted:
        raise FeishuError(230013)
    return person.dm_id


def find_room(ws: FeishuWorkspace, chat: str) -> WorkspaceRoom:
    room = ws.state.rooms.get(chat)
    if room is None or ws.app.user not in room.members:
        raise FeishuError(230002)
    return room


def send_message(
    ws: FeishuWorkspace, call: OpenApiCall, room: WorkspaceRoom, msg_type: str, raw: Any, parent: Json | None
) -> Json:
    uuid = str(call.body.get("uuid") or "")
    if len(uuid) > UUID_CHARS:
        raise FeishuError(99992402, ": uuid has at most 50 characters")
    content, in_thread = check_content(ws, msg_type, raw), bool(call.body.get("reply_in_thread"))

    def send() -> Json:
        files = list_sent_files(ws, content, room)
        more = {"uuid": uuid} if uuid else {}
        message = messages.post_message(
            ws, room, ws.app.user, msg_type, content, parent=parent, in_thread=in_thread, **files, **more
        )
        return messages.describe_message(ws, room, message)

    return ws.remember_sent(uuid, send)


def list_sent_files(ws: FeishuWorkspace, content: Json, room: WorkspaceRoom) -> Json:
    found = [find_file(ws, str(content[name])) for name in ("image_key", "file_key") if name in content]
    for file in found:
        file.rooms.add(room.id)
    kind = "image" if "image_key" in content else "file"
    return {"files": [describe_file(file, kind) for file in found]} if found else {}


def check_content(ws: FeishuWorkspace, msg_type: str, raw: Any) -> Json:
    content = parse_content(msg_type, raw)
    if msg_type == "interactive":
        check_card(content, ws.state.people)
    elif msg_type not in ("text", "post", "image", "file"):
        raise FeishuError(230001, "msg_type is not supported")
    elif msg_type == "text" and not str(content.get("text", "")).strip():
        raise FeishuError(230001, "text content is empty")
    return content


def get_own_message(ws: FeishuWorkspace, call: OpenApiCall) -> tuple[WorkspaceRoom, Json]:
    room, message = messages.find_message(ws, call.ids["message_id"])
    if message["user"] != ws.app.user:
        raise FeishuError(230001, "the operator is not the sender of the message")
    return room, message


def patch_message(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    (raw,) = call.require("content")
    room, message = get_own_message(ws, call)
    if message["msg_type"] != "interactive":
        raise FeishuError(230001, "This message is NOT a card.")
    if ws.clock() * 1000 - message["at_ms"] > PATCH_DAYS_MS:
        raise FeishuError(230031)
    card = check_content(ws, "interactive", raw)
    for one in (message["card"], card):
        if one.get("config", {}).get("update_multi") is False:
            raise FeishuError(230001, "the card is not shared: update_multi")
    messages.replace_card(ws, room, message, card)
    return {}


def get_message(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    room, message = messages.find_message(ws, call.ids["message_id"])
    return {"items": [messages.describe_message(ws, find_room(ws, room.id), message)]}


def list_messages(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    """List a chat, or a topic. In the list of a chat, a topic stands with its first message only."""
    kind, id = call.query.get("container_id_type"), str(call.query.get("container_id", ""))
    rooms = [find_room(ws, id)] if kind == "chat" else list(ws.state.rooms.values())
    start, end = (int(call.query.get(name) or 0) for name in ("start_time", "end_time"))
    rows = [
        messages.describe_message(ws, room, message)
        for room in rooms
        for message in room.messages.values()
        if (message.get("thread_id") == id if kind == "thread" else not {"thread_id", "root_id"} <= message.keys())
        and message["at_ms"] // 1000 >= start
        and (not end or message["at_ms"] // 1000 <= end)
    ]
    return call.build_page(rows[::-1] if call.query.get("sort_type") == "ByCreateTimeDesc" else rows)


def find_file(ws: FeishuWorkspace, key: str) -> SharedFile:
    """Return the file with an `image_key` or a `file_key`. Raises `FeishuError`."""
    file = ws.files.get(key.rpartition("_")[2].upper())
    if file is None or file.content is None:
        raise FeishuError(234001, " ext=invalid key")
    return file


def build_file_key(file: SharedFile, type: str) -> str:
    return f"{'img' if type == 'image' else 'file'}_v3_{file.id.lower()}"


def describe_file(file: SharedFile, type: str) -> Json:
    return {"id": file.id, "name": file.name, "size": file.length, "type": type, "key": build_file_key(file, type)}


def get_resource(ws: FeishuWorkspace, call: OpenApiCall) -> web.Response:
    """Serve a file of a message. Its key and the message have to belong together."""
    _, message = messages.find_message(ws, call.ids["message_id"])
    if not any(one["key"] == call.ids["key"] for one in message.get("files", [])):
        raise FeishuError(234003)
    if call.query.get("type") not in ("image", "file"):
        raise FeishuError(234001, " ext=type")
    file = find_file(ws, call.ids["key"])
    named = {"Content-Disposition": f'attachment; filename="{file.id}"'}
    return web.Response(body=file.content, content_type=methods_files.detect_mime_type(file), headers=named)


def upload_image(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    (kind,) = call.require("image_type")
    if kind != "message" or not call.upload:
        raise FeishuError(234001, " ext=image_type or image")
    if len(call.upload) > IMAGE_BYTES:
        raise FeishuError(234006)
    return {"image_key": build_file_key(keep_upload(ws, "image.png", call.upload), "image")}


def upload_file(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    kind, name = call.require("file_type", "file_name")
    if kind not in FILE_TYPES or not call.upload:
        raise FeishuError(234001, " ext=file_type or file")
    if len(call.upload) > FILE_BYTES:
        raise FeishuError(234006)
    return {"file_key": build_file_key(keep_upload(ws, str(name), call.upload), "file")}


def keep_upload(ws: FeishuWorkspace, name: str, content: bytes) -> SharedFile:
    return methods_files.keep_file(ws, SharedFile(name, len(content), "", content=content))


def create_reaction(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    (reaction,) = call.require("reaction_type")
    room, message = messages.find_message(ws, call.ids["message_id"])
    emoji, me = str(reaction.get("emoji_type", "")), ws.app.user
    if not emoji.isalnum():
        raise FeishuError(231001)
    id = posting.create_short_id() + emoji
    ws.reactions[id] = (message["ts"], emoji)
    shown = message.setdefault("reactions", [])
    if not any(one["name"] == emoji and me in one["users"] for one in shown):
        shown.append({"name": emoji, "users": [me]})
    ws.notify_change("messages", room.id)
    return {"reaction_id": id, "reaction_type": reaction}


def delete_reaction(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    room, message = messages.find_message(ws, call.ids["message_id"])
    where, emoji = ws.reactions.pop(call.ids["reaction_id"], ("", ""))
    if where != message["ts"]:
        raise FeishuError(231007)
    if all(one != (where, emoji) for one in ws.reactions.values()):
        message["reactions"] = [one for one in message.get("reactions", []) if one["name"] != emoji]
    ws.notify_change("messages", room.id)
    return {"reaction_id": call.ids["reaction_id"], "reaction_type": {"emoji_type": emoji}}


def send_ephemeral(ws: FeishuWorkspace, call: OpenApiCall) -> Json:
    """Show a card in a group to one person only."""
    chat, person, card = call.require("chat_id", "open_id", "card")
    room = find_room(ws, chat)
    if room.kind == "im" or person not in room.members:
        raise FeishuError(10003, ": only in groups, to a member")
    if isinstance(card, dict) and card.get("schema") == "2.0":
        check_card(card, ws.state.people)
    text = messages.read_words(ws, "interactive", card)
    notice = {"ts": ws.create_timestamp(), "channel": chat, "user": ws.app.user, "text": text, "card": card}
    ws.state.add_ephemeral(person, {**notice, "msg_type": "interactive", "at_ms": int(ws.clock() * 1000)})
    ws.notify_change("private", chat, person)
    return {"message_id": notice["ts"]}
