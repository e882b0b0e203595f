"""Dead letters: items that were given up after all tries, kept until an administrator retries them or their retention
ends.

Each partition has one stream, with a mark for each letter that was retried. The script that sets the mark also enqueues
the item and writes the journal. So a letter comes back once, even if several administrators press Enter at once."""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from redis.asyncio import Redis

from bot.core.records import RunStatus
from bot.core.redaction import redact_text
from bot.core.work_items import ButtonPressed, MessageReceived, ResumeRun
from bot.queue.keys import Keys
from bot.queue.lanes import RETRY_SEPARATOR, LaneItem
from bot.queue.writes import EnqueueItem, Set, Write, XAdd, apply_writes
from bot.storage.journal import Journal, parse_stream_id
from bot.storage.runs import RunStore

_OF_PEOPLE: TypeAdapter[MessageReceived | ButtonPressed | ResumeRun] = TypeAdapter(
    Annotated[MessageReceived | ButtonPressed | ResumeRun, Field(discriminator="kind")]
)
"""Kinds of work whose letters are parsed; a letter of any other kind is enqueued again unchanged."""
RETENTION_MS = 90 * 24 * 3_600_000
"""Time for which dead letters are kept (ms)."""
MARK_TIMEOUT_MS = 60_000
"""Time (ms) for which a process that set the mark and died before finishing blocks a letter."""


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
        return [letter for letter in await self._load_all_letters() if not letter.retried_as]

    async def find_dead_letter(self, id: str) -> DeadLetter | None:
        """Find the newest letter with an item's id; a waiting letter comes before a retried one. Raises
        StoreUnavailableError."""
        letters = [letter for letter in await self._load_all_letters() if letter.item.id == id]
        return max(letters, key=lambda letter: (not letter.retried_as, parse_stream_id(letter.at)), default=None)

    async def retry_dead_letter(self, letter: DeadLetter, by: str) -> DeadLetter | None:
        """Enqueue the item at the end of its lane, once; None if somebody else has just done so. A message starts a new
        run and a press is judged again, so nothing decided or begun before is repeated. A run that was stopped because
        of it continues. Raises StoreUnavailableError."""
        lane, mark = letter.item.lane, self._build_mark_key(letter)
        mark_text = json.dumps([by, letter.retry_id, secrets.token_hex(8)], ensure_ascii=False)
        first = (
            await self.redis.set(mark, mark_text, nx=True, px=MARK_TIMEOUT_MS)
            or await self.redis.get(mark) == mark_text
        )
        if not first:
            return None
        journal_write = Journal(self.redis, self.keys).build_record_write(
            lane,
            "item.retried",
            person=letter.person,
            text=f"put back by {by}",
            item=letter.retry_id,
            was=letter.item.id,
        )
        body, new_id = letter.item.body, {"id": letter.retry_id}
        work: MessageReceived | ButtonPressed | ResumeRun | None = None
        with suppress(ValidationError):  # a newer process may know unreadable work: it is enqueued unchanged
            work = _OF_PEOPLE.validate_json(body)
        if isinstance(work, MessageReceived):
            body = MessageReceived(message=work.message.model_copy(update=new_id)).model_dump_json()
        elif isinstance(work, ButtonPressed):
            body = ButtonPressed(click=work.click.model_copy(update=new_id)).model_dump_json()
        item_write = EnqueueItem(lane, letter.retry_id, body)
        writes: list[Write] = [Set(mark, mark_text, RETENTION_MS), item_write, journal_write]
        runs = RunStore(self.redis, self.keys)
        run = await runs.load_run(work.run) if isinstance(work, ResumeRun) else None
        if run is not None and run.status is RunStatus.STOPPED:  # the given-up *resume* had stopped it
            run.status = RunStatus.RUNNING
            writes += runs.build_save_writes(run)
        await apply_writes(self.redis, self.keys, self.keys.get_partition(lane), writes)
        return replace(letter, by=by, retried_as=letter.retry_id)

    async def _load_all_letters(self) -> list[DeadLetter]:
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
            marks = await self.redis.mget([self._build_mark_key(one) for one in letters]) if letters else []
            for letter, mark in zip(letters, marks, strict=True):
                by, retried, _ = json.loads(mark) if mark is not None else ("", "", "")
                found.append(replace(letter, by=by, retried_as=retried))
        return sorted(found, key=lambda letter: parse_stream_id(letter.at))

    def _build_dead_stream_key(self, partition: int) -> str:
        return self.keys.build_key(partition, "dead")

    def _build_mark_key(self, letter: DeadLetter) -> str:
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
