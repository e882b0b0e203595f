"""An office for stories: the local workspace, the rehearsal model and the mailbox on real sockets, and the real bot.

The bot runs in this process (`opened`) or as a separate process that can be killed (`spawned`). Either way it is the
production composition, connected by Socket Mode, with a real server of the Redis protocol."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler

from bot.agent.model import Model
from bot.app.build import Application, build_app
from bot.app.services import FeishuApp, ModelEndpoint, Services
from bot.app.settings import IsolatedSettings, Settings
from bot.core.clock import Clock
from bot.core.timing import Timing
from bot.dev.evaluation.environment import AdjustableClock, has_pending_work, save_languages, serve_workspace_and_model
from bot.dev.evaluation.shown_blocks import find_block_id, list_buttons, read_message_key, read_message_text
from bot.dev.mailbox import Mailbox
from bot.dev.workspace import methods_files
from bot.dev.workspace.delivery import DeliveryTiming
from bot.dev.workspace.feishu.methods import build_file_key
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.feishu.world import APP_ID, FeishuSetup, convert_id
from bot.dev.workspace.workspace import Workspace, WorkspaceChange, WorkspaceSetup
from bot.dev.workspace.world import WorkspaceMember, read_world
from bot.features import retry
from bot.features.approver_question import MANAGER_CHOICE
from bot.ops.health import attach_health
from bot.queue.keys import Keys
from bot.queue.store_watch import PauseReason
from bot.storage.approvals import ApprovalStore
from bot.storage.dead_letters import DeadLetter, DeadLetterStore
from bot.storage.journal import JournalRecord
from bot.storage.spending import UsageRow
from tests.harness.app_calls import watch_calls
from tests.harness.command_server import INHERITED, SET_TODAY
from tests.harness.forked import Program, fork_process
from tests.harness.hands import Hands, build_hands
from tests.harness.http_delivery import use_http_delivery
from tests.harness.store_changes import EMPTIED, wait_for_store
from tests.harness.tied import build_tied_command, open_tie

ROOT = Path(__file__).parent.parent.parent
DEMO = ROOT / "bot" / "dev" / "demo" / "directory.toml"
CHAT = os.environ.get("STORY_CHAT", "slack")
"""The platform on which the stories are told: `STORY_CHAT=feishu` tells them on Feishu."""
POSTING = "POST im/v1/messages" if CHAT == "feishu" else "chat.postMessage"
"""Name of the call by which the bot posts a message."""


def name_id(id: str) -> str:
    """Return the id that a person or a channel of the demo has on this platform."""
    return convert_id(id) if CHAT == "feishu" else id


ZHANG, LI, WANG, ZHAO, ADMIN = map(name_id, ("U01ZHANG", "U02LI", "U03WANG", "U04ZHAO", "U05ADMIN"))
ANN = WorkspaceMember(
    id=name_id("U06ANN"), name="ann", real_name="Ann Smith", email="ann@example.com", locale="en-US", tz="Asia/Shanghai"
)
"""Ann works for Li Si and writes English; she is in the office besides the demo's people."""
GENERAL = name_id("C01GENERAL")
BOT_TOKEN, APP_TOKEN, SECRET = "xoxb-local-story", "xapp-local-story", "story-signing-secret"
PATIENCE_S, START_S = 40.0, 90.0
"""Time that a story waits for an event, and for a program that imports everything anew (s). Only failures take that
long."""
LATE_S = float(os.environ.get("LATE_ANSWERS_S", "0"))
"""Delay of every answer of the workspace (s): `LATE_ANSWERS_S=0.4` plays stories on a slow platform."""
TODAY = datetime(2026, 11, 23, 2, 0, tzinfo=UTC)
"""A Monday morning in Shanghai: stories about *tomorrow* must not depend on the day of the test."""
QUICK = Timing(
    poll_s=0.1, relay_pause_s=0.05, timer_pause_s=0.05, watch_pause_s=0.2, outage_retry_s=0.2, grace_s=5,
    file_patience_s=2,
)  # fmt: skip
T = TypeVar("T")


