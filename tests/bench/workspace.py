"""The local workspace with as many people as a benchmark needs, in a process of its own, with no page open.

Run as `python -m tests.bench.workspace PEOPLE`: prints where it is as JSON; then does what it is told, a line of JSON
each, and answers with one; ends when its input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web

from bot.local.workspace import acts, server
from bot.local.workspace.delivery import AppTransport, DeliveryAttempt, NotAcknowledgedError
from bot.local.workspace.payloads import build_event_callback, build_message_event
from bot.local.workspace.workspace import EVENTS, Workspace, WorkspaceChange, WorkspaceSetup
from bot.local.workspace.world import Json, WorkspaceMember, read_world
from tests.bench.lines import lines

BOT_TOKEN, APP_TOKEN = "xoxb-local-bench", "xapp-local-bench"
QUESTION = "Who of Person 1 to Person 6 is at work today?"
PATIENCE_S = 30.0


def people(count: int) -> tuple[WorkspaceMember, ...]:
    return tuple(
        WorkspaceMember(f"U{n:07d}", f"p{n}", f"Person {n}", email=f"p{n}@example.com", locale="en-US")
        for n in range(count)
    )


@dataclass(frozen=True)
class TimedTransport:
    """A way to the bot that tells `note` of each acknowledgement: what was delivered, and how long it took (ms)."""

    way: AppTransport
    note: Callable[[DeliveryAttempt, float], None]

    def is_ready(self) -> bool:
        return self.way.is_ready()

    async def wait_until_ready(self) -> None:
        await self.way.wait_until_ready()

    async def deliver_payload(self, parcel: DeliveryAttempt) -> Json:
        began = time.perf_counter()
        answer = await self.way.deliver_payload(parcel)
        self.note(parcel, 1000 * (time.perf_counter() - began))
        return answer

    async def close(self) -> None:
        await self.way.close()


@dataclass
class Watched:
    """A workspace, and when things happened in it (monotonic seconds, the same clock for every process)."""

    workspace: Workspace
    linked: float = 0.0
    """When the first socket was open."""
    acked: dict[str, float] = field(default_factory=dict)
    """Timestamp of a message → when its event was acknowledged."""

    def __post_init__(self) -> None:
        self.workspace.changes.listeners.append(self._look)
        self.workspace.delivery.carrier = TimedTransport(self.workspace.sockets, self._note_ack)

    def _note_ack(self, parcel: DeliveryAttempt, ms: float) -> None:
        self.acked[parcel.payload["event"]["ts"]] = time.monotonic()

    def _look(self, _: WorkspaceChange) -> None:
        if not self.linked and self.workspace.sockets.list_live_links():
            self.linked = time.monotonic()

    async def until(self, true: Any) -> None:
        """Waits for a change after which this is so."""
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                await self.workspace.changes.next_change.wait()

    async def told(self, order: Json) -> Json:
        match order["do"]:
            case "link":
                await self.until(lambda: self.linked)
                return {"at": self.linked}
            case "burst":
                return await self.burst(order["events"], order["per_s"])
            case "first":
                return await self.first(order["person"])
        raise ValueError(order)

    async def burst(self, events: int, per_s: float) -> Json:
        """So many messages of people in turn, evenly spaced, whether or not the ones before were acknowledged. They are
        written before, so that the workspace has nothing to do in between but to send them."""
        payloads, loop = [self._written(number) for number in range(events)], asyncio.get_running_loop()
        began, times = loop.time(), list[float | None]()

        async def brought(payload: Json) -> None:
            sent = time.monotonic()
            try:
                await self.workspace.sockets.deliver_payload(DeliveryAttempt("events_api", payload))
                times.append(1000 * (time.monotonic() - sent))
            except NotAcknowledgedError:
                times.append(None)

        async with asyncio.TaskGroup() as under_way:
            for number, payload in enumerate(payloads):
                if (wait := began + number / per_s - loop.time()) > 0:
                    await asyncio.sleep(wait)
                under_way.create_task(brought(payload))
            took = loop.time() - began
        return {"acks_ms": [one for one in times if one], "lost": times.count(None), "per_s": events / took}

    def _written(self, number: int) -> Json:
        """The event of a message that a person writes in their DM."""
        ws = self.workspace
        one = ws.world.people[number % len(ws.world.people)]
        message = {
            "type": "message",
            "user": one.id,
            "text": QUESTION,
            "ts": ws.create_timestamp(),
            "team": ws.app.team,
        }
        return build_event_callback(ws.app, build_message_event(message, ws.state.rooms[one.dm_id]), ws.clock())

    async def first(self, number: int) -> Json:
        """One message and what came of it: when it was said, acknowledged, and first answered."""
        one, ws = self.workspace.world.people[number], self.workspace
        posted, room = list[float](), ws.state.rooms[one.dm_id]
        before = len(room.messages)

        def look(change: WorkspaceChange) -> None:
            if change.what == "messages" and change.channel == one.dm_id and len(room.messages) > before + 1:
                posted.append(time.monotonic())

        ws.changes.listeners.append(look)
        began = time.monotonic()
        ts = acts.send_message(ws, one.id, one.dm_id, QUESTION)
        await self.until(lambda: any(read_key(m).endswith(":final") for m in room.messages.values()))
        ws.changes.listeners.remove(look)
        return {"said": began, "acked": self.acked[ts], "posted": posted[0]}


def read_key(message: Json) -> str:
    return str((message.get("metadata") or {}).get("event_payload", {}).get("key", ""))


def furnished(count: int) -> tuple[Workspace, list[tuple[str, str, str]]]:
    """A workspace, and for each person (id, DM, timestamp of something they wrote there before anybody listened)."""
    world = replace(read_world(), people=people(count), channels=())
    workspace = Workspace(WorkspaceSetup(BOT_TOKEN, APP_TOKEN, events=frozenset()), world=world)
    rooms = [(one.id, one.dm_id, acts.send_message(workspace, one.id, one.dm_id, "hello")) for one in world.people]
    return workspace, rooms


@asynccontextmanager
async def serving(workspace: Workspace) -> AsyncIterator[str]:
    site = web.Application()
    site.add_routes(server.build_routes(workspace))
    runner = web.AppRunner(site, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    workspace.start_delivery(address)
    yield address
    await workspace.close()
    await runner.cleanup()


async def serve(count: int, events: bool) -> None:
    workspace, rooms = furnished(count)
    if events:
        workspace.setup = replace(workspace.setup, events=EVENTS)
    watched = Watched(workspace)
    async with serving(workspace) as address:
        where = {"api": f"{address}/api/", "bot_token": BOT_TOKEN, "app_token": APP_TOKEN, "team": workspace.app.team}
        print(json.dumps({**where, "rooms": rooms}), flush=True)
        async for line in lines():
            print(json.dumps(await watched.told(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), "--events" in sys.argv))
