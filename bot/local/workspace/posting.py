"""Put messages into rooms, rewrite and remove them, with everything the platform keeps book of, and tell the app."""

from __future__ import annotations

import secrets

from bot.local.workspace.payloads import changed_event, deleted_event, mention_event, message_event
from bot.local.workspace.refused import Refused
from bot.local.workspace.workspace import Workspace
from bot.local.workspace.world import Json, Room

SUBSCRIPTIONS = {"im": "message.im", "channel": "message.channels"}


def short_id() -> str:
    """An id as the platform gives to blocks and elements without one."""
    return secrets.token_urlsafe(4)


def named(blocks: list[Json]) -> list[Json]:
    """The same blocks, each with a block_id, each interactive element with an action_id."""
    return [named_block(block) for block in blocks]


def named_block(block: Json) -> Json:
    out = {**block, "block_id": block.get("block_id") or short_id()}
    if block["type"] in ("actions", "context_actions"):
        out["elements"] = [named_element(element) for element in block["elements"]]
    for slot in ("accessory", "element"):
        if isinstance(block.get(slot), dict) and block[slot]["type"] != "image":
            out[slot] = named_element(block[slot])
    return out


def named_element(element: Json) -> Json:
    return {**element, "action_id": element.get("action_id") or short_id()}


def find(ws: Workspace, channel: str, ts: str) -> Json:
    """The message. `Refused` when the room or the message does not exist."""
    room = ws.state.rooms.get(channel)
    if room is None:
        raise Refused("channel_not_found")
    message = room.messages.get(ts)
    if message is None:
        raise Refused("message_not_found")
    return message


def thread_root(room: Room, thread_ts: str | None) -> Json | None:
    """The first message of the thread to answer in. `Refused` when it is gone or itself an answer."""
    if not thread_ts:
        return None
    root = room.messages.get(thread_ts)
    if root is None or root.get("thread_ts", thread_ts) != thread_ts:
        raise Refused("cannot_reply_to_message")
    return root


def post(ws: Workspace, room: Room, message: Json, thread_ts: str | None = None) -> Json:
    """Add a message (its `ts` is given here), keep book of the thread, tell the page and the app."""
    root = thread_root(room, thread_ts)
    message = {"type": "message", **message, "ts": ws.stamp(), "team": ws.app.team}
    if root is not None:
        message |= {"thread_ts": root["ts"], "parent_user_id": root["user"]}
    ws.state.add(room, message)
    if root is not None:
        keep_book(room, root)
        ws.state.statuses.pop((room.id, root["ts"]), None)
    ws.tell("messages", room.id)
    announce(ws, room, message)
    return message


def keep_book(room: Room, root: Json) -> None:
    """What a thread's first message says about its replies."""
    replies = replies_of(room, root["ts"])
    users = list(dict.fromkeys(reply["user"] for reply in replies))
    book = ("thread_ts", "reply_count", "reply_users", "reply_users_count", "latest_reply", "is_locked", "subscribed")
    for name in book:
        root.pop(name, None)
    if replies:
        counts = {"reply_count": len(replies), "reply_users": users, "reply_users_count": len(users)}
        root |= {"thread_ts": root["ts"], **counts, "latest_reply": replies[-1]["ts"]}
        root |= {"is_locked": False, "subscribed": True}


def replies_of(room: Room, thread_ts: str) -> list[Json]:
    return [m for m in room.messages.values() if m.get("thread_ts") == thread_ts != m["ts"]]


def announce(ws: Workspace, room: Room, message: Json) -> None:
    """The events of a new message, for an app that is in the room: its own messages come back to it too."""
    if ws.app.user not in room.members:
        return
    ws.send_event(SUBSCRIPTIONS[room.kind], message_event(message, room))
    mentioned = f"<@{ws.app.user}>" in message.get("text", "") and message["user"] != ws.app.user
    if mentioned and room.kind != "im":
        ws.send_event("app_mention", mention_event(message, room))


def amend(ws: Workspace, room: Room, message: Json, changes: Json, editor: str) -> None:
    """Rewrite a message in place, marked as edited by `editor`."""
    previous = dict(message)
    if "blocks" in changes:
        ws.state.remember_blocks(room.id, message["ts"], message.get("blocks", []))
    message |= changes
    if not message.get("blocks", True):
        del message["blocks"]
    message["edited"] = {"user": editor, "ts": ws.stamp()}
    ws.tell("messages", room.id)
    if ws.app.user in room.members:
        ws.send_event(SUBSCRIPTIONS[room.kind], changed_event(message, previous, room, ws.stamp()))


def remove(ws: Workspace, room: Room, message: Json) -> None:
    """Delete a message; the first one of a thread leaves a tombstone."""
    if message.get("reply_count"):
        for name in ("blocks", "metadata", "attachments", "client_msg_id", "edited", "reactions"):
            message.pop(name, None)
        message |= {"subtype": "tombstone", "text": "This message was deleted.", "hidden": True}
    else:
        del room.messages[message["ts"]]
        root = room.messages.get(message.get("thread_ts", ""))
        if root is not None:
            keep_book(room, root)
    ws.tell("messages", room.id)
    if ws.app.user in room.members:
        ws.send_event(SUBSCRIPTIONS[room.kind], deleted_event(message, room, ws.stamp()))


def whisper(ws: Workspace, room: Room, person: str, text: str, blocks: list[Json], thread_ts: str | None) -> Json:
    """Show something to one person only, in a room."""
    notice: Json = {"ts": ws.stamp(), "channel": room.id, "user": ws.app.user, "text": text}
    if thread_ts:
        notice["thread_ts"] = thread_ts
    if blocks:
        notice["blocks"] = named(blocks)
    ws.state.whisper(person, notice)
    ws.tell("private", room.id, person)
    return notice


def bot_fields(ws: Workspace) -> Json:
    """Who a message of the app is from."""
    app = ws.app
    profile = {"id": app.bot, "app_id": app.app, "name": app.name, "deleted": False, "team_id": app.team}
    return {"user": app.user, "bot_id": app.bot, "app_id": app.app, "bot_profile": profile}
