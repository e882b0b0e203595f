"""The world of one scenario: workspace, mailbox and model on real sockets, and the whole bot connected to them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from aiohttp import web
from aiohttp.typedefs import Middleware

from bot.agent.model import Model
from bot.app.build import Application, build_app
from bot.app.services import FeishuApp, ModelEndpoint, Services
from bot.app.settings import IsolatedSettings
from bot.approvals.outbox import relay_events
from bot.core.clock import Clock
from bot.core.errors import CountersignError
from bot.core.timing import Timing
from bot.dev.evaluation.scenario import Scenario
from bot.dev.evaluation.shown_blocks import Message
from bot.dev.mailbox import Mailbox
from bot.dev.rehearsal.serve import build_model_routes
from bot.dev.standins import LARGEST, start_listening
from bot.dev.workspace import server
from bot.dev.workspace.delivery import DeliveryTiming
from bot.dev.workspace.driver import WorkspaceDriver
from bot.dev.workspace.feishu.driver import FeishuDriver
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.feishu.world import APP_ID, FeishuSetup
from bot.dev.workspace.workspace import Workspace, WorkspaceSetup
from bot.dev.workspace.world import WorkspaceMember, World, read_world
from bot.queue.keys import Keys
from bot.redis.connect import connect_redis
from bot.storage.preferences import Preferences, PreferenceStore

BOT_TOKEN, APP_TOKEN, SECRET = "xoxb-local-evaluation", "xapp-local-evaluation", "evaluation"
OUTBOX = "cs:{wf}:outbox"
DEMO = Path(server.__file__).parents[1] / "demo"
LOOK_S = 0.02
"""Seconds between two looks for work that becomes due in a moment, or that lies in a lane without a holder."""
ZONE = ZoneInfo("Asia/Shanghai")


class AdjustableClock:
    """Real time plus an offset that can be increased."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.offset


class NotIdleError(Exception):
    """Raised when the bot does not come to rest in time."""


@dataclass
class ScenarioEnvironment:
    """The world of one scenario, with the bot at work in it."""

    world: World
    driver: WorkspaceDriver
    mailbox: Mailbox
    bot: Application
    today: datetime
    """Time at which the scenario takes place."""
    clock: AdjustableClock
    idle_timeout_s: float
    """Seconds that the bot may take to come to rest."""
    unnamed: frozenset[str] = frozenset()
    """Names of pictures that the platform does not tell the bot."""

    @property
    def person_ids(self) -> Mapping[str, str]:
        """Handle → person id."""
        return {person.name: person.id for person in self.world.people}

    def get_channel_id(self, act_where: str, person: str) -> str:
        """Return the id of a channel by its name, or of the person's DM if the name is empty."""
        named = {room.name: room.id for room in self.world.rooms}
        return named[act_where] if act_where else self.driver.get_dm_id(person)

    def list_bot_messages(self, room: str) -> list[Message]:
        """List the bot's messages in a room, oldest first."""
        return [one for one in self.driver.list_messages(room) if one.get("user") == self.driver.ws.app.user]

    async def wait_until_idle(self) -> None:
        """Wait until every event is taken and no lane has work left. Raises `NotIdleError`.

        The engine's events are relayed here at once. An event that cannot be relayed is retried by the bot's own relay.
        """
        try:
            async with asyncio.timeout(self.idle_timeout_s):
                while True:
                    await self.driver.wait_until(lambda: not self.driver.ws.delivery.waiting, self.idle_timeout_s)
                    await self.bot.worker.wait_until_idle()
                    with contextlib.suppress(CountersignError):
                        await relay_events(self.bot.dispatcher.cards)
                    if not self.driver.ws.delivery.waiting and not await has_pending_work(self.bot):
                        return
                    await asyncio.sleep(LOOK_S)
        except TimeoutError as error:
            raise NotIdleError(
                f"still at work after {self.idle_timeout_s:.0f} s; last said: {self.driver.describe_last_messages()}"
            ) from error


async def has_pending_work(bot: Application) -> bool:
    """Return whether a lane has work left, or the engine has events to announce."""
    keys = Keys()
    async with bot.stores.redis.pipeline(transaction=True) as at_once:  # sequential counts would miss work that moves
        for place in (*(keys.build_key(n, "z") for n in range(keys.partitions)), OUTBOX):
            at_once.zcard(place)
        return any(await at_once.execute())


async def advance_clock(bot: Application, clock: AdjustableClock, hours: float) -> None:
    """Advance the bot's clock, and move the timers that are due by then into their lanes.

    Timers go by the server's clock, which stands still here. Due timers are therefore set back by the clock's offset;
    the others stay exactly as the bot has set them."""
    keys, redis = Keys(), bot.stores.redis
    clock.offset += timedelta(hours=hours)
    for partition in range(keys.partitions):
        schedule = keys.build_key(partition, "t")
        for timer in await redis.zrangebyscore(schedule, "-inf", clock().timestamp() * 1000):
            await redis.zincrby(schedule, -clock.offset.total_seconds() * 1000, str(timer))
    await bot.stores.lanes.move_due_timers()


