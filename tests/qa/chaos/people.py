"""The people of a run: who writes the planned lines, and who presses the buttons that come of them."""

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from bot.dev.workspace.acts import ActResult
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import WorkspaceChange
from tests.harness.files import png
from tests.qa.chaos.outside import Outside
from tests.qa.chaos.plan import TAG, Conversation, Line, Plan, dice, draw
from tests.qa.company import DIRECTORS, get_dm, get_owner, get_person_id, is_dm, list_buttons, read_key

LOOK_S = 0.2  # how often people look for new cards
PATIENCE_S = 6.0  # how long a card may stay as it was before somebody presses again
TIMES = 4  # presses of one card before its people give up: whoever checks will find it
RETRIES = 3
"""So often people try again what has failed, and leave it then: some of it never succeeds (two leaves on one day)."""
TAKEN_S = 120.0
"""How long a line may wait for a bot that acknowledges it, before nothing more is said in its conversation."""
TASK = re.compile(r"\b[LE]-\d{4}-\d+\b")
HABITS: dict[str, tuple[tuple[str, int], ...]] = {
    "confirm": (("confirm", 80), ("both", 6), ("cancel", 6), ("", 8)),
    "send": (("send", 80), ("both", 6), ("cancel", 6), ("", 8)),
    "approve": (("approve", 58), ("reject", 14), ("return", 6), ("transfer", 7), ("add_sign", 7), ("", 8)),
    "resubmit": (("resubmit", 40), ("withdraw", 45), ("", 15)),
    "happened": (("happened", 35), ("redo", 35), ("", 30)),
    "retry": (("retry", 100),),
    "again": (("", 100),),
}
"""By one of its buttons: what people do with a card. Empty: nothing, it stays as it is."""


DIALOGS = frozenset({"reject", "return", "transfer", "add_sign", "resubmit"})  # choices that open a dialog
ONCE = frozenset({"return", "transfer", "add_sign", "resubmit"})
"""What people do once with a request: then they decide, or it would never end."""
EDITED = 5.0  # of a hundred messages that are edited later


@dataclass(frozen=True, slots=True)
class Spoken:
    line: Line
    ts: str
    thread: str  # the thread's first message, its own for a DM
    channel: str
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Button:
    choice: str
    approval: str
    version: int
    value: str


@dataclass(frozen=True, slots=True)
class Seen:
    channel: str
    ts: str
    text: str
    buttons: tuple[Button, ...]

    @property
    def choices(self) -> frozenset[str]:
        return frozenset(button.choice for button in self.buttons)

    @property
    def tag(self) -> str:
        found = TAG.search(self.text)
        return found[1] if found else ""

    @property
    def name(self) -> str:
        """The same in every run of a seed, as far as people can tell."""
        return f"{self.tag}{TASK.findall(self.text)[:1]}{sorted(self.choices)}"

    def find_button(self, choice: str) -> Button:
        return next(button for button in self.buttons if button.choice == choice)


def buttons_of(message: dict[str, Any]) -> tuple[Button, ...]:
    found = list[Button]()
    for one in list_buttons(message):
        approval, _, version = str(one.get("value", "")).rpartition(".")
        found.append(Button(str(one["action_id"])[3:], approval, int(version or 0), str(one.get("value", ""))))
    return tuple(found)


def text_of(node: Any) -> str:
    """Everything readable in a message or a part of one."""
    if isinstance(node, dict):
        own = node.get("text")
        inner = (text_of(value) for name, value in node.items() if name != "metadata")
        return "\n".join(filter(None, [own if isinstance(own, str) else "", *inner]))
    return "\n".join(filter(None, map(text_of, node))) if isinstance(node, list) else ""


def read_event_message(event: dict[str, Any]) -> str:
    told = event["payload"]["event"] if "payload" in event else event["event"]
    return str(told.get("ts") or told.get("message", {}).get("message_id", ""))


