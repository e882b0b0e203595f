"""The local workspace and a mailbox for a company whose people write, press and forget, in a process of its own.

Run as `python -m tests.qa.bench.town PEOPLE`: prints where it is as JSON; then does what it is told (`ORDERS`), a line
of JSON each, and answers with one; ends when its input ends. Times are seconds of the event loop's clock."""

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from bot.dev.mailbox import Mailbox
from bot.dev.workspace.delivery import AppTransport, DeliveryAttempt, DeliveryTiming, NotAcknowledgedError
from bot.dev.workspace.feishu import messages
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.payloads import build_event_callback, build_message_event
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import Workspace, WorkspaceChange
from bot.dev.workspace.world import Json, read_world
from tests.harness.app_calls import get_app_calls
from tests.harness.card_blocks import build_shown
from tests.harness.hands import build_hands
from tests.harness.http_delivery import use_http_delivery
from tests.harness.office import open_workspace
from tests.harness.workspace_server import serve_workspace
from tests.qa import company
from tests.qa.company import DIRECTORS, get_dm, get_owner, list_buttons, read_key
from tests.qa.process import read_lines

SEND = "cs:send"
PATIENCE_S = 120.0
HABITS = {"cs:confirm": 0.94, SEND: 0.94, "cs:approve": 0.85}
"""By a button of a card: how often it is pressed; otherwise the card is forgotten."""
Said = Sequence[Sequence[str]]  # persons, and what each of them writes


def build_variables(folder: Path, people: int, where: Json, redis_url: str, model: str) -> dict[str, str]:
    """The settings of a bot for so many people."""
    settings = company.build_bot_settings(folder, company.build_directory_file(people), where["smtp"], redis_url, model)
    quiet = {"LOG_LEVEL": "ERROR", "LOG_FORMAT": "json"}  # nobody reads its output, and a full pipe would stop it
    return {**company.build_chat_settings(where["address"]), **settings, "OPENAI_API_KEY": "none", **quiet}


def get_time_s() -> float:
    return asyncio.get_running_loop().time()


async def wait_turns(count: int, per_s: float) -> AsyncIterator[int]:
    """So many numbers, evenly spaced, or at once."""
    began = get_time_s()
    for number in range(count):
        if per_s and (wait_s := began + number / per_s - get_time_s()) > 0:
            await asyncio.sleep(wait_s)
        yield number


@dataclass(frozen=True)
class TimedTransport:
    """A way to the bot that tells `note` how long each acknowledgement took (ms)."""

    way: AppTransport
    note: Callable[[float], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.way, name)

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        began = get_time_s()
        answer = await self.way.deliver_payload(parcel)
        self.note(1000 * (get_time_s() - began))
        return answer


