"""Single moments, met exactly: what the safeties are for. Each scene gives facts that the same checks judge.

With the safety at work nothing is found; with it switched off the checks must find what it prevents.
"""

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from bot.core.cancellation import cancel_and_wait
from bot.dev.workspace.workspace import WorkspaceChange
from bot.queue import store_watch
from tests.harness import programs
from tests.qa.chaos.bot import HELD
from tests.qa.chaos.facts import Facts
from tests.qa.chaos.people import Seen, text_of
from tests.qa.chaos.plan import CALM, TAG, Conversation, Line, Plan, Wanted, planned
from tests.qa.chaos.run import PATIENCE_S, Running, alive
from tests.qa.chaos.town import BotProcess
from tests.qa.company import get_dm, get_manager, get_person_id, read_key

WHO, OTHER = get_person_id(4), get_person_id(5)  # two people who lead nobody
LEAD = get_person_id(3)
MANAGER = get_person_id(get_manager(3))
SOON_S = 3.0  # within this time comes what a safety prevents, once it is off
EXPIRES_S, ENGINE_FASTER = 4.0, 51_840  # where cards expire or tasks escalate: after four and five seconds
TOLERATED_S = store_watch.TOLERANCE_MS / 1000  # a store that has lost so much is the same
NUMBER = re.compile(r"\b[LE]-\d+\b")
Meet = Callable[[Running, bool], Awaitable[Facts | None]]


SCENES: dict[str, Callable[..., Awaitable[Facts]]] = {}  # by the safety that they are about


def scene(
    safety: str, *texts: str, bots: int = 2, more: Mapping[str, str] | None = None, **settings: Any
) -> Callable[[Meet], Meet]:
    """Makes a scene of a function that meets its moment, while people write a line each to the bot; it is told whether
    the safety is off. The facts are what it returns, or else those at rest. `settings`: of `Wanted`."""
    usual = {"faults": (), "rates": CALM, "speed": 20, "expires_s": EXPIRES_S, "engine_faster": ENGINE_FASTER}
    wanted = Wanted(1, len(texts), 1, bots, **{**usual, **settings})

    def make(meet: Meet) -> Meet:
        async def play(*, is_off: bool = False, seed: int = 1, redis: str = "embedded") -> Facts:
            env = {"CHAOS_WITHOUT": safety if is_off else "", **(more or {})}
            async with alive(plan_lines(replace(wanted, seed=seed), *texts), redis, env) as running:
                return await meet(running, is_off) or await running.at_rest()

        SCENES[safety] = play
        return meet

    return make


def plan_lines(wanted: Wanted, *texts: str) -> Plan:
    """A plan in which each of these is written to the bot, in its writer's DM."""
    talks = tuple(
        Conversation(n, get_dm(who), True, (Line(f"c{n}-0", n, 0, 0.0, who, f"#c{n}-0 {text}", text.split()[0]),))
        for n, (who, text) in enumerate(zip((WHO, OTHER), texts, strict=False))
    )
    return replace(planned(wanted), conversations=talks, strikes=())


async def find_card(running: Running, person: str) -> Seen:
    cards = await running.wait_until(lambda: running.people.cards(get_dm(person)))
    return cards[0]


async def ask(running: Running, *bots: BotProcess) -> Seen:
    """These bots, or all, begin to work, the line is said; its card."""
    await running.begin(*bots)
    await running.people.talk()
    return await find_card(running, WHO)


def act_at_once(running: Running, when: Callable[[], bool], act: Callable[[], object]) -> None:
    """At the very change of the workspace after which `when` is true, before the bot hears of it."""
    listeners = running.out.ws.changes.listeners

    def look(_: WorkspaceChange) -> None:
        if when():
            listeners.remove(look)
            act()

    listeners.append(look)


async def hand_over(running: Running) -> None:
    """The first bot ends, the second one begins."""
    first, second = running.town.bots
    await running.wait_until(lambda: first.ends)
    await cancel_and_wait([running.town.keeping[first.number]])
    running.counts["kill"] += 1
    await running.begin(second)


async def talk_until_taken_over(running: Running) -> None:
    talking = running.crew.create_task(running.people.talk())
    await hand_over(running)
    await talking


