"""Hands and eyes of a person in Feishu, with the methods of `WorkspaceDriver`.

A dialog is a card with a form in the chat with the bot, and Home is a card there. Both are shown here as views, and not
among the messages. Messages have `blocks` beside their `card` (`bot.dev.workspace.feishu.shown`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bot.core.i18n import translate
from bot.dev.workspace.acts import ActResult
from bot.dev.workspace.driver import WorkspaceDriver
from bot.dev.workspace.feishu.acts import FeishuActs, click_card, find_screen_card
from bot.dev.workspace.feishu.cards import get_callback, list_controls
from bot.dev.workspace.feishu.shown import (
    DAY,
    build_blocks,
    dump_value,
    is_dialog,
    is_home,
    list_problems,
    name_action,
    name_value,
)
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.world import Json
from tools.languages import LANGUAGES

SAYING_NOTHING = {
    translate(f"feishu.{name}", language) for name in ("received", "form_in_dm", "submitted") for language in LANGUAGES
}


class FeishuDriver(FeishuActs, WorkspaceDriver):
    ws: FeishuWorkspace

    def __init__(self, workspace: FeishuWorkspace, recheck_s: float | None = None) -> None:
        super().__init__(workspace, recheck_s)
        self.put: dict[tuple[str, str], Json] = {}
        """(person, message) → field → what they have put into its form on their screen."""

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
        cards = [card, *reversed(self.ws.old_cards.get(ts, []))] if force else [card]
        controls = [one for each in cards for one, _ in list_controls(each) if get_callback(one)]
        name_whole = dump_value if str(value).startswith("{") else name_value
        fitting = [one for one in controls if name_action(get_callback(one)) == action_id]
        exact = [one for one in fitting if value is None or one["tag"] != "button" or name_whole(one) == value]
        if not (exact or force):
            raise WorkspaceError("action_not_found")
        found = exact[0] if exact else {"tag": "button"}
        carried = get_callback(found) or forge_value(action_id, value, block_id, controls)
        picked = {"option": value} if found["tag"].startswith("select") else {}
        form, name = self.build_form(user, ts, card) or None, found.get("name", "")
        return await click_card(self.ws, user, channel, ts, carried, form=form, name=name, force=force, **picked)

    def build_form(self, user: str, ts: str, card: Json) -> Json:
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

    async def close_view(self, user: str, view_id: str) -> ActResult:
        return await self.click_button(user, self.get_dm_id(user), view_id, "cs:cancel")

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

    def find_top_view(self, user: str) -> Json | None:
        messages = self.ws.state.rooms[self.get_dm_id(user)].messages.values()
        cards = [(one["ts"], one["card"]) for one in messages if is_dialog(one.get("card", {}))]
        return {"id": cards[-1][0], "blocks": build_blocks(cards[-1][1])} if cards else None


def forge_value(action_id: str, value: Any, block_id: str | None, controls: Sequence[Json]) -> Json:
    """Build what a button would carry that is not there: as in the row `block_id`, or as the other buttons here."""
    if action_id.startswith("cs:home:"):
        return {"cs": "home", "action": action_id.removeprefix("cs:home:"), "value": str(value)}
    pressed = [one for one in map(get_callback, controls) if one.get("cs") == "press"]
    like = json.loads(str(block_id)) if str(block_id).startswith("{") else next(iter(pressed), {"cs": "press"})
    approval, _, version = str(value).rpartition(".")
    return {**like, "approval": approval, "version": version, "choice": action_id.removeprefix("cs:")}


def build_shown(message: Json) -> Json:
    """Return a message with its blocks, the message that it answers, and the key under which the bot has posted it."""
    more: Json = {"blocks": build_blocks(message["card"])} if message.get("card") else {}
    if "parent_id" in message:
        more["thread_ts"] = message.get("thread_ts") or message["parent_id"]
    key = str(message.get("uuid", "")).rpartition(":")[0]  # the end is the number of the part
    return {**message, **more, "metadata": {"event_payload": {"key": key}}}
