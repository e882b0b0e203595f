"""`deploy/run --engine NAME`: the bot with a workflow engine on this machine, in one command."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession

from tests.harness.programs import ROOT, free_ports

START_S = 180
WORDS = [sys.executable, "-m", "tests.engines.run"]


async def run_for_a_while(folder: Path) -> tuple[str, str]:
    """Start both, look at the page, stop both; return what was printed, and the engine's id of the leave process."""
    port = free_ports()
    env = {**os.environ, "DATA_DIR": str(folder), "LOCAL_PORT": str(port), "LANG": "en_US.UTF-8"}
    child = await asyncio.create_subprocess_exec(
        *WORDS, "operaton", cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.PIPE
    )
    assert child.stdout
    said = ""
    try:
        async with asyncio.timeout(START_S), ClientSession() as session:
            while "Follow it" not in said:
                line = (await child.stdout.readline()).decode()
                assert line, said
                said += line
            url = re.findall(r"kept by operaton at (\S+)", said)[0]
            async with session.get(f"{url}/process-definition?key=leave") as answer:
                (definition,) = await answer.json()
            async with session.get(f"http://127.0.0.1:{port}/") as page:
                assert page.status == 200
            child.send_signal(signal.SIGTERM)
            said += (await child.stdout.read()).decode()
            assert await child.wait() == 0, said
            with pytest.raises(ClientError):
                await session.get(url)
        return said, definition["id"]
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("java") and shutil.which("mvn")), reason="Java 17 and Maven are not installed")
async def test_one_command_starts_the_bot_with_an_engine_that_keeps_what_it_has(tmp_path: Path) -> None:
    first, deployed = await run_for_a_while(tmp_path)
    assert "Countersign is running" in first
    again, kept = await run_for_a_while(tmp_path)
    assert kept == deployed and "Traceback" not in first + again, "its data are in a file, and nothing is new"


def test_without_java_or_maven_a_sentence_says_so(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "DATA_DIR": str(tmp_path / "data")}
    end = subprocess.run([*WORDS, "flowable"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert end.returncode == 1 and end.stderr.splitlines()[-1] == (
        "countersign: java and mvn not found: the engines need Java 17 and Maven"
    )
