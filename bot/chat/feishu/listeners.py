"""Turns verified Feishu payloads into calls of the `Ingress`.

A message is durable before the handling ends. An exception leaves the event unacknowledged, and Feishu sends it again.
Feishu never sends a press again: `press_listeners` answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from bot.chat.feishu.channel import FeishuChannel
from bot.chat.feishu.channel_readers import FeishuReaderClassifier
from bot.chat.feishu.client import FeishuBot, FeishuClient
from bot.chat.feishu.files import find_message
from bot.chat.feishu.message_content import (
    MessageContent,
    is_person_id,
    is_short_text,
    list_mappings,
    read_content,
)
from bot.chat.feishu.press_listeners import PressListeners
from bot.chat.messages import ChatDirectory, HomeView, Ingress, Message, Place
from bot.core import logs
from bot.core.errors import ChatError, ChatUnavailableError, StoreUnavailableError
from bot.core.i18n import translate

log = logs.get_logger(__name__)

Event: TypeAlias = Mapping[str, Any]
RECHECK_S, RECHECK_INTERVAL_S = 0.75, 0.25
"""How long and how often to check whether a thread is ours (s): far less than the three seconds in which Feishu wants
an acknowledgement."""
PRESS = "card.action.trigger"
HOME, REQUEST = "home", "request"
"""Keys of the bot's menu. With a suffix like `:expense`, `request` opens the form of that process."""
RECENT_MAX = 2_000
"""Most messages that are remembered for a recall, which names no writer. For an older message, Feishu is asked."""


