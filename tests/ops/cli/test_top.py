"""`countersign top`: the installation at work on one screen of 80 columns."""

import asyncio
import json
import os
import pty
import signal
import sys
from pathlib import Path

import pytest
from redis.asyncio import Redis
from rich.cells import cell_len

from bot.ops.cli.top import format_duration, format_offset
from bot.ops.processes import SILENT_MS, ProcessState, ProcessStore
from bot.queue.keys import Keys
from bot.queue.lanes import LaneItem, Lanes
from bot.queue.writes import apply_writes
from bot.storage.dead_letters import DeadLetterStore
from bot.storage.journal import Journal
from tests.harness.command_server import LINE
from tests.harness.office import ZHANG, office
from tests.harness.programs import ran

EVIL = "\x1b[2J\x9b31m\u202e"


def process(now_ms: int, id: str, **changes: object) -> ProcessState:
    values = {"version": "0.1.0", "started_ms": now_ms - 90_061_000, "at_ms": now_ms, "offset_ms": 12, "lanes": 2,
              "concurrency": 64, "model": "gpt-6.1-terra", **changes}  # fmt: skip
    return ProcessState(id=id, **values)  # type: ignore[arg-type]


@pytest.fixture
async def troubled(redis: Redis) -> Redis:
    """A process at work, one whose clock is wrong, one that has died; a lane that fails; a dead letter."""
    keys = Keys()
    now_ms = int((await redis.time())[0]) * 1000
    store = ProcessStore(redis, keys)
    await store.save_process(process(now_ms, "host-a-1111aaaa"))
    await store.save_process(process(now_ms, "host-b-2222bbbb", offset_ms=-288_000_000, trouble="clock" + EVIL))
    await redis.hset(  # it could not say that it has gone
        keys.build_key(0, "processes"), "dead", process(now_ms - SILENT_MS - 5_000, "host-c-dead").model_dump_json()
    )
    lanes = Lanes(redis, keys)
    for lane in ("slack:T0LOCAL:D01ZHANG", "A034e07aaaaaaaa"):
        await lanes.enqueue(lane, f"item of {lane}", "{}")
    [failing] = await lanes.claim("host-a-1111aaaa", keys.get_partition("A034e07aaaaaaaa"), 1)
    await failing.retry(60_000, "ValueError: it does not work" + EVIL)
    [held] = await lanes.claim("host-a-1111aaaa", keys.get_partition("slack:T0LOCAL:D01ZHANG"), 1)
    assert held.lane == "slack:T0LOCAL:D01ZHANG"
    letter = DeadLetterStore(redis, keys).build_bury_writes(LaneItem("lane", "Ev1", "{}", 6, 1), "no")
    await apply_writes(redis, keys, keys.get_partition("lane"), letter)
    await Journal(redis, keys).append_record("x", "model.down", person=ZHANG)
    return redis


async def test_one_screen_tells_what_is_wrong(troubled: Redis, valkey: str, tmp_path: Path) -> None:
    env = {"REDIS_URL": valkey, "COLUMNS": "80"}
    en, zh, as_json = await asyncio.gather(
        ran("top", "--once", cwd=tmp_path, env={**env, "LANG": "en_US.UTF-8"}),
        ran("top", "--once", cwd=tmp_path, env={**env, "LANG": "zh_CN.UTF-8"}),
        ran("top", "--json", cwd=tmp_path, env=env),
    )
    for words in ("host-a-1111aaaa", "0.1.0", "1d 1h", "+12 ms", "-3d 8h", "clock", "2/64", "lanes 2 (0 due",
                  "slack:T0LOCAL:D01ZHANG", "at host-a-1111aaaa", "A034e07aaaaaaaa", "ValueError", "1 dead letter",
                  "gpt-6.1-terra: 1 times without an answer", "0 replies"):  # fmt: skip
        assert words in en.out, (words, en)
    for words in ("搁置的 1 项", "进程", "host-b-2222bbbb", "没有答复", "今天"):
        assert words in zh.out, (words, zh)
    assert "host-c-dead" not in en.all, "who has been silent for long is not at work"
    for end in (en, zh):
        assert end.code == 0 and not [line for line in end.out.splitlines() if cell_len(line) > 80], end.out
        assert len(end.out.splitlines()) <= 24, "one screen"
        assert not [sign for sign in end.out if not sign.isprintable() and sign != "\n"]
    told = json.loads(as_json.out)
    assert told["dead_letters"] == 1 and told["model_failures"] == 1 and len(told["processes"]) == 2
    assert {one["lane"]: one["owner"] for one in told["lanes"]} == {
        "slack:T0LOCAL:D01ZHANG": "host-a-1111aaaa", "A034e07aaaaaaaa": "",
    }  # fmt: skip


