"""Hands of a person in Feishu, for tests, with the methods of `WorkspaceDriver`.

A dialog is a card with a form in the chat with the bot, and Home is a card there. Both are shown here as views, and not
among the messages. Messages have `blocks` beside their `card` (`bot.dev.workspace.feishu.shown`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bot.core.i18n import translate
from bot.dev.workspace.acts import ActResult
from bot.dev.workspace.driver import WorkspaceDriver
from bot.dev.workspace.faults import Outcome
from bot.dev.workspace.feishu.acts import FeishuActs, click_card, find_screen_card
from bot.dev.workspace.feishu.cards import get_callback, list_controls
from bot.dev.workspace.feishu.shown import (
    BOXES,
    DAY,
    TICK,
    build_blocks,
    build_view,
    dump_value,
    find_page,
    is_dialog,
    is_home,
    list_problems,
    name_action,
    name_value,
)
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import WebApiCall
from bot.dev.workspace.world import Json
from tools.languages import LANGUAGES

METHODS = {
    "views.open": "message.send",
    "chat.postMessage": "message.send",
    "chat.update": "message.patch",
    "chat.postEphemeral": "ephemeral.send",
    "conversations.members": "chat.members",
    "conversations.history": "message.list",
    "users.info": "user.get",
    "users.list": "user.list",
    "files-pri": "resource.get",
    "apps.connections.open": "connection.open",
}
"""Slack's method → the endpoint that does this here."""
CODES = {
    "token_revoked": "99991663",
    "missing_scope": "99991672",
    "restricted_action": "230018",
    "fatal": "230099",
    "expired_trigger_id": "230099",
    "not_allowed": "514",
}
"""Slack's error → the code that says this here."""
COMMANDS = {"/leave": "request:leave", "/expense": "request:expense", "cs:request": "request"}
"""Slash command or shortcut → the entry of the bot's menu that does this here."""


SAYING_NOTHING = {
    translate(f"feishu.{name}", language) for name in ("received", "form_in_dm", "submitted") for language in LANGUAGES
}


class OnlySlackError(Exception):
    """Raised for an act that only Slack has."""


