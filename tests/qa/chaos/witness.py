"""Somebody who knows nothing of the product and counts from outside: raw keys as `bot/README.md` documents them, the
chat over HTTP as any client of the platform reads it, the mails as they arrived. What the product's own classes read
has to agree with it."""

import asyncio
import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from redis.asyncio import Redis, RedisCluster

from tests.harness.office import CHAT

TRIES = 20
"""How often a call is made before its fault is one of ours: the stand-in may still owe one."""

Record = dict[str, Any]
Named = Mapping[tuple[str, str], tuple[str, int]]
"""(channel, message) → its key and part. Feishu tells none."""


@dataclass(frozen=True, slots=True)
class Witnessed:
    """What was counted."""

    requests: Counter[str] = field(default_factory=Counter)
    """By what a person has written as their reason."""
    decisions: Counter[str] = field(default_factory=Counter)
    """By task, in the records of requests."""
    effects: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By tool and how it ended."""
    mails: Counter[str] = field(default_factory=Counter)
    """By Message-ID."""
    posts: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """By channel, key and part, as far as the bot's messages have a key."""
    latest: str = ""
    """The latest moment in a record of a request (ISO 8601)."""


async def witness(
    url: str, address: str, token: str, mails: Sequence[Record], channels: Sequence[str], named: Named
) -> Witnessed:
    """Counts everything. `address`: of the platform. Raises whatever is in the way."""
    redis = _open_redis(url)
    try:
        requests = [_inflate(await redis.get(key)) for key in await _list_keys(redis, "cs:{wf}:request:*")]
        lists = [await redis.lrange(key, 0, -1) for key in await _list_keys(redis, "cs:{wf}:events:*")]  # type: ignore[misc]
        events = [_inflate(one) for each in lists for one in each]
        cards = [await redis.hmget(key, "tool", "effect") for key in await _list_keys(redis, "cs:{q*}:apr:*")]  # type: ignore[misc]
    finally:
        await redis.aclose()
    commands = [one["command"] for one in events]
    return Witnessed(
        requests=Counter(one["filled"]["values"].get("reason", "") for one in requests),
        decisions=Counter(one["task"] for one in commands if one["kind"] == "decide"),
        effects=Counter((tool.decode(), (effect or b"").decode()) for tool, effect in cards),
        mails=Counter(str(one["message_id"]) for one in mails),
        posts=await _read_feishu_posts(address, token, channels, named)
        if CHAT == "feishu"
        else await _read_posts(address, token, channels),
        latest=max((str(one["at"]) for one in events), default=""),
    )


def _open_redis(url: str) -> Redis:
    if "cluster=1" in url:
        parts = urlsplit(url)
        return RedisCluster(host=str(parts.hostname), port=parts.port or 6379)  # type: ignore[return-value]
    return Redis.from_url(url)


async def _list_keys(redis: Redis, pattern: str) -> list[bytes]:
    return sorted({key async for key in redis.scan_iter(match=pattern, count=1000)})


def _inflate(body: bytes) -> Record:
    record: Record = json.loads(zlib.decompress(body))
    return record


async def _read_posts(address: str, token: str, channels: Sequence[str]) -> Counter[tuple[str, str, int]]:
    found = dict[tuple[str, str], tuple[str, str, int]]()
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        for channel in channels:
            tops = await _read_pages(session, f"{address}/api/conversations.history", {"channel": channel})
            threads = [one["ts"] for one in tops if one.get("reply_count")]
            for ts in threads:
                tops += await _read_pages(
                    session, f"{address}/api/conversations.replies", {"channel": channel, "ts": ts}
                )
            for one in tops:
                about = (one.get("metadata") or {}).get("event_payload", {})
                if about.get("key"):
                    found[channel, one["ts"]] = channel, str(about["key"]), int(about.get("part", 1))
    return Counter(found.values())


async def _read_feishu_posts(
    address: str, token: str, channels: Sequence[str], named: Named
) -> Counter[tuple[str, str, int]]:
    found, url = set[tuple[str, str]](), f"{address}/open-apis/im/v1/messages"
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        for channel in channels:
            listed = await _read_feishu_pages(session, url, "chat", channel)
            for topic in {one["thread_id"] for one in listed if one.get("thread_id")}:
                listed += await _read_feishu_pages(session, url, "thread", topic)
            found |= {(channel, one["message_id"]) for one in listed}
    return Counter((place[0], *named[place]) for place in found if place in named)


async def _read_feishu_pages(session: aiohttp.ClientSession, url: str, kind: str, id: str) -> list[Record]:
    found, cursor = list[Record](), ""
    about = {"container_id_type": kind, "container_id": id, "page_size": "50"}
    while True:
        page = await _call(session, url, {**about, "page_token": cursor}, method="GET")
        found += page["data"]["items"]
        cursor = page["data"].get("page_token", "") if page["data"].get("has_more") else ""
        if not cursor:
            return found


async def _read_pages(session: aiohttp.ClientSession, url: str, about: dict[str, str]) -> list[Record]:
    found, cursor = list[Record](), ""
    while True:
        page = await _call(session, url, {**about, "include_all_metadata": "true", "limit": "200", "cursor": cursor})
        found += page["messages"]
        cursor = (page.get("response_metadata") or {}).get("next_cursor", "")
        if not cursor:
            return found


async def _call(session: aiohttp.ClientSession, url: str, about: dict[str, str], *, method: str = "POST") -> Record:
    for _ in range(TRIES):
        try:
            given = {name: value for name, value in about.items() if value}
            async with session.request(method, url, **{"data" if method == "POST" else "params": given}) as answer:
                told: Record = await answer.json() if answer.status == 200 else {}
                if told.get("ok") or told.get("code") == 0:
                    return told
                assert not told, f"{url}: {told}"
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.05)
    raise AssertionError(f"{url} does not answer")
