"""The people of a scenario, who write messages, look at cards and press buttons.

A log keeps what each person saw and pressed, as the workspace showed it. Effects are judged by that log."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from bot.dev.evaluation.effects import list_day_spellings
from bot.dev.evaluation.environment import ScenarioEnvironment, advance_clock
from bot.dev.evaluation.pictures import build_picture
from bot.dev.evaluation.scenario import ScenarioAct
from bot.dev.evaluation.shown_blocks import Message, find_block_id, list_buttons, read_message_text
from bot.dev.workspace.refused import WorkspaceError
from tools.workflow.engine.store import RedisStore

NEUTRAL = frozenset({"cancel", "edit", "show", "again", "anew"})
"""Presses that change nothing in the world."""
OWN = frozenset({"confirm", "send", "resubmit", "withdraw", "cancel", "edit", "retry", "redo", "happened"})
"""Presses to which only the person who asked is entitled."""
DIALOG_S = 3.0
_REQUEST = re.compile(r"\b[A-Z]-\d{4}\b")


@dataclass(frozen=True, slots=True)
class VisibleCard:
    """A card on somebody's screen."""

    channel: str
    message: Message
    asker: str
    """Person id of the author of the message that the card answers; for a card without one, the owner of the DM."""

    @property
    def text(self) -> str:
        return read_message_text(self.message)


@dataclass(frozen=True, slots=True)
class CardPress:
    """A press, and the card as the person saw it at that moment."""

    person: str
    choice: str
    button_value: str
    """The button's value: card and version."""
    card_text: str
    """Full text of the card at the moment of the press."""
    entitled: bool
    """Whether the person had the authority: the asker, the task's owner, or a stand-in, but never on their own
    request."""
    form: Mapping[str, str] = field(default_factory=dict)
    """Values filled in if a dialog opened."""


