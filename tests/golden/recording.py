"""A recorder beside an office: what the bot says to the workspace, to the model and to Redis while a story is told."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from aiohttp import web
from redis.asyncio import Redis

from bot.app.settings import Settings
from tests.golden.pinned import compare_json, hide_changing, list_distinct, merge, pick_shapes, unfold
from tests.harness.office import Office, office

SAYING = ("chat.", "views.", "files.", "reactions.")
"""Methods of the Web API by which people see something."""
BEGINS = datetime(2099, 1, 5, 2, 0, tzinfo=UTC)
"""What the bot's clock shows when a story begins: no date of it is that of the day on which it is told."""
BRIEF_MS = 60_000
"""What Redis keeps no longer than this may be gone or not when it is looked at."""

FILES = ("# ", "<?xml")
"""How the files of a process begin."""


@dataclass
class Recorder:
    """Everything of one story."""

    name: str
    redis_url: str
    writes: list[list[str]] = field(default_factory=list)
    """Every write that a script was asked for."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Requests to the model."""
    at_work: AsyncExitStack = field(default_factory=AsyncExitStack)
    open_bot: Callable[[], AbstractAsyncContextManager[Any]] = nullcontext
    """Opens another bot beside the same workspace and Redis."""

    async def restart_bot(self) -> None:
        """A process changes ten messages at once, and then one in 1.2 s: another one begins anew."""
        await self.at_work.aclose()
        await self.at_work.enter_async_context(self.open_bot())

    async def compare_digests(self) -> None:
        """Every SHA-256 that is kept, by the name of its field: seals of cards, links of the record's chain."""
        redis = Redis.from_url(self.redis_url)
        try:
            texts = [one async for key in redis.scan_iter() for one in await _read_texts(redis, key)]
        finally:
            await redis.aclose()
        found = {pair for text in texts for pair in re.findall(r'"?(\w+)"?[:=] ?"?([0-9a-f]{64})\b', text)}
        compare_json(f"{self.name}/digests.json", [list(pair) for pair in sorted(found)])

    def compare_slack(self, desk: Office) -> None:
        """What the workspace was sent, and how presses and dialogs were acknowledged."""
        calls = [
            {"method": one.method, **({"error": one.error} if one.error else {}), "args": unfold(one.args)}
            for one in desk.driver.calls
            if one.method.startswith(SAYING) and one.error != "ratelimited"
        ]
        answers = [{"answer": unfold(one.payload)} for one in desk.driver.acks if one.payload]
        compare_json(f"{self.name}/slack.json", list_distinct([*calls, *answers]))

    def compare_model(self) -> None:
        """What the model was told first, and last."""
        compare_json(f"{self.name}/model_first.json", unfold(self.asked[0]))
        compare_json(f"{self.name}/model_last.json", unfold({"messages": self.asked[-1]["messages"]}))

    def compare_writes(self) -> None:
        """What was written to Redis, one write of each shape."""
        compare_json(f"{self.name}/writes.json", pick_shapes(_readable(one) for one in self.writes))

    async def compare_redis(self, stage: str, *, whole: bool = False) -> None:
        """The keys that there are now, each with its type, how long it is kept, and its value; not `whole`: one of each
        shape."""
        redis = Redis.from_url(self.redis_url)
        try:
            kept = [one async for one in _look(redis)]
        finally:
            await redis.aclose()
        compare_json(f"{self.name}/redis_{stage}.json", (list_distinct if whole else pick_shapes)(kept))


def _readable(write: list[str]) -> Any:
    """A write by its parts; names and values that stand in a row as a mapping."""
    op, key, *rest = write
    names, values = rest[1::2], rest[2::2]
    if names and len(names) == len(values) and all(re.fullmatch(r"[a-z][a-z_]*|[A-Z\d]+\t.*", one) for one in names):
        fields = merge((hide_changing(name), unfold(one)) for name, one in zip(names, values, strict=True))
        return {"write": op, "key": unfold(key), "first": rest[0], "fields": fields}
    return {"write": op, "key": unfold(key), "rest": [unfold(one) for one in rest]}


async def _look(redis: Redis) -> AsyncIterator[Any]:
    async for key in redis.scan_iter():
        if b"{people}" in key or b":seen:" in key or key.endswith((b":home_changed", b":processes")):
            continue  # a copy of Slack's list, as it happened to be read; what is renewed every few seconds
        kind, ttl_ms = (await redis.type(key)).decode(), await redis.pttl(key)
        if ttl_ms == -1 or ttl_ms >= BRIEF_MS:
            yield {"key": _text(key), "type": kind, "kept": _tell_ttl(ttl_ms), "value": await _read(redis, key, kind)}


def _tell_ttl(ttl_ms: int) -> str:
    if ttl_ms < 0:
        return "for ever"
    minutes = (ttl_ms + BRIEF_MS) / 60_000  # a minute has perhaps passed
    return "minutes" if minutes < 60 else "hours" if minutes < 24 * 60 else "days"


