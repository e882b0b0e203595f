"""Acts of people in the workspace: write, press, submit, open. Each act notifies the app as the platform would."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.dev.workspace import methods_files, posting, views
from bot.dev.workspace.arguments import MethodArguments
from bot.dev.workspace.delivery import Kind, NotAcknowledgedError
from bot.dev.workspace.fields import (
    VALUE_OF,
    build_state_entry,
    build_state_values,
    check_input_values,
    find_element,
    keep_typed_values,
)
from bot.dev.workspace.methods_chat import require_message_content
from bot.dev.workspace.payloads import (
    RESPONSE_URL,
    build_home_opened_event,
    build_interaction,
    build_session_stopped_event,
    build_slash_command,
    build_user_object,
    drop_metadata,
)
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.typed import escape_text, mark_up_text
from bot.dev.workspace.validate import POST_TEXT
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json, WorkspaceMember, WorkspaceRoom


@dataclass(frozen=True, slots=True)
class ActResult:
    """Outcome of an act. `error` is empty on success; `errors` are a dialog's problems by block_id."""

    error: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    answer: Json = field(default_factory=dict)
    """Content of the app's acknowledgement."""

    @property
    def ok(self) -> bool:
        return not self.error


class WorkspaceActs:
    """Acts of people in one workspace. A refusal raises `WorkspaceError`, where it would stop a person."""

    def __init__(self, workspace: Workspace, *, is_encoded: bool = False) -> None:
        """`is_encoded` marks text as a client sends it, instead of as typed."""
        self.ws, self.is_encoded = workspace, is_encoded

    async def send_message(
        self, person: str, channel: str, text: str, thread_ts: str | None = None, *, files: Sequence[str] = ()
    ) -> str:
        """Send a message of a person; return its timestamp. `files` are ids of files uploaded for it. A message with
        files may have no text."""
        who = self.ws.get_person(person)
        room = self.ws.get_room(channel, who.id)
        shared = [methods_files.get_own_file(self.ws, id, who.id) for id in files]
        marked = self.encode_text(text) if text.strip() or not shared else ""
        message: Json = {"user": who.id, "text": marked, "client_msg_id": str(uuid.uuid4())}
        if shared:
            message |= {"subtype": "file_share", "upload": False}
            message["files"] = [methods_files.build_file_object(self.ws, file, None) for file in shared]
            for file in shared:
                file.rooms.add(room.id)
        ts = str(posting.post_message(self.ws, room, message, thread_ts)["ts"])
        self.ws.state.prompts.pop(channel, None)
        mark_read(self.ws, person, channel)
        return ts

    def encode_text(self, text: str) -> str:
        if not text.strip():
            raise WorkspaceError("no_text")
        if len(text) > POST_TEXT:
            raise WorkspaceError("msg_too_long")
        state = self.ws.state
        return mark_up_text(text, state.people.values(), state.rooms.values(), encoded=self.is_encoded)

    async def set_locale(self, person: str, locale: str) -> None:
        if locale not in ("zh-CN", "en-US"):
            raise WorkspaceError("invalid_locale")
        member = self.ws.get_person(person)
        member.locale = locale
        user = build_user_object(self.ws.app, member, locale=True, email=True)
        self.ws.send_event("user_change", {"type": "user_change", "user": user})
        self.ws.notify_change("people", person=person)

    async def click_button(
        self,
        person: str,
        channel: str,
        ts: str,
        action_id: str,
        *,
        block_id: str | None = None,
        value: Any = None,
        force: bool = False,
    ) -> ActResult:
        """Press a button, or choose an option `value`. The message has to show the button now.

        With `force`, the press is made as on a screen that was not repainted: on the button as it last was, and with
        `value` if given."""
        who, room = self.ws.get_person(person), self.ws.get_room(channel, person)
        notices = self.ws.state.private.get(person, [])  # only they see these
        notice = next((one for one in notices if (one["ts"], one["channel"]) == (ts, channel)), None)
        message = notice or posting.get_message(self.ws, channel, ts)
        found = find_element(message.get("blocks", []), action_id, block_id)
        if found is None and force:
            found = build_stale_element(self.ws, channel, ts, action_id, block_id, value)
        if found is None:
            raise WorkspaceError("action_not_found")
        block, element = found
        action = build_action(self.ws, block, element, value, force)
        if element["type"] in VALUE_OF:
            put = self.ws.state.ticked.setdefault((person, channel, ts), {})
            put[block["block_id"]] = {action_id: build_state_entry(element, value)}
        payload = build_block_actions(self.ws, who, room, message, action)
        return await send_interaction(self.ws, "interactive", payload)

    async def click_view_button(
        self,
        person: str,
        view_id: str,
        action_id: str,
        *,
        block_id: str | None = None,
        value: Any = None,
        values: Mapping[str, Any] | None = None,
    ) -> ActResult:
        """Press a button, or choose an option, of the Home tab or of the open dialog.

        `values` are the present values of its inputs by block_id; None takes those that the workspace knows."""
        who = self.ws.get_person(person)
        view = get_own_view(self.ws, person, view_id)
        found = find_element(view["blocks"], action_id, block_id)
        if found is None:
            raise WorkspaceError("action_not_found")
        pressed = build_action(self.ws, *found, value, False)
        given = keep_known_values(self.ws, view) if values is None else share_chosen_files(self.ws, who, view, values)
        state = build_state_values(view["blocks"], given)
        if view_id in self.ws.state.views:
            self.ws.state.typed[view_id] = state
        payload = {
            **build_interaction(self.ws.app, "block_actions", who, self.ws.triggers.create_trigger(who.id)),
            "container": {"type": "view", "view_id": view_id},
            "view": {**view, "state": {"values": state}},
            "actions": [pressed],
        }
        return await send_interaction(self.ws, "interactive", payload)

    async def submit_view(
        self, person: str, view_id: str, values: Mapping[str, Any], *, force: bool = False
    ) -> ActResult:
        """Submit the top dialog with `values` by block_id. Without `force`, values that the composer refuses are not
        sent."""
        who, view = self.ws.get_person(person), views.get_top_view(self.ws, person, view_id)
        given = share_chosen_files(self.ws, who, view, values)
        state = build_state_values(view["blocks"], {**keep_known_values(self.ws, view), **given})
        if not force and (problems := check_input_values(view["blocks"], state)):
            return ActResult("invalid_input", problems)
        payload = {
            **build_interaction(self.ws.app, "view_submission", who, self.ws.triggers.create_trigger(who.id)),
            "view": {**view, "state": {"values": state}},
        }
        done = await send_interaction(self.ws, "interactive", payload)
        if not done.ok:
            return done
        try:
            errors = views.apply_response_action(self.ws, person, view_id, done.answer)
        except WorkspaceError as refused:
            return ActResult(refused.error, answer=done.answer)
        return ActResult("app_errors", errors, done.answer) if errors else done

    async def close_view(self, person: str, view_id: str) -> ActResult:
        """Close the top dialog. The app does not hear of it."""
        views.get_top_view(self.ws, person, view_id)
        views.close_top_view(self.ws, person)
        return ActResult()

    async def run_slash_command(self, person: str, channel: str, command: str, text: str = "") -> ActResult:
        """Use a slash command; show the person the content of the app's acknowledgement."""
        who, room = self.ws.get_person(person), self.ws.get_room(channel, person)
        if command not in self.ws.setup.commands:
            raise WorkspaceError("unknown_command")
        trigger = self.ws.triggers.create_trigger(who.id)
        payload = build_slash_command(self.ws.app, who, room, command, escape_text(text.strip()), trigger)
        done = await send_interaction(self.ws, "slash_commands", payload)
        if done.ok and (done.answer.get("text") or done.answer.get("blocks")):
            found = require_message_content(MethodArguments(done.answer))
            posting.post_ephemeral(self.ws, room, who.id, found.get("text", ""), found.get("blocks", []), None)
        return done

    async def use_shortcut(self, person: str, callback_id: str, channel: str = "", ts: str = "") -> ActResult:
        """Use an entry of the app in the composer's menu, or, with `channel` and `ts`, in a message's menu."""
        who = self.ws.get_person(person)
        known = next((one for one in self.ws.setup.shortcuts if one.callback_id == callback_id), None)
        if known is None or known.on_messages != bool(ts):
            raise WorkspaceError("unknown_shortcut")
        kind, trigger = "message_action" if ts else "shortcut", self.ws.triggers.create_trigger(who.id)
        payload = {**build_interaction(self.ws.app, kind, who, trigger), "callback_id": callback_id}
        if ts:
            room, message = self.ws.get_room(channel, who.id), posting.get_message(self.ws, channel, ts)
            shown = {"channel": {"id": room.id, "name": room.name}, "message": drop_metadata(message)}
            payload |= {**shown, "message_ts": ts, "response_url": RESPONSE_URL}
        return await send_interaction(self.ws, "interactive", payload)

    async def open_home(self, person: str) -> str:
        """Open the app's Home tab; return the event's id."""
        who = self.ws.get_person(person)
        event = build_home_opened_event(who, self.ws.state.homes.get(person), self.ws.create_timestamp())
        return self.ws.send_event("app_home_opened", event)

    async def open_messages(self, person: str) -> str:
        """Open the DM with the app; return the event's id."""
        who = self.ws.get_person(person)
        event = build_home_opened_event(who, None, self.ws.create_timestamp(), tab="messages")
        return self.ws.send_event("app_home_opened", event)

    async def stop_session(self, person: str, channel: str, thread_ts: str) -> str:
        """Press the *Stop* of a working session; return the event's id. The app itself says when it has stopped."""
        who, room = self.ws.get_person(person), self.ws.get_room(channel, person)
        session = self.ws.state.sessions.get((channel, thread_ts))
        if session is None or session["status"] != "processing":
            raise WorkspaceError("action_not_found")
        event = build_session_stopped_event(who, room, thread_ts, self.ws.create_timestamp())
        self.ws.notify_change("messages", channel)
        return self.ws.send_event("agent_session_stopped", event)


