"""Hands and eyes of a test in a workspace: everything that a person can do, faults of the platform, and looks at what
the app did. `FeishuHands` has the same on Feishu."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from bot.dev.workspace import posting, views
from bot.dev.workspace.acts import ActResult, get_own_view, keep_known_values, share_chosen_files
from bot.dev.workspace.delivery import AppTransport, DeliveryAttempt, NotAcknowledgedError
from bot.dev.workspace.driver import WorkspaceDriver
from bot.dev.workspace.feishu import messages
from bot.dev.workspace.feishu.acts import find_screen_card, is_heard, show_words, write_content
from bot.dev.workspace.feishu.cards import get_callback, is_submit, list_controls
from bot.dev.workspace.feishu.driver import FeishuDriver
from bot.dev.workspace.feishu.shown import is_dialog, is_home
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.fields import build_state_entry, build_state_values
from bot.dev.workspace.payloads import build_hidden_event
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import Workspace
from bot.dev.workspace.world import Json, WorkspaceRoom
from tests.harness.app_calls import CONNECT, DOWNLOAD, AppCalls, Outcome, WebApiCall, get_app_calls
from tests.harness.card_blocks import BOXES, TICK, build_blocks, build_shown, build_view

METHODS = {
    "views.open": "POST im/v1/messages",
    "chat.postMessage": "POST im/v1/messages",
    "chat.update": "PATCH im/v1/messages/{message_id}",
    "chat.postEphemeral": "POST ephemeral/v1/send",
    "conversations.members": "GET im/v1/chats/{chat_id}/members",
    "conversations.history": "GET im/v1/messages",
    "users.info": "GET contact/v3/users/{user_id}",
    "users.list": "GET contact/v3/users/find_by_department",
    DOWNLOAD: "GET im/v1/messages/{message_id}/resources/{key}",
    "apps.connections.open": CONNECT,
}
"""Slack's method → the endpoint that does this on Feishu."""
CODES = {
    "token_revoked": "99991663", "missing_scope": "99991672", "restricted_action": "230018", "fatal": "230099",
    "expired_trigger_id": "230099", "not_allowed": "514",
}  # fmt: skip
"""Slack's error → the code that says this on Feishu."""
COMMANDS = {"/leave": "request:leave", "/expense": "request:expense", "cs:request": "request"}
"""Slash command or shortcut → the entry of the bot's menu that does this on Feishu. Others are only Slack's."""


class WatchedTransport:
    """A transport that keeps what goes over it, and loses acknowledgements on order."""

    def __init__(self, ws: Workspace, carrier: AppTransport) -> None:
        self.ws, self.carrier = ws, carrier
        self.sent: list[Json] = []
        """Deliveries, oldest first, each with `payload` and `retry_attempt`."""
        self.acks: list[Json] = []
        """Contents of the app's acknowledgements, oldest first."""
        self.holds = 0
        """Number of the next acknowledgements to lose."""

    def is_ready(self) -> bool:
        return self.carrier.is_ready()

    async def wait_until_ready(self) -> None:
        await self.carrier.wait_until_ready()

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        payload = parcel.payload.get("payload", parcel.payload)
        self._keep(self.sent, {"payload": payload, "retry_attempt": parcel.attempt})
        answer = await self.carrier.deliver_payload(parcel)
        if self.holds:
            self.holds -= 1
            await asyncio.sleep(min(self.ws.setup.timing.ack, 3))
            raise NotAcknowledgedError("timeout")
        self._keep(self.acks, answer)
        return answer

    def _keep(self, kept: list[Json], one: Json) -> None:
        kept.append(one)
        self.ws.notify_change("acks")

    async def close(self) -> None:
        await self.carrier.close()


