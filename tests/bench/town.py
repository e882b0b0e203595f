"""The local workspace and a mailbox for a company whose people write, press and forget, in a process of its own.

Run as `python -m tests.bench.town PEOPLE`: prints where it is as JSON; then does what it is told, a line of JSON each,
and answers with one; ends when its input ends."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path

from bot.local.mailbox import Mailbox
from bot.local.workspace import acts
from bot.local.workspace.refused import WorkspaceError
from bot.local.workspace.workspace import EVENTS, Workspace, WorkspaceChange, WorkspaceSetup
from bot.local.workspace.world import Json, WorkspaceMember, read_world
from tests.bench.lines import lines
from tests.bench.workspace import TimedTransport, serving

BOT_TOKEN, SIGNING_SECRET = "xoxb-local-town", "town-signing-secret"
DIRECTORS, TEAM = 3, 12
"""The first people are directors; then every twelfth one leads a team."""
LOOK_S = 0.05
"""How often people look for new cards."""
HABITS: dict[str, tuple[str, float]] = {
    "confirm": ("confirm", 0.94),
    "send": ("send", 0.94),
    "approve": ("approve", 0.85),
}
"""By a button of a card: which one is pressed, and how often; otherwise the card is forgotten."""


def build_person_id(number: int) -> str:
    return f"U0P{number:05d}"


def get_manager(number: int) -> int:
    """Directors have each other, leads a director, everybody else their team's lead."""
    if number < DIRECTORS or number % TEAM == DIRECTORS:
        return (number + 1) % DIRECTORS
    lead = (number - DIRECTORS) // TEAM * TEAM + DIRECTORS
    return lead if lead >= DIRECTORS else 0


def build_directory(count: int) -> str:
    """The directory file: who leads whom."""
    return "\n".join(map(_describe_person, range(count)))


def build_variables(folder: Path, people: int, where: Json, redis_url: str, model: str) -> dict[str, str]:
    """The settings of a bot for so many people: where everything is. Its own files lie in the folder."""
    directory = folder / "directory.toml"
    directory.write_text(build_directory(people), encoding="utf-8")
    return {
        "SLACK_API_URL": where["api"],
        "OPENAI_BASE_URL": f"{model}/v1",
        "OPENAI_MODEL": "scripted",
        "OPENAI_API_KEY": "none",
        "SMTP_URL": where["smtp"],
        "REDIS_URL": redis_url,
        "DATA_DIR": str(folder / "data"),
        "DIRECTORY_FILE": str(directory),
        "LOG_LEVEL": "WARNING",
        "LOG_FORMAT": "json",
    }


def _describe_person(number: int) -> str:
    roles = '["director", "finance"]' if number < DIRECTORS else "[]"
    mail, manager = (f"p{n}@example.com" for n in (number, get_manager(number)))
    return f'[[person]]\nemail = "{mail}"\nmanager = "{manager}"\nroles = {roles}'


def build_members(count: int) -> tuple[WorkspaceMember, ...]:
    return tuple(
        WorkspaceMember(
            build_person_id(n), f"p{n}", f"Person {n}", email=f"p{n}@example.com",
            locale="zh-CN" if n % 3 else "en-US", tz="Asia/Shanghai",
        )
        for n in range(count)
    )  # fmt: skip


