"""The processes of a run: bots that are started again whenever they end, and the model."""

from __future__ import annotations

import asyncio
import atexit
import io
import json
import random
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import aiohttp

from bot.core.cancellation import cancel_and_wait
from tests.harness.command_server import CommandServer
from tests.harness.forked import ForkedProcess, fork_process
from tests.harness.office import CHAT
from tests.qa.chaos.outside import Outside
from tests.qa.chaos.plan import Plan, Wanted
from tests.qa.chaos.store import Absent
from tests.qa.company import build_bot_settings, build_chat_settings

ROOT = Path(__file__).parents[3]
SOURCES = ("bot", "tools", "tests/harness")  # what a bot is made of, and what forks it
CHAOS = {"tests/qa": "tests.qa.chaos.bot", "tests/chaos": "tests.chaos.bot"}
"""Folder of the bot of a chaos run → its module, here and in earlier versions."""
FORMER = (ROOT / "tests" / "former_version").read_text().strip()
AGAIN_S = 0.3  # between the end of a bot and its next start
LACKS = "countersign: "  # how it says why it cannot start
EXPECTED_ENDS = (0, -signal.SIGKILL)


@cache
def get_bot_server() -> CommandServer:
    """Forks the bots from a copy of the sources: whoever edits them meanwhile would mix versions in a run."""
    folder = Path(tempfile.mkdtemp(prefix="countersign-chaos-"))
    atexit.register(shutil.rmtree, folder)
    for name in (*SOURCES, "tests/qa"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(".*"))
    return CommandServer(folder)


@cache
def get_former_server(odd: bool) -> CommandServer:
    """Forks bots of the version before, as its own chaos run did. `odd`: as of `Wanted`. Raises Absent."""
    packed = _run_git("archive", FORMER, *SOURCES, find_former_chaos())
    folder = Path(tempfile.mkdtemp(prefix="countersign-former-"))
    atexit.register(shutil.rmtree, folder)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    if odd:
        store = folder / "bot" / "storage" / "approvals.py"
        store.write_text(store.read_text().replace('fields["proposal"]', 'fields["matter"]'))
    return CommandServer(folder)


@cache
def find_former_chaos() -> str:
    """Where the version before has the bot of a chaos run. Raises Absent where the checkout has no such commit."""
    if subprocess.run(["git", "cat-file", "-e", f"{FORMER}^{{commit}}"], cwd=ROOT, capture_output=True).returncode:
        raise Absent(f"this checkout has no commit {FORMER[:12]}: the version before cannot be run")
    found = _run_git("ls-tree", "-r", "--name-only", FORMER, *CHAOS).stdout.decode().splitlines()
    return next(folder for folder, module in CHAOS.items() if f"{module.replace('.', '/')}.py" in found)


def _run_git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True)


