"""Tells whether a host is this machine; traffic within it needs no encryption."""

from __future__ import annotations

from ipaddress import ip_address


def is_local_host(host: str) -> bool:
    """Whether the host is `localhost` or a loopback address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
