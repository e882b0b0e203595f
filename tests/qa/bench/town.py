"""The local workspace and a mailbox for a company whose people write, press and forget, in a process of its own.

Run as `python -m tests.qa.bench.town PEOPLE`: prints where it is as JSON; then does what it is told (`ORDERS`), a line
of JSON each, and answers with one; ends when its input ends. Times are seconds of the event loop's clock."""

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from bot.dev.mailbox import Mailbox
from bot.dev.workspace.delivery import AppTransport, DeliveryAttempt, NotAcknowledgedError
from bot.dev.workspace.feishu import messages
from bot.dev.workspace.feishu.workspace import FeishuWorkspace
from bot.dev.workspace.feishu.world import APP_ID, FeishuSetup
from bot.dev.workspace.payloads import build_event_callback, build_message_event
from bot.dev.workspace.refused import WorkspaceError
from bot.dev.workspace.workspace import Workspace, WorkspaceChange, WorkspaceSetup
from bot.dev.workspace.world import Json, read_world
from tests.harness.app_calls import get_app_calls
from tests.harness.card_blocks import build_shown
from tests.harness.hands import build_hands
from tests.harness.http_delivery import use_http_delivery
from tests.harness.office import CHAT
from tests.harness.workspace_server import serve_workspace
from tests.qa.company import DIRECTORS, build_directory_file, build_members, get_dm, get_owner, list_buttons, read_key
from tests.qa.process import read_lines

BOT_TOKEN, APP_TOKEN, SIGNING_SECRET = "xoxb-local-town", "xapp-local-town", "town-signing-secret"
SEND = "cs:send"
PATIENCE_S = 120.0
HABITS = {"confirm": 0.94, "send": 0.94, "approve": 0.85}
"""By a button of a card: how often it is pressed; otherwise the card is forgotten."""
FEISHU = {"API_URL": "url", "APP_ID": "app_id", "APP_SECRET": "secret"}
"""A setting's end → what it is called where the town says where it is."""
Said = Sequence[Sequence[str]]
"""Persons, and what each of them writes."""


