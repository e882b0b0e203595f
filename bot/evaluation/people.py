"""The hands of a scenario's people: they write, look at cards and press. What each of them saw and pressed is logged
here, by what the workspace showed, and that log is what effects are judged by."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from bot.evaluation.scenario import Act
from bot.evaluation.seen import Message, block_of, buttons_of, text_of
from bot.evaluation.town import Town
from bot.local.workspace.refused import Refused
from tools.workflow.redis_store import RedisStore
from tools.workflow.state import Request

NEUTRAL = frozenset({"cancel", "edit", "show", "again", "anew"})
"""Presses that change nothing in the world."""
OWN = frozenset({"confirm", "send", "resubmit", "withdraw", "cancel", "edit", "retry", "redo", "happened"})
"""Presses for which only who asked is entitled."""
DIALOG_S = 3.0
_REQUEST = re.compile(r"\b[A-Z]-\d{4}\b")


@dataclass(frozen=True, slots=True)
class Seen:
    """A card on somebody's screen."""

    channel: str
    message: Message
    asker: str
    """Whoever wrote what the card answers to: person id; of a card that came by itself, whose DM it is in."""

    @property
    def text(self) -> str:
        return text_of(self.message)


@dataclass(frozen=True, slots=True)
class Press:
    """What somebody pressed, and what they saw when they did."""

    person: str
    choice: str
    value: str
    """What the button carries: card and version."""
    shown: str
    """All that the card said then."""
    entitled: bool
    """They had the authority: it was they who asked, or the task was theirs, or they stood in, and never on
    their own request."""
    form: Mapping[str, str] = field(default_factory=dict)
    """What they filled in where a dialog opened."""


