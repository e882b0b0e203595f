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

TRIES = 20  # how often a call is made before its fault is one of ours: the stand-in may still owe one

Record = dict[str, Any]
Named = Mapping[tuple[str, str], tuple[str, int]]  # (channel, message) → its key and part. Feishu tells none.


@dataclass(frozen=True, slots=True)
class Witnessed:
    requests: Counter[str] = field(default_factory=Counter)  # by what a person has written as their reason
    decisions: Counter[str] = field(default_factory=Counter)  # by task, in the records of requests
    effects: Counter[tuple[str, str]] = field(default_factory=Counter)  # by tool and how it ended
    mails: Counter[str] = field(default_factory=Counter)  # by Message-ID
    posts: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """By channel, key and part, as far as the bot's messages have a key."""
    latest: str = ""  # the latest moment in a record of a request (ISO 8601)


async def witness(
    url: str, address: str, token: str, mails: Sequence[Record], channels: Sequence[str], named: Named
) -> Witnessed:
    """Counts everything. `address`: of the platform. Raises whatever is in the way."""
    parts = urlsplit(url)
    redis: Any = (
        RedisCluster(host=str(parts.hostname), port=parts.port or 6379) if "cluster=1" in url else Redis.from_url(url)
    )
    try:
        requests = [_inflate(await redis.get(key)) for key in await _list_keys(redis, "cs:{wf}:request:*")]
        lists = [await redis.lrange(key, 0, -1) for key in await _list_keys(redis, "cs:{wf}:events:*")]  # type: ignore[misc]
        events = [_inflate(one) for each in lists for one in each]
        cards = [await redis.hmget(key, "tool", "effect") for key in await _list_keys(redis, "cs:{q*}:apr:*")]  # type: ignore[misc]
    finally:
        await redis.aclose()
    commands = [one["command"] for one in events]
    posts, read = Counter[tuple[str, str, int]](), _read_feishu_posts if CHAT == "feishu" else _read_posts
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        for channel in channels:
            found = await read(session, address, channel, named)
            posts.update((channel, *about) for about in found.values())
    return Witnessed(
        requests=Counter(one["filled"]["values"].get("reason", "") for one in requests),
        decisions=Counter(one["task"] for one in commands if one["kind"] == "decide"),
        effects=Counter((tool.decode(), (effect or b"").decode()) for tool, effect in cards),
        mails=Counter(str(one["message_id"]) for one in mails),
        posts=posts,
        latest=max((str(one["at"]) for one in events), default=""),
    )


async def _list_keys(redis: Redis, pattern: str) -> list[bytes]:
    return sorted({key async for key in redis.scan_iter(match=pattern, count=1000)})


def _inflate(body: bytes) -> Record:
    record: Record = json.loads(zlib.decompress(body))
    return record


async def _read_posts(
    session: aiohttp.ClientSession, address: str, channel: str, named: Named
) -> dict[str, tuple[str, int]]:
    """By message, of those that have a key. Slack tells it."""

    async def read_pages(method: str, **about: str) -> list[Record]:
        found, cursor = list[Record](), ""
        while True:
            more = {"channel": channel, "include_all_metadata": "true", "limit": "200", "cursor": cursor, **about}
            page = await _call(session, f"{address}/api/{method}", more)
            found += page["messages"]
            cursor = (page.get("response_metadata") or {}).get("next_cursor", "")
            if not cursor:
                return found

    listed = await read_pages("conversations.history")
    for ts in [one["ts"] for one in listed if one.get("reply_count")]:
        listed += await read_pages("conversations.replies", ts=ts)
    told = {one["ts"]: (one.get("metadata") or {}).get("event_payload", {}) for one in listed}
    return {ts: (str(about["key"]), int(about.get("part", 1))) for ts, about in told.items() if about.get("key")}


async def _read_feishu_posts(
    session: aiohttp.ClientSession, address: str, channel: str, named: Named
) -> dict[str, tuple[str, int]]:
    async def read_pages(kind: str, id: str) -> list[Record]:
        found, cursor = list[Record](), ""
        while True:
            about = {"container_id_type": kind, "container_id": id, "page_size": "50", "page_token": cursor}
            page = (await _call(session, f"{address}/open-apis/im/v1/messages", about, method="GET"))["data"]
            found += page["items"]
            cursor = page.get("page_token", "") if page.get("has_more") else ""
            if not cursor:
                return found

    listed = await read_pages("chat", channel)
    for topic in {one["thread_id"] for one in listed if one.get("thread_id")}:
        listed += await read_pages("thread", topic)
    ids = {one["message_id"] for one in listed}
    return {id: named[channel, id] for id in ids if (channel, id) in named}


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