class FeishuDriver(FeishuActs, WorkspaceDriver):
    ws: FeishuWorkspace

    def __init__(self, workspace: FeishuWorkspace, recheck_s: float | None = None) -> None:
        WorkspaceDriver.__init__(self, workspace, recheck_s)
        self.put: dict[tuple[str, str], Json] = {}
        """(person, message) → field → what they have put into its form on their screen."""
        self.old_homes: dict[str, Json | None] = {}
        """Person → the card of their Home when they opened it last."""

    # Acts of people

    async def click_button(
        self,
        user: str,
        channel: str,
        ts: str,
        action_id: str,
        *,
        block_id: str | None = None,
        value: Any = None,
        force: bool = False,
    ) -> ActResult:
        ts = ts.partition("/")[0]  # of the id of a view
        shown = find_screen_card(self.ws, user, channel, ts)
        card = shown["card"] if shown else {"body": {}}
        if action_id == "cs:tick":  # boxes in a form are sent with the press only
            around = next(form for one, form in list_controls(card) if one.get("name") == block_id)
            names = [str(one.get("name")) for one, _ in list_controls(around or {})]
            group = [name for name in names if name.startswith(TICK)]
            group = group[group.index(str(block_id)) :][:BOXES]
            ticks = {name: name.removeprefix(TICK) in value for name in group}
            self.put.setdefault((user, ts), {}).update(ticks)
            return ActResult()
        cards = [card, *reversed(self.ws.old_cards.get(ts, []))] if force else [card]
        controls = [one for each in cards for one, _ in list_controls(each) if get_callback(one)]
        named = (value, dump_value) if str(value).startswith("{") else (value, name_value)
        fitting = [one for one in controls if name_action(get_callback(one)) == action_id]
        exact = [one for one in fitting if value is None or one["tag"] != "button" or named[1](one) == value]
        if not (exact or force):
            raise WorkspaceError("action_not_found")
        found = exact[0] if exact else {"tag": "button"}
        carried = get_callback(found) or forge_value(action_id, value, block_id, controls)
        picked = {"option": value} if found["tag"].startswith("select") else {}
        form, name = self._build_form(user, ts, card) or None, found.get("name", "")
        return await click_card(self.ws, user, channel, ts, carried, form=form, name=name, force=force, **picked)

    def _build_form(self, user: str, ts: str, card: Json) -> Json:
        """Build the values of a form from what the person has put into it."""
        put, form = self.put.get((user, ts), {}), dict[str, Any]()
        for one, _ in list_controls(card):
            name = str(one.get("name", ""))
            field = name.removesuffix(DAY)
            if field in put:
                given = ", ".join(put[field]) if one["tag"] == "input" and isinstance(put[field], list) else put[field]
                form[name] = f"{given} +0800" if field != name and given else given
            elif field.partition("~")[0] in put and field[-1:].isdigit():
                form[name] = ""  # a further part of a long text that was put in anew
        known = {name.removesuffix(DAY) for name in form}
        return form | {name: one for name, one in put.items() if name not in known}

    async def click_view_button(
        self,
        user: str,
        view_id: str,
        action_id: str,
        *,
        block_id: str | None = None,
        value: Any = None,
        values: Mapping[str, Any] | None = None,
    ) -> ActResult:
        return await self.click_button(user, self.get_dm_id(user), view_id, action_id, block_id=block_id, value=value)

    async def change_input(self, user: str, view_id: str, block_id: str, value: Any) -> ActResult:
        self.put.setdefault((user, view_id.partition("/")[0]), {})[block_id] = value  # sent with the form only
        return ActResult()

    async def submit_view(
        self, user: str, view_id: str, values: Mapping[str, Any], *, force: bool = False
    ) -> ActResult:
        ts = view_id.partition("/")[0]
        self.put.setdefault((user, ts), {}).update(values)
        done = await self.click_button(user, self.get_dm_id(user), ts, "cs:submit", force=force)
        shown = done.answer.get("card", {}).get("data", {})
        toast = str(done.answer.get("toast", {}).get("content", ""))
        problems = list_problems(shown) if shown and is_dialog(shown) else {}
        if done.answer.get("toast", {}).get("type") == "error" and not problems:
            problems = dict.fromkeys(values, toast) or {"form": toast}
        return ActResult("app_errors", problems, done.answer) if done.ok and problems else done

    async def forge_view_button(self, user: str, view_id: str, action_id: str, value: str) -> ActResult:
        """Press a button that is not on Home."""
        return await self.click_button(user, self.get_dm_id(user), view_id, action_id, value=value, force=True)

    async def close_view(self, user: str, view_id: str) -> ActResult:
        return await self.click_view_button(user, view_id, "cs:cancel")

    async def use_shortcut(self, user: str, callback_id: str, channel: str = "", ts: str = "") -> ActResult:
        if callback_id not in COMMANDS:
            raise OnlySlackError("shortcuts of messages")
        await self.open_menu(user, COMMANDS[callback_id])
        return ActResult()

    async def run_slash_command(self, user: str, channel: str, command: str, text: str = "") -> ActResult:
        if command not in COMMANDS or text:
            raise OnlySlackError("slash commands with words")
        return await self.use_shortcut(user, command)

    async def open_home(self, user: str) -> str:
        self.old_homes[user] = self.homes.get(user, {}).get("card")
        return await self.open_menu(user, "home")

    async def stop_session(self, user: str, channel: str, thread_ts: str, *, force: bool = False) -> str:
        raise OnlySlackError("the button that stops a session")

    # Faults

    async def disconnect_sockets(self, reason: str = "refresh_requested") -> None:
        await self.drop_sockets()

    def fail_next_call(self, method: str, outcome: Outcome, times: int = 1) -> None:
        code = CODES.get(outcome, outcome) if isinstance(outcome, str) else outcome
        super().fail_next_call(METHODS.get(method, method), code, times)

    def delay_answers(self, seconds: float, *methods: str) -> None:
        super().delay_answers(seconds, *(METHODS.get(one, one) for one in methods))

    # Results

    @property
    def calls(self) -> list[WebApiCall]:
        names = {ours: theirs for theirs, ours in METHODS.items()}
        return [WebApiCall(names.get(one.method, one.method), one.args, one.error) for one in self.ws.calls]

    def list_call_arguments(self, method: str) -> list[Json]:
        return self._list_published() if method == "views.publish" else super().list_call_arguments(method)

    def _list_published(self) -> list[Json]:
        """List the Home cards that the app has sent or updated, with their people."""
        people = {one.dm_id: one.id for one in self.ws.state.people.values()} | {id: id for id in self.ws.state.people}
        homes = {view["id"].partition("/")[0]: person for person, view in self.homes.items()}
        made = [one.args for one in self.ws.calls if one.method in ("message.send", "message.patch") and not one.error]
        return [
            {"user_id": homes.get(one.get("message_id", "")) or people[one["receive_id"]]}
            for one in made
            if one.get("message_id") in homes or is_home(json.loads(one["content"]))
            if "message_id" in one or one["receive_id"] in people
        ]

    @property
    def events(self) -> list[Json]:
        return [describe_event(one["payload"]) for one in self.ws.delivery.delivered_events]

    @property
    def sent_envelopes(self) -> list[Json]:
        return [{**one, "payload": describe_event(one["payload"])} for one in super().sent_envelopes]

    @property
    def homes(self) -> Mapping[str, Json]:
        found = {}
        for person in (one for one in self.ws.state.people.values() if not one.is_bot):
            for message in self.ws.state.rooms[person.dm_id].messages.values():
                card = message.get("card", {})
                if is_home(card) and card is not self.old_homes.get(person.id):
                    found[person.id] = {**build_view(message["ts"], card), "hash": message.get("updated_ms")}
        return found

    def list_messages(self, channel: str) -> list[Json]:
        shown = self.ws.state.rooms[channel].messages.values()
        return [build_shown(one) for one in shown if not (self._is_page(one) or self._is_whisper(one))]

    def _is_whisper(self, message: Json) -> bool:
        """Return whether a message in somebody's chat stands for a private notice: it has no key."""
        return message["user"] == self.ws.app.user and "-" not in message.get("uuid", "-")

    def _is_page(self, message: Json) -> bool:
        cards = [message["card"], *self.ws.old_cards.get(message["ts"], [])] if "card" in message else []
        return any(is_dialog(one) or is_home(one) for one in cards)

    def list_old_blocks(self) -> list[list[Json]]:
        return [build_blocks(card) for cards in self.ws.old_cards.values() for card in cards]

    def list_ephemerals(self, user: str) -> list[Json]:
        """List what only this person sees, without the toasts that only say that a press has arrived."""
        alone = self.ws.state.rooms[self.get_dm_id(user)].messages.values()
        told = [one for one in alone if self._is_whisper(one) and not self._is_page(one)]
        private = [one for one in self.ws.state.private.get(user, []) if one["text"] not in SAYING_NOTHING]
        return [build_shown(one) for one in sorted([*private, *told], key=lambda one: str(one["ts"]))]

    def list_open_views(self, user: str) -> list[Json]:
        messages = self.ws.state.rooms[self.get_dm_id(user)].messages.values()
        open_now = [one for one in messages if is_dialog(one.get("card", {}))]
        return [
            build_view(one["ts"], card)
            for one in open_now
            for card in (*self.ws.old_cards.get(one["ts"], []), one["card"])
            if card is one["card"] or (is_dialog(card) and find_page(card) < find_page(one["card"]))
        ]

    def find_top_view(self, user: str) -> Json | None:
        return next(reversed(self.list_open_views(user)), None)


