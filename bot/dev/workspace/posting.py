"""Posts, rewrites and removes messages with all of the platform's counts, and notifies the app."""

from __future__ import annotations

import secrets
from copy import deepcopy

from bot.dev.workspace.payloads import build_hidden_event, build_mention_event, build_message_event, drop_metadata
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.validate import list_elements
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json, WorkspaceRoom

SUBSCRIPTIONS = {"im": "message.im", "mpim": "message.mpim", "channel": "message.channels", "group": "message.groups"}


def create_short_id() -> str:
    """Create an id like those that the platform gives to blocks and elements without one."""
    return secrets.token_urlsafe(4)


def fill_block_ids(blocks: list[Json]) -> list[Json]:
    """Return a copy of the blocks, each with a block_id, and each interactive element with an action_id."""
    filled = deepcopy(blocks)
    for block in filled:
        block["block_id"] = block.get("block_id") or create_short_id()
        for element in list_elements(block):
            element["action_id"] = element.get("action_id") or create_short_id()
    return filled


def get_message(ws: Workspace, channel: str, ts: str) -> Json:
    """Return a message. Raises `WorkspaceError` if the room or the message does not exist."""
    if channel not in ws.state.rooms:
        raise WorkspaceError("channel_not_found")
    if ts not in (messages := ws.state.rooms[channel].messages):
        raise WorkspaceError("message_not_found")
    return messages[ts]


def find_thread_root(room: WorkspaceRoom, thread_ts: str | None) -> Json | None:
    """Return the first message of the thread to reply in. Raises `WorkspaceError` if it is gone or itself a reply."""
    if not thread_ts:
        return None
    root = room.messages.get(thread_ts)
    if root is None or root.get("thread_ts", thread_ts) != thread_ts:
        raise WorkspaceError("cannot_reply_to_message")
    return root


def post_message(ws: Workspace, room: WorkspaceRoom, message: Json, thread_ts: str | None = None) -> Json:
    """Add a message with a new `ts`, update its thread's counts, and notify the page and the app."""
    root = find_thread_root(room, thread_ts)
    message = {"type": "message", **message, "ts": ws.create_timestamp(), "team": ws.app.team}
    if root is not None:
        message["thread_ts"] = root["ts"]
    ws.state.add_message(room, message)
    if root is not None:
        update_thread_counts(room, root)
        ws.state.statuses.pop((room.id, root["ts"]), None)
    ws.notify_change("messages", room.id)
    announce_message(ws, room, message)
    return message


def update_thread_counts(room: WorkspaceRoom, root: Json) -> None:
    """Update the counts of replies in a thread's first message."""
    replies = list_replies(room, root["ts"])
    for name in ("thread_ts", "reply_count", "reply_users", "latest_reply"):
        root.pop(name, None)
    if replies:
        root |= {"thread_ts": root["ts"], "reply_count": len(replies), "latest_reply": replies[-1]["ts"]}
        root["reply_users"] = list(dict.fromkeys(reply["user"] for reply in replies))


def list_replies(room: WorkspaceRoom, thread_ts: str) -> list[Json]:
    return [m for m in room.messages.values() if m.get("thread_ts") == thread_ts != m["ts"]]


def announce_message(ws: Workspace, room: WorkspaceRoom, message: Json) -> None:
    """Send the events of a new message to an app in the room. Messages of the app itself come back to it too."""
    if ws.app.user not in room.members:
        return
    ws.send_event(SUBSCRIPTIONS[room.kind], build_message_event(message, room))
    mentioned = f"<@{ws.app.user}>" in message.get("text", "") and message["user"] != ws.app.user
    if mentioned and room.kind != "im":
        ws.send_event("app_mention", build_mention_event(message, room))


def update_message(ws: Workspace, room: WorkspaceRoom, message: Json, changes: Json, editor: str) -> None:
    """Rewrite a message in place, marked as edited by `editor`."""
    previous = dict(message)
    if "blocks" in changes:
        ws.state.remember_blocks(room.id, message["ts"], message.get("blocks", []))
    message |= {**changes, "edited": {"user": editor, "ts": ws.create_timestamp()}}
    if not message.get("blocks", True):
        del message["blocks"]
    ws.notify_change("messages", room.id)
    if ws.app.user in room.members:
        shown = {"message": drop_metadata(message)}
        event = build_hidden_event("message_changed", previous, room, ws.create_timestamp(), **shown)
        ws.send_event(SUBSCRIPTIONS[room.kind], event)


def post_ephemeral(
    ws: Workspace, room: WorkspaceRoom, person: str, text: str, blocks: list[Json], thread_ts: str | None
) -> Json:
    """Show a message in a room to one person only."""
    notice: Json = {"ts": ws.create_timestamp(), "channel": room.id, "user": ws.app.user, "text": text}
    if thread_ts:
        notice["thread_ts"] = thread_ts
    if blocks:
        notice["blocks"] = fill_block_ids(blocks)
    ws.state.add_ephemeral(person, notice)
    ws.notify_change("private", room.id, person)
    return notice


def build_bot_fields(ws: Workspace) -> Json:
    """Build the fields that name the app as a message's author."""
    app = ws.app
    profile = {"id": app.bot, "app_id": app.app, "name": app.name, "deleted": False, "team_id": app.team}
    return {"user": app.user, "bot_id": app.bot, "app_id": app.app, "bot_profile": profile}
