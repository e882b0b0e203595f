"""Readers meet people under the name in their own script: on what they read, and in what their model is told."""

from __future__ import annotations

import json
import re

import pytest
from redis.asyncio import Redis

from tests.core.test_disclosure import APPROVER, AUTHOR, SCENES, Walk

from tests.tools.office import PEOPLE  # isort: skip

CHINESE_NAMES = [one.name for one in PEOPLE]
LATIN_NAMES = [one.names[0] for one in PEOPLE]
ALSO = re.compile(r"\balso\W+[\u4e00-\u9fff]+")
"""The other names of somebody, by which they may be searched for."""


async def walk_as_reader(redis: Redis, reader: str, locale: str, typed: str) -> tuple[set[str], set[str]]:
    """Play every tool for one reader in their direct messages, who calls 李四 as they typed. Returns what the model was
    told and what they read."""
    walk = Walk(redis)
    walk.bot.directory.known = [one.model_copy(update={"locale": locale}) for one in walk.bot.directory.known]
    await walk.furnish()
    told, place = set[str](), walk.place_of("dm", reader)
    for tool, scenes in SCENES.items():
        for args in scenes:
            await walk.ask(place, reader, tool, json.loads(json.dumps(args, ensure_ascii=False).replace("李四", typed)))
            told |= {ALSO.sub("", line) for line in walk.model.saw.splitlines()}
            await walk.press_everything(reader)
    return told, {text for channel, text in walk.chat.ever if channel == f"D{reader}" and "I know: " not in text}


@pytest.mark.parametrize("reader", [AUTHOR, APPROVER])
async def test_an_english_reader_and_their_model_meet_latin_names_only(redis: Redis, reader: str) -> None:
    told, read = await walk_as_reader(redis, reader, "en-US", "Li Si")
    assert [one for one in told for name in CHINESE_NAMES if name in one] == []
    assert [one for one in read for name in CHINESE_NAMES if name in one] == []
    assert any("Li Si" in one for one in told) and any("Li Si" in one for one in read), "control: people are named"


async def test_a_chinese_reader_and_their_model_meet_chinese_names(redis: Redis) -> None:
    told, read = await walk_as_reader(redis, AUTHOR, "zh-CN", "李四")
    assert any("李四" in one for one in told) and any("李四" in one for one in read)
    assert [one for one in read for name in LATIN_NAMES if name in one] == []