def mark_read(ws: Workspace, person: str, channel: str) -> None:
    """Mark everything in the room as read."""
    room = ws.get_room(channel, person)
    if room.messages:
        ws.state.read.setdefault(person, {})[channel] = next(reversed(room.messages))
    ws.notify_change("channels", channel, person)


async def send_interaction(ws: Workspace, kind: Kind, payload: Json) -> ActResult:
    try:
        return ActResult(answer=await ws.delivery.deliver_interaction(kind, payload))
    except NotAcknowledgedError as missing_answer:
        return ActResult("no_app" if missing_answer.reason == "no_app" else "no_answer")


def build_stale_element(
    ws: Workspace, channel: str, ts: str, action_id: str, block_id: str | None, value: Any
) -> tuple[Json, Json]:
    """Return the element as the message last had it, or an invented one."""
    for blocks in reversed(ws.state.old_blocks.get((channel, ts), [])):
        if found := find_element(blocks, action_id, block_id):
            return found
    button = {"type": "button", "action_id": action_id, "text": {"type": "plain_text", "text": "?"}, "value": value}
    return {"type": "actions", "block_id": block_id or posting.create_short_id()}, button


def build_action(ws: Workspace, block: Json, element: Json, value: Any, force: bool) -> Json:
    """Build one item of `actions`."""
    common = {"action_id": element["action_id"], "block_id": block["block_id"], "type": element["type"]}
    if element["type"] in VALUE_OF:
        return {**common, **build_state_entry(element, value)}
    if "positive_button" in element:
        buttons = (element["positive_button"], element["negative_button"])
        button = next((one for one in buttons if one["value"] == value), None)
        if button is None:
            raise WorkspaceError("action_not_found")
        return {**common, "text": button["text"], "value": button["value"]}
    pressed = value if force and value is not None else element.get("value")
    extra = {"value": pressed} if pressed is not None else {}
    style = {"style": element["style"]} if "style" in element else {}
    return {**common, "text": element.get("text"), **extra, **style}


