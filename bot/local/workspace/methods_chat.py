"""Web API: chat.*, histories, reactions, status."""

from __future__ import annotations

from bot.local.workspace import posting
from bot.local.workspace.arguments import Args
from bot.local.workspace.payloads import bare
from bot.local.workspace.refused import Refused
from bot.local.workspace.validate import (
    BLOCK_TEXT,
    MARKDOWN_TEXT,
    METADATA_BYTES,
    POST_TEXT,
    UPDATE_BYTES,
    block_problems,
    metadata_problems,
    size,
    text_length,
)
from bot.local.workspace.workspace import Workspace
from bot.local.workspace.world import Json, Room


def bot_room(ws: Workspace, channel: str) -> Room:
    """The room the app posts to; a person's id stands for the DM with them."""
    person = ws.state.people.get(channel)
    if person is not None and not person.is_bot:
        channel = person.direct
    return ws.room_with(channel, ws.app.user)


def content(args: Args) -> Json:
    """`text`, `blocks`, `attachments` and `metadata` of a message, checked."""
    found: Json = {}
    blocks = args.blocks()
    if args.has("markdown_text"):
        blocks = markdown_blocks(args, blocks)
    if args.has("text"):
        found["text"] = args.text("text")
    if blocks is not None:
        found["blocks"] = checked_blocks(blocks)
    if (attachments := args.json("attachments")) is not None:
        found["attachments"] = attachments
    if (metadata := args.json("metadata")) is not None:
        found["metadata"] = checked_metadata(metadata)
    if len(found.get("text", "")) > POST_TEXT:
        raise Refused("msg_too_long")
    return found


def shown_content(args: Args) -> Json:
    """The same; `Refused` when there is neither text nor a block to show."""
    found = content(args)
    if not (found.get("text") or found.get("blocks")):
        raise Refused("no_text")
    return found


def markdown_blocks(args: Args, blocks: list[Json] | None) -> list[Json]:
    if blocks or args.text("text"):
        raise Refused("markdown_text_conflict")
    if len(args.text("markdown_text")) > MARKDOWN_TEXT:
        raise Refused("msg_too_long")
    return [{"type": "markdown", "text": args.text("markdown_text")}]


def checked_blocks(blocks: list[Json]) -> list[Json]:
    if problems := block_problems(blocks):
        raise Refused("invalid_blocks", problems, errors=problems)
    if text_length(blocks) > BLOCK_TEXT:
        raise Refused("msg_blocks_too_long")
    return posting.named(blocks)


def checked_metadata(metadata: object) -> object:
    if problems := metadata_problems(metadata):
        raise Refused("invalid_metadata_format", problems)
    if size(metadata) > METADATA_BYTES:
        raise Refused("metadata_too_large")
    return metadata


def post_message(ws: Workspace, args: Args) -> Json:
    channel = args.text("channel")
    if not channel:
        raise Refused("channel_not_found")
    room = bot_room(ws, channel)
    found = content(args)
    if not (found.get("text") or found.get("blocks") or found.get("attachments")):
        raise Refused("no_text")
    message = {"text": "", **found, **posting.bot_fields(ws)}
    if args.flag("reply_broadcast") and args.text("thread_ts"):
        message["subtype"] = "thread_broadcast"
    posted = posting.post(ws, room, message, args.text("thread_ts") or None)
    return {"channel": room.id, "ts": posted["ts"], "message": posted}


def own_message(ws: Workspace, args: Args, error: str) -> tuple[Room, Json]:
    room = bot_room(ws, args.need("channel"))
    message = posting.find(ws, room.id, args.need("ts"))
    if message.get("user") != ws.app.user or message.get("subtype") == "tombstone":
        raise Refused(error)
    return room, message


def update(ws: Workspace, args: Args) -> Json:
    """Blocks that are left out stay; `[]` clears them."""
    room, message = own_message(ws, args, "cant_update_message")
    found = content(args)
    if not found:
        raise Refused("no_text")
    if len(found.get("text", "").encode()) > UPDATE_BYTES:
        raise Refused("msg_too_long")
    if found.get("text") == "" and not found.get("blocks", message.get("blocks")):
        raise Refused("no_text")
    posting.amend(ws, room, message, found, ws.app.user)
    return {"channel": room.id, "ts": message["ts"], "text": message["text"], "message": message}


def delete(ws: Workspace, args: Args) -> Json:
    room, message = own_message(ws, args, "cant_delete_message")
    posting.remove(ws, room, message)
    return {"channel": room.id, "ts": message["ts"]}


