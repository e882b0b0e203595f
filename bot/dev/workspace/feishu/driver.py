"""Hands of a person in Feishu, for tests, with the methods of `WorkspaceDriver`.

A dialog is a card with a form in the chat with the bot, and Home is a card there. Both are shown here as views, and not
among the messages. Messages have `blocks` beside their `card` (`bot.dev.workspace.feishu.shown`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bot.dev.workspace.acts import ActResult
from bot.dev.workspace.driver import WorkspaceDriver
from bot.dev.workspace.faults import Outcome
from bot.dev.workspace.feishu import acts
from bot.dev.workspace.feishu.cards import get_callback, is_submit, list_controls
from bot.dev.workspace.feishu.shown import SUBMITS, TICK, build_blocks, find_kinds, is_page, name_action
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import WebApiCall
from bot.dev.workspace.world import Json

METHODS = {
    "chat.postMessage": "message.send",
    "chat.update": "message.patch",
    "chat.delete": "message.delete",
    "chat.postEphemeral": "ephemeral.send",
    "conversations.open": "chat.p2p",
    "conversations.info": "chat.get",
    "conversations.members": "chat.members",
    "conversations.history": "message.list",
    "users.info": "user.get",
    "users.list": "user.list",
    "files-pri": "resource.get",
    "apps.connections.open": "connection.open",
    "reactions.add": "reaction.create",
}
"""Slack's method → the endpoint that does this here."""
CODES = {
    "token_revoked": "99991663",
    "missing_scope": "99991672",
    "restricted_action": "230018",
    "channel_not_found": "230002",
    "fatal": "230099",
    "not_allowed": "514",
}
"""Slack's error → the code that says this here."""
COMMANDS = {"/leave": "request:leave", "/expense": "request:expense", "cs:request": "request"}
"""Slash command or shortcut → the entry of the bot's menu that does this here."""


class OnlySlackError(Exception):
    """Raised for an act that only Slack has."""


