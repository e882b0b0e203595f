"""`FeishuChannel`: the bot's posts on Feishu.

Feishu knows no fencing token. A process therefore asserts right before each post that its lane is still its own. Every
post carries a `uuid` made of its key. Feishu knows a repeated one by it for an hour, and `SentCards` after that."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bot.chat.messages import Card, ChatDirectory, MessageRef, Place, Post, RateSlot, SuggestedPrompt
from bot.core import logs
from bot.core.errors import ChatBusyError, ChatError, ChatRefusedError, PlaceClosedError
from bot.core.held_lease import assert_lease_held
from bot.core.i18n import translate
from bot.platforms.feishu.cards import Element, render_post
from bot.platforms.feishu.client import GONE_CODES, TOO_OLD_CODES, FeishuClient
from bot.platforms.feishu.directory import list_people_to_pick
from bot.platforms.feishu.presses import PressDesk
from bot.platforms.feishu.sent_cards import SentCard, SentCards
from bot.platforms.feishu.typing_sign import TypingSigns
from bot.platforms.shared import BURST, LocalRateLimiter, SharedRateLimiter, find_value, parse_object, remember

log = logs.get_logger(__name__)

NO_TOPICS = "230071"
"""Refusal of a reply as a topic: the group has none."""
NO_ROOT_CODES = GONE_CODES | {"230019", "99992354"}
"""Refusals of a reply: the first message was recalled, or Feishu knows neither it nor its topic."""
APP_MS, APP_BURST = 20, 25
"""Rate of all calls that send messages: 50 a second for an app."""
UPDATE_MS, UPDATE_BURST = 200, 3
"""Rate of the updates of one message: 5 a second."""
TRIES = 4
"""How often a post waits for a slot, if Feishu takes no more messages."""
MAX_KNOWN = 10_000
"""Number of chats, and of messages with updates, that a process remembers."""
MAX_ALT_LENGTH = 3_000
"""Longest text with a picture or files, in characters. The rest is cut."""
FILE_TYPES = {
    "pdf": "pdf", "doc": "doc", "docx": "doc", "xls": "xls", "xlsx": "xls", "ppt": "ppt", "pptx": "ppt", "mp4": "mp4"
}  # fmt: skip
"""Ending of a name → Feishu's type of the file. All others are `stream`."""


