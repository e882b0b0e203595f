"""The files that people have sent: a record of each in Redis, its bytes in a separate store.

All keys share the hash tag `{files}` and name the workspace; `bot/README.md` lists them. A record's key names the
sender, so nobody can name somebody else's file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.chat.messages import SentFile
from bot.features.files.file_bytes import FileBytes
from bot.queue.keys import Keys
from tools.characters import remove_invisible
from tools.spec import AttachedFile, StoredModel

ANNOUNCED_MS = 24 * 3_600_000
DAY_MS = 24 * 3_600_000
SMALLEST = 100_000
"""Least bytes by which a file counts for its day: a small file's record takes room too."""
NAME = 80
"""Most characters of a file's name."""


class FileRecord(StoredModel):
    """One file of one person."""

    file: AttachedFile
    """The file; its hash is empty while its bytes are still to be fetched."""
    refused: str = ""
    """The reason for the refusal: `file.<reason>`."""
    unread: str = ""
    """The reason why the model was not shown the picture: `file.unread_<reason>`."""


def clean_file_name(name: str, id: str = "") -> str:
    """Clean a name for display: on one line, shortened, without invisible characters and changes of the writing
    direction."""
    clean = " ".join(remove_invisible(name, keep_joiners=False).split())
    if len(clean) > NAME:
        stem, dot, kind = clean.rpartition(".")
        clean = f"{stem[: NAME - 10]}….{kind}" if dot and len(kind) <= 6 else f"{clean[: NAME - 1]}…"
    return clean or id or "?"


def describe_sent_file(sent: SentFile) -> AttachedFile:
    return AttachedFile(id=sent.id, name=clean_file_name(sent.name, sent.id), size=sent.size)


@dataclass(frozen=True, slots=True)
class FileStore:
    """The store of files and their records, which implements `tools.ports.AttachedFiles`. Every call may raise
    StoreUnavailableError."""

    redis: Redis
    keys: Keys
    team: str
    file_bytes: FileBytes

    def _build_key(self, *parts: str) -> str:
        return ":".join((self.keys.prefix, "{files}", self.team, *parts))

    async def announce_files(self, person: str, files: Iterable[SentFile]) -> None:
        """Record files that somebody chose in a dialog: they may be named now, and are fetched later."""
        files = [one for one in files if one.id]
        if not files:
            return
        async with self.redis.pipeline(transaction=False) as pipe:
            for one in files:
                record = FileRecord(file=describe_sent_file(one))
                pipe.set(self._build_key("file", person, one.id), record.model_dump_json(), nx=True, px=ANNOUNCED_MS)
            await pipe.execute()

    async def find_record(self, person: str, id: str) -> FileRecord | None:
        text: Any = await self.redis.get(self._build_key("file", person, id))
        return _parse_record(text)

    async def find_files(self, person: str, ids: Sequence[str]) -> Mapping[str, AttachedFile]:
        if not ids:
            return {}
        async with self.redis.pipeline(transaction=False) as pipe:
            for id in ids:
                pipe.get(self._build_key("file", person, id))
            texts = await pipe.execute()
        records = {id: _parse_record(text) for id, text in zip(ids, texts, strict=True)}
        return {id: one.file for id, one in records.items() if one is not None and not one.refused}

    async def keep_file(
        self, person: str, file: AttachedFile, content: bytes, now_ms: int, *, unread: str = ""
    ) -> AttachedFile:
        """Save the bytes first, then the record. After a crash in between, the same file is fetched again and stays one
        file."""
        kept = file.model_copy(update={"size": len(content), "sha256": await self.save_content(content)})
        member = f"{person}:{file.id}"
        async with self.redis.pipeline(transaction=True) as pipe:
            pipe.sadd(self._build_key("bytes", kept.sha256), member)
            pipe.zadd(self._build_key("kept"), {member: now_ms})
            pipe.zadd(self._build_key("unused"), {member: now_ms})
            pipe.set(self._build_key("file", member), FileRecord(file=kept, unread=unread).model_dump_json())
            await pipe.execute()
        # The last of the other records may have taken them just now.
        await self.file_bytes.save_bytes(kept.sha256, content)
        return kept

    async def count_file(self, person: str, id: str, size: int, most: int, now_ms: int) -> bool:
        """Count a file for this person's day (UTC), once however often it is sent. Returns False for a file that
        exceeds `most` bytes. If two come at once and only one fits, both may be refused."""
        key = self._build_key("day", person, str(now_ms // DAY_MS))
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
        """Save the bytes alone and return their SHA-256. Bytes without a record are deleted after a while."""
        sha256 = hashlib.sha256(content).hexdigest()
        await self.file_bytes.save_bytes(sha256, content)
        return sha256

    async def refuse_file(self, person: str, file: AttachedFile, reason: str) -> None:
        record = FileRecord(file=file, refused=reason)
        await self.redis.set(self._build_key("file", person, file.id), record.model_dump_json(), px=ANNOUNCED_MS)

    async def load_content(self, sha256: str) -> bytes | None:
        """Load the bytes; None once they were deleted."""
        if not sha256 or not await self.redis.exists(self._build_key("bytes", sha256)):
            return None
        return await self.file_bytes.load_bytes(sha256)

    # Retention

    async def list_kept_before(self, before_ms: int, *, unused: bool = False) -> list[str]:
        """List `<person>:<id>` of files kept before then, oldest first. `unused`: only files not yet known to be on a
        request."""
        key = self._build_key("unused" if unused else "kept")
        found: Any = await self.redis.zrangebyscore(key, "-inf", f"({before_ms}")
        return list(found)

    async def note_used_file(self, member: str) -> None:
        """Note that a file is on a request, so that nobody checks it again."""
        await self.redis.zrem(self._build_key("unused"), member)

    async def delete_file(self, member: str) -> None:
        """Delete the record, and also the bytes if no other record has the same."""
        key = self._build_key("file", member)
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
        """Delete bytes without a record, which killed processes have left, and return their number."""
        count = 0
        for sha256 in await self.file_bytes.list_hashes(older_than_s):
            is_known = await self.redis.exists(self._build_key("bytes", sha256))
            if not is_known:
                await self.file_bytes.delete_bytes(sha256)
                count += 1
        return count


def _parse_record(text: str | None) -> FileRecord | None:
    """Parse a record; None also for a record of a newer version."""
    try:
        return FileRecord.model_validate_json(text) if text else None
    except ValidationError:
        return None
