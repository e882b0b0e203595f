"""Messages of the workspace in Feishu's shape: posted, rewritten, and described for the app."""

from __future__ import annotations

import json
import secrets
from typing import Any

from bot.dev.workspace import posting
from bot.dev.workspace.feishu.cards import MENTIONED, summarize_card
from bot.dev.workspace.feishu.refused import FeishuError
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.world import Json, WorkspaceRoom


def find_message(ws: FeishuWorkspace, message_id: str) -> tuple[WorkspaceRoom, Json]:
    """Return a message and its room. Raises `FeishuError` if it does not exist."""
    for room in ws.state.rooms.values():
        if message := room.messages.get(message_id):
            return room, message
    raise FeishuError(99992354)


def post_message(
    ws: FeishuWorkspace,
    room: WorkspaceRoom,
    user: str,
    msg_type: str,
    content: Json,
    *,
    parent: Json | None = None,
    in_thread: bool = False,
    **more: Any,
) -> Json:
    """Add a message. A reply stays in its parent's topic; with `in_thread`, it begins one under its parent."""
    message: Json = {
        "user": user,
        "msg_type": msg_type,
        "text": read_words(ws, msg_type, content),
        {"interactive": "card", "post": "post"}.get(msg_type, "content"): content,
        "at_ms": int(ws.clock() * 1000),
        **more,
    }
    thread = None
    if parent is not None:
        message |= {"parent_id": parent["ts"], "root_id": parent.get("root_id") or parent["ts"]}
        if in_thread or parent.get("thread_id"):
            root = room.messages.get(message["root_id"], parent)
            thread = root["ts"]
            root.setdefault("thread_id", f"omt_{secrets.token_hex(8)}")
            message["thread_id"] = root["thread_id"]
    return posting.post_message(ws, room, message, thread)  # no event of Slack's comes of it: nobody has subscribed


def read_words(ws: FeishuWorkspace, msg_type: str, content: Json) -> str:
    """Return the words of a message as a list of messages shows them."""
    if msg_type == "interactive":
        return summarize_card(content)
    if msg_type == "text":
        return MENTIONED.sub(lambda m: f"@{get_name(ws, m[1])}", str(content.get("text", ""))).replace("</at>", "")
    if msg_type == "post":
        post = next((one for one in content.values() if isinstance(one, dict)), content)
        lines = ["".join(read_piece(ws, one) for one in line) for line in post.get("content", [])]
        return "\n".join(filter(None, [post.get("title", ""), *lines]))
    return str(content.get("file_name", ""))


def read_piece(ws: FeishuWorkspace, piece: Json) -> str:
    return f"@{get_name(ws, piece['user_id'])}" if piece.get("tag") == "at" else str(piece.get("text", ""))


def get_name(ws: FeishuWorkspace, person: str) -> str:
    member = ws.state.people.get(person)
    return member.real_name if member else person


def replace_card(ws: FeishuWorkspace, room: WorkspaceRoom, message: Json, card: Json) -> None:
    ws.old_cards.setdefault(message["ts"], []).append(message["card"])
    message |= {"card": card, "text": summarize_card(card), "updated_ms": int(ws.clock() * 1000)}
    ws.notify_change("messages", room.id)


def get_content(message: Json) -> Json:
    return next(message[name] for name in ("card", "post", "content") if name in message)


def describe_message(ws: FeishuWorkspace, room: WorkspaceRoom, message: Json) -> Json:
    """Describe a message as the endpoints return it."""
    by_bot = message["user"] == ws.app.user
    sender = {"id": ws.setup.app_id, "id_type": "app_id", "sender_type": "app"}
    if not by_bot:
        sender = {"id": message["user"], "id_type": "open_id", "sender_type": "user"}
    return {
        "message_id": message["ts"],
        **{name: message[name] for name in ("root_id", "parent_id", "thread_id") if message.get(name)},
        "msg_type": message["msg_type"],
        "create_time": str(message["at_ms"]),
        "update_time": str(message.get("updated_ms", message["at_ms"])),
        "deleted": False,
        "updated": "updated_ms" in message,
        "chat_id": room.id,
        "sender": {**sender, "tenant_key": ws.app.team},
        "body": {"content": json.dumps(get_content(message), ensure_ascii=False)},
        "mentions": [
            {"key": one["key"], "id": one["id"], "id_type": "open_id", "name": one["name"], "tenant_key": ws.app.team}
            for one in message.get("mentions", [])
        ],
    }


def build_ids(ws: FeishuWorkspace, person: str) -> Json:
    """Build the three ids of a person. `user_id` needs its scope."""
    short = person.removeprefix("ou_")
    user_id = short if "contact:user.employee_id:readonly" in ws.setup.scopes else ""
    return {"open_id": person, "union_id": f"on_{short}", "user_id": user_id}


def build_message_event(ws: FeishuWorkspace, room: WorkspaceRoom, message: Json) -> Json:
    """Build the `event` of `im.message.receive_v1`."""
    shown = describe_message(ws, room, message)
    mentions = [
        {
            "key": one["key"],
            "id": build_ids(ws, one["id"]),
            "name": one["name"],
            "tenant_key": ws.app.team,
            "mentioned_type": "bot" if one["id"] == ws.app.user else "user",
        }
        for one in message.get("mentions", [])
    ]
    names = ("message_id", "root_id", "parent_id", "thread_id", "create_time", "update_time", "chat_id")
    return {
        "sender": {"sender_id": build_ids(ws, message["user"]), "sender_type": "user", "tenant_key": ws.app.team},
        "message": {
            **{name: shown[name] for name in names if name in shown},
            "chat_type": "p2p" if room.kind == "im" else "group",
            "message_type": message["msg_type"],
            "content": shown["body"]["content"],
            **({"mentions": mentions} if mentions else {}),
        },
    }
