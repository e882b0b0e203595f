"""The local workspace and a mailbox for people who confirm their mails in one moment, and for others who just write.

Run as `python -m tests.bench.senders PEOPLE`: prints where it is as JSON; then does what it is told, a line of JSON
each, and answers with one; ends when its input ends."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bot.local.mailbox import Mailbox
from bot.local.workspace import acts
from bot.local.workspace.workspace import EVENTS, Workspace, WorkspaceChange, WorkspaceSetup
from bot.local.workspace.world import Json, read_world
from tests.bench.lines import lines
from tests.bench.town import build_members, list_card_buttons
from tests.bench.workspace import TimedTransport, read_key, serving

BOT_TOKEN, APP_TOKEN = "xoxb-local-senders", "xapp-local-senders"
SEND = "cs:send"
PATIENCE_S = 120.0


@dataclass
class Senders:
    """Times are seconds of the event loop's clock."""

    workspace: Workspace
    acks_ms: list[float] = field(default_factory=list)
    cards: dict[str, str] = field(default_factory=dict)
    """DM → timestamp of the message with the card."""
    answered: dict[str, float] = field(default_factory=dict)
    """DM → when the first final answer came."""
    sent: list[float] = field(default_factory=list)
    """When mails arrived."""
    late_cards: int = 0
    """How many cards still showed a button when the last of them arrived."""

    def __post_init__(self) -> None:
        self.workspace.changes.listeners.append(self._note_change)
        self.workspace.delivery.carrier = TimedTransport(self.workspace.sockets, lambda _, ms: self.acks_ms.append(ms))

    @staticmethod
    def get_time_s() -> float:
        return asyncio.get_running_loop().time()

    def _note_change(self, change: WorkspaceChange) -> None:
        if change.what == "mail":
            self.sent.append(self.get_time_s())
            self.late_cards = sum(map(self._shows_button, self.cards.items()))
        if change.what != "messages" or change.channel not in self.workspace.state.rooms:
            return
        messages = self.workspace.state.rooms[change.channel].messages
        ts = next(reversed(messages), "")
        if not ts:
            return
        if any(button["action_id"] == SEND for button in list_card_buttons(messages[ts])):
            self.cards[change.channel] = ts
        if read_key(messages[ts]).endswith(":final"):
            self.answered.setdefault(change.channel, self.get_time_s())

    async def carry_out(self, order: Json) -> Json:
        match order["do"]:
            case "link":
                await self._wait_until(lambda: bool(self.workspace.sockets.list_live_links()))
                return {}
            case "ask":
                return await self.request_mails(order["lines"])
            case "confirm":
                return await self.confirm_mails(order["lines"], order["per_s"])
        raise ValueError(order)

    async def request_mails(self, said: Sequence[Sequence[str]]) -> Json:
        """Each of these people asks for a mail; returns when each has the card."""
        for person, text in said:
            acts.send_message(self.workspace, person, f"D{person[1:]}", text)
        await self._wait_until(lambda: len(self.cards) == len(said))
        return {}

    async def confirm_mails(self, said: Sequence[Sequence[str]], per_s: float) -> Json:
        """Every card is pressed at once, and meanwhile others say these lines, evenly spaced. Returns when every
        mail has arrived and everybody else is answered: `mails_s` since the presses, `answers_s` since each message,
        `acks_ms`, and `late_cards`."""
        self.answered.clear()
        self.acks_ms.clear()
        began = self.get_time_s()
        presses = [
            asyncio.create_task(acts.click_button(self.workspace, f"U{dm[1:]}", dm, ts, SEND))
            for dm, ts in self.cards.items()
        ]
        written = await self._say_lines(said, per_s, began)
        await asyncio.gather(*presses)
        await self._wait_until(lambda: len(self.sent) >= len(presses))
        await self._wait_until(lambda: written.keys() <= self.answered.keys())
        return {
            "mails_s": [at - began for at in self.sent],
            "answers_s": [self.answered[dm] - at for dm, at in written.items()],
            "acks_ms": self.acks_ms,
            "late_cards": self.late_cards,
        }

    async def _say_lines(self, said: Sequence[Sequence[str]], per_s: float, began: float) -> dict[str, float]:
        """DM → when something was written there."""
        written = dict[str, float]()
        for number, (person, text) in enumerate(said):
            await asyncio.sleep(max(0.0, began + number / per_s - self.get_time_s()))
            dm = f"D{person[1:]}"
            written[dm] = self.get_time_s()
            acts.send_message(self.workspace, person, dm, text)
        return written

    def _shows_button(self, card: tuple[str, str]) -> bool:
        dm, ts = card
        return any(list_card_buttons(self.workspace.state.rooms[dm].messages[ts]))

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():
                await asyncio.sleep(0.01)


async def serve(count: int) -> None:
    mailbox = Mailbox()
    smtp_port = await mailbox.start()
    world = replace(read_world(), people=build_members(count), channels=())
    setup = WorkspaceSetup(BOT_TOKEN, APP_TOKEN, events=EVENTS)
    senders = Senders(Workspace(setup, world=world, mailbox=mailbox))
    async with serving(senders.workspace) as address:
        print(json.dumps({"api": f"{address}/api/", "smtp": f"smtp://127.0.0.1:{smtp_port}"}), flush=True)
        async for line in lines():
            print(json.dumps(await senders.carry_out(json.loads(line))), flush=True)
    await mailbox.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