@contextlib.asynccontextmanager
async def open_environment(
    scenario: Scenario,
    redis_url: str,
    folder: Path,
    *,
    style: str,
    chat: str,
    open_model: Callable[[str], contextlib.AbstractAsyncContextManager[Model]],
    patience_s: float,
) -> AsyncIterator[ScenarioEnvironment]:
    """Open the world and the bot.

    `redis_url` is an empty database for this scenario alone, and `folder` takes its files. `open_model` opens the
    model, given the address of the rehearsal's endpoint."""
    clock = AdjustableClock()
    today = datetime.combine(scenario.today, time(10), ZONE).astimezone(UTC)
    async with contextlib.AsyncExitStack() as stack:
        mailbox = Mailbox()
        smtp_port = await mailbox.start()
        stack.push_async_callback(mailbox.close)
        names = (file.name for act in scenario.act for file in act.files)
        unnamed = frozenset(names if chat == "feishu" else ())
        driver = _open_workspace(chat, _build_world(scenario), mailbox)
        workspace, world = driver.ws, driver.ws.world
        await save_languages(redis_url, world.people if chat == "feishu" else ())
        address = await stack.enter_async_context(serve_workspace_and_model(workspace))
        services = Services(
            redis_url=redis_url,
            slack_api_url=f"{address}/api/",
            bot_token=BOT_TOKEN,
            app_token=APP_TOKEN,
            signing_secret=SECRET,
            feishu=FeishuApp(url=address, app_id=APP_ID, secret=SECRET) if chat == "feishu" else None,
            model=ModelEndpoint(url=f"{address}/v1", key="none", name="evaluation"),
            smtp_url=f"smtp://127.0.0.1:{smtp_port}",
            directory_file=_write_directory_file(scenario, folder),
            handbook_dir=_write_handbook_folder(scenario, folder),
        )
        chosen: dict[str, Any] = {str(name): value for name, value in scenario.setting.items()}
        settings = IsolatedSettings(post_spacing_ms=1, lease_seconds=30.0, react_style=style, data_dir=folder, **chosen)
        timing = Timing(
            poll_s=0.25, outage_retry_s=0.05, grace_s=5, clock=Clock(read_now=clock, read_today=lambda: today)
        )
        model = await stack.enter_async_context(open_model(f"{address}/v1"))
        bot = await stack.enter_async_context(build_app(settings, services, timing=timing, model=model))
        await stack.enter_async_context(bot.connect())
        here = ScenarioEnvironment(world, driver, mailbox, bot, today, clock, patience_s, unnamed)
        await here.driver.wait_for_sockets()
        working = asyncio.create_task(bot.worker.run())
        try:
            yield here
        finally:
            bot.worker.stop()
            await working


def _open_workspace(chat: str, world: World, mailbox: Mailbox) -> WorkspaceDriver:
    timing = DeliveryTiming(ack=5.0, redelivery=(0.1, 0.2, 0.3))
    if chat == "feishu":
        app = FeishuSetup(app_secret=SECRET, timing=timing)
        return FeishuDriver(FeishuWorkspace(app, world=world, mailbox=mailbox))
    setup = WorkspaceSetup(BOT_TOKEN, APP_TOKEN, SECRET, timing=timing)
    return WorkspaceDriver(Workspace(setup, world=world, mailbox=mailbox))


async def save_languages(redis_url: str, people: Iterable[WorkspaceMember]) -> None:
    """Save English as the choice of everybody who does not write Chinese. Feishu does not tell a person's language."""
    async with contextlib.aclosing(await connect_redis(redis_url)) as redis:
        for one in people:
            if one.person.language != "zh" and not one.is_bot:
                await PreferenceStore(redis, Keys()).save_preferences(one.id, Preferences(language="en"))


@contextlib.asynccontextmanager
async def serve_workspace_and_model(workspace: Workspace, *middlewares: Middleware) -> AsyncIterator[str]:
    """Serve the workspace and the rehearsal model; yield their common address."""
    app = web.Application(client_max_size=LARGEST, middlewares=middlewares)
    app.add_routes([*server.build_routes(workspace), *build_model_routes()])
    async with contextlib.AsyncExitStack() as stack:
        address = await start_listening(stack, app, 0)
        stack.push_async_callback(workspace.close)
        workspace.start_delivery(address)
        yield address


def _build_world(scenario: Scenario) -> World:
    demo = read_world()
    added = (
        WorkspaceMember(
            id=f"U9{one.name.upper()}",
            email=f"{one.name}@example.com",
            tz="Asia/Shanghai",
            **one.model_dump(exclude={"manager", "roles"}),
        )
        for one in scenario.person
    )
    return replace(demo, people=(*demo.people, *added))


def _write_directory_file(scenario: Scenario, folder: Path) -> Path:
    """Write the demo's directory file with the scenario's people added."""
    text = (DEMO / "directory.toml").read_text(encoding="utf-8")
    for one in scenario.person:
        manager = f'manager = "{one.manager}@example.com"\n' if one.manager else ""
        text += f'\n[[person]]\nemail = "{one.name}@example.com"\ntitle = {json.dumps(one.title)}\n'
        text += f"{manager}roles = {json.dumps(one.roles)}\n"
    file = folder / "directory.toml"
    file.write_text(text, encoding="utf-8")
    return file


def _write_handbook_folder(scenario: Scenario, folder: Path) -> Path:
    if not scenario.handbook:
        return DEMO / "handbook"
    pages = folder / "handbook"
    pages.mkdir()
    for page in scenario.handbook:
        (pages / page.file).write_text(page.text, encoding="utf-8")
    return pages
