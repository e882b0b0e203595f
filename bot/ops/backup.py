"""A backup of the whole store in one file: one line of JSON for its head, one per key, and one that closes it.

    {"countersign_backup": 1, "made_ms": …, "version": …, "prefix": "cs", "partitions": 8, "ids": […], "files": …}
    {"k": key, "d": answer of DUMP in base64, "x": expiry (epoch ms; absent: never)}
    {"keys": number of key lines, "sha256": over all bytes before this line}

The `life` of a partition is in the head only. At most one page of keys is in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field
from redis.asyncio import Redis
from redis.client import NEVER_DECODE
from redis.exceptions import ResponseError

from bot.core.errors import CountersignError
from bot.queue.keys import Keys, split_stored_item
from bot.queue.writes import EnqueueItem, apply_writes
from bot.redis.connect import load_time_ms

FORM = 1
MAX_HEAD = 64 * 1024
"""Most bytes of the first and the last line."""
MAX_LINE = 1 << 30
"""Most bytes of one key's line: Redis keeps no value above 512 MB."""
_FROM_PEOPLE = frozenset({"message_received", "button_pressed", "form_submitted"})
"""Kinds of items whose people were told that the items are kept."""
_ASIDE_BEGINS = ""
"""The first row of the items set aside: shows that all of them are there, even if there are none."""
_PAGE = 100
_SCANNED = 1_000


class BackupError(CountersignError):
    """The file cannot be restored from. `code` selects the sentence `restore.<code>`, which says why."""

    def __init__(self, code: str, **params: object) -> None:
        super().__init__(code)
        self.code, self.params = code, params


class BackupHead(BaseModel):
    """The origin of a backup."""

    model_config = ConfigDict(extra="forbid")

    countersign_backup: Literal[1] = 1
    made_ms: int
    """Time at which the copy was begun (epoch ms, the store's clock)."""
    version: str
    """Version of the program that made it."""
    prefix: str
    partitions: int = Field(ge=1, le=100)
    ids: list[str]
    """Identity of the store, by partition."""
    files: str = ""
    """The place of people's files, which the backup does not hold."""


# Writing


async def write_backup(redis: Redis, keys: Keys, head: BackupHead, file: BinaryIO) -> int:
    """Copy every key and return the number of keys. Raises StoreUnavailableError.

    The schedules come last: an item put while the copy is made is then in no lane, or in a lane that is due."""
    digest, count = hashlib.sha256(), 0

    def write_line(line: str) -> None:
        content = line.encode() + b"\n"
        digest.update(content)
        file.write(content)

    write_line(head.model_dump_json())
    schedules = [keys.build_key(partition, "z") for partition in range(keys.partitions)]
    left_out = {*schedules, *_list_uncopied(keys)}
    async for page in stream_key_pages(redis, keys):
        count += await _write_keys(redis, [key for key in page if key not in left_out], write_line)
    count += await _write_keys(redis, schedules, write_line)
    write_line(json.dumps({"keys": count, "sha256": digest.hexdigest()}))
    return count


async def stream_key_pages(redis: Redis, keys: Keys, kind: str | None = None) -> AsyncIterator[list[str]]:
    """Yield pages of the names of all keys of the installation, or of those of one Redis type; a name may come twice.
    Raises StoreUnavailableError."""
    page: list[str] = []
    async for key in redis.scan_iter(match=f"{keys.prefix}:*", count=_SCANNED, _type=kind):
        page.append(str(key))
        if len(page) >= _PAGE:
            yield page
            page = []
    if page:
        yield page


def _list_uncopied(keys: Keys) -> list[str]:
    set_aside = (_build_aside_key(keys, partition) for partition in range(keys.partitions))
    return [keys.wakeup_list, *keys.life_keys, *set_aside]


async def _write_keys(redis: Redis, names: Sequence[str], write_line: Any) -> int:
    if not names:
        return 0
    now_ms = await load_time_ms(redis)
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.execute_command("DUMP", name, **{NEVER_DECODE: True})
            pipe.execute_command("PTTL", name)
        answers: list[Any] = await pipe.execute()
    count = 0
    for name, value, lives_ms in zip(names, answers[::2], answers[1::2], strict=True):
        if value is None:  # the key has expired meanwhile
            continue
        fields = {"k": name, "d": base64.b64encode(value).decode("ascii")}
        write_line(json.dumps(fields | ({"x": now_ms + int(lives_ms)} if int(lives_ms) >= 0 else {})))
        count += 1
    return count


# Reading


def verify_backup(file: BinaryIO, keys: Keys) -> tuple[BackupHead, int]:
    """Read the whole file and return its head and number of keys. Raises BackupError if the copy is incomplete, or
    comes from an installation with another layout."""
    file.seek(0)
    head, count = _read_head(file), sum(1 for _ in _stream_records(file))
    if (head.prefix, head.partitions) != (keys.prefix, keys.partitions) or len(head.ids) != keys.partitions:
        raise BackupError("other_layout", prefix=head.prefix, partitions=head.partitions)
    return head, count


