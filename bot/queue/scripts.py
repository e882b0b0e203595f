"""The Lua scripts, and the confirmation of their writes. Each script consists of `common.lua`, of `writes.lua` if it
applies writes, and of its own file.

Nobody relies on a write before the replicas or the disk have it: a server that dies loses every write that neither its
disk nor the replica that takes over has yet. Three things therefore wait for the confirmation: the acknowledgement of a
message or a press, an effect outside, and the word that it is done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError

from bot.core import metrics
from bot.core.errors import StoreUnavailableError
from bot.queue.keys import Keys
from bot.redis.outages import translate_redis_errors

_WRITING = frozenset({"apply", "checkpoint", "commit", "put"})
_MAX_WAKEUPS = 256
TIMEOUT_MS = 1_000
"""Longest wait of one call (ms). Slack wants an answer within three seconds."""
DOUBT_MS = 60_000
"""Time after a takeover in which new items may be old ones of the former server, or follow from such ones (ms)."""
SILENT_S = 5
"""Silence after which a replica is no longer waited for (s). A replica answers every second."""
Arg = str | int | Sequence[object]
T = TypeVar("T")


class ConfirmedBy(StrEnum):
    """The place that confirms a write (`REDIS_CONFIRM`)."""

    AUTO = "auto"
    """Every replica that follows. While there is none: the server, which writes to its disk as configured."""
    SERVER = "server"
    REPLICA = "replica"
    DISK = "disk"


@dataclass(slots=True)
class Confirmation:
    by: ConfirmedBy = ConfirmedBy.SERVER
    replicas: Mapping[int, int] = field(default_factory=dict)
    """Number of replicas of each partition's server that have answered it lately, as of the last look (`StoreWatch`).
    All of them are waited for: after the server's death, the one that takes over need not be the fastest."""
    servers: Mapping[int, str] = field(default_factory=dict)
    """Replication id of each partition's server, as of the last look."""

    def build_command(self, partition: int) -> tuple[str | int, ...]:
        """Build the command that waits for what the same connection has written. Empty if nothing is waited for."""
        if self.by is ConfirmedBy.DISK:
            return ("WAITAOF", 1, 0, TIMEOUT_MS)
        replicas = self.replicas.get(partition, 0)
        if self.by is ConfirmedBy.REPLICA or (self.by is ConfirmedBy.AUTO and replicas):
            return ("WAIT", max(replicas, 1), TIMEOUT_MS)
        return ()


def is_confirmed(command: Sequence[str | int], answer: Any, replicas: int) -> bool:
    """Whether this answer of the command says that the disk, or all replicas, have the write. `replicas`: the number of
    them that the server knows, which may be more than were known here. WAITAOF also answers the number of replicas,
    which is ignored."""
    return int(answer[0]) > 0 if isinstance(answer, list) else int(answer) >= max(int(command[1]), replicas)


@cache
def read_lua_file(name: str) -> str:
    """Return the text of one file; each file is read once."""
    return resources.files("bot.queue").joinpath(f"lua/{name}.lua").read_text(encoding="utf-8")


@cache
def build_script_source(name: str) -> str:
    """Build the text of a script. The arguments come as one JSON list, because the client needs more time for each
    argument than for all the text of the list. The script's own file becomes a function, so that every answer has the
    same form."""
    before = ("common", "writes") if name in _WRITING else ("common",)
    own = ("local function script()", read_lua_file(name), "end", "return told(script())")
    return "\n".join(("local ARGV, silent_s = cjson.decode(ARGV[1]), ARGV[2]", *map(read_lua_file, before), *own))


@cache
def hash_script(text: str) -> str:
    """Compute the hash by which a server knows a script (`EVALSHA`)."""
    return hashlib.sha1(text.encode()).hexdigest()  # noqa: S324 - the protocol's choice


