"""The files that people have sent: a record of each in Redis, its bytes in a store of their own.

The records share the hash tag `{files}` and name the workspace:

=======================================  ==========================================================================
`cs:{files}:<team>:file:<person>:<id>`   `FileRecord` as JSON, by who sent it: nobody can name somebody else's file
`cs:{files}:<team>:kept`                 sorted set: `<person>:<id>` → when it was kept (ms)
`cs:{files}:<team>:unused`               the same, of files that may be on no request
`cs:{files}:<team>:day:<person>:<day>`   hash: id → bytes of what they sent on that day (UTC), two days
`cs:{files}:<team>:bytes:<sha256>`       set: the records with these bytes, which go with the last of them
=======================================  ==========================================================================

What is sent in a conversation waits there for the request that it belongs to, beside the conversation's other keys:

=======================================  ==========================================================================
`cs:{qNN}:files:<conversation>`          hash: `<person>:<id>` → `WaitingFile` as JSON, a week
=======================================  ==========================================================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from bot.chat.messages import SentFile
from bot.queue.keys import Keys
from bot.queue.writes import HDel, HSet, Write
from bot.redis.connect import translate_redis_errors
from bot.storage.file_bytes import FileBytes
from tools.characters import remove_invisible
from tools.spec import AttachedFile, StoredModel

WAITING_MS = 7 * 24 * 3_600_000
ANNOUNCED_MS = 24 * 3_600_000
DAY_MS = 24 * 3_600_000
SMALLEST = 100_000
"""A smaller file counts as so many bytes of a day: its record takes room, too."""
NAME = 80
"""Characters of a file's name."""


class FileRecord(StoredModel):
    """One file of one person."""

    file: AttachedFile
    """Without a hash while its bytes are still to be fetched."""
    refused: str = ""
    """Why it was not taken: `file.<reason>`."""
    unread: str = ""
    """Why the model was not shown the picture: `file.unread_<reason>`."""


class WaitingFile(StoredModel):
    """A file that was sent in a conversation and is on no request yet."""

    file: AttachedFile
    person: str
    run: str = ""
    """The run whose card has it; it is free again if that card is not confirmed."""


def clean_file_name(name: str, id: str = "") -> str:
    """A name as it is shown: on one line, without invisible characters and turns of the writing direction, and cut."""
    clean = " ".join(remove_invisible(name, keep_joiners=False).split())
    if len(clean) > NAME:
        stem, dot, kind = clean.rpartition(".")
        clean = f"{stem[: NAME - 10]}….{kind}" if dot and len(kind) <= 6 else f"{clean[: NAME - 1]}…"
    return clean or id or "?"


def describe_sent_file(sent: SentFile) -> AttachedFile:
    return AttachedFile(id=sent.id, name=clean_file_name(sent.name, sent.id), size=sent.size)


