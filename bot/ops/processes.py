"""The processes of an installation: each reports every few seconds that it lives, its version and its condition. No
decision depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, ValidationError
from redis.asyncio import Redis

from bot.queue.keys import Keys
from tools.spec import FrozenModel

ANNOUNCED_S = 5.0
"""Time between two reports of a process (s)."""
SILENT_MS = 20_000
"""Time after which a silent process counts as gone (ms)."""


class ProcessState(FrozenModel):
    """A process's report on itself. The report lives for seconds, and unknown fields of a newer version are not
    read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    """Machine name and a few random letters."""
    version: str
    started_ms: int
    at_ms: int
    """Time of the report (epoch ms, clock of Redis)."""
    offset_ms: int | None = None
    """Its own clock minus that of Redis (ms); None if not measured."""
    lanes: int = 0
    """Number of lanes that it handles now."""
    concurrency: int = 0
    model: str = ""
    team: str = ""
    """The workspace whose people it knows."""
    trouble: str = ""
    """The reason why it takes no work; empty if it does."""
    foreign: int = 0
    """Number of the app's connections, when the process first connected, that belong to no process of this store."""


@dataclass(frozen=True, slots=True)
class ProcessStore:
    redis: Redis
    keys: Keys

    async def save_process(self, process: ProcessState) -> None:
        """Save a report, and forget processes that are gone. Raises StoreUnavailableError."""
        others = {id: one for id, one in (await self._load_processes()).items() if id != process.id}
        gone = [id for id, one in others.items() if one is None or process.at_ms - one.at_ms > SILENT_MS]
        await self.redis.hset(self._key, process.id, process.model_dump_json())
        if gone:
            await self.redis.hdel(self._key, *gone)

    async def remove_process(self, id: str) -> None:
        """Remove a process that has ended. Raises StoreUnavailableError."""
        await self.redis.hdel(self._key, id)

    async def list_processes(self, now_ms: int) -> list[ProcessState]:
        """List the living processes, the oldest first. `now_ms`: epoch ms, clock of Redis. Raises
        StoreUnavailableError."""
        found = (await self._load_processes()).values()
        there = [one for one in found if one is not None and now_ms - one.at_ms < SILENT_MS]
        return sorted(there, key=lambda one: (one.started_ms, one.id))

    async def find_team(self) -> str:
        """Find the workspace that some process has reported; empty if none has. Raises StoreUnavailableError."""
        found = (await self._load_processes()).values()
        return next((one.team for one in found if one is not None and one.team), "")

    async def _load_processes(self) -> dict[str, ProcessState | None]:
        """Load all reports. None stands for one that this version cannot read."""
        found = dict[str, ProcessState | None]()
        texts: Any = await self.redis.hgetall(self._key)
        for id, text in texts.items():
            try:
                found[id] = ProcessState.model_validate_json(text)
            except ValidationError:
                found[id] = None
        return found

    @property
    def _key(self) -> str:
        return self.keys.build_key(0, "processes")
