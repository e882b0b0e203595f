"""One run: everything opened, people and faults let loose, calm, rest, facts."""

import asyncio
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bot.core.cancellation import cancel_and_wait
from bot.core.errors import StoreUnavailableError
from bot.redis.connect import connect_redis
from tests.qa.chaos import facts
from tests.qa.chaos.facts import EVERYBODY, Facts, HeldUp
from tests.qa.chaos.outside import Outside, outside
from tests.qa.chaos.people import People, buttons_of
from tests.qa.chaos.plan import Plan, Strike, Wanted, planned
from tests.qa.chaos.store import Store, opened
from tests.qa.chaos.town import BotProcess, Town, find_former_chaos, town

REST_S = 60.0  # how long everything may take to come to rest once it is calm, without any progress
REST_MAX_S = 420.0  # and with: what is pressed again and again is no progress
MET_S = 1.5  # how long a fault waits for a bot that is in the middle of something
STARTED_S = 150.0  # how long bots may take to start and to connect
WAITING_S, PATIENCE_S = 10.0, 30.0
LOST_ANSWERS = 3  # of Redis, in a row
SLACK_MS = 2_000  # within this time no timer may come while facts are collected
SEVERAL = 3  # the morning waits so long for so many tasks that somebody has to decide
TRIED = 10  # so often a fault looks for a bot that it may hit
STILL = 3  # so many looks in a row at which nothing was under way are rest


