"""Outages of Redis: its clients raise `StoreUnavailableError`, and everything else as redis-py does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline

from bot.core import metrics
from bot.core.errors import StoreRefusedError, StoreUnavailableError

_DOWN = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ReadOnlyError,
    exceptions.OutOfMemoryError,
    exceptions.ClusterDownError,
    exceptions.MasterDownError,
    exceptions.TryAgainError,
    ConnectionError,
    TimeoutError,
)
"""Errors of redis-py and its socket when the server is unreachable or takes no writes."""
_REFUSAL = re.compile(
    r"(ERR Error running script.* -)?(MISCONF|NOREPLICAS|LOADING|BUSY|CLUSTERDOWN|MASTERDOWN|READONLY|OOM|UNBLOCKED"
    r"|WAIT(?:AOF)?(?= cannot be used with replica))"
)
"""Error replies that mean "not now". Before Redis 7 a script wraps them. Any other reply is a bug of ours and is raised
unchanged."""
_OF_PIPELINE = " of pipeline caused error: "
"""The text that redis-py puts between the failing command of a pipeline and the reply, which it prints as a tuple."""


class UnknownScriptError(StoreRefusedError, exceptions.NoScriptError):
    """The server does not know a script. It is loaded then, so the script can be unknown after that only if the server
    was restarted in between."""


@contextmanager
def translate_redis_errors() -> Iterator[None]:
    """Raise StoreUnavailableError when Redis cannot be reached, StoreRefusedError when it takes no writes now. The
    clients do so by themselves, except for subscriptions."""
    try:
        yield
    except exceptions.NoScriptError as error:
        raise UnknownScriptError(str(error)) from error
    except (*_DOWN, exceptions.ResponseError) as error:
        is_answer = isinstance(error, exceptions.ResponseError)
        found = _REFUSAL.match(str(error).rpartition(_OF_PIPELINE)[2].lstrip("('\"")) if is_answer else None
        metrics.REDIS_ERRORS.labels(found[2] if found else type(error).__name__).inc()
        if found or isinstance(error, _DOWN):
            raise (StoreRefusedError if is_answer else StoreUnavailableError)(str(error)) from error
        raise


class StoreClient(Redis):
    """A client of one server. Every command may raise StoreUnavailableError."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        with translate_redis_errors():
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return StorePipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class StorePipeline(Pipeline):
    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        with translate_redis_errors():
            return await super().execute(raise_on_error)
