"""One `DATA_DIR`, one bot with stand-ins: a second start is refused, and a dead one leaves nothing in the way."""

import asyncio
import contextlib
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.office import APP_TOKEN, BOT_TOKEN, Office, office
from tests.harness.programs import ROOT, Ended, ended, free_ports, mentioning, printed, ran, started

READY = "Countersign is running."


def settings(folder: Path, **more: str) -> dict[str, str]:
    return {"DATA_DIR": str(folder), "LOCAL_PORT": str(free_ports()), **more}


@contextlib.asynccontextmanager
async def running(env: dict[str, str], cwd: Path) -> AsyncIterator[Process]:
    """A bot at work, which ends as a service manager ends it."""
    async with started("run", cwd=cwd, env=env) as child:
        assert (await printed(child, READY)).strip() == READY, "the start begins with its banner"
        yield child
        child.send_signal(signal.SIGTERM)
        end = await ended(child)
        assert end.code == 0 and "Traceback" not in end.all, end


def assert_refused(end: Ended, *words: str) -> None:
    assert end.code == 1 and "Traceback" not in end.all and len(end.err.strip().splitlines()) == 1, end
    for word in words:
        assert word in end.err, (word, end)


async def test_a_second_start_on_one_folder_is_refused_with_the_address_of_the_first(tmp_path: Path) -> None:
    """Another port, another working directory, another spelling of the folder: it is the same folder."""
    folder, link = tmp_path / "data", tmp_path / "link"
    link.symlink_to(folder)
    folder.mkdir()
    first = settings(folder)
    async with running(first, tmp_path) as child:
        same, linked, chinese = await asyncio.gather(
            ran("run", cwd=tmp_path, env=settings(folder)),
            ran("run", cwd=ROOT / "deploy", env=settings(link)),
            ran("run", cwd=tmp_path, env=settings(folder, LANG="zh_CN.UTF-8")),
        )
        address = f"http://127.0.0.1:{first['LOCAL_PORT']}/"
        assert_refused(same, "already", address, f"process {child.pid}", "DATA_DIR", str(folder))
        assert_refused(linked, "already", address, f"process {child.pid}", "DATA_DIR")
        assert_refused(chinese, "已经在这里运行", address, f"进程 {child.pid}", "DATA_DIR")
        standins = [line for line in mentioning(str(folder)) if "standins" in line]
        assert len(standins) == 1 and child.returncode is None, "nothing was started, and the first goes on"
        async with running(settings(tmp_path / "other"), tmp_path):
            pass  # the control: what is refused is the folder, not a second bot


@pytest.mark.slow
async def test_a_killed_one_leaves_nothing_that_a_restart_has_to_clear_away(tmp_path: Path) -> None:
    """SIGKILL, then at once the same command on the same port: its stand-ins may still be on their way out."""
    env = settings(tmp_path / "data")
    async with started("run", cwd=tmp_path, env=env) as child:
        await printed(child, READY)
        child.kill()
        await child.wait()
    async with running(env, tmp_path):
        pass
    assert not mentioning(str(tmp_path / "data"))


@pytest.mark.slow
async def test_of_three_at_the_same_moment_one_runs(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        envs = [settings(tmp_path / "data") for _ in range(3)]
        children = [await stack.enter_async_context(started("run", cwd=tmp_path, env=env)) for env in envs]
        ends = {asyncio.create_task(ended(child)): child for child in children}
        refused: set[asyncio.Task[Ended]] = set()
        while len(refused) < 2:
            refused = (await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED, timeout=30))[0] | refused
            for one in refused:
                assert_refused(one.result(), "already")
                ends.pop(one, None)
        ((waiting, lives),) = ends.items()
        while not any("standins" in line for line in mentioning(str(tmp_path / "data"))):
            await asyncio.sleep(0.02)
        lives.send_signal(signal.SIGTERM)
        await waiting


def all_real(office: Office, folder: Path) -> dict[str, str]:
    """As `deploy/countersign.service` runs it, with the embedded Redis."""
    elsewhere = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN, "SMTP_URL": office.smtp_url}
    elsewhere |= {"SLACK_API_URL": f"{office.address}/api/", "OPENAI_BASE_URL": f"{office.address}/v1"}
    return settings(folder, **elsewhere)


@pytest.mark.slow
async def test_bots_of_one_real_workspace_share_the_embedded_redis_and_no_stand_in_joins_them(
    valkey: str, tmp_path: Path
) -> None:
    """With everything elsewhere a folder is nobody's: ten processes with one `DATA_DIR`, as the unit's template has
    them, have nothing in it to mix."""
    folder, apart = tmp_path / "data", tmp_path / "apart"
    async with office(valkey) as slack:
        env = all_real(slack, folder)
        async with running(env, tmp_path):
            async with running(env, tmp_path):
                alone = await ran("run", cwd=tmp_path, env=settings(folder))
                assert_refused(alone, "already", "connected to the chat platform", "DATA_DIR")
            async with running(env, tmp_path):
                pass  # one that was restarted while others run
        async with running(settings(folder), tmp_path):
            assert_refused(await ran("run", cwd=tmp_path, env=env), "already", "http://127.0.0.1:", "DATA_DIR")
        env = all_real(slack, apart) | {"REDIS_URL": slack.redis_url}
        async with running(env, tmp_path), running(env, tmp_path):
            [known] = [one.name for one in apart.iterdir()]
            assert known.startswith("store-"), "what they know of their store, which is the same"
        del env["SMTP_URL"]
        async with running(env, tmp_path):
            other = await ran("run", cwd=tmp_path, env=env | {"LOCAL_PORT": str(free_ports())})
            assert_refused(other, "already", "connected to the chat platform")
