"""Processes beside the measured one: the mock endpoint, the workspace, the Redis server. All end with the context."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bot.redis.embedded import EmbeddedRedis
from tests.harness.command_server import INHERITED
from tests.qa.bench.job import Job, Result

ROOT = Path(__file__).parents[3]
PYTHON = sys.executable
PATIENCE_S = 900.0  # no program takes longer; one that does could not be measured


class NotMeasured(Exception):
    """A program did not give a result. `words`: its last ones."""

    def __init__(self, why: str, words: str = "") -> None:
        super().__init__(why)
        self.words = words


def environment() -> dict[str, str]:
    """What a child sees: nothing of ours that could change what it does but the time, and no proxy."""
    kept = ("HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "STORY_CHAT")
    return {name: os.environ[name] for name in kept if name in os.environ} | INHERITED | {"PYTHONPATH": str(ROOT)}


Child = subprocess.Popen[str]


@contextmanager
def child(module: str, *args: str, python: str = PYTHON, more: dict[str, str] | None = None) -> Iterator[Child]:
    """A process of ours with open input and output, gone when the context is left. `more`: of its environment."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [python, "-m", module, *args],
            cwd=ROOT,
            env=environment() | (more or {}),
            text=True,
            start_new_session=True,  # Ctrl-C is for us; what we have started is ended by us
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
        )
        try:
            yield process
        except NotMeasured as error:
            if error.words:
                raise
            said.seek(0)
            words = said.read()[-4000:].strip()
            raise NotMeasured(": ".join([str(error), *words.splitlines()[-1:]])[:300], words) from None
        finally:  # its input ends, then it has a moment, then it is killed
            for pipe in filter(None, (process.stdin, process.stdout)):
                with suppress(BrokenPipeError):
                    pipe.close()
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def service(module: str, *args: str, more: dict[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """A child that says where it is, or what it found, as JSON on its first line."""
    with child(module, *args, more=more) as process:
        yield heard(process)


def heard(process: Child) -> dict[str, Any]:
    """The next line of a child. Raises `NotMeasured` when it has ended instead."""
    assert process.stdout is not None
    if not (line := process.stdout.readline()):
        raise NotMeasured("ended early")
    return dict(json.loads(line))


def tell(process: Child, **order: Any) -> dict[str, Any]:
    """Tells a child to do something; its answer."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()
    return heard(process)


def measured(module: str, job: Job, python: str = PYTHON) -> Result:
    """Runs a program to its end. Raises `NotMeasured`."""
    with child(module, json.dumps(asdict(job)), python=python) as process:
        too_long = threading.Timer(PATIENCE_S, process.kill)
        too_long.daemon = True  # Ctrl-C may come before the next line: nobody waits for the timer then
        too_long.start()
        try:
            assert process.stdout is not None
            out = process.stdout.read()  # its input stays open: the end of that ends it
        finally:
            too_long.cancel()
        if process.wait() != 0 or not out.strip():
            raise NotMeasured(f"{module} ended with {process.returncode}")
        return Result(**json.loads(out.strip().splitlines()[-1]))


@contextmanager
def redis(program: str = "") -> Iterator[str]:
    """An embedded server with the flags we ship: every write is on disk before it is confirmed. `program`: another
    server than the bundled one."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        embedded = EmbeddedRedis(Path(folder), binary=program)
        url = asyncio.run(embedded.ensure_running())
        try:
            yield url
        finally:
            asyncio.run(embedded.close())


@contextmanager
def mock() -> Iterator[str]:
    with service("tests.qa.bench.mock") as where:
        yield str(where["url"])


def count_served(url: str) -> int:
    """How many model calls the mock has answered."""
    with closing(HTTPConnection(urlsplit(url).netloc)) as line:  # knows no proxy, which may be set for pip
        line.request("GET", "/served")
        return int(json.load(line.getresponse())["served"])