@dataclass
class Town:
    """`counts`: what was pressed, what was refused."""

    workspace: Workspace
    mailbox: Mailbox
    acks_ms: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    called: Counter[str] = field(default_factory=Counter)
    """Methods of Slack's Web API that the bot has called."""
    _changed: set[str] = field(default_factory=set)
    """Channels that nobody has looked at since."""
    _looked: dict[str, str] = field(default_factory=dict)
    """Channel → the newest message that was looked at."""
    _pressing: set[asyncio.Task[None]] = field(default_factory=set)
    _dice: random.Random = field(default_factory=lambda: random.Random("town"))

    async def carry_out(self, order: Json) -> Json:
        match order["do"]:
            case "listen":
                await self.workspace.use_http_delivery(order["url"])
                delivery = self.workspace.delivery
                delivery.carrier = TimedTransport(delivery.carrier, lambda _, ms: self.acks_ms.append(ms))
                self.workspace.changes.listeners.append(self._note_change)
                return {}
            case "say":
                return await self.say_lines(order["lines"], order["per_s"])
            case "rest":
                return self.tell_rest()
            case "told":
                return self.tell_counts()
        raise ValueError(order)

    async def say_lines(self, said: Sequence[Sequence[str]], per_s: float) -> Json:
        """Each a person and a text, evenly spaced. Returns when all of it is said."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number, (person, text) in enumerate(said):
            if (wait_s := began + number / per_s - loop.time()) > 0:
                await asyncio.sleep(wait_s)
            acts.send_message(self.workspace, person, f"D{person[1:]}", text)
        return {}

    def tell_rest(self) -> Json:
        """Whether everybody has heard and pressed what there is."""
        return {"resting": not (self._changed or self._pressing or self.workspace.delivery.waiting)}

    def tell_counts(self) -> Json:
        """What happened since it was asked last."""
        told = {"acks_ms": [*self.acks_ms], "abandoned": len(self.workspace.delivery.abandoned_events)}
        self.called.update(call.method for call in self.workspace.calls)
        self.workspace.calls.clear()
        counts = {**self.counts, "mails": len(self.mailbox.mails)}
        self.acks_ms.clear()
        return told | {"counts": counts, "called": dict(self.called)}

    def _note_change(self, change: WorkspaceChange) -> None:
        if change.what == "messages":
            self._changed.add(change.channel)

    async def press_cards(self) -> None:
        """Until cancelled."""
        while True:
            changed, self._changed = self._changed, set()
            for channel in changed:
                for message in self._list_new_messages(channel):
                    self._meet_card(channel, message)
            await asyncio.sleep(LOOK_S)

    def _list_new_messages(self, channel: str) -> list[Json]:
        messages = self.workspace.state.rooms[channel].messages
        new = list(takewhile(lambda ts: ts > self._looked.get(channel, ""), reversed(messages)))
        self._looked[channel] = next(reversed(messages), "")
        return [messages[ts] for ts in reversed(new)]

    def _meet_card(self, channel: str, message: Json) -> None:
        shown = {element["action_id"].removeprefix("cs:"): element for element in list_card_buttons(message)}
        for name, (choice, chance) in HABITS.items():
            if name in shown:
                if not _is_director(channel) and self._dice.random() > chance:
                    self.counts["cards forgotten"] += 1
                    return
                task = asyncio.create_task(self._press(channel, message["ts"], shown[choice]["action_id"]))
                self._pressing.add(task)
                task.add_done_callback(self._pressing.discard)
                return

    async def _press(self, channel: str, ts: str, action: str) -> None:
        try:
            done = await acts.click_button(self.workspace, f"U{channel[1:]}", channel, ts, action)
        except WorkspaceError as refused:
            self.counts[f"not pressed: {refused}"] += 1
            return
        self.counts[action.removeprefix("cs:") if done.ok else f"not heard: {done.error}"] += 1


def _is_director(channel: str) -> bool:
    """Whose DM it is."""
    return int(channel[3:]) < DIRECTORS


def list_card_buttons(message: Json) -> Iterator[Json]:
    for block in message.get("blocks") or ():
        for element in block.get("elements", ()):
            if element.get("type") == "button" and str(element.get("action_id", "")).startswith("cs:"):
                yield element


async def serve(count: int) -> None:
    mailbox = Mailbox()
    smtp_port = await mailbox.start()
    world = replace(read_world(), people=build_members(count), channels=())
    setup = WorkspaceSetup(BOT_TOKEN, "", SIGNING_SECRET, events=EVENTS)
    town = Town(Workspace(setup, world=world, mailbox=mailbox), mailbox)
    async with serving(town.workspace) as address:
        pressing = asyncio.create_task(town.press_cards())
        print(json.dumps({"api": f"{address}/api/", "smtp": f"smtp://127.0.0.1:{smtp_port}"}), flush=True)
        async for line in lines():
            print(json.dumps(await town.carry_out(json.loads(line))), flush=True)
        pressing.cancel()
    await mailbox.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
