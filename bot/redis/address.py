"""Parses REDIS_URL: one server, the master that Sentinels know, or a cluster.

======================================================  =================================================
`redis://[user:password@]host[:6379][/db]`              one server; `rediss://` with TLS
`unix:///path/to/socket[?db=0]`                         one server on this machine
`redis://host[:6379][,host…]?cluster=1`                 a cluster, found through any of these nodes
`redis+sentinel://host[:26379][,host…]/service[/db]`    the master of a service, as these Sentinels know it
======================================================  =================================================

The user and password of a Sentinel address are the server's; the Sentinels' own are the options `sentinel_username`
and `sentinel_password` (the form that docket, Prefect and langchain read too). `rediss+sentinel://` is TLS for both.
Errors never repeat the address, which may contain a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from redis.asyncio.connection import parse_url

from bot.core.errors import SettingsError

_COMMON = frozenset({"username", "password", "db", "client_name", "health_check_interval"})
_TCP = frozenset({"socket_connect_timeout"})
_TLS = frozenset({"ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname"})
_SENTINEL = {"sentinel_username": "username", "sentinel_password": "password"}
_FLAGS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_ADDRESS = re.compile(r"(?P<scheme>[a-z+]+)://(?P<members>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?")
_MEMBER = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<name>[\w.-]+))(?::(?P<port>\d{1,5}))?")


class RedisMode(StrEnum):
    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisAddress:
    """The address of Redis and its login."""

    kind: RedisMode
    options: Mapping[str, Any] = field(repr=False)
    """Options for a connection, named as by `redis.asyncio.connection.parse_url`."""
    hosts: tuple[tuple[str, int], ...] = ()
    """The nodes or Sentinels to ask: (host, port)."""
    service: str = ""
    """The name of the service that the Sentinels know."""
    sentinel_login: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_redis_url(url: str) -> RedisAddress:
    """Parse the address in a URL. Raises SettingsError, which shows the valid forms."""
    match = _ADDRESS.fullmatch(url)
    if match is None:
        raise _build_url_error(
            "is not an address like redis://host:6379/0 (special characters in passwords are written as %40)"
        )
    options = dict(parse_qsl(match["query"] or "", keep_blank_values=True))
    match match["scheme"]:
        case "unix":
            return RedisAddress(
                kind=RedisMode.SINGLE,
                options=_parse_url_options(f"unix://{match['members']}{match['path']}", options, _COMMON),
            )
        case "redis+sentinel" | "rediss+sentinel":
            service, _, db = match["path"].strip("/").partition("/")
            if not service:
                raise _build_url_error("names no service: redis+sentinel://host:26379/service, e.g. …/mymaster")
            own = {_SENTINEL[name]: options.pop(name) for name in tuple(options) if name in _SENTINEL}
            login, hosts = _parse_hosts(match["members"], 26379)
            scheme = match["scheme"].removesuffix("+sentinel")
            parsed = _parse_tcp_options(scheme, login, hosts[0], _parse_database(db or options.pop("db", "")), options)
            return RedisAddress(
                kind=RedisMode.SENTINEL, options=parsed, hosts=hosts, service=unquote(service), sentinel_login=own
            )
        case "redis" | "rediss":
            clustered = _FLAGS.get(options.pop("cluster", "0").lower())
            if clustered is None:
                raise _build_url_error("has a cluster= that is neither 1 nor 0")
            login, hosts = _parse_hosts(match["members"], 6379)
            db = _parse_database(match["path"].strip("/") or options.pop("db", ""))
            if clustered and db not in ("", "0"):
                raise _build_url_error("names a database, and a Redis Cluster has only database 0: leave it out")
            if len(hosts) > 1 and not clustered:
                raise _build_url_error(
                    "names several hosts: add ?cluster=1 for a Redis Cluster, or use redis+sentinel://…/service"
                )
            parsed = _parse_tcp_options(match["scheme"], login, hosts[0], db, options)
            return RedisAddress(kind=RedisMode.CLUSTER if clustered else RedisMode.SINGLE, options=parsed, hosts=hosts)
        case _:
            raise _build_url_error(
                "should begin with redis://, rediss://, unix://, redis+sentinel:// or rediss+sentinel://"
            )


def _parse_hosts(text: str, port: int) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Parse `user:password@` (or nothing), and the hosts."""
    login, separator, members = text.rpartition("@")
    matches = [_MEMBER.fullmatch(one.strip()) for one in members.split(",")]
    hosts = tuple((one["v6"] or one["name"], int(one["port"] or port)) for one in matches if one is not None)
    if len(hosts) < len(matches) or not all(0 < number < 65_536 for _, number in hosts):
        raise _build_url_error(
            "has a host that is not like name:6379 (special characters in passwords are written as %40)"
        )
    return login + separator, hosts


def _parse_database(db: str) -> str:
    if db and not db.isdecimal():
        raise _build_url_error("has a database that is not a number, like /0")
    return db


def _parse_tcp_options(
    scheme: str, login: str, host: tuple[str, int], db: str, options: dict[str, str]
) -> Mapping[str, Any]:
    name = f"[{host[0]}]" if ":" in host[0] else host[0]
    known = _COMMON | _TCP | (_TLS if scheme == "rediss" else frozenset())
    return _parse_url_options(f"{scheme}://{login}{name}:{host[1]}/{db}", options, known)


def _parse_url_options(url: str, options: dict[str, str], known: frozenset[str]) -> dict[str, Any]:
    """Parse the connection options that redis-py reads from a URL with one host and these options."""
    if not known.issuperset(options):
        raise _build_url_error(f"has an option that is unknown here; these are known: {', '.join(sorted(known))}")
    try:
        return dict(parse_url(f"{url}?{urlencode(options)}"))
    except ValueError as error:
        raise _build_url_error("has an option with a value that does not fit") from error


def _build_url_error(what: str) -> SettingsError:
    return SettingsError(f"REDIS_URL {what}")