class FeishuListeners:
    def __init__(
        self,
        client: FeishuClient,
        me: FeishuBot,
        intake: Ingress,
        channel: FeishuChannel,
        directory: ChatDirectory,
        readers: FeishuReaderClassifier,
        publish_home: Callable[[str, HomeView], Awaitable[None]],
        note_changed_person: Callable[[str], None] = lambda person: None,
    ) -> None:
        """`note_changed_person` takes the ids of people whose record has changed."""
        self._client, self._me, self._intake, self._channel = client, me, intake, channel
        self._directory, self._readers, self._note_changed_person = directory, readers, note_changed_person
        self._presses = PressListeners(me, intake, channel, directory, publish_home)
        self._threads = WeakValueDictionary[str, asyncio.Lock]()
        self._recent: dict[str, tuple[str, Place]] = {}
        """Message id → its writer and place, as the verified event said."""
        changed_chats = (
            *("im.chat.updated_v1", "im.chat.disbanded_v1", "im.chat.member.bot.added_v1"),
            *("im.chat.member.bot.deleted_v1", "im.chat.member.user.added_v1"),
            *("im.chat.member.user.deleted_v1", "im.chat.member.user.withdrawn_v1"),
        )
        changed_people = ("contact.user.created_v3", "contact.user.updated_v3", "contact.user.deleted_v3")
        self._listeners: Mapping[str, Callable[[str, Event], Awaitable[None]]] = {
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
        header, event = payload.get("header"), payload.get("event")
        if "header" not in payload and "event" not in payload:
            return await self.handle_old_press(payload)
        if not (isinstance(header, Mapping) and isinstance(event, Mapping)):
            log.warning("an event of an odd shape is dropped")
            return None
        kind, id, tenant = header.get("event_type"), header.get("event_id"), header.get("tenant_key")
        if not (is_short_text(kind) and is_short_text(id)):
            log.warning("an event of an odd shape is dropped")
            return None
        if kind == PRESS:  # the presser's own company decides
            return await self._presses.handle_press(id, event)
        if tenant != self._me.tenant:
            log.error("an event for another company is dropped", tenant=str(tenant)[:60], type=kind)
        elif listener := self._listeners.get(kind):
            await listener(id, event)
        return None

    async def finish(self) -> None:
        """End the work that goes on, once no more events come."""
        await self._presses.finish()

    async def handle_old_press(self, payload: Event) -> dict[str, Any] | None:
        """Handle a press in the older form, without a header. Its token names the press."""
        token = payload.get("token")
        if not is_short_text(token):
            log.warning("a payload of an odd shape is dropped")
            return None
        event = {
            "operator": {name: payload.get(name) for name in ("open_id", "tenant_key")},
            "context": {name: payload.get(name) for name in ("open_chat_id", "open_message_id")},
            "action": payload.get("action"),
        }
        return await self._presses.handle_press(token, event)

    # Messages

    async def handle_message(self, id: str, event: Event) -> None:
        message = self._parse_message(id, event)
        if message is None:
            return
        mentioned = [one.get("id") for one in list_mappings(event["message"].get("mentions"))]
        is_mentioned = any(isinstance(id, Mapping) and id.get("open_id") == self._me.open_id for id in mentioned)
        if message.place.direct or is_mentioned:
            await self._submit_message(message)
        elif message.place.thread != message.at:
            await self._accept_follow_up(message)

    def _parse_message(self, id: str, event: Event) -> Message | None:
        """Return a person's message. Return None for everything else that looks like one, and for payloads without the
        shape of Feishu's events."""
        sender, about = event.get("sender"), event.get("message")
        if not (isinstance(sender, Mapping) and isinstance(about, Mapping)) or sender.get("sender_type") != "user":
            return None
        ids = sender.get("sender_id")
        person = ids.get("open_id") if isinstance(ids, Mapping) else None
        at, chat, kind = about.get("message_id"), about.get("chat_id"), about.get("chat_type")
        root, tenant = about.get("root_id") or "", sender.get("tenant_key") or self._me.tenant
        if not (is_person_id(person) and all(map(is_short_text, (at, chat, kind, root or "-")))):
            log.warning("a message of an odd shape is dropped")
            return None
        if person == self._me.open_id:
            return None
        place = self._build_place(str(chat), str(at), str(root), is_direct=kind == "p2p", tenant=tenant)
        return self._build_message(id, place, person, str(at), about)

    def _build_place(self, chat: str, at: str, root: str, *, is_direct: bool, tenant: object) -> Place:
        """Build the place of a message. The answer goes beside it in a chat with one person, and under it
        elsewhere."""
        return Place(
            platform="feishu",
            team=self._me.tenant,
            channel=chat,
            thread=None if is_direct else root or at,
            direct=is_direct,
            shared=tenant != self._me.tenant,
        )

    def _build_message(self, id: str, place: Place, person: str, at: str, about: Event) -> Message:
        known = self._directory.find_known_person(person)
        content = read_content(about, self._me.open_id, known.language if known else "en")
        return self._fill_message(id, place, person, at, content)

    def _fill_message(self, id: str, place: Place, person: str, at: str, content: MessageContent) -> Message:
        return Message(
            id=id,
            place=place,
            person=person,
            text=content.text,
            at=at,
            unread=content.unread,
            files=content.files,
        )

    async def _accept_follow_up(self, message: Message) -> None:
        """Accept a reply without a mention in a thread with the bot. Events overtake each other: a reply right after a
        mention may arrive before the mention is durable, so the check is repeated for a moment. Within a thread,
        replies are handled in order."""
        loop, name = asyncio.get_running_loop(), message.place.conversation
        until, turn = loop.time() + RECHECK_S, self._threads.setdefault(name, asyncio.Lock())
        async with turn:
            while not await self._intake.is_engaged(message.place):
                if loop.time() > until:
                    return
                await asyncio.sleep(RECHECK_INTERVAL_S)
            await self._submit_message(message)

    async def _submit_message(self, message: Message) -> None:
        """Make a message durable. Feishu may send it in two events, which its own id shows."""
        place = message.place
        await self._intake.accept_message(message, aliases=(f"{place.channel}:{message.at}",))
        while len(self._recent) >= RECENT_MAX:
            del self._recent[next(iter(self._recent))]
        self._recent[message.at] = (message.person, place)
        self._channel.note_message(message.thread_place, message.at)
        if known := self._directory.find_known_person(message.person):
            self._channel.show_status(message.thread_place, translate("steps.working", known.language))

    # Changed messages

    async def handle_edit(self, id: str, event: Event) -> None:
        """Accept that a message was changed. If the event names no sender, Feishu is asked for the writer."""
        about = event.get("message")
        if not (isinstance(about, Mapping) and is_short_text(about.get("message_id"))):
            return
        sender = event.get("sender")
        named = isinstance(sender, Mapping) and is_short_text(about.get("chat_type"))
        message = self._parse_message(id, event) if named else await self._find_changed(id, str(about["message_id"]))
        if message and (message.place.direct or await self._intake.is_engaged(message.place)):
            await self._intake.accept_change(message, is_deleted=False)

    async def handle_recall(self, id: str, event: Event) -> None:
        """Accept that a person has recalled their own message. The event names neither the writer nor the thread."""
        at, chat = event.get("message_id"), event.get("chat_id")
        if event.get("recall_type") != "message_owner" or not (is_short_text(at) and is_short_text(chat)):
            return
        person, place = self._recent.get(at, ("", None))
        message = (
            self._fill_message(id, place, person, at, MessageContent())
            if place is not None
            else await self._find_changed(id, at)
        )
        if message is None or message.place.channel != chat:
            return
        if message.place.direct or await self._intake.is_engaged(message.place):
            await self._intake.accept_change(message, is_deleted=True)

    async def _find_changed(self, id: str, at: str) -> Message | None:
        """Ask Feishu for a changed message. Return None if Feishu does not name a person as its sender. Raises
        `ChatUnavailableError`, and the event then comes again."""
        try:
            found = await find_message(self._client, at)
            if found is None or not is_person_id(found["sender"]) or found["sender"] == self._me.open_id:
                return None
            is_direct = await self._readers.is_direct(found["chat_id"])
        except ChatUnavailableError:
            raise
        except ChatError as failed:
            log.info("a changed message cannot be looked up", reason=str(failed))
            return None
        root = found.get("root_id")
        place = self._build_place(
            found["chat_id"], at, root if is_short_text(root) else "", is_direct=is_direct, tenant=self._me.tenant
        )
        return self._build_message(id, place, found["sender"], at, found)

    # Menu and Home

    async def handle_menu(self, id: str, event: Event) -> None:
        """Handle a press in the bot's menu. Nothing is lost with it, so it is acknowledged first."""
        operator, key = event.get("operator"), event.get("event_key")
        ids = operator.get("operator_id") if isinstance(operator, Mapping) else None
        person = ids.get("open_id") if isinstance(ids, Mapping) else None
        if not (is_person_id(person) and is_short_text(key)):
            log.warning("a press in the menu of an odd shape is dropped")
            return
        name, _, process = key.partition(":")
        if name == HOME:
            self._presses.go_on(self.open_home(person))
        elif name == REQUEST:
            self._presses.go_on(self._presses.post_request_form(person, process, id))

    async def open_home(self, person: str) -> None:
        try:
            await self._presses.publish_home(person, is_opened=True)
        except (StoreUnavailableError, ChatError) as failed:
            log.warning("Home not shown", reason=str(failed))

    async def handle_entered(self, id: str, event: Event) -> None:
        """Welcome a person who opens their chat with the bot."""
        ids, chat = event.get("operator_id"), event.get("chat_id")
        person = ids.get("open_id") if isinstance(ids, Mapping) else None
        if is_person_id(person) and is_short_text(chat):
            place = Place(platform="feishu", team=self._me.tenant, channel=chat, direct=True)
            self._presses.go_on(self.welcome_person(person, place))

    async def welcome_person(self, person: str, place: Place) -> None:
        try:
            await self._intake.welcome_person(person, place)
            await self._channel.suggest_prompts(place, await self._intake.list_prompts(person))
        except (StoreUnavailableError, ChatError) as failed:
            log.warning("nothing shown in the chat that was opened", reason=str(failed))

    # People and chats

    async def handle_changed_chat(self, id: str, event: Event) -> None:
        if is_short_text(chat := event.get("chat_id")):
            self._readers.note_changed_chat(chat)

    async def handle_changed_person(self, id: str, event: Event) -> None:
        """Look up a person whose record has changed. The event's own data about them is not relied on."""
        about = event.get("object")
        if isinstance(about, Mapping) and is_person_id(person := about.get("open_id")):
            self._note_changed_person(person)