class Hands(WorkspaceDriver):
    """Everything that a test does in a workspace on Slack, and looks at there."""

    def __init__(self, workspace: Workspace, recheck_s: float | None = None) -> None:
        super().__init__(workspace, recheck_s)
        self.watched = WatchedTransport(workspace, workspace.delivery.carrier)
        workspace.delivery.carrier = self.watched

    # Acts of people

    async def mention_bot(
        self, user: str, channel: str, text: str, thread_ts: str | None = None, *, files: Sequence[str] = ()
    ) -> str:
        """Send a message addressed to the bot: `@Countersign text`."""
        return await self.send_message(user, channel, f"@{self.ws.app.real_name} {text}", thread_ts, files=files)

    async def edit_message(self, user: str, channel: str, ts: str, text: str) -> None:
        room, message = get_own_message(self.ws, user, channel, ts, "cant_update_message")
        posting.update_message(self.ws, room, message, {"text": self.encode_text(text)}, user)

    async def delete_message(self, user: str, channel: str, ts: str) -> None:
        remove_message(self.ws, *get_own_message(self.ws, user, channel, ts, "cant_delete_message"))

    async def change_input(self, user: str, view_id: str, block_id: str, value: Any) -> ActResult:
        """Put a value into an input of the top dialog. The app is notified if the input asks for it."""
        view = views.get_top_view(self.ws, user, view_id)
        block = next((one for one in view["blocks"] if one["block_id"] == block_id and one["type"] == "input"), None)
        if block is None:
            raise WorkspaceError("invalid_block_id")
        element = block["element"]
        value = share_chosen_files(self.ws, self.ws.get_person(user), view, {block_id: value})[block_id]
        entry = {element["action_id"]: build_state_entry(element, value)}
        values = {**keep_known_values(self.ws, view), block_id: entry}
        self.ws.state.typed[view_id] = build_state_values(view["blocks"], values)
        if not block.get("dispatch_action"):
            return ActResult()
        return await self.click_view_button(user, view_id, element["action_id"], block_id=block_id, value=value)

    async def forge_view_button(self, user: str, view_id: str, action_id: str, value: str) -> ActResult:
        """Press a button that is not on the Home tab."""
        button = {"type": "button", "action_id": action_id, "value": value, "text": {"type": "plain_text", "text": "x"}}
        row = {"type": "actions", "block_id": f"forged:{action_id}:{value}", "elements": [button]}
        get_own_view(self.ws, user, view_id)["blocks"].append(row)
        return await self.click_view_button(user, view_id, action_id, value=value)

    # Faults

    async def disconnect_sockets(self, reason: str = "refresh_requested") -> None:
        """Send every socket a disconnect frame (`refresh_requested`, `link_disabled`, …) and end it."""
        leaving = self.ws.sockets.list_live_links()
        for link in leaving:
            link.leaving = True
        self.ws.sockets.update_readiness()
        for link in leaving:
            debug = {"debug_info": {"host": "applink-local"}}
            await link.socket.send_json({"type": "disconnect", "reason": reason, **debug})
        for link in leaving:
            await link.socket.close()

    async def drop_sockets(self) -> None:
        """End every socket without a farewell, as a failing network does."""
        for link in list(self.ws.sockets.links):
            link.leaving = True
            await link.socket.close()
        self.ws.sockets.update_readiness()

    @property
    def app(self) -> AppCalls:
        """The app's calls, and the faults that are planned for them."""
        return get_app_calls(self.ws)

    def fail_next_call(self, method: str, outcome: Outcome, times: int = 1) -> None:
        """Make the next calls of a method fail: an error name, 429, 500, `drop` or `drop_after`."""
        self.app.fail_next_call(method, outcome, times)

    def delay_answers(self, seconds: float, *methods: str) -> None:
        """Delay all later answers of these methods, or of all methods, by so many seconds."""
        self.app.delays_s.update(dict.fromkeys(methods or ("",), seconds))

    def hold_next_acks(self, times: int = 1) -> None:
        """Drop the next acknowledgements, so that those events come again."""
        self.watched.holds += times

    def redeliver_event(self, event_id: str) -> None:
        """Deliver an event once more with an unchanged event id, as if the platform had lost count."""
        delivery = self.ws.delivery
        delivery.deliver_event(next(one for one in reversed(delivery.delivered_events) if one["event_id"] == event_id))

    # Results

    @property
    def calls(self) -> list[WebApiCall]:
        return list(self.app.made)

    def list_call_arguments(self, method: str) -> list[Json]:
        """List the arguments of a method's successful calls."""
        return [call.args for call in self.calls if call.method == method and not call.error]

    @property
    def acks(self) -> list[Json]:
        """Contents of the app's acknowledgements, in order."""
        return list(self.watched.acks)

    @property
    def sent_envelopes(self) -> list[Json]:
        """Deliveries to the app, each with `payload` and `retry_attempt`, in order."""
        return list(self.watched.sent)

    @property
    def events(self) -> list[Json]:
        """Event payloads given to delivery, in order (the last 1,000)."""
        return list(self.ws.delivery.delivered_events)

    @property
    def homes(self) -> Mapping[str, Json]:
        return self.ws.state.homes

    def list_open_views(self, user: str) -> list[Json]:
        """List the dialogs open in front of a person, the top one last."""
        return [self.ws.state.views[id] for id in self.ws.state.stacks.get(user, [])]


