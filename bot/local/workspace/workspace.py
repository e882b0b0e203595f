"""The workspace itself: its memory, its ways to the app, and who is told when something changes."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aiohttp import WSCloseCode, web

from bot.errors import LocalFailed
from bot.local.workspace.delivery import Delivery, Timing
from bot.local.workspace.faults import Faults
from bot.local.workspace.limiter import Limiter
from bot.local.workspace.once import ReplyUrls, Triggers
from bot.local.workspace.payloads import event_callback
from bot.local.workspace.refused import Refused
from bot.local.workspace.signed import SignedHttp
from bot.local.workspace.sockets import Sockets
from bot.local.workspace.state import Shelf, State
from bot.local.workspace.world import Json, Person, Room, World, read_world

SCOPES = frozenset(
    {
        *("app_mentions:read", "channels:history", "channels:read", "chat:write", "commands", "files:write"),
        *("groups:history", "groups:read", "im:history", "im:read", "im:write", "reactions:read"),
        *("reactions:write", "team:read", "users:read", "users:read.email", "users.profile:read"),
    }
)
EVENTS = frozenset({"app_home_opened", "app_mention", "message.channels", "message.groups", "message.im"})


@dataclass(frozen=True, slots=True)
class Setup:
    """How the app is installed: what it may do, and what it is sent."""

    bot_token: str = field(repr=False)
    app_token: str = field(repr=False)
    signing_secret: str = field(default="", repr=False)
    commands: tuple[str, ...] = ("/countersign",)
    scopes: frozenset[str] = SCOPES
    events: frozenset[str] = EVENTS
    """Event subscriptions, named as in the app's manifest."""
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True, slots=True)
class Change:
    """Something people may see has changed. `what`: messages, private, views, home, mail, people, channels; `calls` and
    `acks` are for tests only. `person` and `channel` narrow it down where they are known."""

    what: str
    channel: str = ""
    person: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A Web API call the app made. `error` is empty when it succeeded."""

    method: str
    args: Json
    error: str = ""


@dataclass(frozen=True, slots=True)
class Standin:
    """An outside service replaced on this machine, for the page to say so."""

    name: str
    note: str


@dataclass(slots=True)
class File:
    """`content` is None until it was uploaded; `rooms` are those it was shared in."""

    name: str
    length: int
    alt: str
    id: str = field(default_factory=lambda: "F" + secrets.token_hex(5).upper())
    key: str = field(default_factory=lambda: secrets.token_hex(16))
    """What the upload URL ends in: nobody else knows it."""
    content: bytes | None = None
    rooms: set[str] = field(default_factory=set)


class Mailbox(Protocol):
    """The local mail sink. Each mail has id, at, from, to, subject, body, message_id; newest last."""

    on_change: Callable[[Json], None] | None

    @property
    def mails(self) -> Sequence[Json]: ...


class Changes:
    """Who wants to know of changes, and a bell for those who wait for the next one."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[Change], None]] = []
        self.bell = asyncio.Event()

    def tell(self, change: Change) -> None:
        for listener in list(self.listeners):
            listener(change)
        self.bell.set()
        self.bell = asyncio.Event()


class Workspace:
    """One team with one app. Give `folder` to keep it across restarts; `close` it in the end."""

    def __init__(
        self,
        setup: Setup,
        *,
        world: World | None = None,
        folder: Path | None = None,
        mailbox: Mailbox | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.setup, self.clock, self.mailbox = setup, clock, mailbox
        self.world = world or read_world()
        self.app = self.world.app
        self.address = ""
        """`http://host:port` this workspace is served at."""
        self.standins: tuple[Standin, ...] = ()
        self.calls: deque[Call] = deque(maxlen=10_000)
        self.lines: deque[Json] = deque(maxlen=200)
        """The latest log lines."""
        self.line_listeners: list[Callable[[Json], None]] = []
        self.files: dict[str, File] = {}
        self.feeds: set[web.WebSocketResponse] = set()
        """Open live feeds of pages."""
        self.changes, self.faults = Changes(), Faults()
        self.limiter = Limiter(clock)
        self.triggers = Triggers(clock, setup.timing.trigger)
        self.reply_urls = ReplyUrls(clock, setup.timing.reply_url)
        self.shelf = Shelf(folder, setup.timing.save)
        self.state: State = self.shelf.restore(self.world)
        self.sockets = Sockets(self.app, setup.timing, self.faults, self._acked)
        self.delivery = Delivery(self.sockets, setup.timing, self.state.waiting, self._acked)

    def _acked(self) -> None:
        self.tell("acks")

    def tell(self, what: str, channel: str = "", person: str = "") -> None:
        if what not in ("calls", "mail"):
            self.shelf.soon(lambda: self.state)
        self.changes.tell(Change(what, channel, person))

    def log(self, line: Json) -> None:
        """Show a line in the page's log pane."""
        self.lines.append(line)
        for listener in list(self.line_listeners):
            listener(line)

    def stamp(self) -> str:
        return self.state.stamp(self.clock())

    def person(self, id: str) -> Person:
        """A person of the workspace. `Refused` when there is none, or it is the bot."""
        person = self.state.people.get(id)
        if person is None or person.is_bot or person.deleted:
            raise Refused("user_not_found")
        return person

    def room_with(self, channel: str, person: str) -> Room:
        """The room, which the person must be in."""
        room = self.state.rooms.get(channel)
        if room is None:
            raise Refused("channel_not_found")
        if person not in room.members:
            raise Refused("not_in_channel")
        return room

    def send_event(self, subscription: str, event: Json) -> str:
        """Deliver an event if the app subscribed to it; its event id, empty when it did not."""
        if subscription not in self.setup.events:
            return ""
        payload = event_callback(self.app, event, self.clock())
        room = self.state.rooms.get(str(event.get("channel", "")))
        payload["is_ext_shared_channel"] = room is not None and room.is_ext_shared
        self.delivery.event(payload)
        return str(payload["event_id"])

    async def deliver_by_http(self, url: str) -> None:
        """Deliver to a request URL from now on, after the handshake. `LocalFailed` when the URL does not answer it."""
        carrier = SignedHttp(url, self.setup.signing_secret, self.setup.timing, self.faults)
        self.delivery.carrier = carrier
        if not await carrier.verify():
            raise LocalFailed(f"{url} did not answer the url_verification challenge")

    def started(self, address: str) -> None:
        """To be called once the server listens, in its loop."""
        self.address = address
        self.delivery.resume()
        if self.mailbox is not None:
            self.mailbox.on_change = lambda mail: self.tell("mail")

    async def close(self) -> None:
        await self.delivery.close()
        await self.sockets.close()
        await asyncio.gather(*(feed.close(code=WSCloseCode.GOING_AWAY) for feed in list(self.feeds)))
        await self.shelf.close(self.state)
