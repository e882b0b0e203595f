"""What is in a Redis, by kinds of keys: how many, how large, and whether they end."""

import re
from dataclasses import dataclass

from redis.asyncio import Redis

PAGE = 2_000
_NAME = re.compile(r"^\w+:(?:\{(\w+)\}:)?(.*)$")
_PARTITION = re.compile(r"q\d\d$")


@dataclass(frozen=True, slots=True)
class Family:
    """All keys of a kind."""

    keys: int = 0
    size: int = 0
    """Bytes, with everything that the server needs for them."""
    endless: int = 0
    """Keys that have no end."""


def find_family(key: str) -> str:
    """Which kind a key is of: its name without the ids, `run` or `wf:todo`."""
    found = _NAME.match(key)
    tag, rest = (found[1] or "", found[2]) if found else ("", key)
    parts = rest.split(":")
    if not tag or _PARTITION.match(tag):
        return parts[0] + ("" if parts[0] != "run" or len(parts) < 3 else f":{parts[-1]}")
    if tag in ("people", "files") and len(parts) > 1:
        del parts[0]  # the workspace's id
    return f"{tag}:{parts[0]}"


async def count_families(redis: Redis) -> dict[str, Family]:
    """Looks at every key that has not come to its end meanwhile."""
    names, found = sorted([str(name) async for name in redis.scan_iter(count=PAGE)]), dict[str, Family]()
    for start in range(0, len(names), PAGE):
        page = names[start : start + PAGE]
        async with redis.pipeline(transaction=False) as pipe:
            for name in page:
                pipe.memory_usage(name, samples=0)
                pipe.pttl(name)
            answers = await pipe.execute()
        for name, size, left_ms in zip(page, answers[::2], answers[1::2], strict=True):
            if size is not None:
                family, before = find_family(name), found.get(find_family(name), Family())
                found[family] = Family(before.keys + 1, before.size + size, before.endless + (left_ms == -1))
    return dict(sorted(found.items()))
