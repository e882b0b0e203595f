"""One run: everything opened, people and faults let loose, calm, rest, facts."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.core.cancellation import cancel_and_wait
from bot.core.errors import StoreUnavailableError
from bot.redis.connect import connect_redis, translate_redis_errors
from tests.chaos import facts
from tests.chaos.facts import Facts
from tests.chaos.outside import Outside, outside
from tests.chaos.people import People
from tests.chaos.plan import Plan, Strike, Wanted, planned
from tests.chaos.store import Store, opened
from tests.chaos.town import BotProcess, Town, town

REST_S = 60.0
"""How long everything may take to come to rest once it is calm, without any progress."""
MET_S = 1.5
"""How long a fault waits for a bot that is in the middle of something."""
STARTED_S = 60.0
"""How long bots may take to start and to connect."""
TRIED = 10
"""So often a fault looks for a bot that it may hit."""
STILL = 3
"""So many looks in a row at which nothing was under way are rest."""

Tell = Callable[[str], None]


@dataclass
class Running:
    """A run under way. `crew`: what happens beside it; whatever fails there ends it at once."""

    plan: Plan
    store: Store
    out: Outside
    town: Town
    people: People
    crew: asyncio.TaskGroup
    counts: Counter[str] = field(default_factory=Counter)
    at_work: set[asyncio.Task[None]] = field(default_factory=set)

    async def begin(self, *bots: BotProcess) -> None:
        """These work from now on, or all; returns when they are connected."""
        for bot in bots or self.town.bots:
            self.town.keep(bot)
        await self.out.driver.wait_for_sockets(self.town.kept, timeout=STARTED_S)

    @asynccontextmanager
    async def pressing(self) -> AsyncIterator[None]:
        """Meanwhile people press whatever has buttons."""
        task = self.crew.create_task(self.people.press())
        try:
            yield
        finally:
            await cancel_and_wait([task, *self.people.at_work])

    # Faults

    async def strikes(self) -> None:
        """The big faults of the plan, each at its time, whatever else is broken then."""
        began = asyncio.get_running_loop().time()
        for strike in self.plan.strikes:
            await asyncio.sleep(began + strike.at_s - asyncio.get_running_loop().time())
            self._beside(self._strike(strike))
        while self.at_work:
            await asyncio.wait(self.at_work)

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.crew.create_task(work)
        self.at_work.add(task)
        task.add_done_callback(self.at_work.discard)

    async def _strike(self, strike: Strike) -> None:
        match strike.kind:
            case "kill" | "stop":
                await self._bot(strike)
            case "redis":
                self.counts["redis"] += 1
                await self.store.strike(strike.draw, strike.lasts_s)
            case "socket":
                self.counts["socket"] += 1
                await self._sockets(strike.draw)
            case "away":
                self.counts["away"] += 1
                self.out.away(strike.lasts_s)
            case "silence":
                self.counts["silence"] += 1
                await self.town.model.away(strike.lasts_s)
                await asyncio.sleep(strike.lasts_s)

    async def _bot(self, strike: Strike) -> None:
        """A bot is hit in the middle of a post, before or after it is carried out, if one posts soon; else anywhere.
        One bot always goes on: when all others are down, the fault waits."""
        for _ in range(TRIED):
            if await self._met(strike):
                return
            await asyncio.sleep(0.5)

    async def _met(self, strike: Strike) -> bool:
        hits: list[bool] = []

        def hit(number: int) -> None:
            hits.append(self._hit(number, strike))

        posting = self.out.callers.caught(after=bool(strike.draw % 2), seconds=MET_S, act=hit)
        if not await posting and (victim := self.town.one(strike.draw)) is not None:
            hit(victim.number)
        return any(hits)

    def _hit(self, number: int, strike: Strike) -> bool:
        victim = self.town.bots[number]
        if victim not in self.town.at_work or len(self.town.at_work) < 2:
            return False
        self.counts[strike.kind] += 1
        if strike.kind == "kill":
            victim.kill()
        else:
            victim.signal(signal.SIGSTOP)
            self._beside(victim.freeze(strike.lasts_s))
        return True

    async def _sockets(self, draw: int) -> None:
        """The workspace ends all sockets: without a word, or with one."""
        if draw % 2:
            await self.out.driver.drop_sockets()
        else:
            await self.out.driver.disconnect_sockets()

    # Rest

    async def rested(self) -> str:
        """Waits until nothing is under way; why not, when nothing moves any more."""
        loop = asyncio.get_running_loop()
        before, since, still = "", loop.time(), 0
        while still < STILL:
            now = await self._under_way()
            still = 0 if now else still + 1
            if now != before:
                before, since = now, loop.time()
            if loop.time() - since > REST_S and now:
                return f"no rest: {now[:500]}"
            await asyncio.sleep(0.3)
        return ""

    async def _under_way(self) -> str:
        """What is not done yet, in words; empty when everything is."""
        if not self.people.idle:
            return f"{len(self.people.at_work)} cards are being pressed, {self.people.counts['presses']} presses"
        if self.out.under_way:
            return f"{self.out.under_way} deliveries are not acknowledged"
        try:
            return "; ".join(await self.left())
        except StoreUnavailableError as error:
            return str(error)

    async def left(self) -> list[str]:
        """Work in Redis that is not done."""
        redis = await connect_redis(self.store.url, connections=4, retries=2)
        try:
            with translate_redis_errors():
                return await facts.left(redis)
        finally:
            await redis.aclose()

    async def empty(self) -> None:
        """Returns when no lane has anything left."""
        while await self.left():
            await asyncio.sleep(0.1)

    async def at_rest(self, *, seconds: float) -> Facts:
        """The facts once nothing has been under way for so long, or nothing moves."""
        await asyncio.sleep(seconds)
        return await self.collected(await self.rested())

    async def collected(self, unrest: str) -> Facts:
        """Everything there is to know, when all is at rest."""
        model = await self.town.model.counts()
        smtp = sum(times for what, times in self.out.troubles.counts.items() if what.startswith("smtp "))
        troubles = sum(times for what, times in model.items() if what not in ("replies", "away"))
        counts = self.counts + self.people.counts + self.out.troubles.counts
        counts |= {"model replies": model.get("replies", 0), "model troubles": troubles, "smtp troubles": smtp}
        counts["bots that could not start"] = self.town.not_started()
        counts["events lost"] = len(self.out.ws.delivery.abandoned_events)
        return await facts.collected(self.plan.wanted, self.store.url, self.out, self.people, self.town, counts, unrest)


@asynccontextmanager
async def alive(plan: Plan, redis: str, more: Mapping[str, str] | None = None) -> AsyncIterator[Running]:
    """Everything opened, nobody at work yet. `more`: environment of the bots. Raises `store.Absent`, and a group of
    whatever fails in it or beside it."""
    with tempfile.TemporaryDirectory(prefix="cs-chaos-") as name:
        folder = Path(name)
        async with (
            opened(redis, folder / "redis") as store,
            outside(plan) as out,
            asyncio.TaskGroup() as crew,
            town(plan, out, store.url, folder, more or {}, crew) as there,
        ):
            yield Running(plan, store, out, there, People(plan, out, crew), crew)


async def ran(
    wanted: Wanted, redis: str = "embedded", *, tell: Tell = print, more: Mapping[str, str] | None = None
) -> Facts:
    """One run, from nothing to its facts. Raises what `alive` does."""
    plan = planned(wanted)
    async with alive(plan, redis, more) as running:
        await running.begin()
        tell(f"{wanted.processes} bots at work; {len(plan.lines)} messages in {wanted.lasts_s:.0f} s begin")
        telling = running.crew.create_task(_progress(running, tell))
        try:
            return await _lived(running, tell)
        finally:
            await cancel_and_wait([telling])


async def _lived(running: Running, tell: Tell) -> Facts:
    async with running.pressing():
        async with asyncio.TaskGroup() as both:
            both.create_task(running.people.talk())
            both.create_task(running.strikes())
        running.out.troubles.calm = True
        tell("everything is said and broken; waiting for rest")
        return await running.collected(await running.rested())


async def _progress(running: Running, tell: Tell) -> None:
    while True:
        await asyncio.sleep(10)
        said, total = len(running.people.spoken), len(running.plan.lines)
        finals = sum(":final" in str(one.get("metadata")) for _, one in running.out.posts())
        faults = ", ".join(f"{what} {times}" for what, times in sorted(running.counts.items()))
        tell(f"{said}/{total} said, {finals} answered, {running.people.counts['presses']} presses, {faults}")
