"""The journal: all events, step by step, across all processes. Administrators follow it; no decision depends on it.

Each partition has one stream, so the commit of a lane also writes the entries about it. Records are redacted when they
are made. Record schema 1: `v k run who ch t m`, where `m` is a JSON object.

Features name the kinds of their records in `JOURNAL_KINDS`, all others are in `KINDS`. Code that writes another kind
adds it to its list; a test compares the lists with the code."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis, RedisCluster

from bot.core.errors import StoreUnavailableError
from bot.core.records import ApprovalState, EffectState
from bot.core.redaction import redact_text
from bot.queue.keys import Keys
from bot.queue.writes import XAdd, apply_writes
from bot.redis.connect import load_time_ms

SCHEMA = "1"
_PAGE = 500
_BLOCK_MS = 2_000
RECONNECT_S = 0.5
"""Pause between two checks of an unreachable store (s)."""
_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

StreamId = tuple[int, int]
"""A comparable stream id: (ms, number)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRecord:
    """One record."""

    at_ms: int
    id: str
    """The record's stream id: `<ms>-<n>`."""
    kind: str
    run: str
    person: str
    channel: str
    text: str
    more: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFilter:
    """The records to return; empty means all."""

    kinds: frozenset[str] = field(default=frozenset())
    run: str = ""
    channel: str = ""
    person: str = ""

    def __call__(self, record: JournalRecord) -> bool:
        return (
            (not self.kinds or record.kind in self.kinds)
            and self.run in ("", record.run)
            and self.channel in ("", record.channel)
            and self.person in ("", record.person)
        )


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of one installation. Records older than `kept_ms` may be trimmed. With None nothing is trimmed:
    commands use it, because their settings may differ from the bot's."""

    redis: Redis
    keys: Keys
    kept_ms: int | None = None

    def build_record_write(
        self, lane_or_id: str, kind: str, *, run: str = "", person: str = "", channel: str = "", text: str = "",
        **more: Any,
    ) -> XAdd:  # fmt: skip
        """Build the write of one record, into the partition of `lane_or_id`."""
        fields = {
            "v": SCHEMA,
            "k": kind,
            "run": run,
            "who": person,
            "ch": channel,
            "t": redact_text(text),
            "m": redact_text(json.dumps(more, ensure_ascii=False, default=str)) if more else "",
        }
        nonempty = {name: value for name, value in fields.items() if value}
        return XAdd(self._build_journal_key(self.keys.get_partition(lane_or_id)), nonempty, self.kept_ms)

    async def append_record(self, lane_or_id: str, kind: str, **fields: Any) -> None:
        """Write one record (see `build_record_write`) now, outside a commit. Raises StoreUnavailableError."""
        entry = self.build_record_write(lane_or_id, kind, **fields)
        await apply_writes(self.redis, self.keys, self.keys.get_partition(lane_or_id), [entry])

    async def stream_records(
        self, *, since: int | str | None = None, follow: bool = False, kinds: Collection[str] = (),
        run: str = "", channel: str = "", person: str = "", waits: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[JournalRecord]:  # fmt: skip
        """Yield records of all partitions in the order of their ids; with `follow`, also new ones as they come.

        `since` is epoch ms, or an age like `90s`, `15m`, `1h`, `7d`. None means all records, or with `follow` only new
        ones. While it follows, the call waits for an unreachable store, and calls `waits` once per outage. Raises
        StoreUnavailableError, and ValueError for an invalid age."""
        record_filter = JournalFilter(kinds=frozenset(kinds), run=run, channel=channel, person=person)
        positions = dict.fromkeys(range(self.keys.partitions), (await self._compute_start_ms(since, follow) - 1, 2**63))
        pages = {partition: await self._load_next_page(partition, positions) for partition in positions}
        while any(pages.values()):
            oldest = min((n for n, page in pages.items() if page), key=lambda n: parse_stream_id(pages[n][-1].id))
            record = pages[oldest].pop()
            positions[oldest] = parse_stream_id(record.id)
            if not pages[oldest]:
                pages[oldest] = await self._load_next_page(oldest, positions)
            if record_filter(record):
                yield record
        is_away = False
        while follow:
            try:
                records = await self._load_new_records(positions)
                is_away = False
            except StoreUnavailableError:
                if not is_away:
                    waits()
                is_away, records = True, []
                await asyncio.sleep(RECONNECT_S)
            for record in filter(record_filter, records):
                yield record

    async def delete_old_records(self) -> int:
        """Trim records older than `kept_ms`, also in partitions without new records. Returns their number. Raises
        StoreUnavailableError."""
        if self.kept_ms is None:
            return 0
        count = 0
        limit = str(max(0, await load_time_ms(self.redis) - self.kept_ms))
        for partition in range(self.keys.partitions):
            count += int(await self.redis.xtrim(self._build_journal_key(partition), minid=limit, approximate=False))
        return count

    async def has_record(self, record_filter: JournalFilter, since: int | str) -> bool:
        """Whether a record since then matches; `since` as for `stream_records`. Raises StoreUnavailableError."""
        start_ms = await self._compute_start_ms(since, follow=False)
        for partition in range(self.keys.partitions):
            start = f"{start_ms}-0"
            while page := await self._load_page(partition, start):
                if any(record_filter(_parse_record(id_, fields)) for id_, fields in page):
                    return True
                start = f"({page[-1][0]}"
        return False

    async def _load_page(self, partition: int, start: str) -> list[tuple[str, dict[str, str]]]:
        """Load entries of a partition from this id on: Redis finds the id without reading those before."""
        entries: Any = await self.redis.xrange(self._build_journal_key(partition), start, "+", count=_PAGE)
        return list(entries)

    def _build_journal_key(self, partition: int) -> str:
        return self.keys.build_key(partition, "j")

    async def _compute_start_ms(self, since: int | str | None, follow: bool) -> int:
        if isinstance(since, int):
            return max(1, since)
        if since is None and not follow:
            return 1
        return max(1, await load_time_ms(self.redis) - (parse_age_ms(since) if since else 0))

    async def _load_next_page(self, partition: int, positions: dict[int, StreamId]) -> list[JournalRecord]:
        """Load the next page of a partition, newest first, so that `pop` returns the oldest."""
        entries = await self._load_page(partition, "({}-{}".format(*positions[partition]))
        return [_parse_record(id_, fields) for id_, fields in reversed(entries)]

    async def _load_new_records(self, positions: dict[int, StreamId]) -> list[JournalRecord]:
        """Wait a while for new records and return them."""
        if isinstance(self.redis, RedisCluster):  # one command cannot wait for streams of several nodes
            await asyncio.sleep(_BLOCK_MS / 4000)
            pages = [await self._load_next_page(partition, positions) for partition in positions]
            page_by_partition = {n: list(reversed(page)) for n, page in zip(positions, pages, strict=True)}
        else:
            streams: dict[Any, Any] = {self._build_journal_key(n): "{}-{}".format(*at) for n, at in positions.items()}
            answer: Any = await self.redis.xread(streams, count=_PAGE, block=_BLOCK_MS)
            page_by_partition = {
                self.keys.parse_partition(key): [_parse_record(id_, fields) for id_, fields in entries]
                for key, entries in (answer or {}).items()
            }
        for partition, records in page_by_partition.items():
            positions[partition] = max([positions[partition], *(parse_stream_id(record.id) for record in records)])
        return sorted(
            (r for records in page_by_partition.values() for r in records), key=lambda r: parse_stream_id(r.id)
        )


_AGE = re.compile(r"(\d{1,6})([smhd])")


def parse_age_ms(age: str) -> int:
    """Parse the age `90s`, `15m`, `1h` or `7d` into ms. Raises ValueError."""
    found = _AGE.fullmatch(age.strip())
    if found is None:
        raise ValueError(f"an age looks like 90s, 15m, 1h or 7d, not {age!r}")
    return int(found[1]) * _UNITS[found[2]]


def parse_stream_id(id_: str) -> StreamId:
    """Parse a stream id into two numbers."""
    ms, _, number = id_.partition("-")
    return int(ms), int(number)


def _parse_record(id_: str, fields: dict[str, str]) -> JournalRecord:
    details = json.loads(fields["m"]) if "m" in fields else {}
    details.pop("opinion", None)  # written by an earlier version; now in the request's record
    return JournalRecord(
        at_ms=parse_stream_id(id_)[0],
        id=id_,
        kind=fields.get("k", ""),
        run=fields.get("run", ""),
        person=fields.get("who", ""),
        channel=fields.get("ch", ""),
        text=fields.get("t", ""),
        more=details,
    )


async def note_version(redis: Redis, journal: Journal, version: str) -> None:
    """Record it if the started version differs from the previous one. Raises StoreUnavailableError."""
    former = str(await redis.getset(journal.keys.build_key(0, "version"), version) or "-")
    if former != version:
        await journal.append_record("version", "version", text=f"{former} → {version}")


KINDS = frozenset(
    {
        *("approval.requested", "approval.advised", "approval.reminded", "approval.edited", "approval.renewed"),
        *("approval.asked_again", "approval.refused"),
        *(f"approval.{state.value}" for state in ApprovalState if state is not ApprovalState.OPEN),
        *(f"effect.{state.value}" for state in EffectState if state),
        "app.shared",
        "chat.refused",
        "command",
        *("item.dead", "item.newer", "item.retried"),
        *("lane.caught_up", "lane.full"),
        *("message.empty", "message.ignored", "message.received", "message.too_long"),
        *("model.down", "model.tools_refused"),
        "notice",
        *("person.exported", "person.forgotten", "person.left"),
        *("process.deploy", "process.migrate", "process.assign"),
        *("run.answered", "run.cancelled", "run.finished", "run.refused", "run.stopped"),
        "step",
        *("store.accepted", "store.copied", "store.restored"),
        "version",
    }
)
