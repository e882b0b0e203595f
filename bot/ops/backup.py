"""A copy of the whole store in one file: a line of JSON for its head, one for each key, one that closes it.

    {"countersign_backup": 1, "made_ms": …, "version": …, "prefix": "cs", "partitions": 8, "ids": […], "files": …}
    {"k": key, "d": what DUMP says of it, in base64, "x": when it ends (epoch ms; absent: never)}
    {"keys": how many lines of keys, "sha256": over all bytes before this line}

What a partition's `life` says is in the head only. Nothing is read into memory but a page of keys."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from redis.asyncio import Redis
from redis.client import NEVER_DECODE
from redis.exceptions import ResponseError

from bot.core.errors import CountersignError
from bot.queue.keys import Keys
from bot.queue.store_life import build_life_key
from bot.queue.stored_items import split_stored_item
from bot.queue.writes import EnqueueItem, apply_writes
from bot.redis.connect import is_outage, translate_redis_errors

FORM = 1
MAX_HEAD = 64 * 1024
"""Bytes of the first and the last line."""
MAX_LINE = 1 << 30
"""Bytes of one key's line: Redis keeps no value above 512 MB."""
_FROM_PEOPLE = frozenset({"message_received", "button_pressed", "form_submitted"})
"""Kinds of items whose people were told that they are kept."""
_ASIDE_BEGINS = ""
"""The first row of what is set aside: then all of it is there, be it nothing."""
_PAGE = 100
_SCANNED = 1_000


class BackupError(CountersignError):
    """The file cannot be restored from. `code`: `restore.<code>` says why."""

    def __init__(self, code: str, **params: object) -> None:
        super().__init__(code)
        self.code, self.params = code, params


class BackupHead(BaseModel):
    """What a copy is of."""

    model_config = ConfigDict(extra="forbid")

    countersign_backup: Literal[1] = 1
    made_ms: int
    """When the copy was begun, by the store's clock (epoch ms)."""
    version: str
    """Of the program that made it."""
    prefix: str
    partitions: int = Field(ge=1, le=100)
    ids: list[str]
    """Which store it is, by partition."""
    files: str = ""
    """Where the files of people lie, which are not in it."""


async def load_time_ms(redis: Redis) -> int:
    """Raises StoreUnavailableError."""
    with translate_redis_errors():
        seconds, micros = await redis.time()
    return int(seconds) * 1000 + int(micros) // 1000


# Making


async def write_backup(redis: Redis, keys: Keys, head: BackupHead, file: BinaryIO) -> int:
    """Copies every key. Answers how many. Raises StoreUnavailableError.

    The schedules come last: what is put while the copy is made is then in no lane, or in a lane that is due."""
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


async def stream_key_pages(redis: Redis, keys: Keys) -> AsyncIterator[list[str]]:
    """Names of all keys of the installation; one may come twice. Raises StoreUnavailableError."""
    page: list[str] = []
    with translate_redis_errors():
        async for key in redis.scan_iter(match=f"{keys.prefix}:*", count=_SCANNED):
            page.append(str(key))
            if len(page) >= _PAGE:
                yield page
                page = []
    if page:
        yield page


def _list_uncopied(keys: Keys) -> list[str]:
    partitions = range(keys.partitions)
    own = [build(keys, partition) for partition in partitions for build in (build_life_key, _build_aside_key)]
    return [keys.wakeup_list, *own]


async def _write_keys(redis: Redis, names: Sequence[str], write_line: Any) -> int:
    if not names:
        return 0
    with translate_redis_errors():
        now_ms = await load_time_ms(redis)
        async with redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.execute_command("DUMP", name, **{NEVER_DECODE: True})
                pipe.execute_command("PTTL", name)
            answers: list[Any] = await pipe.execute()
    count = 0
    for name, value, lives_ms in zip(names, answers[::2], answers[1::2], strict=True):
        if value is None:  # it has ended meanwhile
            continue
        fields = {"k": name, "d": base64.b64encode(value).decode("ascii")}
        write_line(json.dumps(fields | ({"x": now_ms + int(lives_ms)} if int(lives_ms) >= 0 else {})))
        count += 1
    return count


