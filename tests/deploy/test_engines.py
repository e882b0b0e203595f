"""`deploy/run --engine NAME`: the bot with a workflow engine on this machine, in one command."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession

from tests.harness.browser import ABSENT, Browser
from tests.harness.programs import ROOT, free_ports

START_S = 180
NO_JAVA = not (shutil.which("java") and shutil.which("mvn"))
WORDS = [sys.executable, "-m", "tests.engines.run"]


async def open_page(address: str) -> None:
    async with ClientSession() as session, session.get(address) as page:
        assert page.status == 200


async def play_leave(address: str) -> None:
    """As the README's first conversation begins."""
    async with Browser(size=(1280, 800), language="en-US") as page:
        await page.open(address)
        await page.find(".prompts .chip", "Ask for leave")  # the bot knows the language
        await page.type("#write textarea", "I need two days of annual leave from next Monday, family visit")
        await page.press("Enter")
        await page.click("#list .actions button", "Confirm")
        await page.find("#list .message", "L-0001")
        await page.press("Alt", "2")
        await page.click("#list .actions button", "Approve")
        await page.find("#list .message", "Approved by you")
        await page.press("Alt", "1")
        await page.find("#list .message", "L-0001 is approved")
        await page.click("[popovertarget=standins]")
        await page.find("#standins", "operaton: http://127.0.0.1:")
        if picture := os.environ.get("README_PICTURE"):
            await page.screenshot(Path(picture))
        assert not [line for line in await page.console() if "favicon" not in line]


async def run_for_a_while(folder: Path, visit: Callable[[str], Awaitable[None]]) -> tuple[str, str]:
    """Start both, visit the page, stop both; return what was printed, and the engine's id of the leave process."""
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
            await visit(f"http://127.0.0.1:{port}/")
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
@pytest.mark.timeout(2 * START_S)
@pytest.mark.skipif(NO_JAVA, reason="Java 17 and Maven are not installed")
async def test_from_one_command_to_an_approved_leave_and_the_engine_keeps_what_it_has(tmp_path: Path) -> None:
    """The leave is played where there is a browser. If `README_PICTURE` is set to a path, the README's picture with an
    engine is taken there."""
    first, deployed = await run_for_a_while(tmp_path, open_page if ABSENT else play_leave)
    assert "Countersign is running" in first
    again, kept = await run_for_a_while(tmp_path, open_page)
    assert kept == deployed and "Traceback" not in first + again, "its data are in a file, and nothing is new"


def test_without_java_or_maven_a_sentence_says_so(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "DATA_DIR": str(tmp_path / "data")}
    end = subprocess.run([*WORDS, "flowable"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert end.returncode == 1 and end.stderr.splitlines()[-1] == (
        "countersign: java and mvn not found: the engines need Java 17 and Maven"
    )