def get_own_message(ws: Workspace, person: str, channel: str, ts: str, error: str) -> tuple[WorkspaceRoom, Json]:
    room = ws.get_room(channel, ws.get_person(person).id)
    message = posting.get_message(ws, channel, ts)
    if message["user"] != person or message.get("subtype") == "tombstone":
        raise WorkspaceError(error)
    return room, message


def remove_message(ws: Workspace, room: WorkspaceRoom, message: Json) -> None:
    """Delete a message; the first one of a thread leaves a tombstone."""
    previous = dict(message)
    if message.get("reply_count"):
        for name in ("blocks", "metadata", "attachments", "client_msg_id", "edited", "reactions"):
            message.pop(name, None)
        message |= {"subtype": "tombstone", "text": "This message was deleted.", "hidden": True}
    else:
        del room.messages[message["ts"]]
        root = room.messages.get(message.get("thread_ts", ""))
        if root is not None:
            posting.update_thread_counts(room, root)
    ws.notify_change("messages", room.id)
    if ws.app.user in room.members:
        deleted = {"deleted_ts": previous["ts"]}
        event = build_hidden_event("message_deleted", previous, room, ws.create_timestamp(), **deleted)
        ws.send_event(posting.SUBSCRIPTIONS[room.kind], event)


class FeishuHands(FeishuDriver, Hands):
    """Everything that a test does in a workspace on Feishu, and looks at there."""

    def __init__(self, workspace: FeishuWorkspace, recheck_s: float | None = None) -> None:
        super().__init__(workspace, recheck_s)
        self.old_homes: dict[str, Json | None] = {}
        """Person → the card of their Home when they opened it last."""

    # Acts of people

    async def edit_message(self, user: str, channel: str, ts: str, text: str) -> None:
        room, message = get_own_message(self.ws, user, channel, ts, "cant_update_message")
        content, mentions = write_content(self.ws, text)
        message |= {"content": content, "mentions": mentions, "text": show_words(content, mentions)}
        message |= {"updated_ms": int(self.ws.clock() * 1000), "edited": {"user": user}}
        self.ws.notify_change("messages", room.id)
        if is_heard(self.ws, room, message):
            self.ws.push_event("im.message.updated_v1", messages.build_message_event(self.ws, room, message))

    async def click_button(self, user: str, channel: str, ts: str, action_id: str, **press: Any) -> ActResult:
        if action_id != "cs:tick":
            return await super().click_button(user, channel, ts, action_id, **press)
        shown, first = find_screen_card(self.ws, user, channel, ts), str(press["block_id"])
        controls = list_controls(shown["card"] if shown else {"body": {}})
        around = next(form for one, form in controls if one.get("name") == first)
        names = [str(one.get("name")) for one, _ in list_controls(around or {})]
        group = [name for name in names if name.startswith(TICK)]
        ticks = {name: name.removeprefix(TICK) in press["value"] for name in group[group.index(first) :][:BOXES]}
        self.put.setdefault((user, ts), {}).update(ticks)  # boxes in a form are sent with the press only
        return ActResult()

    async def click_view_button(self, user: str, view_id: str, action_id: str, **press: Any) -> ActResult:
        return await self.click_button(user, self.get_dm_id(user), view_id, action_id, **press)

    async def change_input(self, user: str, view_id: str, block_id: str, value: Any) -> ActResult:
        self.put.setdefault((user, view_id.partition("/")[0]), {})[block_id] = value  # sent with the form only
        return ActResult()

    async def forge_view_button(self, user: str, view_id: str, action_id: str, value: str) -> ActResult:
        """Press a button that is not on Home."""
        return await self.click_button(user, self.get_dm_id(user), view_id, action_id, value=value, force=True)

    async def use_shortcut(self, user: str, callback_id: str, channel: str = "", ts: str = "") -> ActResult:
        await self.open_menu(user, COMMANDS[callback_id])
        return ActResult()

    async def run_slash_command(self, user: str, channel: str, command: str, text: str = "") -> ActResult:
        assert not text, "only Slack has slash commands with words"
        return await self.use_shortcut(user, command)

    async def open_home(self, user: str) -> str:
        self.old_homes[user] = self.homes.get(user, {}).get("card")
        return await self.open_menu(user, "home")

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
        return [WebApiCall(names.get(one.method, one.method), one.args, one.error) for one in self.app.made]

    def list_call_arguments(self, method: str) -> list[Json]:
        return self._list_published() if method == "views.publish" else super().list_call_arguments(method)

    def _list_published(self) -> list[Json]:
        """List the Home cards that the app has sent or updated, with their people."""
        people = {one.dm_id: one.id for one in self.ws.state.people.values()} | {id: id for id in self.ws.state.people}
        homes = {view["id"].partition("/")[0]: person for person, view in self.homes.items()}
        ways = (METHODS["chat.postMessage"], METHODS["chat.update"])
        made = [one.args for one in self.app.made if one.method in ways and not one.error]
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
        return [build_shown(one) for one in super().list_messages(channel)]

    def list_ephemerals(self, user: str) -> list[Json]:
        return [build_shown(one) for one in super().list_ephemerals(user)]

    def list_old_blocks(self) -> list[list[Json]]:
        return [build_blocks(card) for cards in self.ws.old_cards.values() for card in cards]

    def find_top_view(self, user: str) -> Json | None:
        return next(reversed(self.list_open_views(user)), None)

    def list_open_views(self, user: str) -> list[Json]:
        shown = self.ws.state.rooms[self.get_dm_id(user)].messages.values()
        open_now = [one for one in shown if is_dialog(one.get("card", {}))]
        return [
            build_view(one["ts"], card)
            for one in open_now
            for card in (*self.ws.old_cards.get(one["ts"], []), one["card"])
            if card is one["card"] or (is_dialog(card) and find_page(card) < find_page(one["card"]))
        ]


def find_page(card: Json) -> int:
    """Return which page of a form the card shows, from 0."""
    pages = [get_callback(one).get("page", 0) for one, _ in list_controls(card) if is_submit(one)]
    return int(pages[0]) if pages else 0


def describe_event(payload: Json) -> Json:
    """Return a payload with its event's id and the writer of its message where Slack's have them."""
    writer = payload["event"].get("sender", {}).get("sender_id", {}).get("open_id")
    event = {**payload["event"], **({"user": writer} if writer else {})}
    return {**payload, "event_id": payload["header"]["event_id"], "event": event}


def build_hands(workspace: Workspace, recheck_s: float | None = None) -> Hands:
    hands = FeishuHands if isinstance(workspace, FeishuWorkspace) else Hands
    return hands(workspace, recheck_s)
