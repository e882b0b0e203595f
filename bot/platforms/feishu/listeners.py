"""Turns verified Feishu payloads into calls of the `Ingress`.

A message is durable before the handling ends. An exception leaves the event unacknowledged, and Feishu sends it again.
Feishu never sends a press again: `press_listeners` answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from bot.chat.messages import Ingress, Message, Place
from bot.core import logs
from bot.core.errors import ChatRefusedError
from bot.core.i18n import translate
from bot.people.directory import PlatformDirectory
from bot.platforms.feishu.channel import FeishuChannel
from bot.platforms.feishu.client import FeishuBot, FeishuClient
from bot.platforms.feishu.connection import PRESS
from bot.platforms.feishu.files import find_message, read_bundle
from bot.platforms.feishu.message_content import is_person_id, is_short_text, read_content
from bot.platforms.feishu.press_listeners import PressListeners
from bot.platforms.shared import FollowUps, find_value, get_known_language, list_mappings, remember, welcome_person

log = logs.get_logger(__name__)

Event: TypeAlias = Mapping[str, Any]
HOME, REQUEST = "home", "request"
"""Keys of the bot's menu. With a suffix like `:expense`, `request` opens the form of that process."""
RECENT_MAX = 2_000
"""Most messages that are remembered for a recall, which names no writer. For an older message, Feishu is asked."""


