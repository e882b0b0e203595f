"""Is this Redis fit to keep other people's approvals? Looked at when the bot starts, and by `doctor`.

`INFO` first, `CONFIG GET` only as an extra: managed services block it. Each finding names its cure, in the words
of `words/store.toml`. Of a cluster every master is looked at, and what several have in common is said once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
_NO_WRITES = ("version", "sentinel", "replica", "cluster")
"""Findings after which it is not worth trying to write."""


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
    nodes: tuple[str, ...] = ()
    """Of a cluster: the masters that it is about, `host:port`."""

    def say(self, language: str) -> str:
        """The finding and its cure, for people."""
        text = say(f"store.{self.code}", language, **self.params)
        return f"{', '.join(self.nodes)}: {text}" if self.nodes else text


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


@dataclass(frozen=True, slots=True)
class Server:
    """One that keeps data of ours: the only one, or a master of a cluster. `partitions` are those it keeps."""

    name: str
    target: dict[str, Any]
    """What sends a command of a cluster's client there."""
    partitions: list[int]


async def servers(redis: Redis, keys: Keys) -> list[Server]:
    """Every server that writes go to. Raises StoreDown."""
    if not isinstance(redis, RedisCluster):
        return [Server("", {}, list(range(keys.partitions)))]
    with reaching():
        await redis.initialize()
    found = {one.name: Server(one.name, {"target_nodes": one}, []) for one in redis.get_primaries()}
    for partition in range(keys.partitions):
        found[redis.get_node_from_key(keys.key(partition, "z")).name].partitions.append(partition)
    return [found[name] for name in sorted(found)]


async def check(
    redis: Redis, keys: Keys, *, allow_non_durable: bool = False, clock: Callable[[], float] = time.time
) -> list[Finding]:
    """Everything that is wrong or unknown, the worst first. Strict unless `allow_non_durable`: then only what
    breaks at once, and eviction of everything, is refused. Raises StoreDown."""
    grave = Severity.WARN if allow_non_durable else Severity.REFUSE
    found: dict[str, list[Finding]] = {}
    for server in await servers(redis, keys):
        facts = await _facts(redis, server)
        here = [*_server(facts, redis)]
        if "sentinel" not in (one.code for one in here):  # it has nothing else to tell
            here += [*_memory(facts, grave), *_disk(facts, grave), *await _clock(redis, server, clock)]
        writable = not any(one.code in _NO_WRITES for one in here)
        found[server.name] = here + (await _works(redis, keys, server) if writable else [])
    findings = _together(found)
    if not any(one.code in (*_NO_WRITES, "selftest") for one in findings):
        findings += await _installed(redis, keys)
    return sorted(findings, key=lambda one: one.severity is not Severity.REFUSE)


def _together(found: Mapping[str, Sequence[Finding]]) -> list[Finding]:
    """What several masters have in common, once, with their names."""
    shared: dict[str, Finding] = {}
    for name, findings in found.items():
        for one in findings:
            before = shared.get(repr(one), one)
            shared[repr(one)] = replace(before, nodes=(*before.nodes, name) if name else ())
    return list(shared.values())


async def require(redis: Redis, keys: Keys, language: str, *, allow_non_durable: bool = False) -> list[Finding]:
    """The warnings. Raises StoreUnfit, saying every reason and its cure, if the Redis is not fit; StoreDown."""
    findings = await check(redis, keys, allow_non_durable=allow_non_durable)
    refused = [one.say(language) for one in findings if one.severity is Severity.REFUSE]
    if refused:
        raise StoreUnfit("\n".join(refused))
    return findings


async def _facts(redis: Redis, server: Server) -> Facts:
    with reaching():
        try:
            info: dict[str, Any] = await redis.info("everything", **server.target)
        except exceptions.ResponseError:
            info = {}
    policy = str(info.get("maxmemory_policy") or "") or await _setting(redis, server, "maxmemory-policy")
    fsync = await _setting(redis, server, "appendfsync")
    return Facts(info, fsync, await _setting(redis, server, "min-replicas-to-write"), policy)


async def _setting(redis: Redis, server: Server, name: str) -> str:
    with reaching():
        try:
            answer: Any = await redis.config_get(name, **server.target)
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
    if "sentinel" in (facts.info.get("redis_mode"), facts.info.get("server_mode")):  # Redis says it so, Valkey so
        yield Finding(Severity.REFUSE, "sentinel")
    elif facts.info.get("role") != "master":
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


async def _clock(redis: Redis, server: Server, clock: Callable[[], float]) -> list[Finding]:
    with reaching():
        seconds, _ = await redis.time(**server.target)
    skew = abs(seconds - int(clock()))
    return [Finding(Severity.WARN, "clock", {"seconds": skew})] if skew > SKEW_S else []


async def _works(redis: Redis, keys: Keys, server: Server) -> list[Finding]:
    """Does a script write there (rights, read-only servers)?"""
    for partition in server.partitions[:1]:
        key = keys.key(partition, "selftest")
        try:
            await apply(redis, keys, partition, [Set(key, "ok", 1_000), Delete(key)])
        except (StoreDown, exceptions.ResponseError) as error:
            return [_refused(error)]
    return []


def _refused(error: Exception) -> Finding:
    return Finding(Severity.REFUSE, "selftest", {"error": str(error)[:120]})


async def _installed(redis: Redis, keys: Keys) -> list[Finding]:
    """Are lanes where we look?"""
    try:
        with reaching():
            await redis.set(f"{keys.prefix}:partitions", keys.partitions, nx=True)
            found = int(str(await redis.get(f"{keys.prefix}:partitions")))
    except (StoreDown, exceptions.ResponseError) as error:
        return [_refused(error)]
    if found != keys.partitions:
        return [Finding(Severity.REFUSE, "partitions", {"found": found, "asked": keys.partitions})]
    return []
