"""Checks whether this Redis is fit to keep approvals: at the start of the bot, and in `doctor`.

The check uses `INFO` first and `CONFIG GET` only as an extra, because managed services block it. Each finding names its
solution, in the words of `words/store.toml`. In a cluster every master is checked, and a finding that several share is
reported once."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from redis import exceptions
from redis.asyncio import Redis, RedisCluster

from bot.core.errors import StoreUnavailableError, UnsafeStoreError
from bot.core.i18n import translate
from bot.queue.keys import Keys
from bot.queue.scripts import Confirmation, ConfirmedBy, ScriptRunner
from bot.queue.writes import Delete, Set, apply_writes
from bot.redis.outages import translate_redis_errors

MIN_VERSION = (6, 2)
"""The scripts use `XADD … MINID`, which came with 6.2."""
FULL_PERCENT = 80
SKEW_S = 2
_FLUSH_S = 1.0
"""Time between two flushes of a server with `appendfsync everysec` (s)."""
_NO_WRITES = ("version", "sentinel", "replica", "cluster")
"""Findings after which a write is not worth trying."""


class RedisSeverity(StrEnum):
    REFUSE = "refuse"
    """Data would be lost: the bot does not start."""
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class RedisFinding:
    """A finding about this Redis. Its sentence is `store.<code>`."""

    severity: RedisSeverity
    code: str
    params: dict[str, str | int] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    """The masters in a cluster that the finding is about, as `host:port`."""

    def format_sentence(self, language: str) -> str:
        """Format the finding and its solution as a sentence."""
        text = translate(f"store.{self.code}", language, **self.params)
        return f"{', '.join(self.nodes)}: {text}" if self.nodes else text


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisFacts:
    """A server's facts about itself. `info` is empty, and a setting is "", if the server hides it."""

    info: dict[str, Any]
    appendfsync: str = ""
    min_replicas: str = ""
    policy: str = ""

    def get_number(self, name: str) -> int:
        return int(self.info.get(name) or 0)

    def has_failed(self, name: str) -> bool:
        return str(self.info.get(name, "ok")) != "ok"


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server that holds our data: the only one, or a master of a cluster. `partitions`: those that it holds."""

    name: str
    target: dict[str, Any]
    """The arguments that route a cluster command to this server."""
    partitions: list[int]


async def list_servers(redis: Redis, keys: Keys) -> list[RedisServer]:
    """List every server that writes go to. Raises StoreUnavailableError."""
    if not isinstance(redis, RedisCluster):
        return [RedisServer("", {}, list(range(keys.partitions)))]
    with translate_redis_errors():
        await redis.initialize()
    servers = {one.name: RedisServer(one.name, {"target_nodes": one}, []) for one in redis.get_primaries()}
    for partition in range(keys.partitions):
        servers[redis.get_node_from_key(keys.build_key(partition, "z")).name].partitions.append(partition)
    return [servers[name] for name in sorted(servers)]


async def check_redis(
    redis: Redis,
    keys: Keys,
    *,
    allow_non_durable: bool = False,
    is_disk_asked: bool = False,
    clock: Callable[[], float] = time.time,
) -> list[RedisFinding]:
    """List all problems and unknowns, the worst first. With `allow_non_durable`, only immediate failures and eviction
    of all keys are refused. `is_disk_asked`: the disk is to confirm writes. Raises StoreUnavailableError."""
    grave = RedisSeverity.WARN if allow_non_durable else RedisSeverity.REFUSE
    merged: dict[str, RedisFinding] = {}
    for server in await list_servers(redis, keys):
        facts = await _load_facts(redis, server)
        found = [*_check_server(facts, redis)]
        if "sentinel" not in (one.code for one in found):  # nothing else is readable on a Sentinel
            found += [*_check_memory(facts, grave), *_check_disk(facts, grave)]
            seconds, _ = await redis.time(**server.target)
            if (skew := abs(seconds - int(clock()))) > SKEW_S:
                found.append(RedisFinding(RedisSeverity.WARN, "clock", {"seconds": skew}))
        if server.partitions and not any(one.code in _NO_WRITES for one in found):
            partition = server.partitions[0]
            key = keys.build_key(partition, "selftest")
            try:  # a script may lack rights, or the server may be read-only
                await apply_writes(redis, keys, partition, [Set(key, "ok", 1_000), Delete(key)])
                if is_disk_asked and facts.appendfsync == "everysec" and await _confirms_early(redis, keys, partition):
                    found.append(RedisFinding(grave, "confirms_early"))
            except (StoreUnavailableError, exceptions.ResponseError) as error:
                found.append(_build_selftest_finding(error))
        for one in found:
            earlier = merged.get(repr(one), one)
            merged[repr(one)] = replace(earlier, nodes=(*earlier.nodes, server.name) if server.name else ())
    findings = list(merged.values())
    if not any(one.code in (*_NO_WRITES, "selftest") for one in findings):
        try:  # lanes must be in the partitions where we look for them
            await redis.set(f"{keys.prefix}:partitions", keys.partitions, nx=True)
            count = int(str(await redis.get(f"{keys.prefix}:partitions")))
            if count != keys.partitions:
                params: dict[str, str | int] = {"found": count, "asked": keys.partitions}
                findings.append(RedisFinding(RedisSeverity.REFUSE, "partitions", params))
        except (StoreUnavailableError, exceptions.ResponseError) as error:
            findings.append(_build_selftest_finding(error))
    return sorted(findings, key=lambda one: one.severity is not RedisSeverity.REFUSE)


async def require_fit_redis(
    redis: Redis, keys: Keys, language: str, *, allow_non_durable: bool = False, is_disk_asked: bool = False
) -> list[RedisFinding]:
    """Return the warnings. Raises UnsafeStoreError with every reason and its solution if the Redis is not fit;
    StoreUnavailableError."""
    findings = await check_redis(redis, keys, allow_non_durable=allow_non_durable, is_disk_asked=is_disk_asked)
    refusals = [one.format_sentence(language) for one in findings if one.severity is RedisSeverity.REFUSE]
    if refusals:
        raise UnsafeStoreError("\n".join(refusals))
    return findings


async def _confirms_early(redis: Redis, keys: Keys, partition: int) -> bool:
    """Whether WAITAOF answers before the disk has the write, as Valkey 9.1 and early releases of Redis 7.4 do
    (redis/redis#13793). A server with `appendfsync everysec` flushes once a second, so the second of two writes in a
    row cannot be on its disk at once."""
    scripts, write = ScriptRunner.from_redis(redis, keys), Set(keys.build_key(partition, "selftest"), "ok", 1_000)
    confirm, began = Confirmation(ConfirmedBy.DISK).build_command(partition), 0.0
    for _ in range(2):
        began = time.monotonic()
        await scripts.run_confirmed_script("apply", partition, confirm, secrets.token_hex(8), write.encode())
    return time.monotonic() - began < _FLUSH_S / 2


async def _load_facts(redis: Redis, server: RedisServer) -> RedisFacts:
    try:
        info: dict[str, Any] = await redis.info("everything", **server.target)
    except exceptions.ResponseError:
        info = {}
    policy = str(info.get("maxmemory_policy") or "") or await _load_setting(redis, server, "maxmemory-policy")
    fsync = await _load_setting(redis, server, "appendfsync")
    return RedisFacts(
        info=info,
        appendfsync=fsync,
        min_replicas=await _load_setting(redis, server, "min-replicas-to-write"),
        policy=policy,
    )


async def _load_setting(redis: Redis, server: RedisServer, name: str) -> str:
    try:
        answer: Any = await redis.config_get(name, **server.target)
    except exceptions.ResponseError:
        return ""
    return str(answer.get(name, ""))


def _check_server(facts: RedisFacts, redis: Redis) -> Iterator[RedisFinding]:
    if not facts.info:
        yield RedisFinding(RedisSeverity.WARN, "hidden")
        return
    version = str(facts.info.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_VERSION:
        yield RedisFinding(RedisSeverity.REFUSE, "version", {"version": version})
    if "sentinel" in (facts.info.get("redis_mode"), facts.info.get("server_mode")):  # Redis, Valkey
        yield RedisFinding(RedisSeverity.REFUSE, "sentinel")
    elif facts.info.get("role") != "master":
        yield RedisFinding(RedisSeverity.REFUSE, "replica")
    if facts.get_number("cluster_enabled") and not isinstance(redis, RedisCluster):
        yield RedisFinding(RedisSeverity.REFUSE, "cluster")
    if facts.get_number("connected_slaves") and facts.min_replicas == "0":
        yield RedisFinding(RedisSeverity.WARN, "split")


def _check_memory(facts: RedisFacts, grave: RedisSeverity) -> Iterator[RedisFinding]:
    if facts.policy.startswith("allkeys"):
        yield RedisFinding(RedisSeverity.REFUSE, "eviction_all", {"policy": facts.policy})
    elif facts.policy.startswith("volatile"):
        yield RedisFinding(grave, "eviction_some", {"policy": facts.policy})
    elif not facts.policy and facts.info:
        yield RedisFinding(RedisSeverity.WARN, "policy_hidden")
    if facts.get_number("evicted_keys"):
        yield RedisFinding(RedisSeverity.WARN, "evicted", {"count": facts.get_number("evicted_keys")})
    limit = facts.get_number("maxmemory")
    percent = 100 * facts.get_number("used_memory") // limit if limit else 0
    if percent > FULL_PERCENT:
        yield RedisFinding(RedisSeverity.WARN, "memory", {"percent": percent})


def _check_disk(facts: RedisFacts, grave: RedisSeverity) -> Iterator[RedisFinding]:
    if not facts.info:
        return
    if not facts.get_number("aof_enabled"):
        yield RedisFinding(grave, "no_aof")
    elif facts.appendfsync in ("no", "everysec"):
        yield RedisFinding(RedisSeverity.WARN, f"fsync_{facts.appendfsync}")
    if facts.has_failed("aof_last_write_status"):
        yield RedisFinding(RedisSeverity.REFUSE, "aof_write")
    if facts.has_failed("aof_last_bgrewrite_status"):
        yield RedisFinding(RedisSeverity.WARN, "aof_rewrite")
    if facts.has_failed("rdb_last_bgsave_status"):
        yield RedisFinding(RedisSeverity.WARN, "snapshot")


def _build_selftest_finding(error: Exception) -> RedisFinding:
    return RedisFinding(RedisSeverity.REFUSE, "selftest", {"error": str(error)[:120]})
