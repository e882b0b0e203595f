"""Dead letters: what was given up after its tries, kept until an administrator puts it back or its time is over.

One stream per partition, beside it a mark for each letter that was put back. Whoever sets the mark puts the item
back, in one script with the journal; so it comes back once, however many administrators press Enter at once.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.logs import redact
from bot.records import WORK, Pressed, Resume, RunStatus, Wrote
from bot.store.connect import reaching
from bot.store.journal import Journal, stamp
from bot.store.keys import Keys
from bot.store.lanes import AGAIN, Item
from bot.store.runs import Runs
from bot.store.writes import Entry, Put, Set, Write, apply

DEAD_MS = 90 * 24 * 3_600_000
"""Dead letters are kept this long."""
CLAIM_MS = 60_000
"""Whoever set the mark and died before it was done holds the letter up for so long."""


@dataclass(frozen=True, slots=True)
class Letter:
    """An item that was given up; `by` and `retried` say who put it back, and under which id."""

    at: str
    """Its stream id: `<ms>-<n>`."""
    item: Item
    by: str = ""
    retried: str = ""

    @property
    def at_ms(self) -> int:
        """When it was given up (epoch, Redis clock)."""
        return stamp(self.at)[0]

    @property
    def kind(self) -> str:
        """The kind of work; empty when nobody can read it."""
        return _fact(_read(self.item.body), "kind")

    @property
    def person(self) -> str:
        """Person id of whose message or press it was, or for whom; empty for the engine's own."""
        work = _about(self.item.body)
        return _fact(work, "person") or _fact(work, "caller")

    @property
    def fresh(self) -> str:
        """The id under which it is put back: another one each time, the same for everybody who tries."""
        return f"{self.item.id.partition(AGAIN)[0]}{AGAIN}{self.item.put_ms:x}"


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one installation."""

    redis: Redis
    keys: Keys

    def bury(self, item: Item, error: str) -> tuple[Write, ...]:
        """What the commit that pops an item writes when it is given up: the letter, and a line in the journal."""
        place = _about(item.body).get("place")
        letter = Letter("0-0", item)
        fields = {"lane": item.lane, "id": item.id, "body": item.body, "error": redact(error)}
        noted = Journal(self.redis, self.keys).entry(
            item.lane,
            "item.dead",
            person=letter.person,
            channel=_fact(place, "channel"),
            text=f"given up after {item.tries - 1} tries: {error}",
            item=item.id,
            work=letter.kind,
        )
        numbers = {"tries": str(item.tries), "put_ms": str(item.put_ms)}
        return Entry(self._stream(self.keys.partition(item.lane)), {**fields, **numbers}, DEAD_MS), noted

    async def waiting(self) -> list[Letter]:
        """Everything that was given up and not put back, oldest first. Raises StoreDown."""
        return [letter for letter in await self._all() if not letter.retried]

    async def find(self, id: str) -> Letter | None:
        """The newest letter of an item's id: one that waits, before one that was put back. Raises StoreDown."""
        found = [letter for letter in await self._all() if letter.item.id == id]
        return max(found, key=lambda letter: (not letter.retried, stamp(letter.at)), default=None)

    async def retry(self, letter: Letter, by: str) -> Letter | None:
        """Put it back at the end of its lane, once; None when somebody else has just done so. A message opens a run
        of its own and a press is judged anew: nothing that was decided or begun before is repeated by this. A run
        that had been stopped for it goes on. Raises StoreDown."""
        lane, mark = letter.item.lane, self._mark(letter)
        done = json.dumps([by, letter.fresh, secrets.token_hex(8)], ensure_ascii=False)
        with reaching():
            first = await self.redis.set(mark, done, nx=True, px=CLAIM_MS) or await self.redis.get(mark) == done
        if not first:
            return None
        noted = Journal(self.redis, self.keys).entry(
            lane, "item.retried", person=letter.person, text=f"put back by {by}", item=letter.fresh, was=letter.item.id
        )
        put = Put(lane, letter.fresh, _anew(letter.item.body, letter.fresh))
        writes = [Set(mark, done, DEAD_MS), put, noted, *await self._revived(letter)]
        await apply(self.redis, self.keys, self.keys.partition(lane), writes)
        return replace(letter, by=by, retried=letter.fresh)

    async def _revived(self, letter: Letter) -> tuple[Write, ...]:
        """Whoever gave up a *go on* has stopped its run; put back, it goes on from there."""
        work = _work(letter.item.body)
        run = await Runs(self.redis, self.keys).get(work.run) if isinstance(work, Resume) else None
        if run is None or run.status is not RunStatus.STOPPED:
            return ()
        run.status = RunStatus.RUNNING
        return Runs(self.redis, self.keys).saved(run)

    async def _all(self) -> list[Letter]:
        found = [letter for partition in range(self.keys.partitions) for letter in await self._of(partition)]
        return sorted(found, key=lambda letter: stamp(letter.at))

    async def _of(self, partition: int) -> list[Letter]:
        with reaching():
            entries: Any = await self.redis.xrange(self._stream(partition))
            letters = [Letter(at, _buried(fields)) for at, fields in entries]
            marks = await self.redis.mget([self._mark(one) for one in letters]) if letters else []
        return [_marked(letter, mark) for letter, mark in zip(letters, marks, strict=True)]

    def _stream(self, partition: int) -> str:
        return self.keys.key(partition, "dead")

    def _mark(self, letter: Letter) -> str:
        return self.keys.key(self.keys.partition(letter.item.lane), "dead", letter.at)


def _buried(fields: dict[str, str]) -> Item:
    numbers = int(fields["tries"]), int(fields["put_ms"])
    return Item(fields["lane"], fields["id"], fields["body"], *numbers, fields["error"])


def _marked(letter: Letter, mark: Any) -> Letter:
    if mark is None:
        return letter
    by, retried, _ = json.loads(mark)
    return replace(letter, by=by, retried=retried)


def _work(body: str) -> object:
    try:
        return WORK.validate_json(body)
    except ValidationError:
        return None


def _anew(body: str, fresh: str) -> str:
    """The work under its fresh id. What we cannot read is put back as it is: a newer process may know it."""
    match _work(body):
        case Wrote(message=message):
            return Wrote(message=message.model_copy(update={"id": fresh})).model_dump_json()
        case Pressed(click=click):
            return Pressed(click=click.model_copy(update={"id": fresh})).model_dump_json()
        case _:
            return body


def _read(body: str) -> dict[str, Any]:
    try:
        read = json.loads(body)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _about(body: str) -> dict[str, Any]:
    """Who and where, whatever kind of work it is, of this version or another."""
    work = _read(body)
    inner = work.get("message") or work.get("click") or work
    return inner if isinstance(inner, dict) else {}


def _fact(work: object, name: str) -> str:
    found = work.get(name) if isinstance(work, dict) else None
    return found if isinstance(found, str) else ""