# Reading


def verify_backup(file: BinaryIO, keys: Keys) -> tuple[BackupHead, int]:
    """Reads all of it: the head, and how many keys it has. Raises BackupError for what is no whole copy, or none of
    such an installation."""
    file.seek(0)
    head, count = _read_head(file), sum(1 for _ in _stream_records(file))
    if (head.prefix, head.partitions) != (keys.prefix, keys.partitions) or len(head.ids) != keys.partitions:
        raise BackupError("other_layout", prefix=head.prefix, partitions=head.partitions)
    return head, count


def read_backup_hash(file: BinaryIO) -> str:
    """The hash in a verified file. Whoever can write the file can write its hash, too: people compare it with the one
    that was printed when the copy was made."""
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
    except (ValueError, ValidationError, RecursionError) as error:
        raise BackupError("no_backup") from error


def _stream_records(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """The lines of keys; the closing line is checked behind the last of them. Raises BackupError."""
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
    """True if anything is kept here but what processes have noted of the store itself. Raises StoreUnavailableError."""
    left_out = set(_list_uncopied(keys))
    async for page in stream_key_pages(redis, keys):
        if not left_out.issuperset(page):
            return True
    return False


async def delete_data(redis: Redis, keys: Keys) -> None:
    """Deletes every key of the installation, except why it is held. Raises StoreUnavailableError."""
    left_out = set(_list_uncopied(keys)) - {keys.wakeup_list}
    async for page in stream_key_pages(redis, keys):
        with translate_redis_errors():
            async with redis.pipeline(transaction=False) as pipe:
                for key in page:
                    if key not in left_out:
                        pipe.execute_command("UNLINK", key)  # the cluster's own method waits for its answer
                await pipe.execute()


async def set_items_aside(redis: Redis, keys: Keys) -> None:
    """Keeps what people have sent, and nobody has handled yet, through `delete_data`; nothing may be accepted any more.
    After a restore that was cut off, it is kept already. Raises StoreUnavailableError."""
    for partition in range(keys.partitions):
        aside = _build_aside_key(keys, partition)
        with translate_redis_errors():
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
    """Puts it into the lanes of the restored store, behind what waits there; what the copy knows is left out by its id.
    Raises StoreUnavailableError."""
    for partition in range(keys.partitions):
        with translate_redis_errors():
            rows = [str(one) for one in await redis.lrange(_build_aside_key(keys, partition), 1, -1)]
        if rows:
            await apply_writes(redis, keys, partition, [EnqueueItem(*json.loads(row)) for row in rows])


async def forget_items_set_aside(redis: Redis, keys: Keys) -> None:
    """Raises StoreUnavailableError."""
    with translate_redis_errors():
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
    """Brings every key of a verified file into a store without data; what has ended since is left out. Answers how many
    keys are there. Raises BackupError and StoreUnavailableError."""
    file.seek(0)
    _read_head(file)
    records, count, now_ms = _stream_records(file), 0, await load_time_ms(redis)
    left_out = set(_list_uncopied(keys))
    while page := _read_page(records):
        alive = [one for one in page if one.get("x", now_ms + 1) > now_ms and one["k"] not in left_out]
        if any(not str(one["k"]).startswith(f"{keys.prefix}:") for one in alive):
            raise BackupError("changed")
        try:
            with translate_redis_errors():
                async with redis.pipeline(transaction=False) as pipe:
                    for one in alive:
                        value = base64.b64decode(one["d"], validate=True)
                        pipe.restore(one["k"], int(one.get("x", 0)), value, replace=True, absttl="x" in one)
                    await pipe.execute()
        except ResponseError as error:
            if is_outage(error):
                raise
            raise BackupError("other_server", reason=str(error)) from error
        count += len(alive)
    return count


def _read_page(records: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Raises BackupError if the file is no longer the one that was verified."""
    try:
        return list(islice(records, _PAGE))
    except BackupError as error:
        raise BackupError("changed") from error
