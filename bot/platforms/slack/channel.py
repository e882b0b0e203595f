"""`SlackChannel`: the bot's posts on Slack.

Slack knows no fencing token. A process therefore asserts right before each post that its lane is still its own. The
check does not cover the time that a request takes to the wire."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import MessageRef, Place, Post, RateSlot
from bot.core import logs
from bot.core.errors import ChatBusyError, ChatError, ChatRefusedError, ChatUnavailableError
from bot.core.held_lease import assert_lease_held
from bot.platforms.shared import BURST, LatestCalls, LocalRateLimiter, OptionalFeature, SharedRateLimiter, Thread
from bot.platforms.slack.agent_view import AgentView
from bot.platforms.slack.blocks import RenderedMessage, render_post
from bot.platforms.slack.text import escape_text, truncate_text
from bot.platforms.slack.web_api import UNREACHABLE, Method, call_slack, stream_pages, upload_content

log = logs.get_logger(__name__)

EVENT = "countersign_post"
"""Event type of the metadata on every message of ours, which names the post."""
PAGES, PAGE = 10, 100
"""How far back a place is searched for a post: pages, and messages per page."""
MAX_ALT_LENGTH = 3_000
"""Longest description of a picture, in characters. The rest is cut."""
MISSING_THREAD_ERRORS = frozenset({"cannot_reply_to_message", "thread_not_found", "message_not_found"})
"""Errors that mean that the author has deleted the first message of the thread."""
_UNFURLED = {"unfurl_links": False, "unfurl_media": False}
"""No previews, because a preview would fetch a page that a text links to."""
UPDATE_MS, UPDATE_BURST = 1_200, 10
"""Rate of chat.update, which is tier 3: 50 per minute and workspace. Each process keeps this rate for itself. If
several processes together are faster, Slack answers 429 with a time, and they wait that long."""


class SlackChannel(AgentView):
    """Implements `bot.chat.messages.Channel`. Posts in one Slack channel keep `spacing_ms` apart after `BURST`."""

    def __init__(
        self, client: AsyncWebClient, limits: SharedRateLimiter, *, team: str, bot: str, spacing_ms: int = 1_050
    ) -> None:
        super().__init__(client)
        self._limits, self._team, self._bot, self._spacing_ms = limits, team, bot, spacing_ms
        self._updates = LocalRateLimiter(UPDATE_MS, UPDATE_BURST)
        self._directs: dict[str, str] = {}
        self._statuses, self._status_feature = LatestCalls(self._set_status), OptionalFeature("statuses")

    async def post_message(
        self, place: Place, post: Post, *, key: str, again: bool = False, wait_ms: int | None = None
    ) -> MessageRef:
        """Post a message, see `Channel.post_message`. If the post takes several messages, return the last, which has
        the buttons. If the thread is gone, post outside of it."""
        try:
            return await self._post_missing_parts(place, post, key, again, wait_ms)
        except ChatError as failed:
            if not place.thread or failed.code not in MISSING_THREAD_ERRORS:
                raise
        return await self._post_missing_parts(place.model_copy(update={"thread": None}), post, key, again)

    async def _post_missing_parts(
        self, place: Place, post: Post, key: str, again: bool, wait_ms: int | None = None
    ) -> MessageRef:
        await self._statuses.wait(place)  # a status that came after the message would stay
        parts = render_post(post)
        posted = await self._find_posted_parts(place, key) if again else {}
        for number, part in enumerate(parts, 1):
            if number not in posted:
                posted[number] = await self._post_part(place, part, key, number, wait_ms)
                wait_ms = None
        return MessageRef(channel=place.channel, ts=posted[len(parts)])

    async def _post_part(
        self, place: Place, part: RenderedMessage, key: str, number: int, wait_ms: int | None = None
    ) -> str:
        """Post one message. If the answer is lost, the message may exist, so search for it before posting again."""
        slot = self.find_rate_slot(place)
        about = {"event_type": EVENT, "event_payload": {"key": key, "part": number}}
        message = _build_destination(place) | _build_message_content(part) | {"metadata": about} | _UNFURLED
        for tries_left in (2, 1, 0):
            try:
                if wait_ms is None:
                    wait_ms = await self._limits.reserve_slot(slot.key, slot.spacing_ms, slot.burst)
                await asyncio.sleep(wait_ms / 1000)
                answer = await call_slack(
                    self._client.chat_postMessage,
                    message,
                    repeatable=False,
                    on_rate_limit=partial(self._limits.apply_penalty, slot.key),
                    before_each_try=assert_lease_held,
                )
                return str(answer["ts"])
            except ChatError as failed:
                if failed.code != UNREACHABLE or not tries_left:
                    raise
            wait_ms = None
            if found := (await self._find_posted_parts(place, key)).get(number):
                return found
        raise ChatUnavailableError(UNREACHABLE, "chat.postMessage")

    async def update_message(self, ref: MessageRef, post: Post) -> None:
        """Update the message that `post_message` returned. Blocks are always sent, because Slack keeps omitted ones. If
        a post took several messages, this one is the last. The earlier ones have no buttons and stay. Raises
        `ChatBusyError` when Slack takes no more updates now."""
        if wait_ms := self._updates.take_slot(f"{ref.channel}:{ref.ts}"):
            raise ChatBusyError(wait_ms, "chat.update")
        message = {"channel": ref.channel, "ts": ref.ts} | _build_message_content(render_post(post)[-1])
        await call_slack(
            self._client.chat_update,
            message,
            on_rate_limit=self._updates.apply_penalty,
            before_each_try=assert_lease_held,
            waits_out_limit=False,
        )

    async def has_buttons_of(self, ref: MessageRef, post: Post) -> bool:
        """See `Channel.has_buttons_of`. conversations.replies finds a message within a thread and outside of one."""
        where = {"channel": ref.channel, "ts": ref.ts, "oldest": ref.ts, "latest": ref.ts, "inclusive": True}
        try:
            answer = await call_slack(self._client.conversations_replies, where)
        except ChatRefusedError:
            return True
        found = next((one for one in answer.get("messages") or () if one.get("ts") == ref.ts), None)
        return found is None or _list_buttons(found.get("blocks") or ()) == _list_buttons(render_post(post)[-1].blocks)

    async def post_ephemeral(self, place: Place, person: str, text: str) -> None:
        """Post a message that one person sees: in the place, or in the DM where Slack does not allow it (the thread is
        deleted, the channel archived, the person or the bot not in it). A person who cannot be told at all does not
        keep a lane waiting."""
        try:
            for part in render_post(Post(text=text)):
                message = _build_destination(place) | _build_message_content(part) | {"user": person}
                try:
                    await call_slack(self._client.chat_postEphemeral, message, before_each_try=assert_lease_held)
                except ChatRefusedError:
                    await self._post_part(await self.open_dm(person), part, "", 1)
        except ChatRefusedError as refused:
            log.warning("person.not_told", person=person, error=refused.code)

    async def open_dm(self, person: str) -> Place:
        if person not in self._directs:
            answer = await call_slack(self._client.conversations_open, {"users": person})
            self._directs[person] = str(answer["channel"]["id"])
        return Place(team=self._team, channel=self._directs[person], direct=True)

    def show_status(self, place: Place, text: str) -> None:
        """See `Channel.show_status`. `assistant.threads.setStatus` needs no scope but `chat:write`. Slack removes the
        status with the next message, or after two minutes."""
        if place.thread and self._status_feature.is_available:
            self._statuses.send_soon((place.channel, place.thread), text)

    async def _set_status(self, thread: Thread, text: str) -> None:
        if not self._status_feature.is_available:
            return
        status = {"channel_id": thread[0], "thread_ts": thread[1], "status": text}
        try:
            await call_slack(self._client.assistant_threads_setStatus, status, tries=1)
        except ChatUnavailableError:
            return
        except ChatError as failed:
            self._status_feature.record_refusal(failed.code)

    async def stop_statuses(self) -> None:
        """End the sending at the end of the process. Statuses that are not on their way yet are not sent."""
        await self._session_calls.close()
        await self._statuses.close()

    async def upload_picture(
        self, place: Place, picture: bytes, *, name: str, title: str, alt: str, key: str, again: bool = False
    ) -> None:
        """Post a PNG, see `Channel.upload_picture`. `alt` is posted above the picture, not as `alt_txt`, because a file
        with one may never appear (slackapi/python-slack-sdk#1818). Slack shows a file some seconds later. A crash in
        these seconds may show the picture twice."""
        await self._share_files(place, [(_build_file_name(name, key), title, picture)], alt, again)

    async def upload_files(
        self, place: Place, files: Sequence[tuple[str, bytes]], *, comment: str, key: str, again: bool = False
    ) -> None:
        """See `Channel.upload_files`."""
        named = [(_build_file_name(name, f"{key}:{number}"), name, one) for number, (name, one) in enumerate(files)]
        await self._share_files(place, named, comment, again)

    async def _share_files(
        self, place: Place, files: Sequence[tuple[str, str, bytes]], comment: str, again: bool
    ) -> None:
        """Upload files (name, title, content), then complete the upload, which shows them. If Slack's last answer is
        lost, search for the first file."""
        if again and await self._has_posted_file(place, files[0][0]):
            return
        uploaded = list[dict[str, str]]()
        for name, title, content in files:
            wanted = {"filename": name, "length": len(content)}
            given = await call_slack(self._client.files_getUploadURLExternal, wanted, before_each_try=assert_lease_held)
            await upload_content(self._client, str(given["upload_url"]), content)
            uploaded.append({"id": str(given["file_id"]), "title": title})
        thread, slot = {"thread_ts": place.thread} if place.thread else {}, self.find_rate_slot(place)
        about = {"files": uploaded, "initial_comment": escape_text(truncate_text(comment, MAX_ALT_LENGTH))}
        await asyncio.sleep(await self._limits.reserve_slot(slot.key, slot.spacing_ms, slot.burst) / 1000)
        method, penalty = self._client.files_completeUploadExternal, partial(self._limits.apply_penalty, slot.key)
        try:
            await call_slack(
                method,
                {"channel_id": place.channel} | thread | about,
                repeatable=False,
                on_rate_limit=penalty,
                before_each_try=assert_lease_held,
            )
        except ChatUnavailableError:
            if not await self._has_posted_file(place, files[0][0]):
                raise

    def find_rate_slot(self, place: Place) -> RateSlot:
        """Return the rate limit of a channel's posts. Slack says about one per second, with short bursts."""
        return RateSlot(f"slack:{self._team}:{place.channel}", self._spacing_ms, BURST)

    async def _find_posted_parts(self, place: Place, key: str) -> dict[int, str]:
        """Find our messages with this key: part → ts."""
        timestamps: dict[int, str] = {}
        async for message in self._stream_own_messages(place):
            about = message.get("metadata") or {}
            payload = about.get("event_payload") or {}
            if about.get("event_type") == EVENT and key and payload.get("key") == key:
                timestamps.setdefault(int(payload.get("part", 1)), str(message["ts"]))
        return timestamps

    async def _has_posted_file(self, place: Place, name: str) -> bool:
        """Return whether a message of ours has a file of this name."""
        async for message in self._stream_own_messages(place):
            if any(file.get("name") == name for file in message.get("files") or ()):
                return True
        return False

    async def _stream_own_messages(self, place: Place) -> AsyncIterator[Mapping[str, Any]]:
        """Yield our own messages in a place. Messages of others prove nothing."""
        where: dict[str, Any] = {"channel": place.channel, "limit": PAGE, "include_all_metadata": True}
        method: Method = self._client.conversations_history
        if place.thread:
            method, where["ts"] = self._client.conversations_replies, place.thread
        async for answer in stream_pages(method, where, PAGES):
            for message in answer.get("messages") or ():
                if message.get("user") == self._bot:
                    yield message


def _list_buttons(blocks: Iterable[Mapping[str, Any]]) -> list[tuple[object, object]]:
    elements = [element for block in blocks if block.get("type") == "actions" for element in block.get("elements", ())]
    return [(one.get("action_id"), one.get("value")) for one in elements]


def _build_file_name(name: str, key: str) -> str:
    """Build a file name that identifies the upload, because files carry no metadata."""
    stem, dot, kind = name.rpartition(".")
    return f"{stem}-{hashlib.sha256(key.encode()).hexdigest()[:8]}{dot}{kind}"


def _build_destination(place: Place) -> dict[str, Any]:
    return {"channel": place.channel} | ({"thread_ts": place.thread} if place.thread else {})


def _build_message_content(part: RenderedMessage) -> dict[str, Any]:
    return {"text": part.text, "blocks": list(part.blocks)}
