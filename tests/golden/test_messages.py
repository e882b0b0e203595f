"""What people are told, kind by kind; and what is written and kept in Redis for it."""

import re
from itertools import product

import pytest
from redis.asyncio import Redis

from tests.golden.golden_files import compare_sections
from tests.golden.scenes import LOCALES, SCENES, open_stage
from tests.golden.stored import Shapes, unpack


async def list_digests(raw: Redis) -> list[str]:
    """Links of the chain of the first request's record, as they are: the same record has the same ones for ever."""
    [events] = [key async for key in raw.scan_iter("cs:{wf}:events:L-0001")]
    texts = [unpack(one) for one in await raw.lrange(events, 0, -1)]
    return [f"{name}: {digest}" for text in texts for name, digest in re.findall(r'"(\w+)":"([0-9a-f]{64})"', text)]


async def test_what_people_are_told_and_what_is_kept(
    redis: Redis, valkey: str, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    writes, keys, raw = Shapes(), Shapes(), Redis.from_url(valkey)
    digests: dict[str, list[str]] = {}
    await redis.script_flush()  # each script is sent once more, so that it is known which one a digest stands for
    writes.watch_writes(monkeypatch)
    for name, scenes in SCENES.items():
        told: dict[str, list[str]] = {}
        for language, play in product(LOCALES, scenes):
            await redis.flushall()
            stage = open_stage(redis, language)
            await play(stage)
            await keys.add_keys(raw)
            told.setdefault(language, []).extend(stage.transcript.lines)
            if name == "leave" and not digests:
                digests["the record of L-0001"] = await list_digests(raw)
        with subtests.test(name):
            compare_sections(f"messages/{name}.txt", told)
    await raw.aclose()
    compare_sections("stored/writes.txt", writes.list_sections())
    compare_sections("stored/keys.txt", keys.list_sections())
    compare_sections("stored/digests.txt", digests)
