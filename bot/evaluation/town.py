"""The world around one scenario: workspace, mailbox and model on real sockets, and the whole bot connected to them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from aiohttp import web
from aiohttp.typedefs import Middleware
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from bot.base import Tuning
from bot.evaluation.scenario import Member, Scenario
from bot.local.mailbox import Mailbox
from bot.local.rehearsal.serve import Rehearsal
from bot.local.workspace import server
from bot.local.workspace.delivery import Timing
from bot.local.workspace.driver import Driver
from bot.local.workspace.workspace import Setup, Workspace
from bot.local.workspace.world import Person, World, read_world
from bot.main import Bot, assembled
from bot.outside import Outside
from bot.react.model import Model
from bot.serving import connected
from bot.settings import Settings
from bot.store.keys import Keys

BOT_TOKEN, APP_TOKEN, SECRET = "xoxb-local-evaluation", "xapp-local-evaluation", "evaluation"
OUTBOX = "cs:{wf}:outbox"
LOOK_S = 0.02
"""How often it is looked whether the bot has come to rest."""
ZONE = ZoneInfo("Asia/Shanghai")


class Apart(Settings):
    """Settings that only the scenario makes: nothing of this machine's environment counts."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


class Clock:
    """Real time, moved forward at will."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class Restless(Exception):
    """The bot did not come to rest in time."""


@dataclass
class Town:
    """One scenario's world, with the bot at work in it."""

    world: World
    driver: Driver
    mailbox: Mailbox
    bot: Bot
    today: datetime
    """The day of the scenario."""
    clock: Clock
    patience_s: float
    """How long the bot may take to come to rest."""

    @property
    def ids(self) -> Mapping[str, str]:
        """Handle → person id."""
        return {person.name: person.id for person in self.world.people}

    def room(self, act_where: str, person: str) -> str:
        """A channel by its name, or somebody's DM."""
        named = {name: id for id, name in self.world.channels}
        return named[act_where] if act_where else self.driver.channel(person)

    async def rest(self) -> None:
        """Until every event was taken and no lane has anything left to do. Raises Restless."""
        try:
            async with asyncio.timeout(self.patience_s):
                while True:
                    if not self.driver.ws.delivery.waiting and not await busy(self.bot):
                        return
                    await asyncio.sleep(LOOK_S)
        except TimeoutError as error:
            raise Restless(
                f"still at work after {self.patience_s:.0f} s; last said: {self.driver.last_said()}"
            ) from error

    async def pass_time(self, hours: float) -> None:
        await hours_pass(self.bot, self.clock, hours)


async def busy(bot: Bot) -> bool:
    """A lane has something left to do, or the engine to announce."""
    keys = Keys()
    async with bot.redis.pipeline(transaction=True) as at_once:  # one after another would miss what moves on
        for place in (*(keys.key(n, "z") for n in range(keys.partitions)), OUTBOX):
            at_once.zcard(place)
        return any(await at_once.execute())


async def hours_pass(bot: Bot, clock: Clock, hours: float) -> None:
    """The bot's clock goes ahead, and what it has set a timer for by then is in its lane when this returns. (Timers go
    by the server's clock, which stands still here: those that are not due stay exactly as the bot has set them.)"""
    keys, redis = Keys(), bot.redis
    clock.ahead += timedelta(hours=hours)
    for partition in range(keys.partitions):
        schedule = keys.key(partition, "t")
        for timer in await redis.zrangebyscore(schedule, "-inf", clock().timestamp() * 1000):
            await redis.zincrby(schedule, -clock.ahead.total_seconds() * 1000, str(timer))
    await bot.intake.lanes.pump()