def post_ephemeral(ws: Workspace, args: Args) -> Json:
    room = bot_room(ws, args.need("channel"))
    user = args.need("user")
    if user not in room.members or user == ws.app.user:
        raise Refused("user_not_in_channel")
    found = shown_content(args)
    thread = args.text("thread_ts") or None
    posting.thread_root(room, thread)
    notice = posting.whisper(ws, room, user, found.get("text", ""), found.get("blocks", []), thread)
    return {"message_ts": notice["ts"]}


def get_permalink(ws: Workspace, args: Args) -> Json:
    room = ws.room_with(args.need("channel"), ws.app.user)
    message = posting.find(ws, room.id, args.need("message_ts"))
    link = f"{ws.address}/archives/{room.id}/p{message['ts'].replace('.', '')}"
    return {"channel": room.id, "permalink": link}


def shown(message: Json, args: Args) -> Json:
    return message if args.flag("include_all_metadata") else bare(message)


def within(message: Json, args: Args) -> bool:
    oldest, latest, ts = args.text("oldest"), args.text("latest"), message["ts"]
    inclusive = args.flag("inclusive")
    after = not oldest or float(ts) > float(oldest) or (inclusive and float(ts) == float(oldest))
    before = not latest or float(ts) < float(latest) or (inclusive and float(ts) == float(latest))
    return after and before


def page(messages: list[Json], args: Args, most: int = 999) -> Json:
    """One page, by `limit` and an opaque `cursor`."""
    limit = args.number("limit", 100, most)
    start = offset(args.text("cursor"))
    rest = messages[start + limit :]
    following = {"response_metadata": {"next_cursor": f"next:{start + limit}"}} if rest else {}
    chosen = [shown(message, args) for message in messages[start : start + limit]]
    return {"messages": chosen, "has_more": bool(rest), **following}


def offset(cursor: str) -> int:
    number = cursor.removeprefix("next:")
    if cursor and not (cursor.startswith("next:") and number.isdigit()):
        raise Refused("invalid_cursor")
    return int(number or 0)


def history(ws: Workspace, args: Args) -> Json:
    """Newest first; replies in threads are not part of it, unless they were broadcast."""
    room = ws.room_with(args.need("channel"), ws.app.user)
    top = [
        message
        for message in reversed(room.messages.values())
        if message.get("thread_ts", message["ts"]) == message["ts"] or message.get("subtype") == "thread_broadcast"
    ]
    return page([message for message in top if within(message, args)], args)


def replies(ws: Workspace, args: Args) -> Json:
    """The thread's first message, then its replies, oldest first."""
    room = ws.room_with(args.need("channel"), ws.app.user)
    ts = args.need("ts")
    root = room.messages.get(ts)
    if root is None:
        raise Refused("thread_not_found")
    root = room.messages.get(root.get("thread_ts", ts), root)
    later = [message for message in posting.replies_of(room, root["ts"]) if within(message, args)]
    return page([root, *later], args)


def set_status(ws: Workspace, args: Args) -> Json:
    room = ws.room_with(args.need("channel_id"), ws.app.user)
    key = (room.id, args.need("thread_ts"))
    if status := args.text("status"):
        ws.state.statuses[key] = status
    else:
        ws.state.statuses.pop(key, None)
    ws.tell("messages", room.id)
    return {}


def reactions_add(ws: Workspace, args: Args) -> Json:
    message, found = reaction(ws, args)
    if found is not None and ws.app.user in found["users"]:
        raise Refused("already_reacted")
    if found is None:
        found = {"name": args.need("name"), "users": [], "count": 0}
        message.setdefault("reactions", []).append(found)
    found["users"].append(ws.app.user)
    found["count"] = len(found["users"])
    ws.tell("messages", args.text("channel"))
    return {}


def reactions_remove(ws: Workspace, args: Args) -> Json:
    message, found = reaction(ws, args)
    if found is None or ws.app.user not in found["users"]:
        raise Refused("no_reaction")
    found["users"].remove(ws.app.user)
    found["count"] = len(found["users"])
    message["reactions"] = [r for r in message["reactions"] if r["count"]]
    ws.tell("messages", args.text("channel"))
    return {}


def reaction(ws: Workspace, args: Args) -> tuple[Json, Json | None]:
    room = ws.room_with(args.need("channel"), ws.app.user)
    message = posting.find(ws, room.id, args.need("timestamp"))
    name = args.need("name")
    if not all(c.isalnum() or c in "_+-:'" for c in name):
        raise Refused("invalid_name")
    return message, next((r for r in message.get("reactions", []) if r["name"] == name), None)
