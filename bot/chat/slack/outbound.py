"""`SlackChannel`: what the bot says and shows on Slack.

Slack knows no fencing token, so a process that was held up looks right before it speaks whether its lane is still its
own. What is left is the time that a request takes to the wire."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.slack.calls import UNREACHABLE, Method, Penalty, call, put
from bot.chat.slack.cards import Part, parts
from bot.chat.slack.text import escape, shortened
from bot.errors import ChatDown, ChatFailed
from bot.events import Place, Post, Ref, Slot
from bot.held_lease import assert_lease_held

EVENT = "countersign_post"
"""Event type of the metadata every message of ours carries: which post it is."""
PAGES, PAGE = 10, 100
"""How far back a place is searched for a post: pages, messages a page."""
ALT = 3_000
"""Characters that the words of a picture may have; then they are cut."""
THREADLESS = frozenset({"cannot_reply_to_message", "thread_not_found", "message_not_found"})
"""The message that began the thread is gone: its writer has deleted it."""
_UNFURLED = {"unfurl_links": False, "unfurl_media": False}
"""No previews: fetching what a text links to is not ours to cause."""
UPDATE_MS, UPDATE_BURST = 1_200, 10
"""chat.update is tier 3: 50 a minute in a workspace. Each process keeps it for itself; where several together are
faster, Slack answers 429 with the time to wait, and that is waited."""


class Slots(Protocol):
    """Slots of a rate, shared by all processes (`bot.store.limits.Limits`)."""

    async def reserve(self, key: str, spacing_ms: int, burst: int) -> int:
        """Take the next slot; the ms to wait for it."""

    async def penalty(self, key: str, ms: int) -> None:
        """The platform said: nothing for so many ms."""


class Pace:
    """A rate that one process keeps for itself (GCRA): `burst` at once, then one every `spacing_ms`."""

    def __init__(self, spacing_ms: int, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._spacing_s, self._clock, self._next = spacing_ms / 1000, clock, float("-inf")
        self._slack_s = (burst - 1) * self._spacing_s

    async def turn(self) -> None:
        """Wait for the next slot."""
        now = self._clock()
        wait_s = self._next - self._slack_s - now
        self._next = max(self._next, now) + self._spacing_s
        await asyncio.sleep(max(0.0, wait_s))

    async def penalty(self, ms: int) -> None:
        """No slot within `ms`."""
        self._next = max(self._next, self._clock() + ms / 1000 + self._slack_s)


class SlackChannel:
    """Implements `bot.events.Channel`. Posts in one Slack channel keep `spacing_ms` apart after `burst`."""

    def __init__(
        self,
        client: AsyncWebClient,
        limits: Slots,
        *,
        team: str,
        bot: str,
        spacing_ms: int = 1_050,
        burst: int = 4,
    ) -> None:
        self._client, self._limits, self._team, self._bot = client, limits, team, bot
        self._spacing_ms, self._burst = spacing_ms, burst
        self._updates = Pace(UPDATE_MS, UPDATE_BURST)
        self._directs: dict[str, str] = {}

    async def post(self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None) -> Ref:
        """Say something; see `Channel.post`. Of several messages the ref is the last: it has the buttons.
        Where the thread is gone, it is said beside it."""
        try:
            return await self._post(place, post, key, again, wait_ms)
        except ChatFailed as failed:
            if not place.thread or failed.code not in THREADLESS:
                raise
        return await self._post(place.model_copy(update={"thread": None}), post, key, again)

    async def _post(self, place: Place, post: Post, key: str, again: bool, wait_ms: int | None = None) -> Ref:
        shown = parts(post)
        there = await self._search(place, key) if again else {}
        for number, part in enumerate(shown, 1):
            if number not in there:
                there[number] = await self._say(place, part, key, number, wait_ms)
                wait_ms = None
        return Ref(channel=place.channel, ts=there[len(shown)])

    async def _say(
        self, place: Place, part: Part, key: str, number: int, wait_ms: int | None = None, tries: int = 3
    ) -> str:
        """Post one message. When the answer is lost the message may be there: look before saying it again."""
        for left in range(tries - 1, -1, -1):
            try:
                return await self._send(place, part, key, number, wait_ms)
            except ChatFailed as failed:
                if failed.code != UNREACHABLE or not left:
                    raise
            wait_ms = None
            if found := (await self._search(place, key)).get(number):
                return found
        raise ChatDown(UNREACHABLE, "chat.postMessage")

    async def _send(self, place: Place, part: Part, key: str, number: int, wait_ms: int | None) -> str:
        slot = self.slot(place)
        if wait_ms is None:
            wait_ms = await self._limits.reserve(slot.key, slot.spacing_ms, slot.burst)
        await asyncio.sleep(wait_ms / 1000)
        about = {"event_type": EVENT, "event_payload": {"key": key, "part": number}}
        message = _where(place) | _content(part) | {"metadata": about} | _UNFURLED
        post = self._client.chat_postMessage
        answer = await call(post, message, repeatable=False, penalty=self._penalty(slot.key), before=assert_lease_held)
        return str(answer["ts"])

    async def edit(self, ref: Ref, post: Post) -> None:
        """Rewrite the message that `post` returned. Blocks are always sent: Slack keeps omitted ones.
        Of a post of several messages this is the last; the earlier ones have no buttons and stay."""
        await self._updates.turn()
        message = {"channel": ref.channel, "ts": ref.ts} | _content(parts(post)[-1])
        await call(self._client.chat_update, message, penalty=self._updates.penalty, before=assert_lease_held)

    async def whisper(self, place: Place, person: str, text: str) -> None:
        """Tell one person privately: in the place, or in the DM where Slack does not let us (the thread is deleted,
        the channel archived, one of us not in it)."""
        for part in parts(Post(text=text)):
            message = _where(place) | _content(part) | {"user": person}
            try:
                await call(self._client.chat_postEphemeral, message, before=assert_lease_held)
            except ChatDown:
                raise
            except ChatFailed:
                await self._say(await self.direct(person), part, "", 1)

    async def direct(self, person: str) -> Place:
        """The DM with a person."""
        if person not in self._directs:
            answer = await call(self._client.conversations_open, {"users": person})
            self._directs[person] = str(answer["channel"]["id"])
        return Place(team=self._team, channel=self._directs[person], direct=True)

    async def share(
        self, place: Place, picture: bytes, *, name: str, title: str, alt: str, key: str, again: bool = False
    ) -> None:
        """Show a PNG; see `Channel.share`. `alt` is said above it, and not given as `alt_txt`: a file that has one may
        never appear (slackapi/python-slack-sdk#1818). Slack shows a file some seconds later; a crash in these may show
        it twice."""
        name = _marked(name, key)
        if again and await self._shared(place, name):
            return
        wanted = {"filename": name, "length": len(picture)}
        given = await call(self._client.files_getUploadURLExternal, wanted, before=assert_lease_held)
        await put(self._client, str(given["upload_url"]), picture)
        file = {"id": str(given["file_id"]), "title": title}
        await self._complete(place, {"files": [file], "initial_comment": escape(shortened(alt, ALT))}, name)

    async def _complete(self, place: Place, about: dict[str, Any], name: str) -> None:
        """The last step shows it. When its answer is lost it may be there: then that is looked for."""
        thread, slot = {"thread_ts": place.thread} if place.thread else {}, self.slot(place)
        message = {"channel_id": place.channel} | thread | about
        await asyncio.sleep(await self._limits.reserve(slot.key, slot.spacing_ms, slot.burst) / 1000)
        method, penalty = self._client.files_completeUploadExternal, self._penalty(slot.key)
        try:
            await call(method, message, repeatable=False, penalty=penalty, before=assert_lease_held)
        except ChatDown:
            if not await self._shared(place, name):
                raise

    def slot(self, place: Place) -> Slot:
        """The rate of a channel's posts: about one a second, says Slack, with short bursts."""
        return Slot(f"slack:{self._team}:{place.channel}", self._spacing_ms, self._burst)

    def _penalty(self, key: str) -> Penalty:
        async def tell(ms: int) -> None:
            await self._limits.penalty(key, ms)

        return tell

    async def _search(self, place: Place, key: str) -> dict[int, str]:
        """part → ts of the messages of ours that carry this key."""
        found: dict[int, str] = {}
        async for message in self._said(place):
            if (part := _part(message, key)) is not None:
                found.setdefault(part, str(message["ts"]))
        return found

    async def _shared(self, place: Place, name: str) -> bool:
        """Whether a message of ours has a file of this name."""
        async for message in self._said(place):
            if any(file.get("name") == name for file in message.get("files") or ()):
                return True
        return False

    async def _said(self, place: Place) -> AsyncIterator[Mapping[str, Any]]:
        """Our own messages in a place: what others write proves nothing."""
        where: dict[str, Any] = {"channel": place.channel, "limit": PAGE, "include_all_metadata": True}
        method: Method = self._client.conversations_history
        if place.thread:
            method, where["ts"] = self._client.conversations_replies, place.thread
        for _ in range(PAGES):
            answer = await call(method, where)
            for message in answer.get("messages") or ():
                if message.get("user") == self._bot:
                    yield message
            where["cursor"] = (answer.get("response_metadata") or {}).get("next_cursor")
            if not where["cursor"]:
                break


def _part(message: Mapping[str, Any], key: str) -> int | None:
    """The part number of a message of ours, if it carries this key."""
    about = message.get("metadata") or {}
    payload = about.get("event_payload") or {}
    ours = about.get("event_type") == EVENT and key and payload.get("key") == key
    return int(payload.get("part", 1)) if ours else None


def _marked(name: str, key: str) -> str:
    """A file's name that says which share it is: files carry no metadata."""
    stem, dot, kind = name.rpartition(".")
    return f"{stem}-{hashlib.sha256(key.encode()).hexdigest()[:8]}{dot}{kind}"


def _where(place: Place) -> dict[str, Any]:
    return {"channel": place.channel} | ({"thread_ts": place.thread} if place.thread else {})


def _content(part: Part) -> dict[str, Any]:
    return {"text": part.text, "blocks": list(part.blocks)}