@contextlib.asynccontextmanager
async def town(
    scenario: Scenario,
    redis_url: str,
    folder: Path,
    *,
    style: str,
    opened: Callable[[str], contextlib.AbstractAsyncContextManager[Model]],
    patience_s: float,
) -> AsyncIterator[Town]:
    """Opens the world and the bot. `redis_url`: an empty database, for this one alone. `folder`: for its files.
    `opened`: opens the model; given the address of the rehearsal's endpoint."""
    world, clock = _world(scenario), Clock()
    async with contextlib.AsyncExitStack() as stack:
        mailbox = Mailbox()
        smtp_port = await mailbox.start()
        stack.push_async_callback(mailbox.close)
        workspace = Workspace(
            Setup(BOT_TOKEN, APP_TOKEN, SECRET, timing=Timing(ack=5.0, redelivery=(0.1, 0.2, 0.3))),
            world=world,
            mailbox=mailbox,
        )
        address = await stack.enter_async_context(site(workspace))
        outside = Outside(
            redis_url=redis_url,
            slack_api_url=f"{address}/api/",
            bot_token=BOT_TOKEN,
            app_token=APP_TOKEN,
            signing_secret=SECRET,
            model_url=f"{address}/v1",
            model_key="none",
            model_name="evaluation",
            smtp_url=f"smtp://127.0.0.1:{smtp_port}",
            directory_file=_directory(scenario, folder),
            handbook_dir=_handbook(scenario, folder),
        )
        settings = Apart(post_spacing_ms=1, lease_seconds=30.0, react_style=style, **_set(scenario))
        model = await stack.enter_async_context(opened(f"{address}/v1"))
        bot = await stack.enter_async_context(
            assembled(settings, outside, tuning=_tuning(scenario, clock), model=model)
        )
        await stack.enter_async_context(connected(bot, settings, outside))
        here = Town(world, Driver(workspace), mailbox, bot, _ten_o_clock(scenario), clock, patience_s)
        await here.driver.connected()
        await stack.enter_async_context(_at_work(bot))
        yield here


def _set(scenario: Scenario) -> dict[str, Any]:
    return {str(name): value for name, value in scenario.setting.items()}


def _ten_o_clock(scenario: Scenario) -> datetime:
    """In the morning of the scenario's day, in Shanghai."""
    return datetime.combine(scenario.today, time(10), ZONE).astimezone(UTC)


def _tuning(scenario: Scenario, clock: Clock) -> Tuning:
    day = _ten_o_clock(scenario)
    return Tuning(sweep_s=0.1, relay_s=0.03, tick_s=0.1, down_s=0.05, grace_s=5, now=clock, today=lambda: day)


@contextlib.asynccontextmanager
async def site(workspace: Workspace, *middlewares: Middleware) -> AsyncIterator[str]:
    """The workspace's address; the rehearsal model answers there too."""
    app = web.Application(client_max_size=16 * 1024 * 1024, middlewares=middlewares)
    app.add_routes([*server.routes(workspace), *Rehearsal().routes()])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        workspace.started(address)
        yield address
    finally:
        await workspace.close()
        await runner.cleanup()


@contextlib.asynccontextmanager
async def _at_work(bot: Bot) -> AsyncIterator[None]:
    working = asyncio.create_task(bot.worker.run())
    try:
        yield
    finally:
        bot.worker.stop()
        await working


def _world(scenario: Scenario) -> World:
    demo = read_world()
    return replace(demo, people=(*demo.people, *map(_person, scenario.person)))


def _person(one: Member) -> Person:
    return Person(
        id=f"U9{one.name.upper()}",
        name=one.name,
        real_name=one.real_name,
        display_name=one.display_name,
        title=one.title,
        email=f"{one.name}@example.com",
        locale=one.locale,
        tz="Asia/Shanghai",
    )


def _demo(name: str) -> Path:
    return Path(server.__file__).parent.parent / "demo" / name


def _directory(scenario: Scenario, folder: Path) -> Path:
    """The demo's, with the scenario's people added."""
    text = _demo("directory.toml").read_text(encoding="utf-8")
    for one in scenario.person:
        manager = f'manager = "{one.manager}@example.com"\n' if one.manager else ""
        text += f'\n[[person]]\nemail = "{one.name}@example.com"\ntitle = {json.dumps(one.title)}\n'
        text += f"{manager}roles = {json.dumps(one.roles)}\n"
    file = folder / "directory.toml"
    file.write_text(text, encoding="utf-8")
    return file


def _handbook(scenario: Scenario, folder: Path) -> Path:
    if not scenario.handbook:
        return _demo("handbook")
    pages = folder / "handbook"
    pages.mkdir()
    for page in scenario.handbook:
        (pages / page.file).write_text(page.text, encoding="utf-8")
    return pages
