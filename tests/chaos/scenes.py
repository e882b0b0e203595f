"""Single moments, met exactly: what the safeties are for. Each scene gives facts that the same checks judge.

With the safety at work nothing is found; with it switched off (`without`) the checks must find what it prevents.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace

from bot.core.cancellation import cancel_and_wait
from bot.local.workspace.workspace import WorkspaceChange
from tests.chaos.bot import HELD
from tests.chaos.facts import Facts
from tests.chaos.people import Seen
from tests.chaos.plan import Conversation, Line, Plan, Rates, Wanted, person_id, planned
from tests.chaos.run import Running, alive
from tests.chaos.town import BotProcess

WHO, OTHER = 4, 5
"""Numbers of two people who lead nobody."""
LEAD = 3
PATIENCE_S = 30.0


def one_line(wanted: Wanted, text: str, kind: str) -> Plan:
    """A plan in which one person writes one line to the bot."""
    channel = f"D{person_id(WHO)[1:]}"
    line = Line("c0-0", 0, 0, 0.0, person_id(WHO), f"#c0-0 {text}", kind)
    return replace(planned(wanted), conversations=(Conversation(0, channel, True, (line,)),), strikes=())


async def card_of(running: Running, channel: str) -> Seen:
    """The card that appears in a channel."""
    cards = await running.out.driver.wait_until(lambda: running.people.cards(channel), PATIENCE_S)
    return cards[0]


def at_once(running: Running, when: Callable[[], bool], act: Callable[[], object]) -> None:
    """Acts at the very change of the workspace after which `when` is true, before the bot hears of it."""
    listeners = running.out.ws.changes.listeners

    def look(_: WorkspaceChange) -> None:
        if when():
            listeners.remove(look)
            act()

    listeners.append(look)


async def held_up_in_an_effect(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """Fencing. A bot is stopped when *Send* is decided, and the mail not begun; its lease runs out, another
    one takes over and sends the mail; then the first one wakes up, about to send it."""
    wanted = Wanted(seed, 1, 1, 2, faults=("stop",), rates=Rates(0, 0, 0, 0, 0, 0), lease_s=1.0)
    plan = one_line(wanted, f"mail {person_id(OTHER)}", "mail")
    async with alive(plan, redis, {"CHAOS_WITHOUT": without, "CHAOS_HELD": "1"}) as running:
        first, second = running.town.bots
        await running.begin(first)
        await running.people.talk()
        card = await card_of(running, plan.conversations[0].channel)
        await running.people.press_only(card, "send")
        await running.out.driver.wait_until(lambda: first.times(HELD), PATIENCE_S)
        assert not running.out.mailbox.kept
        running.counts["stop"] += 1
        await running.begin(second)
        await running.out.driver.wait_until(lambda: running.out.mailbox.kept, PATIENCE_S)
        await running.empty()
        first.signal(signal.SIGCONT)
        await running.out.driver.wait_until(lambda: refused(first) or len(running.out.mailbox.kept) > 1, PATIENCE_S)
        return await running.at_rest(seconds=0.3)


async def killed_after_an_effect(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """Idempotency. A bot is killed when the request is started and its number shown, and nothing of that committed;
    another one takes over and starts it again, with the same key."""
    wanted = Wanted(seed, 1, 1, 2, faults=("kill",), rates=Rates(0, 0, 0, 0, 0, 0), lease_s=1.0)
    plan = one_line(wanted, f"expense {person_id(LEAD)} 86", "expense")
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        first, second = running.town.bots
        await running.begin(first)
        await running.people.talk()
        channel = plan.conversations[0].channel
        card = await card_of(running, channel)
        at_once(running, lambda: "E-0001" in running.people.text(card), first.kill)
        await running.people.press_only(card, "confirm")
        await running.out.driver.wait_until(lambda: first.ends, PATIENCE_S)
        await cancel_and_wait([running.town.keeping[first.number]])
        running.counts["kill"] += 1
        await running.begin(second)
        return await running.at_rest(seconds=0.5)


async def delivered_twice(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """Deduplication. Every event is delivered twice."""
    wanted = Wanted(seed, 1, 1, 1, faults=("twice",), rates=Rates(0, 0, 100, 0, 0, 0))
    plan = one_line(wanted, "plain", "plain")
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        await running.begin()
        await running.people.talk()
        return await running.at_rest(seconds=0.5)


def refused(bot: BotProcess) -> int:
    """How often it was told that a lane is not its own any more."""
    return bot.times("lane lost") + bot.times("lane lost while handling")


SCENES = {"fencing": held_up_in_an_effect, "idempotency": killed_after_an_effect, "dedupe": delivered_twice}
"""By the safety that they are about."""
