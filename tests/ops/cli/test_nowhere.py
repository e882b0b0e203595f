"""Commands in a shell that does not know where the bot lives: they say so, and make nothing."""

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.queue.keys import Keys
from bot.redis.connect import connect_redis
from bot.redis.embedded import EmbeddedRedis
from bot.storage.journal import Journal
from tests.harness.programs import ROOT, invoke, list_commands, mentioning, ran

TRIP = str(ROOT / "tests/tools/workflow/processes/trip.bpmn")
STORES = [
    ("tail",), ("tail", "-f", "--json"), ("tail", "--person", "张三"), ("show", "R00nothing12345"), ("pending",),
    ("pending", "--json"), ("top",), ("usage",), ("dead",), ("dead", "retry", "Ev1"), ("audit",), ("audit", "--csv"),
    ("audit", "verify"), ("audit", "heads"), ("export",), ("restored",), ("restored", "--accept"),
    ("upgrade", "--check"), ("backup", "copy"), ("person", "export", "U01ZHANG"),
    ("person", "forget", "U01ZHANG", "--yes"), ("person", "leave", "U01ZHANG", "--to", "U02LI", "--yes"),
    ("processes", "list"), ("processes", "deploy", TRIP, "--yes"), ("processes", "migrate", "leave", "--dry-run"),
    ("processes", "assign", "L-0001-1", "U3", "--yes"),
]  # fmt: skip
"""Every command that looks into the store."""
OTHERS = {"init", "run", "doctor", "eval", "restore"}
OTHERS |= {"processes check", "processes export", "processes reference", "check", "new tool"}
"""Commands that need none, or make it."""


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A shell in an empty folder that knows nothing of any bot."""
    for name in ("DATA_DIR", "REDIS_URL", "LANG", "LC_ALL", "LC_MESSAGES", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def tree(folder: Path) -> list[tuple[str, int, int]]:
    """Every file and folder with its size and its time."""
    found = sorted(folder.rglob("*"))
    return [(str(one.relative_to(folder)), one.lstat().st_size, one.lstat().st_mtime_ns) for one in found]


def test_a_command_that_finds_no_bot_says_so_and_makes_nothing(
    bare: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for arguments in STORES:
        end = invoke(capsys, monkeypatch, *arguments)
        with subtests.test(" ".join(arguments)):
            assert end.code == 1 and not end.out, end
            assert end.err.startswith(f"countersign: There is no bot here: DATA_DIR is {bare}/.countersign"), end
            assert "DATA_DIR or REDIS_URL" in end.err and len(end.err.splitlines()) == 1
            assert tree(bare) == []
    with monkeypatch.context() as away:
        away.setenv("REDIS_URL", "redis://127.0.0.1:1")
        for arguments in STORES:
            end = invoke(capsys, monkeypatch, *arguments)
            with subtests.test(f"{arguments}, without its Redis"):
                assert end.code == 1 and "REDIS_URL" in end.err and len(end.err.strip().splitlines()) == 1, end
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert f"这里没有机器人：DATA_DIR 是 {bare}/.countersign" in invoke(capsys, monkeypatch, "pending").err
    check = invoke(capsys, monkeypatch, "processes", "check", TRIP)
    assert check.code == 0 and tree(bare) == [], "what needs no store works anywhere"


async def test_a_command_whose_user_may_not_read_the_store_says_so(
    redis: Redis, valkey: str, bare: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:  # fmt: skip
    await redis.execute_command("ACL", "SETUSER", "stranger", "on", ">word", "+@all", "resetkeys")
    monkeypatch.setenv("REDIS_URL", valkey.replace("//", "//stranger:word@"))
    for arguments in STORES:
        end = await asyncio.to_thread(invoke, capsys, monkeypatch, *arguments)
        with subtests.test(" ".join(arguments)):
            assert end.code == 1 and "No permissions" in end.err and len(end.err.strip().splitlines()) == 1, end
            assert "word" not in end.err


def test_the_list_above_is_of_all_commands() -> None:
    known = {" ".join(one) for one in STORES} | OTHERS
    assert {one for one in list_commands() if not any(re.match(rf"{one}( |$)", told) for told in known)} == set()


@pytest.mark.parametrize("there", ["folder", "leftovers", "file", "emptied"])
def test_a_folder_without_a_store_stays_as_it_is(
    there: str, bare: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that has never kept the store of a bot: what stands in it is somebody else's, or a workspace's."""
    data = bare / "data"
    if there == "file":
        data.write_text("not a folder")
    else:
        (data / "workspace").mkdir(parents=True)
        (data / "workspace" / "workspace.json").write_text("{}")
    if there in ("leftovers", "emptied"):
        (data / "redis" / "appendonlydir").mkdir(parents=True)
        (data / "redis" / "SERVER").write_text('{"product": "valkey", "number": "8.1.1"}')
    monkeypatch.setenv("DATA_DIR", str(data))
    before = tree(bare)
    for arguments in (("pending",), ("tail",), ("audit", "verify")):
        end = invoke(capsys, monkeypatch, *arguments)
        assert end.code == 1 and f"DATA_DIR is {data}" in end.err, end
    assert tree(bare) == before


def test_doctor_looks_and_makes_nothing(
    bare: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    end = invoke(capsys, monkeypatch, "doctor")
    assert end.code == 0 and "redis: embedded" in end.out and tree(bare) == [], end
    assert end.out.count("stand-in") == 3, "a bare machine"
    monkeypatch.setenv("EMBED_BIN", str(bare / "none"))
    end = invoke(capsys, monkeypatch, "doctor")
    assert end.code == 1 and "FAIL redis" in end.out and tree(bare) == [], end


async def kept(folder: Path) -> None:
    """What a bot leaves in its folder: one record."""
    embedded = EmbeddedRedis(folder / "redis")
    redis = await connect_redis(await embedded.ensure_running())
    try:
        await Journal(redis, Keys()).append_record("lane", "command", person="U01ZHANG", text="tasks")
    finally:
        await redis.aclose()
        await embedded.close()


async def test_a_bot_that_does_not_run_is_read_and_left_as_it_is_however_many_look(tmp_path: Path) -> None:
    """The control: with the folder the same command answers. Its server is started to read, and ends with it. Of many
    processes on one folder, each started when it likes, one has the server, and every one sees the record."""
    data = tmp_path / "data"
    await kept(data)
    env = {"DATA_DIR": str(data)}
    aof = {one: one.read_bytes() for one in (data / "redis" / "appendonlydir").iterdir()}
    end = await ran("tail", "--json", cwd=tmp_path, env=env)
    assert end.code == 0 and "tasks" in end.out, end
    assert {one: one.read_bytes() for one in (data / "redis" / "appendonlydir").iterdir()} == aof
    assert not mentioning(str(data)), "no server is left behind"
    looks = [ran(*one, cwd=tmp_path, env=env) for one in (*[("tail", "--json")] * 4, ("pending",))]
    *tails, pending = (await asyncio.gather(*looks, kept(data), kept(data)))[:5]
    assert pending is not None and pending.code == 0, pending
    assert all(end is not None and end.code == 0 and "tasks" in end.out for end in tails), tails
    log = (data / "redis" / "server.log").read_text()
    assert "Bad file format" not in log and "Short read" not in log
    assert not mentioning(str(data))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
async def test_the_folder_of_another_user_is_told_apart_and_nobody_is_told_to_remove_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await kept(data)
    os.chown(data / "redis", 12345, -1)
    end = await ran("tail", cwd=tmp_path, env={"DATA_DIR": str(data)})
    assert end.code == 1 and "the user who runs the bot" in end.err and "Remove" not in end.err, end
