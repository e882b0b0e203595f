"""Dead letters: items that were given up after all tries, kept until an administrator retries them
(`bot.ops.dead_letters`) or their retention ends.

Each partition has one stream, with a mark for each letter that was retried."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from redis.asyncio import Redis

from bot.core.redaction import redact_text
from bot.queue.keys import Keys
from bot.queue.lanes import RETRY_SEPARATOR, LaneItem
from bot.queue.writes import Write, XAdd
from bot.storage.journal import Journal, parse_stream_id

RETENTION_MS = 90 * 24 * 3_600_000
"""Time for which dead letters are kept (ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An item that was given up. `by` is the person who retried it, `retried_as` the id of the retry."""

    at: str
    """The letter's stream id: `<ms>-<n>`."""
    item: LaneItem
    by: str = ""
    retried_as: str = ""

    @property
    def given_up_ms(self) -> int:
        """Time at which the item was given up (epoch ms, Redis clock)."""
        return parse_stream_id(self.at)[0]

    @property
    def kind(self) -> str:
        """The kind of work; empty if the item cannot be read."""
        return _read_text_field(_parse_json_object(self.item.body), "kind")

    @property
    def person(self) -> str:
        return find_work_person(self.item.body)

    @property
    def retry_id(self) -> str:
        """The id under which the letter is retried: a new one for each letter, the same for all who retry it at
        once."""
        return f"{self.item.id.partition(RETRY_SEPARATOR)[0]}{RETRY_SEPARATOR}{self.item.put_ms:x}"


@dataclass(frozen=True, slots=True)
class DeadLetterStore:
    """The dead letters of one installation."""

    redis: Redis
    keys: Keys

    def build_bury_writes(self, item: LaneItem, error: str) -> tuple[Write, ...]:
        """Build the writes for the commit that pops a given-up item: the letter, and a journal line."""
        place = _read_work_origin(item.body).get("place")
        letter = DeadLetter(at="0-0", item=item)
        fields = {"lane": item.lane, "id": item.id, "body": item.body, "error": redact_text(error)}
        journal_write = Journal(self.redis, self.keys).build_record_write(
            item.lane,
            "item.dead",
            person=letter.person,
            channel=_read_text_field(place, "channel"),
            text=f"given up after {item.tries - 1} tries: {error}",
            item=item.id,
            work=letter.kind,
        )
        numbers = {"tries": str(item.tries), "put_ms": str(item.put_ms)}
        return XAdd(
            self._build_dead_stream_key(self.keys.get_partition(item.lane)), {**fields, **numbers}, RETENTION_MS
        ), journal_write

    async def list_dead_letters(self) -> list[DeadLetter]:
        """List all letters that were not retried, oldest first. Raises StoreUnavailableError."""
        return [letter for letter in await self.load_all_letters() if not letter.retried_as]

    async def load_all_letters(self) -> list[DeadLetter]:
        """Load all letters, also those that were retried, oldest first. Raises StoreUnavailableError."""
        found: list[DeadLetter] = []
        for partition in range(self.keys.partitions):
            entries: Any = await self.redis.xrange(self._build_dead_stream_key(partition))
            letters = [
                DeadLetter(
                    at=at,
                    item=LaneItem(
                        lane=fields["lane"],
                        id=fields["id"],
                        body=fields["body"],
                        tries=int(fields["tries"]),
                        put_ms=int(fields["put_ms"]),
                        error=fields["error"],
                    ),
                )
                for at, fields in entries
            ]
            marks = await self.redis.mget([self.build_mark_key(one) for one in letters]) if letters else []
            for letter, mark in zip(letters, marks, strict=True):
                by, retried, _ = json.loads(mark) if mark is not None else ("", "", "")
                found.append(replace(letter, by=by, retried_as=retried))
        return sorted(found, key=lambda letter: parse_stream_id(letter.at))

    def _build_dead_stream_key(self, partition: int) -> str:
        return self.keys.build_key(partition, "dead")

    def build_mark_key(self, letter: DeadLetter) -> str:
        return self.keys.build_key(self.keys.get_partition(letter.item.lane), "dead", letter.at)


def find_work_person(body: str) -> str:
    """Find the id of the person who wrote or pressed, or for whom the work is; empty for the engine's own work."""
    work = _read_work_origin(body)
    return _read_text_field(work, "person") or _read_text_field(work, "caller")


def _parse_json_object(body: str) -> dict[str, Any]:
    try:
        read = json.loads(body)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _read_work_origin(body: str) -> dict[str, Any]:
    """Read the person and place of any kind of work, of this version or another."""
    work = _parse_json_object(body)
    inner = work.get("message") or work.get("click") or work
    return inner if isinstance(inner, dict) else {}


def _read_text_field(work: object, name: str) -> str:
    found = work.get(name) if isinstance(work, dict) else None
    return found if isinstance(found, str) else ""