@dataclass
class BotProcess:
    """One place for a bot: the process that fills it changes. `is_former`: it is of the version before. `ends`: exit
    codes of the processes so far."""

    number: int
    folder: Path
    env: Mapping[str, str]
    is_former: bool = False
    is_odd: bool = False
    child: ForkedProcess | None = None
    ends: list[int] = field(default_factory=list)
    frozen: bool = False

    @property
    def log(self) -> Path:
        return self.folder / f"bot{self.number}.log"

    @property
    def alive(self) -> bool:
        return self.child is not None and self.child.returncode is None

    async def kept(self) -> None:
        """Runs it again and again, as an init system does."""
        server = await asyncio.to_thread(partial(get_former_server, self.is_odd) if self.is_former else get_bot_server)
        module = CHAOS[find_former_chaos() if self.is_former else "tests/qa"]
        while True:
            with self.log.open("ab") as log:
                self.child = await fork_process(module, cwd=self.folder, env=self.env, log=log, server=server)
            self.ends.append(await self.child.wait())
            await asyncio.sleep(AGAIN_S)

    def signal(self, number: int) -> None:
        if self.child is not None:
            self.child.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    async def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so long."""
        self.frozen = True
        self.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.signal(signal.SIGCONT)
            self.frozen = False

    async def replaced(self) -> None:
        """SIGTERM; returns when it has ended and the next one has begun to work."""
        child, ready = self.child, self.times("chaos.ready")
        self.signal(signal.SIGTERM)
        while self.child is child or self.times("chaos.ready") == ready:
            await asyncio.sleep(0.05)

    def lines(self) -> Iterator[dict[str, Any]]:
        """What it has logged; text that is no JSON as `{"event": text}`."""
        if not self.log.exists():
            return
        for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                told = json.loads(line)
            except ValueError:
                told = line
            yield told if isinstance(told, dict) else {"event": str(told), "level": "text"}

    @property
    def lacked(self) -> int:
        """How often it said, in no log line, why it could not start."""
        return sum(one.get("level") == "text" and one["event"].startswith(LACKS) for one in self.lines())

    def times(self, event: str) -> int:
        text = self.log.read_bytes() if self.log.exists() else b""
        return text.count(f'"{event}"'.encode())

    async def close(self) -> None:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        if self.child is not None:
            await self.child.wait()


@dataclass
class Town:
    """All bots of a run, and the address of its model."""

    bots: list[BotProcess]
    model: str
    crew: asyncio.TaskGroup
    keeping: dict[int, asyncio.Task[None]] = field(default_factory=dict)

    def keep(self, bot: BotProcess) -> None:
        self.keeping[bot.number] = self.crew.create_task(bot.kept(), name=f"bot {bot.number}")

    @property
    def folder(self) -> Path:
        return self.bots[0].folder

    @property
    def kept(self) -> int:
        """How many are to be at work."""
        return sum(not task.done() for task in self.keeping.values())

    def one(self, draw: int) -> BotProcess | None:
        """A victim among those at work, unless it would be the last one."""
        return random.Random(draw).choice(self.at_work) if len(self.at_work) > 1 else None

    @property
    def at_work(self) -> list[BotProcess]:
        return [bot for bot in self.bots if bot.alive and not bot.frozen]

    def odd_ends(self) -> list[str]:
        """Ends of bots that nobody caused. One that says what it lacks, and ends with 1, is simply started again."""
        odd: list[str] = []
        for bot in self.bots:
            ends = Counter(code for code in bot.ends if code not in EXPECTED_ENDS)
            ends[1] -= bot.lacked
            found = {code: times for code, times in ends.items() if times > 0}
            odd += [f"bot {bot.number} ended {times}× by itself with {code}" for code, times in found.items()]
        return odd

    async def count_replies(self) -> dict[str, int]:
        """Of the model, and its troubles."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.model}/counts") as answer:
            told: dict[str, int] = await answer.json()
            return told


@asynccontextmanager
async def started_model(wanted: Wanted, folder: Path) -> AsyncIterator[str]:
    """The scripted model, in a process of its own; its address."""
    rate = wanted.rates.only(wanted.faults).model
    arguments = ("--seed", str(wanted.seed), "--rate", str(rate), "--slow", str(wanted.reply_s * 1.5))
    server = await asyncio.to_thread(get_bot_server)
    child = await fork_process("tests.qa.chaos.model", *arguments, cwd=folder, env={}, server=server)
    try:
        assert child.stdout is not None
        told = await child.stdout.readline()
        assert told, "the model did not start"
        yield json.loads(told)["url"]
    finally:
        await child.close()


def environment(
    plan: Plan, out: Outside, model: str, redis_url: str, folder: Path, more: Mapping[str, str]
) -> dict[str, str]:
    """What a bot is told, as an administrator would tell it."""
    wanted = plan.wanted
    expiry = {"APPROVAL_TTL_HOURS": str(wanted.expires_s / 3600)} if "expiry" in wanted.faults else {}
    escalation = {"CHAOS_ENGINE_FASTER": str(wanted.engine_faster)} if "escalation" in wanted.faults else {}
    return {
        **build_bot_settings(folder, plan.directory, out.smtp_url, redis_url, model),
        **({"CHAOS_KEYS": str(out.keys_file)} if CHAT == "feishu" else {}),
        "MORNING_LIST": "09:30",
        "CHAOS_MORNING": str(folder / "morning"),
        "CHAOS_SPEED": str(wanted.speed),
        "POST_SPACING_MS": str(round(wanted.shorten("post_spacing_ms"))),
        "LEASE_SECONDS": str(wanted.lease_s),
        "REPLY_SECONDS": str(wanted.reply_s),
        **expiry,
        **escalation,
        **more,
    }


@asynccontextmanager
async def town(
    plan: Plan, out: Outside, redis_url: str, folder: Path, more: Mapping[str, str], crew: asyncio.TaskGroup
) -> AsyncIterator[Town]:
    """The bots of a plan, none at work yet, and the model. `more`: environment of the bots."""
    async with started_model(plan.wanted, folder) as model:
        out.keys_file = folder / "keys"
        env = environment(plan, out, model, redis_url, folder, more)
        own = [{**env, **build_chat_settings(f"{out.address}/bot{n}")} for n in range(plan.wanted.processes)]
        bots = [BotProcess(n, folder, one, n % plan.wanted.versions > 0, plan.wanted.odd) for n, one in enumerate(own)]
        opened = Town(bots, model, crew)
        try:
            yield opened
        finally:
            await cancel_and_wait(list(opened.keeping.values()))
            await asyncio.gather(*(bot.close() for bot in bots))