@dataclass(repr=False)  # asyncio describes what a fixture gives, twice: all of an office is four million characters
class Office:
    """The outside world of one story, and actions in it."""

    driver: Hands
    mailbox: Mailbox
    answering: asyncio.Event
    """The rehearsal model waits while this is not set."""
    redis_url: str
    address: str
    smtp_url: str
    model_url: str = ""
    """Address of another model than the rehearsal."""
    clock: AdjustableClock = field(default_factory=AdjustableClock)
    folder: Path = field(default_factory=Path)
    """The folder of all its files, deleted with the office."""
    bot: Application = field(init=False)
    """The bot that was opened last."""

    def __post_init__(self) -> None:
        self.directory_file, self.files_dir = self.folder / "directory.toml", self.folder / "files"
        ann = f'\n[[person]]\nemail = "{ANN.email}"\nmanager = "lisi@example.com"\n'
        self.directory_file.write_text(DEMO.read_text(encoding="utf-8") + ann, encoding="utf-8")

    def outside(self) -> Services:
        slack = {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN, "signing_secret": SECRET}
        return Services(
            redis_url=self.redis_url, smtp_url=self.smtp_url, slack_api_url=f"{self.address}/api/", **slack,
            feishu=FeishuApp(url=self.address, app_id=APP_ID, secret=SECRET) if CHAT == "feishu" else None,
            model=ModelEndpoint(url=self.model_url or f"{self.address}/v1", key="none", name="rehearsal"),
            directory_file=self.directory_file, handbook_dir=DEMO.parent / "handbook",
        )  # fmt: skip

    @contextlib.asynccontextmanager
    async def opened(
        self, *, model: Model | None = None, tuned: Mapping[str, Any] | None = None, **changes: Any
    ) -> AsyncIterator[Application]:
        """Run the bot in this process."""
        folders = {"files_dir": self.files_dir, "data_dir": self._make_data_dir()}
        settings = quick_settings(**{**folders, **changes})
        tuning = replace(QUICK, **{"clock": Clock(read_now=self.clock, read_today=lambda: TODAY), **(tuned or {})})
        await self._choose_languages()
        async with build_app(settings, self.outside(), timing=tuning, model=model) as bot, bot.connect():
            await self._reached(settings)
            self._wake_when_work_is_held(bot)
            attach_health(bot)
            working = asyncio.create_task(bot.worker.run())
            self.bot = bot
            try:
                yield bot
            finally:
                bot.worker.stop()
                await working

    async def _choose_languages(self) -> None:
        """Let people who do not write Chinese choose their language. Feishu does not tell a person's language."""
        await save_languages(self.redis_url, self.driver.ws.state.people.values() if CHAT == "feishu" else ())

    def _make_data_dir(self) -> Path:
        """Make a folder for one bot: its notes about a store hold for this store only."""
        return Path(tempfile.mkdtemp(prefix="data", dir=self.folder))

    def wake(self) -> None:
        """Wake everybody who waits, after an event that the workspace does not know of."""
        self.driver.ws.notify_change("acks")

    def _wake_when_work_is_held(self, bot: Application) -> None:
        report = bot.stores.watch.report

        async def report_and_wake(reason: PauseReason, offset_ms: int) -> None:
            if report is not None:
                await report(reason, offset_ms)
            self.wake()

        bot.stores.watch.report = report_and_wake

    async def _reached(self, settings: Settings) -> None:
        """Wait until the workspace delivers to the bot, over its socket or to its request URL."""
        mode = settings.feishu_mode if CHAT == "feishu" else settings.slack_mode
        if mode == "http":
            await use_http_delivery(self.driver.ws, f"http://127.0.0.1:{settings.http_port}/{CHAT}/events")
        else:
            await self.driver.wait_for_sockets(timeout=PATIENCE_S)

    @property
    def shell(self) -> dict[str, str]:
        """The settings of a shell that knows all addresses."""
        slack = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN, "SLACK_API_URL": f"{self.address}/api/"}
        feishu = {"FEISHU_APP_ID": APP_ID, "FEISHU_APP_SECRET": SECRET, "FEISHU_API_URL": self.address}
        return {
            "REDIS_URL": self.redis_url,
            **(feishu if CHAT == "feishu" else slack),
            "OPENAI_BASE_URL": f"{self.address}/v1",
            "SMTP_URL": self.smtp_url,
        }

    @contextlib.asynccontextmanager
    async def spawned(self, source: str = "", **changes: str) -> AsyncIterator[Process]:
        """Run the bot as a separate process: `countersign run`, as in production except for the day, which is the
        story's. `source`: code that an interpreter runs instead, with `run` as its argument."""
        folders = {"FILES_DIR": str(self.files_dir), "DATA_DIR": str(self._make_data_dir())}
        quick = {"POST_SPACING_MS": "1", "LEASE_SECONDS": "1.5"}
        env = {
            "DAY_OF_STORY": TODAY.isoformat(), **INHERITED, "PYTHONPATH": str(ROOT), **self.shell,
            "OPENAI_MODEL": "rehearsal", "DIRECTORY_FILE": str(self.directory_file), **folders, **quick, **changes,
        }  # fmt: skip
        await self._choose_languages()
        child: Program
        cwd = DEMO.parent  # a folder without a foreign .env
        if source:
            command = build_tied_command(sys.executable, "-c", f"{SET_TODAY}\n{source}", "run")
            child = await asyncio.create_subprocess_exec(*command, cwd=cwd, env=env, pass_fds=[open_tie()])
        else:
            with open(os.dup(2), "wb") as log:
                child = await fork_process("bot", "run", cwd=cwd, env=env, log=log)
        process = Process(child)
        try:
            await self.driver.wait_for_sockets(timeout=START_S)
            yield process
        finally:
            await process.kill()

    def once(self, when: Callable[[], object], act: Callable[[], object]) -> None:
        """Call `act` at the first change of the workspace after which `when` is true, before anybody hears of the
        change."""

        def look(_: WorkspaceChange) -> None:
            if when():
                self.driver.ws.changes.listeners.remove(look)
                act()

        self.driver.ws.changes.listeners.append(look)

    def killing(self, process: Process, when: Callable[[], object]) -> None:
        """Send SIGKILL at the first change of the workspace after which `when` is true; the bot no longer hears of the
        change."""
        child = process.child
        self.once(lambda: child.returncode is None and when(), lambda: child.send_signal(signal.SIGKILL))

    # People

    def name_file(self, id: str, *, is_kept: bool = True) -> str:
        """Return the name that the bot shows for a sent file. Feishu names no picture: the bot names it by its key, and
        by its type once it has its bytes."""
        file = self.driver.ws.files[id]
        type = methods_files.detect_mime_type(file)
        if CHAT != "feishu" or type == methods_files.OTHER:
            return file.name
        return f"image-{build_file_key(file, 'image')[-4:]}" + f".{type.partition('/')[2]}" * is_kept

    def find_file_id(self, id: str) -> str:
        """Return the id by which the bot knows a sent file."""
        if CHAT != "feishu":
            return id
        sent = [one for room in self.driver.ws.state.rooms.values() for one in room.messages.values()]
        files = [(message["ts"], file) for message in sent for file in message.get("files", ())]
        return next(f"{ts}/{file['type']}/{file['key']}" for ts, file in files if file["id"] == id)

    def dm(self, person: str) -> str:
        return self.driver.get_dm_id(person)

    async def says(
        self, person: str, text: str, *, channel: str = "", thread: str | None = None, files: Sequence[str] = ()
    ) -> str:
        """Write to the bot; return the thread in which it will answer. `files`: ids of uploaded files."""
        ts = await self.driver.send_message(person, channel or self.dm(person), text, thread, files=files)
        return thread or ts

    async def answer(self, person: str, text: str, *, channel: str = "", files: Sequence[str] = ()) -> str:
        """Write to the bot; return its final answer with the receipt."""
        channel = channel or self.dm(person)
        before = len(self.finals(channel))
        await self.says(person, text, channel=channel, files=files)
        return await self.until(lambda: "".join(self.finals(channel)[before:][:1]))

    def finals(self, channel: str) -> list[str]:
        """List final answers in a channel, oldest first: those with a receipt, and answers to a command."""
        ends = (":final", ":command", ":empty", ":long")
        return [read_message_text(m) for m in self.posts(channel) if read_message_key(m).endswith(ends)]

    def posts(self, channel: str) -> list[dict[str, Any]]:
        """List the bot's messages in a channel."""
        return [m for m in self.driver.list_messages(channel) if m.get("user") == self.driver.ws.app.user]

    def steps(self, channel: str) -> list[str]:
        """List the steps that people see there, in either display."""
        lines = [read_message_text(m) for m in self.posts(channel) if ":line:" in read_message_key(m)]
        tasks = [t for m in self.posts(channel) for block in m.get("blocks") or [] for t in block.get("tasks") or []]
        return [*lines, *(read_message_text({"text": t["title"], "blocks": t.get("details")}) for t in tasks)]

    def said(self, channel: str) -> str:
        return "\n".join(read_message_text(m) for m in self.posts(channel))

    # Cards

    def cards(self, channel: str) -> list[dict[str, Any]]:
        """Messages of the bot with buttons that can be pressed now, oldest first; without stops and questions."""
        no_card = {f"cs:{retry.CHOICE}", f"cs:{MANAGER_CHOICE}"}
        return [m for m in self.posts(channel) if any(one["action_id"] not in no_card for one in list_buttons(m))]

    def stops(self, channel: str) -> list[dict[str, Any]]:
        """List the bot's messages that offer to try again."""
        again = f"cs:{retry.CHOICE}"
        return [m for m in self.posts(channel) if any(one["action_id"] == again for one in list_buttons(m))]

    async def card(self, channel: str, having: str = "", count: int = 1) -> dict[str, Any]:
        """Wait for a card whose text contains `having`; return the newest."""

        def list_cards() -> list[dict[str, Any]]:
            return [m for m in self.cards(channel) if having in read_message_text(m)][count - 1 :]

        return (await self.until(list_cards))[-1]

    async def press(
        self, person: str, card: dict[str, Any], choice: str, *, channel: str = "", force: bool = False
    ) -> Any:
        """Press a button of a card."""
        where = channel or next(c for c in self.channels() if card["ts"] in self.driver.ws.state.rooms[c].messages)
        button = next((b for b in list_buttons(card) if b["action_id"] == f"cs:{choice}"), None)
        shown = button or next(list_buttons(card), {})  # a decided card has none: use the last value
        forged = {"force": True, "value": shown.get("value")} if force else {}
        return await self.driver.click_button(person, where, card["ts"], f"cs:{choice}", **forged)

    async def fill(self, person: str, /, **values: str | list[str]) -> Any:
        """Fill in the dialog that the person sees; values by field name, several people as a list."""
        view = await self.until(lambda: self.driver.find_top_view(person))
        filled = {find_block_id(view, name): text for name, text in values.items()}
        return await self.driver.submit_view(person, view["id"], filled)

    def channels(self) -> list[str]:
        return list(self.driver.ws.state.rooms)

    def whispers(self, person: str) -> str:
        """Return the messages that only this person sees."""
        return "\n".join(read_message_text(m) for m in self.driver.list_ephemerals(person))

    @property
    def mails(self) -> list[dict[str, Any]]:
        return self.mailbox.mails

    # Internal state

    async def until(self, predicate: Callable[[], T], timeout: float = PATIENCE_S) -> T:
        return await self.driver.wait_until(predicate, timeout)

    async def until_stored(self, look: Callable[[], Awaitable[T]], timeout: float = PATIENCE_S) -> T:
        """Wait for a state of the store: `look` is called again at every change there."""
        return await wait_for_store(self.bot.stores.redis, look, timeout_s=timeout)

    async def noted(self, kind: str) -> list[JournalRecord]:
        """Wait until the journal has this kind of record; return all of them."""
        return await self.until_stored(lambda: self.journal(kinds=[kind]))

    async def journal(self, **wanted: Any) -> list[JournalRecord]:
        return [record async for record in self.bot.stores.journal.stream_records(**wanted)]

    async def kinds(self) -> list[str]:
        return [record.kind for record in await self.journal()]

    async def quiet(self) -> None:
        """Wait until the bot has taken every event and no lane has anything left to do."""
        await self.until(lambda: not self.driver.ws.delivery.waiting)

        async def is_idle() -> bool:
            return not await has_pending_work(self.bot)

        await wait_for_store(self.bot.stores.redis, is_idle, events=EMPTIED, timeout_s=PATIENCE_S)

    async def dead(self) -> list[DeadLetter]:
        """List dead letters that nobody has put back."""
        return await DeadLetterStore(self.bot.stores.redis, Keys()).list_dead_letters()

    async def usage_rows(self) -> list[UsageRow]:
        """List usage and ratings so far."""
        return await self.bot.stores.spending.list_usage_rows(2)

    @property
    def approvals(self) -> ApprovalStore:
        return self.bot.stores.approvals

    # Shorthands of many stories

    async def request_leave(self, person: str, text: str) -> str:
        """Go from a message to a confirmed request; return its id."""
        channel = self.dm(person)
        await self.says(person, text)
        await self.press(person, await self.card(channel, ""), "confirm")
        return await self.until(lambda: found_request(self.said(channel)))


