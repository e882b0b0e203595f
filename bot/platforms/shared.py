"""Parts that the adapters of several platforms share. Nothing here knows a platform."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from bot.chat.messages import (
    Acceptance,
    Channel,
    ChannelReaders,
    ChatDirectory,
    HomeEntry,
    HomeSection,
    Ingress,
    Moment,
    NamedPerson,
    Place,
)
from bot.core import logs
from bot.core.cancellation import cancel_and_wait
from bot.core.errors import ChatAccountError, ChatError, ChatUnavailableError, StoreUnavailableError
from bot.core.i18n import translate

log = logs.get_logger(__name__)

RECHECK_S, RECHECK_INTERVAL_S = 0.75, 0.25
"""How long and how often to check whether a thread is ours (s): far less than the three seconds in which a platform
wants an acknowledgement."""
CACHE_S, FAILURE_CACHE_S, PLACES_MAX = 300.0, 30.0, 5_000
"""How long an answer about readers is cached, and how long a failure is cached before the platform is asked again (s),
and most places that are cached."""
NOT_ACCEPTED = {
    Acceptance.TAKEN: "slack.taken_late",
    Acceptance.NOT_TAKEN: "slack.not_taken",
    Acceptance.UNKNOWN: "slack.not_known",
}
"""The sentence for the presser of a press whose acceptance failed."""
MAX_QUOTES, MAX_QUOTE = 10, 4_000
"""Most forwarded messages that are read, and most characters of one."""
UNAVAILABLE_S = 600.0
"""How long an optional feature is not used after the platform has refused it (s)."""
DRAIN_S = 3.0
"""How long a platform waits for an acknowledgement before it sends the event again (s). A shutdown need not wait
longer."""
BURST = 4
"""Posts at once in one channel after a pause."""
VALUE_MAX, MAX_TICKS = 60_000, 100
"""Longest value of a form that is read, in characters, and most ticks. No field takes nearly as much, so a longer value
is refused as too long."""
FORGET_S = 5.0
"""How late a caller may ask again before its turn is given away, because another process has taken over its work
(s)."""
Element = TypeVar("Element")
Wanted = TypeVar("Wanted")
Key = TypeVar("Key")
Thread: TypeAlias = tuple[str, str]
"""Channel and first message."""


class SharedRateLimiter(Protocol):
    """Slots of a rate shared by all processes (`bot.queue.lanes.Lanes`)."""

    async def reserve_slot(self, key: str, spacing_ms: int, burst: int) -> int:
        """Take the next slot and return the ms to wait for it."""

    async def apply_penalty(self, key: str, ms: int) -> None:
        """Block all slots for `ms`, as the platform has demanded."""


def remember(known: dict[Key, Wanted], key: Key, value: Wanted, most: int) -> None:
    """Remember a value as the latest one, and forget the oldest if there are more than `most`."""
    known.pop(key, None)
    known[key] = value
    if len(known) > most:
        del known[next(iter(known))]


class LocalRateLimiter:
    """A rate limit within one process (GCRA): `burst` at once, then one every `spacing_ms`."""

    def __init__(self, spacing_ms: int, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._spacing_s, self._clock, self._next = spacing_ms / 1000, clock, float("-inf")
        self._burst, self._slack_s = burst, (burst - 1) * self._spacing_s
        self._waiting: dict[str, float] = {}
        """Names of callers that found no free slot → when they may ask again."""

    def count_free_slots(self) -> int:
        """Count the slots that could be taken now without waiting."""
        debt_s = max(0.0, self._next - self._clock())
        return max(0, self._burst - math.ceil(debt_s / self._spacing_s))

    async def wait_for_slot(self) -> None:
        now = self._clock()
        wait_s = self._next - self._slack_s - now
        self._next = max(self._next, now) + self._spacing_s
        await asyncio.sleep(max(0.0, wait_s))

    def take_slot(self, name: str) -> int:
        """Take a slot if one is free now, and return 0. Otherwise return the ms after which `name` may ask again.
        Earlier callers come first."""
        now = self._clock()
        place = self._waiting.pop(name, math.inf)
        self._waiting = {one: at_s for one, at_s in self._waiting.items() if at_s > now - FORGET_S}
        wait_s = self._next - self._slack_s - now
        if wait_s <= 0:
            self._next = max(self._next, now) + self._spacing_s
            return 0
        ahead = sum(at_s < place for at_s in self._waiting.values())
        self._waiting[name] = now + wait_s + ahead * self._spacing_s
        return math.ceil((self._waiting[name] - now) * 1000)

    async def apply_penalty(self, ms: int) -> None:
        self._next = max(self._next, self._clock() + ms / 1000 + self._slack_s)


class FollowUps:
    """Replies without a mention in threads with the bot."""

    def __init__(self, is_engaged: Callable[[Place], Awaitable[bool]]) -> None:
        self._is_engaged = is_engaged
        self._threads = WeakValueDictionary[str, asyncio.Lock]()

    async def accept(self, place: Place, submit: Callable[[], Awaitable[None]]) -> None:
        """Submit a reply if its thread is ours. Events overtake each other: a reply right after a mention may arrive
        before the mention is durable, so the check is repeated for a moment. Within a thread, replies are handled in
        order."""
        loop = asyncio.get_running_loop()
        until, turn = loop.time() + RECHECK_S, self._threads.setdefault(place.conversation, asyncio.Lock())
        async with turn:
            while not await self._is_engaged(place):
                if loop.time() > until:
                    return
                await asyncio.sleep(RECHECK_INTERVAL_S)
            await submit()


class LatestCalls(Generic[Wanted]):
    """Calls that show the latest state of each thread. Calls of a thread follow each other, so that none overtakes
    another, and outdated states are not sent. `send` raises nothing that its caller should know."""

    def __init__(self, send: Callable[[Thread, Wanted], Awaitable[None]]) -> None:
        self._send = send
        self._wanted: dict[Thread, Wanted] = {}
        """The states that are not sent yet."""
        self._sending: dict[Thread, asyncio.Task[None]] = {}

    def send_soon(self, thread: Thread, wanted: Wanted) -> None:
        self._wanted[thread] = wanted
        if thread not in self._sending:
            self._sending[thread] = asyncio.get_running_loop().create_task(self._send_all(thread))

    async def _send_all(self, thread: Thread) -> None:
        """The task leaves `_sending` in the same step in which nothing more is wanted."""
        try:
            while thread in self._wanted:
                await self._send(thread, self._wanted.pop(thread))
        finally:
            self._sending.pop(thread, None)

    async def wait(self, place: Place, timeout_s: float | None = None) -> None:
        """Wait until the wanted state of this place's thread is sent, for `timeout_s` at most."""
        if task := self._sending.get((place.channel, place.thread or "")):
            await asyncio.wait({task}, timeout=timeout_s)

    async def close(self) -> None:
        """End the sending at the end of the process. States that are not on their way yet are not sent."""
        await cancel_and_wait(list(self._sending.values()))