@dataclass
class People:
    """Everybody of one scenario."""

    town: Town
    presses: list[Press] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What could not be done as the scenario says."""
    _last: dict[str, str] = field(default_factory=dict)
    """Room → the thread of the last message there."""
    _pressed: Seen | None = None

    async def do(self, act: Act) -> None:
        """One act, and its consequences to the end."""
        if act.says:
            await self._say(act)
        elif act.presses:
            await self._press(act)
        elif act.hours:
            await self.town.pass_time(act.hours)
        else:
            for fault in act.mailbox:
                self.town.mailbox.fail_next(fault)
        await self.town.rest()

    async def _say(self, act: Act) -> None:
        person = self.town.ids[act.who]
        room = self.town.room(act.where, person)
        thread = self._last.get(room) if act.thread else None
        ts = await self.town.driver.say(person, room, act.says, thread)
        self._last[room] = thread or ts

    async def _press(self, act: Act) -> None:
        person = self.town.ids[act.who]
        card = self._pressed if act.again else self._found(act, person)
        if card is None:
            self.problems.append(f"{act.who} found no card with {act.presses} {act.card!r}")
            return
        await asyncio.gather(*(self.press(person, card, act.presses, act.form) for _ in range(act.times)))

    def _found(self, act: Act, person: str) -> Seen | None:
        """The newest card with these words and this button that can be pressed now."""
        room = self.town.room(act.where, self.town.ids[act.of] if act.of else person)
        fitting = (one for one in self.cards() if one.channel == room and act.card in one.text)
        return next((one for one in reversed([*fitting]) if act.presses in choices_of(one.message)), None)

    def cards(self) -> Iterator[Seen]:
        """Every message of the bot with buttons, oldest first, as it looks now."""
        for room in self.town.driver.ws.state.rooms.values():
            humans = ""
            for message in sorted(room.messages.values(), key=lambda one: str(one["ts"])):
                if message.get("user") != self.town.driver.ws.app.user:
                    humans = message.get("user", "")
                elif any(buttons_of(message)):
                    root = room.messages.get(message.get("thread_ts", ""), {})
                    asker = self._asker(room.id, message, root) if root else humans
                    yield Seen(room.id, copy.deepcopy(message), asker or self._owner(room.id))

    def _asker(self, room: str, card: Message, root: Message) -> str:
        """The last person who had written in the card's thread when it came."""
        said = self.town.driver.thread(room, root["ts"])
        written = [m for m in said if m["ts"] < card["ts"] and m.get("user") != self.town.driver.ws.app.user]
        return str(written[-1]["user"]) if written else ""

    def _owner(self, room: str) -> str:
        """Whose DM a room is."""
        return next((person.id for person in self.town.world.people if person.direct == room), "")

    async def press(self, person: str, card: Seen, choice: str, form: Mapping[str, str] | None = None) -> None:
        """A press: on the card if this person has it on their screen, else forged from a message of their own DM."""
        button = next((b for b in buttons_of(card.message) if b["action_id"] == f"cs:{choice}"), None)
        value = str((button or {}).get("value", ""))
        told = Press(
            person, choice, value, card.text, await self.entitled(person, choice, card), self._by_id(form or {})
        )
        self.presses.append(told)
        self._pressed, before = card, len(self.town.driver.private(person))
        try:
            await self._click(person, card, choice, value)
            if form:
                await self._fill(person, told, before)
        except Refused as refused:
            self.problems.append(f"{person} could not press {choice}: {refused}")

    def _by_id(self, form: Mapping[str, str]) -> dict[str, str]:
        return {name: self.town.ids.get(text, text) for name, text in form.items()}

    async def _click(self, person: str, card: Seen, choice: str, value: str) -> None:
        driver, room = self.town.driver, self.town.driver.ws.state.rooms[card.channel]
        where, ts = card.channel, str(card.message["ts"])
        if person not in room.members:
            where, ts = await self._own_message(person)
        await driver.click(person, where, ts, f"cs:{choice}", force=True, value=value)

    async def _own_message(self, person: str) -> tuple[str, str]:
        """Any message of the bot in their DM, to press from."""
        channel, bot = self.town.driver.channel(person), self.town.driver.ws.app.user
        if not (own := [m for m in self.town.driver.messages(channel) if m.get("user") == bot]):
            await self.town.driver.say(person, channel, "help")
            own = await self.town.driver.until(
                lambda: [m for m in self.town.driver.messages(channel) if m.get("user") == bot]
            )
        return channel, str(own[-1]["ts"])

    async def _fill(self, person: str, told: Press, told_before: int) -> None:
        driver = self.town.driver
        with suppress(TimeoutError):
            await driver.until(lambda: driver.view(person) or len(driver.private(person)) > told_before, DIALOG_S)
        if not (view := driver.view(person)):
            return  # somebody who may not is told so
        blocks = {name: block_of(view, name) for name in told.form}
        if not all(blocks.values()):
            self.problems.append(f"the dialog of {told.choice} does not ask for {', '.join(told.form)}")
            await driver.close_view(person, view["id"])
            return
        values = {blocks[name]: text for name, text in told.form.items()}
        done = await driver.submit(person, view["id"], values)
        if not done.ok:
            self.problems.append(f"the dialog of {told.choice} was refused: {done.error} {dict(done.errors)}")
            await driver.close_view(person, view["id"])

    async def entitled(self, person: str, choice: str, card: Seen) -> bool:
        """By what the platform and the engine's own record say, not by what the card says of itself."""
        if choice in OWN and not _of_task(card):
            return person == card.asker
        store = RedisStore(self.town.bot.redis)
        requests = await store.load_all(_REQUEST.findall(card.text)[:1])
        return any([await self._may(store, person, choice, request) for request in requests])

    async def _may(self, store: RedisStore, person: str, choice: str, request: Request) -> bool:
        """The author revises and nobody else; whoever has a task decides, or stands in for who has, but not the
        author."""
        assigned, own = set(request.waits_for), person == request.initiator
        if choice in ("resubmit", "withdraw"):
            return own and person in assigned
        away = {one.person for one in await store.deputising(person) if one.covers(self.town.today)}
        return not own and bool(assigned & {person, *away})


def _of_task(card: Seen) -> bool:
    """A card that came by itself, or was brought to a decider: it has a decision's buttons."""
    return bool(choices_of(card.message) & {"approve", "reject", "resubmit"})


def choices_of(message: Message) -> set[str]:
    """What can be pressed on a message."""
    return {str(button["action_id"]).removeprefix("cs:") for button in buttons_of(message)}
