"""The journal: what happened, step by step, across all processes. Admins follow it; nothing is decided by it.

One stream per partition, so that an entry is written by the commit of the lane it is about. Records are
redacted when they are made. Record schema 1: `v k run who ch t m`, where `m` is a JSON object.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis, RedisCluster

from bot.errors import StoreDown
from bot.logs import redact
from bot.store.connect import reaching
from bot.store.keys import Keys
from bot.store.writes import Entry, apply

KEPT_MS = 90 * 24 * 3_600_000
SCHEMA = "1"
_PAGE = 500
_BLOCK_MS = 2_000
AWAY_S = 0.5
"""Between two looks whether a store that is away is there again."""
_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

Stamp = tuple[int, int]
"""A stream id, comparable: (ms, number)."""


@dataclass(frozen=True, slots=True)
class Record:
    """One entry."""

    at_ms: int
    id: str
    """Its stream id `<ms>-<n>`."""
    kind: str
    run: str
    person: str
    channel: str
    text: str
    more: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records somebody wants to see; empty means all."""

    kinds: frozenset[str] = field(default=frozenset())
    run: str = ""
    channel: str = ""
    person: str = ""

    def __call__(self, record: Record) -> bool:
        return (
            (not self.kinds or record.kind in self.kinds)
            and self.run in ("", record.run)
            and self.channel in ("", record.channel)
            and self.person in ("", record.person)
        )


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one installation. Entries older than `kept_ms` may go."""

    redis: Redis
    keys: Keys
    kept_ms: int = KEPT_MS

    def entry(
        self, lane_or_id: str, kind: str, *, run: str = "", person: str = "", channel: str = "", text: str = "",
        **more: Any,
    ) -> Entry:  # fmt: skip
        """The write of one record, into the partition of `lane_or_id`."""
        fields = {
            "v": SCHEMA,
            "k": kind,
            "run": run,
            "who": person,
            "ch": channel,
            "t": redact(text),
            "m": redact(json.dumps(more, ensure_ascii=False, default=str)) if more else "",
        }
        kept = {name: value for name, value in fields.items() if value}
        return Entry(self._key(self.keys.partition(lane_or_id)), kept, self.kept_ms)

    async def add(
        self, lane_or_id: str, kind: str, *, run: str = "", person: str = "", channel: str = "", text: str = "",
        **more: Any,
    ) -> None:  # fmt: skip
        """Write one record now, outside a commit. Raises StoreDown."""
        entry = self.entry(lane_or_id, kind, run=run, person=person, channel=channel, text=text, **more)
        await apply(self.redis, self.keys, self.keys.partition(lane_or_id), [entry])

    async def follow(
        self, *, since: int | str | None = None, follow: bool = False, kinds: Collection[str] = (),
        run: str = "", channel: str = "", person: str = "", waits: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[Record]:  # fmt: skip
        """Records of all partitions in the order of their ids; with `follow`, then those that come.

        `since`: epoch ms, or an age like `90s`, `15m`, `1h`, `7d`; None: everything, or with `follow` from now
        on. While it follows, a store that is away is waited for, and `waits` is called once each time. Raises
        StoreDown, and ValueError for an odd age.
        """
        wanted = Wanted(frozenset(kinds), run, channel, person)
        seen = dict.fromkeys(range(self.keys.partitions), (await self._start(since, follow) - 1, 2**63))
        async for record in self._past(seen):
            if wanted(record):
                yield record
        while follow:
            for record in await self._sooner_or_later(seen, waits):
                if wanted(record):
                    yield record

    async def has(self, wanted: Wanted) -> bool:
        """Whether there is any such record, however old. The newest are looked at first. Raises StoreDown."""
        for partition in range(self.keys.partitions):
            before = "+"
            while page := await self._page_back(partition, before):
                if any(wanted(record) for record in page):
                    return True
                before = f"({page[-1].id}"
        return False

    async def _page_back(self, partition: int, before: str) -> list[Record]:
        """A page of a partition, newest first."""
        with reaching():
            entries: Any = await self.redis.xrevrange(self._key(partition), before, "-", count=_PAGE)
        return [_read(id_, fields) for id_, fields in entries]

    async def _sooner_or_later(self, seen: dict[int, Stamp], waits: Callable[[], None]) -> list[Record]:
        away = False
        while True:
            try:
                return await self._news(seen)
            except StoreDown:
                if not away:
                    waits()
                away = True
                await asyncio.sleep(AWAY_S)

    def _key(self, partition: int) -> str:
        return self.keys.key(partition, "j")

    async def _start(self, since: int | str | None, follow: bool) -> int:
        if isinstance(since, int):
            return max(1, since)
        if since is None and not follow:
            return 1
        with reaching():
            seconds, micros = await self.redis.time()
        return max(1, seconds * 1000 + micros // 1000 - (age_ms(since) if since else 0))

    async def _past(self, seen: dict[int, Stamp]) -> AsyncIterator[Record]:
        """What is there, page by page from every partition, always the oldest first."""
        pages = {partition: await self._page(partition, seen) for partition in seen}
        while any(pages.values()):
            oldest = min((n for n, page in pages.items() if page), key=lambda n: stamp(pages[n][-1].id))
            record = pages[oldest].pop()
            seen[oldest] = stamp(record.id)
            if not pages[oldest]:
                pages[oldest] = await self._page(oldest, seen)
            yield record

    async def _page(self, partition: int, seen: dict[int, Stamp]) -> list[Record]:
        """The next page of a partition, newest first, so that the oldest is popped."""
        start = "({}-{}".format(*seen[partition])
        with reaching():
            entries: Any = await self.redis.xrange(self._key(partition), start, "+", count=_PAGE)
        return [_read(id_, fields) for id_, fields in reversed(entries)]

    async def _news(self, seen: dict[int, Stamp]) -> list[Record]:
        """What has come since, after waiting for it a while."""
        if isinstance(self.redis, RedisCluster):  # one command cannot wait for streams of several nodes
            await asyncio.sleep(_BLOCK_MS / 4000)
            pages = [await self._page(partition, seen) for partition in seen]
            found = {n: list(reversed(page)) for n, page in zip(seen, pages, strict=True)}
        else:
            found = await self._read(seen)
        for partition, records in found.items():
            seen[partition] = max([seen[partition], *(stamp(record.id) for record in records)])
        return sorted((r for records in found.values() for r in records), key=lambda r: stamp(r.id))

    async def _read(self, seen: dict[int, Stamp]) -> dict[int, list[Record]]:
        streams: dict[Any, Any] = {self._key(n): "{}-{}".format(*at) for n, at in seen.items()}
        with reaching():
            answer: Any = await self.redis.xread(streams, count=_PAGE, block=_BLOCK_MS)
        return {
            self.keys.home(key): [_read(id_, fields) for id_, fields in entries]
            for key, entries in (answer or {}).items()
        }


_AGE = re.compile(r"(\d{1,6})([smhd])")


def age_ms(age: str) -> int:
    """`90s`, `15m`, `1h`, `7d` in ms. Raises ValueError."""
    found = _AGE.fullmatch(age.strip())
    if found is None:
        raise ValueError(f"an age looks like 90s, 15m, 1h or 7d, not {age!r}")
    return int(found[1]) * _UNITS[found[2]]


def stamp(id_: str) -> Stamp:
    """A stream id as two numbers."""
    ms, _, number = id_.partition("-")
    return int(ms), int(number)


def _read(id_: str, fields: dict[str, str]) -> Record:
    def text(name: str) -> str:
        return fields.get(name, "")

    more = json.loads(fields["m"]) if "m" in fields else {}
    return Record(stamp(id_)[0], id_, text("k"), text("run"), text("who"), text("ch"), text("t"), more)