class FeishuChannel(TypingSigns):
    """Implements `bot.chat.messages.Channel`. Posts in one chat keep `spacing_ms` apart after `BURST`, because Feishu
    allows five a second for all bots of the chat together."""

    def __init__(
        self,
        client: FeishuClient,
        limits: SharedRateLimiter,
        sent: SentCards,
        directory: ChatDirectory,
        *,
        team: str,
        spacing_ms: int = 300,
    ) -> None:
        super().__init__(client, sent)
        self.presses, self._limits, self._directory = PressDesk(), limits, directory
        self._team, self._spacing_ms = team, spacing_ms
        self._chats: dict[str, str] = {}
        """Person → their chat with the bot."""
        self._updates: dict[str, LocalRateLimiter] = {}
        """Message → the rate of its updates."""

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        """Post a message, see `Channel.post_message`. If the post takes several messages, return the last, which has
        the buttons. If the first message of the thread was recalled, post outside of it."""
        *before, last = map(_build_card_message, await self._render(post, place))
        for number, message in enumerate(before, 1):
            await self._post_once(place, message, f"{key}:{number}", again=again, wait_ms=wait_ms)
            wait_ms = None
        name = f"{key}:{len(before) + 1}"
        ref = await self._post_once(place, last, name, again=again, wait_ms=wait_ms, post=post)
        self.note_post(place)
        return ref

    async def _render(self, post: Post, place: Place) -> list[Element]:
        return render_post(post, place, list(await list_people_to_pick(self._directory)) if post.picker else ())

    async def _post_once(
        self,
        place: Place,
        content: Mapping[str, str],
        key: str,
        *,
        again: bool = False,
        wait_ms: int | None = None,
        post: Post | None = None,
    ) -> MessageRef:
        """Post one message under this key, and save what it became. With `again`, return the message that is there.
        `post` is what its buttons belong to."""
        uuid = build_uuid(place.channel, key)
        if again and (found := await self._sent.find_post(uuid)):
            return found
        ref = await self.send_message(place, content, uuid, wait_ms)
        has_place = post is not None and bool(post.card or post.picker or post.buttons)
        card = content["content"] if post is not None and has_lasting_buttons(post) else ""
        # A person's first post goes to their own id, before their chat is known.
        names = uuid, build_uuid(ref.channel, key)
        await self._sent.save_post(ref, *names, place=place if has_place else None, content=card)
        if place.channel != ref.channel:
            await self.note_dm(place.channel, ref.channel)
        return ref

    async def send_message(
        self, place: Place, content: Mapping[str, str], uuid: str, wait_ms: int | None = None
    ) -> MessageRef:
        """Send one message, or find it if Feishu has one with this `uuid`. A group without topics gets a plain reply,
        and a place whose first message was recalled gets the message outside of the thread."""
        by = "open_id" if place.channel.startswith("ou_") else "chat_id"
        whole = ("im/v1/messages", {"receive_id_type": by}, {"receive_id": place.channel, **content, "uuid": uuid})
        if not place.thread:
            return await self._send(place, *whole, wait_ms)
        root = (await self._sent.load_card(place.thread)).newest if place.direct else place.thread
        path, plain = f"im/v1/messages/{root}/reply", {**content, "uuid": uuid}
        try:
            return await self._send(
                place, path, None, plain if place.direct else {**plain, "reply_in_thread": True}, wait_ms
            )
        except ChatError as failed:
            if failed.code == NO_TOPICS:
                return await self._send(place, path, None, plain)
            if failed.code not in NO_ROOT_CODES:
                raise
        return await self._send(place, *whole)

    async def _send(
        self,
        place: Place,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any],
        wait_ms: int | None = None,
        tries: int = TRIES,
    ) -> MessageRef:
        slot = self.find_rate_slot(place)
        if wait_ms is None:
            wait_ms = await self._limits.reserve_slot(slot.key, slot.spacing_ms, slot.burst)
        app_ms = await self._limits.reserve_slot(f"feishu:{self._team}", APP_MS, APP_BURST)
        await asyncio.sleep(max(wait_ms, app_ms) / 1000)
        try:
            sent = await self._client.call(
                "POST", path, query=query, body=body, before_each_try=assert_lease_held, waits_out_limit=False
            )
        except ChatBusyError as busy:
            await self._limits.apply_penalty(slot.key, busy.wait_ms)
            if tries == 1:
                raise
            return await self._send(place, path, query, body, tries=tries - 1)
        return MessageRef(channel=str(sent.get("chat_id") or place.channel), ts=str(sent["message_id"]))

    async def update_message(self, ref: MessageRef, post: Post) -> None:
        """Update the message that `post_message` returned, wherever it is by now. If a post took several messages, this
        one is the last. The earlier ones have no buttons and stay. If Feishu takes no update because the message was
        recalled or is too old, the new text follows as a message of its own, once. Raises `ChatBusyError` when Feishu
        takes no more updates now."""
        card = await self._sent.load_card(ref.ts)
        place = card.place or Place(platform="feishu", team=self._team, channel=ref.channel)
        rendered, has_buttons = (await self._render(post, place))[-1], has_lasting_buttons(post)
        if len(self._updates) >= MAX_KNOWN:
            self._updates.clear()
        if wait_ms := self._updates.setdefault(ref.ts, LocalRateLimiter(UPDATE_MS, UPDATE_BURST)).take_slot(ref.ts):
            raise ChatBusyError(wait_ms, "im/v1/messages")
        await assert_lease_held()
        self.presses.give_card(ref, rendered)
        try:
            await self.patch_card(card.newest, rendered)
        except ChatError as failed:
            if failed.code not in GONE_CODES | TOO_OLD_CODES:
                raise
            log.info("card.followed", message=ref.ts, code=failed.code)
            newest = await self.post_anew(card, place, encode_content(rendered))
            card = await self._sent.save_newest(card, newest)
        saved = await self._sent.save_content(card, encode_content(rendered), has_buttons=has_buttons)
        if saved.newest != card.newest:  # posted anew meanwhile
            await self.patch_card(saved.newest, rendered)
            await self.show_moved(card.newest, rendered)

    async def patch_card(self, message: str, content: dict[str, Any]) -> None:
        """Replace a card. Raises `ChatBusyError` when Feishu takes no more updates now."""
        path, body = f"im/v1/messages/{message}", {"content": encode_content(content)}
        await self._client.call("PATCH", path, body=body, before_each_try=assert_lease_held, waits_out_limit=False)

    async def post_anew(self, card: SentCard, place: Place, content: str) -> str:
        """Post a card again, as the next of its messages, and return its id. However often and by whatever process this
        is done within an hour, it is one message."""
        uuid = build_uuid(card.newest, "anew")
        return (await self.send_message(place, {"msg_type": "interactive", "content": content}, uuid)).ts

    async def show_moved(self, message: str, content: dict[str, Any]) -> None:
        """Let an old card say that it continues below, unless Feishu refuses that. Raises `ChatUnavailableError`."""
        try:
            await self.patch_card(message, render_moved(content))
        except ChatRefusedError as failed:
            log.info("card.not_moved", message=message, code=failed.code)

    async def has_buttons_of(self, ref: MessageRef, post: Post) -> bool:
        """See `Channel.has_buttons_of`. Feishu returns the card as it was sent only if it is asked for that."""
        newest = (await self._sent.load_card(ref.ts)).newest
        query = {"card_msg_content_type": "user_card_content", "user_id_type": "open_id"}
        try:
            answer = await self._client.call("GET", f"im/v1/messages/{newest}", query=query)
        except ChatRefusedError:
            return True
        found = next((one for one in answer.get("items") or () if one.get("message_id") == newest), None)
        if found is None or found.get("deleted"):
            return True
        content = render_post(post, Place(platform="feishu", team=self._team, channel=ref.channel))[-1]
        sent = parse_object(find_value(found, "body", "content"))
        wrapped = find_value(sent, "user_dsl")
        shown = parse_object(wrapped) if isinstance(wrapped, str) else sent
        return list(_describe_buttons(shown)) == list(_describe_buttons(content))

    async def post_ephemeral(self, place: Place, person: str, text: str) -> None:
        """Post a message that one person sees: as the answer to their press, in the group, or in their chat with the
        bot where Feishu does not show it (a group with topics, a person who is not there). A person who cannot be told
        at all does not keep a lane waiting."""
        await assert_lease_held()
        if self.presses.give_notice(place.channel, person, text):
            return
        try:
            for part in render_post(Post(text=text), place):
                body = {"chat_id": place.channel, "open_id": person, "msg_type": "interactive", "card": part}
                try:
                    if place.direct:
                        raise PlaceClosedError("direct")
                    await self._client.call("POST", "ephemeral/v1/send", body=body, before_each_try=assert_lease_held)
                except ChatRefusedError:
                    dm = await self.open_dm(person)
                    await self.send_message(dm, _build_card_message(part), secrets.token_hex(16))
        except ChatRefusedError as refused:
            log.warning("person.not_told", person=person, error=refused.code)

    async def open_dm(self, person: str) -> Place:
        """Find the person's chat with the bot. If Feishu does not name it, the place is the person. The first post
        there tells their chat."""
        chat = self._chats.get(person) or await self._sent.find_dm(person)
        if not chat:
            query, body = {"chatter_id_type": "open_id"}, {"chatter_ids": [person]}
            try:
                answer = await self._client.call("POST", "im/v1/chat_p2p/batch_query", query=query, body=body)
            except ChatRefusedError as refused:
                log.debug("dm.not_named", code=refused.code)
                answer = {}
            found = (str(one["chat_id"]) for one in answer.get("p2p_chats") or () if one.get("chat_id"))
            await self.note_dm(person, chat := next(found, person))
        return Place(platform="feishu", team=self._team, channel=chat, direct=True)

    async def note_dm(self, person: str, chat: str) -> None:
        """Note the person's chat with the bot, as a verified payload or an answer names it."""
        if self._chats.get(person) != chat:
            await self._sent.save_dm(person, chat)
            remember(self._chats, person, chat, MAX_KNOWN)

    async def suggest_prompts(self, place: Place, prompts: Sequence[SuggestedPrompt]) -> None:
        """Do nothing. Feishu shows no prompts, and the welcome names them."""

    async def upload_picture(
        self, place: Place, picture: bytes, *, name: str, title: str, alt: str, key: str, again: bool = False
    ) -> None:
        """Post a PNG with its title and its description, see `Channel.upload_picture`."""
        if again and await self._sent.find_post(build_uuid(place.channel, f"{key}:1")):
            return
        about = {"image_type": "message"}
        image = await self._client.upload("image", name, picture, about, before_each_try=assert_lease_held)
        rows = [[{"tag": "text", "text": alt[:MAX_ALT_LENGTH]}], [{"tag": "img", "image_key": image}]]
        content = encode_content({"zh_cn": {"title": title, "content": rows}})
        await self._post_once(place, {"msg_type": "post", "content": content}, f"{key}:1", again=again)

    async def upload_files(
        self, place: Place, files: Sequence[tuple[str, bytes]], *, comment: str, key: str, again: bool = False
    ) -> None:
        """Post the comment, and each file as a message of its own, because Feishu has no message with several."""
        if comment:
            [*_, words] = render_post(Post(text=comment[:MAX_ALT_LENGTH], plain=True), place)
            await self._post_once(place, _build_card_message(words), f"{key}:0", again=again)
        for number, (name, content) in enumerate(files, 1):
            if again and await self._sent.find_post(build_uuid(place.channel, f"{key}:{number}")):
                continue
            about = {"file_type": FILE_TYPES.get(name.rpartition(".")[2].lower(), "stream"), "file_name": name}
            uploaded = await self._client.upload("file", name, content, about, before_each_try=assert_lease_held)
            file = encode_content({"file_key": uploaded})
            await self._post_once(place, {"msg_type": "file", "content": file}, f"{key}:{number}", again=again)

    async def post_form(self, person: str, card: Element, *, key: str) -> MessageRef:
        """Post a form in the person's chat with the bot. `key` names the press or command that opens it, so that a
        repeated one opens no second form. Raises `ChatError`."""
        return await self._post_once(await self.open_dm(person), _build_card_message(card), f"form:{key}", again=True)

    def find_rate_slot(self, place: Place) -> RateSlot:
        return RateSlot(f"feishu:{self._team}:{place.channel}", self._spacing_ms, BURST)


