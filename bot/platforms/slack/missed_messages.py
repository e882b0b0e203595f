"""Finds messages that were written while the bot did not hear Slack.

Slack gives up an event after about five minutes. After a longer gap, the active conversations are therefore searched,
and found messages are handled like events. Known messages are dropped there, by channel and time."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from slack_sdk.web.async_client import AsyncWebClient

from bot.chat.messages import Place
from bot.core import logs
from bot.core.cancellation import cancel_and_wait
from bot.core.clock import Clock
from bot.core.errors import ChatRefusedError, ChatUnavailableError, StoreUnavailableError
from bot.platforms.shared import LocalRateLimiter
from bot.platforms.slack.listeners import SlackListeners
from bot.platforms.slack.web_api import get_next_cursor, stream_pages
from bot.queue.keys import Keys

log = logs.get_logger(__name__)

GAP_MS = 60_000
"""Longest time without Slack after which nothing is searched (ms), because Slack sends those events again."""
PAUSE_S = 3.0
"""How often the connection is checked, and new activity saved (s)."""
MARGIN_S = 60.0
"""How much earlier the search begins (s), because the last check of the connection was before the last event."""
MAX_CHANNELS, MAX_PAGES, MAX_MESSAGES = 700, 5, 200
"""Most channels and DMs that are searched, pages of each conversation, and messages of a page."""
KINDS = ("im", "public_channel,private_channel", "mpim")
"""Kinds of conversations that are listed besides those on record. In a DM everything is for the bot, so DMs come
first."""
MAX_LISTED = 999
"""Conversations of a page of a list: the most that Slack gives."""
CALL_MS, CALL_BURST = 1_300, 20
"""Rate of conversations.history and conversations.replies, which are tier 3: 50 per minute."""
KEPT_MS = 30 * 24 * 3_600_000
MAX_PLACES = 500
"""Number of conversations on record: those that were active last."""
LOOK_MS = 120_000
"""Time for which one process may look before another one starts again (ms)."""


@dataclass(frozen=True, slots=True)
class LastSeenStore:
    """The last contact with Slack and the active conversations, which tell where to look after an outage. Every call
    may raise StoreUnavailableError."""

    redis: Redis
    keys: Keys

    def _build_seen_key(self, name: str) -> str:
        return self.keys.build_key(0, "seen", name)

    async def save_places(self, places: Mapping[str, float]) -> None:
        """Save conversation → time of the last message there (epoch s)."""
        key = self._build_seen_key("places")
        await self.redis.zadd(key, dict(places), gt=True)
        await self.redis.zremrangebyrank(key, 0, -MAX_PLACES - 1)
        await self.redis.pexpire(key, KEPT_MS)

    async def list_places(self) -> list[tuple[str, float]]:
        """List the conversations that were active last, latest first."""
        found = await self.redis.zrevrange(self._build_seen_key("places"), 0, -1, withscores=True)
        return [(str(row[0]), float(row[1])) for row in found]

    async def note_heard(self, now_ms: int) -> None:
        """Note that the platform is heard now. If no process has heard it for longer than `GAP_MS`, the gap is on
        record until `close_gap`."""
        heard_key = self._build_seen_key("heard")
        heard_ms = int(await self.redis.get(heard_key) or now_ms)
        if now_ms - heard_ms > GAP_MS:
            await self.redis.set(self._build_seen_key("gap"), heard_ms, nx=True)
        await self.redis.set(heard_key, now_ms, px=KEPT_MS)

    async def take_gap(self, process: str) -> int | None:
        """Take the start of the gap since when no process has heard the platform (epoch ms), for one process at a time.
        None if no gap exists, or another process looks through it."""
        gap = await self.redis.get(self._build_seen_key("gap"))
        if gap is None or not await self.redis.set(self._build_seen_key("looks"), process, nx=True, px=LOOK_MS):
            return None
        return int(gap)

    async def keep_gap(self) -> None:
        """Keep the gap for this process, which is looking through it; no other process starts again."""
        await self.redis.pexpire(self._build_seen_key("looks"), LOOK_MS)

    async def close_gap(self) -> None:
        """Remove the gap after it was looked through."""
        await self.redis.delete(self._build_seen_key("gap"), self._build_seen_key("looks"))

    async def leave_gap(self) -> None:
        """Release a gap that could not be looked through: any process may try again."""
        await self.redis.delete(self._build_seen_key("looks"))


class MissedMessages:
    """Searches for missed messages after a gap. `listeners` tell it of activity, and take the messages that are
    found."""

    def __init__(self, client: AsyncWebClient, listeners: SlackListeners, store: LastSeenStore, clock: Clock) -> None:
        self._client, self._listeners, self._store, self._clock = client, listeners, store, clock
        listeners.note_activity = self.note_activity
        self._calls, self._process = LocalRateLimiter(CALL_MS, CALL_BURST), secrets.token_hex(4)
        self._seen: dict[str, float] = {}
        """Activity that is not saved yet: place → time (epoch s)."""

    def note_activity(self, place: Place, at: str) -> None:
        """Note that a message or a press was accepted."""
        for thread in {"", place.thread or ""}:
            self._seen[f"{place.channel}|{thread}|{'shared' if place.shared else ''}"] = float(at)

    @asynccontextmanager
    async def watched(self, is_connected: Callable[[], Awaitable[bool]]) -> AsyncIterator[None]:
        """Notice gaps and search them while the context is open."""
        watching = asyncio.create_task(self._watch(is_connected), name="missed messages")
        try:
            yield
        finally:
            await cancel_and_wait([watching])

    async def _watch(self, is_connected: Callable[[], Awaitable[bool]]) -> None:
        while True:
            try:
                if await is_connected():
                    await self._look_once()
            except (StoreUnavailableError, ChatUnavailableError) as error:
                log.info("missed messages are looked for later", reason=str(error))
            except Exception:
                log.exception("missed messages were not looked for")
            await asyncio.sleep(PAUSE_S)

    async def _look_once(self) -> None:
        await self._store.note_heard(self._clock.now_ms())
        gap_ms = await self._store.take_gap(self._process)
        if gap_ms is not None:
            try:
                await self._look_through(gap_ms / 1000)
            except BaseException:
                await self._store.leave_gap()
                raise
            await self._store.close_gap()
        if seen := dict(self._seen):
            await self._store.save_places(seen)
            self._seen = dict(self._seen.items() - seen.items())  # some are newer by now

    async def _look_through(self, gap_s: float) -> None:
        """Search for everything that was missed, in the order of each channel. Places on record come first, the channel
        that was active last before the others. The bot's DMs and channels without messages to it follow, the newest DM
        first."""
        count, places_by_channel = 0, dict[str, list[tuple[str, bool, float]]]()
        for place, last_s in await self._store.list_places():
            channel, thread, shared = place.split("|")
            places_by_channel.setdefault(channel, []).append((thread, bool(shared), last_s))
        for kind in KINDS:
            where = {"types": kind, "exclude_archived": True, "limit": MAX_LISTED}
            listed = list[Mapping[str, Any]]()
            try:
                async for answer in stream_pages(
                    self._client.users_conversations, where, MAX_PAGES, before_each=self._prepare_call
                ):
                    listed += [one for one in answer.get("channels") or () if not one.get("is_user_deleted")]
            except ChatRefusedError as refused:  # the app may not see these
                log.warning("only those on record are looked through", kind=kind, code=refused.code)
            created = [(at if isinstance(at := one.get("created"), int) else 0, str(one["id"]), one) for one in listed]
            for _, channel, one in sorted(created, key=lambda row: row[0], reverse=True):
                is_shared = bool(one.get("is_ext_shared") or one.get("is_org_shared"))
                places_by_channel.setdefault(channel, [("", is_shared, 0.0)])
        looked_through = list(places_by_channel.items())[:MAX_CHANNELS]
        for channel, places in looked_through:
            found = dict[str, dict[str, Any]]()
            for thread, is_shared, last_s in places:
                since_s = gap_s - MARGIN_S
                oldest_s = max(since_s, last_s) if last_s <= gap_s else since_s  # messages may have been written since
                for message in await self._read_place(channel, thread, oldest_s):
                    event = {**message, "type": "message", "channel": channel}
                    body = {"type": "event_callback", "event": event, "is_ext_shared_channel": is_shared}
                    found[str(message["ts"])] = body
            for ts in sorted(found, key=float):
                await self._listeners.handle_event(found[ts], _do_nothing)
            count += len(found)
        directs = sum(channel.startswith("D") for channel, _ in looked_through)
        log.warning(
            "looked for missed messages",
            direct_messages=directs,
            channels=len(looked_through) - directs,
            left_out=len(places_by_channel) - len(looked_through),
            messages=count,
        )

    async def _read_place(self, channel: str, thread: str, oldest_s: float) -> list[Mapping[str, Any]]:
        """Return the messages written in a place since, with replies to them. Return none for a place that is closed to
        us."""
        try:
            messages = await self._read_messages(channel, thread, oldest_s)
            for root in [] if thread else [one for one in messages if one.get("reply_count")]:
                messages = [*messages, *await self._read_messages(channel, str(root["ts"]), oldest_s)]
        except ChatRefusedError as refused:
            log.info("a conversation is not looked through", channel=channel, code=refused.code)
            return []
        return messages

    async def _read_messages(self, channel: str, thread: str, oldest_s: float) -> list[Mapping[str, Any]]:
        method = self._client.conversations_replies if thread else self._client.conversations_history
        where = {"channel": channel, "oldest": f"{oldest_s:.6f}", "limit": MAX_MESSAGES}
        where, messages = where | ({"ts": thread} if thread else {}), list[Mapping[str, Any]]()
        is_whole = False
        async for answer in stream_pages(method, where, MAX_PAGES, before_each=self._prepare_call):
            messages += answer.get("messages") or ()
            is_whole = not get_next_cursor(answer)
        if not is_whole:
            log.warning("not every missed message is looked at", channel=channel, most=MAX_PAGES * MAX_MESSAGES)
        later = [one for one in messages if float(one.get("ts") or 0) > oldest_s + 1e-6]
        return [one for one in later if not thread or one.get("thread_ts") == thread]

    async def _prepare_call(self) -> None:
        """Wait for a slot. Keep the gap, so that no other process begins to search meanwhile."""
        await self._store.keep_gap()
        await self._calls.wait_for_slot()


async def _do_nothing() -> None:
    """End the handling of a missed message after the listeners."""