@scene("fencing", f"mail {OTHER}", faults=("stop",), more={"CHAOS_HELD": "1"})
async def be_held_up_in_an_effect(running: Running, is_off: bool) -> None:
    """A bot is stopped when *Send* is decided, and the mail not begun; its lease runs out, another one takes over and
    sends the mail; then the first one wakes up, about to send it."""
    (first, second), kept = running.town.bots, running.out.mailbox.kept
    await running.people.press_only(await ask(running, first), "send")
    await running.wait_until(lambda: first.times(HELD))
    assert not kept
    running.counts["stop"] += 1
    await running.begin(second)
    await running.wait_until(lambda: kept)
    await running.empty()
    first.signal(signal.SIGCONT)
    await running.wait_until(lambda: count_refusals(first) or len(kept) > 1)


@scene("idempotency", f"expense {LEAD} 86", faults=("kill",))
async def be_killed_after_an_effect(running: Running, is_off: bool) -> None:
    """A bot is killed when the request is started and its number shown, and nothing of that committed; another one
    takes over and starts it again, with the same key."""
    first = running.town.bots[0]
    card = await ask(running, first)
    act_at_once(running, lambda: "E-0001" in running.people.text(card), first.kill)
    await running.people.press_only(card, "confirm")
    await hand_over(running)


@scene("dedupe", "plain", faults=("twice",), bots=1, rates=replace(CALM, twice=100), speed=5)
async def be_told_twice(running: Running, is_off: bool) -> None:
    """Every event is delivered twice."""
    await running.begin()
    await running.people.talk()


@scene("files", f"leave {LEAD} 2", faults=("kill", "twice"), rates=replace(CALM, twice=100))
async def be_killed_between_bytes_and_record(running: Running, is_off: bool) -> None:
    """Bytes first. A bot is killed with the first file that it fetches, between its bytes and its record; another one
    takes over. The event comes twice."""
    first = running.town.bots[0]
    first.env = {**first.env, "CHAOS_KILLED_BESIDE_BYTES": "1"}
    await running.begin(first)
    await talk_until_taken_over(running)
    await running.people.press_only(await find_card(running, WHO), "confirm")
    await find_card(running, LEAD)


@scene("copies", f"leave {LEAD} 2", faults=("kill",))
async def be_killed_after_a_copy(running: Running, is_off: bool) -> None:
    """A look before it is shown again. A bot is killed when the approver has got the file, and nothing of that
    committed; another one takes over."""
    first = running.town.bots[0]
    card = await ask(running, first)

    def has_file() -> bool:
        return any(one.get("files") for dm, one in running.out.posts() if dm == get_dm(LEAD))

    act_at_once(running, has_file, first.kill)
    await running.people.press_only(card, "confirm")
    await hand_over(running)


@scene("posts", "plain", faults=("kill",))
async def be_killed_after_a_post(running: Running, is_off: bool) -> None:
    """A look before it is said again. A bot is killed when its answer stands there, and nothing of that committed;
    another one takes over."""
    first = running.town.bots[0]
    await running.begin(first)
    act_at_once(running, lambda: any(read_key(one).endswith(":final") for _, one in running.out.posts()), first.kill)
    await talk_until_taken_over(running)


@scene("expiry", f"mail {OTHER}", faults=("expiry",))
async def wait_until_it_expires(running: Running, is_off: bool) -> Facts | None:
    """Timers come. Nobody presses a card: they are reminded, and it expires."""
    await ask(running)
    running.counts["expiry"] += 1

    def has_expired() -> bool:
        return any("again" in one.choices for one in running.people.cards(get_dm(WHO)))

    try:
        await running.wait_until(has_expired, EXPIRES_S + SOON_S if is_off else PATIENCE_S)
    except TimeoutError:
        return replace(await running.collected(""), seen=("the card never expired",))
    return None


