"""The one way to connect to Redis: explicit about everything that redis-py's constructors handle differently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from redis.asyncio import BlockingConnectionPool, Redis, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.driver_info import DriverInfo

from bot.core.errors import SettingsError, StoreUnavailableError
from bot.redis.address import RedisAddress, RedisMode, parse_redis_url
from bot.redis.cluster import TURN_TIMEOUT_S, ClusterClient
from bot.redis.outages import StoreClient
from bot.redis.sentinel import MasterClient, build_master_client, require_known_service

SOCKET_TIMEOUT_S = 10.0
"""Time-out of a connection's reads (s). Every blocking read must ask for less, or redis-py repeats it for ever."""

_DRIVER = DriverInfo()
"""The driver information of each connection: without it, every connection reads the metadata of the installed package
again."""


async def load_time_ms(redis: Redis) -> int:
    """Read the clock of Redis, which all processes share (epoch ms). Raises StoreUnavailableError."""
    seconds, micros = await redis.time()
    return int(seconds) * 1000 + int(micros) // 1000


async def connect_redis(url: str, *, connections: int = 64, retries: int = 10) -> Redis:
    """Connect to any address that `address.parse_redis_url` reads, with text replies. Returns a client after one
    successful call.

    The client repeats commands up to `retries` times (about 4 s), so every mutating script must be safe to repeat. At
    most `connections` are in use at once; further callers wait. Raises StoreUnavailableError, and SettingsError for an
    invalid address."""
    client = _build_client(parse_redis_url(url), connections, retries)
    try:
        await _check_connection(client)
    except (StoreUnavailableError, SettingsError):
        await client.aclose()
        raise
    return client


def _build_client(address: RedisAddress, connections: int, retries: int) -> Redis:
    options: dict[str, Any] = {
        "protocol": 3,
        "legacy_responses": False,
        "decode_responses": True,
        "encoding_errors": "replace",  # half a surrogate pair, which JSON can smuggle in, becomes "?"
        "socket_timeout": SOCKET_TIMEOUT_S,
        "health_check_interval": 30,
        "driver_info": _DRIVER,
        **address.options,
    }
    if address.kind is RedisMode.CLUSTER:
        cluster = ClusterClient(address.hosts, connections=connections, retries=retries, **_drop_host_options(options))
        return cast("Redis", cluster)  # a ClusterClient has every method that is used here
    retry = Retry(ExponentialWithJitterBackoff(base=0.02, cap=0.5), retries)
    pool: dict[str, Any] = {"max_connections": connections, "timeout": TURN_TIMEOUT_S, "retry": retry}
    if address.kind is RedisMode.SENTINEL:
        return build_master_client(
            address.hosts, address.service, address.sentinel_login, **_drop_host_options(options), **pool
        )
    return StoreClient.from_pool(BlockingConnectionPool(**options, **pool))


def _drop_host_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for servers that have to be found first."""
    rest = {name: value for name, value in options.items() if name not in ("host", "port", "connection_class")}
    return rest | {"ssl": options.get("connection_class") is SSLConnection}


async def _check_connection(client: Redis) -> None:
    """Ask the server once. Raises SettingsError if it is not of the kind that the address says."""
    if isinstance(client, MasterClient):
        await require_known_service(client)
    try:
        await client.ping()
    except StoreUnavailableError as error:
        if "Cluster mode is not enabled" in str(error):
            raise SettingsError("REDIS_URL names a server of no Redis Cluster: leave out ?cluster=1") from error
        raise