def read_backup_hash(file: BinaryIO) -> str:
    """Read the hash in a verified file. A person who can write the file can also write its hash: people compare it with
    the hash that was printed when the copy was made."""
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - MAX_HEAD))
    return str(json.loads(file.read().splitlines()[-1])["sha256"])


def _read_head(file: BinaryIO) -> BackupHead:
    line = file.readline(MAX_HEAD)
    try:
        raw = json.loads(line)
        form = raw.get("countersign_backup") if isinstance(raw, dict) else None
        if isinstance(form, int) and form > FORM:
            raise BackupError("newer", form=form)
        return BackupHead.model_validate(raw)
    except (ValueError, RecursionError) as error:
        raise BackupError("no_backup") from error


def _stream_records(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield the lines of keys, and check the closing line after the last of them. Raises BackupError."""
    at = file.tell()
    file.seek(0)
    digest, count = hashlib.sha256(file.read(at)), 0
    while line := file.readline(MAX_LINE):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BackupError("altered") from error
        if not isinstance(fields, dict) or not line.endswith(b"\n"):
            raise BackupError("altered")
        if "sha256" in fields:
            if fields != {"keys": count, "sha256": digest.hexdigest()} or file.read(1):
                raise BackupError("altered")
            return
        digest.update(line)
        count += 1
        yield fields
    raise BackupError("cut")


# Restoring


async def has_data(redis: Redis, keys: Keys) -> bool:
    """Whether the store holds any data besides the processes' own notes about the store. Raises
    StoreUnavailableError."""
    left_out = set(_list_uncopied(keys))
    async for page in stream_key_pages(redis, keys):
        if not left_out.issuperset(page):
            return True
    return False


async def delete_data(redis: Redis, keys: Keys) -> None:
    """Delete every key of the installation, except the reason why it is held. Raises StoreUnavailableError."""
    left_out = set(_list_uncopied(keys)) - {keys.wakeup_list}
    async for page in stream_key_pages(redis, keys):
        async with redis.pipeline(transaction=False) as pipe:
            for key in page:
                if key not in left_out:
                    pipe.execute_command("UNLINK", key)  # the cluster's own method waits for its answer
            await pipe.execute()


async def set_items_aside(redis: Redis, keys: Keys) -> None:
    """Keep items from people that nobody has handled yet through `delete_data`. Nothing may be accepted any more. After
    an interrupted restore, they are set aside already. Raises StoreUnavailableError."""
    for partition in range(keys.partitions):
        aside = _build_aside_key(keys, partition)
        if await redis.exists(aside):
            continue
        lanes = [str(one) for one in await redis.zrange(keys.build_key(partition, "z"), 0, -1)]
        items = [
            json.dumps([lane, *item])
            for lane in lanes
            for row in await redis.lrange(keys.build_key(partition, "in", lane), 0, -1)
            if _is_from_person((item := split_stored_item(str(row)))[1])
        ]
        await redis.rpush(aside, _ASIDE_BEGINS, *items)


async def enqueue_items_set_aside(redis: Redis, keys: Keys) -> None:
    """Enqueue the items set aside into the lanes of the restored store, behind the items that wait there. Items that
    the copy knows by id are left out. Raises StoreUnavailableError."""
    for partition in range(keys.partitions):
        rows = [str(one) for one in await redis.lrange(_build_aside_key(keys, partition), 1, -1)]
        if rows:
            await apply_writes(redis, keys, partition, [EnqueueItem(*json.loads(row)) for row in rows])


async def forget_items_set_aside(redis: Redis, keys: Keys) -> None:
    """Delete the items set aside. Raises StoreUnavailableError."""
    for partition in range(keys.partitions):
        await redis.delete(_build_aside_key(keys, partition))


def _build_aside_key(keys: Keys, partition: int) -> str:
    return keys.build_key(partition, "aside")


def _is_from_person(body: str) -> bool:
    try:
        fields = json.loads(body)
    except ValueError:
        return False
    return isinstance(fields, dict) and fields.get("kind") in _FROM_PEOPLE


async def load_backup(redis: Redis, keys: Keys, file: BinaryIO) -> int:
    """Load every key of a verified file into a store without data, except keys that have expired since. Returns the
    number of keys loaded. Raises BackupError and StoreUnavailableError."""
    file.seek(0)
    _read_head(file)
    records, count, now_ms = _stream_records(file), 0, await load_time_ms(redis)
    left_out = set(_list_uncopied(keys))
    while True:
        try:
            page = list(islice(records, _PAGE))
        except BackupError as error:  # no longer the file that was verified
            raise BackupError("changed") from error
        if not page:
            return count
        alive = [one for one in page if one.get("x", now_ms + 1) > now_ms and one["k"] not in left_out]
        if any(not str(one["k"]).startswith(f"{keys.prefix}:") for one in alive):
            raise BackupError("changed")
        try:
            async with redis.pipeline(transaction=False) as pipe:
                for one in alive:
                    value = base64.b64decode(one["d"], validate=True)
                    pipe.restore(one["k"], int(one.get("x", 0)), value, replace=True, absttl="x" in one)
                await pipe.execute()
        except ResponseError as error:
            raise BackupError("other_server", reason=str(error)) from error
        count += len(alive)