@scene("escalation", f"leave {LEAD} 2", faults=("escalation",))
async def wait_until_it_escalates(running: Running, is_off: bool) -> Facts | None:
    """Tasks that nobody decides go up. An approver says nothing; their manager is asked, and decides."""
    await running.people.press_only(await ask(running), "confirm")
    await find_card(running, LEAD)
    with suppress(TimeoutError):
        patience_s = running.plan.wanted.escalates_s + SOON_S if is_off else PATIENCE_S
        await running.wait_until(lambda: running.people.cards(get_dm(MANAGER)), patience_s)
    if not (cards := running.people.cards(get_dm(MANAGER))):
        return await running.collected("")
    running.counts["escalation"] += 1
    await running.people.press_only(cards[0], "approve")
    return None


@scene("outages", "look", faults=("refuse",), bots=1)
async def be_refused_by_redis(running: Running, is_off: bool) -> None:
    """Refusals are outages. While a message is being worked on, Redis is full, then has too few replicas, then cannot
    save, then is a replica itself: all in all for longer than all tries take."""
    await running.begin()
    talking = running.crew.create_task(running.people.talk())
    await running.wait_until(lambda: running.people.spoken)
    await running.out.taken(running.people.spoken[0].events[0])
    for draw, name in enumerate(running.store.refusals):
        assert await running.store.refuse(draw, 1.5) == name
        running.counts["refuse"] += 1
    await talking


@scene("answers", f"mail {OTHER}", faults=("cut",), bots=1)
async def lose_an_answer(running: Running, is_off: bool) -> None:
    """A repeated checkpoint is known again. Redis notes that an effect begins, and its answer is lost on the way."""
    assert len(running.store.proxies) == 1, "this moment needs a proxy before Redis"
    proxy = running.store.proxies[0]
    card = await ask(running)
    proxy.trap = b"begin:1"
    await running.people.press_only(card, "send")
    await running.wait_until(lambda: running.out.mailbox.kept)
    running.counts["cut"] += proxy.was_cut


EXPENSES = (f"expense {LEAD} 86", f"expense {LEAD} 95")


@scene("emptied", *EXPENSES, bots=1, more={"CHAOS_FLOOR": "1"})
async def be_emptied(running: Running, is_off: bool) -> Facts:
    """Nothing is done in a store that is not the one from before, and no number comes twice. It is emptied behind a
    card that an approver has; an administrator accepts that; somebody asks for something else."""
    [bot] = running.town.bots
    await running.begin()
    first, second = running.plan.lines
    assert await ask_and_confirm(running, first) == []
    card = await find_card(running, LEAD)
    await running.store.empty()
    seen = await wait_until_held(running, bot, is_off)
    await running.people.press_only(card, "approve")
    if not is_off:  # otherwise nobody knows that there is anything to accept
        await accept(bot)
    running.counts["emptied"] += 1
    await bot.replaced()
    seen += await ask_and_confirm(running, second)
    facts = await running.at_rest()
    return replace(facts, judged=("seen", "lanes"), seen=(*seen, *list_numbers_twice(running, facts)))


@scene("restored", f"mail {OTHER}", bots=1)
async def be_restored(running: Running, is_off: bool) -> Facts:
    """The same with a copy from before a mail was sent: the card is pressed that an old screen still has. Until
    somebody accepts the store nothing comes of it, nor afterwards: whoever pressed is told."""
    [bot], kept = running.town.bots, running.out.mailbox.kept
    card = await ask(running)
    await running.empty()
    copy = running.store.copy_data()
    await running.people.press_only(card, "send")
    await running.wait_until(lambda: kept)
    await asyncio.sleep(TOLERATED_S / running.plan.wanted.speed + 1)
    await running.store.restore_data(copy)
    seen = await wait_until_held(running, bot, is_off)
    await running.people.press_stale(card, "send")
    with suppress(TimeoutError):
        # Without its safety, the mail still waits for what other processes remember.
        await running.wait_until(lambda: len(kept) > 1, PATIENCE_S if is_off else SOON_S)
    seen += [f"the mail was sent {len(kept)} times, before anybody had accepted the store"] if len(kept) > 1 else []
    told = len(running.out.posts())
    await accept(bot)
    running.counts["restored"] += 1
    if not is_off:
        await running.wait_until(lambda: len(running.out.posts()) > told)
    facts = await running.at_rest()
    seen += [f"the mail was sent {len(facts.mails)} times"] if len(facts.mails) > 1 else []
    return replace(facts, judged=("seen", "lanes"), seen=tuple(seen))