def build_uuid(place: str, key: str) -> str:
    """Build the name by which Feishu knows a repeated message: at most 50 characters. Its end says which post it is."""
    return f"{hashlib.sha256(f'{place} {key}'.encode()).hexdigest()[:32]}-{key[-17:]}"


def encode_content(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _build_card_message(card: Element) -> dict[str, str]:
    return {"msg_type": "interactive", "content": encode_content(card)}


def has_lasting_buttons(post: Post) -> bool:
    """Return whether a post waits for a press as long as it takes, so that it has to be posted anew."""
    card = post.card
    return post.picker is not None or (card is not None and bool(card.buttons or card.ticks))


def render_moved(content: Mapping[str, Any]) -> dict[str, Any]:
    """Render the state of an old card that continues in a new message. Its readers' languages are not known."""
    title = find_value(content, "header", "title", "content") or ""
    text = " · ".join(translate("feishu.card_continues", language) for language in ("zh", "en"))
    place = Place(platform="feishu", team="", channel="")
    return render_post(Post(text, card=Card(title, lead=text)), place)[-1]


def _describe_buttons(content: object) -> Iterator[tuple[str, ...]]:
    """Yield what each button of a card does, in order, without the place of its card."""
    for one in content.values() if isinstance(content, Mapping) else content if isinstance(content, list) else ():
        value = one.get("value") if isinstance(one, Mapping) and one.get("type") == "callback" else None
        if isinstance(value, Mapping):
            yield tuple(str(value.get(name, "")) for name in ("cs", "approval", "version", "choice", "seal"))
        else:
            yield from _describe_buttons(one)
