"""A client of a Redis Cluster that behaves like the one of a single server.

What redis-py's asyncio cluster client does otherwise: it fails when more calls than connections are made at once; it
tries again without a pause; it starts a thread and an event loop for every command put into a transaction; errors of
a cluster that is just failing over are of kinds that are no connection errors; it asks every master for the time.
"""

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

WAIT_S = 20.0
"""How long a call waits for its turn."""
_SPARE = 16
"""Connections to a node beyond those of bounded calls: pub/sub, redirections."""
_UNSETTLED = (
    exceptions.ClusterError,
    exceptions.SlotNotCoveredError,
    exceptions.TryAgainError,
    exceptions.AskError,
)
"""A cluster that is failing over or moving slots: over in a moment, like a lost connection."""

_CALLING: ContextVar[bool] = ContextVar("calling", default=False)


class ClusterClient(RedisCluster):
    """At most `connections` commands, and as many pipelines, are under way at once; more wait their turn. A command is
    repeated up to `retries` times, with pauses. Whatever says "not now" is raised as `redis.ConnectionError`."""

    def __init__(self, hosts: Sequence[tuple[str, int]], *, connections: int, retries: int, **options: Any) -> None:
        super().__init__(
            startup_nodes=[ClusterNode(host, port) for host, port in hosts],
            max_connections=2 * connections + _SPARE,
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

        async with wait_for_turn(self._commands):
            with mark_calling():
                return await self._patience.call_with_retry(execute_once, _ignore_failure)

    def pipeline(self, transaction: Any = None, shard_hint: Any = None) -> BoundedPipeline:
        """Commands that go to each node in one packet. They are not a transaction, whatever is asked for: all or
        nothing is what scripts are for."""
        return BoundedPipeline(self, self._batches)  # type: ignore[abstract] # redis-py's own is, for the type checker

    async def time(self, **options: Any) -> tuple[int, int]:
        """The clock of one master, (s, µs)."""
        answer: tuple[int, int] = await self.execute_command("TIME", **{"target_nodes": self.RANDOM, **options})
        return answer

    async def aclose(self) -> None:
        if _CALLING.get():  # redis-py itself, to have the nodes asked for again; it would cut off all other calls
            self._initialize = True
            return
        await super().aclose()
        async with self._lock or asyncio.Lock():
            if self._initialize:  # after an error redis-py takes the connections for closed, and they are not
                for nodes in ("nodes_cache", "startup_nodes"):
                    await self.nodes_manager.aclose(nodes)


class BoundedPipeline(ClusterPipeline):
    """A pipeline that waits its turn."""

    def __init__(self, client: RedisCluster, room: asyncio.Semaphore) -> None:
        super().__init__(client)
        self._room = room

    def evalsha(self, sha: str, numkeys: int, *keys_and_args: Any) -> Any:  # redis-py has none in pipelines
        return self.execute_command("EVALSHA", sha, numkeys, *keys_and_args)

    async def execute(self, raise_on_error: bool = True, allow_redirections: bool = True) -> list[Any]:
        async with wait_for_turn(self._room):
            with mark_calling(), translate_cluster_errors():
                return list(await super().execute(raise_on_error, allow_redirections))


@contextmanager
def mark_calling() -> Iterator[None]:
    """Within a call."""
    before = _CALLING.set(True)
    try:
        yield
    finally:
        _CALLING.reset(before)


@asynccontextmanager
async def wait_for_turn(room: asyncio.Semaphore) -> AsyncIterator[None]:
    """A place among those who call at once."""
    try:
        async with asyncio.timeout(WAIT_S):
            await room.acquire()
    except TimeoutError as error:
        raise exceptions.ConnectionError("no connection available") from error
    try:
        yield
    finally:
        room.release()


@contextmanager
def translate_cluster_errors() -> Iterator[None]:
    """Raises what is over in a moment as `redis.ConnectionError`."""
    try:
        yield
    except _UNSETTLED as error:
        raise exceptions.ConnectionError(str(error)) from error
    except AttributeError as error:
        if error.name != "writelines":
            raise
        # redis-py has closed a connection that this call was about to write to
        raise exceptions.ConnectionError("connection closed by another call") from error


async def _ignore_failure(_: Exception) -> None:
    """Nothing to mend between two tries: redis-py has noted already that it must ask for the nodes."""
