"""Acts of people in Feishu: write, click, open the menu. Each act notifies the app as Feishu would."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Any

from bot.dev.workspace import methods_files
from bot.dev.workspace.acts import ActResult, WorkspaceActs, mark_read, send_interaction
from bot.dev.workspace.feishu import messages
from bot.dev.workspace.feishu.cards import (
    check_card,
    collect_form_values,
    get_callback,
    is_submit,
    list_controls,
    list_missing_inputs,
)
from bot.dev.workspace.feishu.methods import build_file_key, describe_file
from bot.dev.workspace.feishu.refused import FeishuError
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.world import Json, WorkspaceRoom

TYPED_MENTION = re.compile(r"@(\S+)")
MENTION_KEY = re.compile(r"(@_user_\d+)")
TEXT_CHARS = 40_000


class FeishuActs(WorkspaceActs):
    """Acts of people in one workspace. Those of Slack that are not here have no likeness in Feishu."""

    ws: FeishuWorkspace

    async def send_message(
        self, person: str, channel: str, text: str, thread_ts: str | None = None, *, files: Sequence[str] = ()
    ) -> str:
        """Send a message of a person; return its id.

        Pictures stand in the message. Other files are messages of their own, sent before the text."""
        who = self.ws.get_person(person)
        room = self.ws.get_room(channel, who.id)
        chosen = [methods_files.get_own_file(self.ws, id, who.id) for id in files]
        parent = get_parent(room, thread_ts)
        for file in chosen:
            file.rooms.add(room.id)
        pictures = [file for file in chosen if methods_files.detect_mime_type(file) != methods_files.OTHER]
        sent = ""
        for file in chosen:
            if file not in pictures:
                content = {"file_key": build_file_key(file, "file"), "file_name": file.name}
                sent = post_own(self.ws, room, who.id, "file", content, parent, files=[describe_file(file, "file")])
        shown = [describe_file(file, "image") for file in pictures]
        if text.strip() or not chosen:
            content, mentions = write_content(self.ws, text)
            words = {"text": show_words(content, mentions), "mentions": mentions}
            if shown:
                line = build_post_line(content["text"], mentions)
                post = {"title": "", "content": [line, *([{"tag": "img", "image_key": one["key"]}] for one in shown)]}
                sent = post_own(self.ws, room, who.id, "post", post, parent, files=shown, **words)
            else:
                sent = post_own(self.ws, room, who.id, "text", content, parent, **words)
        else:
            for one in shown:
                sent = post_own(self.ws, room, who.id, "image", {"image_key": one["key"]}, parent, files=[one])
        mark_read(self.ws, person, channel)
        return sent

    async def open_menu(self, person: str, key: str) -> str:
        """Choose an entry of the bot's menu; return the event's id."""
        who = self.ws.get_person(person)
        if key not in dict(self.ws.setup.menu):
            raise WorkspaceError("unknown_shortcut")
        operator = {"operator_name": who.real_name, "operator_id": messages.build_ids(self.ws, who.id)}
        event = {"operator": operator, "event_key": key, "timestamp": int(self.ws.clock())}
        return self.ws.push_event("application.bot.menu_v6", event)

    async def open_messages(self, person: str) -> str:
        """Open the chat with the bot; return the event's id."""
        who = self.ws.get_person(person)
        event = {"chat_id": who.dm_id, "operator_id": messages.build_ids(self.ws, who.id)}
        return self.ws.push_event("im.chat.access_event.bot_p2p_chat_entered_v1", event)

    async def set_locale(self, person: str, locale: str) -> None:
        member = self.ws.get_person(person)
        member.locale = locale
        self.ws.push_event("contact.user.updated_v3", {"object": messages.build_ids(self.ws, person), "old_object": {}})
        self.ws.notify_change("people", person=person)


def write_content(ws: FeishuWorkspace, text: str) -> tuple[Json, list[Json]]:
    """Build the content of a typed text and its mentions: each `@name` becomes a key."""
    if not text.strip():
        raise WorkspaceError("no_text")
    if len(text) > TEXT_CHARS:
        raise WorkspaceError("msg_too_long")
    names = {
        name.lower(): one
        for one in ws.state.people.values()
        for name in (one.name, one.display_name, one.real_name)
        if name
    }
    mentions: list[Json] = []

    def replace_name(found: re.Match[str]) -> str:
        typed = found[1].lower()
        name = next((one for one in sorted(names, key=len, reverse=True) if typed.startswith(one)), None)
        if name is None:
            return found[0]
        person = names[name]
        known = next((one for one in mentions if one["id"] == person.id), None)
        if known is None:
            known = {"key": f"@_user_{len(mentions) + 1}", "id": person.id, "name": person.real_name}
            mentions.append(known)
        return str(known["key"]) + found[1][len(name) :]

    return {"text": TYPED_MENTION.sub(replace_name, text.strip())}, mentions


def show_words(content: Json, mentions: Sequence[Json]) -> str:
    """Return the text with the names of the people in it."""
    words = str(content["text"])
    for one in reversed(mentions):
        words = words.replace(one["key"], f"@{one['name']}")
    return words