@dataclass
class ScenarioActors:
    """All people of one scenario."""

    environment: ScenarioEnvironment
    presses: list[CardPress] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Acts that could not be performed as the scenario says."""
    _last: dict[str, str] = field(default_factory=dict)
    """Channel id → thread of the last message there."""
    _pressed: VisibleCard | None = None

    async def perform_act(self, act: ScenarioAct) -> None:
        """Perform one act, and wait until all its consequences have happened."""
        driver, ids = self.environment.driver, self.environment.person_ids
        if act.says:
            person = ids[act.who]
            room = self.environment.get_channel_id(act.where, person)
            thread = self._last.get(room) if act.thread else None
            files = [driver.upload_file(person, one.name, build_picture(one.text)) for one in act.files]
            ts = await driver.send_message(person, room, act.says, thread, files=files)
            self._last[room] = thread or ts
        elif act.presses:
            person = ids[act.who]
            card = self._pressed
            if not act.again:  # the newest card that has these words and this button now
                room = self.environment.get_channel_id(act.where, ids[act.of] if act.of else person)
                words = list_day_spellings("" if act.card in self.environment.unnamed else act.card)
                cards = (one for one in self.list_cards() if one.channel == room)
                fitting = (one for one in cards if any(spelling in one.text for spelling in words))
                card = next((one for one in reversed([*fitting]) if act.presses in list_choices(one.message)), None)
            if card is None:
                self.problems.append(f"{act.who} found no card with {act.presses} {act.card!r}")
            else:
                presses = (self.press_button(person, card, act.presses, act.form) for _ in range(act.times))
                await asyncio.gather(*presses)
        elif act.hours:
            await advance_clock(self.environment.bot, self.environment.clock, act.hours)
        else:
            for fault in act.mailbox:
                self.environment.mailbox.fail_next_mail(fault)
        await self.environment.wait_until_idle()

    def list_cards(self) -> Iterator[VisibleCard]:
        """Yield every message of the bot with buttons in its present form, oldest first in each room."""
        driver = self.environment.driver
        for room in driver.ws.state.rooms.values():
            owner = next((person.id for person in self.environment.world.people if person.dm_id == room.id), "")
            humans = ""
            for message in sorted(driver.list_messages(room.id), key=lambda one: str(one["ts"])):
                if message.get("user") != driver.ws.app.user:
                    humans = message.get("user", "")
                elif any(list_buttons(message)):
                    root = room.messages.get(message.get("thread_ts", ""), {})
                    said = driver.list_thread_messages(room.id, root["ts"]) if root else []
                    asked = [m for m in said if m["ts"] < message["ts"] and m.get("user") != driver.ws.app.user]
                    asker = (str(asked[-1]["user"]) if asked else "") if root else humans  # the last before the card
                    yield VisibleCard(room.id, copy.deepcopy(message), asker or owner)

    async def press_button(
        self, person: str, card: VisibleCard, choice: str, form: Mapping[str, str] | None = None
    ) -> None:
        """Press a button on the card if the person can see it; otherwise forge the press from a message of their own
        DM."""
        button = next((b for b in list_buttons(card.message) if b["action_id"] == f"cs:{choice}"), None)
        value = str((button or {}).get("value", ""))
        ids, is_entitled = self.environment.person_ids, await self.is_entitled(person, choice, card)
        filled = {name: ids.get(text, text) for name, text in (form or {}).items()}
        told = CardPress(person, choice, value, card.text, is_entitled, filled)
        self.presses.append(told)
        driver, where, message = self.environment.driver, card.channel, card.message
        self._pressed, before = card, len(driver.list_ephemerals(person))
        try:
            if person not in driver.ws.state.rooms[where].members:
                where = driver.get_dm_id(person)
                if not (own := self.environment.list_bot_messages(where)):
                    await driver.send_message(person, where, "help")
                    own = await driver.wait_until(lambda: self.environment.list_bot_messages(where))
                message = own[-1]
            await driver.click_button(person, where, str(message["ts"]), f"cs:{choice}", force=True, value=value)
            if form:
                await self._fill_dialog(person, told, before)
        except WorkspaceError as refused:
            self.problems.append(f"{person} could not press {choice}: {refused}")

    async def _fill_dialog(self, person: str, told: CardPress, told_before: int) -> None:
        driver = self.environment.driver
        with suppress(TimeoutError):
            await driver.wait_until(
                lambda: driver.find_top_view(person) or len(driver.list_ephemerals(person)) > told_before, DIALOG_S
            )
        if not (view := driver.find_top_view(person)):
            return  # a person without permission gets a notice instead of a dialog
        blocks = {name: find_block_id(view, name) for name in told.form}
        if not all(blocks.values()):
            self.problems.append(f"the dialog of {told.choice} does not ask for {', '.join(told.form)}")
            await driver.close_view(person, view["id"])
            return
        values = {blocks[name]: text for name, text in told.form.items()}
        done = await driver.submit_view(person, view["id"], values)
        if not done.ok:
            self.problems.append(f"the dialog of {told.choice} was refused: {done.error} {dict(done.errors)}")
            await driver.close_view(person, view["id"])

    async def is_entitled(self, person: str, choice: str, card: VisibleCard) -> bool:
        """Return whether a person may press, by the platform and the engine's own record instead of the card's text.
        Only the author revises or withdraws. The assigned people decide, or their stand-ins, but never the author."""
        # A card that came by itself or was brought to a decider has a decision's buttons.
        is_task = bool(list_choices(card.message) & {"approve", "reject", "resubmit"})
        if choice in OWN and not is_task:
            return person == card.asker
        store = RedisStore(self.environment.bot.stores.redis)
        requests = await store.load_requests(_REQUEST.findall(card.text)[:1])
        if not requests:
            return False
        request = requests[0]
        assigned, own = set(request.waits_for), person == request.initiator
        if choice in ("resubmit", "withdraw"):
            return own and person in assigned
        away = {
            one.person for one in await store.list_delegations_to(person) if one.is_active_at(self.environment.today)
        }
        return not own and bool(assigned & {person, *away})


def list_choices(message: Message) -> set[str]:
    """Return the choices of the buttons on a message."""
    return {str(button["action_id"]).removeprefix("cs:") for button in list_buttons(message)}