async def _read(redis: Redis, key: bytes, kind: str) -> Any:
    if kind == "string":
        return _text(await redis.get(key))
    if kind == "hash":
        return _fields(await redis.hgetall(key))
    if kind == "list":
        return [_text(one) for one in await redis.lrange(key, 0, -1)]
    if kind == "set":
        return list_distinct(_text(one) for one in await redis.smembers(key))
    if kind == "zset":
        members = await redis.zrange(key, 0, -1, withscores=True)
        return list_distinct([_text(one), "<ms>" if score > 10**12 else score] for one, score in members)
    return list_distinct(_fields(fields) for _, fields in await redis.xrange(key))


async def _read_texts(redis: Redis, key: bytes) -> list[str]:
    """The texts of one key as they are: `name=value` of a hash."""
    kind = (await redis.type(key)).decode()
    if kind == "hash":
        return [f"{name.decode()}={_unpack(value)}" for name, value in (await redis.hgetall(key)).items()]
    if kind == "string":
        return [_unpack(value) for value in [await redis.get(key)] if value]
    return [_unpack(one) for one in await redis.lrange(key, 0, -1)] if kind == "list" else []


def _unpack(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return zlib.decompress(value, 15 if value[:1] == b"\x78" else -15).decode()


def _fields(fields: dict[bytes, bytes]) -> dict[str, Any]:
    return merge((str(_text(name)), _text(fields[name])) for name in sorted(fields))


def _text(value: bytes) -> Any:
    """What is stored, also where it was packed. Of the files of processes only that they are there."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return {"(packed)": unfold(_unpack(value))}
    return "(a file)" if text.startswith(FILES) else unfold(text)


@asynccontextmanager
async def record(
    name: str,
    redis_url: str,
    patch: pytest.MonkeyPatch,
    *,
    begins: datetime | None = BEGINS,
    model_url: str = "",
    **opened: Any,
) -> AsyncIterator[tuple[Office, Recorder]]:
    """An office with the bot at work in it, and who writes down what it does. `begins`: what the bot's clock shows
    then; None: the time that it is."""
    recorder = Recorder(name, redis_url)
    for setting in Settings.model_fields:
        patch.delenv(setting.upper(), raising=False)  # those of this machine are none of the story's
    with patch.context() as patched:
        await _forget_scripts(redis_url)
        _watch_scripts(recorder, patched)
        async with office(redis_url) as desk:
            desk.clock.offset = begins - datetime.now(UTC) if begins else timedelta()
            desk.model_url = model_url
            _watch_model(recorder, patched)
            async with AsyncExitStack() as recorder.at_work:
                recorder.open_bot = lambda: desk.opened(**opened)
                await recorder.at_work.enter_async_context(recorder.open_bot())
                yield desk, recorder


@contextmanager
def log_nothing() -> Iterator[None]:
    """Without the variables of every frame of an error, which take a second each to print."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.reset_defaults()


async def _forget_scripts(redis_url: str) -> None:
    """Every script is then sent once more, so that it is known which one a digest stands for."""
    redis = Redis.from_url(redis_url)
    await redis.script_flush()
    await redis.aclose()


def _watch_scripts(recorder: Recorder, patched: pytest.MonkeyPatch) -> None:
    known: dict[str, str] = {}
    load, run = Redis.script_load, Redis.evalsha

    def watch_load(self: Redis, script: str) -> Any:
        known[hashlib.sha1(script.encode()).hexdigest()] = script
        return load(self, script)

    def watch_run(self: Redis, sha: str, *rest: Any) -> Any:
        script = known.get(sha, "")
        if script and len(rest) == 3 and str(rest[-1]).startswith("["):
            recorder.writes += _read_writes(script, json.loads(rest[-1]))
        return run(self, sha, *rest)

    patched.setattr(Redis, "script_load", watch_load)
    patched.setattr(Redis, "evalsha", watch_run)


def _read_writes(script: str, args: list[str]) -> Iterator[list[str]]:
    """The writes that a script is given: a row of name, number of arguments, arguments, from where the script itself
    says; and the whole row of one that puts an item into a lane."""
    begins = re.search(r"\bapply\((\d+)\)", script)
    if begins is None:
        if any(one.startswith("{") for one in args):
            yield ["script", *args]
        return
    at = int(begins[1]) - 1
    while at < len(args):
        count = int(args[at + 1])
        yield [args[at], *args[at + 2 : at + 2 + count]]
        at += 2 + count


def _watch_model(recorder: Recorder, patched: pytest.MonkeyPatch) -> None:
    """What the rehearsal model is asked."""
    read = web.Request.json

    async def watch(self: web.Request, **options: Any) -> Any:
        body = await read(self, **options)
        if self.path.startswith("/v1/"):
            recorder.asked.append(body)
        return body

    patched.setattr(web.Request, "json", watch)
