"""What people do in the workspace: say, edit, press, submit, open. Each tells the app what the platform would."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.local.workspace import answers, posting, views
from bot.local.workspace.delivery import Kind, Unanswered
from bot.local.workspace.fields import VALUE_OF, entry, find_element, missing, state_values
from bot.local.workspace.once import ReplyUrl
from bot.local.workspace.payloads import home_opened_event, interaction, slash_command
from bot.local.workspace.refused import Refused
from bot.local.workspace.typed import escape, marked_up, rich_text
from bot.local.workspace.validate import POST_TEXT
from bot.local.workspace.workspace import Workspace
from bot.local.workspace.world import Json, Person, Room


@dataclass(frozen=True, slots=True)
class Done:
    """How an act ended. `error` empty when it went well; `errors` are a dialog's problems by block_id."""

    error: str = ""
    errors: Mapping[str, str] = field(default_factory=dict)
    answer: Json = field(default_factory=dict)
    """What the app put into its acknowledgement."""

    @property
    def ok(self) -> bool:
        return not self.error


def typed_text(ws: Workspace, text: str, encoded: bool) -> str:
    if not text.strip():
        raise Refused("no_text")
    if len(text) > POST_TEXT:
        raise Refused("msg_too_long")
    return marked_up(text, ws.state.people.values(), ws.state.rooms.values(), encoded=encoded)


def say(
    ws: Workspace, person: str, channel: str, text: str, thread_ts: str | None = None, *, encoded: bool = False
) -> str:
    """Somebody writes a message; its timestamp. `encoded`: as a client sends it, not as it was typed."""
    who = ws.person(person)
    room = ws.room_with(channel, who.id)
    marked = typed_text(ws, text, encoded)
    blocks = rich_text(marked, posting.short_id())
    message = {"user": who.id, "text": marked, "client_msg_id": str(uuid.uuid4()), "blocks": blocks}
    ts = str(posting.post(ws, room, message, thread_ts)["ts"])
    read(ws, person, channel)
    return ts


def own(ws: Workspace, person: str, channel: str, ts: str, error: str) -> tuple[Room, Json]:
    room = ws.room_with(channel, ws.person(person).id)
    message = posting.find(ws, channel, ts)
    if message["user"] != person or message.get("subtype") == "tombstone":
        raise Refused(error)
    return room, message


def edit(ws: Workspace, person: str, channel: str, ts: str, text: str, *, encoded: bool = False) -> None:
    room, message = own(ws, person, channel, ts, "cant_update_message")
    marked = typed_text(ws, text, encoded)
    posting.amend(ws, room, message, {"text": marked, "blocks": rich_text(marked, posting.short_id())}, person)


def delete(ws: Workspace, person: str, channel: str, ts: str) -> None:
    posting.remove(ws, *own(ws, person, channel, ts, "cant_delete_message"))


def read(ws: Workspace, person: str, channel: str) -> None:
    """Everything in the room counts as read."""
    room = ws.room_with(channel, person)
    if room.messages:
        ws.state.read.setdefault(person, {})[channel] = next(reversed(room.messages))
    ws.tell("channels", channel, person)


def set_locale(ws: Workspace, person: str, locale: str) -> None:
    if locale not in ("zh-CN", "en-US"):
        raise Refused("invalid_locale")
    ws.person(person).locale = locale
    ws.tell("people", person=person)


async def interact(ws: Workspace, kind: Kind, payload: Json) -> Done:
    try:
        return Done(answer=await ws.delivery.interact(kind, payload))
    except Unanswered as missing_answer:
        return Done("no_app" if missing_answer.reason == "no_app" else "no_answer")


@dataclass(frozen=True, slots=True)
class Shown:
    """A message on somebody's screen. `private`: only they see it."""

    message: Json
    private: bool


def shown(ws: Workspace, person: str, channel: str, ts: str) -> Shown:
    notice = next((n for n in ws.state.private.get(person, []) if n["ts"] == ts and n["channel"] == channel), None)
    return Shown(notice, True) if notice else Shown(posting.find(ws, channel, ts), False)


async def click(
    ws: Workspace,
    person: str,
    channel: str,
    ts: str,
    action_id: str,
    *,
    block_id: str | None = None,
    value: Any = None,
    force: bool = False,
) -> Done:
    """Press a button (or choose an option `value`). `Refused` when the message does not show it now; with `force` it is
    pressed as on a screen that was not repainted: as it last was, and with `value` if given."""
    who, room = ws.person(person), ws.room_with(channel, person)
    on = shown(ws, person, channel, ts)
    found = find_element(on.message.get("blocks", []), action_id, block_id)
    if found is None and force:
        found = stale_element(ws, channel, ts, action_id, block_id, value)
    if found is None:
        raise Refused("action_not_found")
    block, element = found
    if not force and person not in element.get("visible_to_user_ids", [person]):
        raise Refused("action_not_found")
    payload = block_actions(ws, who, room, on, action(ws, block, element, value, force))
    return await interact(ws, "interactive", payload)


def stale_element(
    ws: Workspace, channel: str, ts: str, action_id: str, block_id: str | None, value: Any
) -> tuple[Json, Json]:
    """The element as the message last had it, or one made up."""
    for blocks in reversed(ws.state.old_blocks.get((channel, ts), [])):
        if found := find_element(blocks, action_id, block_id):
            return found
    button = {"type": "button", "action_id": action_id, "text": {"type": "plain_text", "text": "?"}, "value": value}
    return {"type": "actions", "block_id": block_id or posting.short_id()}, button