async def test_a_calm_installation_is_calm(valkey: str, tmp_path: Path) -> None:
    async def look() -> str:
        return (await ran("top", "--once", cwd=tmp_path, env={"REDIS_URL": valkey})).out

    async with office(valkey) as opened, opened.opened() as bot:
        await opened.answer(ZHANG, "help")
        await opened.quiet()
        async with asyncio.timeout(20):
            while bot.worker.owner[:20] not in (said := await look()):
                await asyncio.sleep(0.05)
    assert "no dead letters" in said and "answers" in said, said
    gone = await look()
    assert "No process is running" in gone and "Nothing is waiting" in gone, gone


async def test_on_a_terminal_it_goes_on_until_ctrl_c(troubled: Redis, valkey: str, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    env = {**LINE, "REDIS_URL": valkey, "COLUMNS": "80", "LINES": "30", "TERM": "xterm-256color", "LANG": "en_US.UTF-8"}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bot", "top", cwd=tmp_path, env=env, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        assert "host-a-1111aaaa" in await read_until(ours, "Ctrl-C leaves")
        await Lanes(troubled, Keys()).enqueue("slack:T0LOCAL:D09NEW", "new", "{}")
        await read_until(ours, "D09NEW")
        child.send_signal(signal.SIGINT)
        rest = await read_until(ours, "")
        assert await child.wait() == 130 and "Traceback" not in rest
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
        os.close(ours)


async def read_until(terminal: int, text: str) -> str:
    """What it says until it has said this; all of it, without a text."""
    said, loop, ended = "", asyncio.get_running_loop(), False
    async with asyncio.timeout(90):
        while not ended and not (text and text in said):
            readable = asyncio.Event()
            loop.add_reader(terminal, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(terminal)
            try:
                part = os.read(terminal, 65_536)
            except OSError:  # what Linux says of a terminal whose other end is closed
                part = b""
            said, ended = said + part.decode(errors="replace"), not part
    assert not text or text in said, said
    return said


def test_durations_and_offsets_are_short() -> None:
    told = {0: "0s", 999: "0s", 7_000: "7s", 60_000: "1m", 310_000: "5m 10s", 3_600_000: "1h", 90_000_000: "1d 1h"}
    assert {ms: format_duration(ms) for ms in told} == told
    offsets = {None: "—", 0: "+0 ms", -40: "-40 ms", 1_500: "+1s", -288_000_000: "-3d 8h"}
    assert {ms: format_offset(ms) for ms in offsets} == offsets


async def test_what_a_newer_process_says_more_is_not_read_and_nothing_is_lost_by_it(redis: Redis) -> None:
    keys, store = Keys(), ProcessStore(redis, Keys())
    await redis.hset(
        keys.build_key(0, "processes"),
        mapping={"new": json.dumps({**process(1_000, "new").model_dump(), "mood": "fine"}), "odd": "no JSON"},
    )
    assert [one.id for one in await store.list_processes(1_000)] == ["new"]
    await store.save_process(process(1_000, "mine"))
    assert set(await redis.hkeys(keys.build_key(0, "processes"))) == {"new", "mine"}, "what nobody can read goes"
    await store.save_process(process(1_001 + SILENT_MS, "mine"))
    assert await redis.hkeys(keys.build_key(0, "processes")) == ["mine"], "and who is silent"
