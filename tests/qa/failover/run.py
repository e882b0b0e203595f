"""One run: people write and press, and again and again the store loses what it has not confirmed."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.qa.chaos import check
from tests.qa.chaos.facts import Facts
from tests.qa.chaos.people import People, Seen
from tests.qa.chaos.plan import CALM, Conversation, Line, Plan, Wanted, planned
from tests.qa.chaos.run import alive
from tests.qa.company import get_dm, get_manager, get_person_id
from tests.qa.failover.stores import LossyStore

BOTS, SPEED = 2, 3.0
PER_PERSON = 10  # messages that one person writes
EVERY_S = 9.0  # about how far apart losses are (s)
CALM_S = 6.0
"""Least time from one loss to the next (s). A press that five losses in a row interrupt is given up."""
CHOICES = ("send", "confirm", "approve")
UNJUDGED = ("order", "authority")
"""Checks of a chaos run that do not hold here: who waits for a button is told in order only by the journal, which may
lack a last moment, and a press may be lost that was called *not taken*."""


@dataclass(frozen=True, slots=True)
class Order:
    """How big a run is, and who confirms writes (`REDIS_CONFIRM`)."""

    messages: int = 200
    mails: int = 20
    losses: int = 10
    confirm: str = "auto"
    seed: int = 1


class Pressers(People):
    """People who press what there is to be pressed, again if it comes again."""

    def _meet(self, card: Seen) -> None:
        choice = next((one for one in CHOICES if one in card.choices), "")
        if choice and self._is_new(card):
            self._start(self._press_until_moved(card, choice))

    async def _press_until_moved(self, card: Seen, choice: str) -> None:
        await self._deal(card, choice)
        self._seen.discard((card.channel, card.ts, card.buttons))


def plan_order(order: Order) -> Plan:
    """Every person writes ten messages; one in ten is a leave, and the mails are spread over them."""
    people = -(-(order.messages + order.mails) // PER_PERSON)
    wanted = Wanted(
        order.seed, 2 * people, PER_PERSON, BOTS, seconds=order.losses * EVERY_S, faults=(), rates=CALM,
        speed=SPEED,
    )  # fmt: skip
    mails = {round(n * (order.messages + order.mails) / order.mails) for n in range(order.mails)}
    talks = []
    for n in range(people):
        who, lines = get_person_id(n), []
        for index in range(PER_PERSON):
            number, tag = n * PER_PERSON + index, f"c{n}-{index}"
            if number >= order.messages + order.mails:
                break
            kind = "mail" if number in mails else "leave" if index == 5 else "look" if index % 3 == 1 else "plain"
            more = {"mail": f" {get_person_id(n + 1)}", "leave": f" {get_person_id(get_manager(n))} 2"}.get(kind, "")
            at_s = (index + n / people) * wanted.seconds / PER_PERSON
            lines.append(Line(tag, n, index, at_s, who, f"#{tag} {kind}{more}", kind))
        talks.append(Conversation(n, get_dm(who), True, tuple(lines)))
    return replace(planned(wanted), conversations=tuple(talks), strikes=())


async def run_order(
    order: Order,
    open_store: Callable[[Path], AbstractAsyncContextManager[LossyStore]],
    tell: Callable[[str], None] = print,
    more: Mapping[str, str] | None = None,
) -> Facts:
    """Returns the facts when all is at rest. Raises `Absent`."""
    env, loop = {"REDIS_CONFIRM": order.confirm, **(more or {})}, asyncio.get_running_loop()
    async with alive(plan_order(order), "", env, lambda _, folder: open_store(folder), Pressers) as running:
        await running.begin()

        async def lose() -> None:
            began = loop.time()
            for n in range(order.losses):
                await asyncio.sleep(max(CALM_S, began + (n + 0.5) * EVERY_S - loop.time()))
                at_s, lost = time.time(), await running.store.lose()
                running.counts.update({"losses": 1, "bytes lost": lost})
                tell(f"loss {n + 1}: {lost} bytes at least, {time.time() - at_s:.1f} s")

        async with running.pressing(), asyncio.TaskGroup() as both:
            both.create_task(running.people.talk())
            both.create_task(lose())
        async with running.pressing():
            tell("everything is said; waiting for rest")
            return await running.at_rest()


def judge(facts: Facts) -> list[str]:
    """What was lost, came twice, or differs without a word. Numbers of requests may have gaps after a loss."""
    judged = replace(facts, judged=tuple(name for name in check.CHECKS if name not in UNJUDGED))
    return [one for one in check.wrong(judged) if not one.startswith("commands: request numbers have gaps")]


def describe(facts: Facts) -> str:
    mails = Counter(str(one.effect) for one in facts.approvals if one.tool == "send_email")
    again = sum(one.key.startswith("lost:") for one in facts.posts)
    lost, times = facts.counts.get("bytes lost", 0), facts.counts.get("losses", 0)
    return (
        f"{len(facts.spoken)} messages, {len(facts.mails)} mails arrived, {times} losses of {lost} bytes in all; mails "
        f"done {mails['done']}, unknown {mails['unknown']}, failed {mails['failed']}; people told that cards are open "
        f"again: {again} times"
    )
