"""The processes of an installation: each tells every few seconds that it lives, which version it is, and how it is
doing. Nothing is decided by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, ValidationError
from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.redis.connect import translate_redis_errors
from tools.spec import FrozenModel

ANNOUNCED_S = 5.0
"""How often a process tells that it lives."""
SILENT_MS = 20_000
"""A process that has said nothing for so long is not there any more."""


class ProcessState(FrozenModel):
    """What a process says of itself. It lives for seconds, and what a newer version says more is not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    """Machine, and a few letters of its own."""
    version: str
    started_ms: int
    at_ms: int
    """When it said so, by Redis's clock."""
    offset_ms: int | None = None
    """Its own clock minus that of Redis; None: not measured."""
    lanes: int = 0
    """How many it handles now."""
    concurrency: int = 0
    model: str = ""
    team: str = ""
    """The workspace whose people it knows."""
    trouble: str = ""
    """Why it takes no work; empty: it does."""
    foreign: int = 0
    """Connections of the app, when it first connected, that belong to no process of this store."""


@dataclass(frozen=True, slots=True)
class ProcessStore:
    redis: Redis
    keys: Keys

    async def save_process(self, process: ProcessState) -> None:
        """Also forgets those that are not there any more. Raises StoreUnavailableError."""
        texts = await self._load_texts()
        gone = [id for id, text in texts.items() if id != process.id and _is_gone(text, process.at_ms)]
        with translate_redis_errors():
            await self.redis.hset(self._key, process.id, process.model_dump_json())
            if gone:
                await self.redis.hdel(self._key, *gone)

    async def remove_process(self, id: str) -> None:
        """It has ended. Raises StoreUnavailableError."""
        with translate_redis_errors():
            await self.redis.hdel(self._key, id)

    async def list_processes(self, now_ms: int) -> list[ProcessState]:
        """Those that are there, the oldest first. `now_ms`: by Redis's clock. Raises StoreUnavailableError."""
        found = [_parse_process(text) for text in (await self._load_texts()).values()]
        there = [one for one in found if one is not None and now_ms - one.at_ms < SILENT_MS]
        return sorted(there, key=lambda one: (one.started_ms, one.id))

    async def find_team(self) -> str:
        """The workspace of a process that has said so; empty: of none. Raises StoreUnavailableError."""
        found = [_parse_process(text) for text in (await self._load_texts()).values()]
        return next((one.team for one in found if one is not None and one.team), "")

    async def _load_texts(self) -> dict[str, str]:
        with translate_redis_errors():
            texts: Any = await self.redis.hgetall(self._key)
        return dict(texts)

    @property
    def _key(self) -> str:
        return self.keys.build_key(0, "processes")


def _parse_process(text: str) -> ProcessState | None:
    try:
        return ProcessState.model_validate_json(text)
    except ValidationError:
        return None


def _is_gone(text: str, now_ms: int) -> bool:
    found = _parse_process(text)
    return found is None or now_ms - found.at_ms > SILENT_MS