def build_post_line(text: str, mentions: Sequence[Json]) -> list[Json]:
    """Build the pieces of a line of a post: text and mentions."""
    line: list[Json] = []
    for piece in MENTION_KEY.split(text):
        known = next((one for one in mentions if one["key"] == piece), None)
        if known:
            line.append({"tag": "at", "user_id": piece, "user_name": known["name"], "style": []})
        elif piece:
            line.append({"tag": "text", "text": piece, "style": []})
    return line


def get_parent(room: WorkspaceRoom, thread_ts: str | None) -> Json | None:
    if not thread_ts:
        return None
    if (parent := room.messages.get(thread_ts)) is None:
        raise WorkspaceError("cannot_reply_to_message")
    return parent


def post_own(
    ws: FeishuWorkspace,
    room: WorkspaceRoom,
    person: str,
    msg_type: str,
    content: Json,
    parent: Json | None,
    **more: Any,
) -> str:
    """Post a person's message, and tell the app if it may hear it; return its id."""
    message = messages.post_message(
        ws, room, person, msg_type, content, parent=parent, in_thread=room.kind != "im" and parent is not None, **more
    )
    if is_heard(ws, room, message):
        ws.push_event("im.message.receive_v1", messages.build_message_event(ws, room, message))
    return str(message["ts"])


def is_heard(ws: FeishuWorkspace, room: WorkspaceRoom, message: Json) -> bool:
    """Return whether the app gets a message: in its chats, where it is mentioned, or everywhere by its scopes."""
    if ws.app.user not in room.members:
        return False
    if room.kind == "im":
        return "im:message.p2p_msg:readonly" in ws.setup.scopes
    mentioned = any(one["id"] == ws.app.user for one in message.get("mentions", []))
    return "im:message.group_msg" in ws.setup.scopes or (
        mentioned and "im:message.group_at_msg:readonly" in ws.setup.scopes
    )


def find_screen_card(ws: FeishuWorkspace, person: str, channel: str, ts: str) -> Json | None:
    """Return the message on a person's screen that has a card: one of the chat, or one that only they see."""
    room = ws.get_room(channel, person)
    shown = (*ws.state.private.get(person, []), room.messages.get(ts) or {})
    return next((one for one in shown if one.get("ts") == ts and one.get("card")), None)


async def click_card(
    ws: FeishuWorkspace,
    person: str,
    channel: str,
    ts: str,
    value: Any,
    *,
    form: Json | None = None,
    name: str = "",
    force: bool = False,
    **changed: Any,
) -> ActResult:
    """Press the element with this callback `value`; return the app's answer.

    `form`: the values of the form around a submit. `changed`: `option`, `options` or `checked`. With `force`, the press
    is made as on a screen that was not repainted: on whatever element, with whatever value."""
    message = find_screen_card(ws, ws.get_person(person).id, channel, ts)
    controls = list_controls(message["card"]) if message else []
    element, around = next(
        ((one, form) for one, form in controls if get_callback(one) == value and name in ("", one.get("name"))),
        (None, None),
    )
    if element is None and not force:
        raise WorkspaceError("action_not_found")
    element = element or {"tag": "button"}
    action: Json = {"value": value, "tag": element["tag"], "timezone": "Asia/Shanghai", **changed}
    if element.get("name"):
        action["name"] = element["name"]
    if around is not None and is_submit(element):
        action["form_value"] = collect_form_values(around, form or {})
        if not force and (missing := list_missing_inputs(around, action["form_value"])):
            return ActResult("invalid_input", dict.fromkeys(missing, "required"))
    elif force and form is not None:
        action["form_value"] = form
    operator = {"tenant_key": ws.app.team, **messages.build_ids(ws, person)}
    where = {"open_message_id": ts, "open_chat_id": channel}
    event = {
        "operator": operator,
        "token": f"c-{secrets.token_hex(16)}",
        "action": action,
        "host": "im_message",
        "context": where,
    }
    if "card.action.trigger" not in ws.setup.events:
        return ActResult("no_app")
    done = await send_interaction(ws, "interactive", ws.build_event("card.action.trigger", event))
    return show_answer(ws, person, channel, ts, done.answer) if done.ok else done


def show_answer(ws: FeishuWorkspace, person: str, channel: str, ts: str, answer: Json) -> ActResult:
    """Show the toast and the new card of the app's answer."""
    card, toast = answer.get("card"), answer.get("toast")
    try:
        if card:
            if card.get("type") != "raw":
                raise FeishuError(230099, "card of an unknown type")
            check_card(card["data"], ws.state.people)
            room = ws.get_room(channel, person)
            if (message := room.messages.get(ts)) is not None:
                messages.replace_card(ws, room, message, card["data"])
    except FeishuError as refused:
        return ActResult("app_errors", {"card": refused.words}, answer)
    if toast:
        notice = {"ts": ws.create_timestamp(), "channel": channel, "user": ws.app.user, "text": toast["content"]}
        ws.state.add_ephemeral(person, {**notice, "toast": toast, "msg_type": "text", "at_ms": int(ws.clock() * 1000)})
        ws.notify_change("private", channel, person)
    return ActResult(answer=answer)