@dataclass(frozen=True, slots=True)
class ScriptRunner:
    """Calls the scripts of one Redis. The clock of every script is the Redis server's."""

    redis: Redis
    keys: Keys
    wakeup_list: str
    """The key of the wakeup list. Empty on a cluster, where a script cannot reach another slot's key."""

    @classmethod
    def from_redis(cls, redis: Redis, keys: Keys) -> ScriptRunner:
        return cls(redis, keys, "" if isinstance(redis, RedisCluster) else keys.wakeup_list)

    async def run_script(self, name: str, partition: int, *args: Arg) -> Any:
        """Run a script in a partition. The text is sent only if the server does not know the script."""
        call = (self.keys.build_key(partition, "z"), self._pack_args(args))
        with metrics.time_outcome(metrics.REDIS_SCRIPTS, script=name):
            sha = hash_script(build_script_source(name))
            answer = await self._ask_with_script(name, lambda: self.redis.evalsha(sha, 1, *call))
        [told] = await self._unwrap_answers({partition: answer})
        return told

    async def run_confirmed_script(
        self, name: str, partition: int, confirm: Sequence[str | int], *args: Arg
    ) -> tuple[Any, bool, str]:
        """Run a script and wait until its writes are confirmed by `confirm` (see `Confirmation`). Both use one
        connection, so that no other server can confirm writes that it does not have. Returns the answer, whether it was
        confirmed in time, and the replication id of the server."""
        key, text = self.keys.build_key(partition, "z"), build_script_source(name)
        on_server: dict[str, Any] = {}
        if isinstance(self.redis, RedisCluster):
            with translate_redis_errors():
                await self.redis.initialize()
            on_server = {"target_nodes": self.redis.get_node_from_key(key)}

        async def ask() -> list[Any]:
            async with self.redis.pipeline(transaction=False) as together:
                together.evalsha(hash_script(text), 1, key, self._pack_args(args), SILENT_S)
                together.execute_command(*confirm, **on_server)
                answers: list[Any] = await together.execute()
            return answers

        with metrics.time_outcome(metrics.REDIS_SCRIPTS, script=name):
            answer, counted = await self._ask_with_script(name, ask)
        [(told, server, replicas)] = await self._unwrap_answers({partition: answer})
        return told, is_confirmed(confirm, counted, replicas), server

    async def _ask_with_script(self, name: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Call `ask`. If the server does not know the script, send the text and call `ask` once more."""
        try:
            return await ask()
        except NoScriptError:
            await self.redis.script_load(build_script_source(name))
            return await ask()

    async def run_in_all_partitions(self, name: str, *args: Arg) -> Sequence[Any]:
        """Run a script in every partition, in one round trip. The answers are in the order of the partitions."""

        async def ask() -> list[Any]:
            sha, text = hash_script(build_script_source(name)), self._pack_args(args)
            async with self.redis.pipeline(transaction=False) as together:
                for partition in range(self.keys.partitions):
                    together.evalsha(sha, 1, self.keys.build_key(partition, "z"), text)
                answers: list[Any] = await together.execute()
            return answers

        with metrics.time_outcome(metrics.REDIS_SCRIPTS, script=name):
            answers = await self._ask_with_script(name, ask)
        return await self._unwrap_answers(dict(enumerate(answers)))

    def _pack_args(self, args: Sequence[Arg]) -> str:
        packed = (str(one) if isinstance(one, int) else one for one in args)
        return json.dumps([self.wakeup_list, *packed], ensure_ascii=False)

    async def _unwrap_answers(self, answers: Mapping[int, Any]) -> list[Any]:
        """Return the answers without their wakeup flags. Scripts that cannot reach the wakeup list answer whether a
        wakeup is needed; it is sent here."""
        if self.wakeup_list:
            return list(answers.values())
        await self.send_wakeups(*(partition for partition, (unheard, _) in answers.items() if unheard))
        return [answer for _, answer in answers.values()]

    async def send_wakeups(self, *partitions: int) -> None:
        """Send wakeups for these partitions. A wakeup is only a hint: a lost one costs a poll."""
        if partitions:
            with suppress(StoreUnavailableError):
                async with self.redis.pipeline(transaction=False) as both:
                    both.rpush(self.keys.wakeup_list, *partitions)
                    both.ltrim(self.keys.wakeup_list, -_MAX_WAKEUPS, -1)  # bounded, because there may be no listener
                    await both.execute()