class OptionalFeature:
    """A feature that the platform has for some installations only. After a refusal it is not used for a while, and the
    log says so once."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._unavailable_until, self._logged_code = float("-inf"), ""

    @property
    def is_available(self) -> bool:
        return self._clock() >= self._unavailable_until

    def record_refusal(self, code: str) -> None:
        if code != self._logged_code:
            log.info("not available", feature=self._name, code=code)
        self._unavailable_until, self._logged_code = self._clock() + UNAVAILABLE_S, code


class CachingReaderClassifier:
    """Implements `bot.chat.messages.ReaderClassifier`. An unknown answer (a missing scope, too many members, a failed
    call) counts as outside, and the bot then only points to DMs. `has_only_insiders` tells of a channel whether every
    member certainly belongs to the company, and raises `ChatError`."""

    def __init__(
        self, has_only_insiders: Callable[[str], Awaitable[bool]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._has_only_insiders, self._clock = has_only_insiders, clock
        self._found: dict[str, tuple[ChannelReaders, float]] = {}
        """Channel → its readers, and until when they count."""
        self._looking = WeakValueDictionary[str, asyncio.Lock]()

    def note_changed_place(self, channel: str) -> None:
        """Note that, as the platform says, the members or the settings of a place have changed."""
        self._found.pop(channel, None)

    async def classify_readers(self, place: Place) -> ChannelReaders:
        """See `bot.chat.messages.ReaderClassifier`. A guest who joins is noticed within `CACHE_S`."""
        if place.direct:
            return ChannelReaders.DIRECT
        if place.shared:
            return ChannelReaders.OUTSIDE
        async with self._looking.setdefault(place.channel, asyncio.Lock()):
            found = self._found.get(place.channel)
            if found is not None and found[1] >= self._clock():
                return found[0]
            readers, cached_s = ChannelReaders.OUTSIDE, CACHE_S
            if len(self._found) >= PLACES_MAX:
                self._found.clear()
            unclear = self._found[place.channel] = readers, self._clock()
            try:
                if await self._has_only_insiders(place.channel):
                    readers = ChannelReaders.INSIDE
            except ChatUnavailableError:
                cached_s = 0.0
            except ChatError as failed:
                log.warning("room.unknown", channel=place.channel, error=failed.code)
                cached_s = FAILURE_CACHE_S
            if self._found.get(place.channel) is not unclear:  # the place has changed meanwhile
                return ChannelReaders.OUTSIDE
            self._found[place.channel] = readers, self._clock() + cached_s
            return readers


def is_outage(failed: ChatError) -> bool:
    """Return whether a failure passes without help, so that nobody has to fix anything."""
    return isinstance(failed, ChatUnavailableError) and not isinstance(failed, ChatAccountError)


async def find_language(directory: ChatDirectory, person: str, default: str = "en") -> str:
    try:
        found = await directory.find_person(person)
    except (StoreUnavailableError, ChatError):
        found = None
    return found.language if found else default


def get_known_language(directory: ChatDirectory, person: str) -> str:
    """Return the language of a known person. Nobody is asked, because the platform waits."""
    known = directory.find_known_person(person)
    return known.language if known else "en"


async def welcome_person(intake: Ingress, channel: Channel, person: str, place: Place) -> None:
    """Welcome a person who has opened their DM with the bot."""
    try:
        await channel.suggest_prompts(place, await intake.welcome_person(person, place))
    except (StoreUnavailableError, ChatError) as failed:
        log.warning("nothing shown in the DM that was opened", reason=str(failed))


async def tell_person(channel: Channel, person: str, text: str, place: Place | None = None) -> None:
    """Tell a person something, in their DM if no place is given. Raises nothing."""
    try:
        await channel.post_ephemeral(place or await channel.open_dm(person), person, text)
    except (StoreUnavailableError, ChatError) as failed:
        log.warning("could not tell somebody", person=person, reason=str(failed))


def parse_object(text: object) -> dict[str, Any] | None:
    """Parse a JSON object; None if it is anything else."""
    try:
        content = json.loads(text) if isinstance(text, str | bytes | bytearray) else None
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def find_value(payload: object, *names: str) -> Any:
    """Find a value in objects inside of each other. None if any of them is missing or no object."""
    for name in names:
        payload = payload.get(name) if isinstance(payload, Mapping) else None
    return payload


def list_mappings(value: object) -> list[Mapping[str, Any]]:
    """List the objects of a list in a payload. Anything else has none."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def cut_out_mentions(text: str, mentions: Iterable[re.Match[str]]) -> str:
    """Cut the bot's own mentions out of a text. The blanks around them go too."""
    pieces, at = list[str](), 0
    for one in mentions:
        pieces.append(text[at : one.start()].strip())
        at = one.end()
    return " ".join([*pieces, text[at:].strip()]) if pieces else text