@dataclass(slots=True)
class FeishuListeners:
    client: FeishuClient
    me: FeishuBot
    intake: Ingress
    channel: FeishuChannel
    directory: PlatformDirectory
    note_changed_place: Callable[[str], None]
    """Takes chats whose members or settings have changed."""
    presses: PressListeners
    _recent: dict[str, tuple[str, Place]] = field(default_factory=dict)
    """Message id → its writer and place, as the verified event said."""
    _follow_ups: FollowUps = field(init=False)
    _listeners: Mapping[str, Callable[[str, Event], Awaitable[None]]] = field(init=False)

    def __post_init__(self) -> None:
        self._follow_ups = FollowUps(self.intake.is_engaged)
        changed_chats = (
            *("im.chat.updated_v1", "im.chat.disbanded_v1", "im.chat.member.bot.added_v1"),
            *("im.chat.member.bot.deleted_v1", "im.chat.member.user.added_v1"),
            *("im.chat.member.user.deleted_v1", "im.chat.member.user.withdrawn_v1"),
        )
        changed_people = ("contact.user.created_v3", "contact.user.updated_v3", "contact.user.deleted_v3")
        self._listeners = {
            "im.message.receive_v1": self.handle_message,
            "im.message.updated_v1": self.handle_edit,
            "im.message.recalled_v1": self.handle_recall,
            "application.bot.menu_v6": self.handle_menu,
            "im.chat.access_event.bot_p2p_chat_entered_v1": self.handle_entered,
            **dict.fromkeys(changed_chats, self.handle_changed_chat),
            **dict.fromkeys(changed_people, self.handle_changed_person),
        }

    async def handle_payload(self, payload: Event) -> dict[str, Any] | None:
        """Handle a verified payload. Return the answer of a press, and None for everything else. Raises
        `StoreUnavailableError` and `ChatError` if the event has to come again. Payloads without Feishu's shape, and
        those for another company, are logged and dropped, because Feishu would only send them again."""
        event = payload.get("event")
        kind, id, tenant = (find_value(payload, "header", name) for name in ("event_type", "event_id", "tenant_key"))
        if not (isinstance(event, Mapping) and is_short_text(kind) and is_short_text(id)):
            log.warning("an event of an odd shape is dropped")
            return None
        if kind == PRESS:  # the presser's own company decides
            return await self.presses.handle_press(id, event)
        if tenant != self.me.tenant:
            log.error("an event for another company is dropped", tenant=str(tenant)[:60], type=kind)
        elif listener := self._listeners.get(kind):
            await listener(id, event)
        return None

    async def finish(self) -> None:
        await self.presses.finish()

    # Messages

    async def handle_message(self, id: str, event: Event) -> None:
        message = self._parse_message(id, event)
        if message is None:
            return
        mentions = list_mappings(event["message"].get("mentions"))
        is_mentioned = self.me.open_id in [find_value(one, "id", "open_id") for one in mentions]
        if message.place.direct:
            await self.channel.note_dm(message.person, message.place.channel)
        submit = partial(self._submit_message, message, event["message"].get("message_type") == "merge_forward")
        if message.place.direct or is_mentioned:
            await submit()
        elif message.place.thread != message.at:
            await self._follow_ups.accept(message.place, submit)

    def _parse_message(self, id: str, event: Event) -> Message | None:
        """Return a person's message. Return None for everything else that looks like one, and for payloads without the
        shape of Feishu's events."""
        sender, about, sent = event.get("sender"), event.get("message"), find_value(event, "message", "create_time")
        if find_value(sender, "sender_type") != "user" or not isinstance(about, Mapping):
            return None
        person, tenant = find_value(sender, "sender_id", "open_id"), find_value(sender, "tenant_key") or self.me.tenant
        at, chat, root = about.get("message_id"), about.get("chat_id"), about.get("root_id") or about.get("message_id")
        if not (is_person_id(person) and is_short_text(at) and is_short_text(chat) and is_short_text(root)):
            log.warning("a message of an odd shape is dropped")
            return None
        if person == self.me.open_id:
            return None
        # The answer goes beside the message in a chat with one person, and under it elsewhere.
        thread = None if (is_direct := about.get("chat_type") == "p2p") else root
        where = {"channel": chat, "thread": thread, "direct": is_direct, "shared": tenant != self.me.tenant}
        content = read_content(about, self.me.open_id, get_known_language(self.directory, person))
        return Message(
            id=id,
            place=Place(platform="feishu", team=self.me.tenant, **where),
            person=person,
            text=content.text,
            at=at,
            unread=content.unread,
            files=content.files,
            sent_ms=int(sent) if is_short_text(sent) and sent.isdecimal() else 0,
        )

    async def _submit_message(self, message: Message, is_bundle: bool) -> None:
        """Make a message durable. Feishu may send it in two events, which its own id shows."""
        if is_bundle and (text := await read_bundle(self.client, self.directory, message)):
            message = message.model_copy(update={"text": text})
        await self.intake.accept_message(message, aliases=(f"{message.place.channel}:{message.at}",))
        remember(self._recent, message.at, (message.person, message.place), RECENT_MAX)
        self.channel.note_message(message.thread_place, message.at)
        if known := self.directory.find_known_person(message.person):
            self.channel.show_status(message.thread_place, translate("steps.working", known.language))

    # Changed messages

    async def handle_edit(self, id: str, event: Event) -> None:
        """Accept that a message was changed. If the event names no sender, Feishu is asked for the writer."""
        if not is_short_text(at := find_value(event, "message", "message_id")):
            return
        is_whole = isinstance(event.get("sender"), Mapping) and is_short_text(find_value(event, "message", "chat_type"))
        message = self._parse_message(id, event) if is_whole else await self._find_message(id, at)
        await self._accept_change(message, is_deleted=False)

    async def handle_recall(self, id: str, event: Event) -> None:
        """Accept that a person has recalled their own message. The event names neither the writer nor the thread."""
        at, chat = event.get("message_id"), event.get("chat_id")
        if event.get("recall_type") != "message_owner" or not (is_short_text(at) and is_short_text(chat)):
            return
        if known := self._recent.get(at):
            message: Message | None = Message(id=id, place=known[1], person=known[0], text="", at=at)
        else:
            message = await self._find_message(id, at)
        if message and message.place.channel == chat:
            await self._accept_change(message, is_deleted=True)

    async def _accept_change(self, message: Message | None, *, is_deleted: bool) -> None:
        if message and (message.place.direct or await self.intake.is_engaged(message.place)):
            await self.intake.accept_change(message, is_deleted=is_deleted)

    async def _find_message(self, id: str, at: str) -> Message | None:
        """Ask Feishu for a changed message. Return None if Feishu does not name a person as its sender. Raises
        `ChatUnavailableError`, and the event then comes again."""
        try:
            if (found := await find_message(self.client, at)) is None or not found["sender"]:
                return None
            chat = await self.client.call("GET", f"im/v1/chats/{found['chat_id']}")
        except ChatRefusedError as failed:
            log.info("a changed message cannot be looked up", reason=str(failed))
            return None
        sender = {"sender_type": "user", "sender_id": {"open_id": found["sender"]}}
        return self._parse_message(id, {"sender": sender, "message": {**found, "chat_type": chat.get("chat_mode")}})

    # Menu and Home

    async def handle_menu(self, id: str, event: Event) -> None:
        """Handle a press in the bot's menu. Nothing is lost with it, so it is acknowledged first."""
        person, key = find_value(event, "operator", "operator_id", "open_id"), event.get("event_key")
        if not (is_person_id(person) and is_short_text(key)):
            log.warning("a press in the menu of an odd shape is dropped")
            return
        name, _, process = key.partition(":")
        if name == HOME:
            self.presses.go_on(self.presses.show_home(person, is_opened=True))
        elif name == REQUEST:
            self.presses.go_on(self.presses.post_request_form(person, process, id))

    async def handle_entered(self, id: str, event: Event) -> None:
        person, chat = find_value(event, "operator_id", "open_id"), event.get("chat_id")
        if is_person_id(person) and is_short_text(chat):
            place = Place(platform="feishu", team=self.me.tenant, channel=chat, direct=True)
            await self.channel.note_dm(person, chat)
            self.presses.go_on(welcome_person(self.intake, self.channel, person, place))

    # People and chats

    async def handle_changed_chat(self, id: str, event: Event) -> None:
        if is_short_text(chat := event.get("chat_id")):
            self.note_changed_place(chat)

    async def handle_changed_person(self, id: str, event: Event) -> None:
        """Look up a person whose record has changed. The event's own data about them is not relied on."""
        if is_person_id(person := find_value(event, "object", "open_id")):
            self.directory.note_changed_person(person)