def action(ws: Workspace, block: Json, element: Json, value: Any, force: bool) -> Json:
    """One item of `actions`."""
    common = {
        "action_id": element["action_id"],
        "block_id": block["block_id"],
        "type": element["type"],
        "action_ts": ws.stamp(),
    }
    if element["type"] in VALUE_OF:
        return {**common, **entry(element, value)}
    pressed = value if force and value is not None else element.get("value")
    extra = {"value": pressed} if pressed is not None else {}
    style = {"style": element["style"]} if "style" in element else {}
    return {**common, "text": element.get("text"), **extra, **style}


def block_actions(ws: Workspace, who: Person, room: Room, on: Shown, pressed: Json) -> Json:
    message = on.message
    thread = message.get("thread_ts")
    reply = ReplyUrl(who.id, room.id, ws.clock(), message["ts"], thread, on.private)
    container = {
        "type": "message",
        "message_ts": message["ts"],
        "channel_id": room.id,
        "is_ephemeral": on.private,
        **({"thread_ts": thread} if thread else {}),
    }
    visible = {} if on.private else {"message": message}
    return {
        **interaction(ws.app, "block_actions", who, ws.triggers.mint(who.id)),
        "container": container,
        "channel": {"id": room.id, "name": room.name},
        **visible,
        "state": {"values": state_values(message.get("blocks", []), {})},
        "response_url": f"{ws.address}/response/{ws.reply_urls.mint(reply)}",
        "actions": [pressed],
    }


async def click_view(
    ws: Workspace, person: str, view_id: str, action_id: str, *, block_id: str | None = None, value: Any = None
) -> Done:
    """Press a button of the Home tab or of the open dialog."""
    who = ws.person(person)
    view = own_view(ws, person, view_id)
    found = find_element(view["blocks"], action_id, block_id)
    if found is None:
        raise Refused("action_not_found")
    pressed = action(ws, *found, value, False)
    payload = {
        **interaction(ws.app, "block_actions", who, ws.triggers.mint(who.id)),
        "container": {"type": "view", "view_id": view_id},
        "view": {**view, "state": {"values": state_values(view["blocks"], {})}},
        "actions": [pressed],
    }
    return await interact(ws, "interactive", payload)


def own_view(ws: Workspace, person: str, view_id: str) -> Json:
    home = ws.state.homes.get(person)
    if home and home["id"] == view_id:
        return home
    if view_id not in ws.state.stacks.get(person, []):
        raise Refused("view_not_found")
    return ws.state.views[view_id]


async def submit(ws: Workspace, person: str, view_id: str, values: Mapping[str, Any], *, force: bool = False) -> Done:
    """Submit the dialog in front. `values` by block_id. Without `force`, what the composer refuses is not sent."""
    who, view = ws.person(person), views.in_front(ws, person, view_id)
    state = state_values(view["blocks"], values)
    if not force and (problems := missing(view["blocks"], state)):
        return Done("invalid_input", problems)
    done = await interact(ws, "interactive", view_submission(ws, who, {**view, "state": {"values": state}}))
    if not done.ok:
        return done
    try:
        errors = views.respond(ws, person, view_id, done.answer)
    except Refused as refused:
        return Done(refused.error, answer=done.answer)
    return Done("app_errors", errors, done.answer) if errors else done


def view_submission(ws: Workspace, who: Person, view: Json) -> Json:
    return {
        **interaction(ws.app, "view_submission", who, ws.triggers.mint(who.id)),
        "view": view,
        "response_urls": [],
    }


async def close_view(ws: Workspace, person: str, view_id: str) -> Done:
    """Close the dialog in front; the app hears of it if it asked to."""
    who, view = ws.person(person), views.in_front(ws, person, view_id)
    if view["clear_on_close"]:
        views.close_all(ws, person)
    else:
        views.close_top(ws, person)
    if not view["notify_on_close"]:
        return Done()
    payload = interaction(ws.app, "view_closed", who, "")
    del payload["trigger_id"]
    return await interact(ws, "interactive", {**payload, "view": view, "is_cleared": view["clear_on_close"]})


async def slash(ws: Workspace, person: str, channel: str, command: str, text: str) -> Done:
    """Use a slash command; what the app acknowledges with is shown to the person."""
    who, room = ws.person(person), ws.room_with(channel, person)
    if command not in ws.setup.commands:
        raise Refused("unknown_command")
    reply = ReplyUrl(who.id, room.id, ws.clock())
    url = f"{ws.address}/response/{ws.reply_urls.mint(reply)}"
    trigger = ws.triggers.mint(who.id)
    payload = slash_command(ws.app, who, room, command, escape(text.strip()), trigger, url)
    done = await interact(ws, "slash_commands", payload)
    if done.ok and (done.answer.get("text") or done.answer.get("blocks")):
        answers.answer(ws, reply, done.answer)
    return done


def open_home(ws: Workspace, person: str) -> str:
    """Look at the app's Home tab; the event's id."""
    who = ws.person(person)
    return ws.send_event("app_home_opened", home_opened_event(who, ws.state.homes.get(person), ws.stamp()))
