"""A client of the current master, which Sentinels name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from redis import exceptions
from redis.asyncio import BlockingConnectionPool
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool
from redis.backoff import NoBackoff

from bot.core.errors import SettingsError
from bot.redis.outages import StoreClient

SENTINEL_TIMEOUT_S = 2.0
"""Time that a Sentinel may take to answer before the next one is asked."""


class SentinelWatchers(Sentinel):
    async def discover_master(self, service_name: str) -> tuple[str, int]:
        try:
            host, port = await super().discover_master(service_name)
        except MasterNotFoundError:  # its message repeats every connection with all its options
            raise MasterNotFoundError(f"no Sentinel names a living master of {service_name}") from None
        return str(host), int(port)


class BlockingSentinelPool(SentinelConnectionPool, BlockingConnectionPool):
    """A pool of connections to the master. Callers wait while all are in use."""


class MasterClient(StoreClient):
    """A client of the master; after a failover, its connections lead to the new master."""

    watchers: SentinelWatchers
    service: str

    async def find_address(self) -> tuple[str, int]:
        """Find the current master: (host, port)."""
        return await self.watchers.discover_master(self.service)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        await self.watchers.aclose()


def build_master_client(
    sentinels: Sequence[tuple[str, int]], service: str, login: Mapping[str, str], **pool: Any
) -> MasterClient:
    """Build a client that has not connected yet. `login` is for the Sentinels; `pool` is for the server, and its TLS
    options for both."""
    asking = {
        "socket_timeout": SENTINEL_TIMEOUT_S,
        "socket_connect_timeout": SENTINEL_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),
    }
    tls = {name: value for name, value in pool.items() if name.startswith("ssl")}
    asked = {**asking, **login, **tls, "decode_responses": True}
    watchers = SentinelWatchers(sentinels, sentinel_kwargs=asked)  # type: ignore[no-untyped-call]
    client = cast("MasterClient", MasterClient.from_pool(BlockingSentinelPool(service, watchers, **pool)))  # type: ignore[no-untyped-call]
    client.watchers, client.service = watchers, service
    return client


async def require_known_service(client: MasterClient) -> None:
    """Raise SettingsError if the Sentinels that answer do not know the service, or are no Sentinels."""
    for one in client.watchers.sentinels:
        try:
            services: Any = await one.sentinel_masters()
        except exceptions.ResponseError as error:
            raise SettingsError("REDIS_URL names a server that is no Sentinel: without it, use redis://") from error
        except (exceptions.ConnectionError, exceptions.TimeoutError):
            continue
        if client.service not in services:
            raise SettingsError(f"REDIS_URL names a service that the Sentinel does not watch: {', '.join(services)}")
        return
