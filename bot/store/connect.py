"""The one way to a Redis: explicit about everything that redis-py leaves to the kind of constructor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff

from bot.errors import StoreDown

SOCKET_TIMEOUT_S = 10.0
"""Every blocking read must ask for less than this, or redis-py repeats it for ever."""

GONE = (exceptions.ConnectionError, exceptions.TimeoutError)
"""What redis-py raises when the server is away: what code that knows no `bot.store` lets through."""
_DOWN = (
    *GONE,
    exceptions.ReadOnlyError,
    exceptions.OutOfMemoryError,
    exceptions.ClusterDownError,
    exceptions.MasterDownError,
    exceptions.TryAgainError,
    ConnectionError,
    TimeoutError,
)
_REFUSALS = ("MISCONF", "NOREPLICAS", "LOADING", "BUSY", "CLUSTERDOWN", "READONLY", "OOM")
"""Error replies that say: not now. Any other reply is a mistake of ours and stays what it is."""


@contextmanager
def reaching() -> Iterator[None]:
    """Turns "Redis cannot be reached, or takes no writes now" into StoreDown."""
    try:
        yield
    except _DOWN as error:
        raise StoreDown(str(error)) from error
    except exceptions.ResponseError as error:
        if str(error).startswith(_REFUSALS):
            raise StoreDown(str(error)) from error
        raise


async def connect(url: str, *, connections: int = 64, retries: int = 10) -> Redis:
    """A client for `redis://`, `rediss://` or `unix://`, with text replies, that has answered once.

    Commands are repeated up to `retries` times (about 4 s), which is why every mutating script is safe to
    repeat. Raises StoreDown.
    """
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=20,
        protocol=3,
        legacy_responses=False,
        decode_responses=True,
        encoding_errors="replace",  # half a surrogate pair, which JSON can smuggle in, becomes "?"
        socket_timeout=SOCKET_TIMEOUT_S,
        health_check_interval=30,
        retry=Retry(ExponentialWithJitterBackoff(base=0.02, cap=0.5), retries),
    )
    client: Redis = Redis.from_pool(pool)
    try:
        with reaching():
            await client.ping()
    except StoreDown:
        await client.aclose()
        raise
    return client
