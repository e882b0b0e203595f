"""Web API: chat.startStream, chat.appendStream, chat.stopStream, for a message that grows while it is read."""

from __future__ import annotations

from typing import Any

from bot.dev.workspace import posting
from bot.dev.workspace.arguments import MethodArguments
from bot.dev.workspace.methods_chat import SESSION_STATUSES, get_bot_room, read_message_content, require_valid_blocks
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.streams import CHUNKS, DISPLAYS, LIFETIME_S, STREAM_BLOCKS, MessageStream
from bot.dev.workspace.validate import MARKDOWN_TEXT
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json, WorkspaceRoom


def chat_start_stream(ws: Workspace, args: MethodArguments) -> Json:
    """Start a stream. In a DM it must answer a message; in a channel it must name its recipient."""
    room = get_bot_room(ws, args.require_text("channel"))
    thread = args.require_text("thread_ts") if room.kind == "im" else args.read_text("thread_ts")
    if room.kind != "im":
        require_recipient(ws, args)
    display = args.read_text("task_display_mode") or DISPLAYS[0]
    if display not in DISPLAYS:
        raise WorkspaceError("invalid_arguments")
    stream = MessageStream(thread, ws.clock(), display)
    extend_stream(stream, args)
    fields = {**build_stream_fields(stream), **posting.build_bot_fields(ws), "streaming_state": "in_progress"}
    posted = posting.post_message(ws, room, fields, thread or None)
    ws.state.streams[room.id, posted["ts"]] = stream
    return {"channel": room.id, "ts": posted["ts"]}


def require_recipient(ws: Workspace, args: MethodArguments) -> None:
    for name in ("recipient_team_id", "recipient_user_id"):
        if not args.read_text(name):
            raise WorkspaceError(f"missing_{name}")
    if args.read_text("recipient_team_id") != ws.app.team:
        raise WorkspaceError("team_not_found")
    ws.get_person(args.read_text("recipient_user_id"))


def chat_append_stream(ws: Workspace, args: MethodArguments) -> Json:
    room, message = get_streamed_message(ws, args)
    stream = get_live_stream(ws, room, message["ts"], "stopped_by_user")
    if not (args.has_value("markdown_text") or args.has_value("chunks")):
        raise WorkspaceError("markdown_text_or_chunks_required")
    extend_stream(stream, args)
    message |= build_stream_fields(stream)
    ws.notify_change("messages", room.id)
    return {"channel": room.id, "ts": message["ts"]}


def chat_stop_stream(ws: Workspace, args: MethodArguments) -> Json:
    """End a stream with the last text and the closing blocks. The session becomes `active` unless `session_status` is
    given."""
    room, message = get_streamed_message(ws, args)
    stream = get_live_stream(ws, room, message["ts"], "message_not_in_streaming_state")
    status = args.read_text("session_status") or "active"
    if status not in SESSION_STATUSES:
        raise WorkspaceError("invalid_arguments")
    last = read_message_content(
        MethodArguments({name: value for name, value in args.values.items() if name in ("blocks", "metadata")})
    )
    extend_stream(stream, args)
    fields = build_stream_fields(stream)
    fields["blocks"] = posting.fill_block_ids([*fields["blocks"], *last.pop("blocks", [])])
    if not fields["blocks"]:
        raise WorkspaceError("no_text")
    del ws.state.streams[room.id, message["ts"]]
    if session := ws.state.sessions.get((room.id, stream.thread_ts)):
        session["status"] = status
    posting.change_message(ws, room, message, {**fields, **last, "streaming_state": "completed"})
    return {"channel": room.id, "ts": message["ts"], "message": message}


def get_streamed_message(ws: Workspace, args: MethodArguments) -> tuple[WorkspaceRoom, Json]:
    room = get_bot_room(ws, args.require_text("channel"))
    message = posting.get_message(ws, room.id, args.require_text("ts"))
    if message.get("user") != ws.app.user:
        raise WorkspaceError("message_not_owned_by_app")
    return room, message


def get_live_stream(ws: Workspace, room: WorkspaceRoom, ts: str, stopped: str) -> MessageStream:
    """Return a live stream, or raise `WorkspaceError`. `stopped` is the error after its reader has pressed *Stop*."""
    stream = ws.state.streams.get((room.id, ts))
    if stream is None or ws.clock() - stream.started_at > LIFETIME_S:
        raise WorkspaceError("message_not_in_streaming_state")
    if stream.is_stopped_by_user:
        raise WorkspaceError(stopped)
    return stream


def extend_stream(stream: MessageStream, args: MethodArguments) -> None:
    """Add text or chunks to a stream, all of them or none."""
    text, chunks = args.read_text("markdown_text"), args.read_json("chunks")
    if text and chunks:
        raise WorkspaceError("cannot_provide_both_markdown_text_and_chunks")
    mode = "markdown_text" if text else "chunks" if chunks else ""
    if mode and stream.mode and mode != stream.mode:
        raise WorkspaceError("streaming_mode_mismatch")
    if len(text) > MARKDOWN_TEXT:
        raise WorkspaceError("msg_too_long")
    for chunk in (taken := require_valid_chunks(stream, chunks) if chunks else []):
        stream.add_chunk(chunk)
    if text and not taken:
        stream.add_text(text)
    stream.mode = stream.mode or mode


def require_valid_chunks(stream: MessageStream, chunks: Any) -> list[Json]:
    if problems := list(CHUNKS(chunks, "/chunks")):
        raise WorkspaceError("invalid_chunks", problems)
    taken: list[Json] = [dict(chunk) for chunk in chunks]
    for chunk in (one for one in taken if one["type"] == "blocks"):
        if not isinstance(chunk["blocks"], list):
            raise WorkspaceError("invalid_chunks")
        chunk["blocks"] = require_valid_blocks(chunk["blocks"])
    if stream.count_blocks() + sum(len(chunk.get("blocks", ())) for chunk in taken) > STREAM_BLOCKS:
        raise WorkspaceError("msg_blocks_too_many")
    return taken


def build_stream_fields(stream: MessageStream) -> Json:
    """Build the present message. Its blocks get their ids when it is complete."""
    return {"text": stream.text, "blocks": stream.build_blocks()}


def list_live_streams(ws: Workspace, room: str) -> list[str]:
    """List the timestamps of a room's messages that still grow."""
    now = ws.clock()
    return [
        ts
        for (channel, ts), stream in ws.state.streams.items()
        if channel == room and not stream.is_stopped_by_user and now - stream.started_at <= LIFETIME_S
    ]


def stop_streams(ws: Workspace, room: str, thread_ts: str) -> list[str]:
    """Stop the streams of a thread, because *Stop* was pressed; return the timestamps of their messages."""
    stopped = [ts for ts in list_live_streams(ws, room) if ws.state.streams[room, ts].thread_ts == thread_ts]
    for ts in stopped:
        ws.state.streams[room, ts].is_stopped_by_user = True
        ws.state.rooms[room].messages[ts]["streaming_state"] = "completed"
    return stopped
