"""Single moments, met exactly: what the safeties are for. Each scene gives facts that the same checks judge.

With the safety at work nothing is found; with it switched off (`without`) the checks must find what it prevents.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from bot.core.cancellation import cancel_and_wait
from bot.local.workspace.workspace import WorkspaceChange
from bot.queue import store_watch
from tests.chaos.bot import HELD
from tests.chaos.facts import Facts
from tests.chaos.people import Seen
from tests.chaos.plan import (
    ESCALATES_S,
    EXPIRES_S,
    TAG,
    Conversation,
    Line,
    Plan,
    Rates,
    Wanted,
    manager_of,
    person_id,
    planned,
)
from tests.chaos.run import Running, alive
from tests.chaos.town import BotProcess
from tests.harness.forked import fork_process

WHO, OTHER = 4, 5
"""Numbers of two people who lead nobody."""
LEAD = 3
PATIENCE_S = 30.0
CALM = Rates(0, 0, 0, 0, 0, 0, 0, 0)
TOLERATED_S = store_watch.TOLERANCE_MS / 1000
"""A store that has lost so much is the same."""
NUMBER = re.compile(r"\b[LE]-\d+\b")


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
    wanted = Wanted(seed, 1, 1, 2, faults=("stop",), rates=CALM, speed=20)
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
    wanted = Wanted(seed, 1, 1, 2, faults=("kill",), rates=CALM, speed=20)
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
    wanted = Wanted(seed, 1, 1, 1, faults=("twice",), rates=replace(CALM, twice=100))
    plan = one_line(wanted, "plain", "plain")
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        await running.begin()
        await running.people.talk()
        return await running.at_rest(seconds=0.5)


async def killed_between_download_and_record(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """Bytes first. A bot is killed with the first file that it fetches, between its bytes and its record; another one
    takes over. The event comes twice."""
    wanted = Wanted(seed, 1, 1, 2, faults=("kill", "twice"), rates=replace(CALM, twice=100), speed=20)
    plan = one_line(wanted, f"leave {person_id(LEAD)} 2", "leave")
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        first, second = running.town.bots
        first.env = {**first.env, "CHAOS_KILLED_BESIDE_BYTES": "1"}
        await running.begin(first)
        talking = running.crew.create_task(running.people.talk())
        await running.out.driver.wait_until(lambda: first.ends, PATIENCE_S)
        await cancel_and_wait([running.town.keeping[first.number]])
        running.counts["kill"] += 1
        await running.begin(second)
        await talking
        await running.people.press_only(await card_of(running, plan.conversations[0].channel), "confirm")
        await card_of(running, f"D{person_id(LEAD)[1:]}")
        return await running.at_rest(seconds=0.5)


async def killed_after_a_copy(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """A look before it is shown again. A bot is killed when the approver has got the file, and nothing of that
    committed; another one takes over."""
    wanted = Wanted(seed, 1, 1, 2, faults=("kill",), rates=CALM, speed=20)
    plan = one_line(wanted, f"leave {person_id(LEAD)} 2", "leave")
    reader = f"D{person_id(LEAD)[1:]}"
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        first, second = running.town.bots
        await running.begin(first)
        await running.people.talk()
        card = await card_of(running, plan.conversations[0].channel)
        at_once(running, lambda: any(one.get("files") for c, one in running.out.posts() if c == reader), first.kill)
        await running.people.press_only(card, "confirm")
        await running.out.driver.wait_until(lambda: first.ends, PATIENCE_S)
        await cancel_and_wait([running.town.keeping[first.number]])
        running.counts["kill"] += 1
        await running.begin(second)
        return await running.at_rest(seconds=0.5)


async def killed_after_a_post(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """A look before it is said again. A bot is killed when its answer stands there, and nothing of that committed;
    another one takes over."""
    plan = one_line(Wanted(seed, 1, 1, 2, faults=("kill",), rates=CALM, speed=20), "plain", "plain")
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        first, second = running.town.bots
        await running.begin(first)
        at_once(
            running, lambda: any(":final" in str(one.get("metadata")) for _, one in running.out.posts()), first.kill
        )
        talking = running.crew.create_task(running.people.talk())
        await running.out.driver.wait_until(lambda: first.ends, PATIENCE_S)
        await cancel_and_wait([running.town.keeping[first.number]])
        running.counts["kill"] += 1
        await running.begin(second)
        await talking
        return await running.at_rest(seconds=0.5)


async def left_until_it_expires(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """Timers come. Nobody presses a card: they are reminded, and it expires."""
    wanted = Wanted(seed, 1, 1, 2, faults=("expiry",), rates=CALM, speed=20)
    plan = one_line(wanted, f"mail {person_id(OTHER)}", "mail")
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        await running.begin()
        await running.people.talk()
        channel = plan.conversations[0].channel
        await card_of(running, channel)
        running.counts["expiry"] += 1
        with suppress(TimeoutError):
            await running.out.driver.wait_until(
                lambda: any("again" in one.choices for one in running.people.cards(channel)), EXPIRES_S + 5
            )
        over = any("again" in one.choices for one in running.people.cards(channel))
        facts = await running.at_rest(seconds=0.3) if over else await running.collected("")
        return replace(facts, seen=() if over else ("the card never expired",))


async def left_until_it_escalates(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """Tasks that nobody decides go up. An approver says nothing; their manager is asked, and decides."""
    wanted = Wanted(seed, 1, 1, 2, faults=("escalation",), rates=CALM, speed=20)
    plan = one_line(wanted, f"leave {person_id(LEAD)} 2", "leave")
    reader, manager = (f"D{person_id(one)[1:]}" for one in (LEAD, manager_of(LEAD)))
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        await running.begin()
        await running.people.talk()
        await running.people.press_only(await card_of(running, plan.conversations[0].channel), "confirm")
        await card_of(running, reader)
        with suppress(TimeoutError):
            await running.out.driver.wait_until(lambda: running.people.cards(manager), ESCALATES_S + 5)
        if not (cards := running.people.cards(manager)):
            return await running.collected("")
        running.counts["escalation"] += 1
        await running.people.press_only(cards[0], "approve")
        return await running.at_rest(seconds=0.5)


async def refused_by_redis(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """Refusals are outages. While a message is being worked on, Redis is full, then has too few replicas, then cannot
    save, then is a replica itself: all in all for longer than all tries take."""
    plan = one_line(Wanted(seed, 1, 1, 1, faults=("refuse",), rates=CALM, speed=20), "look", "look")
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        await running.begin()
        talking = running.crew.create_task(running.people.talk())
        await running.out.driver.wait_until(lambda: running.people.spoken, PATIENCE_S)
        await running.out.taken(running.people.spoken[0].events[0])
        for draw, name in enumerate(running.store.refusals):
            assert await running.store.refuse(draw, 1.5) == name
            running.counts["refuse"] += 1
        await talking
        return await running.at_rest(seconds=0.5)


async def answer_lost(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """A repeated checkpoint is known again. Redis notes that an effect begins, and its answer is lost on the way."""
    wanted = Wanted(seed, 1, 1, 1, faults=("cut",), rates=CALM, speed=20)
    plan = one_line(wanted, f"mail {person_id(OTHER)}", "mail")
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        proxy = running.store.proxy
        assert proxy is not None, "this moment needs a proxy before Redis"
        await running.begin()
        await running.people.talk()
        card = await card_of(running, plan.conversations[0].channel)
        proxy.trap = b"begin:1"
        await running.people.press_only(card, "send")
        await running.out.driver.wait_until(lambda: running.out.mailbox.kept, PATIENCE_S)
        running.counts["cut"] += proxy.was_cut
        return await running.at_rest(seconds=0.5)


async def emptied(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """Nothing is done in a store that is not the one from before, and no number comes twice. It is emptied behind a
    card that an approver has; an administrator accepts that; somebody asks for something else."""
    plan = two_requests(Wanted(seed, 1, 2, 1, faults=(), rates=CALM, speed=20))
    async with alive(plan, redis, {"CHAOS_WITHOUT": without, "CHAOS_FLOOR": "1"}) as running:
        [bot] = running.town.bots
        await running.begin()
        first, second = plan.lines
        await ask_and_confirm(running, first)
        card = await card_of(running, f"D{person_id(LEAD)[1:]}")
        await running.store.empty()
        seen = await wait_until_held(running, bot, without)
        await running.people.press_only(card, "approve")
        if not without:  # otherwise nobody knows that there is anything to accept
            await accept(bot)
        running.counts["emptied"] += 1
        await bot.replaced()
        await ask_and_confirm(running, second)
        facts = await running.at_rest(seconds=0.5)
        return replace(facts, judged=("seen", "lanes"), seen=(*seen, *numbers_twice(facts)))


async def restored(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """The same with a copy from before a mail was sent: the card is pressed that an old screen still has. Until
    somebody accepts the store nothing comes of it, nor afterwards: whoever pressed is told."""
    wanted = Wanted(seed, 1, 1, 1, faults=(), rates=CALM, speed=20)
    plan = one_line(wanted, f"mail {person_id(OTHER)}", "mail")
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        [bot] = running.town.bots
        await running.begin()
        await running.people.talk()
        channel = plan.conversations[0].channel
        card = await card_of(running, channel)
        await running.empty()
        copy = running.store.copy_data()
        await running.people.press_only(card, "send")
        await running.out.driver.wait_until(lambda: running.out.mailbox.kept, PATIENCE_S)
        await asyncio.sleep(TOLERATED_S / wanted.speed + 1)
        await running.store.restore_data(copy)
        seen = await wait_until_held(running, bot, without)
        await running.people.press_stale(card, "send")
        with suppress(TimeoutError):
            await running.out.driver.wait_until(lambda: len(running.out.mailbox.kept) > 1, 3)
        sent = len(running.out.mailbox.kept)
        seen += [f"the mail was sent {sent} times, before anybody had accepted the store"] if sent > 1 else []
        told = len(running.out.posts())
        await accept(bot)
        running.counts["restored"] += 1
        if not without:
            await running.out.driver.wait_until(lambda: len(running.out.posts()) > told, PATIENCE_S)
        facts = await running.at_rest(seconds=1)
        seen += [f"the mail was sent {len(facts.mails)} times"] if len(facts.mails) > 1 else []
        return replace(facts, judged=("seen", "lanes"), seen=tuple(seen))


async def lost_in_a_failover(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """A process remembers which number was the last. The store loses its last moment, in which a request began."""
    plan = two_requests(Wanted(seed, 1, 2, 1, faults=(), rates=CALM, speed=2))
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        [bot] = running.town.bots
        await running.begin()
        first, second = plan.lines
        copy = running.store.copy_data()
        await ask_and_confirm(running, first)
        await card_of(running, f"D{person_id(LEAD)[1:]}")
        await running.store.restore_data(copy)
        running.counts["failover"] += 1
        await ask_and_confirm(running, second)
        facts = await running.at_rest(seconds=0.5)
        held = [f"work was held {bot.times('work is held')} times"] if bot.times("work is held") else []
        return replace(facts, judged=("seen", "lanes"), seen=(*held, *numbers_twice(facts)))


async def wrong_clock(without: str = "", *, seed: int = 1, redis: str = "embedded") -> Facts:
    """The time is Redis's. The clock of one of two processes is 80 hours ahead while a request waits for its
    approver: nobody is reminded or passed over, and nothing is dated ahead."""
    wanted = Wanted(seed, 1, 1, 2, faults=(), rates=CALM, speed=20)
    plan = one_line(wanted, f"leave {person_id(LEAD)} 2", "leave")
    async with alive(plan, redis, {"CHAOS_WITHOUT": without}) as running:
        wrong = running.town.bots[1]
        wrong.env = {**wrong.env, "CHAOS_CLOCK_S": str(80 * 3600)}
        await running.begin()
        await running.people.talk()
        await running.people.press_only(await card_of(running, plan.conversations[0].channel), "confirm")
        running.counts["clock"] += 1
        try:
            await card_of(running, f"D{person_id(LEAD)[1:]}")
        except TimeoutError:
            if not without:
                raise
            facts = await running.collected("")
            return replace(facts, seen=("a card was over at once, by a time which is yet to come",))
        facts = await running.at_rest(seconds=3)
        spoke = [f"bot {wrong.number} posted {one.key}" for one in facts.posts if one.by == wrong.number]
        return replace(facts, seen=tuple(spoke))


def two_requests(wanted: Wanted) -> Plan:
    """Two people ask for something, one after the other."""
    plan = one_line(wanted, f"expense {person_id(LEAD)} 86", "expense")
    first = plan.lines[0]
    who = person_id(OTHER)
    second = replace(first, tag="c1-0", conversation=1, person=who, text=f"#c1-0 expense {person_id(LEAD)} 95")
    return replace(plan, conversations=(*plan.conversations, Conversation(1, f"D{who[1:]}", True, (second,))))


async def ask_and_confirm(running: Running, line: Line) -> None:
    talk = running.plan.conversations[line.conversation]
    await running.people.say(talk, line)
    await running.people.press_only(await card_of(running, talk.channel), "confirm")
    await running.out.driver.wait_until(lambda: numbers_of(running, line), PATIENCE_S)


def numbers_of(running: Running, line: Line) -> bool:
    """The approver has the card of what this line asked for."""
    return any(line.tag in card.text for card in running.people.cards(f"D{person_id(LEAD)[1:]}"))


def numbers_twice(facts: Facts) -> list[str]:
    """Numbers under which approvers have seen different requests."""
    seen: dict[str, set[str]] = {}
    for post in facts.posts:
        number, told = NUMBER.search(post.text), TAG.search(post.text)
        if number and told and post.channel == f"D{person_id(LEAD)[1:]}":
            seen.setdefault(number[0], set()).add(told[1])
    return [f"{number} is the number of {sorted(tags)}" for number, tags in seen.items() if len(tags) > 1]


async def wait_until_held(running: Running, bot: BotProcess, without: str) -> list[str]:
    """What is wrong with how the loss of data was noticed."""
    with suppress(TimeoutError):
        await running.out.driver.wait_until(lambda: bot.times("work is held"), 3 if without else PATIENCE_S)
    return [] if bot.times("work is held") else ["nobody noticed that the store is another one"]


async def accept(bot: BotProcess) -> None:
    """An administrator takes the store as it is."""
    await commanded(bot, "restored", "--accept")


async def commanded(bot: BotProcess, *words: str) -> str:
    """What `countersign …` says, where this bot is at home."""
    child = await fork_process("bot", *words, cwd=bot.folder, env={"COLUMNS": "200", **bot.env})
    out, err = await asyncio.wait_for(child.communicate(), PATIENCE_S)
    await child.close()
    return (out + err).decode()


def refused(bot: BotProcess) -> int:
    """How often it was told that a lane is not its own any more."""
    return bot.times("lane lost") + bot.times("lane lost while handling")


SCENES = {
    "fencing": held_up_in_an_effect,
    "idempotency": killed_after_an_effect,
    "dedupe": delivered_twice,
    "files": killed_between_download_and_record,
    "copies": killed_after_a_copy,
    "posts": killed_after_a_post,
    "expiry": left_until_it_expires,
    "escalation": left_until_it_escalates,
    "outages": refused_by_redis,
    "answers": answer_lost,
    "emptied": emptied,
    "restored": restored,
    "failover": lost_in_a_failover,
    "clock": wrong_clock,
}
"""By the safety that they are about."""