def build_variables(folder: Path, people: int, where: Json, redis_url: str, model: str) -> dict[str, str]:
    """The settings of a bot for so many people: where everything is. Its own files lie in the folder."""
    directory = folder / "directory.toml"
    directory.write_text(build_directory_file(people), encoding="utf-8")
    slack = {"SLACK_API_URL": where["api"], "SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
    app = where.get("feishu", {})
    feishu = {f"FEISHU_{name}": app[key] for name, key in FEISHU.items()} if app else {}
    return {
        **(feishu or slack),
        "OPENAI_BASE_URL": f"{model}/v1",
        "OPENAI_MODEL": "scripted",
        "OPENAI_API_KEY": "none",
        "SMTP_URL": where["smtp"],
        "REDIS_URL": redis_url,
        "DATA_DIR": str(folder / "data"),
        "DIRECTORY_FILE": str(directory),
        "LOG_LEVEL": "ERROR",  # nobody reads its output, and a full pipe would stop it
        "LOG_FORMAT": "json",
    }


@dataclass(frozen=True)
class TimedTransport:
    """A way to the bot that tells `note` how long each acknowledgement took (ms)."""

    way: AppTransport
    note: Callable[[float], None]

    def is_ready(self) -> bool:
        return self.way.is_ready()

    async def wait_until_ready(self) -> None:
        await self.way.wait_until_ready()

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        began = asyncio.get_running_loop().time()
        answer = await self.way.deliver_payload(parcel)
        self.note(1000 * (asyncio.get_running_loop().time() - began))
        return answer

    async def close(self) -> None:
        await self.way.close()


@dataclass
class Town:
    """`counts`: what was pressed, what was refused."""

    workspace: Workspace
    mailbox: Mailbox
    presses: bool = False
    """Whether people press what they are shown."""
    acks_ms: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    called: Counter[str] = field(default_factory=Counter)
    """Methods of Slack's Web API that the bot has called."""
    cards: dict[str, str] = field(default_factory=dict)
    """DM → timestamp of the message with a mail's card."""
    answered: dict[str, float] = field(default_factory=dict)
    """DM → when the first final answer came."""
    sent: list[float] = field(default_factory=list)
    """When mails arrived."""
    late_cards: int = 0
    """How many cards still showed a button when the last of them arrived."""
    _looked: dict[str, str] = field(default_factory=dict)
    """Channel → the newest message that was looked at."""
    _pressing: set[asyncio.Task[None]] = field(default_factory=set)
    _dice: random.Random = field(default_factory=lambda: random.Random("town"))

    def __post_init__(self) -> None:
        self.driver = build_hands(self.workspace, recheck_s=0.02)
        self.workspace.changes.listeners.append(self._note_change)
        self._time_acks()

    def _time_acks(self) -> None:
        self.workspace.delivery.carrier = TimedTransport(self.workspace.delivery.carrier, self.acks_ms.append)

    @staticmethod
    def get_time_s() -> float:
        return asyncio.get_running_loop().time()

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
        began, said = self.get_time_s(), dict[str, float]()
        for number, (person, text) in enumerate(lines):
            if per_s:
                await asyncio.sleep(max(0.0, began + number / per_s - self.get_time_s()))
            said[get_dm(person)] = self.get_time_s()
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
        began = self.get_time_s()
        async with asyncio.TaskGroup() as presses:
            for number, (dm, ts) in enumerate(self.cards.items()):
                if presses_per_s:
                    await asyncio.sleep(max(0.0, began + number / presses_per_s - self.get_time_s()))
                presses.create_task(self._press(dm, ts, SEND))
            said = await self.say(lines, per_s)
        await self.driver.wait_until(lambda: len(self.sent) >= len(self.cards), PATIENCE_S)
        await self.driver.wait_until(lambda: said.keys() <= self.answered.keys(), PATIENCE_S)
        return {
            "mails_s": [at - began for at in self.sent],
            "answers_s": [self.answered[dm] - at for dm, at in said.items()],
            "acks_ms": self.acks_ms,
            "late_cards": self.late_cards,
            "counts": self.counts,
        }

    async def send_burst(self, events: int, per_s: float, text: str) -> Json:
        """So many messages of people in turn, evenly spaced, whether or not the ones before were acknowledged. They are
        written before, so that the workspace has nothing to do in between but to send them."""
        payloads, times, began = [self._write(n, text) for n in range(events)], list[float | None](), self.get_time_s()

        async def deliver(payload: Json) -> None:
            sent = self.get_time_s()
            try:
                await self.workspace.sockets.deliver_payload(DeliveryAttempt("events_api", payload))
                times.append(1000 * (self.get_time_s() - sent))
            except NotAcknowledgedError:
                times.append(None)

        async with asyncio.TaskGroup() as under_way:
            for number, payload in enumerate(payloads):
                if (wait_s := began + number / per_s - self.get_time_s()) > 0:
                    await asyncio.sleep(wait_s)
                under_way.create_task(deliver(payload))
            took_s = self.get_time_s() - began
        return {"acks_ms": [one for one in times if one], "lost": times.count(None), "per_s": events / took_s}

    def _write(self, number: int, text: str) -> Json:
        """The event of a message that a person writes in their DM."""
        ws = self.workspace
        one = ws.world.people[number % len(ws.world.people)]
        if isinstance(ws, FeishuWorkspace):
            room = ws.state.rooms[one.dm_id]
            written = messages.post_message(ws, room, one.id, "text", {"text": text})
            told = messages.build_event(ws, "im.message.receive_v1", messages.build_message_event(ws, room, written))
            return {"event_id": told["header"]["event_id"], "payload": told}
        message = {"type": "message", "user": one.id, "text": text, "ts": ws.create_timestamp(), "team": ws.app.team}
        return build_event_callback(ws.app, build_message_event(message, ws.state.rooms[one.dm_id]), ws.clock())

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
        if change.what == "mail":
            self.sent.append(self.get_time_s())
            if len(self.sent) == len(self.cards):
                rooms = self.workspace.state.rooms
                self.late_cards = sum(
                    any(list_buttons(self._show(rooms[dm].messages[ts]))) for dm, ts in self.cards.items()
                )
        room = self.workspace.state.rooms.get(change.channel)
        if change.what == "messages" and room and room.messages:
            newest = self._show(room.messages[next(reversed(room.messages))])
            if read_key(newest).endswith(":final"):
                self.answered.setdefault(change.channel, self.get_time_s())
            if any(button["action_id"] == SEND for button in list_buttons(newest)):
                self.cards[change.channel] = newest["ts"]
            if self.presses:
                for message in self._list_new_messages(change.channel, room.messages):
                    self._meet_card(change.channel, message)

    def _show(self, message: Json) -> Json:
        """A message with its blocks and what the bot calls it."""
        return build_shown(message) if isinstance(self.workspace, FeishuWorkspace) else message

    def _list_new_messages(self, channel: str, messages: dict[str, Json]) -> list[Json]:
        new = list(takewhile(lambda ts: ts > self._looked.get(channel, ""), reversed(messages)))
        self._looked[channel] = next(reversed(messages), "")
        return [messages[ts] for ts in reversed(new)]

    def _meet_card(self, channel: str, message: Json) -> None:
        shown = [str(button["action_id"]) for button in list_buttons(self._show(message))]
        action = next((action for action in shown if action.removeprefix("cs:") in HABITS), "")
        if not action:
            return
        if int(channel[-5:]) >= DIRECTORS and self._dice.random() > HABITS[action.removeprefix("cs:")]:
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
    mailbox = Mailbox()
    smtp_port = await mailbox.start()
    world = replace(read_world(), people=build_members(count), channels=())
    workspace = (
        FeishuWorkspace(FeishuSetup(app_secret=SIGNING_SECRET), world=world, mailbox=mailbox)
        if CHAT == "feishu"
        else Workspace(WorkspaceSetup(BOT_TOKEN, APP_TOKEN, SIGNING_SECRET), world=world, mailbox=mailbox)
    )
    town = Town(workspace, mailbox)
    async with serve_workspace(town.workspace) as address:
        where: Json = {
            "api": f"{address}/api/",
            "smtp": f"smtp://127.0.0.1:{smtp_port}",
            "team": town.workspace.app.team,
        }
        if CHAT == "feishu":
            where["feishu"] = {"url": address, "app_id": APP_ID, "secret": SIGNING_SECRET}
        print(json.dumps({**where, "bot_token": BOT_TOKEN, "app_token": APP_TOKEN}), flush=True)
        async for line in read_lines():
            order = json.loads(line)
            print(json.dumps(await ORDERS[order.pop("do")](town, **order)), flush=True)
    await mailbox.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