def describe_event(payload: Json) -> Json:
    """Return a payload with its event's id and the writer of its message where Slack's have them."""
    writer = payload["event"].get("sender", {}).get("sender_id", {}).get("open_id")
    event = {**payload["event"], **({"user": writer} if writer else {})}
    return {**payload, "event_id": payload["header"]["event_id"], "event": event}


def forge_value(action_id: str, value: Any, block_id: str | None, controls: Sequence[Json]) -> Json:
    """Build what a button would carry that is not there: as in the row `block_id`, or as the other buttons here."""
    if action_id.startswith("cs:home:"):
        return {"cs": "home", "action": action_id.removeprefix("cs:home:"), "value": str(value)}
    pressed = [one for one in map(get_callback, controls) if one.get("cs") == "press"]
    like = json.loads(str(block_id)) if str(block_id).startswith("{") else next(iter(pressed), {"cs": "press"})
    approval, _, version = str(value).rpartition(".")
    return {**like, "approval": approval, "version": version, "choice": action_id.removeprefix("cs:")}


def build_shown(message: Json) -> Json:
    """Return a message with its blocks, the message that it answers, the titles of its files, and the key under which
    the bot has posted it."""
    more: Json = {"blocks": build_blocks(message["card"])} if message.get("card") else {}
    if "parent_id" in message:
        more["thread_ts"] = message.get("thread_ts") or message["parent_id"]
    if "files" in message:
        more["files"] = [{**one, "title": one["name"]} for one in message["files"]]
    key = str(message.get("uuid", "")).rpartition(":")[0]  # the end is the number of the part
    return {**message, **more, "metadata": {"event_payload": {"key": key}}}