class FeishuDriver(WorkspaceDriver):
    ws: FeishuWorkspace

    def __init__(self, workspace: FeishuWorkspace, recheck_s: float | None = None) -> None:
        super().__init__(workspace, recheck_s)
        self.ticked: dict[tuple[str, str], Json] = {}
        """(person, message) → the boxes that they have ticked on their screen."""

    # Acts of people

    async def send_message(
        self, user: str, channel: str, text: str, thread_ts: str | None = None, *, files: Sequence[str] = ()
    ) -> str:
        return acts.send_message(self.ws, user, channel, text, thread_ts, files=files)

    async def edit_message(self, user: str, channel: str, ts: str, text: str) -> None:
        acts.edit_message(self.ws, user, channel, ts, text)

    async def delete_message(self, user: str, channel: str, ts: str) -> None:
        acts.recall_message(self.ws, user, channel, ts)

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
        if action_id == "cs:tick":  # a box in a form is sent with the press only
            boxes = self.ticked.setdefault((user, ts), {})
            shown = acts.find_screen_card(self.ws, user, channel, ts)
            group = [form for one, form in list_controls(shown["card"]) if one.get("name") == block_id] if shown else []
            controls = list_controls(group[0] or {}) if group else []
            names = [one["name"] for one, _ in controls if str(one.get("name")).startswith(TICK)]
            boxes.update({name: name.removeprefix(TICK) in value for name in names})
            return ActResult()
        carried = json.loads(value) if isinstance(value, str) and value.startswith("{") else None
        found = self._find_control(user, channel, ts, action_id, carried, force)
        picked = {"option": value} if found and found["tag"] == "select_person" else {}
        form, carried = self.ticked.get((user, ts)), get_callback(found) if found else carried
        if carried is None:
            raise WorkspaceError("action_not_found")
        if force and carried.get("cs") == "press":  # a forged button names its own choice
            carried = {**carried, "choice": action_id.removeprefix("cs:")}
        name = found.get("name", "") if found else ""
        return await acts.click_card(self.ws, user, channel, ts, carried, form=form, name=name, force=force, **picked)

    def _find_control(
        self, user: str, channel: str, ts: str, action_id: str, carried: Json | None, force: bool
    ) -> Json | None:
        """Find a control of the message, or, with `force`, of the cards that it had before."""
        shown = acts.find_screen_card(self.ws, user, channel, ts)
        cards = [shown["card"]] if shown else []
        if force:
            cards += reversed(self.ws.old_cards.get(ts, []))
        for card in cards:
            for one, _ in list_controls(card):
                if name_action(get_callback(one)) == action_id and carried in (None, get_callback(one)):
                    return one
        return None

    async def click_view_button(self, user: str, view_id: str, action_id: str, *, value: Any = None) -> ActResult:
        return await self.click_button(user, self.get_dm_id(user), view_id, action_id, value=value)

    async def change_input(self, user: str, view_id: str, block_id: str, value: Any) -> ActResult:
        self.ticked.setdefault((user, view_id), {})[block_id] = value  # sent with the form only
        return ActResult()

    async def submit_view(
        self, user: str, view_id: str, values: Mapping[str, Any], *, force: bool = False
    ) -> ActResult:
        card = self.ws.state.rooms[self.get_dm_id(user)].messages[view_id]["card"]
        wanted = [name for name in SUBMITS if name != "cancel"]
        button = next(
            one
            for one, _ in list_controls(card)
            if is_submit(one) and dict(get_callback(one) or {}).get("cs") in wanted
        )
        form = {**self.ticked.pop((user, view_id), {}), **values}
        done = await acts.click_card(
            self.ws,
            user,
            self.get_dm_id(user),
            view_id,
            get_callback(button),
            form=form,
            name=button["name"],
            force=force,
        )
        shown = done.answer.get("card", {}).get("data", {})
        if done.ok and find_kinds(shown) & {"dialog", "form", "home_dialog"} and find_kinds(shown) == find_kinds(card):
            return ActResult("app_errors", {"form": done.answer.get("toast", {}).get("content", "")}, done.answer)
        return done

    async def close_view(self, user: str, view_id: str) -> ActResult:
        return await self.click_view_button(user, view_id, "cs:cancel")

    async def use_shortcut(self, user: str, callback_id: str, channel: str = "", ts: str = "") -> ActResult:
        if callback_id not in COMMANDS:
            raise OnlySlackError("shortcuts of messages")
        acts.open_menu(self.ws, user, COMMANDS[callback_id])
        return ActResult()

    async def run_slash_command(self, user: str, channel: str, command: str, text: str = "") -> ActResult:
        if command not in COMMANDS or text:
            raise OnlySlackError("slash commands with words")
        return await self.use_shortcut(user, command)

    async def open_home(self, user: str) -> str:
        return acts.open_menu(self.ws, user, "home")

    async def open_messages(self, user: str) -> str:
        return acts.open_chat(self.ws, user)

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

    def redeliver_event(self, event_id: str) -> None:
        events = reversed(self.ws.delivery.delivered_events)
        self.ws.delivery.deliver_event(next(one for one in events if one["event_id"] == event_id))

    # Results

    @property
    def calls(self) -> list[WebApiCall]:
        names = {ours: theirs for theirs, ours in METHODS.items()}
        return [WebApiCall(names.get(one.method, one.method), one.args, one.error) for one in self.ws.calls]

    def list_call_arguments(self, method: str) -> list[Json]:
        return [call.args for call in self.calls if call.method == method and not call.error]

    @property
    def events(self) -> list[Json]:
        return [one["payload"] for one in self.ws.delivery.delivered_events]

    @property
    def homes(self) -> Mapping[str, Json]:
        found = {}
        for person in self.ws.state.people.values():
            messages = self.ws.state.rooms[person.dm_id].messages.values() if not person.is_bot else ()
            if pages := [one for one in messages if "home" in find_kinds(one.get("card", {}))]:
                found[person.id] = build_view(pages[-1])
        return found

    def list_messages(self, channel: str) -> list[Json]:
        shown = self.ws.state.rooms[channel].messages.values()
        return [build_shown(one) for one in shown if not self._is_page(one)]

    def _is_page(self, message: Json) -> bool:
        cards = [message["card"], *self.ws.old_cards.get(message["ts"], [])] if "card" in message else []
        return any(map(is_page, cards))

    def list_ephemerals(self, user: str) -> list[Json]:
        return [build_shown(one) for one in self.ws.state.private.get(user, [])]

    def list_open_views(self, user: str) -> list[Json]:
        messages = self.ws.state.rooms[self.get_dm_id(user)].messages.values()
        return [
            build_view(one) for one in messages if find_kinds(one.get("card", {})) & {"dialog", "form", "home_dialog"}
        ]

    def find_top_view(self, user: str) -> Json | None:
        return next(reversed(self.list_open_views(user)), None)


def build_view(message: Json) -> Json:
    return {"id": message["ts"], "blocks": build_blocks(message["card"]), "card": message["card"]}


def build_shown(message: Json) -> Json:
    """Return a message with its blocks and the key under which the bot has posted it."""
    blocks = {"blocks": build_blocks(message["card"])} if message.get("card") else {}
    return {**message, **blocks, "metadata": {"event_payload": {"key": message.get("uuid", "")}}}