@dataclass(frozen=True, slots=True)
class FileStore:
    """Implements `tools.ports.AttachedFiles`. Every call may raise StoreUnavailableError."""

    redis: Redis
    keys: Keys
    team: str
    file_bytes: FileBytes

    def _build_key(self, *parts: str) -> str:
        return ":".join((self.keys.prefix, "{files}", self.team, *parts))

    async def announce_files(self, person: str, files: Iterable[SentFile]) -> None:
        """Somebody has chosen these in a dialog: they may be named, and are fetched later."""
        files = [one for one in files if one.id]
        if not files:
            return
        with translate_redis_errors():
            async with self.redis.pipeline(transaction=False) as pipe:
                for one in files:
                    record = FileRecord(file=describe_sent_file(one))
                    key = self._build_key("file", person, one.id)
                    pipe.set(key, record.model_dump_json(), nx=True, px=ANNOUNCED_MS)
                await pipe.execute()

    async def find_record(self, person: str, id: str) -> FileRecord | None:
        with translate_redis_errors():
            text: Any = await self.redis.get(self._build_key("file", person, id))
        return _parse_record(text)

    async def find_files(self, person: str, ids: Sequence[str]) -> Mapping[str, AttachedFile]:
        if not ids:
            return {}
        with translate_redis_errors():
            async with self.redis.pipeline(transaction=False) as pipe:
                for id in ids:
                    pipe.get(self._build_key("file", person, id))
                texts = await pipe.execute()
        records = {id: _parse_record(text) for id, text in zip(ids, texts, strict=True)}
        return {id: one.file for id, one in records.items() if one is not None and not one.refused}

    async def keep_file(
        self, person: str, file: AttachedFile, content: bytes, now_ms: int, *, unread: str = ""
    ) -> AttachedFile:
        """The bytes first, then the record: killed in between, the same file is fetched once more, and is one."""
        kept = file.model_copy(update={"size": len(content), "sha256": await self.save_content(content)})
        member = f"{person}:{file.id}"
        with translate_redis_errors():
            async with self.redis.pipeline(transaction=True) as pipe:
                pipe.sadd(self._build_key("bytes", kept.sha256), member)
                pipe.zadd(self._build_key("kept"), {member: now_ms})
                pipe.zadd(self._build_key("unused"), {member: now_ms})
                pipe.set(self._build_key("file", member), FileRecord(file=kept, unread=unread).model_dump_json())
                await pipe.execute()
        await self.file_bytes.save_bytes(
            kept.sha256, content
        )  # they may have gone with the last of the others just now
        return kept

    async def count_file(self, person: str, id: str, size: int, most: int, now_ms: int) -> bool:
        """Counts a file for this person's day (UTC), once however often it is taken. False for one that exceeds `most`
        bytes; of two at once that have room for one, both may be refused."""
        key = self._build_key("day", person, str(now_ms // DAY_MS))
        with translate_redis_errors():
            async with self.redis.pipeline(transaction=True) as pipe:
                pipe.hset(key, id, str(max(size, SMALLEST)))
                pipe.pexpire(key, 2 * DAY_MS)
                pipe.hvals(key)
                *_, counted = await pipe.execute()
            has_room = sum(map(int, counted)) <= most
            if not has_room:
                await self.redis.hdel(key, id)
        return has_room

    async def save_content(self, content: bytes) -> str:
        """The bytes alone; their SHA-256. Without a record they are deleted after a while."""
        sha256 = hashlib.sha256(content).hexdigest()
        await self.file_bytes.save_bytes(sha256, content)
        return sha256

    async def refuse_file(self, person: str, file: AttachedFile, reason: str) -> None:
        record = FileRecord(file=file, refused=reason)
        with translate_redis_errors():
            await self.redis.set(self._build_key("file", person, file.id), record.model_dump_json(), px=ANNOUNCED_MS)

    async def load_content(self, sha256: str) -> bytes | None:
        """None once it has been deleted."""
        with translate_redis_errors():
            if not sha256 or not await self.redis.exists(self._build_key("bytes", sha256)):
                return None
        return await self.file_bytes.load_bytes(sha256)

    # Retention

    async def list_kept_before(self, before_ms: int, *, unused: bool = False) -> list[str]:
        """`<person>:<id>` of files kept before then, oldest first. `unused`: only those of which nobody knows yet that
        they are on a request."""
        with translate_redis_errors():
            key = self._build_key("unused" if unused else "kept")
            found: Any = await self.redis.zrangebyscore(key, "-inf", f"({before_ms}")
        return list(found)

    async def note_used_file(self, member: str) -> None:
        """It is on a request: nobody looks again."""
        with translate_redis_errors():
            await self.redis.zrem(self._build_key("unused"), member)

    async def delete_file(self, member: str) -> None:
        """The record; and the bytes, if no other record has the same."""
        key = self._build_key("file", member)
        with translate_redis_errors():
            text: Any = await self.redis.get(key)
            record = _parse_record(text)
            sha256 = record.file.sha256 if record else ""
            async with self.redis.pipeline(transaction=True) as pipe:
                pipe.delete(key)
                pipe.zrem(self._build_key("kept"), member)
                pipe.zrem(self._build_key("unused"), member)
                if sha256:
                    pipe.srem(self._build_key("bytes", sha256), member)
                    pipe.exists(self._build_key("bytes", sha256))
                *_, left = await pipe.execute()
        if sha256 and not left:
            await self.file_bytes.delete_bytes(sha256)

    async def delete_orphans(self, older_than_s: float) -> int:
        """Bytes without a record: what a process that was killed has left. Returns how many."""
        count = 0
        for sha256 in await self.file_bytes.list_hashes(older_than_s):
            with translate_redis_errors():
                is_known = await self.redis.exists(self._build_key("bytes", sha256))
            if not is_known:
                await self.file_bytes.delete_bytes(sha256)
                count += 1
        return count


def _parse_record(text: str | None) -> FileRecord | None:
    """None also for a record that a newer version has written."""
    try:
        return FileRecord.model_validate_json(text) if text else None
    except ValidationError:
        return None


# Files that wait in a conversation


def build_waiting_key(keys: Keys, conversation: str) -> str:
    return keys.build_key(keys.get_partition(conversation), "files", conversation)


def queue_waiting_reads(pipe: Pipeline, keys: Keys, conversation: str) -> None:
    pipe.hgetall(build_waiting_key(keys, conversation))


def parse_waiting_files(fields: Mapping[str, str]) -> tuple[WaitingFile, ...]:
    """In the order in which they were sent, as far as the platform's ids tell."""
    found = list[WaitingFile]()
    for text in fields.values():
        try:
            found.append(WaitingFile.model_validate_json(text))
        except ValidationError:  # of a newer version
            continue
    return tuple(found)


def build_waiting_write(keys: Keys, conversation: str, files: Iterable[WaitingFile]) -> list[Write]:
    fields = {f"{one.person}:{one.file.id}": one.model_dump_json() for one in files}
    return [HSet(build_waiting_key(keys, conversation), fields, ttl_ms=WAITING_MS)] if fields else []


def build_done_writes(keys: Keys, conversation: str, files: Iterable[WaitingFile]) -> list[Write]:
    """These are on a request now."""
    key = build_waiting_key(keys, conversation)
    return [HDel(key, f"{one.person}:{one.file.id}") for one in files]
