"""The Lua scripts: each is `common.lua`, `writes.lua` where it applies writes, and its own file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from redis.asyncio import Redis, RedisCluster

from bot.store.keys import Keys

_WRITING = frozenset({"apply", "checkpoint", "commit"})


@cache
def part(name: str) -> str:
    """The text of one file, read once."""
    return resources.files("bot.store").joinpath(f"lua/{name}.lua").read_text(encoding="utf-8")


@cache
def source(name: str) -> str:
    """The text of a script."""
    parts = ("common", "writes", name) if name in _WRITING else ("common", name)
    return "\n".join(map(part, parts))


@dataclass(frozen=True, slots=True)
class Scripts:
    """Calls the scripts of one Redis. The clock of every script is the Redis server's."""

    redis: Redis
    keys: Keys
    bell: str
    """The bell's key, empty on a cluster, where a script cannot reach another slot's key."""

    @classmethod
    def of(cls, redis: Redis, keys: Keys) -> Scripts:
        return cls(redis, keys, "" if isinstance(redis, RedisCluster) else keys.bell)

    async def run(self, name: str, partition: int, *args: str | int) -> Any:
        """Run a script in a partition. EVALSHA; the text is sent only when the server does not know it."""
        script = self.redis.register_script(source(name))
        return await script(keys=[self.keys.key(partition, "z")], args=[self.bell, *args])