@dataclass
class Town:
    """`presses`: whether people press what they are shown. `counts`: what was pressed, what was refused. `called`:
    methods of Slack's Web API that the bot has called. `cards`: DM → timestamp of the message with a mail's card.
    `answered`: DM → when the first final answer came. `sent`: when mails arrived. `late_cards`: how many cards still
    showed a button when the last of them arrived. `_looked`: channel → the newest message that was looked at."""

    workspace: Workspace
    mailbox: Mailbox
    presses: bool = False
    acks_ms: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    called: Counter[str] = field(default_factory=Counter)
    cards: dict[str, str] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)
    sent: list[float] = field(default_factory=list)
    late_cards: int = 0
    _looked: dict[str, str] = field(default_factory=dict)
    _pressing: set[asyncio.Task[None]] = field(default_factory=set)
    _dice: random.Random = field(default_factory=lambda: random.Random("town"))

    def __post_init__(self) -> None:
        self.driver = build_hands(self.workspace, recheck_s=0.02)
        self.workspace.changes.listeners.append(self._note_change)
        self._time_acks()

    def _time_acks(self) -> None:
        self.workspace.delivery.carrier = TimedTransport(self.workspace.delivery.carrier, self.acks_ms.append)

    # Orders

    async def list_rooms(self) -> Json:
        """For each person (id, DM, timestamp of something they wrote there). Nobody hears of it, nor of what follows:
        there are no events from now on."""
        ws = self.workspace
        ws.setup = replace(ws.setup, events=frozenset())
        send = self.driver.send_message
        return {"rooms": [(one.id, one.dm_id, await send(one.id, one.dm_id, "hello")) for one in ws.world.people]}

    async def listen(self, url: str) -> Json:
        """The bot is told by HTTP, and people press what it brings."""
        await use_http_delivery(self.workspace, url)
        self._time_acks()
        self.presses = True
        return {}

    async def wait_for_link(self) -> Json:
        await self.driver.wait_for_sockets(timeout=PATIENCE_S)
        return {}

    async def say(self, lines: Said, per_s: float = 0.0) -> Json:
        """Evenly spaced, or at once. Returns when all of it is said: DM → when."""
        said = dict[str, float]()
        async for number in wait_turns(len(lines), per_s):
            person, text = lines[number]
            said[get_dm(person)] = get_time_s()
            await self.driver.send_message(person, get_dm(person), text)
        return said

    async def hear_answers(self, lines: Said) -> Json:
        """The same, and everybody is answered."""
        said = await self.say(lines)
        await self.driver.wait_until(lambda: said.keys() <= self.answered.keys(), PATIENCE_S)
        return {}

    async def ask_for_mails(self, lines: Said) -> Json:
        """Each of these people asks for a mail, and has the card."""
        await self.say(lines)
        await self.driver.wait_until(lambda: len(self.cards) == len(lines), PATIENCE_S)
        return {}

    async def confirm_mails(self, lines: Said, per_s: float, presses_per_s: float = 0.0) -> Json:
        """Every card is pressed, at once or evenly spaced, and meanwhile others say these lines. Returns when every
        mail has arrived and everybody else is answered: `mails_s` since the presses, `answers_s` since each message,
        `acks_ms`, and `late_cards`."""
        self.answered.clear()
        self.acks_ms.clear()
        began, cards = get_time_s(), list(self.cards.items())
        async with asyncio.TaskGroup() as presses:
            async for number in wait_turns(len(cards), presses_per_s):
                presses.create_task(self._press(*cards[number], SEND))
            said = await self.say(lines, per_s)
        await self.driver.wait_until(lambda: len(self.sent) >= len(self.cards), PATIENCE_S)
        await self.driver.wait_until(lambda: said.keys() <= self.answered.keys(), PATIENCE_S)
        times = {
            "mails_s": [at - began for at in self.sent],
            "answers_s": [self.answered[dm] - at for dm, at in said.items()],
        }
        return {**times, "acks_ms": self.acks_ms, "late_cards": self.late_cards, "counts": self.counts}

    async def send_burst(self, events: int, per_s: float, text: str) -> Json:
        """So many messages of people in turn, evenly spaced, whether or not the ones before were acknowledged. They are
        written before, so that the workspace has nothing to do in between but to send them."""
        payloads, times, began = [self._write(n, text) for n in range(events)], list[float | None](), get_time_s()

        async def deliver(payload: Json) -> None:
            sent = get_time_s()
            try:
                await self.workspace.sockets.deliver_payload(DeliveryAttempt("events_api", payload))
                times.append(1000 * (get_time_s() - sent))
            except NotAcknowledgedError:
                times.append(None)

        async with asyncio.TaskGroup() as under_way:
            async for number in wait_turns(events, per_s):
                under_way.create_task(deliver(payloads[number]))
            took_s = get_time_s() - began
        return {"acks_ms": [one for one in times if one], "lost": times.count(None), "per_s": events / took_s}

    def _write(self, number: int, text: str) -> Json:
        """The event of a message that a person writes in their DM."""
        ws = self.workspace
        one = ws.world.people[number % len(ws.world.people)]
        room = ws.state.rooms[one.dm_id]
        if isinstance(ws, FeishuWorkspace):
            written = messages.post_message(ws, room, one.id, "text", {"text": text})
            told = ws.build_event("im.message.receive_v1", messages.build_message_event(ws, room, written))
            return {"event_id": told["header"]["event_id"], "payload": told}
        message = {"type": "message", "user": one.id, "text": text, "ts": ws.create_timestamp(), "team": ws.app.team}
        return build_event_callback(ws.app, build_message_event(message, room))

    async def tell_rest(self) -> Json:
        """Whether everybody has heard and pressed what there is."""
        return {"resting": not (self._pressing or self.workspace.delivery.waiting)}

    async def tell_counts(self) -> Json:
        """What happened since it was asked last."""
        told = {"acks_ms": [*self.acks_ms], "abandoned": len(self.workspace.delivery.abandoned_events)}
        made = get_app_calls(self.workspace).made
        self.called.update(call.method for call in made)
        made.clear()
        self.acks_ms.clear()
        return told | {"counts": {**self.counts, "mails": len(self.mailbox.mails)}, "called": dict(self.called)}

    # What people see and do

    def _note_change(self, change: WorkspaceChange) -> None:
        rooms, channel = self.workspace.state.rooms, change.channel
        if change.what == "mail":
            self.sent.append(get_time_s())
            if len(self.sent) == len(self.cards):
                shown = [list_buttons(self._show(rooms[dm].messages[ts])) for dm, ts in self.cards.items()]
                self.late_cards = sum(map(any, shown))
        if change.what == "messages" and channel in rooms and (found := rooms[channel].messages):
            newest = self._show(found[next(reversed(found))])
            if read_key(newest).endswith(":final"):
                self.answered.setdefault(channel, get_time_s())
            if any(button["action_id"] == SEND for button in list_buttons(newest)):
                self.cards[channel] = newest["ts"]
            if self.presses:
                new = list(takewhile(lambda ts: ts > self._looked.get(channel, ""), reversed(found)))
                self._looked[channel] = next(reversed(found))
                for ts in reversed(new):
                    self._meet_card(channel, found[ts])

    def _show(self, message: Json) -> Json:
        """A message with its blocks and what the bot calls it."""
        return build_shown(message) if isinstance(self.workspace, FeishuWorkspace) else message

    def _meet_card(self, channel: str, message: Json) -> None:
        shown = [str(button["action_id"]) for button in list_buttons(self._show(message))]
        action = next((action for action in shown if action in HABITS), "")
        if not action:
            return
        if int(channel[-5:]) >= DIRECTORS and self._dice.random() > HABITS[action]:
            self.counts["cards forgotten"] += 1
            return
        task = asyncio.create_task(self._press(channel, message["ts"], action))
        self._pressing.add(task)
        task.add_done_callback(self._pressing.discard)

    async def _press(self, channel: str, ts: str, action: str) -> None:
        try:
            done = await self.driver.click_button(get_owner(channel), channel, ts, action)
        except WorkspaceError as refused:
            self.counts[f"not pressed: {refused}"] += 1
            return
        self.counts[action.removeprefix("cs:") if done.ok else f"not heard: {done.error}"] += 1


ORDERS: dict[str, Callable[..., Coroutine[Any, Any, Json]]] = {
    order.__name__: order
    for order in (
        Town.list_rooms, Town.listen, Town.wait_for_link, Town.say, Town.hear_answers, Town.ask_for_mails,
        Town.confirm_mails, Town.send_burst, Town.tell_rest, Town.tell_counts,
    )
}  # fmt: skip


async def serve(count: int) -> None:
    mailbox, world = Mailbox(), replace(read_world(), people=company.build_members(count), rooms=())
    smtp_port = await mailbox.start()
    workspace = open_workspace(DeliveryTiming(), world=world, mailbox=mailbox)
    town = Town(workspace, mailbox)
    async with serve_workspace(workspace) as address:
        where: Json = {"address": address, "smtp": f"smtp://127.0.0.1:{smtp_port}", "team": workspace.app.team}
        print(json.dumps({**where, "chat": company.build_chat_settings(address)}), flush=True)
        async for line in read_lines():
            order = json.loads(line)
            print(json.dumps(await ORDERS[order.pop("do")](town, **order)), flush=True)
    await mailbox.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
