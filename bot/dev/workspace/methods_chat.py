"""Web API: chat.*, histories, status."""

from __future__ import annotations

from typing import TypeVar

from bot.dev.workspace import posting
from bot.dev.workspace.arguments import MethodArguments
from bot.dev.workspace.payloads import drop_metadata
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.schema import build_items, build_shape, build_string, list_problems
from bot.dev.workspace.validate import (
    BLOCK_TEXT,
    METADATA_BYTES,
    POST_TEXT,
    UPDATE_BYTES,
    check_blocks,
    check_metadata,
    count_json_bytes,
    count_text_characters,
)
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json, WorkspaceRoom

T = TypeVar("T")
SESSION_STATUSES = ("active", "processing", "suspended", "closed")
SESSION_TITLE = 200
SUGGESTED_PROMPTS = build_items(build_shape({"title": build_string(75), "message": build_string(4000)}), 4)


def get_bot_room(ws: Workspace, channel: str) -> WorkspaceRoom:
    """Return the room that the app posts to. A person's id stands for the DM with that person."""
    person = ws.state.people.get(channel)
    if person is not None and not person.is_bot:
        channel = person.dm_id
    return ws.get_room(channel, ws.app.user)


def read_message_content(args: MethodArguments) -> Json:
    """Read and check `text`, `blocks` and `metadata` of a message."""
    found: Json = {}
    blocks = args.read_json("blocks")
    if args.has_value("text"):
        found["text"] = args.read_text("text")
    if blocks is not None:
        if not isinstance(blocks, list):
            raise WorkspaceError("invalid_blocks_format")
        found["blocks"] = require_valid_blocks(blocks)
    if (metadata := args.read_json("metadata")) is not None:
        found["metadata"] = require_valid_metadata(metadata)
    if len(found.get("text", "")) > POST_TEXT:
        raise WorkspaceError("msg_too_long")
    return found


def require_message_content(args: MethodArguments) -> Json:
    """Read a message like `read_message_content`. Raises `WorkspaceError` without any text or block to show."""
    found = read_message_content(args)
    if not (found.get("text") or found.get("blocks")):
        raise WorkspaceError("no_text")
    return found


def require_valid_blocks(blocks: list[Json]) -> list[Json]:
    if problems := check_blocks(blocks):
        raise WorkspaceError("invalid_blocks", problems, errors=problems)
    if count_text_characters(blocks) > BLOCK_TEXT:
        raise WorkspaceError("msg_blocks_too_long")
    return posting.fill_block_ids(blocks)


def require_valid_metadata(metadata: object) -> object:
    if problems := check_metadata(metadata):
        raise WorkspaceError("invalid_metadata_format", problems)
    if count_json_bytes(metadata) > METADATA_BYTES:
        raise WorkspaceError("metadata_too_large")
    return metadata


def chat_post_message(ws: Workspace, args: MethodArguments) -> Json:
    channel = args.read_text("channel")
    if not channel:
        raise WorkspaceError("channel_not_found")
    room = get_bot_room(ws, channel)
    message = {"text": "", **require_message_content(args), **posting.build_bot_fields(ws)}
    posted = posting.post_message(ws, room, message, args.read_text("thread_ts") or None)
    return {"channel": room.id, "ts": posted["ts"], "message": posted}


def get_bot_message(ws: Workspace, args: MethodArguments, error: str) -> tuple[WorkspaceRoom, Json]:
    room = get_bot_room(ws, args.require_text("channel"))
    message = posting.get_message(ws, room.id, args.require_text("ts"))
    if message.get("user") != ws.app.user or message.get("subtype") == "tombstone":
        raise WorkspaceError(error)
    return room, message


def chat_update(ws: Workspace, args: MethodArguments) -> Json:
    """Update a message. Omitted blocks stay; `[]` clears them."""
    room, message = get_bot_message(ws, args, "cant_update_message")
    found = read_message_content(args)
    if not found:
        raise WorkspaceError("no_text")
    if len(found.get("text", "").encode()) > UPDATE_BYTES:
        raise WorkspaceError("msg_too_long")
    if found.get("text") == "" and not found.get("blocks", message.get("blocks")):
        raise WorkspaceError("no_text")
    posting.update_message(ws, room, message, found, ws.app.user)
    return {"channel": room.id, "ts": message["ts"], "text": message["text"], "message": message}


def chat_post_ephemeral(ws: Workspace, args: MethodArguments) -> Json:
    room = get_bot_room(ws, args.require_text("channel"))
    user = args.require_text("user")
    if user not in room.members or user == ws.app.user:
        raise WorkspaceError("user_not_in_channel")
    found = require_message_content(args)
    thread = args.read_text("thread_ts") or None
    posting.find_thread_root(room, thread)
    notice = posting.post_ephemeral(ws, room, user, found.get("text", ""), found.get("blocks", []), thread)
    return {"message_ts": notice["ts"]}


