"""Longer stories about one thing each: a rolling restart, a poisonous message, a model that is away for long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.chaos.facts import Facts
from tests.chaos.plan import Line, Plan, Wanted, planned
from tests.chaos.run import alive
from tests.chaos.scenes import CALM, commanded, one_line

NOTHING = CALM


@dataclass(frozen=True, slots=True)
class Rolled:
    """A rolling restart: the facts, how bots ended, and what was still held when each did."""

    facts: Facts
    ends: Sequence[int]
    restarts: int

    @property
    def redelivered(self) -> dict[tuple[str, str], int]:
        """Items whose delivery was counted more than once."""
        return {item: tries for item, tries in self.facts.tries.items() if tries > 1}


async def rolling(wanted: Wanted, *, rounds: int = 1, redis: str = "embedded") -> Rolled:
    """Every bot in turn is asked to end while people write and press; the next one when its successor works."""
    plan = replace(planned(replace(wanted, faults=(), rates=NOTHING)), strikes=())
    async with alive(plan, redis, {"CHAOS_GRACE_S": "20"}) as running:
        await running.begin()
        async with running.pressing():
            talking = running.crew.create_task(running.people.talk())
            for _ in range(rounds):
                for bot in running.town.bots:
                    await bot.replaced()
                    running.counts["restarts"] += 1
            await talking
            facts = await running.at_rest(seconds=0.3)
        ends = [code for bot in running.town.bots for code in bot.ends]
        return Rolled(facts, ends, running.counts["restarts"])


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A poisonous message: the facts before and after it was put back, and what the commands said."""

    buried: Facts
    listed: str
    retried: str
    healed: Facts


def poisoned_plan(wanted: Wanted) -> Plan:
    """Three lines of one conversation; the second is poison."""
    plan = one_line(wanted, "plain", "plain")
    talk = plan.conversations[0]
    first = talk.lines[0]

    def line(index: int, text: str) -> Line:
        return replace(first, tag=f"c0-{index}", index=index, text=f"#c0-{index} plain{text}")

    return replace(plan, conversations=(replace(talk, lines=(line(0, ""), line(1, " poison"), line(2, ""))),))


async def poisoned(*, seed: int = 1, redis: str = "embedded") -> Poisoned:
    """The poison is tried, buried with its error, listed; then the bot is mended, and an administrator puts it back."""
    plan = poisoned_plan(Wanted(seed, 1, 3, 1, faults=(), rates=NOTHING))
    more = {"CHAOS_POISON": "1", "CHAOS_MAX_TRIES": "3"}
    async with alive(plan, redis, more) as running:
        [bot] = running.town.bots
        await running.begin()
        await running.people.talk()
        buried = await running.at_rest(seconds=0.3)
        listed = await commanded(bot, "dead")
        bot.env = {**bot.env, "CHAOS_POISON": ""}
        await bot.replaced()
        retried = await commanded(bot, "dead", "retry", buried.dead[0].item.id)
        healed = await running.at_rest(seconds=0.5)
        return Poisoned(buried, listed, retried, healed)


async def silent(wanted: Wanted, seconds: float, *, redis: str = "embedded") -> Facts:
    """The model is away for so long, from before the first message on."""
    plan = replace(planned(replace(wanted, faults=(), rates=NOTHING)), strikes=())
    async with alive(plan, redis, {}) as running:
        await running.begin()
        async with running.pressing():
            await running.town.model.away(seconds)
            await asyncio.gather(running.people.talk(), asyncio.sleep(seconds))
            return await running.at_rest(seconds=1.0)