@dataclass
class People:
    """Everybody. `spoken`, `counts`: what they have done."""

    plan: Plan
    out: Outside
    crew: asyncio.TaskGroup  # what they do beside writing; whatever fails there ends the run
    spoken: list[Spoken] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    at_work: set[asyncio.Task[None]] = field(default_factory=set)
    _seen: set[tuple[str, str, tuple[Button, ...]]] = field(default_factory=set)
    _dirty: set[str] = field(default_factory=set)
    _writers: dict[str, str] = field(default_factory=dict)  # tag → who wrote it
    _cards: dict[str, list[str]] = field(default_factory=dict)
    """channel → the messages in it that are cards, with buttons or not any more, of those that were looked at."""
    _looked: dict[str, str] = field(default_factory=dict)  # channel → the newest message that was looked at
    _asked: set[tuple[str, int]] = field(default_factory=set)
    """(DM, tasks that wait there) for which its person has asked for a set."""
    _dialogs: dict[str, asyncio.Lock] = field(default_factory=dict)
    _chosen: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Tag → what was done with its request that is done once."""
    _retried: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(channel, message) → how often what failed there was tried again."""

    # Writing

    async def talk(self) -> None:
        """All lines of the plan, each conversation on its own. Returns when everything is said and taken."""
        async with asyncio.TaskGroup() as group:
            for one in self.plan.conversations:
                group.create_task(self._conversation(one, asyncio.get_running_loop().time()))

    async def _conversation(self, talk: Conversation, began: float) -> None:
        """The next line is written once the one before has been taken: events of a platform have no order."""
        thread: str | None = None
        for line in talk.lines:
            await asyncio.sleep(began + line.at_s - asyncio.get_running_loop().time())
            spoken = await self._say(talk, line, thread)
            thread = None if talk.direct else spoken.thread
            if not await self._taken(spoken):
                return
            if dice(self.plan.wanted.seed, "edit", line.tag).uniform(0, 100) < EDITED:
                self.counts["edits"] += 1
                await self.out.driver.edit_message(line.person, talk.channel, spoken.ts, f"{line.text}, please")

    async def say(self, talk: Conversation, line: Line) -> None:
        """One line; returns when it is taken."""
        await self._taken(await self._say(talk, line, None))

    async def _taken(self, spoken: Spoken) -> bool:
        """False when no bot wants it: whoever checks will find it."""
        try:
            async with asyncio.timeout(TAKEN_S):
                await asyncio.gather(*(self.out.taken(event) for event in spoken.events))
        except TimeoutError:
            self.counts["events not taken in time"] += 1
            return False
        return True

    async def _say(self, talk: Conversation, line: Line, thread: str | None) -> Spoken:
        mention = "" if talk.direct else f"@{self.out.ws.app.real_name} "
        noted = [self.out.driver.upload_file(line.person, line.file, png(line.tag))] if line.file else []
        ts = await self.out.driver.send_message(line.person, talk.channel, mention + line.text, thread, files=noted)
        given = list(self.out.ws.delivery.delivered_events)[-2:]
        events = tuple(str(one["event_id"]) for one in given if read_event_message(one) == ts)
        spoken = Spoken(line, ts, thread or ts, talk.channel, events)
        self.spoken.append(spoken)
        self._writers[line.tag] = line.person
        return spoken

    # Pressing

    async def press(self) -> None:
        """Until cancelled: whatever has buttons is pressed, or deliberately left."""
        self.out.ws.changes.listeners.append(self._changed)
        while True:
            channels, self._dirty = self._dirty, set()
            for channel in channels:
                found = self.cards(channel)
                for card in found:
                    self._meet(card)
                self._meet_sets(channel, sum("approve" in card.choices for card in found))
            await asyncio.sleep(LOOK_S)

    @property
    def idle(self) -> bool:
        return not self.at_work and not self._dirty

    def _changed(self, change: WorkspaceChange) -> None:
        if change.what == "messages":
            self._dirty.add(change.channel)

    def cards(self, channel: str) -> list[Seen]:
        """What has buttons now in a channel."""
        messages = self.out.ws.state.rooms[channel].messages
        new = list(takewhile(lambda ts: ts > self._looked.get(channel, ""), reversed(messages)))
        self._looked[channel] = next(reversed(messages), "")
        looked = [ts for ts in (*self._cards.get(channel, ()), *reversed(new)) if ts in messages]
        shown = {ts: self.out.show(messages[ts]) for ts in looked}
        self._cards[channel] = [ts for ts, one in shown.items() if read_key(one).startswith("A")]
        known = ((ts, shown[ts]) for ts in self._cards[channel])
        return [Seen(channel, ts, text_of(one), own) for ts, one in known if (own := buttons_of(one))]

    def _meet(self, card: Seen) -> None:
        """A card that was not seen before, or not like this."""
        if not self._is_new(card):
            return
        habit = next((name for name in HABITS if name in card.choices), "")
        choice = draw(HABITS[habit], dice(self.plan.wanted.seed, card.name)) if habit else ""
        if choice in ONCE:
            chosen = self._chosen[card.tag or card.name]
            if choice in chosen or choice not in card.choices:
                choice = habit if habit not in ONCE else "withdraw"
            else:
                chosen.add(choice)
        self._retried[card.channel, card.ts] += choice == "retry"
        if not choice or self._retried[card.channel, card.ts] > RETRIES:
            self.counts["cards left alone"] += 1
            return
        self._start(self._deal(card, choice))

    def _is_new(self, card: Seen) -> bool:
        """It was not seen before, or not with these buttons."""
        is_new = (card.channel, card.ts, card.buttons) not in self._seen
        self._seen.add((card.channel, card.ts, card.buttons))
        return is_new

    def _meet_sets(self, channel: str, waiting: int) -> None:
        """Of those for whom several tasks wait, some decide them at once: they ask on Home, and press twice what comes
        of it, while their single cards are pressed too."""
        for ts, one in self.out.ws.state.rooms[channel].messages.items():
            message = self.out.show(one)
            own = buttons_of(message) if read_key(message).startswith("set:") else ()
            if own and self._is_new(card := Seen(channel, ts, text_of(message), own)):
                self._start(self._press_set(card))
        if waiting > 1 and (channel, waiting) not in self._asked:
            self._asked.add((channel, waiting))
            self._start(self._ask_for_set(get_owner(channel)))

    def _start(self, deed: Coroutine[Any, Any, None]) -> None:
        task = self.crew.create_task(deed)
        self.at_work.add(task)
        task.add_done_callback(self.at_work.discard)

    async def _ask_for_set(self, person: str) -> None:
        with suppress(TimeoutError, WorkspaceError):
            await self.out.driver.open_home(person)
            home = await self.out.driver.wait_until(lambda: self.out.driver.homes.get(person), 5)
            done = await self.out.driver.click_view_button(person, home["id"], "cs:several")
            self.counts["sets asked for"] += done.ok

    async def _press_set(self, card: Seen) -> None:
        button, who = card.find_button("set_approve"), self._reader(card)
        for _ in range(TIMES):
            pressed = await asyncio.gather(*(self._click(who, card.channel, card.ts, button) for _ in range(2)))
            self.counts["presses of sets"] += sum(done.ok for done in pressed)
            if any(done.ok for done in pressed) or await self._gone(card):
                return

    async def _deal(self, card: Seen, choice: str) -> None:
        """Presses until the card is another one, as people do when nothing happens."""
        rng = dice(self.plan.wanted.seed, card.name, "deal")
        for times in range(TIMES):
            await asyncio.sleep(rng.uniform(0, 1.0))
            self.counts["pressed again"] += times > 0
            await self._everybody(card, choice, rng.random())
            if await self._gone(card):
                return
        self.counts["cards that did not move"] += 1

    async def _everybody(self, card: Seen, choice: str, chance: float) -> None:
        """Those who may, twice or with two minds, and those who may not."""
        who = self._reader(card)
        chosen = sorted(card.choices & {"confirm", "send", "cancel"}) if choice == "both" else [choice]
        presses = [self._one(who, card, one) for one in chosen]
        if chance < 0.5 and choice not in DIALOGS:
            presses += [self._one(who, card, chosen[0])]
        if chance < 0.7:
            presses += [self._stranger(card, chosen[0]) for _ in range(2)]
        await asyncio.gather(*presses)

    def _reader(self, card: Seen) -> str:
        """Whose card it is: the DM's owner; in a channel, who wrote what it came from."""
        if is_dm(card.channel):
            return get_owner(card.channel)
        assert card.tag, f"a card without a tag in a channel: {card.text}"
        return self._writers[card.tag]

    async def press_only(self, card: Seen, choice: str) -> None:
        """Whose card it is presses this, once."""
        await self._one(self._reader(card), card, choice)

    async def press_stale(self, card: Seen, choice: str) -> None:
        """Whose card it is presses what it had when they last looked."""
        self._ended(await self._click(self._reader(card), card.channel, card.ts, card.find_button(choice), force=True))

    def text(self, card: Seen) -> str:
        return text_of(self.out.show(self.out.ws.state.rooms[card.channel].messages[card.ts]))

    async def _one(self, person: str, card: Seen, choice: str) -> None:
        self.counts["presses"] += 1
        if choice in DIALOGS:
            await self._decide_in_dialog(person, card, choice)
        else:
            self._ended(await self._click(person, card.channel, card.ts, card.find_button(choice)))

    async def _stranger(self, card: Seen, choice: str) -> None:
        """Somebody whose card it is not: in a channel they see it, in a DM they forge the press."""
        reader = self._reader(card)
        others = [one.id for one in self.plan.world.people if one.id != reader]
        person = dice(self.plan.wanted.seed, card.name, "stranger").choice(others)
        self.counts["presses by others"] += 1
        own, forged = next(iter(self.out.ws.state.rooms[get_dm(person)].messages), ""), is_dm(card.channel)
        channel, ts = (get_dm(person), own) if forged else (card.channel, card.ts)
        if ts:
            self._ended(await self._click(person, channel, ts, card.find_button(choice), force=forged))

    async def _click(self, person: str, channel: str, ts: str, button: Button, *, force: bool = False) -> ActResult:
        try:
            return await self.out.driver.click_button(
                person, channel, ts, f"cs:{button.choice}", value=button.value if force else None, force=force
            )
        except WorkspaceError as refused:  # the card has been rewritten since
            return ActResult(refused.error)

    def _ended(self, done: ActResult) -> None:
        """On Feishu a press that was not taken is answered too, and says so."""
        is_taken = done.ok and done.answer.get("toast", {}).get("type") != "error"
        self.counts["presses taken" if is_taken else f"presses: {done.error}"] += 1

    async def _decide_in_dialog(self, person: str, card: Seen, choice: str) -> None:
        """What needs words, or people: its dialog, filled in."""
        async with self._dialogs.setdefault(person, asyncio.Lock()):
            driver = self.out.driver
            if (await self._click(person, card.channel, card.ts, card.find_button(choice))).ok:
                with suppress(TimeoutError, WorkspaceError):
                    view = await driver.wait_until(lambda: driver.find_top_view(person), 3)
                    given = {} if choice == "resubmit" else self._fill(view, person, card)
                    ended = await driver.submit_view(person, view["id"], given)
                    self.counts[f"dialogs {'submitted' if ended.ok else ended.error}"] += 1
                    self.counts[choice] += ended.ok
            for _ in range(TIMES):  # on Feishu it closes once a bot has heard of it
                if (left := driver.find_top_view(person)) is None:
                    return
                with suppress(WorkspaceError):
                    await driver.close_view(person, str(left["id"]))
                await asyncio.sleep(LOOK_S)
            self.counts["dialogs that did not close"] += 1

    def _fill(self, view: dict[str, Any], person: str, card: Seen) -> dict[str, Any]:
        """Words for what takes words, a director for what takes people; everything else stays as it is offered."""
        rng = dice(self.plan.wanted.seed, card.name, "fill")
        other = rng.choice([get_person_id(n) for n in range(DIRECTORS) if get_person_id(n) != person])
        values = {"plain_text_input": "not now", "users_select": other, "multi_users_select": [other]}
        inputs = [one for one in view["blocks"] if one["type"] == "input"]
        return {one["block_id"]: values[one["element"]["type"]] for one in inputs if one["element"]["type"] in values}

    async def _gone(self, card: Seen) -> bool:
        end = asyncio.get_running_loop().time() + PATIENCE_S
        while asyncio.get_running_loop().time() < end:
            message = self.out.ws.state.rooms[card.channel].messages.get(card.ts)
            if message is None or buttons_of(self.out.show(message)) != card.buttons:
                return True
            await asyncio.sleep(LOOK_S)
        return False
