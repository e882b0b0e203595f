"""A Redis Cluster client that behaves like the client of a single server.

redis-py's own asyncio cluster client has five faults that this one avoids:

- failing when more calls than connections are made at once
- retrying without a pause
- starting a thread and an event loop for every command in a transaction
- raising errors during a failover that are no connection errors
- asking every master for the time"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any

from redis import exceptions
from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode, ClusterPipeline
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff

from bot.redis.outages import translate_redis_errors

TURN_TIMEOUT_S = 20.0
"""Time for which a call waits for its turn."""
_SPARE_CONNECTIONS = 16
"""Connections per node beyond those of bounded calls: for pub/sub and redirections."""
_FAILOVER_ERRORS = (
    exceptions.ClusterError,
    exceptions.SlotNotCoveredError,
    exceptions.TryAgainError,
    exceptions.AskError,
)
"""Errors of a cluster that is failing over or moving slots: they pass soon, like a lost connection."""

_CALLING: ContextVar[bool] = ContextVar("calling", default=False)


class ClusterClient(RedisCluster):
    """A client that runs at most `connections` commands and as many pipelines at once; further calls wait. Repeats a
    command up to `retries` times, with pauses. Every call may raise StoreUnavailableError."""

    def __init__(self, hosts: Sequence[tuple[str, int]], *, connections: int, retries: int, **options: Any) -> None:
        super().__init__(
            startup_nodes=[ClusterNode(host, port) for host, port in hosts],
            max_connections=2 * connections + _SPARE_CONNECTIONS,
            retry=Retry(NoBackoff(), 2),
            **options,
        )
        self._patience = Retry(ExponentialWithJitterBackoff(base=0.02, cap=0.5), retries)
        self._commands, self._batches = asyncio.Semaphore(connections), asyncio.Semaphore(connections)

    async def initialize(self, *args: Any, **options: Any) -> RedisCluster:
        try:
            return await super().initialize(*args, **options)
        except exceptions.RedisClusterException as error:
            raise exceptions.ConnectionError(str(error)) from error

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        async def execute_once() -> Any:
            with translate_cluster_errors():
                return await RedisCluster.execute_command(self, *args, **options)

        with translate_redis_errors():
            async with wait_for_turn(self._commands):
                with mark_calling():
                    return await self._patience.call_with_retry(execute_once, _ignore_failure)

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> BoundedPipeline:
        """Open a pipeline, which sends the commands of each node in one packet. A pipeline is never a transaction,
        whatever `transaction` says: the scripts ensure atomicity."""
        return BoundedPipeline(self, self._batches)  # type: ignore[abstract] # redis-py's own is, for the type checker

    async def time(self, **options: Any) -> tuple[int, int]:
        """Read the clock of one master: (s, µs)."""
        answer: tuple[int, int] = await self.execute_command("TIME", **{"target_nodes": self.RANDOM, **options})
        return answer

    async def aclose(self) -> None:
        if _CALLING.get():  # redis-py requests a refresh of the nodes, which would cut off all other calls
            self._initialize = True
            return
        await super().aclose()
        async with self._lock or asyncio.Lock():
            if self._initialize:  # after an error redis-py takes open connections for closed ones
                for nodes in ("nodes_cache", "startup_nodes"):
                    await self.nodes_manager.aclose(nodes)


class BoundedPipeline(ClusterPipeline):
    """A pipeline that waits for its turn."""

    def __init__(self, client: RedisCluster, room: asyncio.Semaphore) -> None:
        super().__init__(client)
        self._room = room

    def evalsha(self, sha: str, numkeys: int, *keys_and_args: Any) -> Any:  # redis-py's pipelines have none
        return self.execute_command("EVALSHA", sha, numkeys, *keys_and_args)

    async def execute(self, raise_on_error: bool = True, allow_redirections: bool = True) -> list[Any]:
        with translate_redis_errors():
            async with wait_for_turn(self._room):
                with mark_calling(), translate_cluster_errors():
                    return list(await super().execute(raise_on_error, allow_redirections))


@contextmanager
def mark_calling() -> Iterator[None]:
    """Mark the context as inside a call."""
    token = _CALLING.set(True)
    try:
        yield
    finally:
        _CALLING.reset(token)


@asynccontextmanager
async def wait_for_turn(room: asyncio.Semaphore) -> AsyncIterator[None]:
    """Wait for one of the places for simultaneous calls. Raises ConnectionError of redis-py after TURN_TIMEOUT_S."""
    try:
        async with asyncio.timeout(TURN_TIMEOUT_S):
            await room.acquire()
    except TimeoutError as error:
        raise exceptions.ConnectionError("no connection available") from error
    try:
        yield
    finally:
        room.release()


@contextmanager
def translate_cluster_errors() -> Iterator[None]:
    """Raise errors that pass soon as `redis.ConnectionError`."""
    try:
        yield
    except _FAILOVER_ERRORS as error:
        raise exceptions.ConnectionError(str(error)) from error
    except (AttributeError, exceptions.ResponseError) as error:
        # redis-py has closed a connection that this call was about to write to, or a slot that moves is in two places
        if getattr(error, "name", "") != "writelines" and "non local key" not in str(error):
            raise
        raise exceptions.ConnectionError(str(error)) from error


async def _ignore_failure(_: Exception) -> None:
    """Do nothing between two tries: redis-py already knows that it must refresh the nodes."""