def build_block_actions(ws: Workspace, who: WorkspaceMember, room: WorkspaceRoom, message: Json, pressed: Json) -> Json:
    thread, is_ephemeral = message.get("thread_ts"), message["ts"] not in room.messages
    container = {
        "type": "message",
        "message_ts": message["ts"],
        "channel_id": room.id,
        "is_ephemeral": is_ephemeral,
        **({"thread_ts": thread} if thread else {}),
    }
    visible = {} if is_ephemeral else {"message": message}
    blocks = message.get("blocks", [])
    put = keep_typed_values(blocks, ws.state.ticked.get((who.id, room.id, message["ts"]), {}))
    return {
        **build_interaction(ws.app, "block_actions", who, ws.triggers.create_trigger(who.id)),
        "container": container,
        "channel": {"id": room.id, "name": room.name},
        **visible,
        "state": {"values": build_state_values(blocks, put)},
        "response_url": RESPONSE_URL,
        "actions": [pressed],
    }


def keep_known_values(ws: Workspace, view: Json) -> dict[str, Json]:
    """Return the values that the person has put into a view, for the inputs that it still has."""
    return keep_typed_values(view["blocks"], ws.state.typed.get(view["id"], {}))


def share_chosen_files(ws: Workspace, who: WorkspaceMember, view: Json, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace chosen file ids in the values by the platform's file objects. From here on the app can see these
    files."""
    shown = dict(values)
    for block in view["blocks"]:
        name = block["block_id"]
        if block["type"] != "input" or block["element"]["type"] != "file_input" or name not in values:
            continue
        put = values[name]
        for key in (block["element"]["action_id"], "files"):
            put = put[key] if isinstance(put, Mapping) and key in put else put
        if not isinstance(put, list):
            raise WorkspaceError("invalid_arguments")
        ids = [str(one.get("id") if isinstance(one, Mapping) else one) for one in put]
        chosen = [methods_files.get_own_file(ws, id, who.id) for id in ids]
        shown[name] = [methods_files.build_file_object(ws, file, None) for file in chosen]
        for file in chosen:
            file.is_in_dialog = True
    return shown


def get_own_view(ws: Workspace, person: str, view_id: str) -> Json:
    home = ws.state.homes.get(person)
    if home and home["id"] == view_id:
        return home
    if view_id not in ws.state.stacks.get(person, []):
        raise WorkspaceError("view_not_found")
    return ws.state.views[view_id]