def is_in_time_range(message: Json, args: MethodArguments) -> bool:
    oldest, latest = args.read_text("oldest") or 0, args.read_text("latest") or "inf"
    first, at, last = map(float, (oldest, message["ts"], latest))
    return first <= at <= last if args.read_flag("inclusive") else first < at < last


def build_message_page(messages: list[Json], args: MethodArguments) -> Json:
    """Build one page of messages, by `limit` and an opaque `cursor`."""
    chosen, following = slice_cursor_page(messages, args, 100, 999)
    has_more = bool(following["response_metadata"]["next_cursor"])
    shown = chosen if args.read_flag("include_all_metadata") else [*map(drop_metadata, chosen)]
    return {"messages": shown, "has_more": has_more, **(following if has_more else {})}


def slice_cursor_page(rows: list[T], args: MethodArguments, usual: int, most: int = 1000) -> tuple[list[T], Json]:
    """Return the rows for `limit` (`usual` if not given) and `cursor`, and the metadata with the next cursor."""
    start, limit = parse_cursor(args.read_text("cursor")), args.read_number("limit", usual, most)
    more = f"next:{start + limit}" if rows[start + limit :] else ""
    return rows[start : start + limit], {"response_metadata": {"next_cursor": more}}


def parse_cursor(cursor: str) -> int:
    number = cursor.removeprefix("next:")
    if cursor and not (cursor.startswith("next:") and number.isdigit()):
        raise WorkspaceError("invalid_cursor")
    return int(number or 0)


def conversations_history(ws: Workspace, args: MethodArguments) -> Json:
    """List the messages of a room, newest first, without replies in threads."""
    room = ws.get_room(args.require_text("channel"), ws.app.user)
    top = [one for one in reversed(room.messages.values()) if one.get("thread_ts", one["ts"]) == one["ts"]]
    return build_message_page([message for message in top if is_in_time_range(message, args)], args)


def conversations_replies(ws: Workspace, args: MethodArguments) -> Json:
    """List a thread: its first message, followed by its replies, oldest first."""
    room = ws.get_room(args.require_text("channel"), ws.app.user)
    ts = args.require_text("ts")
    root = room.messages.get(ts)
    if root is None:
        raise WorkspaceError("thread_not_found")
    root = room.messages.get(root.get("thread_ts", ts), root)
    later = [message for message in posting.list_replies(room, root["ts"]) if is_in_time_range(message, args)]
    return build_message_page([root, *later], args)


def assistant_threads_set_status(ws: Workspace, args: MethodArguments) -> Json:
    room = ws.get_room(args.require_text("channel_id"), ws.app.user)
    key = (room.id, args.require_text("thread_ts"))
    if status := args.read_text("status"):
        ws.state.statuses[key] = status
    else:
        ws.state.statuses.pop(key, None)
    ws.notify_change("messages", room.id)
    return {}


def agents_sessions_set_status(ws: Workspace, args: MethodArguments) -> Json:
    """Set a session's status. Title and initiator count only when the session begins."""
    room = ws.get_room(args.require_text("channel_id"), ws.app.user)
    status, title = args.require_text("status"), args.read_text("title")
    if status not in SESSION_STATUSES or len(title) > SESSION_TITLE:
        raise WorkspaceError("invalid_arguments")
    key = (room.id, args.require_text("thread_ts"))
    if key[1] not in room.messages:
        raise WorkspaceError("invalid_thread_ts")
    session = ws.state.sessions.setdefault(key, {"title": title, "user": args.read_text("initiator_user_id")})
    session["status"] = status
    ws.notify_change("messages", room.id)
    is_stoppable = "agent_session_stopped" in ws.setup.events
    warning = {} if is_stoppable else {"warning": "missing_agent_session_stopped_event_subscription"}
    return {"status": status, "title": session["title"], **warning}


def assistant_threads_set_suggested_prompts(ws: Workspace, args: MethodArguments) -> Json:
    """Suggest prompts. With a thread, the call has no effect for an agent, and reports no error."""
    room = ws.get_room(args.require_text("channel_id"), ws.app.user)
    prompts = args.read_json("prompts")
    if problems := list_problems(SUGGESTED_PROMPTS, prompts, "/prompts"):
        raise WorkspaceError("invalid_arguments", problems)
    if not args.read_text("thread_ts"):
        ws.state.prompts[room.id] = prompts
        ws.notify_change("messages", room.id)
    return {}