@dataclass
class Process:
    """A bot process."""

    child: Program

    async def kill(self) -> None:
        if self.child.returncode is None:
            self.child.kill()
        await self.child.wait()


def quick_settings(**changes: Any) -> Settings:
    folder = changes.pop("data_dir", None) or tempfile.mkdtemp(prefix="data")
    return IsolatedSettings(**{"post_spacing_ms": 1, "lease_seconds": 15.0, "data_dir": Path(folder), **changes})


def open_workspace(timing: DeliveryTiming, **about: Any) -> Workspace:
    """Open the workspace of the platform on which the stories are told."""
    if CHAT == "feishu":
        keys = {"encrypt_key": SECRET, "verification_token": SECRET}
        return FeishuWorkspace(FeishuSetup(app_secret=SECRET, timing=timing, **keys), **about)
    return Workspace(WorkspaceSetup(BOT_TOKEN, APP_TOKEN, SECRET, timing=timing), **about)


@contextlib.asynccontextmanager
async def office(
    redis_url: str,
    *,
    more: Sequence[WorkspaceMember] = (),
    redelivery: tuple[float, ...] = (0.1, 0.2, 0.3),
    ack_s: float = 10,
) -> AsyncIterator[Office]:
    """Open the outside world. `more`: further people. `ack_s`: how long the platform waits for an acknowledgement. By
    default it is longer than the platform's own, because a bot on a busy machine may take longer."""
    mailbox, answering, demo = Mailbox(), asyncio.Event(), read_world()
    smtp_url = f"smtp://127.0.0.1:{await mailbox.start()}"
    world = replace(demo, people=(*demo.people, *(replace(one) for one in (ANN, *more))))  # of this office only
    timing = DeliveryTiming(ack=ack_s, trigger=10, redelivery=redelivery)
    workspace = open_workspace(timing, world=world, mailbox=mailbox)
    answering.set()

    @web.middleware
    async def think(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith("/v1/"):
            await answering.wait()
        return await handler(request)

    with tempfile.TemporaryDirectory(prefix="office") as files:
        try:
            async with serve_workspace_and_model(workspace, watch_calls(workspace), think) as address:
                driver = build_hands(workspace)
                driver.delay_answers(LATE_S)
                try:
                    yield Office(driver, mailbox, answering, redis_url, address, smtp_url, folder=Path(files))
                finally:
                    answering.set()
        finally:
            await mailbox.close()


def found_request(text: str) -> str:
    """Return the newest request id in a text."""
    found = re.findall(r"\b[LE]-\d{4}\b", text)
    return found[-1] if found else ""