# Forwarded messages


def quote(title: str, text: str) -> str:
    return "\n".join((title, *(f"> {line}" for line in text.splitlines())))


def quote_forwarded(author: str, text: str, language: str) -> str:
    return quote(translate("slack.forwarded" if text else "slack.forwarded_empty", language, author=author), text)


def cut_quote(text: str) -> str:
    return text if len(text) <= MAX_QUOTE else text[:MAX_QUOTE] + "…"


def join_quotes(quotes: Sequence[str], left: int, language: str) -> str:
    """Join quotes. Those beyond the limit (`left`) are counted."""
    return "\n\n".join((*quotes, *([translate("slack.quotes_unread", language, n=left)] if left > 0 else [])))


def read_piece(piece: str | NamedPerson | Moment) -> str:
    """Return the words of a piece of a sentence."""
    if isinstance(piece, str):
        return piece
    return piece.name if isinstance(piece, NamedPerson) else piece.text


# Dialogs and Home


def read_day(value: str) -> str:
    """Return a date as it is, and an empty text for anything else."""
    with suppress(ValueError):
        return value if date.fromisoformat(value).isoformat() == value else ""
    return ""


def split_value(value: str, limit: int, count: Callable[[str], int] = len) -> list[str]:
    """Split a value over inputs that take `limit` each. A cut is inside a word, because an input may lose outer white
    space."""
    values, half = [value], limit // 2
    while count(text := values[-1]) > limit:
        inside = (i for i in range(half, 0, -1) if not any(map(str.isspace, text[i - 1 : i + 1])))
        at = next(inside, half)
        values[-1:] = [text[:at], text[at:]]
    return values


def fit_entries(
    sections: Sequence[HomeSection],
    frames: Sequence[tuple[Sequence[Element], Sequence[Element]]],
    room: tuple[int, int],
    render: Callable[[HomeEntry, str], Iterable[Element]],
    measure: Callable[[list[Element]], tuple[int, int]],
) -> tuple[list[Element], int]:
    """Return the elements of Home's sections between their frames (head and foot), and how many entries were left out.
    An entry is shown whole or not at all, so that buttons never stand under a part of their card. `measure` returns
    an entry's part of each `room`."""
    fitting, left = list[Element](), 0
    for number, (section, (head, foot)) in enumerate(zip(sections, frames, strict=True)):
        fitting += head
        for index, entry in enumerate(section.entries):
            shown = [*render(entry, f"{number}.{index}.")]
            rest = room[0] - (size := measure(shown))[0], room[1] - size[1]
            if min(rest) < 0:
                left += 1
            else:
                room = rest
                fitting += shown
        fitting += foot
    return fitting, left