@dataclass
class Running:
    """A run under way. `crew`: what happens beside it; whatever fails there ends it at once. `held_up`: when Redis
    could not be used, or a bot was stopped. `morning_ms`: when the morning began."""

    plan: Plan
    store: Store
    out: Outside
    town: Town
    people: People
    crew: asyncio.TaskGroup
    counts: Counter[str] = field(default_factory=Counter)
    at_work: set[asyncio.Task[None]] = field(default_factory=set)
    held_up: list[HeldUp] = field(default_factory=list)
    morning_ms: int = 0

    async def begin(self, *bots: BotProcess) -> None:
        """These work from now on, or all; returns when they are connected."""
        for bot in bots or self.town.bots:
            self.town.keep(bot)
        await self.out.driver.wait_for_sockets(self.town.kept, timeout=STARTED_S)

    async def wait_until(self, true: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
        """Returns what it is when it is true. Raises TimeoutError."""
        return await self.out.driver.wait_until(true, patience_s)

    @asynccontextmanager
    async def pressing(self) -> AsyncIterator[None]:
        """Meanwhile people press whatever has buttons."""
        task = self.crew.create_task(self.people.press())
        try:
            yield
        finally:
            await cancel_and_wait([task, *self.people.at_work])

    async def morning(self) -> None:
        """Half of the run is over, and something waits: everybody gets their list, as far as there is something to
        say."""
        await asyncio.sleep(self.plan.wanted.lasts_s / 2)

        def have_several_to_decide() -> bool:
            posts = [buttons_of(post) for _, post in self.out.posts()]
            return sum(any(one.choice == "approve" for one in buttons) for buttons in posts) >= SEVERAL

        with suppress(TimeoutError):
            await self.wait_until(have_several_to_decide, WAITING_S)
        (self.town.folder / "morning").touch()
        self.morning_ms = int(time.time() * 1000)

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
                await self._try(lambda: self._met(strike))
            case "socket":  # the workspace ends all sockets: without a word, or with one
                self.counts["socket"] += 1
                driver = self.out.driver
                await (driver.drop_sockets() if strike.draw % 2 else driver.disconnect_sockets())
            case "away":
                self.counts["away"] += 1
                self.out.away(strike.lasts_s)
            case _ if strike.kind not in self.store.impossible:
                since_s = time.time()
                is_met = await self._try(lambda: self._misbehave(strike))
                self.counts[strike.kind] += is_met
                self.held_up.append(HeldUp(EVERYBODY, since_s, time.time() + 2 * self.plan.wanted.lease_s))

    async def _try(self, deed: Callable[[], Awaitable[bool]]) -> bool:
        """The fault waits until it can be: the one before may not be over yet, and one bot always goes on."""
        for _ in range(TRIED):
            if await deed():
                return True
            await asyncio.sleep(0.5)
        return False

    async def _misbehave(self, strike: Strike) -> bool:
        """True if Redis did what is asked for."""
        draw, seconds, store = strike.draw, strike.lasts_s, self.store
        if strike.kind == "refuse":
            refused = await store.refuse(draw, seconds)
            self.counts[f"refused {refused}"] += bool(refused)
            return bool(refused)
        if strike.kind == "promote":
            assert store.promote is not None
            return await store.promote()
        if strike.kind == "cut":
            return await store.lose_answers(draw, LOST_ANSWERS)
        return await {"redis": store.strike, "stall": store.stall, "dead": store.go_dead}[strike.kind](draw, seconds)

    async def _met(self, strike: Strike) -> bool:
        """A bot is hit in the middle of a post, before or after it is carried out, if one posts soon; else anywhere."""
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
            self._beside(self._freeze(victim, strike.lasts_s))
        return True

    async def _freeze(self, victim: BotProcess, seconds: float) -> None:
        since_s = time.time()
        await victim.freeze(seconds)
        self.held_up.append(HeldUp(victim.number, since_s, time.time() + self.plan.wanted.lease_s))

    # Rest

    async def rested(self) -> str:
        """Waits until nothing is under way; why not, when nothing moves any more."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        before, since, still = "", began, 0
        while still < STILL:
            now = await self._under_way()
            still = 0 if now else still + 1
            if now != before:
                before, since = now, loop.time()
            if now and (loop.time() - since > REST_S or loop.time() - began > REST_MAX_S):
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
        redis = await connect_redis(self.store.url, connections=4, retries=2)
        try:
            wanted = self.plan.wanted
            soon = wanted.expires_s * 1000 + SLACK_MS if "expiry" in wanted.faults else SLACK_MS
            engine = wanted.escalates_s * 1000 + SLACK_MS if "escalation" in wanted.faults else 0
            return await facts.left(redis) or await facts.list_due_timers(redis, soon, engine)
        finally:
            await redis.aclose()

    async def empty(self) -> None:
        """Returns when no lane has anything left."""
        while await self.left():
            await asyncio.sleep(0.1)

    async def at_rest(self) -> Facts:
        """The facts once nothing is under way, or nothing moves."""
        return await self.collected(await self.rested())

    async def collected(self, unrest: str) -> Facts:
        model = await self.town.count_replies()
        smtp = sum(times for what, times in self.out.troubles.counts.items() if what.startswith("smtp "))
        troubles = sum(times for what, times in model.items() if what not in ("replies", "away"))
        counts = self.counts + self.people.counts + self.out.troubles.counts
        counts |= {"model replies": model.get("replies", 0), "model troubles": troubles, "smtp troubles": smtp}
        counts["bots that could not start"] = sum(bot.lacked for bot in self.town.bots)
        counts["events lost"] = len(self.out.ws.delivery.abandoned_events)
        found = await facts.collected(
            self.plan.wanted, self.store.url, self.out, self.people, self.town, counts, unrest, self.held_up
        )
        return replace(found, morning_ms=self.morning_ms, impossible=self.store.impossible)


@asynccontextmanager
async def alive(
    plan: Plan,
    redis: str,
    more: Mapping[str, str] | None = None,
    open_store: Callable[[str, Path], AbstractAsyncContextManager[Store]] = opened,
    kind: type[People] = People,
) -> AsyncIterator[Running]:
    """Everything opened, nobody at work yet. `more`: environment of the bots. Raises `store.Absent`, and a group of
    whatever fails in it or beside it."""
    with tempfile.TemporaryDirectory(prefix="cs-chaos-") as name:
        folder = Path(name)
        if plan.wanted.versions > 1:
            find_former_chaos()  # what is missing is said here by itself, and not by a group
        async with (
            open_store(redis, folder / "redis") as store,
            outside(plan) as out,
            asyncio.TaskGroup() as crew,
            town(plan, out, store.bots_url, folder, more or {}, crew) as there,
        ):
            yield Running(plan, store, out, there, kind(plan, out, crew), crew)


async def ran(wanted: Wanted, redis: str = "embedded", *, tell: Callable[[str], None] = print) -> Facts:
    """One run, from nothing to its facts. Raises what `alive` does."""
    plan = planned(wanted)
    async with alive(plan, redis) as running:
        await running.begin()
        tell(f"{wanted.processes} bots at work; {len(plan.lines)} messages in {wanted.lasts_s:.0f} s begin")
        telling = running.crew.create_task(_progress(running, tell))
        try:
            async with running.pressing():
                async with asyncio.TaskGroup() as all_:
                    for deed in (running.people.talk, running.strikes, running.morning):
                        all_.create_task(deed())
                running.out.troubles.calm = True
                tell("everything is said and broken; waiting for rest")
                return await running.at_rest()
        finally:
            await cancel_and_wait([telling])


async def _progress(running: Running, tell: Callable[[str], None]) -> None:
    while True:
        await asyncio.sleep(10)
        said, total = len(running.people.spoken), len(running.plan.lines)
        finals = sum(":final" in str(one.get("metadata")) for _, one in running.out.posts())
        faults = ", ".join(f"{what} {times}" for what, times in sorted(running.counts.items()))
        tell(f"{said}/{total} said, {finals} answered, {running.people.counts['presses']} presses, {faults}")
