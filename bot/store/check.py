"""Is this Redis fit to keep other people's approvals? Looked at when the bot starts, and by `doctor`.

`INFO` first, `CONFIG GET` only as an extra: managed services block it. Each finding names its cure, in the words
of `words/store.toml`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from redis import exceptions
from redis.asyncio import Redis, RedisCluster

from bot.errors import StoreDown, StoreUnfit
from bot.store.connect import reaching
from bot.store.keys import Keys
from bot.store.writes import Delete, Set, apply
from bot.texts import say

OLDEST = (6, 2)
"""The scripts use `XADD … MINID`, which came with 6.2."""
FULL_PERCENT = 80
SKEW_S = 2


class Severity(StrEnum):
    REFUSE = "refuse"
    """Data would be lost: the bot does not start."""
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the Redis in use. `code` is the key `store.<code>` of its sentence."""

    severity: Severity
    code: str
    params: dict[str, str | int] = field(default_factory=dict)

    def say(self, language: str) -> str:
        """The finding and its cure, for people."""
        return say(f"store.{self.code}", language, **self.params)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server tells about itself; `info` is empty and a setting is "" where it is hidden."""

    info: dict[str, Any]
    appendfsync: str = ""
    min_replicas: str = ""
    policy: str = ""

    def number(self, name: str) -> int:
        return int(self.info.get(name) or 0)

    def failed(self, name: str) -> bool:
        return str(self.info.get(name, "ok")) != "ok"


async def check(
    redis: Redis, keys: Keys, *, allow_non_durable: bool = False, clock: Callable[[], float] = time.time
) -> list[Finding]:
    """Everything that is wrong or unknown, the worst first. Strict unless `allow_non_durable`: then only what
    breaks at once, and eviction of everything, is refused. Raises StoreDown."""
    facts = await _facts(redis)
    grave = Severity.WARN if allow_non_durable else Severity.REFUSE
    findings = [*_server(facts, redis), *_memory(facts, grave), *_disk(facts, grave)]
    findings += await _clock(redis, clock)
    if not any(one.severity is Severity.REFUSE and one.code in ("version", "replica") for one in findings):
        findings += await _works(redis, keys)
    return sorted(findings, key=lambda one: one.severity is not Severity.REFUSE)


async def require(redis: Redis, keys: Keys, language: str, *, allow_non_durable: bool = False) -> list[Finding]:
    """The warnings. Raises StoreUnfit, saying every reason and its cure, if the Redis is not fit; StoreDown."""
    findings = await check(redis, keys, allow_non_durable=allow_non_durable)
    refused = [one.say(language) for one in findings if one.severity is Severity.REFUSE]
    if refused:
        raise StoreUnfit("\n".join(refused))
    return findings


async def _facts(redis: Redis) -> Facts:
    with reaching():
        try:
            info: dict[str, Any] = await redis.info("everything")
        except exceptions.ResponseError:
            info = {}
    policy = str(info.get("maxmemory_policy") or "") or await _setting(redis, "maxmemory-policy")
    fsync, replicas = await _setting(redis, "appendfsync"), await _setting(redis, "min-replicas-to-write")
    return Facts(info, fsync, replicas, policy)


async def _setting(redis: Redis, name: str) -> str:
    with reaching():
        try:
            answer: Any = await redis.config_get(name)
        except exceptions.ResponseError:
            return ""
    return str(answer.get(name, ""))


def _server(facts: Facts, redis: Redis) -> Iterator[Finding]:
    if not facts.info:
        yield Finding(Severity.WARN, "hidden")
        return
    version = str(facts.info.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        yield Finding(Severity.REFUSE, "version", {"version": version})
    if facts.info.get("role") != "master":
        yield Finding(Severity.REFUSE, "replica")
    if facts.number("cluster_enabled") and not isinstance(redis, RedisCluster):
        yield Finding(Severity.REFUSE, "cluster")
    if facts.number("connected_slaves") and facts.min_replicas == "0":
        yield Finding(Severity.WARN, "split")


def _memory(facts: Facts, grave: Severity) -> Iterator[Finding]:
    if facts.policy.startswith("allkeys"):
        yield Finding(Severity.REFUSE, "eviction_all", {"policy": facts.policy})
    elif facts.policy.startswith("volatile"):
        yield Finding(grave, "eviction_some", {"policy": facts.policy})
    elif not facts.policy and facts.info:
        yield Finding(Severity.WARN, "policy_hidden")
    if facts.number("evicted_keys"):
        yield Finding(Severity.WARN, "evicted", {"count": facts.number("evicted_keys")})
    limit = facts.number("maxmemory")
    percent = 100 * facts.number("used_memory") // limit if limit else 0
    if percent > FULL_PERCENT:
        yield Finding(Severity.WARN, "memory", {"percent": percent})


def _disk(facts: Facts, grave: Severity) -> Iterator[Finding]:
    if not facts.info:
        return
    if not facts.number("aof_enabled"):
        yield Finding(grave, "no_aof")
    elif facts.appendfsync in ("no", "everysec"):
        yield Finding(Severity.WARN, f"fsync_{facts.appendfsync}")
    if facts.failed("aof_last_write_status"):
        yield Finding(Severity.REFUSE, "aof_write")
    if facts.failed("aof_last_bgrewrite_status"):
        yield Finding(Severity.WARN, "aof_rewrite")
    if facts.failed("rdb_last_bgsave_status"):
        yield Finding(Severity.WARN, "snapshot")


async def _clock(redis: Redis, clock: Callable[[], float]) -> list[Finding]:
    with reaching():
        seconds, _ = await redis.time()
    skew = abs(seconds - int(clock()))
    return [Finding(Severity.WARN, "clock", {"seconds": skew})] if skew > SKEW_S else []


async def _works(redis: Redis, keys: Keys) -> list[Finding]:
    """Does a script write (rights, read-only servers, foreign cluster nodes), and are lanes where we look?"""
    key = keys.key(0, "selftest")
    try:
        await apply(redis, keys, 0, [Set(key, "ok", 1_000), Delete(key)])
        with reaching():
            await redis.set(f"{keys.prefix}:partitions", keys.partitions, nx=True)
            found = int(str(await redis.get(f"{keys.prefix}:partitions")))
    except (StoreDown, exceptions.ResponseError) as error:
        return [Finding(Severity.REFUSE, "selftest", {"error": str(error)[:120]})]
    if found != keys.partitions:
        return [Finding(Severity.REFUSE, "partitions", {"found": found, "asked": keys.partitions})]
    return []
