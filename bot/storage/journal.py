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
from dataclasses import dataclass
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
POLL_S = 0.25
"""Pause between two looks for new records, and between two checks of an unreachable store (s)."""
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

        def is_wanted(record: JournalRecord) -> bool:
            wanted = (run in ("", record.run), channel in ("", record.channel), person in ("", record.person))
            return all(wanted) and (not kinds or record.kind in kinds)

        positions = dict.fromkeys(range(self.keys.partitions), (await self._compute_start_ms(since, follow) - 1, 2**63))
        pages, unread = dict[int, list[JournalRecord]](), set(positions)
        is_away = False
        while True:
            try:
                if unread:
                    pages |= await self._load_pages({partition: positions[partition] for partition in unread})
                unread, is_away = set(), False
            except StoreUnavailableError:
                if not follow or not pages:
                    raise
                if not is_away:
                    waits()
                is_away = True
                await asyncio.sleep(POLL_S)
                continue
            if filled := [partition for partition, page in pages.items() if page]:
                oldest = min(filled, key=lambda partition: parse_stream_id(pages[partition][-1].id))
                record = pages[oldest].pop()
                positions[oldest] = parse_stream_id(record.id)
                if not pages[oldest]:  # with the other ended ones, lest a later record passes one of theirs
                    unread = {partition for partition, page in pages.items() if not page}
                if is_wanted(record):
                    yield record
            elif follow:
                await asyncio.sleep(POLL_S)
                unread = set(positions)
            else:
                return

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

    async def has_record(self, since: int | str, **wanted: Any) -> bool:
        """Whether there is a record that `stream_records` would yield. Raises StoreUnavailableError."""
        async for _ in self.stream_records(since=since, **wanted):
            return True
        return False

    def _build_journal_key(self, partition: int) -> str:
        return self.keys.build_key(partition, "j")

    async def _compute_start_ms(self, since: int | str | None, follow: bool) -> int:
        if isinstance(since, int):
            return max(1, since)
        if since is None and not follow:
            return 1
        return max(1, await load_time_ms(self.redis) - (parse_age_ms(since) if since else 0))

    async def _load_pages(self, positions: dict[int, StreamId]) -> dict[int, list[JournalRecord]]:
        """Load the page after each position, by partition, newest first, so that `pop` returns the oldest. One server
        reads all of them at the same moment, without the entries before them."""
        async with self.redis.pipeline(transaction=not isinstance(self.redis, RedisCluster)) as pipe:
            for partition, position in positions.items():
                pipe.xrange(self._build_journal_key(partition), "({}-{}".format(*position), "+", count=_PAGE)
            pages: list[Any] = await pipe.execute()
        return {
            partition: [_parse_record(id_, fields) for id_, fields in reversed(page)]
            for partition, page in zip(positions, pages, strict=True)
        }


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