@scene("failover", *EXPENSES, bots=1, speed=2)
async def lose_the_last_moment(running: Running, is_off: bool) -> Facts:
    """A process remembers which number was the last. The store loses its last moment, in which a request began."""
    [bot] = running.town.bots
    await running.begin()
    first, second = running.plan.lines
    card = await ask_for(running, first)
    copy = running.store.copy_data()
    await confirm(running, card, first)
    await running.store.restore_data(copy)
    running.counts["failover"] += 1
    seen = await ask_and_confirm(running, second)
    facts = await running.at_rest()
    seen += [f"work was held {bot.times('work is held')} times"] if bot.times("work is held") else []
    return replace(facts, judged=("seen", "lanes"), seen=(*seen, *list_numbers_twice(running, facts)))


@scene("clock", f"leave {LEAD} 2")
async def have_a_wrong_clock(running: Running, is_off: bool) -> Facts:
    """The time is Redis's. The clock of one of two processes is 80 hours ahead while a request waits for its
    approver: nobody is reminded or passed over, and nothing is dated ahead."""
    wrong = running.town.bots[1]
    wrong.env = {**wrong.env, "CHAOS_CLOCK_S": str(80 * 3600)}
    await running.begin(*([wrong] if is_off else []))
    if not is_off:
        await running.wait_until(lambda: wrong.times("work is held"))
    await running.people.talk()
    await running.people.press_only(await find_card(running, WHO), "confirm")
    running.counts["clock"] += 1
    await find_card(running, LEAD)
    facts = await running.at_rest()
    spoke = [f"bot {wrong.number} posted {one.key}" for one in facts.posts if one.by == wrong.number]
    return replace(facts, seen=tuple(spoke))


async def ask_and_confirm(running: Running, line: Line) -> list[str]:
    """The approver has the card of what this line asked for, or what is wrong."""
    try:
        await confirm(running, await ask_for(running, line), line)
    except TimeoutError:  # its number is that of another, whose card is found in the chat and taken for its own
        return [f"nobody was asked to decide {line.tag}"]
    return []


async def ask_for(running: Running, line: Line) -> Seen:
    """This line is said; its card."""
    await running.people.say(running.plan.conversations[line.conversation], line)
    return await find_card(running, line.person)


async def confirm(running: Running, card: Seen, line: Line) -> None:
    """Its writer confirms it; returns when the approver has a card of it."""
    await running.people.press_only(card, "confirm")
    await running.wait_until(lambda: any(line.tag in one.text for one in running.people.cards(get_dm(LEAD))))


def list_numbers_twice(running: Running, facts: Facts) -> list[str]:
    """Numbers under which people have seen different requests. Feishu takes the second card for the first, which shows
    it when cards are shown anew after a failover."""
    seen: dict[str, set[str]] = {}
    before = [text_of(blocks) for blocks in running.out.driver.list_old_blocks()]
    for text in [*(post.text for post in facts.posts if post.channel == get_dm(LEAD)), *before]:
        number, told = NUMBER.search(text), TAG.search(text)
        if number and told:
            seen.setdefault(number[0], set()).add(told[1])
    return [f"{number} is the number of {sorted(tags)}" for number, tags in seen.items() if len(tags) > 1]


async def wait_until_held(running: Running, bot: BotProcess, is_off: bool) -> list[str]:
    """What is wrong with how the loss of data was noticed."""
    with suppress(TimeoutError):
        await running.wait_until(lambda: bot.times("work is held"), SOON_S if is_off else PATIENCE_S)
    return [] if bot.times("work is held") else ["nobody noticed that the store is another one"]


async def accept(bot: BotProcess) -> None:
    """An administrator takes the store as it is."""
    await programs.ran("restored", "--accept", cwd=bot.folder, env={"COLUMNS": "200", **bot.env})


def count_refusals(bot: BotProcess) -> int:
    """How often it was told that a lane is not its own any more."""
    return bot.times("lane lost") + bot.times("lane lost while handling")
